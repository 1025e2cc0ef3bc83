/* The public calls of a formed group: operations, works, and what it is. */
#include <stdlib.h>
#include <string.h>

#include "client/api/trace_recorder.h"
#include "client/core/plan/plan_schedule.h"
#include "client/group/group_state.h"
#include "client/group/merge.h"
#include "client/group/tagged.h"
#include "client/group/watch.h"

/* ---- Works ---- */

static struct ps_work *
work_new(ps_group *g)
{
    struct ps_work *w = g->free_works;

    if (w != NULL)
        g->free_works = w->next;
    else if ((w = malloc(sizeof *w)) == NULL)
        return NULL;
    w->group = g;
    w->core = NULL;
    w->result = PS_OK;
    w->waited_ms = 0;
    w->prev = NULL;
    w->next = g->live_works;
    if (w->next != NULL)
        w->next->prev = w;
    g->live_works = w;
    return w;
}

static void
work_release(struct ps_work *w)
{
    ps_group *g = w->group;

    if (w->core != NULL)
        group_work_free(g->core, w->core);
    *(w->prev != NULL ? &w->prev->next : &g->live_works) = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->next = g->free_works;
    g->free_works = w;
}

static enum ps_err
work_result(const struct ps_work *w, struct ps_error *e)
{
    if (w->core != NULL)
        return group_work_result(w->group->core, w->core, e);
    if (w->result != PS_OK && e != NULL)
        *e = w->error;
    return w->result;
}

static enum ps_err
not_formed(const ps_group *g, struct ps_error *e)
{
    if (e != NULL)
        *e = g->failed;
    return g->failed.code;
}

static uint64_t
timeout_of(const ps_group *g, int timeout_ms)
{
    return timeout_ms < 0 ? (uint64_t)g->options.timeout_ms : (uint64_t)timeout_ms;
}

/* A work that is done already is not waited for. */
static bool
work_wait(struct ps_work *w, uint64_t timeout_ms)
{
    bool over = w->core == NULL || group_work_done(w->core), done;
    uint64_t start, end;

    if (over)
        return true;
    start = uv_hrtime();
    done = group_wait_work(w->group, w, timeout_ms);
    end = uv_hrtime();
    w->waited_ms += MAX((end - start) / 1000000, done ? 0 : timeout_ms);
    if (trace_recorder_records())
        trace_recorder_wait(w->time, start, end, 0, 0);
    return done;
}

/* Its own deadline ends it, with the group; an overdue one gets time for the others to answer. It has the caller's
 * buffers: an interrupt ends it with the group as well. */
static enum ps_err
wait_for_end(struct ps_work *w, struct ps_error *e)
{
    while (!work_wait(w, (uint64_t)w->group->options.timeout_ms))
        if (group_is_interrupted(w->group))
            group_interrupt(w->group);
    return work_result(w, e);
}

static enum ps_err
group_call_start(ps_group *g, const struct group_request *ask, ps_work **work, struct ps_error *e)
{
    struct ps_work *w;
    enum ps_err err;

    if (work != NULL)
        *work = NULL;
    if (g == NULL)
        return ps_fail(e, PS_ERR_INVALID, "there is no group");
    group_enter(g);
    if (g->core == NULL) {
        err = not_formed(g, e);
    } else if ((w = work_new(g)) == NULL) {
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for an operation");
    } else if ((err = group_core_start(g->core, ask, uv_now(&g->loop), &w->core, e)) != PS_OK) {
        group_perform(g); /* a group that has failed here notifies the others */
        work_release(w);
    } else {
        w->time = ask->op == PLAN_BARRIER ? TIMELINE_BARRIER : TIMELINE_ALL_REDUCE;
        group_perform(g);
        if (work != NULL) {
            *work = w;
        } else {
            err = wait_for_end(w, e);
            work_release(w);
        }
    }
    group_leave(g);
    return err;
}

int
ps_work_test(ps_work *w)
{
    int done;

    group_enter(w->group);
    done = group_wait_work(w->group, w, 0);
    group_leave(w->group);
    return done;
}

enum ps_err
ps_work_wait(ps_work *w, int timeout_ms, struct ps_error *error)
{
    uint64_t timeout;
    enum ps_err err;

    if (w == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no operation");
    group_enter(w->group);
    timeout = timeout_of(w->group, timeout_ms);
    if (work_wait(w, timeout))
        err = work_result(w, error);
    else if (group_is_interrupted(w->group))
        err = ps_fail(error, PS_ERR_CANCELLED, "interrupted while it waited; the operation goes on");
    else
        err = ps_fail(error, PS_ERR_TIMEOUT, "waited %llu ms for the operation, which goes on",
                      (unsigned long long)w->waited_ms);
    group_leave(w->group);
    return err;
}

void
ps_work_free(ps_work *w)
{
    ps_group *g;

    if (w == NULL)
        return;
    g = w->group;
    group_enter(g);
    (void)wait_for_end(w, NULL);
    work_release(w);
    group_leave(g);
}

/* ---- Operations ---- */

enum ps_err
group_tagged_all_reduce(ps_group *g, uint64_t tag, const void *in, void *out, size_t count, enum ps_dtype dtype,
                        enum ps_reduce reduce, ps_work **work, struct ps_error *e)
{
    return group_call_start(
        g,
        &(struct group_request){
            .op = PLAN_ALL_REDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .reduce = reduce, .tag = tag},
        work, e);
}

enum ps_err
ps_group_all_reduce(ps_group *g, const void *in, void *out, size_t count, enum ps_dtype dtype, enum ps_reduce reduce,
                    ps_work **work, struct ps_error *error)
{
    return group_tagged_all_reduce(g, GROUP_TAG_NONE, in, out, count, dtype, reduce, work, error);
}

enum ps_err
ps_group_reduce_scatter(ps_group *g, const void *in, void *out, size_t count, enum ps_dtype dtype,
                        enum ps_reduce reduce, ps_work **work, struct ps_error *error)
{
    return group_call_start(
        g,
        &(struct group_request){
            .op = PLAN_REDUCE_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .reduce = reduce},
        work, error);
}

enum ps_err
group_tagged_all_gather(ps_group *g, uint64_t tag, const void *in, void *out, size_t count, enum ps_dtype dtype,
                        ps_work **work, struct ps_error *e)
{
    return group_call_start(
        g,
        &(struct group_request){
            .op = PLAN_ALL_GATHER, .in = in, .out = out, .count = count, .dtype = dtype, .tag = tag},
        work, e);
}

enum ps_err
ps_group_all_gather(ps_group *g, const void *in, void *out, size_t count, enum ps_dtype dtype, ps_work **work,
                    struct ps_error *error)
{
    return group_tagged_all_gather(g, GROUP_TAG_NONE, in, out, count, dtype, work, error);
}

enum ps_err
ps_group_broadcast(ps_group *g, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root, ps_work **work,
                   struct ps_error *error)
{
    return group_call_start(
        g,
        &(struct group_request){
            .op = PLAN_BROADCAST, .in = buffer, .out = buffer, .count = count, .dtype = dtype, .root = root},
        work, error);
}

enum ps_err
ps_group_reduce(ps_group *g, const void *in, void *out, size_t count, enum ps_dtype dtype, enum ps_reduce reduce,
                uint32_t root, ps_work **work, struct ps_error *error)
{
    return group_call_start(
        g,
        &(struct group_request){
            .op = PLAN_REDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .reduce = reduce, .root = root},
        work, error);
}

enum ps_err
ps_group_barrier(ps_group *g, ps_work **work, struct ps_error *error)
{
    return group_call_start(g, &(struct group_request){.op = PLAN_BARRIER, .dtype = PS_F32}, work, error);
}

enum ps_err
ps_group_send(ps_group *g, const void *buffer, size_t count, enum ps_dtype dtype, uint32_t to, ps_work **work,
              struct ps_error *error)
{
    return group_call_start(
        g, &(struct group_request){.op = PLAN_KEY_SEND, .in = buffer, .count = count, .dtype = dtype, .root = to}, work,
        error);
}

enum ps_err
ps_group_receive(ps_group *g, void *buffer, size_t count, enum ps_dtype dtype, uint32_t from, ps_work **work,
                 struct ps_error *error)
{
    return group_call_start(
        g, &(struct group_request){.op = PLAN_KEY_RECEIVE, .out = buffer, .count = count, .dtype = dtype, .root = from},
        work, error);
}

enum ps_err
group_merge_start(ps_group *g, const struct group_merge *m, ps_work **work, struct ps_error *e)
{
    return group_call_start(g,
                            &(struct group_request){.op = PLAN_KEY_MERGE,
                                                    .in = m->in,
                                                    .out = m->out,
                                                    .count = ps_group_ranks(g) * m->slot,
                                                    .dtype = PS_I32,
                                                    .reduce = m->reduce,
                                                    .tag = m->tag,
                                                    .piece = m->piece,
                                                    .encoding = (uint8_t)m->encoding,
                                                    .elements = m->elements,
                                                    .merge = m->merge,
                                                    .merge_arg = m->arg},
                            work, e);
}

/* ---- What it is ---- */

uint32_t
ps_group_rank(const ps_group *g)
{
    return g->table.rank;
}

uint32_t
ps_group_ranks(const ps_group *g)
{
    return g->table.ranks;
}

uint64_t
ps_group_epoch(const ps_group *g)
{
    return g->epoch;
}

uint32_t
ps_group_task(const ps_group *g, uint32_t rank)
{
    return rank < g->table.ranks ? g->table.members[rank].task : UINT32_MAX;
}

uint64_t
ps_group_incarnation(const ps_group *g, uint32_t rank)
{
    return rank < g->table.ranks ? g->table.members[rank].incarnation : 0;
}

int
ps_group_same_host(const ps_group *g, uint32_t rank)
{
    const struct group_membership *t = &g->table;

    return rank < t->ranks && (rank == t->rank || (t->members[rank].host[0] != '\0' &&
                                                   strcmp(t->members[rank].host, t->members[t->rank].host) == 0));
}

const char *
ps_group_transport(const ps_group *g, uint32_t rank)
{
    const char *name;

    if (rank >= g->table.ranks)
        return "";
    if (rank == g->table.rank)
        return "self";
    group_enter(g);
    name = g->links != NULL && g->links[rank] != NULL ? g->links[rank]->ops->name : "tcp";
    group_leave(g);
    return name;
}

enum ps_err
ps_group_state(const ps_group *g, struct ps_error *error)
{
    enum ps_err err;

    group_enter(g);
    err = g->core != NULL ? group_core_state(g->core, error) : not_formed(g, error);
    group_leave(g);
    return err;
}

/* A rank that has said goodbye fails no group whose operations are done, so it is looked for here. */
static enum ps_err
check_all_present(const ps_group *g, struct ps_error *e)
{
    const struct group_membership *t = &g->table;

    for (uint32_t r = 0; r < t->ranks; r++) {
        if (r == t->rank || g->links[r] != NULL)
            continue;
        (void)ps_fail(e, PS_ERR_CLOSED, "rank %u has left the group", r);
        if (e != NULL)
            group_membership_name(t, r, e->peer, sizeof e->peer);
        return PS_ERR_CLOSED;
    }
    return PS_OK;
}

enum ps_err
group_watch(ps_group *g, struct ps_error *e)
{
    enum ps_err err;

    group_enter(g);
    if (g->core != NULL && !g->progress.runs)
        group_turn(g);
    if (g->core == NULL)
        err = not_formed(g, e);
    else if ((err = group_core_state(g->core, e)) == PS_OK)
        err = check_all_present(g, e);
    group_leave(g);
    return err;
}

int
group_timeout_ms(const ps_group *g)
{
    return g->options.timeout_ms;
}

char *
ps_group_explain(const ps_group *g, size_t count, enum ps_dtype dtype)
{
    char *text;

    group_enter(g);
    text = g->core != NULL ? group_core_explain(g->core, count, dtype) : NULL;
    group_leave(g);
    return text;
}
