#include "client/group/links/bell.h"

static void
bell_done(struct conn_out *o, enum ps_err result)
{
    struct bell *b = CONTAINER_OF(o, struct bell, out);

    (void)result; /* on failure the connection has ended */
    b->rings = false;
}

void
bell_init(struct bell *b, struct shm_ring *share, struct conn *conn)
{
    *b = (struct bell){.shm = share, .conn = conn};
    frame_head_encode(&(struct frame_head){.version = FRAME_VERSION, .type = MSG_GROUP_BELL}, b->head);
}

void
bell_ring(struct bell *b, enum shm_ring_wants what)
{
    if (!shm_ring_notify(b->shm, what) || b->rings || b->conn == NULL)
        return;
    b->rings = true;
    b->out = (struct conn_out){.done = bell_done, .head = b->head, .head_len = FRAME_HEAD_SIZE};
    conn_send(b->conn, &b->out, false);
}
