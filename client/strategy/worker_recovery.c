/* When a worker is lost, and until it is back: which one, forming the group again without it or with its replacement,
 * and looking for it at intervals. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/strategy/all_reduced.h"
#include "common/system/now.h"

#define CHECK_FIRST_MS 2000  /* after a worker was lost: when it is first looked for again; then twice as long ... */
#define CHECK_LAST_MS  32000 /* ... up to this, but no more than a part of the time is spent on looking: */
#define CHECK_PART     8
#define CHECK_MEET_MS  10000 /* for one try, and no more than half of an exchange's time: others wait for it in one */
#define FORM_TRIES     4     /* of forming a group whose members are lost while they connect */
#define RECOVER_TRIES  16    /* of going on after a loss: another one, or a worker that does not fit, may intervene */

/* ---- Which worker was lost ---- */

/* The worker that the group's error names as a rank: the rank may have another number in the next forming. */
static enum ps_err
explain_lost_rank(const ps_strategy *s, const struct ps_error *why, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    uint32_t rank, task = UINT32_MAX;

    if (sscanf(why->peer, "rank %" SCNu32, &rank) == 1)
        task = ps_group_task(a->group, rank);
    if (e == NULL)
        return PS_ERR_STEP_FAILED;
    if (task != UINT32_MAX)
        ps_error_set(e, PS_ERR_STEP_FAILED, "worker %u was lost in step %" PRIu64 ": %s: %.350s", task, s->next,
                     ps_err_name(why->code), why->text);
    else
        ps_error_set(e, PS_ERR_STEP_FAILED, "a worker was lost in step %" PRIu64 ": %s: %.350s", s->next,
                     ps_err_name(why->code), why->text);
    memcpy(e->peer, why->peer, sizeof e->peer);
    return PS_ERR_STEP_FAILED;
}

/* Whether meeting again may help; an error that all ranks would only repeat is no reason. */
static bool
may_recover(enum ps_err err)
{
    return !ps_interrupted() &&
           (err == PS_ERR_CLOSED || err == PS_ERR_TIMEOUT || err == PS_ERR_PROTOCOL || err == PS_ERR_UNREACHABLE ||
            err == PS_ERR_IO || err == PS_ERR_CANCELLED || err == PS_ERR_STEP_FAILED);
}

/* Whether the group, or the devices' part of it, has failed. */
static bool
is_over(const struct all_reduced *a)
{
    return a->devices_over || ps_group_state(a->group, NULL) != PS_OK;
}

/* Whether the group is to be formed again after what agreeing ended with. */
static bool
may_go_on(const ps_strategy *s, enum ps_err err)
{
    const struct all_reduced *a = s->own;

    return a->fitting > 0 || (may_recover(err) && is_over(a));
}

/* ---- Meeting again ---- */

/* When a worker that is missing is looked for. took_ms: how long it took to find none; 0: one was found, or lost. */
static void
plan_check(ps_strategy *s, uint64_t took_ms)
{
    struct all_reduced *a = s->own;

    a->check_wait_ms = took_ms > 0 ? MIN(2 * a->check_wait_ms, CHECK_LAST_MS) : CHECK_FIRST_MS;
    a->check_at_ms = s->workers < a->all ? monotonic_ms() + MAX(a->check_wait_ms, CHECK_PART * took_ms) : 0;
}

/* Whether it failed because of a member that met, but was gone or elsewhere when the others connected to it. A meeting
 * that cannot be reached takes all its time to say so, and is no such case. */
static bool
lost_on_the_way(const struct all_reduced *a, enum ps_err err, uint64_t began_ms)
{
    return err != PS_ERR_TIMEOUT && (may_recover(err) || err == PS_ERR_CLUSTER) &&
           monotonic_ms() < began_ms + (uint64_t)a->timeout_ms;
}

enum ps_err
all_reduced_open(ps_strategy *s, const ps_cluster *cluster, const struct ps_group_options *options, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint64_t began = monotonic_ms();
    enum ps_err err;
    int tries = 1;

    do
        err = ps_group_open(cluster, options, &a->group, e);
    while (lost_on_the_way(a, err, began) && tries++ < FORM_TRIES);
    return err;
}

/* Fewer workers than that do not go on: the network may have cut them off from the others. */
static enum ps_err
fail_too_few(const ps_strategy *s, struct ps_error *e)
{
    char why[PS_ERROR_TEXT_MAX] = "";

    if (e != NULL)
        snprintf(why, sizeof why, "%s", e->text);
    return ps_fail(e, PS_ERR_STEP_FAILED,
                   "step %" PRIu64
                   ": fewer workers than min_workers, %u, are left, and so none of them goes on: %.300s",
                   s->next, s->options.min_workers, why);
}

/* Wait for `ranks_min` or more; each time-out asks for one less. */
static enum ps_err
form_again(ps_strategy *s, uint32_t ranks_min, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint32_t least = s->options.min_workers;
    enum ps_err err;
    uint64_t began;

    ranks_min = MAX(ranks_min, least);
    for (int tries = 1;;) {
        began = monotonic_ms();
        if ((err = ps_group_reform(a->group, ranks_min, -1, e)) == PS_ERR_TIMEOUT && ranks_min > least)
            ranks_min--;
        else if (!lost_on_the_way(a, err, began) || tries++ == FORM_TRIES)
            break;
    }
    s->stats.reforms += err == PS_OK;
    a->devices_over &= err != PS_OK;
    return err == PS_ERR_TIMEOUT && least > 1 ? fail_too_few(s, e) : err;
}

/* Form the group of the workers that arrive, unless it is formed, and agree; again when the group fails, as after
 * another loss, or when a worker that does not fit arrived. A worker that is restarted in vain must not block the
 * others forever: after RECOVER_TRIES the last error is the result. */
static enum ps_err
worker_recovery_run(ps_strategy *s, bool formed, uint32_t ranks_min, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    int tries = 0;
    enum ps_err err;

    do {
        formed &= ps_group_ranks(a->group) >= s->options.min_workers;
        if (!formed && (err = form_again(s, ranks_min, e)) != PS_OK)
            return err;
        formed = false;
        err = all_reduced_agree(s, e);
        ranks_min = a->fitting > 0 ? a->fitting : MAX(ps_group_ranks(a->group), 1) - 1;
    } while (err != PS_OK && may_go_on(s, err) && ++tries < RECOVER_TRIES);
    plan_check(s, 0);
    return err;
}

enum ps_err
all_reduced_lost(ps_strategy *s, const struct ps_error *why, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    if (a->fitting > 0)
        return worker_recovery_run(s, false, a->fitting, e);
    if (!is_over(a) || !may_recover(why->code)) {
        if (e != NULL)
            *e = *why;
        return why->code;
    }
    if (s->options.client.lapse == PS_LAPSE_FAIL)
        return explain_lost_rank(s, why, e);
    /* A failure of the devices' reduction ends no worker: wait for all, as long as they arrive. */
    if (ps_group_state(a->group, NULL) == PS_OK)
        return worker_recovery_run(s, false, s->workers, e);
    /* A silent worker need not be dead: of two, the other one gets a time-out to arrive before this one goes on
     * alone. */
    return worker_recovery_run(s, false, s->workers == 2 && why->code == PS_ERR_TIMEOUT ? 2 : s->workers - 1, e);
}

/* ---- Looking ---- */

bool
all_reduced_check_is_due(const ps_strategy *s)
{
    const struct all_reduced *a = s->own;

    return a->check_at_ms > 0 && monotonic_ms() >= a->check_at_ms;
}

void
all_reduced_plan_check(ps_strategy *s)
{
    plan_check(s, 0);
}

enum ps_err
all_reduced_check(ps_strategy *s, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    struct ps_error why = {0};
    uint64_t began = monotonic_ms();
    enum ps_err err;
    int formed;

    err = ps_group_admit(a->group, MIN(a->timeout_ms / 2, CHECK_MEET_MS), &formed, &why);
    if (formed) {
        s->stats.reforms += err == PS_OK;
        a->devices_over &= err != PS_OK;
        return worker_recovery_run(s, err == PS_OK, s->workers, e);
    }
    if (err != PS_OK && ps_group_state(a->group, NULL) != PS_OK)
        return all_reduced_lost(s, &why, e);
    plan_check(s, MAX(monotonic_ms() - began, 1));
    return PS_OK;
}
