/* Rendezvous: which workers are there, when they are enough, and their answers. A request takes a seat at its
 * rendezvous; seats are found by request, rendezvous by name. A rendezvous that is being answered has left the table of
 * names, so a request that comes meanwhile begins the next one. */
#include "common/core/cluster/rendezvous_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"

struct rendezvous_seat {
    uint64_t conn_id;
    struct rendezvous_group *group; /* NULL: ousted */
    uint32_t task, ranks_min, settle_ms;
    uint64_t incarnation, attempt, epoch;
    uint64_t since_ms, deadline_ms;
    bool left;       /* while its rendezvous was being answered */
    enum ps_err why; /* of an ousted request */
    const char *why_text;
    struct rendezvous_seat *prev, *next; /* ousted */
    UT_hash_handle hh;
    char *address;
    char host[]; /* then the address */
};

struct rendezvous_group {
    enum rendezvous_group_state state;
    uint32_t workers, len;
    uint32_t answered;                        /* RENDEZVOUS_ANSWERING: tasks below this */
    uint64_t last_ms;                         /* when the last one came */
    struct rendezvous_seat **seats;           /* [workers], by task; NULL: not there */
    uint8_t came[RENDEZVOUS_WORKERS_MAX / 8]; /* a bit for each that was there at some time */
    UT_hash_handle hh;
    char name[];
};

void
rendezvous_core_init(struct rendezvous_core *m, const char *where, uint32_t host_task, uint64_t seed)
{
    *m = (struct rendezvous_core){.where = where, .host_task = host_task, .seed = seed, .due_ms = UINT64_MAX};
}

/* ---- Seats and rendezvous ---- */

static struct rendezvous_seat *
seat_new(const struct rendezvous_request *g, uint64_t now_ms)
{
    size_t host = strlen(g->host) + 1, address = strlen(g->address) + 1;
    struct rendezvous_seat *s = calloc(1, sizeof *s + host + address);

    if (s == NULL)
        return NULL;
    s->conn_id = g->conn_id;
    s->task = g->task;
    s->ranks_min = g->ranks_min;
    s->settle_ms = g->settle_ms;
    s->incarnation = g->incarnation;
    s->attempt = g->attempt;
    s->epoch = g->epoch;
    s->since_ms = now_ms;
    s->deadline_ms = now_ms + g->timeout_ms;
    s->address = s->host + host;
    memcpy(s->host, g->host, host);
    memcpy(s->address, g->address, address);
    return s;
}

static void
seat_free(struct rendezvous_core *m, struct rendezvous_seat *s)
{
    HASH_DEL(m->seats, s);
    m->requests_len--;
    free(s);
}

static struct rendezvous_seat *
seat_find(const struct rendezvous_core *m, uint64_t conn_id)
{
    struct rendezvous_seat *s;

    HASH_FIND(hh, m->seats, &conn_id, sizeof conn_id, s);
    return s;
}

static struct rendezvous_group *
rendezvous_group_find(const struct rendezvous_core *m, const char *name)
{
    struct rendezvous_group *t;

    HASH_FIND(hh, m->groups, name, strlen(name), t);
    return t;
}

static struct rendezvous_group *
rendezvous_group_new(struct rendezvous_core *m, const char *name, uint32_t workers)
{
    size_t len = strlen(name);
    struct rendezvous_group *t = calloc(1, sizeof *t + len + 1);

    if (t == NULL)
        return NULL;
    memcpy(t->name, name, len + 1);
    t->workers = workers;
    if ((t->seats = calloc(workers, sizeof *t->seats)) != NULL)
        HASH_ADD_KEYPTR(hh, m->groups, t->name, len, t);
    if (!HASH_TOOK(t)) {
        free(t->seats);
        free(t);
        return NULL;
    }
    return t;
}

static void
rendezvous_group_free(struct rendezvous_core *m, struct rendezvous_group *t)
{
    if (t->state == RENDEZVOUS_OPEN)
        HASH_DEL(m->groups, t);
    free(t->seats);
    free(t);
}

/* The seat leaves its rendezvous, which ends with its last request, or may be complete without one that wanted more.
 * The seat itself stays. */
static void
seat_leave(struct rendezvous_core *m, struct rendezvous_seat *s)
{
    struct rendezvous_group *t = s->group;

    s->group = NULL;
    t->seats[s->task] = NULL;
    if (--t->len == 0 && t->state == RENDEZVOUS_OPEN)
        rendezvous_group_free(m, t);
    m->due_ms = 0;
}

static void
seat_oust(struct rendezvous_core *m, struct rendezvous_seat *s, enum ps_err why, const char *text)
{
    seat_leave(m, s);
    s->why = why;
    s->why_text = text;
    DL_APPEND(m->ousted, s);
}

static void
rendezvous_group_free_all(struct rendezvous_core *m, struct rendezvous_group *t)
{
    for (uint32_t task = 0; task < t->workers; task++)
        if (t->seats[task] != NULL)
            seat_free(m, t->seats[task]);
    rendezvous_group_free(m, t);
}

void
rendezvous_core_finish(struct rendezvous_core *m)
{
    struct rendezvous_group *t, *next;
    struct rendezvous_seat *s, *after;

    HASH_ITER (hh, m->groups, t, next)
        rendezvous_group_free_all(m, t);
    if (m->answering != NULL)
        rendezvous_group_free_all(m, m->answering);
    m->answering = NULL;
    DL_FOREACH_SAFE (m->ousted, s, after)
        seat_free(m, s);
    m->ousted = NULL;
}

/* ---- When a rendezvous is complete ---- */

/* The strictest counts. */
static uint32_t
ranks_wanted(const struct rendezvous_group *t)
{
    uint32_t wanted = 1;

    for (uint32_t task = 0; task < t->workers; task++)
        if (t->seats[task] != NULL)
            wanted = MAX(wanted, t->seats[task]->ranks_min != 0 ? t->seats[task]->ranks_min : t->workers);
    return wanted;
}

/* When it may begin without the missing workers; UINT64_MAX: not with those that are there. */
static uint64_t
settled_ms(const struct rendezvous_core *m, const struct rendezvous_group *t)
{
    bool host_is_there =
        m->host_task == RENDEZVOUS_NO_COORDINATOR || (m->host_task < t->workers && t->seats[m->host_task] != NULL);
    uint64_t settle_ms = 0;

    if (!host_is_there || t->len < ranks_wanted(t))
        return UINT64_MAX;
    for (uint32_t task = 0; task < t->workers; task++)
        if (t->seats[task] != NULL)
            settle_ms = MAX(settle_ms, t->seats[task]->settle_ms);
    return t->last_ms + settle_ms;
}

static uint64_t
begins_ms(const struct rendezvous_core *m, const struct rendezvous_group *t)
{
    if (t->len == t->workers)
        return 0;
    return m->unsure ? UINT64_MAX : settled_ms(m, t);
}

bool
rendezvous_core_is_settled(const struct rendezvous_core *m, uint64_t now_ms)
{
    const struct rendezvous_group *t;

    for (t = m->groups; t != NULL; t = t->hh.next)
        if (settled_ms(m, t) <= now_ms)
            return true;
    return false;
}

void
rendezvous_core_set_unsure(struct rendezvous_core *m, bool unsure)
{
    m->unsure = unsure;
    m->due_ms = 0;
}

uint64_t
rendezvous_core_next_time(const struct rendezvous_core *m)
{
    return m->due_ms;
}

/* ---- Joining and leaving ---- */

static enum ps_err
come_refused(const struct rendezvous_core *m, const struct rendezvous_group *t, const struct rendezvous_request *g,
             struct ps_error *e)
{
    const struct rendezvous_seat *s;

    if (seat_find(m, g->conn_id) != NULL)
        return ps_fail(e, PS_ERR_INVALID, "this connection waits in a rendezvous already");
    if (m->requests_len >= RENDEZVOUS_REQUESTS_MAX)
        return ps_fail(e, PS_ERR_LIMIT,
                       "no room for worker %u of group '%.64s': %u wait at %.64s, which is all it takes", g->task,
                       g->name, m->requests_len, m->where);
    if (t == NULL)
        return PS_OK;
    if (t->workers != g->workers)
        return ps_fail(e, PS_ERR_CLUSTER,
                       "group '%.64s' at %.64s is of %u workers, and worker %u comes from a cluster of %u", t->name,
                       m->where, t->workers, g->task, g->workers);
    if ((s = t->seats[g->task]) == NULL)
        return PS_OK;
    if (s->incarnation != g->incarnation)
        return ps_fail(e, PS_ERR_TASK_TAKEN,
                       "worker %u of group '%.64s' waits at %.64s already: another process, at %.128s", g->task,
                       t->name, m->where, s->address);
    if (s->attempt >= g->attempt)
        return ps_fail(e, PS_ERR_CANCELLED, "worker %u of group '%.64s' has asked again since", g->task, t->name);
    return PS_OK;
}

static struct rendezvous_seat *
seat_take(struct rendezvous_core *m, const struct rendezvous_request *g, uint64_t now_ms)
{
    struct rendezvous_seat *s = seat_new(g, now_ms);

    if (s == NULL)
        return NULL;
    HASH_ADD(hh, m->seats, conn_id, sizeof s->conn_id, s);
    if (!HASH_TOOK(s)) {
        free(s);
        return NULL;
    }
    m->requests_len++;
    return s;
}

enum ps_err
rendezvous_core_join(struct rendezvous_core *m, const struct rendezvous_request *g, uint64_t now_ms, struct ps_error *e)
{
    struct rendezvous_group *t = rendezvous_group_find(m, g->name);
    struct rendezvous_seat *s;
    enum ps_err err;

    ps_assert(g->workers >= 1 && g->workers <= RENDEZVOUS_WORKERS_MAX && g->task < g->workers &&
              g->ranks_min <= g->workers);
    if ((err = come_refused(m, t, g, e)) != PS_OK)
        return err;
    if ((s = seat_take(m, g, now_ms)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a rendezvous");
    if (t == NULL && (t = rendezvous_group_new(m, g->name, g->workers)) == NULL) {
        seat_free(m, s);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a rendezvous");
    }
    t->len++; /* first, so that it does not end with the one whose place is taken */
    if (t->seats[g->task] != NULL)
        seat_oust(m, t->seats[g->task], PS_ERR_CANCELLED, "this worker has asked again since");
    t->seats[g->task] = s;
    t->came[g->task / 8] |= (uint8_t)(1u << g->task % 8);
    s->group = t;
    t->last_ms = now_ms;
    m->due_ms = MIN(m->due_ms, MIN(s->deadline_ms, begins_ms(m, t)));
    return PS_OK;
}

bool
rendezvous_core_leave(struct rendezvous_core *m, uint64_t conn_id)
{
    struct rendezvous_seat *s = seat_find(m, conn_id);
    bool left;

    if (s == NULL)
        return false;
    if (s->group != NULL && s->group->state == RENDEZVOUS_ANSWERING) { /* the table is made of it */
        left = s->left || s->task < s->group->answered;
        s->left = true;
        return !left;
    }
    if (s->group != NULL)
        seat_leave(m, s);
    else
        DL_DELETE(m->ousted, s);
    seat_free(m, s);
    return true;
}

void
rendezvous_core_cancel_all(struct rendezvous_core *m, uint64_t but, enum ps_err code, const char *text)
{
    struct rendezvous_seat *s, *next;

    HASH_ITER (hh, m->seats, s, next)
        if (s->conn_id != but && s->group != NULL && s->group->state == RENDEZVOUS_OPEN)
            seat_oust(m, s, code, text);
}

/* ---- Answers ---- */

static bool
rendezvous_core_has_come(const struct rendezvous_group *t, uint32_t task)
{
    return (t->came[task / 8] >> task % 8 & 1) != 0;
}

/* Tasks that are not there; `ever`: that never were. */
static uint32_t
rendezvous_core_missing_tasks(const struct rendezvous_group *t, bool ever, uint32_t *tasks, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t task = 0; task < t->workers; task++) {
        if (ever ? rendezvous_core_has_come(t, task) : t->seats[task] != NULL)
            continue;
        if (n < max)
            tasks[n] = task;
        n++;
    }
    return n;
}

#define NAMED_MAX 16

/* "workers 1, 4 have not come", or, when all were there but not together, "worker 1 has joined and left". */
static void
tell_missing(const struct rendezvous_group *t, char *out, size_t size)
{
    uint32_t tasks[NAMED_MAX], n = rendezvous_core_missing_tasks(t, true, tasks, NAMED_MAX);
    bool never = n > 0;
    size_t at;

    if (!never && (n = rendezvous_core_missing_tasks(t, false, tasks, NAMED_MAX)) == 0) {
        snprintf(out, size, "there was no time to settle");
        return;
    }
    at = (size_t)snprintf(out, size, n == 1 ? "worker" : "workers");
    for (uint32_t i = 0; i < MIN(n, (uint32_t)NAMED_MAX); i++)
        at += (size_t)snprintf(out + at, size - at, "%s%u", i > 0 ? ", " : " ", tasks[i]);
    if (n > NAMED_MAX)
        at += (size_t)snprintf(out + at, size - at, " and %u more", n - NAMED_MAX);
    snprintf(out + at, size - at, " %s %s", n == 1 ? "has" : "have", never ? "not come" : "joined and left");
}

static void
timed_out(const struct rendezvous_core *m, const struct rendezvous_seat *s, struct ps_error *e)
{
    char who[NAMED_MAX * 8 + 64];

    tell_missing(s->group, who, sizeof who);
    ps_error_set(e, PS_ERR_TIMEOUT, "waited %" PRIu64 " ms at %.64s for group '%.64s': %s",
                 s->deadline_ms - s->since_ms, m->where, s->group->name, who);
}

/* From now on the rendezvous is not found by its name any more, and its members and their order are fixed. */
static void
answer_begin(struct rendezvous_core *m, struct rendezvous_group *t)
{
    uint64_t epoch = m->epoch, id = m->seed;
    uint32_t n = 0;

    HASH_DEL(m->groups, t);
    t->state = RENDEZVOUS_ANSWERING;
    for (uint32_t task = 0; task < t->workers; task++) {
        const struct rendezvous_seat *s = t->seats[task];

        if (s == NULL)
            continue;
        m->members[n++] = (struct rendezvous_member){
            .task = task, .incarnation = s->incarnation, .address = s->address, .host = s->host};
        epoch = MAX(epoch, MIN(s->epoch, RENDEZVOUS_EPOCH_MAX));
        id = placement_hash(&s->incarnation, sizeof s->incarnation, id);
    }
    m->epoch = epoch + 1;
    id = placement_hash(&m->epoch, sizeof m->epoch, id);
    m->table = (struct rendezvous_table){.epoch = m->epoch, .group = id, .ranks = n, .members = m->members};
    m->answering = t;
}

/* Seats stay until all were answered: the table is made of them. */
static bool
answer_next(struct rendezvous_core *m, struct rendezvous_answer *out)
{
    struct rendezvous_group *t = m->answering;

    while (t->answered < t->workers) {
        const struct rendezvous_seat *s = t->seats[t->answered++];

        if (s == NULL || s->left)
            continue;
        *out = (struct rendezvous_answer){.conn_id = s->conn_id, .table = &m->table};
        return true;
    }
    rendezvous_group_free_all(m, t);
    m->answering = NULL;
    return false;
}

static bool
ousted_next(struct rendezvous_core *m, struct rendezvous_answer *out)
{
    struct rendezvous_seat *s = m->ousted;

    if (s == NULL)
        return false;
    DL_DELETE(m->ousted, s);
    *out = (struct rendezvous_answer){.conn_id = s->conn_id};
    ps_error_set(&out->error, s->why, "%s", s->why_text);
    seat_free(m, s);
    return true;
}

static bool
late_next(struct rendezvous_core *m, uint64_t now_ms, struct rendezvous_answer *out)
{
    struct rendezvous_seat *s, *next;

    HASH_ITER (hh, m->seats, s, next) {
        if (s->deadline_ms > now_ms)
            continue;
        *out = (struct rendezvous_answer){.conn_id = s->conn_id};
        timed_out(m, s, &out->error);
        seat_leave(m, s);
        seat_free(m, s);
        return true;
    }
    return false;
}

static bool
begin_next(struct rendezvous_core *m, uint64_t now_ms)
{
    struct rendezvous_group *t, *next;

    HASH_ITER (hh, m->groups, t, next)
        if (begins_ms(m, t) <= now_ms) {
            answer_begin(m, t);
            return true;
        }
    return false;
}

static void
due_again(struct rendezvous_core *m)
{
    const struct rendezvous_group *t;
    const struct rendezvous_seat *s;

    m->due_ms = UINT64_MAX;
    for (t = m->groups; t != NULL; t = t->hh.next)
        m->due_ms = MIN(m->due_ms, begins_ms(m, t));
    for (s = m->seats; s != NULL; s = s->hh.next)
        m->due_ms = MIN(m->due_ms, s->deadline_ms);
}

bool
rendezvous_core_next(struct rendezvous_core *m, uint64_t now_ms, struct rendezvous_answer *out)
{
    if (m->answering != NULL && answer_next(m, out))
        return true;
    if (now_ms < m->due_ms)
        return false;
    if (ousted_next(m, out))
        return true;
    if (begin_next(m, now_ms))
        return answer_next(m, out);
    if (late_next(m, now_ms, out))
        return true;
    due_again(m);
    return false;
}

/* ---- Reports ---- */

uint32_t
rendezvous_core_present(const struct rendezvous_core *m, const char *name)
{
    const struct rendezvous_group *t = rendezvous_group_find(m, name);

    return t != NULL ? t->len : 0;
}

void
rendezvous_core_each(const struct rendezvous_core *m, bool (*each)(void *arg, const struct rendezvous_wait *wait),
                     void *arg)
{
    const struct rendezvous_seat *s;

    for (s = m->seats; s != NULL; s = s->hh.next) {
        struct rendezvous_wait wait = {.conn_id = s->conn_id, .task = s->task, .since_ms = s->since_ms};

        if (s->group == NULL || s->group->state != RENDEZVOUS_OPEN)
            continue;
        wait.name = s->group->name;
        wait.workers = s->group->workers;
        wait.missing_len = rendezvous_core_missing_tasks(s->group, false, wait.missing, ARRAY_LEN(wait.missing));
        if (!each(arg, &wait))
            return;
    }
}
