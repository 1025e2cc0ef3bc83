/* Paths come from peers, so below a root each step is opened by itself and may be no link: no path leads out of the
 * root, not even by a change between a check and an open. Files are opened from their directory's descriptor. */
#include "common/system/checkpoint_dir.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/base/hex.h"
#include "common/core/cluster/placement.h"
#include "common/system/file_error.h"

#define DIGEST_CHUNK (1 * MIB)

/* ---- The directory ---- */

/* Past the root, or NULL when the path does not lie below it. */
static const char *
checkpoint_dir_below_root(const char *path, const char *root)
{
    size_t len = strlen(root);

    while (len > 0 && root[len - 1] == '/')
        len--;
    return strncmp(path, root, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

/* The directory of this name in fd, which is closed. */
static enum ps_err
checkpoint_dir_descend(int *fd, const char *name, const char *path, struct ps_error *e)
{
    int next;

    if (strcmp(name, "..") == 0)
        return ps_fail(e, PS_ERR_INVALID, "%.300s goes up again: name the directory itself", path);
    next = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
        return ps_fail(e, PS_ERR_INVALID, "%.300s: '%.64s' is no directory, or a link, which is not followed here",
                       path, name);
    if (next < 0)
        return file_failed(e, "open", path);
    close(*fd);
    *fd = next;
    return PS_OK;
}

static enum ps_err
open_below(const char *path, const char *root, int *fd, struct ps_error *e)
{
    const char *rest = checkpoint_dir_below_root(path, root);
    enum ps_err err = PS_OK;
    char *copy, *next, *name;

    if (rest == NULL)
        return ps_fail(e, PS_ERR_INVALID, "%.300s does not lie below %.100s, where checkpoints belong here", path,
                       root);
    if ((*fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return file_failed(e, "open", root);
    if ((next = copy = strdup(rest)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    while (err == PS_OK && (name = strsep(&next, "/")) != NULL)
        if (name[0] != '\0' && strcmp(name, ".") != 0)
            err = checkpoint_dir_descend(fd, name, path, e);
    free(copy);
    if (err != PS_OK)
        close(*fd);
    return err;
}

enum ps_err
checkpoint_dir_open(const char *path, const char *root, int *fd, struct ps_error *e)
{
    enum ps_err err;

    if (root != NULL) {
        if ((err = open_below(path, root, fd, e)) != PS_OK)
            *fd = -1;
        return err;
    }
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 ? PS_OK : file_failed(e, "open", path);
}

/* ---- Bytes ---- */

enum ps_err
checkpoint_read(int fd, const char *file, void *to, size_t len, uint64_t offset, struct ps_error *e)
{
    while (len > 0) {
        ssize_t n = pread(fd, to, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_failed(e, "read", file);
        if (n == 0)
            return ps_fail(e, PS_ERR_DATA, "%s: it ends at %" PRIu64 ", before its values", file, offset);
        to = (uint8_t *)to + n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return PS_OK;
}

enum ps_err
checkpoint_write(int fd, const char *file, const void *from, size_t len, uint64_t offset, struct ps_error *e)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, from, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_failed(e, "write", file);
        from = (const uint8_t *)from + n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return PS_OK;
}

/* ---- Checksums ---- */

static enum ps_err
digest_all(EVP_MD_CTX *digest, int fd, const char *file, const struct checkpoint_patience *patience, uint8_t *chunk,
           uint64_t *bytes, struct ps_error *e)
{
    enum ps_err err;
    ssize_t n;

    for (*bytes = 0; (n = pread(fd, chunk, DIGEST_CHUNK, (off_t)*bytes)) != 0; *bytes += (uint64_t)n) {
        if (n < 0 && errno != EINTR)
            return file_failed(e, "read", file);
        n = MAX(n, 0);
        if (EVP_DigestUpdate(digest, chunk, (size_t)n) != 1)
            return ps_fail(e, PS_ERR_INTERNAL, "the checksum of %.300s cannot be computed", file);
        if (patience != NULL && (err = patience->left(patience->arg, file, e)) != PS_OK)
            return err;
    }
    return PS_OK;
}

enum ps_err
checkpoint_digest(int fd, const char *file, const struct checkpoint_patience *patience, char out[CHECKPOINT_DIGEST],
                  uint64_t *bytes, struct ps_error *e)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    uint8_t *chunk = malloc(DIGEST_CHUNK), sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    enum ps_err err;

    if (digest == NULL || chunk == NULL || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a checksum");
    else
        err = digest_all(digest, fd, file, patience, chunk, bytes, e);
    if (err == PS_OK && (EVP_DigestFinal_ex(digest, sum, &len) != 1 || 2 * len + 1 != CHECKPOINT_DIGEST))
        err = ps_fail(e, PS_ERR_INTERNAL, "the checksum of %.300s cannot be computed", file);
    if (err == PS_OK)
        hex_write(sum, len, out);
    free(chunk);
    EVP_MD_CTX_free(digest);
    return err;
}

/* ---- The files ---- */

static enum ps_err
size_of(int fd, const char *file, uint64_t *bytes, struct ps_error *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return file_failed(e, "look at", file);
    if (S_ISDIR(st.st_mode))
        return ps_fail(e, PS_ERR_DATA, "%s: it is a directory, where a file is expected", file);
    if (!S_ISREG(st.st_mode))
        return ps_fail(e, PS_ERR_DATA, "%s: it is no regular file", file);
    *bytes = (uint64_t)st.st_size;
    return PS_OK;
}

enum ps_err
checkpoint_header_read(int fd, const char *file, struct safetensors *out, struct ps_error *e)
{
    uint8_t first[8];
    uint64_t file_bytes, bytes;
    enum ps_err err;
    void *head;

    *out = (struct safetensors){0};
    if ((err = size_of(fd, file, &file_bytes, e)) != PS_OK)
        return err;
    if (file_bytes < sizeof first)
        return ps_fail(e, PS_ERR_DATA, "%s: it is no safetensors file: it has %" PRIu64 " bytes, and no header", file,
                       file_bytes);
    if ((err = checkpoint_read(fd, file, first, sizeof first, 0, e)) != PS_OK ||
        (err = safetensors_head_bytes(file, first, file_bytes, &bytes, e)) != PS_OK)
        return err;
    if ((head = malloc(bytes)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the header of %s", file);
    if ((err = checkpoint_read(fd, file, head, bytes, 0, e)) == PS_OK)
        err = safetensors_parse(file, (struct span){head, bytes}, file_bytes, out, e);
    free(head);
    return err;
}

enum ps_err
checkpoint_files_open(int dir, bool writable, struct checkpoint_files *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    *out = (struct checkpoint_files){.fd = {-1, -1}};
    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++) {
        const char *name = checkpoint_file_name((enum checkpoint_file)f);

        /* O_NONBLOCK: a pipe of that name must not block */
        out->fd[f] = openat(dir, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (out->fd[f] < 0)
            err = errno == ENOENT ? ps_fail(e, PS_ERR_DATA, "%s: it is missing", name) : file_failed(e, "open", name);
        else
            err = checkpoint_header_read(out->fd[f], name, &out->tensors[f], e);
    }
    return err;
}

void
checkpoint_files_close(struct checkpoint_files *f)
{
    for (int i = 0; i < CHECKPOINT_FILES; i++) {
        if (f->fd[i] >= 0)
            close(f->fd[i]);
        f->fd[i] = -1;
        safetensors_finish(&f->tensors[i]);
    }
}

/* ---- The manifest ---- */

static enum ps_err
read_manifest(int fd, struct checkpoint *out, struct ps_error *e)
{
    uint64_t bytes;
    enum ps_err err;
    void *text;

    if ((err = size_of(fd, CHECKPOINT_MANIFEST, &bytes, e)) != PS_OK)
        return err;
    if (bytes > CHECKPOINT_MANIFEST_MAX)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": it has %" PRIu64 " bytes; the limit is %ju", bytes,
                       (uintmax_t)CHECKPOINT_MANIFEST_MAX);
    if ((text = malloc(bytes + 1)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for " CHECKPOINT_MANIFEST);
    if ((err = checkpoint_read(fd, CHECKPOINT_MANIFEST, text, bytes, 0, e)) == PS_OK)
        err = checkpoint_parse((struct span){text, bytes}, out, e);
    free(text);
    return err;
}

enum ps_err
checkpoint_manifest_read(int dir, struct checkpoint *out, struct ps_error *e)
{
    int fd = openat(dir, CHECKPOINT_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    enum ps_err err;

    *out = (struct checkpoint){0};
    if (fd < 0 && errno == ENOENT)
        return ps_fail(e, PS_ERR_NOT_FOUND, CHECKPOINT_MANIFEST ": it is missing: this is no checkpoint");
    if (fd < 0)
        return file_failed(e, "open", CHECKPOINT_MANIFEST);
    err = read_manifest(fd, out, e);
    close(fd);
    return err;
}

/* ---- Whole checkpoints ---- */

static enum ps_err
check_size(const struct checkpoint_source *s, enum checkpoint_file file, struct ps_error *e)
{
    uint64_t is = s->files.tensors[file].bytes, want = s->manifest.files[file].bytes;

    return is == want ? PS_OK
                      : ps_fail(e, PS_ERR_DATA, "%s: it has %" PRIu64 " bytes, the manifest says %" PRIu64,
                                checkpoint_file_name(file), is, want);
}

static enum ps_err
check_bytes(const struct checkpoint_source *s, enum checkpoint_file file, const struct checkpoint_patience *patience,
            struct ps_error *e)
{
    const char *name = checkpoint_file_name(file), *want = s->manifest.files[file].sha256;
    char digest[CHECKPOINT_DIGEST];
    uint64_t bytes;
    enum ps_err err;

    if ((err = checkpoint_digest(s->files.fd[file], name, patience, digest, &bytes, e)) != PS_OK)
        return err;
    if (strcmp(digest, want) != 0)
        return ps_fail(e, PS_ERR_DATA, "%s: it is damaged: its SHA-256 is %s, the manifest says %s", name, digest,
                       want);
    return PS_OK;
}

static enum ps_err
source_read(int dir, struct checkpoint_source *out, struct ps_error *e)
{
    enum ps_err err = checkpoint_manifest_read(dir, &out->manifest, e);

    if (err == PS_ERR_NOT_FOUND)
        return e != NULL ? (e->code = PS_ERR_DATA) : PS_ERR_DATA;
    if (err != PS_OK || (err = checkpoint_files_open(dir, false, &out->files, e)) != PS_OK)
        return err;
    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = check_size(out, (enum checkpoint_file)f, e);
    return err == PS_OK ? checkpoint_check_tensors(&out->manifest, out->files.tensors, e) : err;
}

/* Puts the checkpoint's name before the error's sentence. */
static enum ps_err
say_where(enum ps_err err, const char *path, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];

    if (err != PS_ERR_DATA && err != PS_ERR_VERSION)
        return err;
    snprintf(text, sizeof text, "%.200s: %.300s", path, e->text);
    memcpy(e->text, text, sizeof text);
    return err;
}

enum ps_err
checkpoint_source_verify(const char *path, const struct checkpoint_source *s,
                         const struct checkpoint_patience *patience, struct ps_error *e)
{
    struct ps_error room;
    enum ps_err err = PS_OK;

    if (e == NULL)
        e = &room;
    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = check_bytes(s, (enum checkpoint_file)f, patience, e);
    return say_where(err, path, e);
}

enum ps_err
checkpoint_source_open(const char *path, const char *root, struct checkpoint_source *out, struct ps_error *e)
{
    struct ps_error room;
    enum ps_err err;
    int dir;

    *out = (struct checkpoint_source){.files = {.fd = {-1, -1}}};
    if (e == NULL)
        e = &room;
    if ((err = checkpoint_dir_open(path, root, &dir, e)) != PS_OK)
        return err;
    err = say_where(source_read(dir, out, e), path, e);
    close(dir);
    return err;
}

static enum ps_err
checkpoint_dir_stamp_of(int fd, const char *file, uint64_t *out, struct ps_error *e)
{
    struct stat st;
    uint64_t is[6];

    if (fstat(fd, &st) != 0)
        return file_failed(e, "look at", file);
    is[0] = htole64((uint64_t)st.st_ino);
    is[1] = htole64((uint64_t)st.st_size);
    is[2] = htole64((uint64_t)st.st_mtim.tv_sec);
    is[3] = htole64((uint64_t)st.st_mtim.tv_nsec);
    is[4] = htole64((uint64_t)st.st_ctim.tv_sec);
    is[5] = htole64((uint64_t)st.st_ctim.tv_nsec);
    *out = MAX(placement_hash(is, sizeof is, 0), 1);
    return PS_OK;
}

enum ps_err
checkpoint_source_stamps(const struct checkpoint_source *s, struct checkpoint_stamps *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = checkpoint_dir_stamp_of(s->files.fd[f], checkpoint_file_name((enum checkpoint_file)f), &out->of[f], e);
    return err;
}

void
checkpoint_source_close(struct checkpoint_source *s)
{
    checkpoint_finish(&s->manifest);
    checkpoint_files_close(&s->files);
}
