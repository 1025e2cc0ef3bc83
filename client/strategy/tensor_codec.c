#include "client/strategy/tensor_codec.h"

#include <stdlib.h>
#include <string.h>

#include "client/device/device_codec.h"
#include "client/device/device_staging.h"
#include "common/core/base/base.h"
#include "common/core/codec/codec.h"

/* A variable. */
struct tensor_encoding {
    size_t elements, blocks;
    size_t size;            /* of the encoding; behind it a word that says whether the gradient was not finite */
    uint32_t *len;          /* [blocks]: elements */
    size_t *offset;         /* [blocks]: in the encoding */
    bool *counts;           /* [blocks]: of the push under way */
    float *residual, *left; /* of the device, [elements] */
    uint8_t *encoding;      /* of the device */
    uint8_t *staged;        /* of the host */
};

struct tensor_codec {
    ps_device *device;
    size_t n;
    struct tensor_encoding *of; /* [n] */
    const uint8_t **data;       /* [n] for a push, and its blocks' places */
    const size_t **offset;
    struct client_encoded push;
    bool under_way;
};

/* ---- Making ---- */

/* Where the encoding of each block begins; returns the bytes of all. */
static size_t
encoding_place(struct tensor_encoding *v, enum ps_compress_kind kind)
{
    struct ps_compress how = {.kind = kind};
    size_t at = 0;

    for (size_t b = 0; b < v->blocks; b++) {
        v->offset[b] = at;
        at += codec_size_max(&how, v->len[b]);
    }
    return at;
}

static enum ps_err
alloc_floats(struct tensor_codec *c, size_t elements, float **out, struct ps_error *e)
{
    void *memory;
    enum ps_err err = ps_device_alloc(c->device, elements * sizeof **out, &memory, e);

    if (err == PS_OK)
        *out = memory;
    return err;
}

static enum ps_err
encoding_alloc(struct tensor_codec *c, struct tensor_encoding *v, const ps_var *var, struct ps_error *e)
{
    size_t most = 0;
    void *memory;
    enum ps_err err;

    v->elements = (size_t)ps_var_elements(var);
    v->blocks = (size_t)client_blocks(var);
    v->len = calloc(v->blocks, sizeof *v->len);
    v->offset = calloc(v->blocks, sizeof *v->offset);
    v->counts = calloc(v->blocks, sizeof *v->counts);
    if (v->len == NULL || v->offset == NULL || v->counts == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for %zu blocks to encode", v->blocks);
    for (size_t b = 0; b < v->blocks; b++)
        v->len[b] = client_block_len(var, b);
    for (int kind = PS_COMPRESS_NONE + 1; kind < PS_COMPRESS_KINDS; kind++)
        if (device_encodes(c->device, (enum ps_compress_kind)kind))
            most = MAX(most, encoding_place(v, (enum ps_compress_kind)kind));
    if ((err = alloc_floats(c, v->elements, &v->residual, e)) != PS_OK ||
        (err = alloc_floats(c, v->elements, &v->left, e)) != PS_OK ||
        (err = ps_device_alloc(c->device, most + sizeof(uint32_t), &memory, e)) != PS_OK)
        return err;
    v->encoding = memory;
    return PS_OK;
}

static void
codec_note(void *arg, size_t var, uint64_t block, bool counts)
{
    struct tensor_codec *c = arg;

    c->of[var].counts[block] = counts;
}

static enum ps_err
codec_fill(struct tensor_codec *c, ps_var *const vars[], float *const staged[], struct ps_error *e)
{
    enum ps_err err = PS_OK;

    c->of = calloc(c->n, sizeof *c->of);
    c->data = calloc(c->n, sizeof(*c->data));
    c->offset = calloc(c->n, sizeof(*c->offset));
    if (c->of == NULL || c->data == NULL || c->offset == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to encode %zu gradients", c->n);
    for (size_t i = 0; i < c->n && err == PS_OK; i++) {
        err = encoding_alloc(c, &c->of[i], vars[i], e);
        c->of[i].staged = (uint8_t *)(void *)staged[i];
        c->data[i] = c->of[i].staged;
        c->offset[i] = c->of[i].offset;
    }
    c->push = (struct client_encoded){c->data, c->offset, codec_note, c};
    return err;
}

enum ps_err
tensor_codec_new(ps_device *device, size_t n, ps_var *const vars[], float *const staged[], struct tensor_codec **out,
                 struct ps_error *e)
{
    struct tensor_codec *c = calloc(1, sizeof *c);
    enum ps_err err;

    if (c == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to encode gradients");
    c->device = device;
    c->n = n;
    if ((err = codec_fill(c, vars, staged, e)) != PS_OK) {
        tensor_codec_free(c);
        return err;
    }
    *out = c;
    return PS_OK;
}

void
tensor_codec_free(struct tensor_codec *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; c->of != NULL && i < c->n; i++) {
        struct tensor_encoding *v = &c->of[i];

        ps_device_free(c->device, v->residual);
        ps_device_free(c->device, v->left);
        ps_device_free(c->device, v->encoding);
        free(v->len);
        free(v->offset);
        free(v->counts);
    }
    free(c->of);
    free(c->data);
    free(c->offset);
    free(c);
}

/* ---- Encoding ---- */

/* How many blocks from this one on are as large as it, but for the last of them, which may be smaller. */
static size_t
blocks_alike(const struct tensor_encoding *v, size_t first, size_t *elements)
{
    size_t count = 1;

    *elements = v->len[first];
    while (v->len[first] % 16 == 0 && first + count < v->blocks && v->len[first + count] <= v->len[first]) {
        *elements += v->len[first + count];
        if (v->len[first + count++] < v->len[first])
            break;
    }
    return count;
}

enum ps_err
tensor_codec_encode(struct tensor_codec *c, size_t i, enum ps_compress_kind kind, const float *gradient,
                    struct ps_error *e)
{
    struct tensor_encoding *v = &c->of[i];
    size_t at = 0, count, elements;
    uint32_t *nonfinite;

    ps_assert(!c->under_way);
    v->size = encoding_place(v, kind);
    nonfinite = (uint32_t *)(void *)(v->encoding + v->size);
    device_encode_clear(c->device, nonfinite);
    for (size_t b = 0; b < v->blocks; b += count, at += elements) {
        count = blocks_alike(v, b, &elements);
        device_encode(c->device, kind, elements, round_up(v->len[b], 16), gradient + at, v->residual + at, v->left + at,
                      v->encoding + v->offset[b], nonfinite);
    }
    return device_fetch(c->device, v->staged, v->encoding, v->size + sizeof *nonfinite, e);
}

bool
tensor_codec_finite(const struct tensor_codec *c, size_t i)
{
    uint32_t nonfinite;

    memcpy(&nonfinite, c->of[i].staged + c->of[i].size, sizeof nonfinite);
    return nonfinite == 0;
}

const struct client_encoded *
tensor_codec_push(struct tensor_codec *c)
{
    for (size_t i = 0; i < c->n; i++)
        memset(c->of[i].counts, 0, c->of[i].blocks * sizeof *c->of[i].counts);
    c->under_way = true;
    return &c->push;
}

/* ---- Afterwards ---- */

/* Blocks that do not count: what they had before. */
static void
encoding_keep(struct tensor_codec *c, struct tensor_encoding *v)
{
    size_t at = 0, run;

    for (size_t b = 0; b < v->blocks; at += run) {
        bool counts = v->counts[b];

        for (run = 0; b < v->blocks && v->counts[b] == counts; b++)
            run += v->len[b];
        if (!counts)
            ps_device_copy(c->device, v->left + at, v->residual + at, run * sizeof *v->left);
    }
}

void
tensor_codec_settle(struct tensor_codec *c)
{
    if (c == NULL || !c->under_way)
        return;
    c->under_way = false;
    for (size_t i = 0; i < c->n; i++) {
        struct tensor_encoding *v = &c->of[i];
        float *before = v->residual;

        encoding_keep(c, v);
        v->residual = v->left;
        v->left = before;
    }
}
