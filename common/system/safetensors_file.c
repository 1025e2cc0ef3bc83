#include "common/system/safetensors_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/checkpoint_dir.h"

enum ps_err
safetensors_file_open(const char *path, struct safetensors_file *out, struct ps_error *e)
{
    *out = (struct safetensors_file){.fd = -1, .path = strdup(path)};
    if (out->path == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a pipe of that name must not block */
    if (out->fd < 0)
        return ps_fail(e, PS_ERR_IO, "cannot open %.300s: %s", path, strerror(errno));
    return checkpoint_header_read(out->fd, path, &out->head, e);
}

void
safetensors_file_close(struct safetensors_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    safetensors_finish(&f->head);
    *f = (struct safetensors_file){.fd = -1};
}

uint64_t
safetensors_elements(const struct safetensors_tensor *t)
{
    return t->bytes / safetensors_type_bytes(t->type);
}

enum ps_err
safetensors_file_floats(const struct safetensors_file *f, const struct safetensors_tensor *t, uint64_t first, size_t n,
                        float *out, struct ps_error *e)
{
    uint16_t halves[SAFETENSORS_PIECE];
    size_t bytes = safetensors_type_bytes(t->type);
    void *to = bytes == sizeof *out ? (void *)out : halves;
    enum ps_err err;

    ps_assert(n <= SAFETENSORS_PIECE && first + n <= safetensors_elements(t));
    if ((err = checkpoint_read(f->fd, f->path, to, n * bytes, t->begin + first * bytes, e)) == PS_OK &&
        to == (void *)halves)
        safetensors_to_floats(t->type, halves, n, out);
    return err;
}
