/* A checkpoint's directory: opened without following links, its files read, written and compared with their checksums.
 * For the client, which makes and checks it, and for psd, which fills and reads it. Everything here blocks. */
#ifndef COMMON_SYSTEM_CHECKPOINT_DIR_H
#define COMMON_SYSTEM_CHECKPOINT_DIR_H

#include "common/core/format/checkpoint.h"

/* Open a directory. root: NULL, or the directory that it must lie below; then no part of the path after it may be a
 * link or "..": PS_ERR_INVALID. PS_ERR_IO. */
enum ps_err checkpoint_dir_open(const char *path, const char *root, int *fd, struct ps_error *e) PS_MUST_USE;

/* All bytes, at an offset. PS_ERR_IO, PS_ERR_FULL (no space on the disk), PS_ERR_DATA (the file ends before). file: for
 * sentences. */
enum ps_err checkpoint_read(int fd, const char *file, void *to, size_t len, uint64_t offset,
                            struct ps_error *e) PS_MUST_USE;
enum ps_err checkpoint_write(int fd, const char *file, const void *from, size_t len, uint64_t offset,
                             struct ps_error *e) PS_MUST_USE;

/* Read the header of an open safetensors file. PS_ERR_IO, PS_ERR_DATA, PS_ERR_NOMEM. *out is ended by
 * safetensors_finish(), also after a failure. */
enum ps_err checkpoint_header_read(int fd, const char *file, struct safetensors *out, struct ps_error *e) PS_MUST_USE;

/* A callback of the caller after every MiB of a checksum: PS_OK, or the error that ends it. */
struct checkpoint_patience {
    enum ps_err (*left)(void *arg, const char *file, struct ps_error *e);
    void *arg;
};

/* SHA-256 of a whole file, as digits. *bytes: how many there were. patience NULL: no limit. PS_ERR_IO, PS_ERR_NOMEM. */
enum ps_err checkpoint_digest(int fd, const char *file, const struct checkpoint_patience *patience,
                              char out[CHECKPOINT_DIGEST], uint64_t *bytes, struct ps_error *e) PS_MUST_USE;

/* The two files of tensors, open, with their headers. */
struct checkpoint_files {
    int fd[CHECKPOINT_FILES];
    struct safetensors tensors[CHECKPOINT_FILES];
};

/* dir: an open directory. writable: to be filled. PS_ERR_IO, PS_ERR_DATA, PS_ERR_NOMEM. *out is ended by
 * checkpoint_files_close(), also after a failure. */
enum ps_err checkpoint_files_open(int dir, bool writable, struct checkpoint_files *out, struct ps_error *e) PS_MUST_USE;
void checkpoint_files_close(struct checkpoint_files *f); /* one that checkpoint_files_open() was given */

/* The manifest of an open directory. PS_ERR_NOT_FOUND: there is none. PS_ERR_IO, PS_ERR_DATA, PS_ERR_VERSION. *out is
 * ended by checkpoint_finish(), also after a failure. */
enum ps_err checkpoint_manifest_read(int dir, struct checkpoint *out, struct ps_error *e) PS_MUST_USE;

/* A whole checkpoint, open for reading: its manifest, and files whose headers and sizes agree with it. PS_ERR_DATA also
 * for a directory without a manifest. *out is ended by checkpoint_source_close(), also after a failure. */
struct checkpoint_source {
    struct checkpoint manifest;
    struct checkpoint_files files;
};
enum ps_err checkpoint_source_open(const char *path, const char *root, struct checkpoint_source *out,
                                   struct ps_error *e) PS_MUST_USE;

/* Compare only its bytes with the checksums, until patience ends it (NULL: no limit). PS_ERR_DATA. */
enum ps_err checkpoint_source_verify(const char *path, const struct checkpoint_source *s,
                                     const struct checkpoint_patience *patience, struct ps_error *e) PS_MUST_USE;

/* Stamps that show, without reading a file, that it is still the one that was verified: from its inode, size and times;
 * never 0. On a filesystem that machines share they all see the same. PS_ERR_IO. */
struct checkpoint_stamps {
    uint64_t of[CHECKPOINT_FILES];
};
enum ps_err checkpoint_source_stamps(const struct checkpoint_source *s, struct checkpoint_stamps *out,
                                     struct ps_error *e) PS_MUST_USE;
void checkpoint_source_close(struct checkpoint_source *s);

#endif
