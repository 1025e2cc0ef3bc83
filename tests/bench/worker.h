/* A worker that applies loads: a client of one or more shards, and variables of one size each. A failure ends the
 * program with a sentence. */
#ifndef TESTS_BENCH_WORKER_H
#define TESTS_BENCH_WORKER_H

#include <stdatomic.h>

#include "client/include/psclient/psclient.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/load.h"

struct bench_worker {
    ps_client *client;
    uint8_t *out; /* where pulls go */
    size_t out_size;
    uint64_t done;           /* messages, of all loads */
    const atomic_bool *over; /* ends a load early once it is true; NULL: nothing does */
};

/* shards: a list of addresses. options: job and whatever else, may be NULL; congestion is the settings'. */
void worker_open(struct bench_worker *w, const struct bench_options *s, const char *shards,
                 const struct ps_client_options *options, uint32_t workers, uint32_t task);
void worker_close(struct bench_worker *w);

/* Variables of sgd with a learning rate so small that no number of pushes takes them anywhere, first zero. */
struct var_set {
    ps_var **vars;
    uint32_t count;
    size_t size;      /* bytes of each */
    uint64_t *pushed; /* [count] by this worker */
};

/* Declares them as "name/0" and so on, or finds them as another worker has. */
void var_set_declare(struct var_set *v, struct bench_worker *w, const char *name, size_t size, uint32_t count);
void var_set_free(struct var_set *v);

/* Keep l->window messages in flight for `seconds`; push may be NULL. Returns seconds per message. */
double worker_run(struct bench_worker *w, struct var_set *v, const struct bench_load *l,
                  const struct ps_push_options *push, double seconds);

/* One message at a time: the seconds that each took, at most `most`. Returns how many. */
size_t worker_round_trips(struct bench_worker *w, struct var_set *v, const struct bench_load *l, double seconds,
                          double *times, size_t most);

/* Ends the program unless every variable of the load took each push of this worker once and holds their result; for a
 * worker that pushed alone, with loads whose batch divides their blocks evenly. Of compressed pushes a part is still to
 * come: they are counted alone. */
void worker_check_counts(struct bench_worker *w, struct var_set *v, const struct bench_load *l);
void worker_check(struct bench_worker *w, struct var_set *v, const struct bench_load *l);

#endif
