/* Opened without blocking, since opening a pipe would wait for its writer. */
#include "common/system/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/base/file_kind.h"
#include "common/core/base/text_lines.h"

#define INPUT_FILE_START (16 * KIB)

static enum ps_err
input_file_failed(const char *path, int error, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_IO, "%s: %s", path, strerror(error));
}

/* Until there is a byte, or the end because its writer has gone. */
static enum ps_err
input_file_await(const char *path, int fd, int wait_ms, struct ps_error *e)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int ready;

    do
        ready = poll(&wanted, 1, wait_ms);
    while (ready < 0 && errno == EINTR);
    if (ready < 0)
        return input_file_failed(path, errno, e);
    if (ready == 0)
        return ps_fail(e, PS_ERR_IO, "%s: it is a pipe, and nothing was written to it for %d ms", path, wait_ms);
    return PS_OK;
}

static enum ps_err
input_file_check(const char *path, int fd, int wait_ms, struct ps_error *e)
{
    struct stat st;
    int flags;

    if (fstat(fd, &st) != 0)
        return input_file_failed(path, errno, e);
    if (S_ISDIR(st.st_mode))
        return input_file_failed(path, EISDIR, e);
    if ((flags = fcntl(fd, F_GETFL)) < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return input_file_failed(path, errno, e);
    return S_ISFIFO(st.st_mode) ? input_file_await(path, fd, wait_ms, e) : PS_OK;
}

enum ps_err
input_file_open(const char *path, int wait_ms, int *fd, struct ps_error *e)
{
    enum ps_err err;

    if ((*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0)
        return input_file_failed(path, errno, e);
    if ((err = input_file_check(path, *fd, wait_ms, e)) != PS_OK) {
        close(*fd);
        *fd = -1;
    }
    return err;
}

/* ---- Text ---- */

struct input_text {
    char *data;
    size_t len, size;
};

/* For at least one byte more and the terminator. */
static bool
input_text_grow(struct input_text *t)
{
    size_t size = t->size == 0 ? INPUT_FILE_START : 2 * t->size;
    char *data;

    if (t->size > t->len + 1)
        return true;
    if ((data = realloc(t->data, size)) == NULL)
        return false;
    t->data = data;
    t->size = size;
    return true;
}

static enum ps_err
input_text_fill(int fd, const char *path, size_t max, enum ps_err code, struct input_text *t, struct ps_error *e)
{
    ssize_t got;

    do {
        if (!input_text_grow(t))
            return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", path);
        got = read(fd, t->data + t->len, t->size - t->len - 1);
        if (got < 0 && errno != EINTR)
            return ps_fail(e, code, "%s: %s", path, strerror(errno));
        t->len += (size_t)MAX(got, (ssize_t)0);
        if (t->len > max)
            return ps_fail(e, code, "%s: it has more than %zu bytes", path, max);
    } while (got != 0);
    t->data[t->len] = '\0';
    return PS_OK;
}

/* A zero byte would end a line for one function and not for the next. */
static enum ps_err
input_text_check(const char *path, const struct input_text *t, enum ps_err code, struct ps_error *e)
{
    struct text_lines lines = text_lines_start(t->data, t->len);
    enum ps_err err = file_kind_check_text(path, t->data, t->len, code, e);
    struct span line;

    while (err == PS_OK && text_lines_next(&lines, &line))
        if (memchr(line.data, '\0', line.len) != NULL)
            err = ps_fail(e, code, "%s:%llu: the line holds a zero byte", path, (unsigned long long)lines.number);
    return err;
}

enum ps_err
input_file_text_of(int fd, const char *path, size_t max, enum ps_err code, char **out, size_t *len, struct ps_error *e)
{
    struct input_text t = {0};
    enum ps_err err = input_text_fill(fd, path, max, code, &t, e);

    if (err == PS_OK)
        err = input_text_check(path, &t, code, e);
    if (err != PS_OK) {
        free(t.data);
        return err;
    }
    *out = t.data;
    *len = t.len;
    return PS_OK;
}

enum ps_err
input_file_text(const char *path, size_t max, enum ps_err code, char **out, size_t *len, struct ps_error *e)
{
    struct ps_error why;
    enum ps_err err;
    int fd;

    if (input_file_open(path, INPUT_FILE_WAIT_MS, &fd, &why) != PS_OK)
        return ps_fail(e, code, "%s", why.text);
    err = input_file_text_of(fd, path, max, code, out, len, e);
    close(fd);
    return err;
}
