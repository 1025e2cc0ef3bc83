/* What is valid in each message, as far as it can be said without the receiver's state. For wire.c; the
 * client looks at a set before it sends it. */
#ifndef COMMON_WIRE_CHECK_H
#define COMMON_WIRE_CHECK_H

#include "common/core/wire/wire.h"

/* msg was unpacked; what it may leave out is filled in from the arena. */
typedef enum ps_err wire_check(struct wire_msg *msg, struct arena *arena, struct ps_error *e);

wire_check wire_check_hello, wire_check_welcome, wire_check_declare, wire_check_pull, wire_check_data, wire_check_push,
    wire_check_ack, wire_check_tick, wire_check_barrier, wire_check_skip, wire_check_cancel, wire_check_query,
    wire_check_report, wire_check_error, wire_check_event, wire_check_set, wire_check_attach, wire_check_declared,
    wire_check_checkpoint, wire_check_checkpoint_done, wire_check_restore, wire_check_meet, wire_check_met,
    wire_check_evict, wire_check_evicted;

#endif
