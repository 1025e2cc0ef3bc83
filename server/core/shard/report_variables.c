/* Variables: what psctl shows of them; and definitions, from which a checkpoint or a client can make them again. */
#include <string.h>

#include "common/core/wire/wire.h"
#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

/* ---- Variables ---- */

/* A page goes through variables in order of id, from the first that it wants; `next` is the id of the one after it. So
 * one that is there from a listing's begin to its end is in it once, whatever is declared or goes meanwhile. */
struct variables_page {
    struct report_builder *b;
    const struct job *job; /* of this one alone, or NULL */
    struct variable *at;   /* the next to look at, NULL: none */
};

/* The variable of this path. A job's name may have a '/', too: the first division that names a variable counts. */
static struct variable *
page_find_path(const struct report_builder *b, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct variable *v = NULL;
        struct job *job;

        HASH_FIND(hh, b->s->jobs, path, (size_t)(slash - path), job);
        if (job != NULL)
            HASH_FIND(hh, job->variables, slash + 1, strlen(slash + 1), v);
        if (v != NULL && report_wants_job(b, job))
            return v;
    }
    return NULL;
}

/* In order of id within a job, as they were declared; of all jobs, by the table. */
static struct variable *
page_after(const struct variables_page *p, const struct variable *v)
{
    return p->job != NULL ? v->hh.next : variable_from(p->b->s, v->id + 1);
}

/* Where it begins. False: after a variable that is not there any more, and it cannot be said what came next. */
static bool
page_begin(struct variables_page *p)
{
    const struct report_builder *b = p->b;
    const struct variable *last;
    struct job *job = NULL;

    if (b->job[0] != '\0') {
        HASH_FIND(hh, b->s->jobs, b->job, strlen(b->job), job);
        if (job == NULL)
            return true;
    }
    p->job = job;
    if (b->from > 0) {
        p->at = b->from <= UINT32_MAX ? variable_from(b->s, (uint32_t)b->from) : NULL;
    } else if (b->after[0] == '\0') {
        p->at = job != NULL ? job->variables : variable_from(b->s, 1);
    } else {
        if ((last = page_find_path(b, b->after)) == NULL)
            return false;
        p->at = page_after(p, last);
    }
    return true;
}

/* Passes over variables of other jobs: where one of the job stood, from which the page was to go on, there may be none
 * of it for long. False: enough was looked at, and the page ends. */
static bool
page_pass(struct variables_page *p)
{
    struct shard *s = p->b->s;

    while (p->at != NULL && p->job != NULL && p->at->job != p->job) {
        if (++s->looks - p->b->looks > REPORT_LOOKS_MAX)
            return false;
        p->at = variable_from(s, p->at->id + 1);
    }
    return true;
}

/* The next one; NULL: the page ends, and says where the next begins when there is one. */
static struct variable *
page_next(struct variables_page *p, size_t entries)
{
    struct variable *v;

    if (p->at == NULL)
        return NULL;
    if (report_is_long(p->b, entries) || !page_pass(p)) {
        report_goes_on(p->b, p->at->id);
        return NULL;
    }
    if ((v = p->at) != NULL)
        p->at = page_after(p, v);
    return v;
}

static void
page_refuse(struct report_builder *b)
{
    b->err = ps_fail(&b->error, PS_ERR_NOT_FOUND,
                     "variable '%.128s', after which the list was to go on, is not there any more: ask from its begin",
                     b->after);
}

/* Of the update that the newest block takes next. */
static double
learning_rate(const struct variable *v, uint64_t version)
{
    struct optimizer_when when = {.version = version + 1, .clock = v->job->slowest};

    return optimizer_rate(&v->def->optimizer, &when);
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

/* NULL where it is what it is now; an absent text is empty. */
static char *
report_variables_declared(struct shard *s, const struct variable *v)
{
    struct ps_optimizer declared = wire_optimizer(v->def->declare->optimizer);
    char text[PS_OPTIMIZER_TEXT_MAX];

    if (optimizer_equal(&v->def->optimizer, &declared))
        return NULL;
    ps_optimizer_describe(&declared, text, sizeof text);
    return report_text(s, text);
}

static Psd__VariableReport *
report_variables_row(struct shard *s, const struct variable *v)
{
    Psd__VariableReport *m = report_zeroed(s, sizeof *m);
    char text[PS_OPTIMIZER_TEXT_MAX];

    if (m == NULL)
        return NULL;
    s->looks += 1 + v->ready;
    psd__variable_report__init(m);
    ps_optimizer_describe(&v->def->optimizer, text, sizeof text);
    m->job = (char *)v->job->name;
    m->name = (char *)v->name;
    v->kind->describe(v, m);
    report_traffic(&v->stats, m);
    m->optimizer = report_text(s, text);
    m->declared = report_variables_declared(s, v);
    m->learning_rate = learning_rate(v, m->version_max);
    m->initializer = (char *)initializer_name((int)v->def->initializer.kind);
    return m;
}

void
report_variables(struct report_builder *b)
{
    struct variables_page page = {.b = b};
    Psd__Report *r = b->report;
    struct variable *v;

    if (!page_begin(&page)) {
        page_refuse(b);
        return;
    }
    if ((r->variable = report_zeroed(b->s, REPORT_ENTRIES_MAX * sizeof(Psd__VariableReport *))) == NULL)
        return;
    while ((v = page_next(&page, r->n_variable)) != NULL) {
        Psd__VariableReport *m = report_variables_row(b->s, v);

        if (m == NULL)
            return;
        if (!report_fits(b, &m->base)) {
            report_goes_on(b, v->id);
            return;
        }
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
    Psd__Declare *declared = report_zeroed(s, sizeof *declared), *now = report_zeroed(s, sizeof *now);

    if (m == NULL || room == NULL || declared == NULL || now == NULL)
        return NULL;
    s->looks++;
    psd__variable_definition__init(m);
    *declared = *now = variable_declare(v);
    now->optimizer = wire_optimizer_message(&v->def->optimizer, room);
    m->declared = declared;
    m->now = now;
    return m;
}

void
report_definitions(struct report_builder *b)
{
    struct variables_page page = {.b = b};
    Psd__Report *r = b->report;
    struct variable *v;

    if (!page_begin(&page)) {
        page_refuse(b);
        return;
    }
    if (page.job == NULL)
        return;
    r->job_definition = report_job_definition(b->s, page.job);
    if ((r->definition = report_zeroed(b->s, REPORT_ENTRIES_MAX * sizeof(Psd__VariableDefinition *))) == NULL)
        return;
    while ((v = page_next(&page, r->n_definition)) != NULL) {
        Psd__VariableDefinition *m = report_variables_definition(b->s, v);

        if (m == NULL)
            return;
        if (!report_fits(b, &m->base)) {
            report_goes_on(b, v->id);
            return;
        }
        r->definition[r->n_definition++] = m;
    }
}
