#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/cli/command.h"

static int
is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && value[0] != '\0';
}

int
worker_find_cluster(const char *program, ps_cluster **out)
{
    struct ps_error error;
    enum ps_role role;

    if (!is_set("TF_CONFIG") && !is_set("PSD_SHARDS")) {
        fprintf(stderr,
                "%s: there is no cluster in the environment (TF_CONFIG or PSD_SHARDS). To start one:\n"
                "    psrun --shards 2 --workers 3 -- %s\n",
                program, program);
        return EXIT_USAGE;
    }
    if (ps_cluster_from_env(out, &error) != PS_OK) {
        worker_say_error(program, -1, &error);
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
worker_say_error(const char *program, long task, const struct ps_error *e)
{
    char worker[32] = "", text[PS_ERROR_LINE_MAX];

    if (task >= 0)
        snprintf(worker, sizeof worker, "worker %ld: ", task);
    ps_error_format(e, text, sizeof text);
    fprintf(stderr, "%s: %s%s\n", program, worker, text);
}

double
worker_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
