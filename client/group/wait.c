/* A group's loop, and waiting in it. Without a progress thread the caller polls the links for a while, then sleeps in
 * the loop. */
#include <sched.h>

#include "client/group/group_state.h"
#include "common/system/now.h"

#define SPIN_CHECK         64 /* polls of links between two looks at the loop and the clock */
#define SPIN_CHECK_CROWDED 16 /* ... each of which lets others run */

bool
group_sleep(ps_group *g)
{
    bool quiet = true;

    for (uint32_t r = 0; r < g->table.ranks && g->links != NULL; r++)
        if (g->links[r] != NULL && g->links[r]->ops->sleep != NULL && !g->links[r]->ops->sleep(g->links[r]))
            quiet = false;
    return quiet;
}

void
group_wake(ps_group *g)
{
    for (uint32_t r = 0; r < g->table.ranks && g->links != NULL; r++)
        if (g->links[r] != NULL && g->links[r]->ops->wake != NULL)
            g->links[r]->ops->wake(g->links[r]);
}

static bool
links_poll(ps_group *g)
{
    bool any = false;

    for (uint32_t r = 0; r < g->table.ranks && g->links != NULL; r++)
        if (g->links[r] != NULL)
            any |= g->links[r]->ops->poll(g->links[r]);
    return any;
}

/* A look at a socket is a system call: where several ranks share a processor, one that looks for nothing keeps the
 * others from running. Links that have frames to move need looks as well. */
static bool
links_poll_awaited(ps_group *g)
{
    bool any = false, looked = false;

    for (uint32_t r = 0; r < g->table.ranks && g->links != NULL && g->outs == 0; r++) {
        if (g->links[r] == NULL || !group_core_awaits(g->core, r))
            continue;
        looked = true;
        any |= g->links[r]->ops->poll(g->links[r]);
    }
    return looked ? any : links_poll(g);
}

static void
after_turn(ps_group *g)
{
    if (g->core == NULL)
        return;
    group_core_time(g->core, uv_now(&g->loop));
    group_perform(g);
}

void
group_turn(ps_group *g)
{
    (void)links_poll(g);
    uv_run(&g->loop, UV_RUN_NOWAIT);
    after_turn(g);
}

/* Once, asleep until something comes or the time. */
static void
sleep_once(ps_group *g, uint64_t until_ms)
{
    uint64_t next = g->core != NULL ? group_core_next_time(g->core) : UINT64_MAX;
    bool quiet = group_sleep(g);

    (void)interrupt_watch_again(&g->interrupt);
    loop_timer_set(&g->timer, MIN(until_ms, next));
    g->known = g->activity;
    uv_run(&g->loop, quiet ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    group_wake(g);
    if (!quiet)
        (void)links_poll(g);
    after_turn(g);
}

bool
group_run_until(ps_group *g, bool (*ready)(void *arg), void *arg, uint64_t until_ms)
{
    bool is;

    uv_update_time(&g->loop);
    g->ready = ready;
    g->ready_arg = arg;
    while (!(is = ready(arg)) && uv_now(&g->loop) < until_ms)
        sleep_once(g, until_ms);
    g->ready = NULL;
    return is;
}

bool
group_is_interrupted(const ps_group *g)
{
    return interrupt_pending() && (g->core == NULL || group_core_state(g->core, NULL) == PS_OK);
}

void
group_interrupt(ps_group *g)
{
    struct ps_error why;

    ps_error_set(&why, PS_ERR_CANCELLED, "rank %u was interrupted", g->table.rank);
    group_core_blame(g->core, g->table.rank, &why);
    group_perform(g);
}

static bool
work_over(const struct ps_work *w)
{
    return w->core == NULL || group_work_done(w->core);
}

/* ---- With a progress thread ---- */

struct progress_status
group_progress_status(const ps_group *g)
{
    return (struct progress_status){
        .news = g->outs > 0, .next_ms = group_core_next_time(g->core), .changes = group_core_changes(g->core)};
}

static struct progress_status
thread_turn(void *owner)
{
    ps_group *g = owner;
    uint64_t before = g->activity;
    struct progress_status now;

    group_turn(g);
    now = group_progress_status(g);
    now.news = g->activity != before;
    return now;
}

static bool
thread_sleep(void *owner)
{
    return group_sleep(owner);
}

static void
thread_wake(void *owner)
{
    group_wake(owner);
}

enum ps_err
group_progress(ps_group *g, struct ps_error *e)
{
    static const struct progress_user user = {.turn = thread_turn, .sleep = thread_sleep, .wake = thread_wake};

    loop_timer_stop(&g->timer);
    return progress_start(&g->progress, &g->loop, &user, g, e);
}

static bool
thread_work_over(void *arg)
{
    const struct ps_work *w = arg;

    return work_over(w) || group_is_interrupted(w->group);
}

static bool
thread_wait(ps_group *g, const struct ps_work *work, uint64_t timeout_ms)
{
    struct timespec end = monotonic_in(timeout_ms);
    struct progress_status now = group_progress_status(g);

    now.news |= interrupt_watch_again(&g->interrupt);
    progress_wake_thread(&g->progress, now); /* what the caller has started */
    (void)progress_wait(&g->progress, thread_work_over, (void *)(uintptr_t)work, &end);
    return work_over(work);
}

/* ---- Waiting ---- */

/* Poll until the work is done, the time has come or nothing has for a while. */
static void
group_spin(ps_group *g, const struct ps_work *work, uint64_t quiet_ns, uint64_t until_ms)
{
    uint64_t until_ns = 0;
    unsigned look = g->crowded ? SPIN_CHECK_CROWDED : SPIN_CHECK;
    bool any = true;

    for (unsigned i = 1; !work_over(work) && !group_is_interrupted(g); i++) {
        if (links_poll_awaited(g)) {
            any = true;
            group_perform(g);
        } else if (g->crowded) {
            sched_yield(); /* a rank with something to send may wait for this processor */
        }
        if (g->outs == 0 && i % look != 0)
            continue;
        uv_run(&g->loop, UV_RUN_NOWAIT);
        after_turn(g);
        if (i % look != 0)
            continue;
        if (uv_now(&g->loop) >= until_ms)
            return;
        sched_yield(); /* however many processors there are, others may want this one */
        if (any)
            until_ns = uv_hrtime() + quiet_ns;
        else if (uv_hrtime() >= until_ns)
            return;
        any = false;
    }
}

/* Poll for as long as that has lately paid, or was asked for; then sleep once. */
static void
wait_once(ps_group *g, const struct ps_work *work, uint64_t until_ms)
{
    uint64_t quiet_ns = MAX((uint64_t)g->options.spin_us * 1000, adaptive_spin_now(&g->patience)), before;

    if (quiet_ns > 0)
        group_spin(g, work, quiet_ns, until_ms);
    if (work_over(work)) {
        adaptive_spin_learn(&g->patience, 0, false);
        return;
    }
    if (uv_now(&g->loop) >= until_ms || group_is_interrupted(g))
        return;
    before = uv_hrtime();
    sleep_once(g, until_ms);
    adaptive_spin_learn(&g->patience, quiet_ns + (uv_hrtime() - before), true);
}

bool
group_wait_work(ps_group *g, const struct ps_work *work, uint64_t timeout_ms)
{
    uint64_t until_ms;

    if (work_over(work))
        return true;
    if (g->progress.runs)
        return thread_wait(g, work, timeout_ms);
    if (timeout_ms == 0) {
        group_turn(g);
        return work_over(work);
    }
    until_ms = uv_now(&g->loop) + timeout_ms; /* group_enter() has looked at the clock */
    do
        wait_once(g, work, until_ms);
    while (!work_over(work) && uv_now(&g->loop) < until_ms && !group_is_interrupted(g));
    return work_over(work);
}
