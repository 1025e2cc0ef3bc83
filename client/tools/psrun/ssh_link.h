/* The lifeline to an agent: the pipe into ssh that carries the order, commands and a beat, and that ends when psrun
 * does. Glue over libuv. */
#ifndef CLIENT_TOOLS_PSRUN_SSH_LINK_H
#define CLIENT_TOOLS_PSRUN_SSH_LINK_H

#include <uv.h>

#include "client/tools/psrun/remote.h"

#define SSH_LINK_TEXT_MAX  512
#define SSH_LINK_HANDLES   2    /* that ssh_link_close() closes */
#define SSH_LINK_LINGER_MS 2000 /* that an agent has to report that all was killed, before ssh is killed */

struct ssh_link {
    /* private */
    uv_pipe_t pipe;
    uv_timer_t beat;
    uint64_t beat_ms, beaten_ms; /* at least between two; when the last was sent */
    bool open;
    struct remote_reader reader; /* of what comes back */
};

/* Open it and send the order. *child: the end for ssh, the caller's to close. data: of the handles. A libuv error; the
 * handles are then open, too. */
int ssh_link_open(struct ssh_link *l, uv_loop_t *loop, void *data, const struct remote_order *order, int *child);

/* Nothing happens on one that is not open: then ssh has ended, which is reported anyway. */
void ssh_link_send(struct ssh_link *l, enum remote_command command);

/* Send a beat when it is time for one: for a caller that keeps the loop waiting. */
void ssh_link_beat(struct ssh_link *l);

/* closed: called for each of the SSH_LINK_HANDLES. Nothing happens on one that is not open. */
void ssh_link_close(struct ssh_link *l, uv_close_cb closed);

#endif
