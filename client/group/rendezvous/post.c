#include "client/group/rendezvous/post.h"

#include <stdlib.h>

struct post {
    struct conn_out out;
    uint8_t *bytes;
};

static void
post_done(struct conn_out *out, enum ps_err result)
{
    struct post *p = CONTAINER_OF(out, struct post, out);

    (void)result; /* the connection's owner hears of its end */
    free(p->bytes);
    free(p);
}

bool
post_message(struct conn *c, enum msg_type type, uint64_t request, const ProtobufCMessage *m)
{
    struct post *p = calloc(1, sizeof *p);
    size_t len;

    if (p == NULL || (p->bytes = wire_encode_new(type, request, m, 0, &len)) == NULL) {
        free(p);
        return false;
    }
    p->out.head = p->bytes;
    p->out.head_len = len;
    p->out.done = post_done;
    conn_send(c, &p->out, false);
    return true;
}

void
post_error(struct conn *c, uint64_t request, enum ps_err code, const char *text)
{
    Psd__Error m = PSD__ERROR__INIT;

    m.code = (uint32_t)code;
    m.text = (char *)(uintptr_t)text;
    if (!post_message(c, MSG_ERROR, request, &m.base))
        return;
}
