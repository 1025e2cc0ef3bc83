/* psrun: start a cluster on this machine and run workers on it. Options become a plan (plan.c), the plan is run
 * (run.c); each process hangs under a keeper (keep.c), which is this same executable. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <uv.h>

#include "keep.h"
#include "plan.h"
#include "run.h"

/* The first that can be executed; prints what was tried when there is none. */
static const char *
psrun_find_psd(const struct words *candidates)
{
    for (size_t i = 0; i < candidates->len; i++)
        if (access(candidates->text[i], X_OK) == 0)
            return candidates->text[i];
    fprintf(stderr, "psrun: the server psd is not found; --psd PATH names it. Looked for:\n");
    for (size_t i = 0; i < candidates->len; i++)
        fprintf(stderr, "psrun:   %s\n", candidates->text[i]);
    return NULL;
}

/* Three pipes and a port for each process: use all the descriptors that we may. */
static void
psrun_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= 8192)
        return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > 8192 ? 8192 : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int
psrun_run(const struct plan_settings *settings, char *const *program)
{
    struct plan plan = {.settings = settings, .program = program, .cpus = uv_available_parallelism(), .dir = ""};
    struct words candidates = {0};
    char exe[4096];
    size_t size = sizeof exe;
    int status = EXIT_FAILURE;

    if (uv_exepath(exe, &size) != 0) {
        fprintf(stderr, "psrun: it cannot find its own path; is /proc mounted?\n");
        return EXIT_FAILURE;
    }
    plan_psd_candidates(settings->psd, getenv("PSD_BIN"), exe, getenv("PATH"), &candidates);
    psrun_raise_descriptors();
    if ((plan.psd = psrun_find_psd(&candidates)) != NULL)
        status = run_plan(&plan, exe);
    words_free(&candidates);
    return status;
}

int
main(int argc, char **argv)
{
    struct plan_settings settings;
    struct command_line line;
    struct ps_error e;
    enum ps_err err;

    if (argc > 1 && strcmp(argv[1], KEEP_WORD) == 0)
        return keep_main(argc, argv);
    err = command_parse(&plan_command, argc, argv, &settings, &line, &e);
    if (err == PS_OK && line.asked != COMMAND_RUN)
        return command_answer(&plan_command, &line, stdout);
    if (err == PS_OK)
        err = plan_check(&settings, &line, &e);
    if (err != PS_OK) {
        fprintf(stderr, "psrun: %s\n", e.text);
        return EXIT_USAGE;
    }
    return psrun_run(&settings, line.words);
}
