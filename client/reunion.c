/* What a welcome means: reunion_of() decides once, and what follows from that is the table `reunions`. */
#include "client/reunion.h"

#include "client/link.h"

/* What a welcome means for what this side remembers of the shard. */
enum reunion {
    REUNION_JOINED,       /* the first welcome of this incarnation */
    REUNION_JOINED_OLDER, /* the same, and the store is not the one that the last incarnation knew */
    REUNION_RESUMED,      /* the session goes on, in the same store */
    REUNION_RESTORED,     /* another store, yet it has all of the session that was acknowledged here */
    REUNION_BEHIND,       /* the session is there, but last_seq < acked_through: what lies between is gone */
    REUNION_LOST          /* the shard did not know the session (NOT_FOUND) and has made a new one */
};

static enum reunion
reunion_of(const struct link *l, const Psd__Welcome *w)
{
    bool other_store = l->boot_known && l->boot != w->boot;

    if (l->session_lost)
        return REUNION_LOST;
    if (!l->joined)
        return other_store ? REUNION_JOINED_OLDER : REUNION_JOINED;
    if (w->last_seq < l->window.acked_through)
        return REUNION_BEHIND;
    return other_store ? REUNION_RESTORED : REUNION_RESUMED;
}

/* What each does:
 *
 *     renumber     what is sequenced gets numbers from last_seq + 1 on, after a tick to this worker's clock where the
 *                  session's is lower; otherwise numbers stay, and holes above last_seq are filled with skips
 *     session_new  the session's clock is its floor, and this worker's when that is lower
 *     rolled       the caller is told what is gone; parts that wait carry no versions any more, for the blocks there
 *                  may be older; every variable is declared again before they go */
/* clang-format off */
static const struct reunion_row {
    bool renumber, session_new, rolled;
} reunions[] = {
    /*                        renumber  session_new  rolled */
    [REUNION_JOINED]       = {true,     true,        false},
    [REUNION_JOINED_OLDER] = {true,     true,        true},
    [REUNION_RESUMED]      = {false,    false,       false},
    [REUNION_RESTORED]     = {false,    false,       true},
    [REUNION_BEHIND]       = {true,     false,       true},
    [REUNION_LOST]         = {true,     true,        true},
};
/* clang-format on */

/* Acknowledged numbers that a shard which has rolled back to last_seq does not have. */
static uint64_t
numbers_gone(const struct link *l, uint64_t last_seq)
{
    uint64_t had = l->window.acked_through;

    return had + window_holes(&l->window) - MIN(last_seq, had);
}

/* What was seen there is no longer so: a message made from it would be refused, or get nothing. */
static void
forget_versions(struct link *l)
{
    struct part *p;

    for (p = l->parts.first; p != NULL; p = p->next) {
        if (p->kind == PART_PUSH)
            p->versions.any = false;
        if (p->kind == PART_PULL && p->op != NULL && p->op->pull.only_changed) {
            p->versions.any = p->op->pull.newer_than > 0;
            p->versions.same = p->op->pull.newer_than;
            p->versions.use_each = false;
        }
    }
}

/* A tick of the core's own, before everything else that is to be sent: the session is behind this worker's clock. */
static enum ps_err
catch_up(struct core *c, struct link *l, uint64_t clock)
{
    struct part *p = part_own(c, PART_TICK);

    if (p == NULL)
        return PS_ERR_NOMEM;
    p->clock = clock;
    parts_insert_before(&l->parts, l->parts.first, p);
    l->to_send = l->parts.first;
    return PS_OK;
}

/* Number what is sequenced anew from last_seq + 1; given up ones, which the shard need never hear of, go. */
static enum ps_err
renumber(struct core *c, struct link *l, const Psd__Welcome *w)
{
    struct part *p, *next;
    enum ps_err err;

    /* Nothing fails after this line and catch_up(), which may add one. */
    if ((err = window_reserve(&l->window)) != PS_OK)
        return err;
    if (w->clock < l->clock && (err = catch_up(c, l, l->clock)) != PS_OK)
        return err;
    window_reset(&l->window, w->last_seq);
    for (p = l->parts.first; p != NULL; p = next) {
        next = p->next;
        if (part_sequenced(p) && p->given_up) {
            part_end(c, l, p);
        } else if (part_sequenced(p)) {
            err = window_give(&l->window, p);
            ps_assert(err == PS_OK);
        }
    }
    l->to_send = l->parts.first;
    return PS_OK;
}

/* Numbers above last_seq that were acknowledged out of order: the shard needs them to go on, as skips. */
static enum ps_err
fill_holes(struct core *c, struct link *l, uint64_t last_seq)
{
    struct part *at = l->parts.first, *skip;
    uint64_t seq;

    for (seq = l->window.acked_through + 1; seq < l->window.next; seq++) {
        while (at != NULL && (!part_sequenced(at) || at->seq < seq))
            at = at->next;
        if (seq <= last_seq || window_find(&l->window, seq) != NULL)
            continue;
        if ((skip = part_own(c, PART_SKIP)) == NULL)
            return PS_ERR_NOMEM;
        skip->given_up = true;
        window_fill(&l->window, seq, skip);
        parts_insert_before(&l->parts, at, skip);
    }
    l->to_send = PLANTED(NOT_RESENT) ? NULL : l->parts.first;
    return PS_OK;
}

/* Declare again all that the shard should hold and does not know: it lost it, perhaps before the worker joined anew.
 * (What operations still ask for: op_answered().) */
static enum ps_err
restore_variables(struct core *c, struct link *l)
{
    struct core_var *v;
    struct part *p;

    l->attach_ms = 0;
    for (v = c->vars.first; v != NULL; v = v->next) {
        if (!v->declared || v->shard[l->shard].blocks == 0 || v->shard[l->shard].known)
            continue;
        if ((p = part_own(c, PART_RESTORE)) == NULL)
            return PS_ERR_NOMEM;
        p->var = v;
        parts_append(&l->control, p);
        l->restoring++;
    }
    return PS_OK;
}

static void
drop_restores(struct core *c, struct link *l)
{
    struct part *p, *next;

    for (p = l->control.first; p != NULL; p = next) {
        next = p->next;
        if (p->kind == PART_RESTORE)
            part_end(c, l, p);
    }
    l->restoring = 0;
}

/* gone: acknowledged numbers that are lost. new_incarnation: nothing is known of what the last one did there. */
static void
tell_rollback(struct core *c, struct link *l, uint64_t gone, bool new_incarnation)
{
    const char *what =
        new_incarnation ? "updates may be gone" : "nothing that it had acknowledged to this worker is missing";
    struct ps_error e;

    if (gone == 0)
        core_say(c, l, &e, PS_ERR_ROLLED_BACK, "restarted with an older state; %s", what);
    else
        core_say(c, l, &e, PS_ERR_ROLLED_BACK,
                 "restarted with an older state: %llu acknowledged pushes and ticks of this worker are gone",
                 (unsigned long long)gone);
    core_emit_event(c, &e);
}

/* Make the link agree with the session that the shard has. */
static enum ps_err
settle_worker(struct core *c, struct link *l, const Psd__Welcome *w)
{
    enum reunion which = reunion_of(l, w);
    const struct reunion_row *row = &reunions[which];
    uint64_t gone = numbers_gone(l, w->last_seq); /* of the window as it was */
    enum ps_err err;

    if ((err = row->renumber || PLANTED(RESENT_AS_NEW) ? renumber(c, l, w) : fill_holes(c, l, w->last_seq)) != PS_OK)
        return err;
    if (row->session_new) {
        l->floor = w->clock;
        l->clock = MAX(l->clock, w->clock);
    }
    if (row->rolled) {
        forget_versions(l);
        variables_forget(&c->vars, l->shard);
        tell_rollback(c, l, gone, which == REUNION_JOINED_OLDER);
    }
    drop_restores(c, l);
    return restore_variables(c, l);
}

/* An observer has no session: what matters is whether the variables are those that it attached to. */
static enum ps_err
settle_observer(struct core *c, struct link *l, const Psd__Welcome *w)
{
    if (!l->boot_known || l->boot == w->boot)
        return PS_OK;
    forget_versions(l);
    variables_forget(&c->vars, l->shard);
    drop_restores(c, l);
    return restore_variables(c, l);
}

enum ps_err
reunion_settle(struct core *c, struct link *l, const Psd__Welcome *w)
{
    return c->config.observer ? settle_observer(c, l, w) : settle_worker(c, l, w);
}

enum ps_err
reunion_finish_join(struct core *c)
{
    uint64_t clock = 0, round = 0;
    struct part *p;
    uint32_t i;

    for (i = 0; i < c->config.shards; i++) {
        if (!c->links[i].joined)
            return PS_OK;
        clock = MAX(clock, c->links[i].clock);
        round = MAX(round, c->links[i].round);
    }
    for (i = 0; i < c->config.shards; i++) {
        struct link *l = &c->links[i];

        if (l->clock == clock && l->round == round)
            continue;
        if ((p = part_own(c, PART_TICK)) == NULL)
            return PS_ERR_NOMEM;
        p->clock = clock;
        if (window_give(&l->window, p) != PS_OK) {
            pool_part_put(&c->pools, p);
            return PS_ERR_NOMEM;
        }
        parts_append(&l->parts, p);
        if (l->to_send == NULL)
            l->to_send = p;
    }
    c->clock = clock;
    c->round = round;
    place_join(c);
    c->joined = true;
    c->changes++;
    for (i = 0; i < c->config.shards; i++)
        link_pump(c, &c->links[i]);
    return PS_OK;
}
