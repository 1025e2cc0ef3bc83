/* A plan as text, a line for each step:
 *
 *     ring, rank 1 of 4, all-reduce of 1000 elements of 4 bytes, messages of up to 262144 bytes
 *         0  send [0 250) of in to 2
 *         1  receive and reduce [750 1000) of out from 0 and [750 1000) of in
 *         2  send [750 1000) of out to 2; after 1 */
#include <stdlib.h>
#include <string.h>

#include "client/core/plan/plan.h"
#include "common/core/base/text.h"

#define PLAN_LINE_MAX 256

struct plan_lines {
    char *text;
    size_t len, size;
};

static const char *
buffer_name(const struct plan_request *a, enum plan_buffer buffer)
{
    static const char *const names[] = {[PLAN_IN] = "in", [PLAN_OUT] = "out", [PLAN_SCRATCH] = "scratch"};

    return a->op == PLAN_BROADCAST && buffer == PLAN_OUT ? "buffer" : names[buffer];
}

static void
range_put(struct text *t, const struct plan_request *a, enum plan_buffer buffer, size_t offset, size_t len)
{
    text_put(t, "[%zu %zu) of %s", offset, offset + len, buffer_name(a, buffer));
}

static void
what_put(struct text *t, const struct plan_request *a, const struct plan_step *s)
{
    switch (s->kind) {
    case PLAN_SEND:
        text_put(t, "send ");
        range_put(t, a, s->buffer, s->offset, s->len);
        text_put(t, " to %u", s->peer);
        return;
    case PLAN_RECEIVE:
        text_put(t, "receive ");
        range_put(t, a, s->buffer, s->offset, s->len);
        text_put(t, " from %u", s->peer);
        return;
    case PLAN_RECEIVE_REDUCE:
        text_put(t, "receive and reduce ");
        range_put(t, a, s->buffer, s->offset, s->len);
        text_put(t, " from %u and ", s->peer);
        range_put(t, a, s->source, s->source_offset, s->len);
        return;
    case PLAN_COPY:
        text_put(t, s->len == 0 ? "join" : "copy ");
        break;
    case PLAN_REDUCE_LOCAL:
        text_put(t, "reduce ");
        break;
    case PLAN_SCALE:
        text_put(t, "make the mean of %u of ", a->ranks);
        range_put(t, a, s->buffer, s->offset, s->len);
        return;
    case PLAN_MERGE:
        text_put(t, "merge at %zu of %s", s->offset, buffer_name(a, s->buffer));
        return;
    }
    if (s->len == 0)
        return;
    range_put(t, a, s->buffer, s->offset, s->len);
    text_put(t, s->kind == PLAN_COPY ? " from " : " and ");
    range_put(t, a, s->source, s->source_offset, s->len);
}

static void
needs_put(struct text *t, const struct plan_step *s)
{
    const char *between = "; after ";

    for (int i = 0; i < PLAN_NEEDS_MAX; i++)
        if (s->needs[i] != PLAN_NONE) {
            text_put(t, "%s%u", between, s->needs[i]);
            between = ", ";
        }
}

static bool
line_add(struct plan_lines *l, const char *line, size_t len)
{
    if (l->len + len + 1 > l->size) {
        size_t size = 2 * (l->size + PLAN_LINE_MAX);
        char *more = realloc(l->text, size);

        if (more == NULL)
            return false;
        l->text = more;
        l->size = size;
    }
    memcpy(l->text + l->len, line, len + 1);
    l->len += len;
    return true;
}

static void
head_put(struct text *t, const struct plan_request *a, const struct plan_plan *p)
{
    static const char *const algorithms[] = {[PS_ALGORITHM_DIRECT] = "direct",
                                             [PS_ALGORITHM_RING] = "ring",
                                             [PS_ALGORITHM_HALVING] = "halving",
                                             [PS_ALGORITHM_HIERARCHICAL] = "hierarchical"};
    static const char *const ops[] = {[PLAN_ALL_REDUCE] = "all-reduce", [PLAN_REDUCE_SCATTER] = "reduce-scatter",
                                      [PLAN_ALL_GATHER] = "all-gather", [PLAN_BROADCAST] = "broadcast",
                                      [PLAN_REDUCE] = "reduce",         [PLAN_BARRIER] = "barrier"};

    text_put(t, "%s, rank %u of %u, %s", algorithms[p->algorithm], a->rank, a->ranks, ops[a->op]);
    if (a->op != PLAN_BARRIER)
        text_put(t, " of %zu elements of %zu bytes", a->count, a->size);
    if (a->op == PLAN_BROADCAST || a->op == PLAN_REDUCE)
        text_put(t, " %s %u", a->op == PLAN_BROADCAST ? "from" : "to", a->root);
    if (a->op != PLAN_BARRIER)
        text_put(t, ", messages of up to %zu bytes", p->segment_bytes);
    text_put(t, "\n");
}

char *
plan_text(const struct plan_request *ask, const struct plan_plan *p)
{
    struct plan_lines l = {0};
    char line[PLAN_LINE_MAX];
    struct text t = text_start(line, sizeof line);
    bool fits;

    head_put(&t, ask, p);
    fits = line_add(&l, line, t.len);
    for (uint32_t i = 0; i < p->steps && fits; i++) {
        t = text_start(line, sizeof line);
        text_put(&t, "%5u  ", i);
        what_put(&t, ask, &p->step[i]);
        needs_put(&t, &p->step[i]);
        text_put(&t, "\n");
        fits = line_add(&l, line, t.len);
    }
    if (fits)
        return l.text;
    free(l.text);
    return NULL;
}
