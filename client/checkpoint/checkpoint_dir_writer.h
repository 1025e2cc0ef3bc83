/* A checkpoint's directory while it is made: NAME.partial, locked, until everything in it is on disk; then it gets its
 * name, and `latest` names it. So a directory with a manifest is whole, whenever this process ends.
 *
 *     dir_writer_begin() ─► dir_writer_files() ─► (the shards fill them) ─► dir_writer_end() ─► dir_writer_prune()
 *            └─────────────────────┴── dir_writer_close(): removes what is not whole
 *
 * Everything here blocks. */
#ifndef CLIENT_CHECKPOINT_CHECKPOINT_DIR_WRITER_H
#define CLIENT_CHECKPOINT_CHECKPOINT_DIR_WRITER_H

#include "common/system/checkpoint_dir.h"

#define DIR_WRITER_NAME_MAX 200 /* bytes of a checkpoint's name */

struct dir_writer {
    char *dir;     /* absolute: where checkpoints are */
    char *partial; /* absolute: the one that is made */
    char name[DIR_WRITER_NAME_MAX + 1];
    int dir_fd, fd; /* of these two; -1: none */
    bool whole;     /* it has its name */
};

/* Whether a checkpoint may have this name. PS_ERR_INVALID, with the rules. */
enum ps_err dir_writer_name_check(const char *name, struct ps_error *e) PS_MUST_USE;

/* Make the directories (dir, too, when only it is missing). name: the wanted one; when `sequel` and it is there, its
 * next sequel "-2", "-3" ... is taken. PS_ERR_INVALID, PS_ERR_BUSY (one of that name is there, or is being made),
 * PS_ERR_IO, PS_ERR_FULL. The directory is new; leftovers of a dead process under that name are removed; under other
 * names, when they are a day old. */
enum ps_err dir_writer_begin(struct dir_writer *m, const char *dir, const char *name, bool sequel,
                             struct ps_error *e) PS_MUST_USE;

/* Make the files that the manifest needs, in full size, for the shards to fill. */
enum ps_err dir_writer_files(struct dir_writer *m, const struct checkpoint *c, struct ps_error *e) PS_MUST_USE;

/* Another name than it was begun under, before its end: nothing but the files says what they are. PS_ERR_BUSY. */
enum ps_err dir_writer_name(struct dir_writer *m, const char *name, bool sequel, struct ps_error *e) PS_MUST_USE;

/* All was written: take checksums into c while patience lasts (NULL: however long it takes), write the manifest, give
 * it its name. */
enum ps_err dir_writer_end(struct dir_writer *m, struct checkpoint *c, const struct checkpoint_patience *patience,
                           struct ps_error *e) PS_MUST_USE;

/* Remove all but the newest `keep` checkpoints of the directory; never this one or what `latest` names. And leftovers
 * of dead processes: where the filesystem is this host's alone, those that nobody has locked, else those a day old. */
enum ps_err dir_writer_prune(const struct dir_writer *m, uint32_t keep, struct ps_error *e) PS_MUST_USE;

void dir_writer_close(struct dir_writer *m); /* one that dir_writer_begin() was given */

/* The directory that a path names, absolute: what a link such as DIR/latest leads to, in the same directory. The rest
 * is left as it is, since the shards may see it through other links. Freed by the caller. PS_ERR_IO, PS_ERR_NOMEM. */
enum ps_err dir_writer_resolve(const char *path, char **out, struct ps_error *e) PS_MUST_USE;

#endif
