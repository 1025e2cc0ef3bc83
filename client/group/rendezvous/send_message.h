/* One message out on a connection, forgotten once it is sent. Glue. */
#ifndef CLIENT_GROUP_RENDEZVOUS_SEND_MESSAGE_H
#define CLIENT_GROUP_RENDEZVOUS_SEND_MESSAGE_H

#include "common/core/wire/wire.h"
#include "common/net/conn.h"

/* False: no memory; nothing is sent. A message that conn_finish() follows is sent before the end. */
bool send_message(struct conn *c, enum msg_type type, uint64_t request, const ProtobufCMessage *m) PS_MUST_USE;

/* ERROR; without memory nothing is sent. */
void send_error(struct conn *c, uint64_t request, enum ps_err code, const char *text);

#endif
