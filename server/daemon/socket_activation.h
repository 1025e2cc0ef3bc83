/* Listening sockets that the process that started psd has opened for it: sd_listen_fds(3)'s protocol. LISTEN_FDS says
 * how many there are, from descriptor 3 on, LISTEN_PID whom they are for, LISTEN_FDNAMES what each is called, separated
 * by colons. They stay open there when psd ends: a client that connects while psd is restarted waits for the next one,
 * and is not refused.
 *
 *     "http"       metrics and health, in the place of --http; TCP, one at the most
 *     any other    workers: TCP ones in the place of --listen's, Unix ones in that of --unix */
#ifndef SERVER_DAEMON_SOCKET_ACTIVATION_H
#define SERVER_DAEMON_SOCKET_ACTIVATION_H

#include <stdbool.h>

#include "common/core/cluster/address.h"
#include "common/include/psclient/ps_err.h"

#define SOCKET_ACTIVATION_FIRST 3  /* the first one's descriptor */
#define SOCKET_ACTIVATION_MAX   16 /* how many there may be */

struct activated_socket {
    int fd; /* the holder's to close, or libuv's; not for processes that it starts */
    bool is_http, is_unix;
    char address[ADDRESS_MAX]; /* "127.0.0.1:7420", "unix:/run/psd.sock" */
};

struct activated_sockets {
    unsigned len;
    struct activated_socket sockets[SOCKET_ACTIVATION_MAX];
};

/* Take the sockets that the environment names, and remove the variables from it. None when it names none, or another
 * process. PS_ERR_CONFIG with a sentence: one of them is not what it must be. */
enum ps_err socket_activation_take(struct activated_sockets *h, struct ps_error *e) PS_MUST_USE;

/* The one for HTTP, or NULL. */
const struct activated_socket *socket_activation_http(const struct activated_sockets *h);

/* There is one for workers of this kind. */
bool socket_activation_has(const struct activated_sockets *h, bool is_unix);

#endif
