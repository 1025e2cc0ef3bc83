/* One timer drives it all: on_time() looks at what is due (the end, an inquiry that takes too long, the next try). What
 * inquiries and the host say moves the machine, and every move ends in watch(), which sets the timer. */
#include "client/group/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cluster.h"
#include "client/group/host.h"
#include "client/group/inquiry.h"
#include "client/group/site.h"
#include "common/address.h"
#include "common/wire_text.h"

enum state {
    IDLE,    /* nothing is under way, or it is over */
    LOOKING, /* for the address where this worker is to listen, which is a name */
    ASKING,  /* shard 0, or a worker below: the inquiry may take until step_ms */
    WAITING, /* a guest there */
    PAUSING  /* until step_ms, then on with `at` */
};

struct rendezvous {
    struct rendezvous_config config; /* strings are ours */
    uint32_t workers, task;
    bool by_shard;
    enum state state;
    struct inquiry *inquiry;
    struct address address; /* of who is asked */
    char address_text[ADDRESS_MAX];
    struct site site;  /* where this worker listens */
    uint32_t at;       /* the worker that is asked, or is asked next; `task`: all below were */
    uint32_t failures; /* of shard 0, in a row */
    bool settled;      /* when this round of asking began */
    uint64_t attempt, step_ms, taken_ms;
    struct rendezvous_ask ask;
    struct ps_error trouble; /* what went wrong last, code PS_OK: nothing */

    bool ended; /* there is a result */
    enum ps_err result;
    struct ps_error error;
    struct group_table table;

    struct host host; /* where there are no shards */
    bool hosts;
    uv_timer_t timer;
    uint32_t handles; /* that libuv still has: the timer, inquiries */
};

static void watch(struct rendezvous *r);
static void pause_for(struct rendezvous *r, uint64_t ms);
static void seek(struct rendezvous *r);

static uint64_t
now_ms(const struct rendezvous *r)
{
    return uv_now(r->config.pool->loop);
}

/* ---- The end ---- */

static void
drop_inquiry(struct rendezvous *r)
{
    inquiry_drop(r->inquiry);
    r->inquiry = NULL;
}

static void
end(struct rendezvous *r, enum ps_err result)
{
    drop_inquiry(r);
    site_give_up(&r->site);
    r->result = result;
    r->ended = true;
    r->state = IDLE;
    if (!r->by_shard && r->workers > 1) {
        host_leave(&r->host);
        host_stay(&r->host);
    }
    watch(r);
}

/* peer: who said it, or was waited for. */
static void
end_failed(struct rendezvous *r, const struct ps_error *why, const char *peer)
{
    r->error = *why;
    if (peer != NULL && r->error.peer[0] == '\0')
        snprintf(r->error.peer, sizeof r->error.peer, "%s", peer);
    end(r, why->code);
}

/* Who is asked now: "worker 0 at 127.0.0.1:4000". */
static void
asked_name(const struct rendezvous *r, char *out, size_t size)
{
    snprintf(out, size, "%s %u at %.96s", r->by_shard ? "shard" : "worker", r->by_shard ? 0 : r->at, r->address_text);
}

static void
end_by_deadline(struct rendezvous *r)
{
    char peer[PS_ERROR_PEER_MAX];
    struct ps_error e = {0};

    asked_name(r, peer, sizeof peer);
    if (r->trouble.code == PS_OK)
        ps_error_set(&e, PS_ERR_TIMEOUT,
                     "the deadline passed while this worker waited to meet the others of group '%.64s'",
                     r->config.name);
    else
        ps_error_set(&e, r->trouble.code == PS_ERR_UNREACHABLE ? PS_ERR_UNREACHABLE : PS_ERR_TIMEOUT,
                     "group '%.64s' could not meet in time: %.300s", r->config.name, r->trouble.text);
    end_failed(r, &e, r->state == WAITING || (r->by_shard && r->state != LOOKING) ? peer : NULL);
}

/* ---- The table ---- */

static bool
add_member(struct group_table *t, uint32_t rank, uint32_t task, uint64_t incarnation, const char *address,
           const char *host)
{
    struct group_member *m = &t->members[rank];

    m->task = task;
    m->incarnation = incarnation;
    snprintf(m->address, sizeof m->address, "%s", address);
    snprintf(m->host, sizeof m->host, "%s", host);
    return true;
}

/* This worker must be in it as it is now: else it is an answer to somebody else. */
static enum ps_err
table_done(struct rendezvous *r, struct group_table *t)
{
    enum ps_err err;

    for (t->rank = 0; t->rank < t->ranks; t->rank++)
        if (t->members[t->rank].task == r->task)
            break;
    if (t->rank == t->ranks || t->members[t->rank].incarnation != r->config.incarnation)
        err =
            ps_fail(&r->error, PS_ERR_PROTOCOL, "the table of group '%.64s' does not have this worker", r->config.name);
    else
        err = group_table_check(t, &r->error);
    if (err != PS_OK) {
        group_table_finish(t);
        end(r, err);
        return err;
    }
    group_table_finish(&r->table);
    r->table = *t;
    end(r, PS_OK);
    return PS_OK;
}

static void
take_met(struct rendezvous *r, const Psd__Met *m)
{
    struct group_table t;

    if (group_table_init(&t, (uint32_t)m->n_member, &r->error) != PS_OK) {
        end(r, r->error.code);
        return;
    }
    t.id = m->group;
    t.epoch = m->epoch;
    for (uint32_t i = 0; i < t.ranks; i++)
        add_member(&t, i, m->member[i]->task, m->member[i]->incarnation, m->member[i]->address, m->member[i]->host);
    if (table_done(r, &t) != PS_OK)
        return;
}

static void
host_met(void *arg, const struct meet_table *m)
{
    struct rendezvous *r = arg;
    struct group_table t;

    if (group_table_init(&t, m->ranks, &r->error) != PS_OK) {
        end(r, r->error.code);
        return;
    }
    t.id = m->group;
    t.epoch = m->epoch;
    for (uint32_t i = 0; i < t.ranks; i++)
        add_member(&t, i, m->members[i].task, m->members[i].incarnation, m->members[i].address, m->members[i].host);
    if (table_done(r, &t) != PS_OK)
        return;
}

static void
host_failed(void *arg, const struct ps_error *why)
{
    end_failed(arg, why, NULL);
}

/* ---- Where to listen ---- */

static void
on_site_found(void *arg)
{
    struct rendezvous *r = arg;

    r->trouble.code = PS_OK;
    pause_for(r, 0);
}

static void
on_site_failed(void *arg, const struct ps_error *why)
{
    end_failed(arg, why, NULL);
}

/* False: a name is looked up first, or that has failed. */
static bool
find_site(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (site_find(&r->site, &e))
        return true;
    if (e.code != PS_ERR_TIMEOUT) {
        end_failed(r, &e, NULL);
        return false;
    }
    r->trouble = e;
    r->state = LOOKING;
    r->step_ms = site_must_wait(&r->site) ? UINT64_MAX : now_ms(r) + r->config.answer_ms;
    watch(r);
    return false;
}

/* ---- Asking ---- */

/* The host is to say who has not come before this worker's own deadline ends the wait. */
static uint32_t
left_ms(const struct rendezvous *r)
{
    uint64_t now = now_ms(r), left = r->ask.deadline_ms > now ? r->ask.deadline_ms - now : 0;

    left -= MIN(left / 8, 250);
    return (uint32_t)MIN(left, (uint64_t)WIRE_LEASE_MS_MAX);
}

static Psd__Meet
meet_message(struct rendezvous *r)
{
    Psd__Meet m = PSD__MEET__INIT;

    m.cluster = (char *)(uintptr_t)ps_cluster_name(r->config.cluster);
    m.group = (char *)(uintptr_t)r->config.name;
    m.workers = r->workers;
    m.task = r->task;
    m.incarnation = r->config.incarnation;
    m.attempt = ++r->attempt;
    m.epoch = r->ask.epoch;
    m.ranks_min = MIN(r->ask.ranks_min, r->workers);
    m.settle_ms = r->ask.settle_ms;
    m.timeout_ms = left_ms(r);
    m.address = r->site.mine;
    m.host = r->config.host;
    return m;
}

static void
on_connected(void *arg, const char *local)
{
    struct rendezvous *r = arg;
    Psd__Hello hello = PSD__HELLO__INIT;
    struct ps_error e = {0};
    char agent[128];
    Psd__Meet m;

    if (site_open(&r->site, local, &e) != PS_OK) {
        end_failed(r, &e, NULL);
        return;
    }
    m = meet_message(r);
    snprintf(agent, sizeof agent, "worker %u of group '%.48s', pid %d", r->task, r->config.name, (int)getpid());
    hello.cluster = m.cluster;
    hello.shards = ps_cluster_shards(r->config.cluster);
    hello.role = PSD__ROLE__OBSERVER;
    hello.agent = agent;
    if (inquiry_meet(r->inquiry, r->by_shard ? &hello : NULL, &m))
        return;
    ps_error_set(&e, PS_ERR_NOMEM, "no memory to ask for a meeting");
    end_failed(r, &e, NULL);
}

static void
on_waits(void *arg)
{
    struct rendezvous *r = arg;

    r->state = WAITING;
    r->failures = 0;
    r->trouble.code = PS_OK;
    if (!r->by_shard)
        host_send_away(&r->host);
    watch(r);
}

static void
on_met(void *arg, const Psd__Met *m)
{
    take_met(arg, m);
}

static void
pause_for(struct rendezvous *r, uint64_t ms)
{
    r->state = PAUSING;
    r->step_ms = now_ms(r) + ms;
    watch(r);
}

/* What no second try will change. */
static bool
is_final(struct rendezvous *r, const struct ps_error *why)
{
    switch (why->code) {
    case PS_ERR_TASK_TAKEN: /* or a process that died a moment ago, whose connection is not known to be gone */
        if (r->taken_ms == 0)
            r->taken_ms = now_ms(r) + r->config.taken_ms;
        return now_ms(r) >= r->taken_ms;
    case PS_ERR_CLUSTER:
    case PS_ERR_VERSION:
    case PS_ERR_TLS:
    case PS_ERR_PROTOCOL:
    case PS_ERR_MISMATCH:
    case PS_ERR_INVALID:
    case PS_ERR_UNSUPPORTED:
    case PS_ERR_DENIED:
        return true;
    case PS_ERR_TIMEOUT: /* the host's; that of a connection is no answer */
        return r->state == WAITING;
    default:
        return false;
    }
}

static void
ask_again(struct rendezvous *r, const struct ps_error *why)
{
    uint64_t ms = (uint64_t)RENDEZVOUS_RETRY_MS << MIN(r->failures, 8u);
    bool moved = r->state == WAITING || why->code == PS_ERR_CANCELLED || why->code == PS_ERR_TASK_TAKEN;

    r->trouble = *why;
    r->failures++;
    if (r->by_shard) {
        pause_for(r, MIN(ms, (uint64_t)RENDEZVOUS_RETRY_MS_MAX));
        return;
    }
    host_stay(&r->host); /* whoever was sent on from here may come again */
    if (moved) {
        r->at = 0;
        pause_for(r, RENDEZVOUS_RETRY_MS);
        return;
    }
    r->at++;
    seek(r);
}

static void
on_failed(void *arg, const struct ps_error *why)
{
    struct rendezvous *r = arg;
    char peer[PS_ERROR_PEER_MAX];

    drop_inquiry(r);
    asked_name(r, peer, sizeof peer);
    if (is_final(r, why) || (r->by_shard && r->ask.once && why->code != PS_ERR_TASK_TAKEN))
        end_failed(r, why, peer);
    else
        ask_again(r, why);
}

static const struct inquiry_to to_host = {
    .connected = on_connected, .waits = on_waits, .met = on_met, .failed = on_failed};

static void
ask_there(struct rendezvous *r, const char *address, uint64_t patience_ms)
{
    struct ps_error e = {0};

    snprintf(r->address_text, sizeof r->address_text, "%s", address);
    if (address_parse(address, &r->address, &e) != PS_OK) { /* it was looked at before */
        end_failed(r, &e, NULL);
        return;
    }
    r->state = ASKING;
    r->step_ms = now_ms(r) + patience_ms;
    r->inquiry = inquiry_start(r->config.pool, r->config.credentials, &r->address, r->config.congestion, &to_host, r,
                               &r->handles);
    if (r->inquiry == NULL) {
        ps_error_set(&e, PS_ERR_NOMEM, "no memory to ask for a meeting");
        end_failed(r, &e, NULL);
        return;
    }
    watch(r);
}

/* ---- Workers among themselves ---- */

/* This worker holds its own meeting: nobody below was found. */
static void
host_here(struct rendezvous *r)
{
    struct meet_guest own = {.name = r->config.name,
                             .workers = r->workers,
                             .task = r->task,
                             .ranks_min = MIN(r->ask.ranks_min, r->workers),
                             .settle_ms = r->ask.settle_ms,
                             .timeout_ms = left_ms(r),
                             .incarnation = r->config.incarnation,
                             .attempt = ++r->attempt,
                             .epoch = r->ask.epoch,
                             .address = r->site.mine,
                             .host = r->config.host};
    struct ps_error e = {0};

    if (!r->host.in) {
        if (host_come(&r->host, &own, &e) != PS_OK)
            end_failed(r, &e, NULL);
    } else if (r->settled) {
        host_begin_settled(&r->host);
    }
}

/* Ask the next one below, or hold the meeting; then begin another round. */
static void
seek(struct rendezvous *r)
{
    if (r->at == 0)
        r->settled = r->host.in && meet_is_settled(&r->host.meet, now_ms(r));
    if (r->at < r->task) {
        ask_there(r, cluster_worker_address(r->config.cluster, r->at), r->config.answer_ms);
        return;
    }
    host_here(r);
    if (r->ended)
        return;
    r->at = 0;
    pause_for(r, r->settled ? RENDEZVOUS_RETRY_MS : r->config.again_ms);
}

/* Its port may be held for a moment by a process that was just killed. */
static void
seek_first(struct rendezvous *r)
{
    struct ps_error e = {0};
    enum ps_err err = site_open(&r->site, "127.0.0.1", &e);

    if (err == PS_OK) {
        seek(r);
        return;
    }
    if (err == PS_ERR_BUSY) {
        if (r->taken_ms == 0)
            r->taken_ms = now_ms(r) + r->config.taken_ms;
        if (now_ms(r) < r->taken_ms && now_ms(r) < r->ask.deadline_ms) {
            pause_for(r, RENDEZVOUS_RETRY_MS);
            return;
        }
        e.code = PS_ERR_TASK_TAKEN;
    }
    end_failed(r, &e, NULL);
}

/* ---- Time ---- */

static void
step(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (r->state == ASKING) {
        ps_error_set(&e, PS_ERR_UNREACHABLE, "no answer within %u ms",
                     r->by_shard ? RENDEZVOUS_CONNECT_MS : r->config.answer_ms);
        on_failed(r, &e);
    } else if (r->state == LOOKING) {
        site_take_any(&r->site);
        on_site_found(r);
    } else if (!find_site(r)) {
        return;
    } else if (r->by_shard) {
        ask_there(r, ps_cluster_shard_address(r->config.cluster, 0), RENDEZVOUS_CONNECT_MS);
    } else if (!r->config.door->open) {
        seek_first(r);
    } else {
        seek(r);
    }
}

static void
on_time(uv_timer_t *timer)
{
    struct rendezvous *r = timer->data;
    uint64_t now = now_ms(r);

    if (r->ended)
        return;
    if (now >= r->ask.deadline_ms)
        end_by_deadline(r);
    else if (r->state != WAITING && now >= r->step_ms)
        step(r);
    else
        watch(r);
}

static void
watch(struct rendezvous *r)
{
    uint64_t now = now_ms(r), due = r->ask.deadline_ms;

    if (r->ended) {
        uv_timer_stop(&r->timer);
        return;
    }
    if (r->state != WAITING)
        due = MIN(due, r->step_ms);
    uv_timer_start(&r->timer, on_time, due > now ? due - now : 0, 0);
}

/* ---- From outside ---- */

/* A cluster of one worker without shards meets nobody. */
static void
meet_nobody(struct rendezvous *r)
{
    struct group_table t;

    if (group_table_init(&t, 1, &r->error) != PS_OK) {
        end(r, r->error.code);
        return;
    }
    t.epoch = r->ask.epoch + 1;
    t.id = r->config.seed ^ t.epoch;
    add_member(&t, 0, r->task, r->config.incarnation, "", r->config.host);
    if (table_done(r, &t) != PS_OK)
        return;
}

void
rendezvous_start(struct rendezvous *r, const struct rendezvous_ask *ask)
{
    ps_assert(r->state == IDLE && r->inquiry == NULL);
    group_table_finish(&r->table);
    r->ask = *ask;
    r->ended = false;
    r->error = r->trouble = (struct ps_error){0};
    r->failures = r->at = 0;
    r->taken_ms = 0;
    if (!r->by_shard && r->workers == 1)
        meet_nobody(r);
    else
        pause_for(r, 0);
}

bool
rendezvous_over(const struct rendezvous *r)
{
    return r->ended;
}

void
rendezvous_give_up(struct rendezvous *r)
{
    if (r->ended)
        return;
    ps_error_set(&r->error, PS_ERR_CANCELLED, "the meeting was given up");
    end(r, PS_ERR_CANCELLED);
}

enum ps_err
rendezvous_take(struct rendezvous *r, struct group_table *table, struct ps_error *e)
{
    ps_assert(r->ended);
    if (r->result != PS_OK) {
        if (e != NULL)
            *e = r->error;
        return r->result;
    }
    *table = r->table;
    r->table = (struct group_table){0};
    return PS_OK;
}

/* ---- Life ---- */

static enum ps_err
check_cluster(const struct rendezvous *r, struct ps_error *e)
{
    const ps_cluster *c = r->config.cluster;
    enum ps_role role = ps_cluster_role(c);
    struct address address;
    struct ps_error why;
    enum ps_err err;

    if (role != PS_ROLE_WORKER && role != PS_ROLE_CHIEF)
        return ps_fail(e, PS_ERR_CONFIG, "this process is no worker of the cluster: a group is one of workers");
    if (r->workers > PS_GROUP_RANKS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "the cluster has %u workers; a group has at most %d", r->workers,
                       PS_GROUP_RANKS_MAX);
    if ((err = wire_name_check("group", r->config.name, e)) != PS_OK)
        return err;
    for (uint32_t task = 0; !r->by_shard && r->workers > 1 && task < r->workers; task++) {
        const char *text = cluster_worker_address(c, task);

        if (text == NULL)
            return ps_fail(e, PS_ERR_CONFIG, "the cluster has no shards, and does not say where worker %u is", task);
        if (address_parse(text, &address, &why) != PS_OK || address.is_unix || address.port == 0)
            return ps_fail(e, PS_ERR_CONFIG, "workers cannot meet at '%.128s', the address of worker %u", text, task);
    }
    return PS_OK;
}

static bool
copy_text(const char **text)
{
    return *text == NULL || (*text = strdup(*text)) != NULL;
}

void
rendezvous_free(struct rendezvous *r)
{
    free((char *)(uintptr_t)r->config.name);
    free((char *)(uintptr_t)r->config.listen);
    free((char *)(uintptr_t)r->config.congestion);
    group_table_finish(&r->table);
    free(r);
}

static bool
begin(struct rendezvous *r)
{
    const struct rendezvous_config *k = &r->config;
    struct host_config host = {.pool = k->pool,
                               .cluster = ps_cluster_name(k->cluster),
                               .name = k->name,
                               .task = r->task,
                               .workers = r->workers,
                               .seed = k->seed,
                               .met = host_met,
                               .failed = host_failed,
                               .arg = r};
    struct site_config site = {.pool = k->pool,
                               .door = k->door,
                               .listen = k->listen,
                               .listed = cluster_worker_address(k->cluster, r->task),
                               .any = r->by_shard,
                               .found = on_site_found,
                               .failed = on_site_failed,
                               .arg = r,
                               .handles = &r->handles};

    if (!site_init(&r->site, &site))
        return false;
    uv_timer_init(k->pool->loop, &r->timer); /* cannot fail */
    r->timer.data = r;
    r->handles++;
    if (!r->by_shard && r->workers > 1) {
        host_init(&r->host, &host);
        r->hosts = true;
        door_for(k->door, MSG_MEET, host_guest, &r->host);
    }
    return true;
}

enum ps_err
rendezvous_new(const struct rendezvous_config *config, struct rendezvous **out, struct ps_error *e)
{
    struct rendezvous *r = calloc(1, sizeof *r);
    bool copied;
    enum ps_err err;

    *out = NULL;
    if (r == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    r->config = *config;
    r->config.again_ms = config->again_ms != 0 ? config->again_ms : RENDEZVOUS_AGAIN_MS;
    r->config.answer_ms = config->answer_ms != 0 ? config->answer_ms : RENDEZVOUS_ANSWER_MS;
    r->config.taken_ms = config->taken_ms != 0 ? config->taken_ms : RENDEZVOUS_TAKEN_MS;
    r->workers = ps_cluster_workers(config->cluster);
    r->task = ps_cluster_task(config->cluster);
    r->by_shard = ps_cluster_shards(config->cluster) > 0;
    r->ended = true;
    r->result = PS_ERR_CANCELLED;
    copied = copy_text(&r->config.name);
    copied = copy_text(&r->config.listen) && copied;
    copied = copy_text(&r->config.congestion) && copied;
    if (!copied)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    else if ((err = check_cluster(r, e)) == PS_OK && !begin(r))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    if (err != PS_OK) {
        rendezvous_free(r);
        return err;
    }
    *out = r;
    return PS_OK;
}

static void
handle_closed(uv_handle_t *handle)
{
    struct rendezvous *r = handle->data;

    r->handles--;
}

void
rendezvous_close(struct rendezvous *r)
{
    drop_inquiry(r);
    site_close(&r->site);
    r->state = IDLE;
    if (r->hosts) {
        door_for(r->config.door, MSG_MEET, NULL, NULL);
        host_close(&r->host);
    }
    uv_close((uv_handle_t *)&r->timer, handle_closed);
}

bool
rendezvous_closed(const struct rendezvous *r)
{
    return r->handles == 0 && (!r->hosts || host_closed(&r->host));
}
