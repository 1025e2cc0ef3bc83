/* The redo log: durable pushes between saves, so that they survive power loss.
 *
 *     push ──applied──► record written to the live store in the same transaction ──SHARD_REDO──► saver copies it to the
 *     durable environment, many to one sync ──SHARD_DURABLE──► answers go out; the live copy is erased
 *
 * A record (RedoRecord of store.proto, then gradients) speaks of one push, or of one step's update in sync, or of rows
 * that changed by other means than pushes (jobs, variables, sessions that begin, lapse or finish). Records are in the
 * order of what happened. Replayed over the save before them they give the same blocks, bit by bit, as far as all
 * pushes were durable; pushes that were not are missing, and their workers are told (ROLLED_BACK).
 *
 * A record is cut into pieces of the store's few sizes: as many of the largest as it fills, then the next, then the
 * smallest. Pieces are numbered from 1 without gaps and lie behind the blocks (store_redo_key()). Each begins with a
 * redo_head; a record's pieces are in one transaction, live and durable.
 *
 * The log is cut by saves: pieces before the manifest's `redo` are in the save.
 *
 * A worker's pushes that were replayed lie past its row's last_seq, with gaps between: the row keeps which
 * (`survived`), so that the worker neither sends them again nor counts them as lost; see hello.c. */
#ifndef SERVER_REDO_H
#define SERVER_REDO_H

#include "common/base.h"
#include "common/ps_err.h"
#include "shard.h"
#include "store.h"

#define REDO_FORMAT 1

/* Starts every piece. Little-endian, 48 bytes, so that gradients in a record's first piece may be aligned. */
struct redo_head {
    uint64_t number;      /* of this piece */
    uint64_t record;      /* of the record's first piece */
    uint64_t payload_len; /* bytes of gradients, over all pieces */
    uint32_t meta_len;    /* bytes of metadata before them; gradients begin at the next multiple of 16 */
    uint32_t len;         /* bytes of the record in this piece */
    uint32_t piece, pieces;
    uint16_t format; /* REDO_FORMAT */
    uint16_t reserved[3];
};
static_assert(sizeof(struct redo_head) == 48, "as a block's head");

#endif
