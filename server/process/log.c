#include "server/process/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/core/base/base.h"

#define LINE_MAX_BYTES 2048

static enum log_level least = LOG_LEVEL_INFO;
static bool to_journal;
static uint64_t counts[LOG_LEVELS];

static const char *
level_name(enum log_level level)
{
    switch (level) {
#define LEVEL_NAME(name, number, text)                                                                                 \
    case LOG_LEVEL_##name:                                                                                             \
        return text;
        LOG_LEVEL_LIST(LEVEL_NAME)
#undef LEVEL_NAME
    }
    return "unknown";
}

/* systemd.exec(5): JOURNAL_STREAM holds the device and inode of the stream that leads to the journal. */
static bool
stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

void
log_open(enum log_level level)
{
    least = level;
    to_journal = stderr_is_journal();
}

bool
log_to_journal(void)
{
    return to_journal;
}

void
log_set_level(enum log_level level)
{
    least = level;
}

static size_t
format_head(char *out, size_t size, bool journal, enum log_level level, const struct timespec *now)
{
    struct tm tm;
    size_t n;

    if (journal)
        return (size_t)snprintf(out, size, "<%d>", (int)level);
    gmtime_r(&now->tv_sec, &tm);
    n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(out + n, size - n, ".%03ldZ %-7s  ", now->tv_nsec / 1000000, level_name(level));
}

size_t
log_format(char *out, size_t size, bool journal, enum log_level level, const struct timespec *now, const char *text)
{
    size_t n = format_head(out, size, journal, level, now);

    for (; *text != '\0' && n + 2 < size; text++)
        out[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
    out[n++] = '\n';
    out[n] = '\0';
    return n;
}

static void
log_count(enum log_level level)
{
    static const enum log_level order[LOG_LEVELS] = {
#define LEVEL(name, number, text) LOG_LEVEL_##name,
        LOG_LEVEL_LIST(LEVEL)
#undef LEVEL
    };

    for (size_t i = 0; i < LOG_LEVELS; i++)
        counts[i] += order[i] == level;
}

void
log_counts(uint64_t out[LOG_LEVELS])
{
    memcpy(out, counts, sizeof counts);
}

/* One write() per line, so that lines of several processes on one stream stay whole. */
void
log_line(enum log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES + 64];
    struct timespec now;
    va_list args;
    size_t n;

    if (level > least)
        return;
    log_count(level);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clock_gettime(CLOCK_REALTIME, &now);
    n = log_format(line, sizeof line, to_journal, level, &now, text);
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* there is nowhere to report it */
}
