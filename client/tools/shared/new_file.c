#include "client/tools/shared/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tools/shared/interrupt.h"
#include "common/core/base/hex.h"
#include "common/system/file_error.h"

#define MODE 0666
#define NAME "XXXXXX" /* distinguishes it from other files beside its path */

/* ---- Signals ---- */

static const char *volatile unfinished;

static void
new_file_on_signal(int sig)
{
    if (unfinished != NULL)
        (void)unlink(unfinished);
    (void)raise(sig); /* SA_RESETHAND: it ends the process now */
}

static void
new_file_guard(const char *partial)
{
    unfinished = partial;
    heed_with(partial != NULL ? new_file_on_signal : SIG_DFL, (int)(SA_RESETHAND | SA_RESTART | SA_NODEFER));
}

/* ---- The file ---- */

/* Created under a new name; the X's at its end are the part that may change. open() gives it the mode of every new
 * file, as mkostemp() would not: one would have to read the umask for that, and umask() reads it by changing it for all
 * threads. */
static int
new_file_make(char *partial)
{
    char *name = partial + strlen(partial) - strlen(NAME);
    uint8_t random[sizeof NAME / 2];
    int fd;

    do {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        hex_write(random, sizeof random, name);
        fd = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

enum ps_err
new_file_begin(struct new_file *f, const char *path, struct ps_error *e)
{
    struct stat st;
    enum ps_err err;

    *f = (struct new_file){.fd = -1, .path = strdup(path)};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ps_fail(e, PS_ERR_INVALID, "%.300s is there and is no file", path);
    if (f->path == NULL || asprintf(&f->partial, "%s." NAME, path) < 0) {
        f->partial = NULL;
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    }
    if ((f->fd = new_file_make(f->partial)) < 0) {
        err = file_failed(e, "make", path);
        free(f->partial);
        f->partial = NULL;
        return err;
    }
    new_file_guard(f->partial);
    return PS_OK;
}

/* The name is on disk, too. */
static enum ps_err
new_file_sync_directory(const char *path, struct ps_error *e)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    enum ps_err err = fd >= 0 && fsync(fd) == 0 ? PS_OK : file_failed(e, "sync the directory of", path);

    if (fd >= 0)
        close(fd);
    free(dir);
    return err;
}

enum ps_err
new_file_end(struct new_file *f, struct ps_error *e)
{
    if (fsync(f->fd) != 0)
        return file_failed(e, "sync", f->partial);
    if (rename(f->partial, f->path) != 0)
        return file_failed(e, "make", f->path);
    new_file_guard(NULL);
    free(f->partial);
    f->partial = NULL;
    return new_file_sync_directory(f->path, e);
}

void
new_file_close(struct new_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->partial != NULL) {
        (void)unlink(f->partial);
        new_file_guard(NULL);
    }
    free(f->partial);
    free(f->path);
    *f = (struct new_file){.fd = -1};
}
