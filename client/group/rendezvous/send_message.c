#include "client/group/rendezvous/send_message.h"

#include <stdlib.h>

struct sent_message {
    struct conn_out out;
    uint8_t *bytes;
};

static void
send_message_done(struct conn_out *out, enum ps_err result)
{
    struct sent_message *p = CONTAINER_OF(out, struct sent_message, out);

    (void)result; /* the connection's owner is notified of its end */
    free(p->bytes);
    free(p);
}

bool
send_message(struct conn *c, enum msg_type type, uint64_t request, const ProtobufCMessage *m)
{
    struct sent_message *p = calloc(1, sizeof *p);
    size_t len;

    if (p == NULL || (p->bytes = wire_encode_new(type, request, m, 0, &len)) == NULL) {
        free(p);
        return false;
    }
    p->out.head = p->bytes;
    p->out.head_len = len;
    p->out.done = send_message_done;
    conn_send(c, &p->out, false);
    return true;
}

void
send_error(struct conn *c, uint64_t request, enum ps_err code, const char *text)
{
    Psd__Error m = PSD__ERROR__INIT;

    m.code = (uint32_t)code;
    m.text = (char *)(uintptr_t)text;
    if (!send_message(c, MSG_ERROR, request, &m.base))
        return;
}
