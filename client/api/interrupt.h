/* ps_interrupt(): a flag for all waits of the process, and how their loops come to look at it.
 *
 * A handler of signals may only store and write: the flag is set, then an eventfd that every loop watches becomes
 * readable. A loop that has found it so stops watching, or it would never sleep again while the flag is set; the next
 * wait watches again once the flag is cleared. */
#ifndef CLIENT_API_INTERRUPT_H
#define CLIENT_API_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "common/include/psclient/ps_err.h"

extern atomic_bool interrupt_flag;

struct interrupt_watch {
    uv_poll_t poll;
    void (*found)(void *arg);
    void *arg;
    bool open, watching;
};

/* Waits are to end. */
static inline bool
interrupt_pending(void)
{
    return atomic_load_explicit(&interrupt_flag, memory_order_acquire);
}

/* The loop returns from its sleep when an interrupt comes, and found(arg) is called. PS_ERR_IO: no descriptor left. */
enum ps_err interrupt_watch_open(struct interrupt_watch *w, uv_loop_t *loop, void (*found)(void *arg),
                                 void *arg) PS_MUST_USE;

/* Before a wait: watch again, if an earlier interrupt was cleared. True: it does now, and did not before, so a loop
 * that another thread sleeps in must be woken. */
bool interrupt_watch_again(struct interrupt_watch *w);

/* The loop then runs until its handles are closed. One that was not opened, or zeroed: nothing happens. */
void interrupt_watch_close(struct interrupt_watch *w);

#endif
