/* What a program is shown: a line on stderr for each long wait and, without on_event, for what no call reports. */
#ifndef CLIENT_API_NOTICE_H
#define CLIENT_API_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/include/psclient/ps_err.h"

#define NOTICE_FIRST_MS                                                                                                \
    2000 /* a wait goes on for so long before a line says so; then after twice as long each time                       \
          */

/* "psclient: what worker 3: text". task < 0: no worker. One write, so that lines of several processes do not mix. */
void notice_print(const char *what, long task, const struct ps_error *e);

/* The same of a wait that goes on. */
void notice_print_wait(const char *what, long task, const struct ps_error *e);

/* A wait that is cut into parts, each twice as long as the one before. */
struct notice_wait {
    uint64_t begun_ms, next_ms, end_ms; /* a monotonic clock */
};

void notice_wait_begin(struct notice_wait *w, uint64_t now_ms, uint64_t timeout_ms);
/* Until when to wait now. */
uint64_t notice_wait_until(const struct notice_wait *w);
/* That time has come. True: a line is due, and the wait goes on; false: the time-out is over. */
bool notice_wait_goes_on(struct notice_wait *w, uint64_t now_ms);

#endif
