/* All that runs in the handler is async-signal-safe (signal-safety(7)): system calls, and text put together by hand.
 *
 * The kernel knows which file it is (/proc/self/maps), so psd keeps no list of maps. The live environment's file is
 * mapped for writing (MDB_WRITEMAP); the durable one's for reading only. */
#include "server/process/bus_error.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "server/process/log.h"

/* ---- Text ---- */

struct signal_text {
    char *out;
    size_t size, len; /* len < size */
};

static void
bus_error_put(struct signal_text *w, const char *text)
{
    while (*text != '\0' && w->len + 1 < w->size)
        w->out[w->len++] = *text++;
    w->out[w->len] = '\0';
}

static void
put_number(struct signal_text *w, uint64_t n)
{
    char digits[24];
    size_t i = sizeof digits - 1;

    digits[i] = '\0';
    do
        digits[--i] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    bus_error_put(w, digits + i);
}

static bool
is_data(const char *file)
{
    static const char name[] = "/data.mdb", gone[] = "/data.mdb (deleted)";
    size_t len = strlen(file);

    return (len >= sizeof name && strcmp(file + len - (sizeof name - 1), name) == 0) ||
           (len >= sizeof gone && strcmp(file + len - (sizeof gone - 1), gone) == 0);
}

void
bus_error_say(char *out, size_t size, const char *file, uint64_t at, bool writable)
{
    struct signal_text w = {out, size, 0};

    bus_error_put(&w, "byte ");
    put_number(&w, at);
    bus_error_put(&w, " of ");
    bus_error_put(&w, file);
    if (!is_data(file))
        bus_error_put(&w,
                      ", which psd has mapped, cannot be read: its disk failed, or it was cut short. psd cannot go on");
    else if (writable)
        bus_error_put(
            &w, " is no longer there: the memory of the live data was taken away. Was the file cut short, is its "
                "filesystem full, is memory broken? psd cannot go on. Should a start refuse what is left, remove that "
                "directory: psd then begins from the durable one, or with --restore CHECKPOINT");
    else
        bus_error_put(
            &w,
            " cannot be read from its disk: the durable directory is damaged, and psd cannot go on. Move that file "
            "away and start psd again: live data that are still there are saved whole into a new one; without them, "
            "start with --restore CHECKPOINT");
}

/* ---- Which file ---- */

struct map {
    uint64_t begin, end, offset;
    bool writable;
    char file[PATH_MAX];
};

static const char *
bus_error_hexadecimal(const char *at, uint64_t *out)
{
    int digit;

    for (*out = 0;; at++) {
        if (*at >= '0' && *at <= '9')
            digit = *at - '0';
        else if (*at >= 'a' && *at <= 'f')
            digit = *at - 'a' + 10;
        else
            return at;
        *out = *out << 4 | (uint64_t)digit;
    }
}

/* "7f00-7f01 rw-s 00002000 00:1c 77 /dev/shm/psd/data.mdb". False: the map is of no file. */
static bool
bus_error_parse_map(const char *line, struct map *m)
{
    const char *at = bus_error_hexadecimal(line, &m->begin);
    size_t n = 0;

    at = bus_error_hexadecimal(at + (*at == '-'), &m->end);
    if (*at != ' ' || strlen(at) < 6)
        return false;
    m->writable = at[2] == 'w';
    (void)bus_error_hexadecimal(at + 6, &m->offset);
    if ((at = strchr(at, '/')) == NULL)
        return false;
    while (at[n] != '\0' && n + 1 < sizeof m->file) {
        m->file[n] = at[n];
        n++;
    }
    m->file[n] = '\0';
    return true;
}

/* The next byte of the file; -1 at its end. */
static int
next_byte(int fd, char *buffer, size_t size, size_t *i, ssize_t *n)
{
    if (*i == (size_t)*n) {
        *i = 0;
        if ((*n = read(fd, buffer, size)) <= 0) {
            *n = 0;
            return -1;
        }
    }
    return (unsigned char)buffer[(*i)++];
}

static bool
find_map(uint64_t address, struct map *m)
{
    static char buffer[4096], line[PATH_MAX + 128];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), c;
    size_t i = 0, len = 0;
    ssize_t n = 0;
    bool found = false;

    while (fd >= 0 && !found && (c = next_byte(fd, buffer, sizeof buffer, &i, &n)) >= 0) {
        if (c != '\n') {
            if (len + 1 < sizeof line)
                line[len++] = (char)c;
            continue;
        }
        line[len] = '\0';
        len = 0;
        found = bus_error_parse_map(line, m) && address >= m->begin && address < m->end;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* ---- The signal ---- */

static atomic_flag saying = ATOMIC_FLAG_INIT;
static const char *head;

/* A signal outside a file's map is a defect of the program, or a process's kill(): the usual end, with a core. A defect
 * happens again when this returns; a kill() does not, so it is repeated. */
static void
on_bus_error(int number, siginfo_t *info, void *context)
{
    static struct map m;
    static char text[PATH_MAX + 1024];
    struct signal_text w = {text, sizeof text - 1, 0};
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;

    (void)context;
    while (atomic_flag_test_and_set(&saying)) /* another thread is here already, and ends the process */
        pause();
    if (info->si_code <= 0 || info->si_code == BUS_ADRALN || !find_map(address, &m)) {
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
        return;
    }
    bus_error_put(&w, head);
    bus_error_say(text + w.len, w.size - w.len, m.file, m.offset + (address - m.begin), m.writable);
    w.len = strlen(text);
    text[w.len++] = '\n';
    if (write(STDERR_FILENO, text, w.len) < 0)
        _exit(EXIT_LOST); /* there is nowhere to report it */
    _exit(EXIT_LOST);
}

void
bus_error_listen(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    head = log_to_journal() ? "<3>" : "psd: ";
    sigaction(SIGBUS, &action, NULL);
}
