/* What a welcome means: resync_case_of() decides once, and what follows from that is the table `resync_rows`. */
#include "client/core/shards/resync.h"

#include <inttypes.h>

#include "client/core/shards/definition.h"
#include "client/core/shards/shard_link.h"

#define SEQ_LIMIT (1ull << 62) /* no session comes so far */

/* What a welcome means for what this side remembers of the shard. */
enum resync_case {
    RESYNC_JOINED,       /* the first welcome of this incarnation */
    RESYNC_JOINED_OLDER, /* the same, and the store is not the one that the last incarnation knew */
    RESYNC_RESUMED,      /* the session goes on, in the same store */
    RESYNC_OLDER,        /* the session goes on in another life of the store, which knows nothing after last_seq but
                             durable pushes that survived */
    RESYNC_LOST          /* the shard did not know the session (NOT_FOUND) and has made a new one */
};

static enum resync_case
resync_case_of(const struct shard_link *l, const Psd__Welcome *w)
{
    bool other_store = l->boot_known && l->boot != w->boot;

    if (l->session_lost)
        return RESYNC_LOST;
    if (!l->joined)
        return other_store ? RESYNC_JOINED_OLDER : RESYNC_JOINED;
    return other_store || w->last_seq < l->window.acked_through ? RESYNC_OLDER : RESYNC_RESUMED;
}

/* What each does:
 *
 *     renumber     what is sequenced, and unknown there, gets numbers from last_seq + 1 on, with ticks to where the
 *                  worker was when the session's clock is lower; otherwise numbers stay, and holes above last_seq are
 *                  filled with skips
 *     session_new  nothing is known there; the session's clock is its floor, and this worker's when that is lower
 *     rolled       the caller is told what is gone; requests that wait carry no versions any more, for the blocks there
 *                  may be older; every variable is declared again before they go; in sync the pushes of steps that
 *                  were under way are gated (outbox.c) */
/* clang-format off */
static const struct resync_row {
    bool renumber, session_new, rolled;
} resync_rows[] = {
    /*                        renumber  session_new  rolled */
    [RESYNC_JOINED]       = {true,     true,        false},
    [RESYNC_JOINED_OLDER] = {true,     true,        true},
    [RESYNC_RESUMED]      = {false,    false,       false},
    [RESYNC_OLDER]        = {true,     false,       true},
    [RESYNC_LOST]         = {true,     true,        true},
};
/* clang-format on */

/* A durable push past last_seq that is there. (A shard that lost its power twice in a row may speak of numbers of
 * before the first time: none of those is under way any more.) */
static bool
resync_survived(const struct shard_link *l, const Psd__Welcome *w, uint64_t seq)
{
    uint64_t bit = seq - w->survived_from;

    return !MUTATION(SURVIVORS_SENT_AGAIN) && w->survived_boot == l->boot && seq > w->last_seq &&
           seq >= w->survived_from && bit / 8 < w->survived.len && (w->survived.data[bit / 8] >> bit % 8 & 1) != 0;
}

/* The outcome of a survivor there. */
static enum ps_err
survivor_code(const Psd__Welcome *w, uint64_t seq)
{
    for (size_t i = 0; i < w->n_odd_seq; i++)
        if (w->odd_seq[i] == seq)
            return (enum ps_err)w->odd_code[i];
    return seq <= w->odd_lost ? PS_ERR_UNKNOWN_OUTCOME : PS_OK;
}

/* The shard has what was sent under this number. */
static bool
shard_has_request(const struct shard_link *l, const Psd__Welcome *w, const struct request *p)
{
    return request_sequenced(p) && p->seq != 0 && (p->seq <= w->last_seq || resync_survived(l, w, p->seq));
}

/* ---- Counts ---- */

/* Pushes that the shard has and has not answered. */
static uint64_t
unanswered_there(const struct shard_link *l, const Psd__Welcome *w)
{
    uint64_t n = 0;

    for (const struct request *p = l->parts.first; p != NULL; p = p->next)
        n += p->counts && shard_has_request(l, w, p);
    return n;
}

/* Of the pushes that it answered, the shard still has all that it counts except the unanswered ones. */
static uint64_t
pushes_gone(const struct shard_link *l, const Psd__Welcome *w)
{
    uint64_t unanswered = MUTATION(UNANSWERED_COUNTED) ? 0 : unanswered_there(l, w);
    uint64_t kept = w->pushes - MIN(unanswered, w->pushes);

    return l->pushes - MIN(kept, l->pushes);
}

/* ---- Requests ---- */

/* What was seen there is no longer so: a message made from it would be refused, or get nothing. */
static void
forget_versions(struct shard_link *l)
{
    struct request *p;

    for (p = l->parts.first; p != NULL; p = p->next) {
        if (p->kind == REQUEST_PUSH)
            p->versions.any = false;
        if (p->kind == REQUEST_PULL && p->op != NULL && p->op->pull.only_changed) {
            p->versions.any = p->op->pull.newer_than > 0;
            p->versions.same = p->op->pull.newer_than;
            p->versions.use_each = false;
        }
    }
}

/* Before `at`; it gets its number with the others. */
static enum ps_err
insert_tick(struct core *c, struct shard_link *l, struct request *at, uint64_t clock)
{
    struct request *p = request_new_own(c, REQUEST_TICK);

    if (p == NULL)
        return PS_ERR_NOMEM;
    p->clock = clock;
    request_list_insert_before(&l->parts, at, p);
    return PS_OK;
}

/* How far this worker was there. A session that was made where others were, past this worker, is forgotten with it. */
static uint64_t
own_clock(const struct core *c, const struct shard_link *l, bool session_new)
{
    return session_new && c->joined ? l->ticked : l->clock;
}

/* Sync: what was answered of the step under way may be gone, and will not be sent again. The others are not to wait for
 * it: two workers, each of which had another answer before, would wait for each other. So the session goes past the
 * step, behind what this worker still has for it. */
static uint64_t
past_answered(const struct core *c, const struct shard_link *l)
{
    bool in_step = c->config.mode == PS_SYNC && c->joined && l->pushed > c->clock;

    return in_step ? l->pushed : 0;
}

/* Acknowledged ticks are gone: the core's own bring the session where the worker was, each before the first push that
 * was made there; and one to where it is already, when only the metrics that they carried are gone. A session that went
 * back behind the beginning of this round is notified of the round before anything else, or it would take the data of
 * this round's pushes for that of the one before. Metrics come before the first push: it says where its data begins,
 * and what lies before that must be in them, whoever dies next. */
static enum ps_err
catch_up(struct core *c, struct shard_link *l, const Psd__Welcome *w, bool session_new)
{
    uint64_t at = w->clock, own = MAX(own_clock(c, l, session_new), past_answered(c, l));
    bool behind = c->joined && w->round < c->round, tells = false; /* a tick comes, which carries metrics as well */
    bool lacks = c->joined && own_metrics_behind(c, l);
    enum ps_err err;

    for (struct request *p = l->parts.first; p != NULL; p = p->next) {
        if (p->given_up || (!session_new && shard_has_request(l, w, p)))
            continue;
        behind |= lacks && !tells && p->kind == REQUEST_PUSH && p->clock <= at;
        if (behind && (err = insert_tick(c, l, p, at)) != PS_OK)
            return err;
        tells |= behind;
        behind = false;
        if (p->kind == REQUEST_PUSH && p->clock > at && (err = insert_tick(c, l, p, p->clock)) != PS_OK)
            return err;
        tells |= p->kind == REQUEST_TICK || (p->kind == REQUEST_PUSH && p->clock > at);
        if (p->kind == REQUEST_PUSH || p->kind == REQUEST_TICK)
            at = MAX(at, p->clock);
    }
    behind |= lacks && !tells;
    return behind || at < own ? insert_tick(c, l, NULL, MAX(at, own)) : PS_OK;
}

/* The core's own ticks that are still to be answered may be at the clock of a session that is no more. */
static void
take_back_ticks(const struct core *c, struct shard_link *l)
{
    struct request *p;

    if (!c->joined)
        return;
    for (p = l->parts.first; p != NULL; p = p->next)
        if (p->kind == REQUEST_TICK)
            p->clock = MIN(p->clock, c->clock);
}

/* Room for the numbers of what has none yet. */
static enum ps_err
reserve_numbers(struct shard_link *l)
{
    uint64_t n = 0;

    for (const struct request *p = l->parts.first; p != NULL; p = p->next)
        n += request_sequenced(p) && p->seq == 0;
    return send_window_reserve(&l->window, n);
}

/* A push that was applied, and whose answer would have held the values: they are asked for instead. */
static void
ask_values(struct shard_link *l, struct request *p)
{
    p->kind = REQUEST_PULL;
    p->seq = 0;
    p->counts = false;
    p->versions.any = false;
    p->op->answered = true; /* should it be given up, it was applied nevertheless */
    l->pulling++;
    l->pulling_bytes += p->bytes;
}

static void
answer_survivor(struct core *c, struct shard_link *l, struct request *p, enum ps_err code)
{
    struct core_op *op = p->op;
    struct lane *lane = p->lane;
    struct ps_error e;

    shard_link_note_codes(c, l, p, NULL, code, &e);
    send_window_ack(&l->window, p->seq);
    if (op->want && (code == PS_OK || op_is_drop(code))) {
        op_note(op, &e);
        ask_values(l, p);
    } else {
        request_end(c, l, p);
        op_answered(c, op, lane, e.code != PS_OK ? &e : NULL);
    }
}

static void
answer_survivors(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    struct request *p, *next;

    for (p = l->parts.first; p != NULL; p = next) {
        next = p->next;
        if (p->kind == REQUEST_PUSH && resync_survived(l, w, p->seq))
            answer_survivor(c, l, p, survivor_code(w, p->seq));
    }
}

/* Numbers up to last_seq stay, so that the outcomes are reported; given up ones, which the shard need not know of, go.
 * There is room. */
static void
number_anew(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    uint64_t unanswered = 0; /* of those that the shard has */
    struct request *p, *next;
    enum ps_err err;

    send_window_cut(&l->window, w->last_seq);
    for (p = l->parts.first; p != NULL; p = next) {
        next = p->next;
        if (!request_sequenced(p))
            continue;
        if (p->given_up) {
            request_end(c, l, p);
        } else if (send_window_find(&l->window, p->seq) == p) {
            unanswered += p->counts;
        } else {
            err = send_window_give(&l->window, p);
            ps_assert(err == PS_OK);
            p->counts = false;
            p->gated = p->kind == REQUEST_PUSH && l->gates;
        }
    }
    l->to_send = l->parts.first;
    l->pushes = w->pushes - MIN(unanswered, w->pushes);
}

/* Numbers above last_seq that were acknowledged out of order: the shard needs them to go on, as skips. */
static enum ps_err
fill_holes(struct core *c, struct shard_link *l, uint64_t last_seq)
{
    struct request *at = l->parts.first, *skip;
    uint64_t seq;

    for (seq = l->window.acked_through + 1; seq < l->window.next; seq++) {
        while (at != NULL && (!request_sequenced(at) || at->seq < seq))
            at = at->next;
        if (seq <= last_seq || send_window_find(&l->window, seq) != NULL)
            continue;
        if ((skip = request_new_own(c, REQUEST_SKIP)) == NULL)
            return PS_ERR_NOMEM;
        skip->given_up = true;
        skip->was_counted = send_window_push_acked(&l->window, seq);
        send_window_fill(&l->window, seq, skip);
        request_list_insert_before(&l->parts, at, skip);
    }
    l->to_send = MUTATION(NOT_RESENT) ? NULL : l->parts.first;
    return PS_OK;
}

/* Declare again all that the shard should hold and does not know: it lost it, perhaps before the worker joined again.
 * (What operations still ask for: op_answered().) */
static enum ps_err
restore_variables(struct core *c, struct shard_link *l)
{
    struct core_var *v;
    struct request *p;

    l->attach_ms = 0;
    for (v = c->vars.first; v != NULL; v = v->hh.next) {
        if (!v->declared || v->shard[l->shard].blocks == 0 || v->shard[l->shard].known)
            continue;
        if ((p = request_new_own(c, REQUEST_RESTORE)) == NULL)
            return PS_ERR_NOMEM;
        p->var = v;
        shard_link_queue_control(l, p);
        l->restoring++;
    }
    return PS_OK;
}

static void
drop_restores(struct core *c, struct shard_link *l)
{
    struct request *p, *next;

    for (p = l->control.first; p != NULL; p = next) {
        next = p->next;
        if (p->kind == REQUEST_RESTORE)
            request_end(c, l, p);
    }
    l->restoring = 0;
}

/* ---- Settling ---- */

/* The job was restored on request. Which of this worker's pushes the checkpoint has is not known. */
static bool
was_restored(const struct shard_link *l, const Psd__Welcome *w)
{
    return w->restored_boot != 0 && w->restored_boot != l->restored_boot;
}

static void
report_restored(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_RESTORED,
                   "was restored from checkpoint '%.255s': what this worker had pushed since that was made is gone",
                   w->restored);
    core_emit_event(c, &e);
}

static void
report_rollback(struct core *c, struct shard_link *l, enum resync_case which, uint64_t gone)
{
    struct ps_error e;

    if (which == RESYNC_JOINED_OLDER) /* nothing is known of what the last incarnation did there */
        core_error_set(c, l, &e, PS_ERR_ROLLED_BACK, "restarted with an older state; updates may be gone");
    else if (gone == 0)
        core_error_set(c, l, &e, PS_ERR_ROLLED_BACK,
                       "restarted with an older state; nothing that it had acknowledged to this worker is missing");
    else
        core_error_set(c, l, &e, PS_ERR_ROLLED_BACK,
                       "restarted with an older state: %" PRIu64 " acknowledged push%s of this "
                       "worker %s gone",
                       gone, gone == 1 ? "" : "es", gone == 1 ? "is" : "are");
    core_emit_event(c, &e);
}

/* All that may fail of what makes the link agree with the session. It leaves nothing that hurts when it is begun
 * again. */
static enum ps_err
resync_prepare(struct core *c, struct shard_link *l, const Psd__Welcome *w, const struct resync_row *row)
{
    enum ps_err err;

    if (row->rolled) {
        if (!MUTATION(VERSIONS_REMEMBERED))
            forget_versions(l);
        variables_forget(&c->vars, l->shard);
    }
    drop_restores(c, l);
    if (row->renumber && (err = definition_again(c, l)) != PS_OK)
        return err;
    if ((err = restore_variables(c, l)) != PS_OK)
        return err;
    if (!row->renumber)
        return fill_holes(c, l, w->last_seq);
    take_back_ticks(c, l);
    if ((err = catch_up(c, l, w, row->session_new)) != PS_OK)
        return err;
    return reserve_numbers(l);
}

static void
resync_apply(struct core *c, struct shard_link *l, const Psd__Welcome *w, enum resync_case which)
{
    const struct resync_row *row = &resync_rows[which];
    bool restored = was_restored(l, w);
    uint64_t gone = !restored && (which == RESYNC_OLDER || which == RESYNC_LOST) ? pushes_gone(l, w) : 0;

    if (row->renumber && !row->session_new)
        answer_survivors(c, l, w);
    if (row->session_new)
        send_window_reset(&l->window, w->last_seq);
    if (row->rolled && c->config.mode == PS_SYNC) {
        l->gates = true;
        l->gated_through = c->clock;
    }
    if (row->renumber)
        number_anew(c, l, w);
    if (row->rolled && !row->session_new) /* a survivor may have been made past what is sent again */
        l->floor = MAX(l->floor, w->clock);
    if (row->session_new) {
        l->floor = w->clock;
        l->clock = MAX(own_clock(c, l, true), w->clock);
    }
    if (!row->rolled)
        return;
    op_assign_lost(c);
    l->rolled_back += gone;
    c->stats.rolled_back += gone;
    if (restored)
        report_restored(c, l, w);
    else
        report_rollback(c, l, which, gone);
}

/* Make the link agree with the session that the shard has. */
static enum ps_err
resync_worker(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    enum resync_case which = resync_case_of(l, w);
    struct ps_error e;
    enum ps_err err;

    if (MUTATION(RESENT_AS_NEW) && which == RESYNC_RESUMED)
        which = RESYNC_JOINED;
    if (w->last_seq >= (resync_rows[which].session_new ? SEQ_LIMIT : l->window.next)) {
        core_error_set(c, l, &e, PS_ERR_PROTOCOL, "has an outcome for what was not sent");
        core_fail(c, &e);
        return e.code;
    }
    own_metrics_welcomed(c, l, w, resync_rows[which].rolled);
    if ((err = resync_prepare(c, l, w, &resync_rows[which])) != PS_OK)
        return err;
    resync_apply(c, l, w, which);
    return PS_OK;
}

/* An observer has no session: what matters is whether the variables are those that it attached to. */
static enum ps_err
resync_observer(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    if (!l->boot_known || l->boot == w->boot)
        return PS_OK;
    forget_versions(l);
    variables_forget(&c->vars, l->shard);
    drop_restores(c, l);
    return restore_variables(c, l);
}

enum ps_err
resync_settle(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    return c->config.observer ? resync_observer(c, l, w) : resync_worker(c, l, w);
}

enum ps_err
resync_finish_join(struct core *c, bool all)
{
    uint64_t clock = 0, round = 0;
    struct request *p;
    uint32_t i;

    for (i = 0; i < c->config.shards; i++) {
        if (!c->links[i].joined)
            return PS_OK;
        clock = MAX(clock, c->links[i].clock);
        round = MAX(round, c->links[i].round);
    }
    own_metrics_join(c, round);
    for (i = 0; i < c->config.shards; i++) {
        struct shard_link *l = &c->links[i];

        l->ticked = l->clock;
        if (!all && l->clock == clock && l->round == round && !own_metrics_behind(c, l))
            continue;
        if ((p = request_new_own(c, REQUEST_TICK)) == NULL)
            return PS_ERR_NOMEM;
        p->clock = clock;
        if (send_window_give(&l->window, p) != PS_OK) {
            request_pool_put(&c->pools, p);
            return PS_ERR_NOMEM;
        }
        request_list_append(&l->parts, p);
        if (l->to_send == NULL)
            l->to_send = p;
    }
    c->clock = clock;
    c->round = round;
    step_cursor_join(c);
    c->joined = true;
    c->changes++;
    for (i = 0; i < c->config.shards; i++)
        shard_link_pump(c, &c->links[i]);
    return PS_OK;
}
