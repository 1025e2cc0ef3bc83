/* Answers to what is asked of a shard, not of its values: REPORT, and that a save, a checkpoint or a restore is done.
 * They are the caller's as they came; but when an operation's time is nearly over, a report tells why it waits. */
#include "client/core/shards/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/text.h"

/* ---- Why an operation waits ---- */

/* The wait of a worker of the same job; NULL: it is in none. */
static const Psd__BlockedReport *
blocked_find(const Psd__Report *r, const char *job, uint32_t task)
{
    for (size_t i = 0; i < r->n_blocked; i++)
        if (r->blocked[i]->task == task && r->blocked[i]->who[0] == '\0' && strcmp(r->blocked[i]->job, job) == 0)
            return r->blocked[i];
    return NULL;
}

/* " (at clock 7, in barrier 'x')", " (not joined)" */
static void
describe_standing(const Psd__Report *r, const Psd__BlockedReport *b, size_t i, struct text *t)
{
    const Psd__BlockedReport *own = blocked_find(r, b->job, b->on_task[i]);

    if (i >= b->n_on_at)
        return; /* an older shard */
    if (b->on_at[i] == 0) {
        text_put(t, " (not joined)");
        return;
    }
    text_put(t, " (at clock %llu", (unsigned long long)(b->on_at[i] - 1));
    if (own != NULL && strncmp(own->what, "barrier ", strlen("barrier ")) == 0)
        text_put(t, ", in barrier '%.80s'", own->what + strlen("barrier "));
    else if (own != NULL)
        text_put(t, ", in a %.40s", own->what);
    text_put(t, ")");
}

/* "it waits for worker 2 (at clock 5), worker 3 (not joined) until clock 7" */
static void
describe_blocked(const Psd__Report *r, const Psd__BlockedReport *b, char *out, size_t size)
{
    struct text t = text_start(out, size);

    text_put(&t, "it waits for");
    for (size_t i = 0; i < b->n_on_task; i++) {
        text_put(&t, "%s worker %u", i > 0 ? "," : "", b->on_task[i]);
        describe_standing(r, b, i, &t);
    }
    if (b->on_clock > 0)
        text_put(&t, " until clock %llu", (unsigned long long)b->on_clock);
}

/* Whether a row of the report is about this operation. */
static bool
blocked_matches(const struct core *c, const struct core_op *op, const Psd__BlockedReport *b)
{
    static const char *const word[] = {
        [OP_PULL] = "pull", [OP_PUSH] = "push", [OP_BARRIER] = "barrier", [OP_ASSIGN] = "assign"};

    return b->task == c->config.task && strcmp(b->job, c->config.job) == 0 && b->n_on_task > 0 &&
           op->kind < ARRAY_LEN(word) && word[op->kind] != NULL &&
           strncmp(b->what, word[op->kind], strlen(word[op->kind])) == 0;
}

static void
on_delay_answer(struct core *c, struct core_op *op, const Psd__Report *r)
{
    size_t i;

    for (i = 0; i < r->n_blocked; i++) {
        if (!blocked_matches(c, op, r->blocked[i]))
            continue;
        describe_blocked(r, r->blocked[i], op->delay_text, sizeof(op->delay_text));
        return;
    }
}

/* ---- The caller's answer ---- */

/* The answer as it came is the operation's result. */
static void
keep_answer(struct core *c, struct shard_link *l, struct request *p, const struct frame_head *head, const void *meta)
{
    struct ps_error e;

    if (!p->given_up) {
        p->op->answer_len = head->meta_len;
        if ((p->op->answer = malloc(head->meta_len + 1)) == NULL) {
            core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory for its answer");
            inbox_answered(c, l, p, &e);
            return;
        }
        memcpy(p->op->answer, meta, head->meta_len);
    }
    inbox_answered(c, l, p, NULL);
}

static const enum msg_type inbox_answers[MSG_TYPE_MAX] = {
#define X(id, number, name, type, text, payload, request, check, sender, invalid, role, answer)                        \
    [MSG_##id] = MSG_##answer,
    MESSAGE_LIST(X)
#undef X
};

void
inbox_answer_kept(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);

    if (p == NULL || p->kind != REQUEST_OTHER || (!p->given_up && inbox_answers[p->op->ask_type] != head->type))
        inbox_broke(c, l, "answered what it was not asked");
    else
        keep_answer(c, l, p, head, meta);
}

void
inbox_report(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);

    if (p != NULL && p->kind == REQUEST_OTHER) {
        inbox_answer_kept(c, l, head, meta);
    } else if (p == NULL || (p->kind != REQUEST_QUERY && p->kind != REQUEST_DELAY_QUERY)) {
        inbox_broke(c, l, "answered a query that was not made");
    } else if (p->kind == REQUEST_QUERY) {
        keep_answer(c, l, p, head, meta);
    } else {
        if (p->op != NULL)
            on_delay_answer(c, p->op, l->msg.u.report);
        inbox_answered(c, l, p, NULL);
    }
}
