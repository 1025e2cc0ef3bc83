/* How two sets of tensors differ: the weights, and the optimizers' slots, of two checkpoints or two safetensors files.
 * Read a piece at a time, so that neither has to fit into memory. Blocks on the disk. */
#ifndef CLIENT_TOOLS_PSCTL_CHECKPOINT_DIFF_H
#define CLIENT_TOOLS_PSCTL_CHECKPOINT_DIFF_H

#include "common/core/base/base.h"
#include "common/core/format/checkpoint.h"
#include "common/system/safetensors_file.h"

/* One of the two. */
struct diff_snapshot {
    bool is_checkpoint;
    char *path;
    struct safetensors_file files[CHECKPOINT_FILES]; /* of a safetensors file the first alone */
};

/* path: a checkpoint's directory, DIR/latest, or a safetensors file. slots: the second file as well, which a checkpoint
 * alone has (PS_ERR_INVALID). PS_ERR_IO, PS_ERR_DATA. *out is ended by snapshot_close(), also after a failure. */
enum ps_err snapshot_open(const char *path, bool slots, struct diff_snapshot *out, struct ps_error *e) PS_MUST_USE;
void snapshot_close(struct diff_snapshot *s);

enum checkpoint_diff_kind {
    CHECKPOINT_DIFF_NONE,
    CHECKPOINT_DIFF_ADDED,    /* only the second has it */
    CHECKPOINT_DIFF_REMOVED,  /* only the first has it */
    CHECKPOINT_DIFF_RESHAPED, /* shape or type are others */
    CHECKPOINT_DIFF_CHANGED
};
const char *checkpoint_diff_kind_name(enum checkpoint_diff_kind kind); /* "added" */

struct checkpoint_diff {
    const char *name; /* borrowed from one of the two */
    enum checkpoint_diff_kind kind;
    const struct safetensors_tensor *a, *b; /* NULL: not there */
    uint64_t elements, changed;             /* of b, else of a; how many are not equal */
    double most, l2, l2_before;             /* the greatest |b - a|; norms of b - a, and of a */
    uint64_t nonfinite; /* changed ones where one of the two is no finite number; not in the norms */
};

/* Hand every tensor of either to take(), by name, first those of the weights. PS_ERR_IO, PS_ERR_DATA, PS_ERR_NOMEM. */
typedef void (*checkpoint_diff_take)(void *arg, const struct checkpoint_diff *d);
enum ps_err checkpoint_diff_all(const struct diff_snapshot *a, const struct diff_snapshot *b, checkpoint_diff_take take,
                                void *arg, struct ps_error *e) PS_MUST_USE;

#endif
