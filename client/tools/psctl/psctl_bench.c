/* psctl bench: how fast this cluster takes pushes and answers pulls, from here. It is a worker of a job of its own,
 * whose variables stay zeros: gradients are zeros. The job stays, since it takes another role to drop one: the next
 * bench finds it and its variables again, and needs no more memory. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/shared/latency.h"
#include "client/tools/shared/strlist.h"
#include "common/core/base/units.h"
#include "common/system/now.h"

#define VARIABLES_MIN 16 /* so that all shards have some */
#define USUAL_MS      10000

/* What is measured. */
struct bench_phase {
    const char *name;
    double seconds;
    struct latencies latencies;
};

struct psctl_bench {
    const struct psctl *psctl;
    ps_client *client;
    ps_var **vars;
    float **values; /* [slots] what is pushed, or pulled into */
    size_t vars_len, slots, next;
    size_t elements; /* of a variable */
};

/* ---- Confirmation ---- */

static uint64_t
bench_count_live(const struct shard_answer *answers, uint32_t n)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t live = 0;
        const json_t *job;
        size_t j;

        json_array_foreach(answer_list(&answers[i], "job"), j, job)
        {
            if (strcmp(field_text(job, "name"), PSCTL_BENCH_JOB) != 0)
                live += field_number(job, "live");
        }
        most = MAX(most, live);
    }
    return most;
}

/* On a terminal the user is asked. */
static bool
bench_confirm(uint64_t live)
{
    char question[128];

    snprintf(question, sizeof question, "%" PRIu64 " workers train on this cluster, and the load slows them. Go on?",
             live);
    return psctl_agrees(question);
}

static int
check_idle(const struct psctl *p)
{
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_JOBS), .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    uint64_t live;
    int status;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    status = psctl_need_all(answers, n);
    live = bench_count_live(answers, n);
    answers_free(answers, n);
    if (status != EXIT_SUCCESS || live == 0 || p->settings.yes || bench_confirm(live))
        return status;
    (void)ps_fail(&e, PS_ERR_BUSY,
                  "%" PRIu64 " worker%s on this cluster, and the load would slow them; --yes if it may", live,
                  live == 1 ? " trains" : "s train");
    return psctl_failed(&e);
}

/* ---- Its job ---- */

static int
open_worker(struct psctl_bench *b)
{
    struct ps_client_options options = {.job = PSCTL_BENCH_JOB, .timeout_ms = (int)b->psctl->settings.timeout_ms};
    ps_cluster *cluster;
    struct ps_error e;
    int status = psctl_cluster_named(b->psctl, &cluster);

    if (status == EXIT_SUCCESS && ps_client_open(cluster, &options, &b->client, &e) != PS_OK)
        status = psctl_failed(&e);
    ps_cluster_free(cluster);
    return status;
}

static enum ps_err
declare_all(struct psctl_bench *b, struct ps_error *e)
{
    struct ps_var_spec spec = {.rank = 1, .dims = {b->elements}};
    char name[64];
    enum ps_err err = ps_optimizer_by_name("sgd", &spec.optimizer, e);

    b->vars = strlist_alloc(NULL, b->vars_len, sizeof(ps_var *));
    b->values = strlist_alloc(NULL, b->slots, sizeof(float *));
    for (size_t i = 0; i < b->slots; i++)
        b->values[i] = strlist_need(calloc(b->elements, sizeof(float)));
    for (size_t i = 0; err == PS_OK && i < b->vars_len; i++) {
        snprintf(name, sizeof name, "zeros-%zu-%zu", b->elements, i);
        spec.name = name;
        err = ps_client_declare(b->client, &spec, &b->vars[i], e);
    }
    return err;
}

/* ---- The load ---- */

static volatile sig_atomic_t stopped;

static void
on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

/* The first Ctrl-C or TERM ends the measurement, and the result so far is printed. */
static void
bench_watch_signals(void)
{
    struct sigaction handler = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};

    (void)sigaction(SIGINT, &handler, NULL);
    (void)sigaction(SIGTERM, &handler, NULL);
}

static enum ps_err
bench_op_start(struct psctl_bench *b, bool push, size_t slot, ps_op **op, struct ps_error *e)
{
    ps_var *var = b->vars[b->next++ % b->vars_len];
    const float *gradient = b->values[slot];

    if (push)
        return ps_client_push_start(b->client, 1, &var, &gradient, NULL, op, e);
    return ps_client_pull_start(b->client, 1, &var, &b->values[slot], NULL, op, e);
}

/* As many at a time as there are slots; each that is done is followed by another, until the time is over. */
static enum ps_err
bench_measure(struct psctl_bench *b, struct bench_phase *phase, bool push, struct ps_error *e)
{
    uint64_t ms = b->psctl->settings.seconds_ms > 0 ? (uint64_t)b->psctl->settings.seconds_ms : USUAL_MS;
    uint64_t began = monotonic_ns(), until = began + ms * 1000000 / 2, now = began;
    ps_op **ops = strlist_need(calloc(b->slots, sizeof(ps_op *)));
    uint64_t *started = strlist_need(calloc(b->slots, sizeof *started));
    enum ps_err err = PS_OK;
    size_t under_way = 0, i;

    for (i = 0; err == PS_OK && i < b->slots; i++) {
        started[i] = monotonic_ns();
        err = bench_op_start(b, push, i, &ops[i], e);
        under_way += err == PS_OK;
    }
    while (err == PS_OK && under_way > 0) {
        if ((err = ps_op_wait_any(b->slots, ops, -1, &i, e)) != PS_OK || (err = ps_op_result(ops[i], e)) != PS_OK)
            break;
        now = monotonic_ns();
        latencies_add(&phase->latencies, now - started[i]);
        ps_op_free(ops[i]);
        ops[i] = NULL;
        under_way--;
        if (now >= until || stopped)
            continue;
        started[i] = now;
        err = bench_op_start(b, push, i, &ops[i], e);
        under_way += err == PS_OK;
    }
    for (i = 0; i < b->slots; i++)
        ps_op_free(ops[i]);
    phase->seconds = (double)(now - began) / 1e9;
    free(ops);
    free(started);
    return err;
}

/* ---- The report ---- */

static double
per_second(const struct bench_phase *phase)
{
    return phase->seconds > 0 ? (double)phase->latencies.count / phase->seconds : 0;
}

static json_t *
phase_json(const struct psctl_bench *b, const struct bench_phase *phase)
{
    const struct latencies *l = &phase->latencies;

    return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "operations", (json_int_t)l->count, "seconds", phase->seconds,
                     "per_second", per_second(phase), "bytes_per_second",
                     per_second(phase) * (double)(b->elements * sizeof(float)), "p50_us",
                     (double)latencies_at(l, 0.5) / 1e3, "p90_us", (double)latencies_at(l, 0.9) / 1e3, "p99_us",
                     (double)latencies_at(l, 0.99) / 1e3, "max_us", (double)l->most_ns / 1e3);
}

static void
phase_line(const struct psctl_bench *b, const struct bench_phase *phase)
{
    const struct latencies *l = &phase->latencies;
    struct units count, bytes;

    printer_line(&b->psctl->printer, PAINT_PLAIN,
                 "%s: %s/s, %s/s; latency %.0f us median, %.0f 90th, %.0f 99th, %.0f most", phase->name,
                 units_count((uint64_t)per_second(phase), &count),
                 units_bytes((uint64_t)(per_second(phase) * (double)(b->elements * sizeof(float))), &bytes),
                 (double)latencies_at(l, 0.5) / 1e3, (double)latencies_at(l, 0.9) / 1e3,
                 (double)latencies_at(l, 0.99) / 1e3, (double)l->most_ns / 1e3);
}

static void
bench_print(const struct psctl_bench *b, const struct bench_phase *push, const struct bench_phase *pull)
{
    const struct psctl *p = b->psctl;
    uint64_t kept = b->vars_len * b->elements * sizeof(float);
    uint32_t shards = ps_cluster_shards(p->cluster);
    struct units block, bytes;

    if (p->settings.json) {
        render_print_document(json_pack("{s:s,s:s,s:i,s:I,s:I,s:I,s:o,s:o}", "command", p->command, "job",
                                        PSCTL_BENCH_JOB, "shards", (int)shards, "block_bytes",
                                        (json_int_t)(b->elements * sizeof(float)), "in_flight", (json_int_t)b->slots,
                                        "kept_bytes", (json_int_t)kept, "push", phase_json(b, push), "pull",
                                        phase_json(b, pull)),
                              &p->printer);
        return;
    }
    printer_line(&p->printer, PAINT_PLAIN, "%u shard%s, variables of %s, %zu in flight", shards, shards == 1 ? "" : "s",
                 units_bytes(b->elements * sizeof(float), &block), b->slots);
    phase_line(b, push);
    phase_line(b, pull);
    printer_line(&p->printer, PAINT_DIM, "job \"%s\" keeps %s of zeros on the shards, for the next time",
                 PSCTL_BENCH_JOB, units_bytes(kept, &bytes));
}

static enum ps_err
bench_run(struct psctl_bench *b, struct ps_error *e)
{
    struct bench_phase *push = strlist_need(calloc(1, sizeof *push)), *pull = strlist_need(calloc(1, sizeof *pull));
    enum ps_err err;

    push->name = "push";
    pull->name = "pull";
    bench_watch_signals();
    if ((err = declare_all(b, e)) == PS_OK && (err = bench_measure(b, push, true, e)) == PS_OK &&
        (err = bench_measure(b, pull, false, e)) == PS_OK)
        bench_print(b, push, pull);
    free(push);
    free(pull);
    return err;
}

int
psctl_bench(struct psctl *p)
{
    struct psctl_bench b = {.psctl = p,
                            .slots = (size_t)p->settings.in_flight,
                            .elements = (size_t)p->settings.block_bytes / sizeof(float)};
    struct ps_error e;
    enum ps_err err;
    int status;

    b.vars_len = MAX(b.slots, (size_t)VARIABLES_MIN);
    if ((status = check_idle(p)) != EXIT_SUCCESS || (status = open_worker(&b)) != EXIT_SUCCESS)
        return status;
    err = bench_run(&b, &e);
    ps_client_close(b.client);
    for (size_t i = 0; b.values != NULL && i < b.slots; i++)
        free(b.values[i]);
    free(b.values);
    free(b.vars);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}
