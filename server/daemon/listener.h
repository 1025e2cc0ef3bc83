/* Sockets that accept: TCP and Unix, handed over by the process that started psd, or opened at the addresses that
 * options give. */
#ifndef SERVER_DAEMON_LISTENER_H
#define SERVER_DAEMON_LISTENER_H

#include "common/core/cluster/address.h"
#include "server/daemon/daemon.h"

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    struct daemon *daemon;
    struct listener *next;
    bool is_unix;
    bool was_activated;
    bool waits;                /* a new connection waits for memory */
    char address[ADDRESS_MAX]; /* the real one: "127.0.0.1:41234", "unix:/run/psd.sock" */
};

/* Listen on all that was handed over, and on what --listen and --unix name of the kinds that were not. One sentence on
 * failure; listeners_close() is owed also then. */
enum ps_err listeners_open(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* Try again to accept connections for which there was no memory. */
void listeners_again(struct daemon *d);

/* Accept no more. Calling it again is allowed. */
void listeners_close(struct daemon *d);

#endif
