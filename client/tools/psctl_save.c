/* psctl save, checkpoint and restore: a cluster's state to disk, and back. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/units.h"
#include "psctl.h"

/* ---- save ---- */

static void
say_saved(const struct answer *a, char *out, size_t size)
{
    struct units bytes, time;

    snprintf(out, size, "save %" PRIu64 ", %" PRIu64 " blocks, %s written in %s", a->saved.save, a->saved.blocks,
             units_bytes(a->saved.bytes, &bytes), units_duration(a->saved.ms, &time));
}

int
psctl_save(struct psctl *p)
{
    return psctl_tell(p, ASK_SAVE, say_saved);
}

/* ---- checkpoint, restore ---- */

/* One client of all shards: they do this together. */
static enum ps_err
open_all(const struct psctl *p, ps_client **client, struct ps_error *e)
{
    struct ps_client_options options = {
        .observer = 1, .any_cluster = 1, .transport = PS_TRANSPORT_TCP, .timeout_ms = (int)p->settings.timeout_ms};

    return ps_client_open(p->cluster, &options, client, e);
}

static void
say_done(const struct psctl *p, const char *what, const char *dir, const char *name)
{
    uint32_t shards = ps_cluster_shards(p->cluster);

    if (p->settings.json) {
        view_print_document(json_pack("{s:s,s:s+++,s:i}", "command", p->command, "path", dir,
                                      name[0] != '\0' ? "/" : "", name, "shards", (int)shards),
                            &p->page);
        return;
    }
    printf("%s %s%s%s; %u shard%s\n", what, dir, name[0] != '\0' ? "/" : "", name, shards, shards == 1 ? "" : "s");
}

/* The first Ctrl-C, TERM or HUP takes back what was begun; then, or at the second, the signal ends psctl as ever. Those
 * that are ignored, as under nohup, stay so. */
static const int heeded[] = {SIGINT, SIGTERM, SIGHUP};
static ps_client *volatile at_work;
static volatile sig_atomic_t ended_by;

static void
on_signal(int sig)
{
    ended_by = sig;
    ps_client_interrupt(at_work);
}

static void
heed_signals(ps_client *client)
{
    struct sigaction was, handler = {.sa_handler = client != NULL ? on_signal : SIG_DFL,
                                     .sa_flags = (int)(SA_RESETHAND | SA_RESTART)}; /* a file's call is not at fault */

    at_work = client != NULL ? client : at_work;
    for (size_t i = 0; i < ARRAY_LEN(heeded); i++)
        if (sigaction(heeded[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(heeded[i], &handler, NULL);
}

static void
end_by_signal(const char *dir)
{
    fprintf(stderr, "psctl: given up; nothing of it is left in %s\n", dir);
    (void)raise(ended_by);
}

int
psctl_checkpoint(struct psctl *p)
{
    struct ps_checkpoint_options options = {.job = p->settings.job,
                                            .name = p->settings.name,
                                            .at_clock = p->at_one_clock,
                                            .clock = (uint64_t)p->settings.at_clock,
                                            .keep = (uint32_t)p->settings.keep};
    char job[PS_NAME_MAX + 1], *name = NULL;
    ps_client *client;
    struct ps_error e;
    enum ps_err err;
    int status;

    if (options.job == NULL) {
        if ((status = psctl_only_job(p, job)) != EXIT_SUCCESS)
            return status;
        options.job = job;
    }
    if (open_all(p, &client, &e) != PS_OK)
        return psctl_failed(&e);
    heed_signals(client);
    err = ps_client_checkpoint(client, p->words[0], &options, -1, &name, &e);
    heed_signals(NULL);
    ps_client_close(client);
    if (err == PS_ERR_CANCELLED)
        end_by_signal(p->words[0]);
    if (name != NULL)
        say_done(p, "checkpoint", p->words[0], name);
    ps_free(name);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}

int
psctl_restore(struct psctl *p)
{
    ps_client *client;
    struct ps_error e;
    enum ps_err err;

    if (open_all(p, &client, &e) != PS_OK)
        return psctl_failed(&e);
    err = ps_client_restore(client, p->words[0], p->settings.job, -1, &e);
    ps_client_close(client);
    if (err != PS_OK)
        return psctl_failed(&e);
    say_done(p, "restored", p->words[0], "");
    return EXIT_SUCCESS;
}
