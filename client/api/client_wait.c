/* How a call lets the network move while it waits.
 *
 * Without a progress thread the caller runs the loop until what it waits for has happened. The loop sleeps in the
 * kernel until a byte or the timer comes; before that it is polled for a while (spin_us, adaptive_spin.h). */
#include <sched.h>

#include "client/api/client_state.h"
#include "client/api/trace_recorder.h"
#include "common/system/now.h"

#define NEAR_MS 250 /* this long before a deadline the shards are asked which workers they wait for */
#define HOLD_US 20  /* a wait looks for so long before it sends what is held */
#define LATE_MS 100 /* a wait that ends by so little after its deadline has lasted for its time-out */
#define FOREVER (UINT64_MAX / 2)

void
client_turn(ps_client *c, bool wait, uint64_t until_ms)
{
    if (!c->holding)
        client_release(c);
    if (wait)
        loop_timer_set(&c->timer, MIN(until_ms, core_next_time(c->core)));
    c->known = c->activity;
    c->pool.sleeps = wait;
    uv_run(&c->loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    core_time(c->core, uv_now(&c->loop));
    client_perform(c);
}

uint64_t
client_timeout(const ps_client *c, int timeout_ms)
{
    return timeout_ms < 0 ? (uint64_t)c->options.timeout_ms : (uint64_t)timeout_ms;
}

/* While messages are held, the awaited answer may come without them: then the next ones can join them. */
static void
check_before_held(ps_client *c, const struct client_wait *w)
{
    uint64_t until;

    if (!client_has_held(c) || w->at_once)
        return;
    until = uv_hrtime() + HOLD_US * 1000;
    c->holding = true;
    do
        client_turn(c, false, 0);
    while (!w->ready(w->arg) && client_has_held(c) && uv_hrtime() < until);
    c->holding = false;
}

/* The time since something came last, or the wait began. */
struct quiet {
    uint64_t since_ns, poll_until_ns;
    bool slept;
};

static void
quiet_begin(const ps_client *c, struct quiet *q, uint64_t now_ns)
{
    uint64_t poll_ns = MAX(adaptive_spin_now(&c->patience), (uint64_t)c->options.spin_us * 1000);

    *q = (struct quiet){.since_ns = now_ns, .poll_until_ns = now_ns + poll_ns};
}

/* A turn of the loop that polls or, when that has been done for long enough, sleeps. */
static void
quiet_turn(ps_client *c, struct quiet *q, bool may_sleep, uint64_t until_ms)
{
    uint64_t before = c->activity, now_ns = uv_hrtime();
    bool sleep = may_sleep && now_ns >= q->poll_until_ns;

    q->slept |= sleep;
    client_turn(c, sleep, until_ms);
    if (c->activity != before) {
        now_ns = uv_hrtime();
        adaptive_spin_learn(&c->patience, now_ns - q->since_ns, q->slept);
        quiet_begin(c, q, now_ns);
    } else if (!sleep && may_sleep) {
        sched_yield(); /* the awaited process may need this processor */
    }
}

/* ---- Interrupts ---- */

bool
client_is_interrupted(const ps_client *c)
{
    return c->interrupted || interrupt_pending();
}

enum ps_err
client_unfinished(const ps_client *c, enum ps_err err, struct ps_error *e)
{
    if (err == PS_OK || !client_is_interrupted(c))
        return err;
    return ps_fail(e, PS_ERR_CANCELLED, "interrupted while it waited");
}

struct wait_until {
    const ps_client *client;
    const struct client_wait *wait;
};

static bool
wait_is_over(void *arg)
{
    const struct wait_until *u = arg;

    return u->wait->ready(u->wait->arg) || client_is_interrupted(u->client);
}

/* The caller runs the loop. */
static bool
loop_wait(ps_client *c, const struct client_wait *w, uint64_t timeout_ms)
{
    struct wait_until until = {c, w};
    uint64_t deadline, near;
    struct quiet quiet;

    check_before_held(c, w);
    uv_update_time(&c->loop); /* its time stood still while the caller did other things: the wait would be too short */
    deadline = uv_now(&c->loop) + timeout_ms;
    near = w->near != NULL && timeout_ms >= 4 ? deadline - MIN(NEAR_MS, timeout_ms / 4) : FOREVER;
    quiet_begin(c, &quiet, uv_hrtime());
    while (!wait_is_over(&until)) {
        quiet_turn(c, &quiet, timeout_ms > 0, MIN(deadline, near));
        if (uv_now(&c->loop) >= near) {
            near = FOREVER;
            w->near(w->arg);
            client_perform(c);
        }
        if (uv_now(&c->loop) >= deadline)
            break;
    }
    return w->ready(w->arg);
}

/* ---- With a progress thread ---- */

struct progress_status
client_progress_status(const ps_client *c)
{
    return (struct progress_status){
        .news = c->wake, .next_ms = core_next_time(c->core), .changes = core_changes(c->core)};
}

static struct progress_status
thread_turn(void *owner)
{
    ps_client *c = owner;
    uint64_t before = c->activity;

    c->wake = false;
    uv_run(&c->loop, UV_RUN_NOWAIT);
    core_time(c->core, uv_now(&c->loop));
    client_perform(c);
    c->wake |= c->activity != before;
    return client_progress_status(c);
}

static bool
thread_sleep(void *owner)
{
    ps_client *c = owner;

    return conn_pool_doze(&c->pool);
}

static void
thread_wake(void *owner)
{
    ps_client *c = owner;

    conn_pool_wake(&c->pool);
}

enum ps_err
client_progress(ps_client *c, struct ps_error *e)
{
    static const struct progress_user user = {.turn = thread_turn, .sleep = thread_sleep, .wake = thread_wake};

    loop_timer_stop(&c->timer);
    c->pool.sleeps = false; /* in the thread's own poll alone */
    return progress_start(&c->progress, &c->loop, &user, c, e);
}

static bool
thread_wait(ps_client *c, const struct client_wait *w, uint64_t timeout_ms)
{
    uint64_t near = MIN(NEAR_MS, timeout_ms / 4);
    struct timespec end = monotonic_in(timeout_ms), soon = monotonic_in(timeout_ms - near);
    struct wait_until until = {c, w};

    progress_wake_thread(&c->progress, client_progress_status(c)); /* what the caller has started */
    if (w->near == NULL || timeout_ms < 4) {
        (void)progress_wait(&c->progress, wait_is_over, &until, &end);
        return w->ready(w->arg);
    }
    if (progress_wait(&c->progress, wait_is_over, &until, &soon))
        return w->ready(w->arg);
    w->near(w->arg);
    client_perform(c);
    c->wake = true;
    progress_wake_thread(&c->progress, client_progress_status(c));
    (void)progress_wait(&c->progress, wait_is_over, &until, &end);
    return w->ready(w->arg);
}

static uint64_t
bytes_moved(const ps_client *c)
{
    const struct ps_client_stats *s = core_stats(c->core);

    return s->bytes_pushed + s->bytes_pulled;
}

/* Clocks of several kinds end a wait, some by a part of a millisecond too early. */
static uint64_t
waited_ms(const ps_client *c, uint64_t ms, uint64_t timeout_ms, bool ready)
{
    if (ready || client_is_interrupted(c))
        return MIN(ms, timeout_ms);
    return ms > timeout_ms + LATE_MS ? ms : timeout_ms;
}

bool
client_wait(ps_client *c, struct client_wait *w, uint64_t timeout_ms)
{
    uint64_t start, end, moved;
    bool ready;

    w->waited_ms = 0;
    if (w->ready(w->arg))
        return true;
    c->wake |= interrupt_watch_again(&c->interrupt);
    moved = bytes_moved(c);
    start = uv_hrtime();
    ready = c->progress.runs ? thread_wait(c, w, timeout_ms) : loop_wait(c, w, timeout_ms);
    end = uv_hrtime();
    c->waited_us += (end - start) / 1000;
    w->waited_ms = waited_ms(c, (end - start) / 1000000, timeout_ms, ready);
    if (w->op != NULL && c->recorded)
        trace_recorder_wait(core_op_time(w->op), start, end, ready ? core_op_held_us(w->op) * 1000 : 0,
                            bytes_moved(c) - moved);
    return ready;
}
