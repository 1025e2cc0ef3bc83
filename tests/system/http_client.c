#include "tests/system/http_client.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int
http_client_connect(const char *address)
{
    struct timeval patience = {.tv_sec = HTTP_CLIENT_WAIT_MS / 1000};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *colon = strchr(address, ':');
    char host[64];

    ck_assert_int_ge(fd, 0);
    ck_assert_ptr_nonnull(colon);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    ck_assert_int_eq(inet_pton(AF_INET, host, &to.sin_addr), 1);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

void
http_client_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    ssize_t n;

    for (; len > 0 && (n = send(fd, at, len, MSG_NOSIGNAL)) > 0; len -= (size_t)n)
        at += n;
}

struct http_reply
http_client_take(ssize_t (*take)(void *arg, void *data, size_t n), void *arg)
{
    size_t size = 4096, len = 0;
    char *text = malloc(size), *end;
    struct http_reply r = {.status = 0};
    ssize_t n;

    while ((n = take(arg, text + len, size - 1 - len)) > 0) {
        len += (size_t)n;
        if (len + 1 == size)
            text = realloc(text, size *= 2);
        ck_assert_ptr_nonnull(text);
    }
    text[len] = '\0';
    r.head = text;
    r.body = text + len;
    if (sscanf(text, "HTTP/1.%*d %d", &r.status) == 1 && (end = strstr(text, "\r\n\r\n")) != NULL) {
        end[2] = '\0';
        r.body = end + 4;
        r.body_len = len - (size_t)(r.body - text);
    }
    return r;
}

static ssize_t
take_plain(void *fd, void *data, size_t n)
{
    return recv(*(int *)fd, data, n, 0);
}

struct http_reply
http_client_read(int fd)
{
    struct http_reply r = http_client_take(take_plain, &fd);

    close(fd);
    return r;
}

bool
http_client_find(const char *log, char *address, size_t size)
{
    const char *at = NULL, *next;

    while ((next = strstr(at != NULL ? at : log, "http=")) != NULL)
        at = next + strlen("http=");
    if (at == NULL)
        return false;
    snprintf(address, size, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

int
http_client_write(char text[HTTP_CLIENT_REQUEST_MAX], const char *request, const char *header)
{
    return snprintf(text, HTTP_CLIENT_REQUEST_MAX, "%s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", request, header,
                    *header != '\0' ? "\r\n" : "");
}

struct http_reply
http_client_ask_with(const char *address, const char *request, const char *header)
{
    char text[HTTP_CLIENT_REQUEST_MAX];
    int fd = http_client_connect(address);

    if (fd < 0)
        return (struct http_reply){.head = strdup(""), .body = ""};
    http_client_send(fd, text, (size_t)http_client_write(text, request, header));
    return http_client_read(fd);
}

struct http_reply
http_client_ask(const char *address, const char *request)
{
    return http_client_ask_with(address, request, "");
}

void
http_reply_free(struct http_reply *r)
{
    free(r->head);
    r->head = NULL;
}
