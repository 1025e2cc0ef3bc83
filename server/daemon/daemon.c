/* Turns: events of one loop iteration are stepped as they come; the check handle, right after poll, ends the turn.
 * Events that come at another time (a connection closed, a timer) keep the loop from sleeping, so that the check handle
 * comes at once. Time passes for the shard after what has arrived was read: when psd itself did not run for a while,
 * messages that its workers sent meanwhile count before their leases are checked. While actions are performed no event
 * may be stepped: what conn reports then comes through the loop. */
#include "server/daemon/daemon.h"

#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/cgroup.h"
#include "server/access/access_policy.h"
#include "server/daemon/daemon_stats.h"
#include "server/daemon/listener.h"
#include "server/daemon/notify.h"
#include "server/daemon/peer.h"
#include "server/http/http.h"
#include "server/lmdb/store_lmdb.h"
#include "server/process/log.h"
#include "server/process/sd_notify.h"
#include "server/process/shard_trace_file.h"
#include "server/recovery/open_stores.h"

#define HOUSEKEEPING_MS 1000
#define LOG_EVERY_MS    10000

bool
daemon_may_log(struct daemon *d, uint64_t *last)
{
    uint64_t now = uv_now(&d->loop);

    if (*last != 0 && now - *last < LOG_EVERY_MS)
        return false;
    *last = now;
    return true;
}

/* ---- Actions ---- */

static void
drop_action(const struct shard_action *a)
{
    free(a->bytes);
    shard_data_free(a->data);
}

void
daemon_close(struct daemon *d)
{
    if (d->state == DAEMON_CLOSING)
        return;
    d->state = DAEMON_CLOSING;
    http_detach(d->http);
    listeners_close(d);
    peers_close_all(d);
    restore_requests_stop(d);
    uv_close((uv_handle_t *)&d->check, NULL);
    uv_close((uv_handle_t *)&d->idle, NULL);
    uv_close((uv_handle_t *)&d->wake, NULL);
    uv_close((uv_handle_t *)&d->housekeeping, NULL);
    uv_close((uv_handle_t *)&d->watchdog, NULL);
    uv_close((uv_handle_t *)&d->save_schedule.timer, NULL);
    uv_close((uv_handle_t *)&d->hangup, NULL);
    uv_unref((uv_handle_t *)&d->term); /* a second one still ends the process at once */
    uv_unref((uv_handle_t *)&d->interrupt);
}

/* The shard releases its workers; no new connection is accepted. */
static void
begin_draining(struct daemon *d)
{
    if (d->state != DAEMON_SERVING)
        return;
    d->state = DAEMON_DRAINING;
    sd_notify_stopping();
    listeners_close(d);
}

/* The core's levels are the log's by number. */
static_assert((int)SHARD_LOG_ERROR == (int)LOG_LEVEL_ERROR && (int)SHARD_LOG_WARNING == (int)LOG_LEVEL_WARNING &&
                  (int)SHARD_LOG_INFO == (int)LOG_LEVEL_INFO && (int)SHARD_LOG_DEBUG == (int)LOG_LEVEL_DEBUG,
              "perform() hands one over as the other");

static void
daemon_perform(struct daemon *d, struct shard_action *a, bool *stopped)
{
    struct peer *p;

    switch (a->kind) {
    case SHARD_LOG:
        log_line((enum log_level)a->level, "%s", a->text);
        free(a->text);
        return;
    case SHARD_DRAIN_BEGUN:
        begin_draining(d);
        return;
    case SHARD_STOPPED:
        *stopped = true;
        return;
    case SHARD_RESTORE_WANTED:
        restore_requests_action(d, a);
        return;
    default:
        if (save_schedule_action(d, a))
            return;
        break;
    }
    p = peer_find(d, a->conn);
    if (p == NULL)
        drop_action(a);
    else if (a->kind == SHARD_SEND)
        peer_send(p, a->bytes, a->len);
    else if (a->kind == SHARD_DATA)
        peer_send_data(p, a->data);
    else
        peer_close(p);
}

/* ---- Turns ---- */

static void on_wake(uv_timer_t *timer);

static void
wake_set(struct daemon *d)
{
    uint64_t due = shard_next_time(d->shard), now = uv_now(&d->loop);

    if (due == d->wake_at_ms || d->state == DAEMON_CLOSING)
        return;
    d->wake_at_ms = due;
    if (due == UINT64_MAX)
        uv_timer_stop(&d->wake);
    else
        uv_timer_start(&d->wake, on_wake, due > now ? due - now : 0, 0);
}

/* On a single processor polling would keep the workers from running. */
static uint64_t
polling_most_ns(const struct daemon *d)
{
    return cgroup_cores() > 1 ? d->options->adaptive_spin_us * 1000 : 0;
}

/* A turn was the last for now, and ended just now: the loop polls for a while before it sleeps. */
static void
quiet_begin(struct daemon *d)
{
    d->quiet_ns = d->turn_ns != 0 ? d->turn_ns : uv_hrtime();
    d->poll_until_ns = d->quiet_ns + MAX(adaptive_spin_now(&d->spin), d->options->spin_us * 1000);
}

static void
quiet_end(struct daemon *d)
{
    uint64_t now;

    if (d->quiet_ns == 0)
        return;
    now = uv_hrtime();
    adaptive_spin_learn(&d->spin, now - d->quiet_ns, now >= d->poll_until_ns);
    d->quiet_ns = 0;
    d->turn_ns = now;
}

static bool
daemon_polling(const struct daemon *d)
{
    return d->quiet_ns != 0 && uv_hrtime() < d->poll_until_ns;
}

static void on_idle(uv_idle_t *idle);

static void
idle_set(struct daemon *d)
{
    if (d->state == DAEMON_CLOSING)
        return;
    d->pool.sleeps =
        !(d->turn_open || d->flush_first != NULL || d->time_due || shard_busy(d->shard) || daemon_polling(d));
    if (d->pool.sleeps)
        uv_idle_stop(&d->idle);
    else
        uv_idle_start(&d->idle, on_idle);
}

/* The time for the timeline; 0 without one. */
static uint64_t
stamp_ns(const struct daemon *d)
{
    return d->options->timeline > 0 ? uv_hrtime() : 0;
}

/* A job that was dropped may have had many small pieces of heap, which the allocator would keep. */
static void
daemon_give_back_heap(struct daemon *d)
{
    uint64_t erased = shard_erased(d->shard);

    if (erased == d->erased)
        return;
    d->erased = erased;
    malloc_trim(0);
}

/* speaker: see peers_flush(). */
static void
end_turn(struct daemon *d, uint64_t speaker)
{
    uint64_t commit_ns = stamp_ns(d), answer_ns, began_ns = d->turn_ns, updated = shard_turn_updated(d->shard);
    struct shard_action action;
    bool stopped = false;
    enum ps_err err;

    d->turn_open = false;
    if ((err = shard_commit(d->shard)) != PS_OK && daemon_may_log(d, &d->commit_log_ms))
        log_line(LOG_LEVEL_ERROR, "a turn failed and was taken back: %s", ps_strerror(err));
    answer_ns = stamp_ns(d);
    d->performing = true;
    while (shard_next_action(d->shard, &action))
        daemon_perform(d, &action, &stopped);
    d->performing = false;
    peers_flush(d, speaker, updated);
    peers_shed(d);
    d->turn_ns = stamp_ns(d);
    shard_turn_took(d->shard, began_ns, commit_ns, answer_ns, d->turn_ns);
    wake_set(d);
    save_schedule_turn_ended(d);
    restore_requests_turn_ended(d);
    daemon_give_back_heap(d);
    if (stopped && !save_schedule_at_stop(d))
        daemon_close(d);
}

/* Sends values that waited to be gathered with more, which did not come. That belongs to no turn: traces do not show
 * it, and the quiet time begins when it is done. */
static void
flush_rest(struct daemon *d)
{
    peers_flush(d, 0, 0);
    d->turn_ns = stamp_ns(d);
}

void
daemon_step(struct daemon *d, struct shard_event *event)
{
    ps_assert(!d->performing);
    quiet_end(d);
    event->now_ms = uv_now(&d->loop);
    event->now_ns = d->turn_ns;
    while (shard_step(d->shard, event) == SHARD_TURN_FULL)
        end_turn(d, 0);
    d->turn_open = true;
    if (shard_long_turn(d->shard))
        end_turn(d, event->conn);
    idle_set(d);
}

static void
on_check(uv_check_t *check)
{
    struct daemon *d = check->data;
    struct shard_event event = {.kind = SHARD_TIME};

    if (d->time_due) {
        d->time_due = false;
        daemon_step(d, &event);
    }
    if (d->turn_open)
        end_turn(d, 0);
    else if (d->flush_first != NULL)
        flush_rest(d);
    if (d->quiet_ns == 0) /* also where a long turn has ended by itself */
        quiet_begin(d);
    peers_next_turn(d);
    idle_set(d);
}

static void
on_idle(uv_idle_t *idle)
{
    struct daemon *d = idle->data;
    struct shard_event event = {.kind = SHARD_WORK};

    if (shard_busy(d->shard))
        daemon_step(d, &event);
    else if (daemon_polling(d))
        sched_yield(); /* a worker may want this processor */
}

static void
on_wake(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    d->wake_at_ms = UINT64_MAX;
    d->time_due = true;
    idle_set(d);
}

/* ---- Signals ---- */

static void
on_stop(uv_signal_t *signal, int number)
{
    struct daemon *d = signal->data;
    const char *name = number == SIGTERM ? "TERM" : "INT";
    struct shard_event event = {.kind = SHARD_DRAIN};

    if (d->signalled) {
        log_line(LOG_LEVEL_WARNING, "stopped at once: a second signal signal=%s", name);
        _exit(128 + number);
    }
    log_line(LOG_LEVEL_INFO, "stopping signal=%s connections=%u", name, HASH_COUNT(d->peers));
    d->signalled = true;
    begin_draining(d);
    daemon_step(d, &event);
}

static void
log_change(void *arg, const char *name, bool reloadable, const char *was, const char *is)
{
    (void)arg;
    log_line(reloadable ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "%s option=%s was=%s is=%s",
             reloadable ? "option changed" : "option changed, but needs a restart", name, was, is);
}

static void
apply_reloadable(struct daemon *d)
{
    log_set_level(d->options->log_level);
    d->spin.most_ns = polling_most_ns(d);
    d->in_flight.max = d->options->in_flight;
    d->in_flight.part_max = d->options->in_flight_connection;
    shard_set_in_flight(d->shard, d->options->in_flight);
    peers_admit(d);
    save_schedule_reload(d);
    shard_set_grace(d->shard, (uint32_t)d->options->grace_ms);
    wake_set(d);
}

/* Connections whose token was removed are closed, too. */
static void
token_gone(void *arg, const struct key *gone)
{
    peers_without_token(arg, gone->name);
}

static bool
daemon_set_quotas(struct daemon *d)
{
    const struct token_quotas *q = &d->policy->quotas;

    return shard_set_quotas(d->shard, q->rows, q->len);
}

static void
reload_guard(struct daemon *d)
{
    struct ps_error e = {0};

    if (access_policy_reload(d->policy, d->options, token_gone, d, &e) != PS_OK)
        log_line(LOG_LEVEL_ERROR, "tokens and users stay as they are: %s", e.text);
    else if (d->policy->ring.len > 0)
        log_line(LOG_LEVEL_INFO, "tokens read again tokens=%zu", d->policy->ring.len);
    if (!daemon_set_quotas(d))
        log_line(LOG_LEVEL_ERROR, "quotas stay as they are: out of memory");
    http_set_tokens(d->http, &d->policy->http);
}

static void
on_hangup(uv_signal_t *signal, int number)
{
    struct daemon *d = signal->data;
    struct options fresh = {0};
    struct ps_error e = {0};

    (void)number;
    sd_notify_reloading();
    if (d->reload(&fresh, &e) != PS_OK) {
        log_line(LOG_LEVEL_ERROR, "options stay as they are: %s", e.text);
    } else {
        log_line(LOG_LEVEL_INFO, "options read again signal=HUP");
        options_compare(d->options, &fresh, log_change, d);
        options_reload(d->options, &fresh);
        apply_reloadable(d);
        reload_guard(d);
    }
    options_finish(&fresh);
    tls_listener_reload(&d->tls, d->options);
    http_reload_tls(d->http, d->options);
    sd_notify_reloaded();
}

/* Shard and store reserve an eighth, and the space of some turns, as free pages for updates, so that from about here on
 * new variables are refused. */
static void
check_room(struct daemon *d)
{
    struct store_usage usage;
    bool crowded;

    d->store->ops->usage(d->store, &usage);
    crowded = usage.used_bytes + usage.max_bytes / 8 + 2 * STORE_ROOM_TURN > usage.max_bytes;
    if (crowded && !d->crowded)
        log_line(LOG_LEVEL_WARNING,
                 "the live directory is nearly full: new variables will be refused used_mib=%" PRIu64
                 " max_mib=%" PRIu64 " live_dir=%s",
                 (uint64_t)(usage.used_bytes / MIB), (uint64_t)(usage.max_bytes / MIB), d->live_dir);
    d->crowded = crowded;
}

static void
on_housekeeping(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    http_beat(d->http);
    if (d->state == DAEMON_SERVING)
        listeners_again(d);
    peers_check_stalls(d);
    check_room(d);
    save_schedule_housekeeping(d);
    if (d->state == DAEMON_SERVING)
        notify_status(d);
    if (d->unlinked || store_lmdb_still_there(d->store))
        return;
    d->unlinked = true;
    log_line(LOG_LEVEL_ERROR,
             "the live directory was removed or replaced: serving goes on, but a restart will not find the data%s "
             "live_dir=%s",
             strncmp(d->live_dir, "/dev/shm/", 9) == 0
                 ? "; systemd removes a login user's files in /dev/shm at the last logout: loginctl enable-linger, or "
                   "RemoveIPC=no"
                 : "",
             d->live_dir);
}

/* ---- Life ---- */

/* Where libuv cannot make its table of descriptors larger it aborts. This ends the process as well, but logs why, and
 * the next process finds all that was committed. */
static void *
realloc_or_end(void *memory, size_t size)
{
    void *bigger = realloc(memory, size);

    if (bigger != NULL || size == 0)
        return bigger;
    log_line(LOG_LEVEL_ERROR, "out of memory for the event loop");
    _exit(EXIT_FAILURE);
}

static void
start_handles(struct daemon *d)
{
    uv_check_init(&d->loop, &d->check);
    uv_idle_init(&d->loop, &d->idle);
    uv_timer_init(&d->loop, &d->wake);
    uv_timer_init(&d->loop, &d->housekeeping);
    uv_timer_init(&d->loop, &d->watchdog);
    uv_timer_init(&d->loop, &d->save_schedule.timer);
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->interrupt);
    uv_signal_init(&d->loop, &d->hangup);
    d->check.data = d->idle.data = d->wake.data = d->housekeeping.data = d->save_schedule.timer.data = d;
    d->term.data = d->interrupt.data = d->hangup.data = d;
    uv_check_start(&d->check, on_check);
    uv_timer_start(&d->housekeeping, on_housekeeping, HOUSEKEEPING_MS, HOUSEKEEPING_MS);
    uv_signal_start(&d->hangup, on_hangup, SIGHUP);
}

static void
serve_figures(struct daemon *d)
{
    char file[PATH_MAX + 16] = "";

    if (d->save_schedule.durable)
        snprintf(file, sizeof file, "%s/data.mdb", d->stores->durable.path);
    http_attach(d->http, &d->loop, file, shard_timeline(d->shard), (uint32_t)d->options->shard, daemon_stats_measure,
                d);
}

/* The loop receives signals only when it runs: one that came before is found here. */
static enum ps_err
listen_to_stops(struct daemon *d, struct ps_error *e)
{
    uv_signal_start(&d->term, on_stop, SIGTERM);
    uv_signal_start(&d->interrupt, on_stop, SIGINT);
    return open_stores_stopped(e);
}

enum ps_err
daemon_start(struct daemon *d, struct ps_error *e)
{
    enum ps_err err;
    int status;

    adaptive_spin_init(&d->spin, polling_most_ns(d));
    in_flight_init(&d->in_flight, d->options->in_flight, d->options->in_flight_connection);
    d->roles[ROLE_READ].eighths = PEER_READ_EIGHTHS;
    d->wake_at_ms = UINT64_MAX;
    uv_replace_allocator(malloc, realloc_or_end, calloc, free);
    if ((status = uv_loop_init(&d->loop)) != 0)
        return ps_fail(e, PS_ERR_NOMEM, "cannot start the event loop: %s", uv_strerror(status));
    start_handles(d);
    if (!daemon_set_quotas(d))
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    if ((err = conn_pool_init(&d->pool, &d->loop)) != PS_OK)
        return ps_fail(e, err, "cannot start the event loop: %s",
                       err == PS_ERR_NOMEM ? "out of memory" : "too many open files");
    if ((err = tls_listener_open(&d->tls, d->options, e)) != PS_OK || (err = save_schedule_start(d, e)) != PS_OK ||
        (err = restore_requests_start(d, e)) != PS_OK || (err = listeners_open(d, e)) != PS_OK ||
        (err = listen_to_stops(d, e)) != PS_OK)
        return err;
    d->state = DAEMON_SERVING;
    serve_figures(d);
    for (const struct listener *l = d->listeners; l != NULL; l = l->next)
        log_line(LOG_LEVEL_INFO, "listening address=%s%s", l->address, l->was_activated ? " socket=handed" : "");
    wake_set(d);
    idle_set(d);
    return PS_OK;
}

void
daemon_run(struct daemon *d)
{
    uv_run(&d->loop, UV_RUN_DEFAULT);
}

void
daemon_finish(struct daemon *d)
{
    if (d->check.data == NULL) /* the loop was never set up */
        return;
    shard_trace_file_write(d->shard, (uint32_t)d->options->shard);
    daemon_close(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    restore_requests_stop(d); /* requests of the last turns */
    conn_pool_finish(&d->pool);
    tls_listener_finish(&d->tls);
    save_schedule_finish(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    ps_assert(uv_loop_close(&d->loop) == 0);
}
