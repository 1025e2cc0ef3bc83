/* psctl save, verify, checkpoint and restore: a cluster's state to disk, and back. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/shared/interrupt.h"
#include "common/core/base/units.h"

/* ---- save ---- */

static void
print_saved(const struct psctl *p, const struct shard_answer *a, char *out, size_t size)
{
    struct units bytes, time;

    (void)p;
    snprintf(out, size, "save %" PRIu64 ", %" PRIu64 " blocks, %s written in %s", a->saved.save, a->saved.blocks,
             units_bytes(a->saved.bytes, &bytes), units_duration(a->saved.ms, &time));
}

int
psctl_save(struct psctl *p)
{
    return psctl_print_error(p, QUERY_SAVE, print_saved);
}

/* ---- verify ---- */

static void
print_verified(const struct psctl *p, const struct shard_answer *a, char *out, size_t size)
{
    const struct ps_verify_report *r = &a->verified;
    struct units time;
    int len = snprintf(out, size, "save %" PRIu64 ", %" PRIu64 " blocks, %" PRIu64 " read in %s", r->save, r->blocks,
                       r->verified, units_duration(r->ms, &time));

    if (p->settings.live)
        len += snprintf(out + len, size - (size_t)len, "; %" PRIu64 " compared in memory, %" PRIu64 " changed since",
                        a->compared, r->blocks - MIN(a->compared, r->blocks));
    if (r->mended > 0)
        len += snprintf(out + len, size - (size_t)len,
                        "; %" PRIu64 " DAMAGED on the disk, written again from memory: %.140s", r->mended,
                        r->first_mended);
    if (r->differ > 0)
        len += snprintf(out + len, size - (size_t)len, "; %" PRIu64 " DAMAGED in memory, well on the disk: %.140s",
                        r->differ, r->first_differs);
    if (r->mended + r->differ == 0)
        snprintf(out + len, size - (size_t)len, "; all is well");
}

int
psctl_verify(struct psctl *p)
{
    return psctl_print_error(p, QUERY_VERIFY, print_verified);
}

/* ---- checkpoint, restore ---- */

static void
print_done(const struct psctl *p, const char *what, const char *dir, const char *name)
{
    uint32_t shards = ps_cluster_shards(p->cluster);

    char path[PATH_MAX + PS_NAME_MAX];

    snprintf(path, sizeof path, "%s%s%s", dir, name[0] != '\0' ? "/" : "", name);
    if (p->settings.json)
        render_print_document(
            json_pack("{s:s,s:o,s:i}", "command", p->command, "path", render_text(path), "shards", (int)shards),
            &p->printer);
    else
        printf("%s %s; %u shard%s\n", what, path, shards, shards == 1 ? "" : "s");
}

int
psctl_checkpoint(struct psctl *p)
{
    char job[PS_NAME_MAX + 1], *name = NULL;
    struct ps_checkpoint_options options = {.job = job,
                                            .name = p->settings.name,
                                            .at_clock = p->at_one_clock,
                                            .clock = (uint64_t)p->settings.at_clock,
                                            .keep = (uint32_t)p->settings.keep};
    struct lost_shard lost;
    ps_client *client;
    struct ps_error e;
    enum ps_err err;
    int status;

    if ((status = psctl_choose_job(p, job)) != EXIT_SUCCESS)
        return status;
    if (psctl_open_all(p, &lost, &client, &e) != PS_OK)
        return psctl_failed(&e);
    interrupt_signals(client);
    err = ps_client_checkpoint(client, p->words[0], &options, (int)p->work_ms, &name, &e);
    interrupt_signals(NULL);
    err = lost_shard_end(&lost, err, &e);
    ps_client_close(client);
    if (err == PS_ERR_CANCELLED)
        interrupt_end("nothing of it is left in ", p->words[0]);
    if (name != NULL)
        print_done(p, "checkpoint", p->words[0], name);
    ps_free(name);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}

int
psctl_restore(struct psctl *p)
{
    struct lost_shard lost;
    ps_client *client;
    struct ps_error e;
    enum ps_err err;

    p->restores = true;
    if (psctl_open_all(p, &lost, &client, &e) != PS_OK)
        return psctl_failed(&e);
    err = ps_client_restore(client, p->words[0], p->settings.job, (int)p->work_ms, &e);
    err = lost_shard_end(&lost, err, &e);
    ps_client_close(client);
    if (err != PS_OK)
        return psctl_failed(&e);
    print_done(p, "restored", p->words[0], "");
    return EXIT_SUCCESS;
}
