/* Common parts of the examples' workers around their training. */
#ifndef CLIENT_EXAMPLES_SHARED_WORKER_H
#define CLIENT_EXAMPLES_SHARED_WORKER_H

#include <stdbool.h>

#include "common/cli/command.h"
#include "psclient.h"

/* Whether to work, after the command line has been read with the result err and e. Otherwise *status is the exit
 * status, and the error, or the output that was asked for instead, is printed. */
bool worker_goes_on(const struct command *c, const struct command_line *line, enum ps_err err, const struct ps_error *e,
                    int *status);

/* The cluster that the environment describes, in which this process must be a worker. Returns 0, or else the exit
 * status, after a line on stderr with the error and how a cluster is started. */
int worker_find_cluster(const char *program, ps_cluster **out);

/* Whether the environment describes a cluster at all. */
int worker_has_cluster(void);

/* One line on stderr: "digits: worker 1: TIMEOUT: ...", as ps_error_format() writes it. task: -1: none. */
void worker_print_error(const char *program, long task, const struct ps_error *e);

/* What all workers of a job must have alike, as ps_strategy_options.definition and ps_client_define() take it. */
#define WORKER_DEFINITION_MAX 8
struct worker_definition {
    struct ps_definition field[WORKER_DEFINITION_MAX];
    uint32_t len;
    char text[WORKER_DEFINITION_MAX][24];
};

/* The data by its fingerprint, epochs and seed; and another number. */
void worker_define(struct worker_definition *d, uint64_t fingerprint, uint64_t epochs, uint64_t seed);
void worker_define_number(struct worker_definition *d, const char *name, uint64_t value);

/* Which of its `steps` steps of `each` an epoch a worker goes on with: where its data ended by the last push of this
 * worker index, or where that began, which was where the others were. Call it when the client is open, and after a
 * rejoin, before the next push. */
uint64_t worker_next_step(ps_client *client, uint64_t each, uint64_t steps);

/* The cursor of a step's pushes. */
struct ps_cursor worker_cursor(uint64_t step, uint64_t each);

/* Wait until all workers that are not lost have done their steps, at a barrier. A worker that rejoined and does the
 * steps it had missed is behind: its clock goes beyond the clock at which the others ended. They tick as it does, so
 * that ssp and sync let it proceed. var, values: one of the variables, and memory for its values. LEASE_LAPSED: rejoin
 * and call again. */
enum ps_err worker_meet(ps_client *client, enum ps_mode mode, int timeout_ms, ps_var *var, float *values,
                        struct ps_error *error) PS_MUST_USE;

double worker_now_s(void); /* of a clock that only goes forward */

#endif
