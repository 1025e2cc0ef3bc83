#include "common/system/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum ps_err
secret_check_file(const char *path, int fd, size_t max, struct ps_error *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return ps_fail(e, PS_ERR_CONFIG, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ps_fail(e, PS_ERR_CONFIG, "%s is not a regular file", path);
    if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return ps_fail(e, PS_ERR_CONFIG, "%s has mode %03o, so others may use what is secret in it: chmod g-w,o-rwx %s",
                       path, (unsigned)st.st_mode & 0777, path);
    if ((uint64_t)st.st_size > max)
        return ps_fail(e, PS_ERR_CONFIG, "%s has %llu bytes; at most %zu are read", path,
                       (unsigned long long)st.st_size, max);
    return PS_OK;
}

static enum ps_err
read_all(const char *path, int fd, size_t max, char *text, size_t *len, struct ps_error *e)
{
    ssize_t n;

    for (*len = 0; *len < max; *len += (size_t)n) {
        n = read(fd, text + *len, max - *len);
        if (n == 0)
            return PS_OK;
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n < 0)
            return ps_fail(e, PS_ERR_CONFIG, "cannot read %s: %s", path, strerror(errno));
    }
    return PS_OK;
}

enum ps_err
secret_read(const char *path, size_t max, char **text, size_t *len, struct ps_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    enum ps_err err;

    *text = NULL;
    *len = 0;
    if (fd < 0)
        return ps_fail(e, PS_ERR_CONFIG, "cannot read %s: %s", path, strerror(errno));
    err = secret_check_file(path, fd, max, e);
    if (err == PS_OK && (*text = malloc(max)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for %s", path);
    if (err == PS_OK)
        err = read_all(path, fd, max, *text, len, e);
    close(fd);
    if (err != PS_OK) {
        secret_free(*text, *len);
        *text = NULL;
    }
    return err;
}

void
secret_free(char *text, size_t len)
{
    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
}
