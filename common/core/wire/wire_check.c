/* The rules of each message, in the order of psd.proto: a check function reads as the list of them. Definitions of
 * variables are checked in wire_check_variable.c. */
#include "common/core/wire/wire_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/core/cluster/address.h"
#include "common/core/wire/wire_rules.h"
#include "common/core/wire/wire_text.h"

/* ---- Hello, welcome ---- */

static enum ps_err
check_age(const Psd__AgePolicy *a, const char *kind, const char *parameter, struct ps_error *e)
{
    struct age_policy policy;

    TRY(rule_known(e, kind, (int)a->kind, AGE_KIND_MAX));
    TRY(rule_number(e, parameter, a->parameter));
    policy = wire_age(a);
    return age_check(&policy, e);
}

static enum ps_err
check_job(Psd__Job *j, struct ps_error *e)
{
    TRY(rule_name(e, "job.name", j->name, 1, WIRE_NAME_MAX));
    TRY(rule_known(e, "job.mode", (int)j->mode, PSD__MODE__SYNC + 1));
    TRY(rule_known(e, "job.lapse", (int)j->lapse, PSD__LAPSE__FAIL + 1));
    TRY(rule_within(e, "job.workers", j->workers, 1, WIRE_WORKERS_MAX));
    if (j->mode == PSD__MODE__SYNC) {
        TRY(rule_within(e, "job.quorum", j->quorum, 1, UINT64_MAX));
        TRY(rule_below(e, "job.quorum", j->quorum, "job.workers + 1", (uint64_t)j->workers + 1));
    }
    return check_age(j->age, "job.age.kind", "job.age.parameter", e);
}

/* An observer may leave out which shard of which cluster it wants. */
static enum ps_err
check_place(const char *cluster, uint32_t shard, uint32_t shards, bool any, struct ps_error *e)
{
    TRY(rule_name(e, "cluster", cluster, any ? 0 : 1, WIRE_CLUSTER_MAX));
    if (any && cluster[0] == '\0')
        return PS_OK;
    TRY(rule_within(e, "shards", shards, 1, WIRE_SHARDS_MAX));
    return rule_below(e, "shard", shard, "shards", shards);
}

enum ps_err
wire_check_hello(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Hello *h = msg->u.hello;
    bool worker;

    TRY(rule_known(e, "hello.role", (int)h->role, PSD__ROLE__OBSERVER + 1));
    worker = h->role == PSD__ROLE__WORKER;
    TRY(check_place(h->cluster, h->shard, h->shards, !worker, e));
    TRY(rule_name(e, "hello.agent", h->agent, 0, WIRE_AGENT_MAX));
    TRY(rule_within(e, "hello.lease_ms", h->lease_ms, 0, WIRE_LEASE_MS_MAX));
    FILL(arena, h->job, psd__job__init);
    FILL(arena, h->job->age, psd__age_policy__init);
    if (!worker)
        return PS_OK;
    TRY(check_job(h->job, e));
    TRY(rule_below(e, "hello.task", h->task, "job.workers", h->job->workers));
    TRY(rule_within(e, "the number of hello.metric_names", h->n_metric_names, 0, WIRE_METRICS_MAX));
    TRY(wire_metric_names_check(h->n_metric_names, (const char *const *)h->metric_names, e));
    TRY(rule_within(e, "hello.round", h->round, 0, UINT64_C(1) << 62));
    return rule_within(e, "hello.incarnation", h->incarnation, 1, UINT64_MAX);
}

/* Metrics may be NaN or infinite: a loss can be, and the only computation with it is the sum over workers. */
static enum ps_err
check_metrics(struct ps_error *e, const char *field, const Psd__Metrics *m)
{
    return m == NULL ? PS_OK : rule_within(e, field, m->n_value, 0, WIRE_METRICS_MAX);
}

enum ps_err
wire_check_welcome(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Welcome *w = msg->u.welcome;
    bool has_job = w->job != NULL && w->job->name[0] != '\0'; /* not for an observer */

    TRY(check_place(w->cluster, w->shard, w->shards, false, e));
    FILL(arena, w->job, psd__job__init);
    FILL(arena, w->job->age, psd__age_policy__init);
    TRY(rule_within(e, "the number of welcome.survived", w->survived.len, 0, WIRE_SURVIVED_MAX));
    TRY(rule_within(e, "the number of welcome.odd_seq", w->n_odd_seq, 0, WIRE_ODD_MAX));
    TRY(rule_parallel(e, "welcome.odd_code", w->n_odd_code, "welcome.odd_seq", w->n_odd_seq));
    rule_codes_known(w->odd_code, w->n_odd_code);
    TRY(rule_name(e, "welcome.restored", w->restored, 0, WIRE_NAME_MAX));
    TRY(check_metrics(e, "the number of welcome.metrics", w->metrics));
    return has_job ? check_job(w->job, e) : PS_OK;
}

/* ---- Pull, data, push, ack ---- */

enum ps_err
wire_check_pull(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Pull *p = msg->u.pull;

    (void)arena;
    TRY(rule_within(e, "the number of pull.var", p->n_var, 1, WIRE_BLOCKS_MAX));
    TRY(rule_parallel(e, "pull.block", p->n_block, "pull.var", p->n_var));
    return rule_empty_or_parallel(e, "pull.newer_than", p->n_newer_than, "pull.var", p->n_var);
}

enum ps_err
wire_check_data(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Data *d = msg->u.data;

    (void)arena;
    TRY(rule_within(e, "the number of data.version", d->n_version, 1, WIRE_BLOCKS_MAX));
    TRY(rule_empty_or_parallel(e, "data.code", d->n_code, "data.version", d->n_version));
    rule_codes_known(d->code, d->n_code);
    return PS_OK;
}

static bool
data_cursor_before(const Psd__Cursor *a, const Psd__Cursor *b)
{
    return a->epoch < b->epoch || (a->epoch == b->epoch && a->position < b->position);
}

enum ps_err
wire_check_push(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Push *p = msg->u.push;

    (void)arena;
    TRY(rule_sequence(e, "push.seq", p->seq, p->acked_through));
    TRY(rule_within(e, "the number of push.var", p->n_var, 1, WIRE_BLOCKS_MAX));
    TRY(rule_parallel(e, "push.block", p->n_block, "push.var", p->n_var));
    if (p->norm != NULL && !(p->norm->l2 >= 0 && isfinite(p->norm->l2)))
        return ps_fail(e, PS_ERR_INVALID, "push.norm.l2 is %g; it must be finite and at least 0", p->norm->l2);
    if (p->cursor != NULL && p->cursor_from != NULL && !data_cursor_before(p->cursor_from, p->cursor))
        return ps_fail(e, PS_ERR_INVALID, "push.cursor_from does not lie before push.cursor");
    return rule_empty_or_parallel(e, "push.from_version", p->n_from_version, "push.var", p->n_var);
}

static enum ps_err
check_error(Psd__Error *error, const char *code, const char *text, struct ps_error *e)
{
    TRY(rule_within(e, code, error->code, 1, UINT64_MAX));
    rule_codes_known(&error->code, 1);
    return rule_sentence(e, text, error->text);
}

enum ps_err
wire_check_ack(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Ack *a = msg->u.ack;

    (void)arena;
    for (size_t i = 0; i < a->n_seq; i++)
        TRY(rule_within(e, "ack.seq", a->seq[i], 1, UINT64_MAX));
    TRY(rule_empty_or_parallel(e, "ack.code", a->n_code, "ack.seq", a->n_seq));
    rule_codes_known(a->code, a->n_code);
    for (size_t i = 0; i < a->n_blocks; i++) {
        TRY(rule_within(e, "ack.blocks.seq", a->blocks[i]->seq, 1, UINT64_MAX));
        TRY(rule_within(e, "the number of ack.blocks.code", a->blocks[i]->n_code, 1, WIRE_BLOCKS_MAX));
        rule_codes_known(a->blocks[i]->code, a->blocks[i]->n_code);
    }
    for (size_t i = 0; i < a->n_error; i++)
        TRY(check_error(a->error[i], "ack.error.code", "ack.error.text", e));
    return PS_OK;
}

/* ---- The other sequenced messages, cancel ---- */

enum ps_err
wire_check_tick(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_sequence(e, "tick.seq", msg->u.tick->seq, msg->u.tick->acked_through));
    return check_metrics(e, "the number of tick.metrics", msg->u.tick->metrics);
}

enum ps_err
wire_check_barrier(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_sequence(e, "barrier.seq", msg->u.barrier->seq, msg->u.barrier->acked_through));
    return rule_name(e, "barrier.name", msg->u.barrier->name, 1, WIRE_NAME_MAX);
}

enum ps_err
wire_check_skip(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return rule_sequence(e, "skip.seq", msg->u.skip->seq, msg->u.skip->acked_through);
}

enum ps_err
wire_check_cancel(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return rule_within(e, "cancel.request", msg->u.cancel->request, 1, UINT64_MAX);
}

/* ---- Error, event ---- */

enum ps_err
wire_check_error(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return check_error(msg->u.error, "error.code", "error.text", e);
}

enum ps_err
wire_check_event(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_known(e, "event.kind", (int)msg->u.event->kind, PSD__EVENT_KIND__EVENT_REJOINED + 1));
    return rule_sentence(e, "event.text", msg->u.event->text);
}

/* ---- Query, report ---- */

enum ps_err
wire_check_query(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Query *q = msg->u.query;

    (void)arena;
    TRY(rule_known(e, "query.kind", (int)q->kind, PSD__QUERY_KIND__TIMELINE + 1));
    TRY(rule_name(e, "query.job", q->job, 0, WIRE_NAME_MAX));
    return rule_name(e, "query.after", q->after, 0, 2 * WIRE_NAME_MAX + 1); /* job/name */
}

static enum ps_err
check_variable_report(const Psd__VariableReport *v, struct ps_error *e)
{
    TRY(rule_within(e, "the number of report.variable.dims", v->n_dims, 0, WIRE_RANK_MAX));
    TRY(rule_sentence(e, "report.variable.job", v->job));
    TRY(rule_sentence(e, "report.variable.name", v->name));
    TRY(rule_sentence(e, "report.variable.optimizer", v->optimizer));
    return rule_sentence(e, "report.variable.initializer", v->initializer);
}

static enum ps_err
check_blocked_report(const Psd__BlockedReport *b, struct ps_error *e)
{
    TRY(rule_sentence(e, "report.blocked.job", b->job));
    TRY(rule_sentence(e, "report.blocked.what", b->what));
    return rule_sentence(e, "report.blocked.variable", b->variable);
}

/* Arrays that run in parallel. */
static enum ps_err
check_timeline(const Psd__TimelineReport *t, struct ps_error *e)
{
    size_t n = t->n_start_ns;

    TRY(rule_sentence(e, "report.timeline.machine", t->machine));
    if (t->n_took_ns != n || t->n_what != n || t->n_task != n || t->n_step != n || t->n_bytes != n ||
        t->n_commit_ns != n || t->n_answer_ns != n)
        return ps_fail(e, PS_ERR_INVALID, "the arrays of report.timeline are not of one length");
    return PS_OK;
}

enum ps_err
wire_check_report(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Report *r = msg->u.report;

    TRY(rule_known(e, "report.kind", (int)r->kind, PSD__QUERY_KIND__TIMELINE + 1));
    FILL(arena, r->status, psd__status_report__init);
    FILL(arena, r->stats, psd__stats_report__init);
    FILL(arena, r->stats->age, psd__histogram__init);
    TRY(rule_sentence(e, "report.status.cluster", r->status->cluster));
    TRY(rule_sentence(e, "report.status.version", r->status->version));
    TRY(rule_sentence(e, "report.status.live_dir", r->status->live_dir));
    TRY(rule_within(e, "the number of report.stats.age.count", r->stats->age->n_count, 0, WIRE_BUCKETS_MAX));
    for (size_t i = 0; i < r->n_variable; i++)
        TRY(check_variable_report(r->variable[i], e));
    for (size_t i = 0; i < r->n_worker; i++) {
        TRY(rule_sentence(e, "report.worker.job", r->worker[i]->job));
        TRY(rule_sentence(e, "report.worker.agent", r->worker[i]->agent));
    }
    for (size_t i = 0; i < r->n_blocked; i++)
        TRY(check_blocked_report(r->blocked[i], e));
    for (size_t i = 0; i < r->n_job; i++) {
        TRY(rule_sentence(e, "report.job.name", r->job[i]->name));
        TRY(rule_sentence(e, "report.job.options", r->job[i]->options));
        for (size_t j = 0; j < r->job[i]->n_metric_names; j++)
            TRY(rule_sentence(e, "report.job.metric_names", r->job[i]->metric_names[j]));
    }
    if (r->timeline != NULL)
        TRY(check_timeline(r->timeline, e));
    /* Definitions are checked, as hellos and declares are, by the code that uses them. */
    return PS_OK;
}

/* ---- Set ---- */

static bool
changes_variables(const Psd__Set *s)
{
    return s->n_parameter > 0 || s->schedule != NULL || s->clip != NULL;
}

/* Names and ranges are the optimizers' own: the receiver knows which ones the pattern names. */
static enum ps_err
check_parameters(const Psd__Set *s, struct ps_error *e)
{
    TRY(rule_within(e, "the number of set.parameter", s->n_parameter, 0, WIRE_PARAMETERS_MAX));
    for (size_t i = 0; i < s->n_parameter; i++) {
        TRY(rule_name(e, "set.parameter.name", s->parameter[i]->name, 1, WIRE_NAME_MAX));
        TRY(rule_number(e, "set.parameter.value", s->parameter[i]->value));
    }
    return PS_OK;
}

enum ps_err
wire_check_set(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Set *s = msg->u.set;

    (void)arena;
    TRY(rule_name(e, "set.job", s->job, 1, WIRE_NAME_MAX));
    TRY(rule_name(e, "set.variables", s->variables, 0, WIRE_NAME_MAX));
    TRY(check_parameters(s, e));
    if (s->schedule != NULL)
        TRY(rule_schedule(s->schedule, e));
    if (s->begin_now && (s->schedule == NULL || s->schedule->begin != 0))
        return ps_fail(e, PS_ERR_INVALID, "set: a schedule begins now, and there is none, or it begins elsewhere");
    if (s->clip != NULL)
        TRY(rule_clip(s->clip, e));
    if (s->age != NULL)
        TRY(check_age(s->age, "set.age.kind", "set.age.parameter", e));
    if (changes_variables(s) && s->variables[0] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "set: changes of variables, but set.variables is empty");
    if (!changes_variables(s) && s->variables[0] != '\0')
        return ps_fail(e, PS_ERR_INVALID, "set: variables '%s' are named, but nothing of them is to change",
                       s->variables);
    TRY(rule_within(e, "set.workers", s->workers, 0, WIRE_WORKERS_MAX));
    if (!changes_variables(s) && s->age == NULL && s->bound == NULL && s->workers == 0)
        return ps_fail(e, PS_ERR_INVALID, "set: nothing is to change");
    return PS_OK;
}

/* ---- Checkpoints ---- */

/* A path that can be written in a log line, and is not taken for one of another machine. */
static enum ps_err
check_dir(struct ps_error *e, const char *field, const char *dir)
{
    TRY(rule_name(e, field, dir, 1, WIRE_PATH_MAX));
    return dir[0] == '/' ? PS_OK : ps_fail(e, PS_ERR_INVALID, "%s is not an absolute path", field);
}

enum ps_err
wire_check_checkpoint(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_name(e, "checkpoint.job", msg->u.checkpoint->job, 1, WIRE_NAME_MAX));
    return check_dir(e, "checkpoint.dir", msg->u.checkpoint->dir);
}

enum ps_err
wire_check_checkpoint_done(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__CheckpointDone *m = msg->u.checkpoint_done;

    (void)arena;
    for (size_t i = 0; i < m->n_variable; i++)
        TRY(rule_name(e, "checkpoint_done.variable.name", m->variable[i]->name, 1, WIRE_NAME_MAX));
    return PS_OK;
}

enum ps_err
wire_check_restore(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_name(e, "restore.job", msg->u.restore->job, 0, WIRE_NAME_MAX));
    if (msg->u.restore->n_verified != 0 && msg->u.restore->n_verified != 2)
        return ps_fail(e, PS_ERR_INVALID, "restore.verified: %zu stamps, expected 2 or none",
                       msg->u.restore->n_verified);
    return check_dir(e, "restore.dir", msg->u.restore->dir);
}

/* ---- Rendezvous ---- */

/* Of another process, for a socket: numbers, no names, and a port that a process can listen at. */
static enum ps_err
check_address(struct ps_error *e, const char *field, const char *text)
{
    struct address address;
    struct ps_error why;

    TRY(rule_name(e, field, text, 1, WIRE_ADDRESS_MAX));
    if (address_parse(text, &address, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "%s: %.256s", field, why.text);
    if (address.is_unix || address.port == 0 || !address_is_number(address.host))
        return ps_fail(e, PS_ERR_INVALID, "%s is '%s', not the number of a machine with a port", field, text);
    return PS_OK;
}

enum ps_err
wire_check_meet(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Meet *m = msg->u.meet;

    (void)arena;
    TRY(rule_name(e, "meet.cluster", m->cluster, 1, WIRE_CLUSTER_MAX));
    TRY(rule_name(e, "meet.group", m->group, 1, WIRE_NAME_MAX));
    TRY(rule_within(e, "meet.workers", m->workers, 1, WIRE_GROUP_MAX));
    TRY(rule_below(e, "meet.task", m->task, "meet.workers", m->workers));
    TRY(rule_within(e, "meet.incarnation", m->incarnation, 1, UINT64_MAX));
    TRY(rule_within(e, "meet.attempt", m->attempt, 1, UINT64_MAX));
    TRY(rule_within(e, "meet.ranks_min", m->ranks_min, 0, m->workers));
    TRY(rule_within(e, "meet.settle_ms", m->settle_ms, 0, WIRE_LEASE_MS_MAX));
    TRY(rule_within(e, "meet.timeout_ms", m->timeout_ms, 0, WIRE_LEASE_MS_MAX));
    TRY(check_address(e, "meet.address", m->address));
    return rule_name(e, "meet.host", m->host, 0, WIRE_HOST_MAX);
}

enum ps_err
wire_check_met(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Met *m = msg->u.met;

    (void)arena;
    TRY(rule_within(e, "met.epoch", m->epoch, 1, UINT64_MAX));
    TRY(rule_within(e, "the number of met.member", m->n_member, 1, WIRE_GROUP_MAX));
    for (size_t i = 0; i < m->n_member; i++) {
        const Psd__GroupMember *member = m->member[i];

        if (i > 0 && member->task <= m->member[i - 1]->task)
            return ps_fail(e, PS_ERR_INVALID, "met.member is not in the order of tasks");
        TRY(rule_below(e, "met.member.task", member->task, "the workers of a group", WIRE_GROUP_MAX));
        TRY(rule_within(e, "met.member.incarnation", member->incarnation, 1, UINT64_MAX));
        TRY(check_address(e, "met.member.address", member->address));
        TRY(rule_name(e, "met.member.host", member->host, 0, WIRE_HOST_MAX));
    }
    return PS_OK;
}

/* ---- Evictions ---- */

enum ps_err
wire_check_evict(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_name(e, "evict.job", msg->u.evict->job, 1, WIRE_NAME_MAX));
    return rule_within(e, "evict.task", msg->u.evict->task, 0, WIRE_WORKERS_MAX - 1);
}

enum ps_err
wire_check_drop(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(rule_name(e, "drop.job", msg->u.drop->job, 1, WIRE_NAME_MAX));
    return rule_name(e, "drop.variables", msg->u.drop->variables, 0, WIRE_NAME_MAX);
}

enum ps_err
wire_check_evicted(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return rule_name(e, "evicted.agent", msg->u.evicted->agent, 0, WIRE_AGENT_MAX);
}

/* ---- Definitions of jobs ---- */

enum ps_err
wire_check_define(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Define *d = msg->u.define;

    (void)arena;
    TRY(rule_within(e, "the number of define.field", d->n_field, 1, WIRE_FIELDS_MAX));
    return wire_fields_check(d->n_field, d->field, e);
}

/* ---- Assigns ---- */

/* BEGIN is answered with the number that the other steps have; GIVE_UP may come before that. Blocks come with STAGE
 * alone. */
enum ps_err
wire_check_assign(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Assign *a = msg->u.assign;
    bool stages = a->step == PSD__ASSIGN_STEP__STAGE;
    bool numbered = a->step != PSD__ASSIGN_STEP__BEGIN && a->step != PSD__ASSIGN_STEP__GIVE_UP;

    (void)arena;
    TRY(rule_known(e, "assign.step", (int)a->step, PSD__ASSIGN_STEP__GIVE_UP + 1));
    TRY(rule_within(e, "assign.attempt", a->attempt, 1, UINT64_MAX));
    TRY(rule_within(e, "assign.number", a->number, numbered, WIRE_ASSIGN_MAX));
    TRY(rule_within(e, "assign.committed", a->committed, 0, WIRE_ASSIGN_MAX));
    TRY(rule_within(e, "the number of assign.var", a->n_var, stages, stages ? WIRE_BLOCKS_MAX : 0));
    if (!stages && msg->payload_len > 0)
        return ps_fail(e, PS_ERR_INVALID, "assign: a payload comes with no other step than STAGE");
    return rule_parallel(e, "assign.block", a->n_block, "assign.var", a->n_var);
}
