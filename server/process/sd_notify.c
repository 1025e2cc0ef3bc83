#include "server/process/sd_notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

/* One datagram of NAME=value lines to a Unix socket; a leading @ stands for the abstract namespace. */
void
sd_notify_send(const char *state)
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

void
sd_notify_busy(const char *status)
{
    char text[192];

    snprintf(text, sizeof text, "STATUS=%.100s\nEXTEND_TIMEOUT_USEC=60000000", status);
    sd_notify_send(text);
}

void
sd_notify_reloading(void)
{
    char text[64];

    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
    sd_notify_send(text);
}

void
sd_notify_reloaded(void)
{
    sd_notify_send("READY=1");
}

void
sd_notify_stopping(void)
{
    sd_notify_send("STOPPING=1\nSTATUS=Draining");
}
