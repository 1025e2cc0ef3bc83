/* psd's log: lines on stderr, each a sentence with key=value words after it.
 *
 *     2026-01-31T12:00:00.123Z warning  worker lapsed job=train task=2
 *
 * Under systemd (stderr is the journal's socket) the journal's own form, "<4>worker lapsed job=train task=2": it knows
 * the time. Levels are syslog's. Control characters are replaced, so that no peer can forge a line. One thread. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "ps_err.h"

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Choose the form (looks at JOURNAL_STREAM and stderr) and the least urgent level that is written. */
void log_open(enum log_level level);
void log_set_level(enum log_level level);

void log_line(enum log_level level, const char *format, ...) PS_PRINTF(2, 3);

/* "error", "warning", "info", "debug". */
const char *log_level_name(enum log_level level);
bool log_level_parse(const char *name, enum log_level *out);

/* Format one line, for log_line() and its test: with its end, at most size bytes. Returns its length. */
size_t log_format(char *out, size_t size, bool journal, enum log_level level, const struct timespec *now,
                  const char *text);

#endif
