/* The arguments of psctl set, each NAME=VALUE, as the setting that ps_client_set() takes. Pure.
 *
 *     learning_rate=0.01, beta1=0.8, ...                any parameter of an optimizer
 *     schedule=cosine,steps=1000,warmup=50              as ps_schedule_parse() reads it; it begins now, or at begin=N
 *     clip=block_norm,limit=1, clip=value:5, clip=none  as ps_clip_parse() reads it
 *     age=none, age=inverse, age=exponential:0.9, age=cutoff:8
 *     bound=8
 *     workers=3                                         of the job, from its next round on
 *
 * A word may hold several with commas between, so what ps_optimizer_describe() prints can be given back but for the
 * optimizer's name. */
#ifndef CLIENT_TOOLS_PSCTL_ASSIGNMENT_H
#define CLIENT_TOOLS_PSCTL_ASSIGNMENT_H

#include "client/include/psclient/psclient.h"

#define ASSIGNMENTS_MAX 32

struct assignments {
    struct ps_setting setting; /* points into the rest; job is left to the caller */

    struct ps_parameter parameters[ASSIGNMENTS_MAX];
    struct ps_schedule schedule;
    struct ps_clip clip;
    struct ps_age_policy age;
    uint32_t bound;
};

/* words: [n], one at least. variables: the pattern of names, NULL: all when there is something to change about them.
 * Borrows variables. PS_ERR_INVALID with a sentence that names the word: no "=", a name that is not known or stands
 * there twice, a value that cannot be read, a pattern without anything for its variables. */
enum ps_err assignments_parse(char *const words[], int n, const char *variables, struct assignments *out,
                              struct ps_error *e) PS_MUST_USE;

/* What a setting does that its author may not have meant, as a sentence; NULL: nothing. Static. */
const char *assignments_warning(const struct assignments *a);

#endif
