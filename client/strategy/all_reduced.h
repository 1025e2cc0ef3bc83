/* What a worker of multi_worker_mirrored keeps, and the modules that share it.
 *
 *     multi_worker_mirrored.c   opening, starting, a step
 *     agreement.c               which rank is furthest, and bringing the others as far
 *     worker_recovery.c         which worker was lost, forming the group again, looking for missing workers */
#ifndef CLIENT_STRATEGY_ALL_REDUCED_H
#define CLIENT_STRATEGY_ALL_REDUCED_H

#include "client/include/psclient/ps_group.h"
#include "client/include/psclient/ps_reducer.h"
#include "client/strategy/device_resident.h"

/* Sent behind the gradients: the sum over all ranks. */
enum note { NOTE_ROWS, NOTE_STEP, NOTE_FAILED, NOTE_CHECK, NOTE_METRICS };
#define NOTE_MAX (NOTE_METRICS + PS_STRATEGY_METRICS_MAX)

struct all_reduced {
    ps_group *group;
    ps_reducer *reducer;
    bool *ready; /* [vars]: reported in this step */
    bool stepping;
    double note[NOTE_MAX];
    uint32_t all;           /* workers of the cluster */
    uint64_t check_at_ms;   /* for workers that are missing */
    uint64_t check_wait_ms; /* until then */
    int timeout_ms;         /* of the group */
    bool agreed;            /* at least once: it is not new any more */
    uint32_t fitting;       /* workers that go on without those started differently; 0: none was started differently */
    bool tried;             /* step s->next: gradients were exchanged, and whether that counts is not known; */
    uint64_t epoch;         /* in this forming of the group */
    uint64_t done_epoch;    /* the same of the last step that was completed */
    ps_device_group *devices; /* with options.device_reduce, in a formed group */
    int devices_failed;       /* times since the last step that was completed */
    bool devices_over;        /* and the group has not been formed since */
    bool torn;                /* the variables of step torn_at were being given to this worker, and not all have come */
    int64_t torn_at;
};

/* ---- agreement.c ---- */

/* After each forming of the group, on all ranks: the same variables and options everywhere; a worker that is behind, or
 * new, has what the lowest rank that is furthest sent, and s->next is the same. Errors: MISMATCH (a worker was started
 * differently; a->fitting then says how many go on), STEP_FAILED (no worker has all variables any more), PROTOCOL,
 * NOMEM, or why the group failed. */
enum ps_err all_reduced_agree(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* As the operation of this name. */
void all_reduced_define(const ps_strategy *s, struct training_definition *d);

/* What was left out of the gradients that were exchanged last, now that it is known whether they count. */
void all_reduced_settle(ps_strategy *s, bool counted);

/* ---- worker_recovery.c ---- */

/* Open the group; again where a member is lost on the way from the meeting. Errors as ps_group_open(). */
enum ps_err all_reduced_open(ps_strategy *s, const ps_cluster *cluster, const struct ps_group_options *options,
                             struct ps_error *e) PS_MUST_USE;

/* A part of the exchange failed: by the lapse option that is the end, or the beginning of another group, in which all
 * have agreed when this returns PS_OK. */
enum ps_err all_reduced_lost(ps_strategy *s, const struct ps_error *why, struct ps_error *e) PS_MUST_USE;

/* A worker is missing, and it is time to check whether it is back. All ranks do so after the same step. Where none is
 * found, or the others could not be met, the group stays as it was. */
enum ps_err all_reduced_check(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

bool all_reduced_check_is_due(const ps_strategy *s);

/* The group was formed: a worker that is missing is looked for after a while. */
void all_reduced_plan_check(ps_strategy *s);

#endif
