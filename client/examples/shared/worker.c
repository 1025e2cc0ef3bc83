#include "client/examples/shared/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int
is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && value[0] != '\0';
}

bool
worker_goes_on(const struct command *c, const struct command_line *line, enum ps_err err, const struct ps_error *e,
               int *status)
{
    if (err == PS_OK && line->asked == COMMAND_RUN)
        return true;
    if (err == PS_OK) {
        *status = command_answer(c, line, stdout);
        return false;
    }
    fprintf(stderr, "%s: %s\n", c->name, e->text);
    *status = EXIT_USAGE;
    return false;
}

int
worker_has_cluster(void)
{
    return is_set("TF_CONFIG") || is_set("PSD_SHARDS");
}

int
worker_find_cluster(const char *program, ps_cluster **out)
{
    struct ps_error error;
    enum ps_role role;

    if (!worker_has_cluster()) {
        fprintf(stderr,
                "%s: there is no cluster in the environment (TF_CONFIG or PSD_SHARDS). To start one:\n"
                "    psrun --shards 2 --workers 3 -- %s\n",
                program, program);
        return EXIT_USAGE;
    }
    if (ps_cluster_from_env(out, &error) != PS_OK) {
        worker_print_error(program, -1, &error);
        return EXIT_FAILURE;
    }
    role = ps_cluster_role(*out);
    if (role == PS_ROLE_CHIEF || role == PS_ROLE_WORKER)
        return EXIT_SUCCESS;
    fprintf(stderr, "%s: TF_CONFIG gives this process the role of a %s; %s is a worker\n", program,
            role == PS_ROLE_PS ? "parameter server (psd)" : "evaluator", program);
    return EXIT_USAGE;
}

void
worker_print_error(const char *program, long task, const struct ps_error *e)
{
    char worker[32] = "", text[PS_ERROR_LINE_MAX];

    if (task >= 0)
        snprintf(worker, sizeof worker, "worker %ld: ", task);
    ps_error_format(e, text, sizeof text);
    fprintf(stderr, "%s: %s%s\n", program, worker, text);
}

static void
define_text(struct worker_definition *d, const char *name, const char *format, uint64_t value)
{
    char *text = d->text[d->len];

    if (d->len == WORKER_DEFINITION_MAX)
        return;
    snprintf(text, sizeof d->text[0], format, value);
    d->field[d->len++] = (struct ps_definition){name, text};
}

void
worker_define_number(struct worker_definition *d, const char *name, uint64_t value)
{
    define_text(d, name, "%" PRIu64, value);
}

void
worker_define(struct worker_definition *d, uint64_t fingerprint, uint64_t epochs, uint64_t seed)
{
    d->len = 0;
    define_text(d, "data", "%016" PRIx64, fingerprint);
    worker_define_number(d, "epochs", epochs);
    worker_define_number(d, "seed", seed);
}

uint64_t
worker_next_step(ps_client *client, uint64_t each, uint64_t steps)
{
    uint64_t joined = ps_client_start_clock(client), next;
    struct ps_cursor first = {.epoch = joined / each, .position = joined % each}, at;

    ps_client_start_cursor(client, &first, &at);
    next = at.epoch * each + at.position;
    return next < steps ? next : steps;
}

struct ps_cursor
worker_cursor(uint64_t step, uint64_t each)
{
    return (struct ps_cursor){.epoch = (step + 1) / each, .position = (step + 1) % each};
}

/* No worker is behind this one's clock, and yet one has not arrived. */
static enum ps_err
let_pass(ps_client *client, ps_var *var, float *values, struct ps_error *error)
{
    enum ps_err err = ps_client_pull(client, 1, &var, &values, &(struct ps_pull_options){.now = 1}, error);

    if (err != PS_OK || ps_client_slowest_clock(client) < ps_client_clock(client))
        return err;
    return ps_client_tick(client, error);
}

enum ps_err
worker_meet(ps_client *client, enum ps_mode mode, int timeout_ms, ps_var *var, float *values, struct ps_error *error)
{
    double until = worker_now_s() + timeout_ms / 1000.0;
    enum ps_err err;
    ps_op *op;

    if (mode == PS_ASYNC)
        return ps_client_barrier(client, "trained", timeout_ms, error);
    if ((err = ps_client_barrier_start(client, "trained", &op, error)) != PS_OK)
        return err;
    err = ps_op_wait(op, 500, error); /* usually they are as far as this one */
    while (err == PS_ERR_TIMEOUT && worker_now_s() < until)
        if ((err = let_pass(client, var, values, error)) == PS_OK)
            err = ps_op_wait(op, 5, error);
    ps_op_free(op);
    return err;
}

double
worker_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
