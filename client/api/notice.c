/* See notice.h. */
#include "client/api/notice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/base.h"

void
notice_print(const char *what, long task, const struct ps_error *e)
{
    char line[PS_ERROR_LINE_MAX + 128], worker[32] = "", text[PS_ERROR_LINE_MAX];
    int n;

    if (task >= 0)
        snprintf(worker, sizeof worker, " worker %ld", task);
    ps_error_format(e, text, sizeof text);
    n = snprintf(line, sizeof line, "psclient: %.64s%s: %s\n", what, worker, text);
    n = MIN(n, (int)sizeof line - 1);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody reads it */
}

void
notice_print_wait(const char *what, long task, const struct ps_error *e)
{
    struct ps_error waiting = *e;

    snprintf(waiting.text, sizeof waiting.text, "%.*s; still waiting", PS_ERROR_TEXT_MAX - 32, e->text);
    notice_print(what, task, &waiting);
}

void
notice_wait_begin(struct notice_wait *w, uint64_t now_ms, uint64_t timeout_ms)
{
    *w = (struct notice_wait){.begun_ms = now_ms, .next_ms = now_ms + NOTICE_FIRST_MS, .end_ms = now_ms + timeout_ms};
}

uint64_t
notice_wait_until(const struct notice_wait *w)
{
    return MIN(w->next_ms, w->end_ms);
}

bool
notice_wait_goes_on(struct notice_wait *w, uint64_t now_ms)
{
    if (now_ms >= w->end_ms)
        return false;
    w->next_ms = now_ms + (now_ms - w->begun_ms);
    return true;
}
