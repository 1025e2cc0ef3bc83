/* ps_checkpoint.h: saves of a shard to its disk, checkpoints of a job, and values from files. Part of psclient.h, which
 * has the rules. ps_client_interrupt() ends each of these calls.
 *
 * Parameters:
 *   client      from ps_client_open()
 *   timeout_ms  milliseconds that the call waits at most; -1: the client's default; 0: do not wait
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for a client and everything that came from it; with options.progress_thread any. */
#ifndef PS_CHECKPOINT_H
#define PS_CHECKPOINT_H

#include <stdint.h>

#include "ps_client.h"
#include "ps_err.h"
#include "ps_optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Saves ------------------------------------------------------------------------------------------------------- */

/* What a save wrote.
 * Since: 0.1 */
struct ps_save_report {
    uint64_t save;          /* number */
    uint64_t blocks, bytes; /* in it; written */
    uint64_t ms;            /* that it took */
};

/* Save a shard's state to its durable directory now, and wait until it is on disk.
 *
 * Workers and observers may; training goes on meanwhile.
 *
 * Parameters:
 *   shard   from 0 on, below ps_client_shards()
 *   report  what it wrote; may be NULL
 * Errors:
 *   PS_ERR_UNSUPPORTED  the shard has no durable directory
 *   PS_ERR_FULL         the disk is full
 *   PS_ERR_IO           the disk failed
 *   PS_ERR_TIMEOUT      not on disk by the deadline; the save goes on
 *   PS_ERR_INVALID      no such shard, or client is NULL
 *   PS_ERR_DENIED       the token may not do this
 *   PS_ERR_CANCELLED    ps_client_interrupt(); the save goes on
 *   PS_ERR_NOMEM        no memory
 *   (session)           what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_save(ps_client *client, uint32_t shard, int timeout_ms, struct ps_save_report *report,
                                  struct ps_error *error) PS_MUST_USE;

/* What a shard's durable directory holds, after it was verified.
 * Since: 0.1 */
struct ps_verify_report {
    uint64_t save;           /* number of the save that was made for it */
    uint64_t blocks;         /* in it */
    uint64_t verified;       /* of these, lay on the disk unchanged, and were read and held against their checksums */
    uint64_t mended;         /* of these, were damaged, and are written again from memory */
    uint64_t differ;         /* of these, are well on the disk, and are not the same in memory: that is damaged */
    char first_mended[512];  /* which block is the first of them: "block 3 of variable 'w' of job 'train'"; or "" */
    char first_differs[512]; /* the same */
    uint64_t ms;             /* that it took */
};

/* Save a shard's state as ps_client_save() does, and read the blocks that lie on the disk unchanged.
 *
 * Each of these is held against its checksum, and against the live store's block. A durable directory holds two saves,
 * and blocks that do not change lie in both: two calls verify all of them. A block that is damaged on the disk is
 * written again. One that is damaged in memory is only reported, and the disk keeps the right one; blocks that have
 * changed since the save before the last cannot be compared. Reading keeps to the rate of psd's --save-rate. Workers
 * and observers may; training goes on meanwhile.
 *
 * Parameters:
 *   shard   from 0 on, below ps_client_shards()
 *   report  what was found; must not be NULL
 * Errors:
 *   PS_ERR_UNSUPPORTED  the shard has no durable directory, or is of a version that does not verify
 *   PS_ERR_FULL         the disk is full
 *   PS_ERR_IO           the disk failed
 *   PS_ERR_TIMEOUT      not done by the deadline; it goes on
 *   PS_ERR_INVALID      no such shard, or client or report is NULL
 *   PS_ERR_DENIED       the token may not do this
 *   PS_ERR_CANCELLED    ps_client_interrupt(); it goes on
 *   PS_ERR_NOMEM        no memory
 *   (session)           what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_verify(ps_client *client, uint32_t shard, int timeout_ms, struct ps_verify_report *report,
                                    struct ps_error *error) PS_MUST_USE;

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

/* How a checkpoint is taken. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_checkpoint_options {
    const char *job;  /* NULL: the client's own */
    const char *name; /* of the checkpoint, a directory in dir; NULL: "clock-N", or in async "unix-MILLISECONDS" */
    int at_clock;     /* nonzero: ssp and sync wait until all updates up to `clock` are done; else at once */
    uint64_t clock;
    uint32_t keep; /* keep this many of the newest in dir and remove the others; 0: all */
};

/* Write a job's weights and optimizer slots to dir/NAME, a directory that this process and every shard see under the
 * same path.
 *
 * In it are weights.safetensors and slots.safetensors, whole tensors whatever the number of shards, and manifest.json
 * with checksums. It appears whole or not at all; then the link dir/latest names it. In sync all blocks are of one
 * clock; elsewhere each shard's part is one instant of it, and the manifest says which. In sync without a clock it is
 * of the next one that all live workers reach, or of where they stopped. Workers and observers may; training goes on
 * meanwhile.
 *
 * What was begun is removed after an error. An error after the checkpoint has its name, which is set then, is of
 * removing older ones.
 *
 * Parameters:
 *   dir      there already
 *   options  NULL: all defaults
 *   name     where it went, freed with ps_free(); may be NULL
 * Errors:
 *   PS_ERR_NOT_FOUND  no such job
 *   PS_ERR_INVALID    a name with '/' or one that means something; a clock of an async job; a shard may not write
 *                     there; dir or client is NULL
 *   PS_ERR_IO         this side, or a shard, cannot write
 *   PS_ERR_FULL       the disk is full, here or at a shard
 *   PS_ERR_BUSY       one of that name is there or is being written; variables were declared meanwhile: call again
 *   PS_ERR_MISMATCH   the shards do not know the job alike
 *   PS_ERR_TIMEOUT    not written by the deadline
 *   PS_ERR_DENIED     the token may not do this
 *   PS_ERR_CANCELLED  ps_client_interrupt()
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_checkpoint(ps_client *client, const char *dir, const struct ps_checkpoint_options *options,
                                        int timeout_ms, char **name, struct ps_error *error) PS_MUST_USE;

/* Put a checkpoint's values into the cluster, which may have another number of shards. For observers only.
 *
 * Job and variables that are not there are made; those that are must be declared the same. Every worker's connection
 * ends, and a worker that comes back gets RESTORED: workers join again, at the checkpoint's clock or, if they live on,
 * at their own. Cursors are not part of it, nor what each worker had pushed: a push whose answer a worker still waits
 * for is sent again and counts on top of the checkpoint, which may have it; where that must not be, end the workers
 * first.
 *
 * Shards are all asked whether they could before one of them changes anything. A shard whose disk fails in the middle
 * (IO, DATA) lets no worker in until it is restored again.
 *
 * Parameters:
 *   path  the checkpoint's directory, or dir/latest
 *   job   the name that it gets; NULL: the one that it had
 * Errors:
 *   PS_ERR_DATA       damaged, or not a checkpoint: names the file and what is wrong. Nothing has changed
 *   PS_ERR_VERSION    the checkpoint is of a format that is not known here. Nothing has changed
 *   PS_ERR_MISMATCH   the job or a variable is there with another definition. Nothing has changed
 *   PS_ERR_FULL       a shard has no memory. Nothing has changed
 *   PS_ERR_LIMIT      more than a shard takes. Nothing has changed
 *   PS_ERR_INVALID    a client that is no observer, a name that is not valid, a shard may not read there, or NULL.
 *                     Nothing has changed
 *   PS_ERR_BUSY       another is being restored. Nothing has changed
 *   PS_ERR_IO         a file cannot be read. Nothing has changed, unless a shard's disk failed in the middle
 *   PS_ERR_TIMEOUT    not done by the deadline: the sentence says whether nothing has changed, or the shards go on with
 *                     it
 *   PS_ERR_CANCELLED  ps_client_interrupt(): as PS_ERR_TIMEOUT
 *   PS_ERR_DENIED     the token may not do this
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_restore(ps_client *client, const char *path, const char *job, int timeout_ms,
                                     struct ps_error *error) PS_MUST_USE;

/* ---- Values from files ------------------------------------------------------------------------------------------- */

/* How a file is imported. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_import_options {
    const char *job;                    /* NULL: the client's own */
    const char *variables;              /* names, * for any characters and ? for one; NULL: all of the file */
    const char *dir;                    /* there already; NULL: the file's */
    const struct ps_optimizer *declare; /* of variables that are not there; NULL: all must be */
    int make_job;                       /* nonzero, with declare: also a job that is not there, */
    enum ps_mode mode;                  /* of this mode */
    uint32_t bound;                     /* ssp: clocks */
    uint32_t workers;                   /* 0: one; in sync all of them make a step */
    const char *const *except;          /* [except_len] names that are left out, as in variables: buffers of whole */
    size_t except_len;                  /* numbers, say; NULL, 0: none */
};

/* What an import did.
 * Since: 0.1 */
struct ps_import_report {
    uint64_t variables, declared, elements; /* declared: variables that were not there */
};

/* Put a safetensors file's values, F32, F16 or BF16, into the job's variables of the same names and shapes. For
 * observers only.
 *
 * What their optimizers keep, and versions, begin from the start; the job's other variables and its clock stay as they
 * are. It is done as a restore, see ps_client_restore() for what becomes of connections and pushes: the file is made
 * into a checkpoint in options.dir, which this process and every shard see under the same path and which needs space
 * for values and slots, and that is restored and removed. Declared variables have zeros as initializer; workers that
 * declare them too must say the same.
 *
 * All of the file is checked before anything changes. When the sentence says that a directory is kept, shards may still
 * need it: restore it.
 *
 * Parameters:
 *   file     path of the safetensors file
 *   options  NULL: all defaults
 *   report   what was done; may be NULL
 * Errors:
 *   PS_ERR_DATA          no whole safetensors file: a header that lies, offsets with holes or overlaps, two of one name
 *   PS_ERR_SHAPE         a variable has another shape than its tensor
 *   PS_ERR_UNSUPPORTED   another type of values, of a tensor that is not left out
 *   PS_ERR_NONFINITE     NaN or Inf for a variable that refuses them
 *   PS_ERR_NOT_FOUND     no such job or variable, no tensor that the pattern names
 *   PS_ERR_INVALID       nothing that could be declared; an option is not valid; NULL
 *   PS_ERR_IO            the file cannot be read, or the directory not be written
 *   PS_ERR_FULL          no space on the disk, or no memory at a shard
 *   ps_client_restore()  what the restore of it may say
 * Since: 0.1 */
PS_API enum ps_err ps_client_import(ps_client *client, const char *file, const struct ps_import_options *options,
                                    int timeout_ms, struct ps_import_report *report,
                                    struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
