#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"

/* The protocol is one datagram of NAME=value lines to a Unix socket; a leading @ stands for the abstract namespace. */
void
notify_systemd(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path != NULL ? strlen(path) : 0;
    int fd;

    if (len == 0 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

static bool
write_addresses(const struct daemon *d, int fd)
{
    for (const struct listener *l = d->listeners; l != NULL; l = l->next)
        if (dprintf(fd, "%s\n", l->address) < 0)
            return false;
    return true;
}

static enum ps_err
ready_file(const struct daemon *d, const char *path, struct ps_error *e)
{
    char fresh[PATH_MAX];
    int fd;
    bool ok;

    snprintf(fresh, sizeof fresh, "%s.new", path);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write %s: %s", fresh, strerror(errno));
    ok = write_addresses(d, fd);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(fresh, path) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return PS_OK;
}

enum ps_err
notify_ready(struct daemon *d, struct ps_error *e)
{
    const struct options *o = d->options;
    enum ps_err err = PS_OK;

    if (o->ready_fd != 0) {
        if (!write_addresses(d, (int)o->ready_fd))
            err = ps_fail(e, PS_ERR_IO, "cannot write to descriptor %" PRIu64 " (--ready-fd): %s", o->ready_fd,
                          strerror(errno));
        close((int)o->ready_fd);
    }
    if (err == PS_OK && o->ready_file != NULL)
        err = ready_file(d, o->ready_file, e);
    if (err == PS_OK)
        notify_systemd("READY=1");
    return err;
}
