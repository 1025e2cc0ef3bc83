/* One timer drives it all: on_time() looks at what is due (the end, an inquiry that takes too long, the next try). What
 * inquiries and the host say moves the course, and every move ends in watch(), which sets the timer. */
#include "client/group/rendezvous/rendezvous.h"

#include <stdio.h>
#include <unistd.h>

#include "client/api/cluster.h"
#include "client/group/rendezvous/rendezvous_inside.h"

static void seek(struct rendezvous *r);

void
rendezvous_drop_inquiry(struct rendezvous *r)
{
    inquiry_drop(r->inquiry);
    r->inquiry = NULL;
}

static void
pause_for(struct rendezvous *r, uint64_t ms)
{
    course_pause(&r->course, ms, rendezvous_now_ms(r));
    rendezvous_watch(r);
}

static void
starved(struct rendezvous *r)
{
    struct ps_error e = {0};

    ps_error_set(&e, PS_ERR_NOMEM, "no memory to ask for a meeting");
    rendezvous_fail(r, &e, NULL);
}

/* ---- Where to listen ---- */

void
rendezvous_site_found(void *arg)
{
    struct rendezvous *r = arg;

    r->trouble.code = PS_OK;
    pause_for(r, 0);
}

/* False: a name is looked up first, or that has failed. */
static bool
find_site(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (site_find(&r->site, &e))
        return true;
    if (e.code != PS_ERR_TIMEOUT) {
        rendezvous_fail(r, &e, NULL);
        return false;
    }
    r->trouble = e;
    course_looks(&r->course, site_must_wait(&r->site), rendezvous_now_ms(r));
    rendezvous_watch(r);
    return false;
}

/* ---- Who comes ---- */

/* This worker, to whoever holds the meeting. */
static struct rendezvous_request
own_guest(struct rendezvous *r)
{
    return (struct rendezvous_request){.name = r->config.name,
                                       .workers = r->workers,
                                       .task = r->task,
                                       .ranks_min = MIN(r->ask.ranks_min, r->workers),
                                       .settle_ms = r->ask.settle_ms,
                                       .timeout_ms = course_left_ms(&r->course, rendezvous_now_ms(r)),
                                       .incarnation = r->config.incarnation,
                                       .attempt = ++r->attempt,
                                       .epoch = r->ask.epoch,
                                       .address = r->site.mine,
                                       .host = r->config.host};
}

static Psd__Meet
message_of(const struct rendezvous *r, const struct rendezvous_request *g)
{
    Psd__Meet m = PSD__MEET__INIT;

    m.cluster = (char *)(uintptr_t)ps_cluster_name(r->config.cluster);
    m.group = (char *)(uintptr_t)g->name;
    m.workers = g->workers;
    m.task = g->task;
    m.incarnation = g->incarnation;
    m.attempt = g->attempt;
    m.epoch = g->epoch;
    m.ranks_min = g->ranks_min;
    m.settle_ms = g->settle_ms;
    m.timeout_ms = g->timeout_ms;
    m.address = (char *)(uintptr_t)g->address;
    m.host = (char *)(uintptr_t)g->host;
    return m;
}

/* ---- Asking ---- */

static void
on_connected(void *arg, const char *local)
{
    struct rendezvous *r = arg;
    Psd__Hello hello = PSD__HELLO__INIT;
    struct ps_error e = {0};
    struct rendezvous_request own;
    char agent[128];
    Psd__Meet m;

    if (site_open(&r->site, local, &e) != PS_OK) {
        rendezvous_fail(r, &e, NULL);
        return;
    }
    own = own_guest(r);
    m = message_of(r, &own);
    snprintf(agent, sizeof agent, "worker %u of group '%.48s', pid %d", r->task, r->config.name, (int)getpid());
    hello.cluster = m.cluster;
    hello.shards = ps_cluster_shards(r->config.cluster);
    hello.role = PSD__ROLE__OBSERVER;
    hello.agent = agent;
    if (!inquiry_meet(r->inquiry, r->by_shard ? &hello : NULL, &m))
        starved(r);
}

static void
on_waits(void *arg)
{
    struct rendezvous *r = arg;

    course_waits(&r->course);
    r->trouble.code = PS_OK;
    if (!r->by_shard)
        host_send_away(&r->host);
    rendezvous_watch(r);
}

static void
on_met(void *arg, const Psd__Met *m)
{
    rendezvous_met(arg, m);
}

static void
ask_again(struct rendezvous *r, const struct ps_error *why)
{
    bool next = course_again(&r->course, why->code, rendezvous_now_ms(r));

    r->trouble = *why;
    if (!r->by_shard)
        host_stay(&r->host); /* whoever was sent on from here may come again */
    if (next)
        seek(r);
    else
        rendezvous_watch(r);
}

static void
on_failed(void *arg, const struct ps_error *why)
{
    struct rendezvous *r = arg;
    bool once = r->by_shard && r->ask.once && why->code != PS_ERR_TASK_TAKEN;
    char peer[PS_ERROR_PEER_MAX];

    rendezvous_drop_inquiry(r);
    rendezvous_asked_name(r, peer, sizeof peer);
    if (course_final(&r->course, why->code, rendezvous_now_ms(r)) || once)
        rendezvous_fail(r, why, peer);
    else
        ask_again(r, why);
}

static const struct inquiry_to to_host = {
    .connected = on_connected, .waits = on_waits, .met = on_met, .failed = on_failed};

static void
ask_there(struct rendezvous *r, const char *address)
{
    struct ps_error e = {0};

    snprintf(r->address_text, sizeof r->address_text, "%s", address);
    if (address_parse(address, &r->address, &e) != PS_OK) { /* it was looked at before */
        rendezvous_fail(r, &e, NULL);
        return;
    }
    course_asks(&r->course, rendezvous_now_ms(r));
    r->inquiry = inquiry_start(r->config.pool, r->config.credentials, &r->address, r->config.congestion, &to_host, r,
                               &r->handles);
    if (r->inquiry == NULL)
        starved(r);
    else
        rendezvous_watch(r);
}

/* ---- Workers among themselves ---- */

/* This worker holds its own meeting: nobody below was found. */
static void
host_here(struct rendezvous *r)
{
    struct rendezvous_request own;
    struct ps_error e = {0};

    if (!r->host.in) {
        own = own_guest(r);
        if (host_come(&r->host, &own, &e) != PS_OK)
            rendezvous_fail(r, &e, NULL);
    } else if (r->course.settled) {
        host_begin_settled(&r->host);
    }
}

/* Ask the next one below, or hold the meeting; then begin another round. */
static void
seek(struct rendezvous *r)
{
    if (course_seeks(&r->course, r->host.in && rendezvous_core_is_settled(&r->host.meet, rendezvous_now_ms(r)))) {
        ask_there(r, cluster_worker_address(r->config.cluster, r->course.at));
        return;
    }
    host_here(r);
    if (r->ended)
        return;
    course_next_round(&r->course, rendezvous_now_ms(r));
    rendezvous_watch(r);
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
        if (!course_taken(&r->course, rendezvous_now_ms(r)) &&
            course_look(&r->course, rendezvous_now_ms(r)) != COURSE_DEADLINE) {
            pause_for(r, RENDEZVOUS_RETRY_MS);
            return;
        }
        e.code = PS_ERR_TASK_TAKEN;
    }
    rendezvous_fail(r, &e, NULL);
}

/* ---- Time ---- */

static void
step(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (r->course.state == COURSE_ASKING) {
        ps_error_set(&e, PS_ERR_UNREACHABLE, "no answer within %u ms", course_patience_ms(&r->course));
        on_failed(r, &e);
    } else if (r->course.state == COURSE_LOOKING) {
        site_take_any(&r->site);
        rendezvous_site_found(r);
    } else if (!find_site(r)) {
        return;
    } else if (r->by_shard) {
        ask_there(r, ps_cluster_shard_address(r->config.cluster, 0));
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
    enum course_due due;

    if (r->ended)
        return;
    due = course_look(&r->course, rendezvous_now_ms(r));
    if (due == COURSE_DEADLINE)
        rendezvous_fail_by_deadline(r);
    else if (due == COURSE_STEP)
        step(r);
    else
        rendezvous_watch(r);
}

void
rendezvous_watch(struct rendezvous *r)
{
    uint64_t now = rendezvous_now_ms(r), due = course_due(&r->course);

    if (r->ended)
        uv_timer_stop(&r->timer);
    else
        uv_timer_start(&r->timer, on_time, due > now ? due - now : 0, 0);
}

/* ---- From outside ---- */

/* A cluster of one worker without shards meets nobody. */
static void
meet_nobody(struct rendezvous *r)
{
    struct rendezvous_member self = {
        .task = r->task, .incarnation = r->config.incarnation, .address = "", .host = r->config.host};
    struct rendezvous_table t = {.epoch = r->ask.epoch + 1, .ranks = 1, .members = &self};

    t.group = r->config.seed ^ t.epoch;
    rendezvous_host_met(r, &t);
}

void
rendezvous_start(struct rendezvous *r, const struct rendezvous_ask *ask)
{
    ps_assert(r->course.state == COURSE_IDLE && r->inquiry == NULL);
    group_table_finish(&r->table);
    r->ask = *ask;
    r->ended = false;
    r->error = r->trouble = (struct ps_error){0};
    course_begin(&r->course, ask->deadline_ms, rendezvous_now_ms(r));
    if (!r->by_shard && r->workers == 1)
        meet_nobody(r);
    else
        rendezvous_watch(r);
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
    rendezvous_end(r, PS_ERR_CANCELLED);
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
