/* psd's log: lines on stderr, each a sentence with key=value words after it.
 *
 *     2026-01-31T12:00:00.123Z warning  worker lapsed job=train task=2
 *
 * Under systemd (stderr is the journal's socket) the journal's own form, "<4>worker lapsed job=train task=2": the
 * journal adds the time. Levels are syslog's. Control characters are replaced, so that no peer can forge a line. One
 * thread. */
#ifndef SERVER_PROCESS_LOG_H
#define SERVER_PROCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/include/psclient/ps_err.h"

/* clang-format off */
#define LOG_LEVEL_LIST(X)    \
    X(ERROR,   3, "error")   \
    X(WARNING, 4, "warning") \
    X(INFO,    6, "info")    \
    X(DEBUG,   7, "debug")
/* clang-format on */

enum log_level {
#define LOG_LEVEL_ENUM(name, number, text) LOG_LEVEL_##name = number,
    LOG_LEVEL_LIST(LOG_LEVEL_ENUM)
#undef LOG_LEVEL_ENUM
};

/* Choose the form (looks at JOURNAL_STREAM and stderr) and the least urgent level that is written. */
void log_open(enum log_level level);
void log_set_level(enum log_level level);

/* Whether it is the journal's form. */
bool log_to_journal(void);

void log_line(enum log_level level, const char *format, ...) PS_PRINTF(2, 3);

/* How many were written, by level: in the order of the list. */
#define LOG_LEVELS 4
void log_counts(uint64_t out[LOG_LEVELS]);

/* Format one line, for log_line() and its test: with its end, at most size bytes. Returns its length. */
size_t log_format(char *out, size_t size, bool journal, enum log_level level, const struct timespec *now,
                  const char *text);

#endif
