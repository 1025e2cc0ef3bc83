/* Sends one HTTP request, or bytes that are none: a blocking socket and nothing else. */
#ifndef TESTS_SYSTEM_HTTP_CLIENT_H
#define TESTS_SYSTEM_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HTTP_CLIENT_WAIT_MS     60000 /* the longest that any answer may take */
#define HTTP_CLIENT_REQUEST_MAX 1024

struct http_reply {
    int status;       /* 0: the connection ended without an answer */
    char *head;       /* the status line and the headers, terminated */
    const char *body; /* within what head points to */
    size_t body_len;
};

/* Connect to "127.0.0.1:4000". -1: refused. */
int http_client_connect(const char *address);

/* Send these bytes, as far as the other side takes them. */
void http_client_send(int fd, const void *bytes, size_t len);

/* Read to the end of the connection, which is closed. */
struct http_reply http_client_read(int fd);

/* The same of what take() gives, as recv() would. */
struct http_reply http_client_take(ssize_t (*take)(void *arg, void *data, size_t n), void *arg);

/* "GET /metrics" and a header, or "", as it is sent; its length. */
int http_client_write(char text[HTTP_CLIENT_REQUEST_MAX], const char *request, const char *header);

/* The address of the newest psd's pages, from its log. False: it is not there yet. */
bool http_client_find(const char *log, char *address, size_t size);

/* One request, "GET /metrics"; and with a header, "Authorization: Bearer x". */
struct http_reply http_client_ask(const char *address, const char *request);
struct http_reply http_client_ask_with(const char *address, const char *request, const char *header);

void http_reply_free(struct http_reply *r);

#endif
