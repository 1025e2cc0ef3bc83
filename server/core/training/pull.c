/* Pulls. Parked ones are looked at once per turn, in order of arrival, and only in jobs where a clock rose or a step
 * was done. */
#include "server/core/training/pull.h"

#include <inttypes.h>
#include <string.h>

#include "server/core/shard_state.h"

/* SSP: a reader may run at most `bound` clocks ahead of the slowest worker (Ho et al., NIPS 2013). */
static bool
ssp_ready(const struct job *job, uint64_t clock)
{
    uint64_t bound = job->bound + MUTATION(ANOTHER_CLOCK);

    return clock <= bound || job->slowest >= clock - bound;
}

/* Sync: all steps before the puller's clock are done, in every block that it asks for. Blocks never go back, so the
 * first one that was not ready is where to look again. */
static bool
sync_ready(struct shard *s, const struct job *job, struct pull *p)
{
    for (; p->at < (MUTATION(FIRST_BLOCK_ONLY) ? 1 : p->data->len); p->at++) {
        struct block_ref ref;

        block_refind(s, p->data->var[p->at], p->data->block[p->at], &ref);
        if (clock_of_block(job, ref.block, CLOCK_FOR_PULL) < p->clock)
            return false;
    }
    return true;
}

/* Blocks that are to have the values of an assign have them. */
static bool
pull_settled(struct shard *s, const struct pull *p)
{
    for (uint32_t i = 0; i < p->data->len && p->job->assigns.committed != 0; i++) {
        struct block_ref ref;

        block_locate(s, p->data->var[i], p->data->block[i], &ref);
        if (!assign_lets_pull(s, p->job, &ref, p->with_assign))
            return false;
    }
    return true;
}

static bool
pull_mode_ready(struct shard *s, const struct job *job, struct pull *p)
{
    if (p->now)
        return true;
    switch (job->options->mode) {
    case PSD__MODE__SSP:
        return ssp_ready(job, p->clock);
    case PSD__MODE__SYNC:
        return sync_ready(s, job, p);
    default:
        return true;
    }
}

static bool
pull_ready(struct shard *s, const struct job *job, struct pull *p)
{
    p->settles = pull_mode_ready(s, job, p);
    return p->settles && pull_settled(s, p);
}

static void
pull_send(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data, const struct job *job)
{
    data->clock = job->slowest;
    durable_acks_send_data(s, c, until, data);
}

/* ---- Asking ---- */

/* The blocks exist and fit one frame. */
static enum ps_err
pull_check(struct shard *s, const struct job *job, const Psd__Pull *m, struct ps_error *e)
{
    uint64_t bytes = 0;
    struct block_ref ref;
    enum ps_err err;

    for (size_t i = 0; i < m->n_var; i++) {
        if ((err = block_find(s, job, m->var[i], m->block[i], &ref, e)) != PS_OK)
            return err;
        bytes += block_gradient_bytes(&ref);
    }
    if (bytes > FRAME_PAYLOAD_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "the %zu blocks of this pull hold %" PRIu64 " bytes, one frame holds %llu",
                       m->n_var, bytes, (unsigned long long)FRAME_PAYLOAD_MAX);
    return PS_OK;
}

static struct shard_data *
data_of_pull(uint64_t request, const Psd__Pull *m)
{
    struct shard_data *d = data_new((uint32_t)m->n_var, m->n_newer_than > 0, false);

    if (d == NULL)
        return NULL;
    d->request = request;
    memcpy(d->var, m->var, m->n_var * sizeof *d->var);
    memcpy(d->block, m->block, m->n_var * sizeof *d->block);
    if (d->with_newer)
        memcpy(d->newer_than, m->newer_than, m->n_var * sizeof *d->newer_than);
    return d;
}

static void
parked_count(struct shard *s, struct connection *c, uint64_t bytes)
{
    c->parked_bytes += bytes;
    s->parked_bytes += bytes;
    if (c->share != NULL)
        c->share->parked_bytes += bytes;
}

static void
parked_uncount(struct shard *s, struct connection *c, uint64_t bytes)
{
    c->parked_bytes -= bytes;
    s->parked_bytes -= bytes;
    if (c->share != NULL && !MUTATION(COUNTS_AS_WAITING))
        c->share->parked_bytes -= bytes;
}

static void
pull_park(struct shard *s, struct connection *c, const struct pull *asked)
{
    struct pull *p = pool_take(&s->pool, sizeof *p);

    if (p == NULL) {
        shard_data_free(asked->data);
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    *p = *asked;
    DL_APPEND(p->job->pulls, p);
    p->job->pulls_len++;
    DL_APPEND2(c->parked, p, parked_prev, parked_next);
    c->parked_len++;
    parked_count(s, c, shard_data_bytes(p->data) + sizeof *p);
    s->stats.pulls_parked++;
}

/* Which limit one more would exceed; LIMITS: none. */
static enum limit
parked_limit(const struct shard *s, const struct connection *c, uint64_t bytes)
{
    uint64_t all = s->config.parked_all_max;

    if (c->parked_len >= s->config.parked_max)
        return LIMIT_PARKED;
    if (c->parked_bytes + bytes > s->config.parked_bytes_max)
        return LIMIT_PARKED_BYTES;
    if (all != 0 && (s->parked_bytes + bytes > all || (c->share != NULL && c->share->parked_bytes + bytes > all / 2)))
        return LIMIT_PARKED_ALL;
    return LIMITS;
}

static bool
may_park(struct shard *s, struct connection *c, uint64_t request, const struct shard_data *data)
{
    enum limit limit = parked_limit(s, c, shard_data_bytes(data) + sizeof(struct pull));
    struct ps_error e;

    if (limit == LIMITS)
        return true;
    limit_refuse(s, limit, &e, "this pull would wait, and %u of this connection do and hold %" PRIu64 " bytes",
                 c->parked_len, c->parked_bytes);
    actions_error(s, c, request, e.code, e.text);
    return false;
}

/* The job whose blocks are asked for: for a worker its own, for an observer that of the first block. */
static struct job *
job_asked(const struct shard *s, const struct connection *c, const Psd__Pull *m)
{
    const struct variable *v;

    if (c->session != NULL)
        return c->session->job;
    v = variable_find(s, m->var[0]);
    return v != NULL ? v->job : NULL;
}

static enum ps_err
no_job(const struct shard *s, const Psd__Pull *m, struct ps_error *e)
{
    if (m->var[0] > 0 && m->var[0] < s->variables.next)
        return ps_fail(e, PS_ERR_DROPPED, "variable %u of shard %u was dropped: attach again", m->var[0],
                       s->config.shard);
    return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no variable %u: attach first", s->config.shard, m->var[0]);
}

/* What the puller knows of assigns, and wants of them. */
static void
pull_take_assigns(struct shard *s, const struct connection *c, struct job *job, const Psd__Pull *m)
{
    assign_resolve(s, job, MAX(m->assigned, m->with_assign), 0);
    if (c->session != NULL && m->with_assign > 0)
        assign_hurry(s, job, m->clock, m->with_assign);
}

void
pull_ask(struct shard *s, struct connection *c, uint64_t request, const Psd__Pull *m)
{
    struct job *job = job_asked(s, c, m);
    struct pull p = {.connection = c,
                     .job = job,
                     .request = request,
                     .clock = m->clock,
                     .with_assign = m->with_assign,
                     .now = m->now || c->session == NULL, /* an observer holds no clock and waits for none */
                     .since_ms = s->now_ms,
                     .since_ns = s->now_ns};
    struct ps_error e;
    enum ps_err err;

    if ((err = job != NULL ? pull_check(s, job, m, &e) : no_job(s, m, &e)) != PS_OK) {
        actions_error(s, c, request, err, e.text);
        return;
    }
    pull_take_assigns(s, c, job, m);
    if ((p.data = data_of_pull(request, m)) == NULL)
        turn_fail(s, PS_ERR_NOMEM);
    else if (pull_ready(s, job, &p))
        pull_send(s, c, DURABLE_ACKS_NONE, p.data, job);
    else if (may_park(s, c, request, p.data))
        pull_park(s, c, &p);
    else
        shard_data_free(p.data);
}

/* ---- Pushes that want values ---- */

void
pull_answer_push(struct shard *s, struct connection *c, uint64_t until, const struct pending *p, uint64_t held_us)
{
    bool odd = false;
    struct shard_data *d;

    for (uint32_t i = 0; i < p->blocks_len && !odd; i++)
        odd = p->blocks[i].code != PS_OK;
    if ((d = data_new(p->blocks_len, false, odd)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    d->request = p->request;
    d->seq = p->seq;
    d->held_us = held_us;
    for (uint32_t i = 0; i < p->blocks_len; i++) {
        d->var[i] = p->blocks[i].var;
        d->block[i] = p->blocks[i].block;
        if (odd)
            d->code[i] = p->blocks[i].code;
    }
    pull_send(s, c, until, d, p->session->job);
}

void
pull_answer_now(struct shard *s, struct connection *c, uint64_t until, uint64_t request, const Psd__Push *m,
                const uint32_t *codes)
{
    struct shard_data *d = data_new((uint32_t)m->n_var, false, codes != NULL);

    if (d == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return;
    }
    d->request = request;
    d->seq = m->seq;
    memcpy(d->var, m->var, m->n_var * sizeof *d->var);
    memcpy(d->block, m->block, m->n_var * sizeof *d->block);
    if (codes != NULL)
        memcpy(d->code, codes, m->n_var * sizeof *codes);
    pull_send(s, c, until, d, c->session->job);
}

/* ---- Parked ones ---- */

static void
count_wait(struct shard *s, const struct pull *p, enum wait reason)
{
    struct traffic_wait w = traffic_waited(s, p->connection->session, reason, p->since_ms);

    for (uint32_t i = 0; i < p->data->len && w.ms > 0; i++)
        traffic_waited_for(s, &w, p->data->var[i]);
}

/* Out of both lists; its data is the caller's. */
static struct shard_data *
pull_unpark(struct shard *s, struct pull *p)
{
    struct shard_data *data = p->data;
    struct connection *c = p->connection;
    bool sync = job_is_sync(p->job);
    uint32_t task = c->session != NULL ? c->session->task : TIMELINE_NOBODY;

    count_wait(s, p, sync ? WAIT_STEP : WAIT_BOUND);
    data->held_us = shard_trace_held(s, sync ? TIMELINE_HELD_STEP : TIMELINE_HELD_BOUND, p->since_ns, task, p->clock);
    DL_DELETE(p->job->pulls, p);
    p->job->pulls_len--;
    DL_DELETE2(c->parked, p, parked_prev, parked_next);
    c->parked_len--;
    parked_uncount(s, c, shard_data_bytes(data) + sizeof *p);
    pool_give(&s->pool, p, sizeof *p);
    return data;
}

static void
sweep_job(struct shard *s, struct job *job)
{
    struct pull *p, *next;

    job->sweep = false;
    DL_FOREACH_SAFE (job->pulls, p, next) {
        struct connection *c = p->connection;

        if (pull_ready(s, job, p))
            pull_send(s, c, DURABLE_ACKS_NONE, pull_unpark(s, p), job);
    }
    assign_clock_moved(s, job);
}

void
pull_sweep(struct shard *s)
{
    if (!s->sweep)
        return;
    s->sweep = false;
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (s->jobs_by_id[id] != NULL && s->jobs_by_id[id]->sweep)
            sweep_job(s, s->jobs_by_id[id]);
}

static void
pull_end_with(struct shard *s, struct pull *p, enum ps_err code, const char *text)
{
    struct connection *c = p->connection;
    uint64_t request = p->request;

    shard_data_free(pull_unpark(s, p));
    if (code != PS_OK)
        actions_error(s, c, request, code, text);
}

bool
pull_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code, const char *text)
{
    struct pull *p, *next;
    bool found = false;

    for (p = c->parked; p != NULL; p = next) {
        next = p->parked_next;
        if (request != 0 && p->request != request)
            continue;
        pull_end_with(s, p, code, text);
        found = true;
    }
    return found;
}

void
pull_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text)
{
    struct pull *p, *next;

    DL_FOREACH_SAFE (job->pulls, p, next)
        pull_end_with(s, p, code, text);
}

void
pull_end_waiting(struct shard *s, struct job *job, enum ps_err code, const char *text)
{
    struct pull *p, *next;

    DL_FOREACH_SAFE (job->pulls, p, next)
        if (!p->settles)
            pull_end_with(s, p, code, text);
}

static bool
pull_has_dropped(const struct shard *s, const struct pull *p)
{
    for (uint32_t i = 0; i < p->data->len; i++)
        if (variable_find(s, p->data->var[i]) == NULL)
            return true;
    return false;
}

void
pull_end_dropped(struct shard *s, struct job *job, const char *text)
{
    struct pull *p, *next;

    DL_FOREACH_SAFE (job->pulls, p, next)
        if (pull_has_dropped(s, p))
            pull_end_with(s, p, PS_ERR_DROPPED, text);
}

void
pull_forget(struct shard *s, struct connection *c)
{
    pull_end(s, c, 0, PS_OK, NULL);
}
