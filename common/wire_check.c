/* The rules of each message, in the order of psd.proto. Helpers take the field's name, so that every refusal says which
 * field it is about; a check function reads as the list of its message's rules.
 *
 * Two kinds of text: names are refused when they are not clean (they become keys), sentences are made clean (they are
 * only shown). */
#include "wire_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "safetensors.h"

#define TRY(check)                                                                                                     \
    do {                                                                                                               \
        enum ps_err err_ = (check);                                                                                    \
        if (err_ != PS_OK)                                                                                             \
            return err_;                                                                                               \
    } while (0)

/* ---- Text ---- */

static bool
continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Bytes of the character at s (n >= 1 bytes are there), 0 when it is not valid UTF-8 or a control character. */
static size_t
character_len(const uint8_t *s, size_t n)
{
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    if (s[0] < 0xc2) /* continuation, or an overlong form of two bytes */
        return 0;
    if (s[0] < 0xe0) /* U+0080 to U+009F are control characters */
        return n >= 2 && continues(s[1]) && !(s[0] == 0xc2 && s[1] < 0xa0) ? 2 : 0;
    if (s[0] < 0xf0) {
        if (n < 3 || !continues(s[1]) || !continues(s[2]) || (s[0] == 0xe0 && s[1] < 0xa0))
            return 0;
        return s[0] == 0xed && s[1] >= 0xa0 ? 0 : 3; /* surrogates */
    }
    if (s[0] > 0xf4 || n < 4 || !continues(s[1]) || !continues(s[2]) || !continues(s[3]))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) /* overlong, past U+10FFFF */
        return 0;
    return 4;
}

bool
wire_text_ok(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;

    for (size_t len; n > 0; s += len, n -= len)
        if ((len = character_len(s, n)) == 0)
            return false;
    return true;
}

void
wire_text_clean(char *text)
{
    size_t n = strlen(text), len;

    for (; n > 0; text += len, n -= len) {
        len = character_len((const uint8_t *)text, n);
        if (len == 0) {
            *text = '?';
            len = 1;
        }
    }
}

/* ---- Rules ---- */

static enum ps_err
name(struct ps_error *e, const char *field, const char *text, size_t least, size_t most)
{
    size_t len = strlen(text);

    if (len < least)
        return ps_fail(e, PS_ERR_INVALID, "%s is empty", field);
    if (len > most)
        return ps_fail(e, PS_ERR_LIMIT, "%s has %zu bytes; the limit is %zu", field, len, most);
    if (!wire_text_ok(text, len))
        return ps_fail(e, PS_ERR_INVALID, "%s is not valid UTF-8, or has control characters", field);
    return PS_OK;
}

enum ps_err
wire_check_variable_name(const char *name, struct ps_error *e)
{
    if (strcmp(name, SAFETENSORS_METADATA) != 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID,
                   "a variable cannot have the name '%s', which safetensors files use for something else: it could "
                   "have no checkpoint",
                   name);
}

static enum ps_err
sentence(struct ps_error *e, const char *field, char *text)
{
    size_t len = strlen(text);

    if (len > WIRE_ERROR_TEXT_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "%s has %zu bytes; the limit is %d", field, len, WIRE_ERROR_TEXT_MAX);
    wire_text_clean(text);
    return PS_OK;
}

static enum ps_err
within(struct ps_error *e, const char *field, uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 "; the least is %" PRIu64, field, value, least);
    if (value > most)
        return ps_fail(e, PS_ERR_LIMIT, "%s is %" PRIu64 "; the limit is %" PRIu64, field, value, most);
    return PS_OK;
}

static enum ps_err
below(struct ps_error *e, const char *field, uint64_t value, const char *other, uint64_t bound)
{
    if (value >= bound)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 ", it must be below %s (%" PRIu64 ")", field, value, other,
                       bound);
    return PS_OK;
}

/* Enumerations are numbered from 0 without holes; protobuf-c keeps numbers that it does not know. */
static enum ps_err
known(struct ps_error *e, const char *field, int value, int count)
{
    if (value < 0 || value >= count)
        return ps_fail(e, PS_ERR_INVALID, "%s is %d, which is not known", field, value);
    return PS_OK;
}

static enum ps_err
number(struct ps_error *e, const char *field, double value)
{
    if (!isfinite(value))
        return ps_fail(e, PS_ERR_INVALID, "%s is not finite", field);
    return PS_OK;
}

static enum ps_err
parallel(struct ps_error *e, const char *field, size_t n, const char *other, size_t m)
{
    if (n != m)
        return ps_fail(e, PS_ERR_INVALID, "%s has %zu entries, %s has %zu", field, n, other, m);
    return PS_OK;
}

static enum ps_err
empty_or_parallel(struct ps_error *e, const char *field, size_t n, const char *other, size_t m)
{
    return n == 0 ? PS_OK : parallel(e, field, n, other, m);
}

/* A sequence number, and what is acknowledged before it: a message that is sent is not answered yet. */
static enum ps_err
sequence(struct ps_error *e, const char *field, uint64_t seq, uint64_t acked_through)
{
    TRY(within(e, field, seq, 1, UINT64_MAX));
    if (acked_through >= seq)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 ", but acked_through is %" PRIu64, field, seq,
                       acked_through);
    return PS_OK;
}

/* A newer peer may know more codes. */
static void
codes_known(uint32_t *code, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (code[i] >= PS_ERR_COUNT)
            code[i] = PS_ERR_INTERNAL;
}

static enum ps_err
no_room(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory to unpack metadata");
}

/* A message inside a message that was not sent gets its defaults. */
#define FILL(arena, field, init)                                                                                       \
    do {                                                                                                               \
        if ((field) == NULL) {                                                                                         \
            (field) = arena_alloc((arena), sizeof *(field));                                                           \
            if ((field) == NULL)                                                                                       \
                return no_room(e);                                                                                     \
            init(field);                                                                                               \
        }                                                                                                              \
    } while (0)

/* ---- Hello, welcome ---- */

static enum ps_err
check_age(const Psd__AgePolicy *a, const char *kind, const char *parameter, struct ps_error *e)
{
    struct age_policy policy;

    TRY(known(e, kind, (int)a->kind, AGE_KIND_MAX));
    TRY(number(e, parameter, a->parameter));
    policy = wire_age(a);
    return age_check(&policy, e);
}

static enum ps_err
check_job(Psd__Job *j, struct ps_error *e)
{
    TRY(name(e, "job.name", j->name, 1, WIRE_NAME_MAX));
    TRY(known(e, "job.mode", (int)j->mode, PSD__MODE__SYNC + 1));
    TRY(known(e, "job.lapse", (int)j->lapse, PSD__LAPSE__FAIL + 1));
    TRY(within(e, "job.workers", j->workers, 1, WIRE_WORKERS_MAX));
    if (j->mode == PSD__MODE__SYNC) {
        TRY(within(e, "job.quorum", j->quorum, 1, UINT64_MAX));
        TRY(below(e, "job.quorum", j->quorum, "job.workers + 1", (uint64_t)j->workers + 1));
    }
    return check_age(j->age, "job.age.kind", "job.age.parameter", e);
}

/* An observer may leave out which shard of which cluster it wants. */
static enum ps_err
check_place(const char *cluster, uint32_t shard, uint32_t shards, bool any, struct ps_error *e)
{
    TRY(name(e, "cluster", cluster, any ? 0 : 1, WIRE_CLUSTER_MAX));
    if (any && cluster[0] == '\0')
        return PS_OK;
    TRY(within(e, "shards", shards, 1, WIRE_SHARDS_MAX));
    return below(e, "shard", shard, "shards", shards);
}

enum ps_err
wire_check_hello(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Hello *h = msg->u.hello;
    bool worker;

    TRY(known(e, "hello.role", (int)h->role, PSD__ROLE__OBSERVER + 1));
    worker = h->role == PSD__ROLE__WORKER;
    TRY(check_place(h->cluster, h->shard, h->shards, !worker, e));
    TRY(name(e, "hello.agent", h->agent, 0, WIRE_AGENT_MAX));
    TRY(within(e, "hello.lease_ms", h->lease_ms, 0, WIRE_LEASE_MS_MAX));
    FILL(arena, h->job, psd__job__init);
    FILL(arena, h->job->age, psd__age_policy__init);
    if (!worker)
        return PS_OK;
    TRY(check_job(h->job, e));
    TRY(below(e, "hello.task", h->task, "job.workers", h->job->workers));
    return within(e, "hello.incarnation", h->incarnation, 1, UINT64_MAX);
}

/* They may be NaN or infinite: a loss is what it is, and nothing here computes with it but the sum over workers. */
static enum ps_err
check_metrics(struct ps_error *e, const char *field, const Psd__Metrics *m)
{
    return m == NULL ? PS_OK : within(e, field, m->n_value, 0, WIRE_METRICS_MAX);
}

enum ps_err
wire_check_welcome(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Welcome *w = msg->u.welcome;
    bool has_job = w->job != NULL && w->job->name[0] != '\0'; /* not for an observer */

    TRY(check_place(w->cluster, w->shard, w->shards, false, e));
    FILL(arena, w->job, psd__job__init);
    FILL(arena, w->job->age, psd__age_policy__init);
    TRY(within(e, "the number of welcome.survived", w->survived.len, 0, WIRE_SURVIVED_MAX));
    TRY(within(e, "the number of welcome.odd_seq", w->n_odd_seq, 0, WIRE_ODD_MAX));
    TRY(parallel(e, "welcome.odd_code", w->n_odd_code, "welcome.odd_seq", w->n_odd_seq));
    codes_known(w->odd_code, w->n_odd_code);
    TRY(name(e, "welcome.restored", w->restored, 0, WIRE_NAME_MAX));
    TRY(check_metrics(e, "the number of welcome.metrics", w->metrics));
    return has_job ? check_job(w->job, e) : PS_OK;
}

/* ---- Variables ---- */

static enum ps_err
check_shape(const Psd__Declare *d, struct ps_error *e)
{
    uint64_t elements;

    switch (wire_elements(d->dims, d->n_dims, &elements)) {
    case PS_OK:
        return PS_OK;
    case PS_ERR_INVALID:
        return ps_fail(e, PS_ERR_INVALID, "declare.dims of '%s' has a dimension of 0", d->name);
    default:
        return ps_fail(e, PS_ERR_LIMIT, "declare.dims of '%s': the limits are %d dimensions and %llu elements", d->name,
                       WIRE_RANK_MAX, WIRE_ELEMENTS_MAX);
    }
}

enum ps_err
wire_elements(const uint64_t *dims, size_t rank, uint64_t *elements)
{
    uint64_t product = 1;

    if (rank > WIRE_RANK_MAX)
        return PS_ERR_LIMIT;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return PS_ERR_INVALID;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] > WIRE_ELEMENTS_MAX / product)
            return PS_ERR_LIMIT;
        product *= dims[i];
    }
    *elements = product;
    return PS_OK;
}

static enum ps_err
check_initializer(const Psd__Initializer *i, struct ps_error *e)
{
    struct initializer init;

    TRY(known(e, "declare.init.kind", (int)i->kind, INIT_KIND_MAX));
    TRY(number(e, "declare.init.a", i->a));
    TRY(number(e, "declare.init.b", i->b));
    init = wire_initializer(i);
    return initializer_check(&init, e);
}

/* Ranges are the optimizers' own: optimizer_check(). */
static enum ps_err
check_schedule(const Psd__Schedule *s, struct ps_error *e)
{
    TRY(known(e, "schedule.kind", (int)s->kind, PSD__SCHEDULE_KIND__SCHEDULE_LINEAR + 1));
    TRY(known(e, "schedule.by", (int)s->by, PSD__SCHEDULE_BY__BY_CLOCK + 1));
    TRY(number(e, "schedule.factor", s->factor));
    return number(e, "schedule.floor", s->floor);
}

static enum ps_err
check_clip(const Psd__Clip *c, struct ps_error *e)
{
    TRY(known(e, "clip.kind", (int)c->kind, PSD__CLIP_KIND__CLIP_GIVEN_NORM + 1));
    return number(e, "clip.limit", c->limit);
}

/* Parameters that the kind does not use are not looked at, but must be numbers all the same. */
static enum ps_err
check_optimizer(const Psd__Optimizer *o, struct ps_error *e)
{
    struct ps_optimizer optimizer;
    char field[64];

    TRY(known(e, "declare.optimizer.kind", (int)o->kind, PS_OPTIMIZER_KINDS));
    for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++) {
        snprintf(field, sizeof field, "declare.optimizer.%s", optimizer_parameter_name(p));
        TRY(number(e, field, wire_optimizer_parameter(o, p)));
    }
    if (o->schedule != NULL)
        TRY(check_schedule(o->schedule, e));
    if (o->clip != NULL)
        TRY(check_clip(o->clip, e));
    optimizer = wire_optimizer(o);
    return optimizer_check(&optimizer, e);
}

static enum ps_err
check_declare(Psd__Declare *d, struct arena *arena, struct ps_error *e)
{
    TRY(name(e, "declare.name", d->name, 1, WIRE_NAME_MAX));
    TRY(wire_check_variable_name(d->name, e));
    TRY(check_shape(d, e));
    TRY(known(e, "declare.nonfinite", (int)d->nonfinite, PSD__NON_FINITE__ALLOW + 1));
    FILL(arena, d->init, psd__initializer__init);
    FILL(arena, d->optimizer, psd__optimizer__init);
    TRY(check_initializer(d->init, e));
    return check_optimizer(d->optimizer, e);
}

enum ps_err
wire_check_declare(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    return check_declare(msg->u.declare, arena, e);
}

enum ps_err
wire_check_attach(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(name(e, "attach.job", msg->u.attach->job, 1, WIRE_NAME_MAX));
    return name(e, "attach.name", msg->u.attach->name, 1, WIRE_NAME_MAX);
}

/* The definition is there when it answers an attach. */
enum ps_err
wire_check_declared(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Declare *d = msg->u.declared->declare;

    return d != NULL ? check_declare(d, arena, e) : PS_OK;
}

/* ---- Pull, data, push, ack ---- */

enum ps_err
wire_check_pull(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Pull *p = msg->u.pull;

    (void)arena;
    TRY(within(e, "the number of pull.var", p->n_var, 1, WIRE_BLOCKS_MAX));
    TRY(parallel(e, "pull.block", p->n_block, "pull.var", p->n_var));
    return empty_or_parallel(e, "pull.newer_than", p->n_newer_than, "pull.var", p->n_var);
}

enum ps_err
wire_check_data(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Data *d = msg->u.data;

    (void)arena;
    TRY(within(e, "the number of data.version", d->n_version, 1, WIRE_BLOCKS_MAX));
    TRY(empty_or_parallel(e, "data.code", d->n_code, "data.version", d->n_version));
    codes_known(d->code, d->n_code);
    return PS_OK;
}

static bool
cursor_before(const Psd__Cursor *a, const Psd__Cursor *b)
{
    return a->epoch < b->epoch || (a->epoch == b->epoch && a->position < b->position);
}

enum ps_err
wire_check_push(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Push *p = msg->u.push;

    (void)arena;
    TRY(sequence(e, "push.seq", p->seq, p->acked_through));
    TRY(within(e, "the number of push.var", p->n_var, 1, WIRE_BLOCKS_MAX));
    TRY(parallel(e, "push.block", p->n_block, "push.var", p->n_var));
    if (p->norm != NULL && !(p->norm->l2 >= 0 && isfinite(p->norm->l2)))
        return ps_fail(e, PS_ERR_INVALID, "push.norm.l2 is %g; it must be finite and at least 0", p->norm->l2);
    if (p->cursor != NULL && p->cursor_from != NULL && !cursor_before(p->cursor_from, p->cursor))
        return ps_fail(e, PS_ERR_INVALID, "push.cursor_from does not lie before push.cursor");
    return empty_or_parallel(e, "push.from_version", p->n_from_version, "push.var", p->n_var);
}

static enum ps_err
check_error(Psd__Error *error, const char *code, const char *text, struct ps_error *e)
{
    TRY(within(e, code, error->code, 1, UINT64_MAX));
    codes_known(&error->code, 1);
    return sentence(e, text, error->text);
}

enum ps_err
wire_check_ack(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Ack *a = msg->u.ack;

    (void)arena;
    for (size_t i = 0; i < a->n_seq; i++)
        TRY(within(e, "ack.seq", a->seq[i], 1, UINT64_MAX));
    TRY(empty_or_parallel(e, "ack.code", a->n_code, "ack.seq", a->n_seq));
    codes_known(a->code, a->n_code);
    for (size_t i = 0; i < a->n_blocks; i++) {
        TRY(within(e, "ack.blocks.seq", a->blocks[i]->seq, 1, UINT64_MAX));
        TRY(within(e, "the number of ack.blocks.code", a->blocks[i]->n_code, 1, WIRE_BLOCKS_MAX));
        codes_known(a->blocks[i]->code, a->blocks[i]->n_code);
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
    TRY(sequence(e, "tick.seq", msg->u.tick->seq, msg->u.tick->acked_through));
    return check_metrics(e, "the number of tick.metrics", msg->u.tick->metrics);
}

enum ps_err
wire_check_barrier(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(sequence(e, "barrier.seq", msg->u.barrier->seq, msg->u.barrier->acked_through));
    return name(e, "barrier.name", msg->u.barrier->name, 1, WIRE_NAME_MAX);
}

enum ps_err
wire_check_skip(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return sequence(e, "skip.seq", msg->u.skip->seq, msg->u.skip->acked_through);
}

enum ps_err
wire_check_cancel(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    return within(e, "cancel.request", msg->u.cancel->request, 1, UINT64_MAX);
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
    TRY(known(e, "event.kind", (int)msg->u.event->kind, PSD__EVENT_KIND__EVENT_REJOINED + 1));
    return sentence(e, "event.text", msg->u.event->text);
}

/* ---- Query, report ---- */

enum ps_err
wire_check_query(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Query *q = msg->u.query;

    (void)arena;
    TRY(known(e, "query.kind", (int)q->kind, PSD__QUERY_KIND__TIMELINE + 1));
    TRY(name(e, "query.job", q->job, 0, WIRE_NAME_MAX));
    return name(e, "query.after", q->after, 0, 2 * WIRE_NAME_MAX + 1); /* job/name */
}

static enum ps_err
check_variable_report(const Psd__VariableReport *v, struct ps_error *e)
{
    TRY(within(e, "the number of report.variable.dims", v->n_dims, 0, WIRE_RANK_MAX));
    TRY(sentence(e, "report.variable.job", v->job));
    TRY(sentence(e, "report.variable.name", v->name));
    TRY(sentence(e, "report.variable.optimizer", v->optimizer));
    return sentence(e, "report.variable.initializer", v->initializer);
}

static enum ps_err
check_blocked_report(const Psd__BlockedReport *b, struct ps_error *e)
{
    TRY(sentence(e, "report.blocked.job", b->job));
    TRY(sentence(e, "report.blocked.what", b->what));
    return sentence(e, "report.blocked.variable", b->variable);
}

/* Arrays that run in parallel. */
static enum ps_err
check_timeline(const Psd__TimelineReport *t, struct ps_error *e)
{
    size_t n = t->n_start_ns;

    TRY(sentence(e, "report.timeline.machine", t->machine));
    if (t->n_took_ns != n || t->n_what != n || t->n_task != n || t->n_step != n || t->n_bytes != n ||
        t->n_commit_ns != n || t->n_answer_ns != n)
        return ps_fail(e, PS_ERR_INVALID, "the arrays of report.timeline are not of one length");
    return PS_OK;
}

enum ps_err
wire_check_report(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    Psd__Report *r = msg->u.report;

    TRY(known(e, "report.kind", (int)r->kind, PSD__QUERY_KIND__TIMELINE + 1));
    FILL(arena, r->status, psd__status_report__init);
    FILL(arena, r->stats, psd__stats_report__init);
    FILL(arena, r->stats->age, psd__histogram__init);
    TRY(sentence(e, "report.status.cluster", r->status->cluster));
    TRY(sentence(e, "report.status.version", r->status->version));
    TRY(sentence(e, "report.status.live_dir", r->status->live_dir));
    TRY(within(e, "the number of report.stats.age.count", r->stats->age->n_count, 0, WIRE_BUCKETS_MAX));
    for (size_t i = 0; i < r->n_variable; i++)
        TRY(check_variable_report(r->variable[i], e));
    for (size_t i = 0; i < r->n_worker; i++) {
        TRY(sentence(e, "report.worker.job", r->worker[i]->job));
        TRY(sentence(e, "report.worker.agent", r->worker[i]->agent));
    }
    for (size_t i = 0; i < r->n_blocked; i++)
        TRY(check_blocked_report(r->blocked[i], e));
    for (size_t i = 0; i < r->n_job; i++) {
        TRY(sentence(e, "report.job.name", r->job[i]->name));
        TRY(sentence(e, "report.job.options", r->job[i]->options));
    }
    if (r->timeline != NULL)
        TRY(check_timeline(r->timeline, e));
    /* Definitions are checked as hellos and declares are, by who makes something of them. */
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
    TRY(within(e, "the number of set.parameter", s->n_parameter, 0, WIRE_PARAMETERS_MAX));
    for (size_t i = 0; i < s->n_parameter; i++) {
        TRY(name(e, "set.parameter.name", s->parameter[i]->name, 1, WIRE_NAME_MAX));
        TRY(number(e, "set.parameter.value", s->parameter[i]->value));
    }
    return PS_OK;
}

enum ps_err
wire_check_set(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Set *s = msg->u.set;

    (void)arena;
    TRY(name(e, "set.job", s->job, 1, WIRE_NAME_MAX));
    TRY(name(e, "set.variables", s->variables, 0, WIRE_NAME_MAX));
    TRY(check_parameters(s, e));
    if (s->schedule != NULL)
        TRY(check_schedule(s->schedule, e));
    if (s->clip != NULL)
        TRY(check_clip(s->clip, e));
    if (s->age != NULL)
        TRY(check_age(s->age, "set.age.kind", "set.age.parameter", e));
    if (changes_variables(s) && s->variables[0] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "set: changes of variables, but set.variables is empty");
    if (!changes_variables(s) && s->variables[0] != '\0')
        return ps_fail(e, PS_ERR_INVALID, "set: variables '%s' are named, but nothing of them is to change",
                       s->variables);
    if (!changes_variables(s) && s->age == NULL && s->bound == NULL)
        return ps_fail(e, PS_ERR_INVALID, "set: nothing is to change");
    return PS_OK;
}

/* ---- Checkpoints ---- */

/* A path that can be told in a log line, and in which nobody looks for another machine's. */
static enum ps_err
check_dir(struct ps_error *e, const char *field, const char *dir)
{
    TRY(name(e, field, dir, 1, WIRE_PATH_MAX));
    return dir[0] == '/' ? PS_OK : ps_fail(e, PS_ERR_INVALID, "%s is not an absolute path", field);
}

enum ps_err
wire_check_checkpoint(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(name(e, "checkpoint.job", msg->u.checkpoint->job, 1, WIRE_NAME_MAX));
    return check_dir(e, "checkpoint.dir", msg->u.checkpoint->dir);
}

enum ps_err
wire_check_checkpoint_done(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__CheckpointDone *m = msg->u.checkpoint_done;

    (void)arena;
    for (size_t i = 0; i < m->n_variable; i++)
        TRY(name(e, "checkpoint_done.variable.name", m->variable[i]->name, 1, WIRE_NAME_MAX));
    return PS_OK;
}

enum ps_err
wire_check_restore(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    (void)arena;
    TRY(name(e, "restore.job", msg->u.restore->job, 0, WIRE_NAME_MAX));
    if (msg->u.restore->n_verified != 0 && msg->u.restore->n_verified != 2)
        return ps_fail(e, PS_ERR_INVALID, "restore.verified: %zu stamps, expected 2 or none",
                       msg->u.restore->n_verified);
    return check_dir(e, "restore.dir", msg->u.restore->dir);
}

/* ---- Meetings ---- */

/* Of another process, for a socket: numbers, no names, and a port that somebody can listen at. */
static enum ps_err
check_address(struct ps_error *e, const char *field, const char *text)
{
    struct address address;
    struct ps_error why;

    TRY(name(e, field, text, 1, WIRE_ADDRESS_MAX));
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
    TRY(name(e, "meet.cluster", m->cluster, 1, WIRE_CLUSTER_MAX));
    TRY(name(e, "meet.group", m->group, 1, WIRE_NAME_MAX));
    TRY(within(e, "meet.workers", m->workers, 1, WIRE_GROUP_MAX));
    TRY(below(e, "meet.task", m->task, "meet.workers", m->workers));
    TRY(within(e, "meet.incarnation", m->incarnation, 1, UINT64_MAX));
    TRY(within(e, "meet.attempt", m->attempt, 1, UINT64_MAX));
    TRY(within(e, "meet.ranks_min", m->ranks_min, 0, m->workers));
    TRY(within(e, "meet.settle_ms", m->settle_ms, 0, WIRE_LEASE_MS_MAX));
    TRY(within(e, "meet.timeout_ms", m->timeout_ms, 0, WIRE_LEASE_MS_MAX));
    TRY(check_address(e, "meet.address", m->address));
    return name(e, "meet.host", m->host, 0, WIRE_HOST_MAX);
}

enum ps_err
wire_check_met(struct wire_msg *msg, struct arena *arena, struct ps_error *e)
{
    const Psd__Met *m = msg->u.met;

    (void)arena;
    TRY(within(e, "met.epoch", m->epoch, 1, UINT64_MAX));
    TRY(within(e, "the number of met.member", m->n_member, 1, WIRE_GROUP_MAX));
    for (size_t i = 0; i < m->n_member; i++) {
        const Psd__GroupMember *member = m->member[i];

        if (i > 0 && member->task <= m->member[i - 1]->task)
            return ps_fail(e, PS_ERR_INVALID, "met.member is not in the order of tasks");
        TRY(below(e, "met.member.task", member->task, "the workers of a group", WIRE_GROUP_MAX));
        TRY(within(e, "met.member.incarnation", member->incarnation, 1, UINT64_MAX));
        TRY(check_address(e, "met.member.address", member->address));
        TRY(name(e, "met.member.host", member->host, 0, WIRE_HOST_MAX));
    }
    return PS_OK;
}
