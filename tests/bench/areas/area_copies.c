/* What PS_PUSH_COPY costs: pushes of 1 to 64 MiB, each waited for, whose gradients are lent to the client, and copied
 * by it. The copy reads and writes the bytes once more; what is above that is memory that the kernel has to give. */
#include <stdlib.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

enum { LENT, COPIED, COPY_WAYS };
#define COPIES_VAR  (4 * MIB)
#define COPIES_VARS 16

static const char *const names[COPY_WAYS] = {"lent", "copied"};

struct copies_side {
    struct bench_worker *worker;
    struct var_set *vars;
    size_t count; /* variables in a push */
    float *grads;
    unsigned flags;
};

static void
sample_copies(void *arg, double seconds, double *figures)
{
    struct copies_side *d = arg;
    struct ps_push_options push = {.flags = d->flags};
    const float *grads[COPIES_VARS];
    double start = now_s();
    uint64_t n = 0;
    struct ps_error e;

    for (size_t i = 0; i < d->count; i++)
        grads[i] = d->grads + i * (d->vars->size / sizeof(float));
    do {
        if (ps_client_push(d->worker->client, d->count, d->vars->vars, grads, &push, &e) != PS_OK)
            bench_die("push", &e);
        n++;
    } while (now_s() - start < seconds);
    figures[0] = (double)(n * d->count * d->vars->size) / (now_s() - start) * 1e-9;
}

void
area_copies(const struct bench_options *s, struct bench_report *r)
{
    static const struct {
        const char *label;
        size_t size, count;
    } rows[] = {{"1 MiB", MIB, 1}, {"4 MiB", COPIES_VAR, 1}, {"16 MiB", COPIES_VAR, 4}, {"64 MiB", COPIES_VAR, 16}};
    static struct bench_server psd;
    static struct bench_worker worker;
    static struct var_set small, large;
    static struct interleave turns;
    static struct copies_side sides[COPY_WAYS];
    struct bench_variant ways[COPY_WAYS];
    struct bench_table *t;
    float *grads = load_memory(COPIES_VARS * COPIES_VAR);

    bench_server_start(&psd, s, NULL);
    worker_open(&worker, s, psd.address, NULL, 1, 0);
    var_set_declare(&small, &worker, "small", MIB, 1);
    var_set_declare(&large, &worker, "large", COPIES_VAR, COPIES_VARS);
    for (int i = 0; i < COPY_WAYS; i++) {
        sides[i] =
            (struct copies_side){.worker = &worker, .grads = grads, .flags = i == COPIED ? (unsigned)PS_PUSH_COPY : 0};
        ways[i] = (struct bench_variant){.name = names[i],
                                         .against = {i == COPIED ? names[LENT] : NULL},
                                         .sample = sample_copies,
                                         .arg = &sides[i],
                                         .server = psd.pid};
    }
    t = report_table(r, &(struct table_spec){.title = "gradients of a push", .unit = "GB/s"}, ways, COPY_WAYS);
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        for (int i = 0; i < COPY_WAYS; i++) {
            sides[i].vars = rows[k].size == small.size ? &small : &large;
            sides[i].count = rows[k].count;
        }
        interleave_run(s, ways, COPY_WAYS, 1, &turns);
        table_row(t, rows[k].label, 0, turns.series[0]);
    }
    var_set_free(&small);
    var_set_free(&large);
    worker_close(&worker);
    bench_server_stop(&psd);
    free(grads);
}
