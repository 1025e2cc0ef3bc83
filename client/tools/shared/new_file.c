#include "client/tools/shared/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/system/file_error.h"

#define MODE 0666

/* ---- Signals ---- */

static const int heeded[] = {SIGINT, SIGTERM, SIGHUP};
static const char *volatile unfinished;

static void
on_signal(int sig)
{
    if (unfinished != NULL)
        (void)unlink(unfinished);
    (void)raise(sig); /* SA_RESETHAND: it ends the process now */
}

/* Those that are ignored, as under nohup, stay so. */
static void
heed(const char *partial)
{
    struct sigaction was, handler = {.sa_handler = partial != NULL ? on_signal : SIG_DFL,
                                     .sa_flags = (int)(SA_RESETHAND | SA_RESTART | SA_NODEFER)};

    unfinished = partial;
    for (size_t i = 0; i < ARRAY_LEN(heeded); i++)
        if (sigaction(heeded[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(heeded[i], &handler, NULL);
}

/* ---- The file ---- */

/* Modes of a file that open() would make, not mkstemp()'s. */
static void
usual_mode(int fd)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    (void)fchmod(fd, MODE & ~mask);
}

enum ps_err
new_file_begin(struct new_file *f, const char *path, struct ps_error *e)
{
    struct stat st;

    *f = (struct new_file){.fd = -1, .path = strdup(path)};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ps_fail(e, PS_ERR_INVALID, "%.300s is there and is no file", path);
    if (f->path == NULL || asprintf(&f->partial, "%s.XXXXXX", path) < 0) {
        f->partial = NULL;
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    }
    if ((f->fd = mkostemp(f->partial, O_CLOEXEC)) < 0) {
        free(f->partial);
        f->partial = NULL;
        return file_failed(e, "make", path);
    }
    usual_mode(f->fd);
    heed(f->partial);
    return PS_OK;
}

/* The name is on disk, too. */
static enum ps_err
sync_directory(const char *path, struct ps_error *e)
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
    heed(NULL);
    free(f->partial);
    f->partial = NULL;
    return sync_directory(f->path, e);
}

void
new_file_close(struct new_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->partial != NULL) {
        (void)unlink(f->partial);
        heed(NULL);
    }
    free(f->partial);
    free(f->path);
    *f = (struct new_file){.fd = -1};
}
