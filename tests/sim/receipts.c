#include "tests/sim/receipts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "client/core/shards/request_pool.h"
#include "common/core/wire/wire.h"
#include "tests/sim/node_worker.h"

struct receipt {
    uint32_t shard;
    const void *gradient; /* where the client has it: the same when it is sent again */
    uint64_t clock;       /* the worker's when it pushed, which the ledger knows the push by */
    uint64_t seq;
    bool acked, odd, given_up;
    bool unsure; /* whether it was acknowledged */
    uint32_t blocks_len;
    struct ledger_place *blocks;
};

/* ---- Lives ---- */

static void
receipts_clear(struct receipts *r)
{
    for (size_t i = 0; i < r->len; i++)
        free(r->items[i].blocks);
    r->len = 0;
}

void
receipts_begin(struct node_worker *w)
{
    struct receipts *r = &w->receipts;

    receipts_clear(r);
    for (uint32_t i = 0; i < w->model->shards; i++)
        r->before[i] = core_rolled_back(w->core, i);
}

void
receipts_finish(struct node_worker *w)
{
    struct receipts *r = &w->receipts;

    receipts_clear(r);
    free(r->items);
    arena_finish(&r->arena);
    *r = (struct receipts){0};
}

/* ---- Out ---- */

static struct receipt *
receipt_of(struct receipts *r, uint32_t shard, const void *gradient, uint64_t clock)
{
    for (size_t i = 0; i < r->len; i++) {
        struct receipt *x = &r->items[i];

        if (!x->acked && x->shard == shard && x->gradient == gradient && x->clock == clock)
            return x;
    }
    r->items = sim_grow(r->items, &r->room, r->len, sizeof *r->items);
    r->items[r->len] = (struct receipt){.shard = shard, .gradient = gradient, .clock = clock};
    return &r->items[r->len++];
}

/* Not the message's: in async and ssp a worker that is behind its session pushes at the session's clock, so that pushes
 * of several of its steps go out under the same one. */
static uint64_t
own_clock(const struct core_send *send)
{
    const struct request *p = CONTAINER_OF(send, struct send, out)->part;

    ps_assert(p != NULL); /* it is handed out just now */
    return p->clock;
}

static void
note_push(struct node_worker *w, uint32_t shard, const Psd__Push *m, const struct core_send *send)
{
    struct receipt *x = receipt_of(&w->receipts, shard, send->parts[0].data, own_clock(send));

    x->seq = m->seq;
    free(x->blocks);
    x->blocks = sim_alloc(m->n_var * sizeof *x->blocks);
    x->blocks_len = 0;
    for (size_t i = 0; i < m->n_var; i++)
        if (ledger_place(w->ledger, shard, m->var[i], m->block[i], &x->blocks[x->blocks_len]))
            x->blocks_len++;
}

void
receipts_sent(struct node_worker *w, uint32_t shard, const struct core_send *send)
{
    struct receipts *r = &w->receipts;
    struct frame_head head;
    struct wire_msg msg;
    struct ps_error e;

    if (frame_head_decode(send->head, &head, &e) != PS_OK || head.type != MSG_PUSH)
        return;
    arena_reset(&r->arena);
    if (wire_decode(&head, send->head + FRAME_HEAD_SIZE, &r->arena, &msg, &e) != PS_OK)
        sim_fail(w->sim, "w%u sends a push that does not decode: %s", w->task, e.text);
    else
        note_push(w, shard, msg.u.push, send);
}

void
receipts_given_up(struct node_worker *w, uint64_t clock)
{
    for (size_t i = 0; i < w->receipts.len; i++)
        w->receipts.items[i].given_up |= w->receipts.items[i].clock == clock;
}

/* ---- In ---- */

static void
note_ack(struct node_worker *w, uint32_t shard, uint64_t seq, bool odd)
{
    struct receipts *r = &w->receipts;

    for (size_t i = 0; i < r->len; i++) {
        struct receipt *x = &r->items[i];

        if (x->acked || x->shard != shard || x->seq != seq)
            continue;
        x->acked = true;
        x->odd = odd;
        if (odd)
            ledger_refused(w->ledger, w->task, w->life, x->clock, x->blocks, x->blocks_len);
    }
}

static void
note_acks(struct node_worker *w, uint32_t shard, const Psd__Ack *m)
{
    for (size_t i = 0; i < m->n_seq; i++)
        note_ack(w, shard, m->seq[i], m->n_code > 0 && m->code[i] != PS_OK && m->code[i] != PS_ERR_NOT_DURABLE);
}

/* The shard, which lost its data, still has this push: it is not sent again. boot: of the numbers it was sent under. */
static bool
receipts_survived(const Psd__Welcome *m, uint64_t boot, uint64_t seq)
{
    uint64_t bit = seq - m->survived_from;

    return m->survived_boot == boot && seq > m->last_seq && seq >= m->survived_from && bit / 8 < m->survived.len &&
           (m->survived.data[bit / 8] >> bit % 8 & 1) != 0;
}

static bool
survived_outcomes(const Psd__Welcome *m, uint64_t seq)
{
    for (size_t i = 0; i < m->n_odd_seq; i++)
        if (m->odd_seq[i] == seq)
            return true;
    return seq <= m->odd_lost;
}

/* Unacknowledged pushes: up to last_seq they keep their numbers, are sent again and answered, unless that is lost, too;
 * a survivor is done; the rest get other numbers, although their step may have survived by others' pushes. */
static void
note_welcome(struct node_worker *w, uint32_t shard, const Psd__Welcome *m)
{
    struct receipts *r = &w->receipts;
    bool restored = m->restored_boot != r->restored[shard];
    uint64_t boot = r->boot[shard];

    r->changed[shard] = boot != 0 && boot != m->boot;
    r->reported[shard] = false;
    r->boot[shard] = m->boot;
    r->restored[shard] = m->restored_boot;
    if (m->restored_boot != 0 && !ledger_boot_restored(w->ledger, m->restored_boot))
        sim_fail(w->sim, "w%u was told of a restore of s%u that was none", w->task, shard);
    ledger_welcomed(w->ledger, shard, w->task, m->clock);
    for (size_t i = 0; i < r->len && r->changed[shard]; i++) {
        struct receipt *x = &r->items[i];

        if (x->shard != shard)
            continue;
        x->unsure |= restored; /* how many the checkpoint had is not reported */
        if (x->acked || (x->seq != 0 && x->seq <= m->last_seq))
            continue;
        x->acked = receipts_survived(m, boot, x->seq);
        x->odd = x->acked && survived_outcomes(m, x->seq);
        if (!x->acked)
            x->seq = 0;
    }
}

void
receipts_got(struct node_worker *w, uint32_t shard, const struct frame_head *head, const void *meta)
{
    struct receipts *r = &w->receipts;
    struct wire_msg msg;
    struct ps_error e;

    if (head->type != MSG_ACK && head->type != MSG_DATA && head->type != MSG_WELCOME)
        return;
    arena_reset(&r->arena);
    if (wire_decode(head, meta, &r->arena, &msg, &e) != PS_OK)
        return; /* the core reports it */
    if (msg.type == MSG_ACK)
        note_acks(w, shard, msg.u.ack);
    else if (msg.type == MSG_WELCOME)
        note_welcome(w, shard, msg.u.welcome);
    else if (msg.u.data->seq > 0)
        note_ack(w, shard, msg.u.data->seq, msg.u.data->n_code > 0);
}

/* ---- What is gone ---- */

void
receipts_rolled_back(struct node_worker *w, uint32_t shard)
{
    if (!w->receipts.changed[shard])
        sim_fail(w->sim, "w%u was told of a rollback, and s%u has not lost anything", w->task, shard);
    w->receipts.reported[shard] = true;
}

static void
check_gone(struct node_worker *w, uint32_t shard)
{
    const struct receipts *r = &w->receipts;
    uint64_t told = core_rolled_back(w->core, shard) - r->before[shard], gone = 0, unknown = 0;

    for (size_t i = 0; i < r->len; i++) {
        const struct receipt *x = &r->items[i];
        enum ledger_fate fate;

        if (x->shard != shard || !(x->acked || x->given_up || x->unsure))
            continue;
        fate = ledger_fate(w->ledger, w->task, w->life, x->clock, x->blocks, x->blocks_len);
        if (x->odd || x->given_up || x->unsure || fate == LEDGER_UNREPORTED)
            unknown++;
        else
            gone += fate == LEDGER_GONE;
    }
    if (told < gone || told > gone + unknown)
        sim_fail(w->sim,
                 "w%u was told that s%u lost %" PRIu64 " of its pushes, and it lost %" PRIu64 " (and perhaps %" PRIu64
                 " that cannot be told)",
                 w->task, shard, told, gone, unknown);
}

void
receipts_taken(struct node_worker *w, uint32_t shard)
{
    struct receipts *r = &w->receipts;

    if (!r->changed[shard] || w->core == NULL)
        return;
    if (!r->reported[shard] && core_fatal(w->core, NULL) == PS_OK)
        sim_fail(w->sim, "w%u was not told that s%u came back older", w->task, shard);
    r->changed[shard] = false;
    if (ledger_is_boot(w->ledger, shard, r->boot[shard]))
        check_gone(w, shard); /* otherwise the ledger already knows more */
}
