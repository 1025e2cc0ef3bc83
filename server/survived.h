/* After a rollback: which of a worker's pushes are there although they lie past its row's last_seq, because they were
 * durable and were replayed, or were resolved ahead of something that waited when the save was made. The welcome tells,
 * so that the worker neither sends them again nor counts them as lost.
 *
 *     rolled back ──replay──► survivors, in the numbers of the boot before ──the worker sends its first message, in
 *     numbers that follow last_seq──► they are forgotten, and its row belongs to this boot
 *
 * The numbers are those of the boot that the session's row names: a client that has numbered its messages anew since,
 * after a welcome of a later boot, has no message among them. Pure. */
#ifndef SERVER_SURVIVED_H
#define SERVER_SURVIVED_H

#include "common/base.h"
#include "common/ps_err.h"

struct survived {
    uint64_t from; /* bit i of byte j: from + 8 j + i */
    uint8_t *bits;
    uint32_t len, size; /* bytes */
};

/* floor: no sequence below it need be kept. Nor are those more than a client's window before this one. False: out of
 * memory. */
bool survived_add(struct survived *x, uint64_t seq, uint64_t floor) PS_MUST_USE;
bool survived_has(const struct survived *x, uint64_t seq);
bool survived_copy(struct survived *x, uint64_t from, const uint8_t *bits, size_t len) PS_MUST_USE;
void survived_forget(struct survived *x);

#endif
