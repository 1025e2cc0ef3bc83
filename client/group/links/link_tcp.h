/* A link over TCP: a conn (common/net/conn.h), handed over when the ranks have greeted each other. */
#ifndef CLIENT_GROUP_LINKS_LINK_TCP_H
#define CLIENT_GROUP_LINKS_LINK_TCP_H

#include "client/group/links/rank_link.h"
#include "common/net/conn.h"

/* Take over a started connection, which is heap memory of malloc(); link_tcp_free() frees the link once closed() came.
 * A host that has vanished without a word is noticed after about silence_ms. NULL: out of memory, and conn is not
 * taken. */
struct rank_link *link_tcp_new(struct conn *conn, uint32_t rank, uint32_t silence_ms);

#endif
