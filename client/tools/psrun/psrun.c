/* psrun: start a cluster and run workers on it. Options become a plan (assign_hosts.c, launch_plan.c), the plan is run
 * (run.c); each process runs under a supervisor (supervisor.c), and on other machines the supervisor under an agent
 * (agent.c), which are this same executable. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <uv.h>

#include "client/tools/psrun/agent.h"
#include "client/tools/psrun/host_setup.h"
#include "client/tools/psrun/launch_plan.h"
#include "client/tools/psrun/program_file.h"
#include "client/tools/psrun/run.h"
#include "client/tools/psrun/server_file.h"
#include "client/tools/psrun/supervisor.h"
#include "common/cli/streams.h"
#include "common/system/cgroup.h"
#include "common/system/environment.h"
#include "common/system/input_file.h"

#define CLUSTER_CONFIG_MAX (16 * MIB) /* bytes of --cluster-config */

/* NULL: the reason was printed. */
static const char *
psrun_find_psd(const struct strlist *candidates, const char *psd)
{
    struct ps_error e;
    const char *found = server_file_find(candidates, psd, getenv("PSD_BIN"), &e);

    if (found == NULL)
        fprintf(stderr, "psrun: %s\n", e.text);
    return found;
}

/* Three pipes and a port for each process: raise the limit of descriptors as far as allowed. */
static void
psrun_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= 8192)
        return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > 8192 ? 8192 : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* All of a file, "-" for standard input; freed with free(). NULL: the reason was printed. */
static char *
psrun_read(const char *path)
{
    struct ps_error e;
    enum ps_err err;
    char *text;
    size_t len;

    if (strcmp(path, "-") == 0)
        err = input_file_text_of(STDIN_FILENO, "standard input", CLUSTER_CONFIG_MAX, PS_ERR_CONFIG, &text, &len, &e);
    else
        err = input_file_text(path, CLUSTER_CONFIG_MAX, PS_ERR_CONFIG, &text, &len, &e);
    if (err == PS_OK)
        return text;
    fprintf(stderr, "psrun: --cluster-config: cannot read %s\n", e.text);
    return NULL;
}

/* What runs where. False: the reason was printed. */
static bool
psrun_assign_hosts(const struct psrun_options *settings, struct host_assignment *deal)
{
    const char *environment = environment_has("TF_CONFIG") ? getenv("TF_CONFIG") : NULL;
    char own[256] = "", *text = NULL;
    struct ps_error e;
    enum ps_err err;
    bool use;

    (void)gethostname(own, sizeof own - 1);
    if (settings->cluster_config != NULL && (text = psrun_read(settings->cluster_config)) == NULL)
        return false;
    err = assign_hosts_from_env(settings, environment, &use, &e);
    if (err == PS_OK)
        err = assign_hosts_all(settings, use ? environment : text, own, deal, &e);
    if (err != PS_OK)
        fprintf(stderr, "psrun: %s\n", e.text);
    free(text);
    return err == PS_OK;
}

static bool
psrun_runs_here(const struct assigned_task *tasks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!tasks[i].remote)
            return true;
    return false;
}

/* A directory as it is written, or the working directory as the shell names it: the name behind a link may exist on
 * this machine alone. */
static bool
psrun_name_dir(const char *dir, char out[PATH_MAX])
{
    char *here = dir == NULL || dir[0] != '/' ? get_current_dir_name() : strlist_need(strdup(""));
    int len = -1;

    if (here != NULL)
        len = snprintf(out, PATH_MAX, "%s%s%s", here, dir == NULL || dir[0] == '/' ? "" : "/", dir != NULL ? dir : "");
    free(here);
    return len >= 0 && len < PATH_MAX;
}

/* The workers' directory, as a full path: other machines use the same. NULL: the reason was printed. */
static const char *
psrun_work_dir(const struct psrun_options *settings, const struct host_assignment *deal, char out[PATH_MAX])
{
    bool named = psrun_name_dir(settings->chdir, out);

    /* On other machines it may exist although it does not here. */
    if (named && (access(out, X_OK) == 0 || !psrun_runs_here(deal->tasks + deal->shards, deal->workers)))
        return out;
    fprintf(stderr, "psrun: %s cannot be the workers' directory: %s; --chdir names another\n",
            settings->chdir != NULL ? settings->chdir : "this directory", strerror(errno));
    return NULL;
}

/* The workers' PATH; NULL: there is none. */
static const char *
psrun_workers_path(const struct option_list *env)
{
    const char *path = getenv("PATH");

    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->text[i], "PATH=", 5) == 0)
            path = env->text[i] + 5;
    return path;
}

/* 0, or the exit status where the workers' program is not on this machine, which was printed: before shards start. */
static int
psrun_check_program(const struct launch_plan *plan)
{
    const char *program = plan->program[0];
    char remedy[PATH_MAX];
    uint32_t worker = 0;
    int failure;

    while (worker < plan->assigned.workers && launch_plan_worker(plan, worker)->remote)
        worker++;
    if (worker == plan->assigned.workers)
        return 0;
    if ((failure = program_file_check(program, plan->work_dir, psrun_workers_path(&plan->settings->env))) == 0)
        return 0;
    fprintf(stderr, "psrun: worker %u could not be started: %s: %s%s\n", worker, program, strerror(failure),
            program_file_remedy(program, plan->work_dir, failure, remedy, sizeof remedy));
    return failure == ENOENT ? 127 : 126;
}

static int
psrun_run(const struct psrun_options *settings, struct host_assignment *deal, char *const *program, const char *exe)
{
    struct launch_plan plan = {
        .settings = settings, .assigned = *deal, .program = program, .cpus = cgroup_cores(), .dir = ""};
    struct strlist candidates = {0}, carried = {0};
    char work_dir[PATH_MAX], trace_dir[PATH_MAX], *token;
    int status = EXIT_FAILURE, failure = 0;
    struct ps_error e;

    if (host_setup_token(!deal->given, &token, &e) != PS_OK) { /* shards that run already have their own, or none */
        fprintf(stderr, "psrun: %s\n", e.text);
        return status;
    }
    plan.token = token;
    launch_plan_carried(environ, &carried);
    plan.carried = carried.text;
    launch_plan_psd_candidates(settings->psd, getenv("PSD_BIN"), exe, getenv("PATH"), &candidates);
    psrun_raise_descriptors();
    if (settings->trace != NULL && psrun_name_dir(settings->trace, trace_dir))
        plan.trace_dir = trace_dir;
    if ((plan.work_dir = psrun_work_dir(settings, deal, work_dir)) != NULL &&
        (deal->given || !psrun_runs_here(deal->tasks, deal->shards) ||
         (plan.psd = psrun_find_psd(&candidates, settings->psd)) != NULL) &&
        (failure = psrun_check_program(&plan)) == 0)
        status = run_plan(&plan, exe);
    strlist_free(&candidates);
    strlist_free(&carried);
    if (token != NULL)
        explicit_bzero(token, strlen(token));
    free(token);
    return failure != 0 ? failure : status;
}

int
main(int argc, char **argv)
{
    struct psrun_options settings;
    struct command_line line;
    struct host_assignment deal = {0};
    char exe[PATH_MAX];
    size_t size = sizeof exe;
    int status = EXIT_USAGE;
    struct ps_error e;
    enum ps_err err;

    if (argc > 1 && strcmp(argv[1], SUPERVISOR_ARG) == 0)
        return supervisor_main(argc, argv);
    streams_open();
    if (uv_exepath(exe, &size) != 0) {
        fprintf(stderr, "psrun: it cannot find its own path; is /proc mounted?\n");
        return EXIT_FAILURE;
    }
    if (argc == 2 && strcmp(argv[1], REMOTE_ARG) == 0)
        return agent_main(exe);
    err = command_parse(&psrun_command, argc, argv, &settings, &line, &e);
    if (err == PS_OK && line.asked != COMMAND_RUN)
        return command_answer(&psrun_command, &line, stdout);
    if (err == PS_OK)
        err = psrun_options_check(&settings, &line, &e);
    if (err != PS_OK) {
        fprintf(stderr, "psrun: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (psrun_assign_hosts(&settings, &deal))
        status = psrun_run(&settings, &deal, line.words, exe);
    assign_hosts_finish(&deal);
    return status;
}
