/* What the modules of the inbox share. l->msg is the message that came; its handler ends the requests that it answers,
 * or fails the core when the message cannot be true. */
#ifndef CLIENT_CORE_SHARDS_INBOX_H
#define CLIENT_CORE_SHARDS_INBOX_H

#include "client/core/shards/shard_link.h"

/* The core fails: the shard broke the protocol. */
void inbox_broke(struct core *c, struct shard_link *l, const char *what);

/* Answered: its operation is notified, then the request ends. error NULL: well. */
void inbox_answered(struct core *c, struct shard_link *l, struct request *p, const struct ps_error *error);

/* ---- inbox_data.c ---- */

/* Find the places of the payload of the DATA frame in l->msg. False when the link is gone. */
bool inbox_data_begin(struct core *c, struct shard_link *l, struct core_payload_dest *place);
void inbox_data(struct core *c, struct shard_link *l); /* all of it is there */

/* ---- inbox_variable.c ---- */

void inbox_declared(struct core *c, struct shard_link *l);

/* ---- inbox_ask.c: metadata is kept as it came ---- */

void inbox_report(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta);
void inbox_answer_kept(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta);

#endif
