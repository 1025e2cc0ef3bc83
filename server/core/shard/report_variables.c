/* Variables: what psctl shows of them; and definitions, from which a checkpoint or a client can make them again. */
#include <string.h>

#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

/* ---- Variables ---- */

/* The first of the wanted variables past `after` in order of path, found in one pass over all. */
static size_t
first_variables(const struct report_builder *b, struct variable **first, size_t max)
{
    size_t n = 0;

    for (uint32_t id = 1; id <= b->s->variables_len; id++) {
        struct variable *v = b->s->variables[id];
        size_t at;

        if (!report_wants_job(b, v->job) || strcmp(v->path, b->after) <= 0)
            continue;
        if (n == max && strcmp(v->path, first[n - 1]->path) >= 0)
            continue;
        for (at = MIN(n, max - 1); at > 0 && strcmp(v->path, first[at - 1]->path) < 0; at--)
            first[at] = first[at - 1];
        first[at] = v;
        n = MIN(n + 1, max);
    }
    return n;
}

/* Of the update that the newest block takes next. */
static double
learning_rate(const struct variable *v, uint64_t version)
{
    struct optimizer_when when = {.version = version + 1, .clock = v->job->slowest};

    return optimizer_rate(&v->optimizer, &when);
}

#define REPORT_SET_PAGE(member)   m->member = t->member;
#define REPORT_SET_REPORT(member) m->member = t->member;
#define REPORT_SET_METRIC(member)

static void
report_traffic(const struct traffic *t, Psd__VariableReport *m)
{
#define X(member, shown, ...) REPORT_SET_##shown(member)
    TRAFFIC_LIST(X)
#undef X
}

static Psd__VariableReport *
report_variables_row(struct shard *s, const struct variable *v)
{
    Psd__VariableReport *m = report_zeroed(s, sizeof *m);
    char text[PS_OPTIMIZER_TEXT_MAX];

    if (m == NULL)
        return NULL;
    psd__variable_report__init(m);
    ps_optimizer_describe(&v->optimizer, text, sizeof text);
    m->job = (char *)v->job->name;
    m->name = (char *)v->name;
    v->kind->describe(v, m);
    report_traffic(&v->stats, m);
    m->optimizer = report_text(s, text);
    m->learning_rate = learning_rate(v, m->version_max);
    m->initializer = (char *)initializer_name((int)v->initializer.kind);
    return m;
}

void
report_variables(struct report_builder *b)
{
    struct variable *first[REPORT_ENTRIES_MAX / 4];
    size_t n = first_variables(b, first, ARRAY_LEN(first));
    Psd__Report *r = b->report;

    if ((r->variable = report_zeroed(b->s, MAX(n, 1) * sizeof(Psd__VariableReport *))) == NULL)
        return;
    r->more = n == ARRAY_LEN(first);
    for (size_t i = 0; i < n; i++) {
        Psd__VariableReport *m = report_variables_row(b->s, first[i]);

        if (m == NULL || !report_fits(b, r->n_variable, &m->base))
            return;
        r->variable[r->n_variable++] = m;
    }
}

/* ---- Definitions ---- */

/* A variable's declaration, with the optimizer as a SET left it beside it. */
static Psd__VariableDefinition *
report_variables_definition(struct shard *s, const struct variable *v)
{
    Psd__VariableDefinition *m = report_zeroed(s, sizeof *m);
    struct wire_optimizer *room = report_zeroed(s, sizeof *room);
    Psd__Declare *now = report_zeroed(s, sizeof *now);

    if (m == NULL || room == NULL || now == NULL)
        return NULL;
    psd__variable_definition__init(m);
    *now = *v->declare;
    now->optimizer = wire_optimizer_message(&v->optimizer, room);
    m->declared = v->declare;
    m->now = now;
    return m;
}

void
report_definitions(struct report_builder *b)
{
    struct variable *first[REPORT_ENTRIES_MAX / 4];
    Psd__Report *r = b->report;
    struct job *job;
    size_t n;

    HASH_FIND(hh, b->s->jobs, b->job, strlen(b->job), job);
    if (job == NULL)
        return;
    n = first_variables(b, first, ARRAY_LEN(first));
    r->job_definition = report_job_definition(b->s, job);
    if ((r->definition = report_zeroed(b->s, MAX(n, 1) * sizeof(Psd__VariableDefinition *))) == NULL)
        return;
    r->more = n == ARRAY_LEN(first);
    for (size_t i = 0; i < n; i++) {
        Psd__VariableDefinition *m = report_variables_definition(b->s, first[i]);

        if (m == NULL || !report_fits(b, r->n_definition, &m->base))
            return;
        r->definition[r->n_definition++] = m;
    }
}
