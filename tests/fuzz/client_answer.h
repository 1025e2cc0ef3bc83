/* A shard's answers to frames of the client core, honest or with a lie. */
#ifndef TESTS_FUZZ_CLIENT_ANSWER_H
#define TESTS_FUZZ_CLIENT_ANSWER_H

#include "tests/fuzz/bytes.h"
#include "tests/fuzz/client_world.h"

/* 0 is honest; the others each spoil one thing, by the message: its request, a length, a count, a code, a version, a
 * sequence, its type. */
#define CLIENT_LIES 10

/* Answer h, a frame that this shard received. What the lie consists of is chosen from `in`. The frame begins; its
 * payload comes with client_world_end_frame(). */
void client_answer(struct fuzz_bytes *in, struct client_world *w, uint32_t shard, const struct client_received *h,
                   uint8_t lie);

/* Any message, packed. */
void client_message(struct client_world *w, uint32_t shard, enum msg_type type, uint64_t request,
                    const ProtobufCMessage *message, uint64_t payload_len);

#endif
