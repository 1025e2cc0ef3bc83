/* Which of a worker's pushes past last_seq are resolved. Pure.
 *
 *     last_seq │ waits: a barrier, a push of a step │ push, resolved │ push, resolved │ next_seq
 *                                                     └── the resolved set ─────────┘
 *
 * A process that starts again knows from them which of the messages that come again it must not take twice. After a
 * rollback they are, with the durable pushes that were replayed, the worker's pushes that are there although they lie
 * past its row's last_seq: survivors. The welcome lists them with their outcomes, so that the worker neither sends them
 * again nor counts them as lost.
 *
 *     rolled back ──replay──► survivors, in the numbers of the boot before ──the worker sends its first message, in
 *     numbers that follow last_seq──► they are forgotten, and its row belongs to this boot
 *
 * The numbers are those of the boot that the session's row names: a client that has numbered its messages again since,
 * after a welcome of a later boot, has no message among them. Outcomes other than OK are in the session's outcomes
 * (sequence.h). */
#ifndef SERVER_CORE_WORKERS_RESOLVED_SET_H
#define SERVER_CORE_WORKERS_RESOLVED_SET_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct resolved_set {
    uint64_t from; /* bit i of byte j: from + 8 j + i */
    uint8_t *bits;
    uint32_t len, size; /* bytes */
};

/* floor: no sequence below it need be kept. Nor are those more than a client's window before this one. False: out of
 * memory. */
bool resolved_set_add(struct resolved_set *x, uint64_t seq, uint64_t floor) PS_MUST_USE;
bool resolved_set_has(const struct resolved_set *x, uint64_t seq);
bool resolved_set_copy(struct resolved_set *x, uint64_t from, const uint8_t *bits, size_t len) PS_MUST_USE;
void resolved_set_forget(struct resolved_set *x);

#endif
