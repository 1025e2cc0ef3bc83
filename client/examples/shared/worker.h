/* What the examples' workers do alike around their training. */
#ifndef EXAMPLES_WORKER_H
#define EXAMPLES_WORKER_H

#include "psclient.h"

/* The cluster that the environment tells of, in which this process must be a worker. Returns 0, or else the exit
 * status, after a line on stderr that says what is wrong and how a cluster is started. */
int worker_find_cluster(const char *program, ps_cluster **out);

/* One line on stderr: "digits: worker 1: TIMEOUT: ...", as ps_error_format() writes it. task: -1: none to
 * speak of. */
void worker_say_error(const char *program, long task, const struct ps_error *e);

double worker_now_s(void); /* of a clock that only goes forward */

#endif
