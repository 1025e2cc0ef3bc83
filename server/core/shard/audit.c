#include "server/core/shard/audit.h"

#include <inttypes.h>

#include "common/core/base/text.h"
#include "server/core/shard/permissions.h"
#include "server/core/shard_state.h"

enum { AUDIT_TEXT_MAX = 768 };

/* " job=\"digits\"", or nothing for a field at its default, or with parts of its own. */
static void
audit_put_field(struct text *t, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = (const uint8_t *)m + f->offset;
    const char *text;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return;
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        if ((text = *(const char *const *)at) != NULL && *text != '\0')
            text_put(t, " %s=\"%s\"", f->name, text);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        if (*(const protobuf_c_boolean *)at)
            text_put(t, " %s", f->name);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        if (*(const uint32_t *)at != 0)
            text_put(t, " %s=%" PRIu32, f->name, *(const uint32_t *)at);
        break;
    default:
        break;
    }
}

void
audit_asked(struct shard *s, const struct connection *c, const struct wire_msg *msg, const char *token)
{
    const ProtobufCMessage *m = msg->u.base;
    char out[AUDIT_TEXT_MAX];
    struct text t = text_start(out, sizeof out);

    if (permissions_of(msg->type) != ROLE_ADMIN)
        return;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        audit_put_field(&t, m, &m->descriptor->fields[i]);
    actions_log(s, SHARD_LOG_INFO, "audit %s token=%s peer=%s%s", wire_type_name(msg->type),
                token != NULL && *token != '\0' ? token : "-", c->peer, out);
}
