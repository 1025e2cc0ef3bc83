/* Reads through zlib, which passes files that are not gzip through as they are. The buffer doubles as it fills, so
 * memory follows the real content of the file, never what a header claims. */
#include "client/data/read_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "common/system/input_file.h"

#define READ_FILE_START (64 * KIB)
#define READ_FILE_ONCE  (64 * MIB) /* most that one gzread() is asked for */

struct file_bytes {
    char *data;
    size_t len, size;
};

/* Space for at least one more byte and the terminator. */
static bool
bytes_grow(struct file_bytes *b)
{
    size_t size = b->size == 0 ? READ_FILE_START : b->size * 2;
    char *data;

    if (b->size - b->len > 1)
        return true;
    if (size <= b->size || (data = realloc(b->data, size)) == NULL)
        return false;
    b->data = data;
    b->size = size;
    return true;
}

static enum ps_err
gzip_failure(gzFile file, const char *path, size_t len, struct ps_error *e)
{
    int code;
    const char *text = gzerror(file, &code);

    if (code == Z_ERRNO)
        return ps_fail(e, PS_ERR_IO, "%s: %s", path, strerror(errno));
    if (code == Z_MEM_ERROR)
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory while unpacking", path);
    if (code == Z_BUF_ERROR)
        return ps_fail(e, PS_ERR_DATA, "%s: the gzip data ends too early, after %zu unpacked bytes", path, len);
    return ps_fail(e, PS_ERR_DATA, "%s: the gzip data is damaged after %zu unpacked bytes (%s)", path, len, text);
}

static enum ps_err
read_all(gzFile file, const char *path, struct file_bytes *b, struct ps_error *e)
{
    int got, code;

    for (;;) {
        if (!bytes_grow(b))
            return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory after %zu bytes", path, b->len);
        got = gzread(file, b->data + b->len, (unsigned)MIN(b->size - b->len - 1, READ_FILE_ONCE));
        if (got <= 0)
            break;
        b->len += (size_t)got;
    }
    b->data[b->len] = '\0';
    gzerror(file, &code); /* only the error shows that a file is cut off: gzread() returns the bytes before that */
    return got < 0 || code != Z_OK ? gzip_failure(file, path, b->len, e) : PS_OK;
}

static enum ps_err
open_file(const char *path, gzFile *out, struct ps_error *e)
{
    enum ps_err err;
    int fd;

    if ((err = input_file_open(path, INPUT_FILE_WAIT_MS, &fd, e)) != PS_OK)
        return err;
    if ((*out = gzdopen(fd, "rb")) == NULL) {
        close(fd);
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", path);
    }
    return PS_OK;
}

enum ps_err
read_file(const char *path, char **out, size_t *len, struct ps_error *e)
{
    struct file_bytes b = {0};
    gzFile file = NULL;
    enum ps_err err;

    if ((err = open_file(path, &file, e)) != PS_OK)
        return err;
    err = read_all(file, path, &b, e);
    gzclose_r(file);
    if (err != PS_OK) {
        free(b.data);
        return err;
    }
    if ((*out = realloc(b.data, b.len + 1)) == NULL) /* free the excess of the doubling */
        *out = b.data;
    *len = b.len;
    return PS_OK;
}
