#include "server/daemon/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/daemon/listener.h"
#include "server/daemon/peer.h"
#include "server/process/sd_notify.h"

static void
on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    sd_notify_send("WATCHDOG=1");
}

/* The watchdog's interval: twice in the time that WATCHDOG_USEC allows, from the loop that does the work, so that a
 * loop that is stuck sends nothing. Without WATCHDOG_USEC, or when that is meant for another process, never. */
static void
watchdog_start(struct daemon *d)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t every_ms = usec != NULL ? strtoull(usec, NULL, 10) / 2000 : 0;

    if (every_ms == 0 || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
        return;
    uv_timer_start(&d->watchdog, on_watchdog, every_ms, every_ms);
}

void
notify_status(struct daemon *d)
{
    const struct options *o = d->options;
    struct store_usage usage;
    char text[sizeof d->status], saved[SAVE_SCHEDULE_STATUS_MAX];

    d->store->ops->usage(d->store, &usage);
    snprintf(text, sizeof text,
             "STATUS=Shard %" PRIu64 " of %" PRIu64 ", connections: %u, %" PRIu64 " of %" PRIu64 " MiB%s", o->shard,
             o->shards, HASH_COUNT(d->peers), (uint64_t)(usage.used_bytes / MIB), (uint64_t)(usage.max_bytes / MIB),
             save_schedule_status(d, saved));
    if (strcmp(text, d->status) == 0)
        return;
    memcpy(d->status, text, sizeof text);
    sd_notify_send(text);
}

/* ---- Launchers ---- */

static bool
write_addresses(const struct daemon *d, int fd)
{
    for (const struct listener *l = d->listeners; l != NULL; l = l->next)
        if (dprintf(fd, "%s\n", l->address) < 0)
            return false;
    return true;
}

static enum ps_err
ready_file(const struct daemon *d, const char *path, struct ps_error *e)
{
    char fresh[PATH_MAX];
    int fd;
    bool ok;

    snprintf(fresh, sizeof fresh, "%s.new", path);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write %s: %s", fresh, strerror(errno));
    ok = write_addresses(d, fd);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(fresh, path) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return PS_OK;
}

enum ps_err
notify_ready(struct daemon *d, struct ps_error *e)
{
    const struct options *o = d->options;
    enum ps_err err = PS_OK;

    if (o->ready_fd != 0) {
        if (!write_addresses(d, (int)o->ready_fd))
            err = ps_fail(e, PS_ERR_IO, "cannot write to descriptor %" PRIu64 " (--ready-fd): %s", o->ready_fd,
                          strerror(errno));
        close((int)o->ready_fd);
    }
    if (err == PS_OK && o->ready_file != NULL)
        err = ready_file(d, o->ready_file, e);
    if (err != PS_OK)
        return err;
    sd_notify_send("READY=1");
    notify_status(d);
    watchdog_start(d);
    return PS_OK;
}
