/* Agreeing, once the group is formed: every rank reports its state, all see the same list and draw the same conclusions
 * from it. Then the rank that is furthest sends its variables, slots and step to all at once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/strategy/all_reduced.h"
#include "client/strategy/training_definition.h"

/* What gradients travel as, besides what all strategies compare. */
void
all_reduced_define(const ps_strategy *s, struct training_definition *d)
{
    const struct ps_compress *how = &s->options.client.compress;
    double fraction = how->kind != PS_COMPRESS_TOP_K ? 0 : how->fraction > 0 ? how->fraction : PS_COMPRESS_FRACTION;
    char text[48];

    snprintf(text, sizeof text, fraction > 0 ? "%s:%.9g" : "%s", ps_compress_name(how->kind), fraction);
    training_definition_add(d, "compression", text);
    training_definition_number(d, "device_reduce", s->options.device_reduce != 0);
}

/* What each rank reports of itself. */
struct standing {
    int64_t next; /* step; or one of: */
    int64_t replicas;
    int64_t definition; /* a hash of all that must be the same */
    int64_t epoch;      /* of the group in which it has completed the step before */
};
#define STANDING_NEW   (-1) /* it has just joined */
#define STANDING_TORN  (-2) /* it has some variables of a later step than the first, and not all of them */
#define STANDING_WORDS (sizeof(struct standing) / sizeof(int64_t))

/* The lowest rank that is furthest; and whether any rank is behind it, or new. */
static uint32_t
find_furthest(const struct standing *all, uint32_t ranks, bool *behind)
{
    uint32_t furthest = 0;

    *behind = false;
    for (uint32_t r = 1; r < ranks; r++)
        if (all[r].next > all[furthest].next)
            furthest = r;
    for (uint32_t r = 0; r < ranks; r++)
        *behind |= all[r].next < all[furthest].next || all[r].next < 0;
    return furthest;
}

/* Each rank sends its own, so that all can say in what they differ. NULL: no memory, or the group failed. */
static struct training_definition *
exchange_definitions(ps_strategy *s, const struct training_definition *mine, uint32_t ranks)
{
    const struct all_reduced *a = s->own;
    struct training_definition *all = calloc(ranks, sizeof *all);

    if (all != NULL &&
        ps_group_all_gather(a->group, mine, all, ranks * sizeof *all / sizeof(int64_t), PS_I64, NULL, NULL) == PS_OK)
        return all;
    free(all);
    return NULL;
}

static enum ps_err
definitions_differ(ps_strategy *s, const struct training_definition *mine, uint32_t ranks, uint32_t other,
                   uint32_t furthest, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    struct training_definition *all = exchange_definitions(s, mine, ranks);
    char what[PS_ERROR_TEXT_MAX - 128] = "another definition";

    if (all != NULL)
        training_definition_compare(&all[other], &all[furthest], ps_group_task(a->group, furthest), what, sizeof what);
    free(all);
    return ps_fail(e, PS_ERR_MISMATCH, "worker %u was started with %s: all workers must be started with the same",
                   ps_group_task(a->group, other), what);
}

/* All must have the definition of the rank that is furthest. A rank with another one is refused; those that fit are
 * counted, to form the group without it, once the training has begun. No rank leaves before all have seen that. */
static enum ps_err
compare_definitions(ps_strategy *s, const struct training_definition *mine, const struct standing *all, uint32_t ranks,
                    uint32_t furthest, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint32_t count = 0, other = furthest;
    enum ps_err err;

    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].definition == all[furthest].definition)
            count++;
        else
            other = r;
    if (count == ranks)
        return PS_OK;
    if (all[ps_group_rank(a->group)].definition == all[furthest].definition && all[furthest].next >= 0)
        a->fitting = count;
    err = definitions_differ(s, mine, ranks, other, furthest, e);
    (void)!ps_group_barrier(a->group, NULL, NULL);
    return err;
}

/* Numbers of replicas over all ranks, in their order. */
static enum ps_err
take_standings(ps_strategy *s, const struct standing *all, uint32_t ranks, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    uint32_t rank = ps_group_rank(a->group), count = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        if (all[r].replicas < 1 || all[r].replicas > PS_STRATEGY_REPLICAS_MAX)
            return ps_fail(e, PS_ERR_PROTOCOL, "worker %u says that it has %" PRId64 " replicas",
                           ps_group_task(a->group, r), all[r].replicas);
        if (r == rank)
            s->index = count;
        count += (uint32_t)all[r].replicas;
    }
    s->count = count;
    s->divisor = (float)count;
    s->workers = ranks;
    s->inherits |= rank == 0 && (!s->chief || !a->agreed);
    s->chief = rank == 0;
    return PS_OK;
}

/* Variables, slots, versions and what was counted from one rank to all others, not all of which need them. */
static enum ps_err
hand_over(ps_strategy *s, uint32_t from, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    struct strategy_copy *c = &s->copy[0];
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++) {
        struct local_optimizer *l = c->optimizer[i];
        size_t elements = (size_t)s->vars[i]->elements;
        int64_t version = (int64_t)l->version;

        l->calm = false; /* its slots are written here */
        err = ps_group_broadcast(a->group, c->values[i], elements, PS_F32, from, NULL, e);
        for (uint32_t k = 0; err == PS_OK && k < l->slots; k++)
            err = ps_group_broadcast(a->group, l->slot[k], elements, PS_F32, from, NULL, e);
        if (err == PS_OK)
            err = ps_group_broadcast(a->group, &version, 1, PS_I64, from, NULL, e);
        if (err == PS_OK)
            l->version = (uint64_t)version;
    }
    if (err == PS_OK)
        err = ps_group_broadcast(a->group, s->counted, strategy_totals_len(s), PS_F64, from, NULL, e);
    return err;
}

/* What this worker can give to others. */
static int64_t
step_of(const ps_strategy *s)
{
    const struct all_reduced *a = s->own;

    if (a->torn)
        return a->torn_at > 0 ? STANDING_TORN : STANDING_NEW;
    return a->agreed ? (int64_t)s->next : STANDING_NEW;
}

/* No rank has all variables of any step. That is the beginning, unless a rank has a part of what was lost: all ranks
 * see that, and none of them silently starts from the beginning. */
static enum ps_err
begin_all(ps_strategy *s, const struct standing *all, uint32_t ranks, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].next == STANDING_TORN)
            return ps_fail(e, PS_ERR_STEP_FAILED,
                           "who gave its variables to worker %u was lost meanwhile, and nobody else has all of them: "
                           "restore a checkpoint",
                           ps_group_task(a->group, r));
    if (!a->torn)
        return PS_OK;
    strategy_count_none(s);
    return strategy_initialize(s, e);
}

void
all_reduced_settle(ps_strategy *s, bool counted)
{
    struct all_reduced *a = s->own;

    if (a->tried && a->reducer != NULL)
        ps_reducer_settle(a->reducer, counted);
    a->tried = false;
}

/* Receive them from a rank, or send them; a worker that is behind has nothing complete until all have arrived. */
static enum ps_err
catch_up(ps_strategy *s, const struct standing *all, uint32_t from, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    int64_t to = all[from].next;
    bool behind = step_of(s) < to;
    enum ps_err err;

    if (behind) {
        a->torn = true;
        a->torn_at = MAX(a->torn_at, to);
    }
    if (!behind && (err = strategy_gather(s, true, e)) != PS_OK)
        return err;
    if ((err = hand_over(s, from, e)) != PS_OK)
        return err;
    a->torn = false;
    a->torn_at = 0;
    s->stats.received += behind;
    s->next = (uint64_t)MAX(to, 0);
    return strategy_spread(s, e);
}

/* Whether the gradients that were exchanged for step `tried` have: it was completed in the same forming of the group. A
 * step further back is no longer known: what was left out is better lost than added twice (residual.h). */
static bool
has_counted(const struct all_reduced *a, const struct standing *furthest, int64_t tried)
{
    return furthest->next == tried + 1 ? furthest->epoch == (int64_t)a->epoch : furthest->next > tried;
}

/* All have the same variables: the devices may reduce. */
static enum ps_err
open_devices(ps_strategy *s, struct ps_error *e)
{
    struct ps_device_group_options options = {.direct = 1};
    struct all_reduced *a = s->own;

    if (!s->options.device_reduce)
        return PS_OK;
    ps_device_group_close(a->devices);
    a->devices = NULL;
    return ps_device_group_open(a->group, s->replica[0].device, &options, &a->devices, e);
}

enum ps_err
all_reduced_agree(ps_strategy *s, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint32_t ranks = ps_group_ranks(a->group), furthest;
    struct standing me = {.next = step_of(s), .replicas = s->replicas, .epoch = (int64_t)a->done_epoch}, *all;
    struct training_definition mine;
    int64_t tried = (int64_t)s->next;
    enum ps_err err;
    bool behind;

    a->fitting = 0;
    if ((err = training_definition_of(s, &mine, e)) != PS_OK)
        return err;
    me.definition = (int64_t)training_definition_hash(&mine);
    if ((all = calloc(ranks, sizeof *all)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for %u workers", ranks);
    err = ps_group_all_gather(a->group, &me, all, ranks * STANDING_WORDS, PS_I64, NULL, e);
    furthest = find_furthest(all, ranks, &behind);
    if (err == PS_OK)
        err = compare_definitions(s, &mine, all, ranks, furthest, e);
    if (err == PS_OK)
        err = take_standings(s, all, ranks, e);
    if (err == PS_OK && all[furthest].next < 0)
        err = begin_all(s, all, ranks, e);
    if (err == PS_OK && behind)
        err = catch_up(s, all, furthest, e);
    if (err == PS_OK)
        all_reduced_settle(s, has_counted(a, &all[furthest], tried));
    if (err == PS_OK && behind)
        a->done_epoch = (uint64_t)all[furthest].epoch;
    a->agreed |= err == PS_OK;
    s->inherits &= s->chief && s->next > 0; /* at the beginning there was no chief before it */
    free(all);
    return err == PS_OK ? open_devices(s, e) : err;
}
