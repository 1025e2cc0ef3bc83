/* A run's ports for the workers' addresses and its directory on this machine, and what is left running in it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/tools/psrun/host_setup.h"
#include "client/tools/psrun/run_state.h"

/* Addresses of workers that have no host: ports of this machine. */
static enum ps_err
run_reserve_ports(struct psrun_run *r, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    uint16_t port;

    for (uint32_t i = 0; i < r->workers; i++)
        r->port_fds[i] = -1;
    for (uint32_t i = 0; err == PS_OK && i < r->workers; i++) {
        struct assigned_task *t = &r->plan->assigned.tasks[r->plan->assigned.shards + i];

        if (t->address[0] != '\0')
            continue;
        if ((err = host_setup_port(&r->port_fds[i], &port, e)) == PS_OK)
            host_spec_address("127.0.0.1", port, t->address);
    }
    return err;
}

/* Its name on other machines, which make it when they need it: this machine's name, and a part that cannot be
 * guessed. */
static enum ps_err
run_name_remote_dir(struct psrun_run *r, struct ps_error *e)
{
    char own[64] = "";
    uint64_t unique;

    if (getrandom(&unique, sizeof unique, 0) != sizeof unique)
        return ps_fail(e, PS_ERR_IO, "no random number for the run's name: %s", strerror(errno));
    (void)gethostname(own, sizeof own - 1);
    snprintf(r->remote_dir, sizeof r->remote_dir, "/dev/shm/psrun-%s-%" PRIx64, own, unique);
    r->plan->remote_dir = r->remote_dir;
    return PS_OK;
}

/* Where no shard runs there is none: nothing would remove it when psrun is killed. */
static enum ps_err
run_make_dir(struct psrun_run *r, struct ps_error *e)
{
    bool need_memory = r->plan->settings->live_dir == NULL, disk;
    uint32_t here = 0;
    enum ps_err err;

    for (uint32_t i = 0; i < r->shards; i++)
        here += !launch_plan_shard(r->plan, i)->remote;
    if (here == 0)
        return PS_OK;
    err = host_setup_run_dir(here, need_memory, r->dir, sizeof r->dir, &disk, e);
    r->plan->dir = r->dir;
    if (err == PS_OK && disk && need_memory)
        run_print(r, "/dev/shm has no room for %u shard%s: the data goes to %s, which is slower", here,
                  here == 1 ? "" : "s", r->dir);
    return err;
}

enum ps_err
run_prepare(struct psrun_run *r, struct ps_error *e)
{
    enum ps_err err;

    if ((err = run_reserve_ports(r, e)) != PS_OK)
        return err;
    if ((err = run_name_remote_dir(r, e)) != PS_OK)
        return err;
    return run_make_dir(r, e);
}

/* Later clients need the same token. */
static void
run_leave_token(struct psrun_run *r)
{
    char path[LAUNCH_PLAN_PATH_MAX];
    struct ps_error e;

    snprintf(path, sizeof path, "%s/token", r->dir);
    if (host_setup_token_file(path, r->plan->token, &e) == PS_OK)
        run_print(r, "  export PSD_TOKEN_FILE=%s", path);
    else
        run_print(r, "nobody will reach them: %s", e.text);
}

void
run_release(struct psrun_run *r)
{
    char pids[PSRUN_SHARDS_MAX * 12] = "";
    char *list = launch_plan_shard_list(r->plan);
    bool temporary = r->plan->settings->live_dir == NULL;

    r->releasing = true;
    for (uint32_t i = 0; i < r->shards; i++)
        snprintf(pids + strlen(pids), sizeof pids - strlen(pids), " %d", (int)r->processes[i].process.pid);
    run_print(r, "the shards go on running; to reach them:");
    run_print(r, "  export PSD_SHARDS=%s PSD_CLUSTER=%s", list, r->plan->settings->cluster);
    run_leave_token(r);
    run_print(r, "their logs: %s/shard-*/log; to stop them%s:", r->dir, temporary ? " and drop their data" : "");
    run_print(r, "  kill%s; rm -r %s", pids, r->dir);
    for (uint32_t i = 0; i < r->shards; i++)
        process_release(&r->processes[i].process);
    free(list);
}

void
run_remove_dirs(struct psrun_run *r)
{
    char path[LAUNCH_PLAN_PATH_MAX];

    if (r->dir[0] == '\0' || r->releasing)
        return;
    for (uint32_t i = 0; i < r->shards; i++) {
        launch_plan_shard_dir(r->plan, i, path, sizeof path);
        if (!launch_plan_shard(r->plan, i)->remote)
            host_setup_remove(path);
    }
    rmdir(r->dir);
}
