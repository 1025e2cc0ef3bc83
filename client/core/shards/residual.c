/* Encodes requests of compressed pushes, and takes back what did not count. */
#include "client/core/shards/residual.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/shards/shard_link.h"
#include "common/core/codec/codec.h"
#include "common/core/optimizer/optimizer.h"

enum ps_err
residual_begin(size_t n, struct core_var *const vars[], const float *const grads[], const struct ps_compress *how,
               struct ps_error *e)
{
    if (how->kind == PS_COMPRESS_NONE)
        return PS_OK;
    for (size_t i = 0; i < n; i++)
        if (!optimizer_finite(vars[i]->elements, grads[i]))
            return ps_fail(e, PS_ERR_NONFINITE,
                           "push: the gradient for variable '%.64s' holds NaN or Inf, and cannot be compressed",
                           vars[i]->name);
    for (size_t i = 0; i < n; i++)
        if (vars[i]->residual == NULL &&
            (vars[i]->residual = calloc(vars[i]->elements, sizeof *vars[i]->residual)) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "no memory for what compressed gradients of '%.64s' leave out",
                           vars[i]->name);
    return PS_OK;
}

/* ---- Encoding ---- */

enum ps_err
residual_reserve(struct request_pools *pools, struct shard_link *l, struct request *p)
{
    struct block_walk walk = op_walk(p->op, l->shard);
    struct block_cursor at = p->from;
    struct walk_block b;
    size_t size = 0;

    for (uint32_t i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++)
        size += codec_size_max(&p->op->compress, b.len);
    return request_pool_encoding(pools, size, &p->encoding);
}

/* Of a block that its caller has encoded: a copy, as any encoding of a request. */
static size_t
residual_take(const struct core_op *op, const struct walk_block *b, uint8_t *out)
{
    size_t size = codec_size_max(&op->compress, b->len);

    memcpy(out, op->encoded.data[b->var] + op->encoded.offset[b->var][b->block], size);
    op->encoded.note(op->encoded.arg, b->var, b->block, true);
    return size;
}

void
residual_encode(struct shard_link *l, struct request *p)
{
    struct block_walk walk = op_walk(p->op, l->shard);
    struct block_cursor at = p->from;
    uint8_t *out = p->encoding.data;
    struct walk_block b;

    for (uint32_t i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++)
        out += p->op->encoded.note != NULL ? residual_take(p->op, &b, out)
                                           : codec_encode(&p->op->compress, b.len, p->op->grads[b.var] + b.first,
                                                          p->op->vars[b.var]->residual + b.first, out);
    p->bytes = (uint64_t)(out - p->encoding.data);
}

/* ---- Taking back ---- */

static void
residual_take_back(const struct core_op *op, const struct walk_block *b, const uint8_t *encoding)
{
    if (op->encoded.note != NULL)
        op->encoded.note(op->encoded.arg, b->var, b->block, false);
    else
        codec_undo(op->compress.kind, b->len, encoding, op->grads[b->var] + b->first,
                   op->vars[b->var]->residual + b->first);
}

/* Answers that say for sure that a block did not count. */
static bool
did_not_count(uint32_t code)
{
    return code != PS_OK && code != PS_ERR_NOT_DURABLE && code != PS_ERR_UNKNOWN_OUTCOME && code != PS_ERR_INTERNAL;
}

void
residual_note(struct shard_link *l, struct request *p, const uint32_t *codes, uint32_t all)
{
    struct block_walk walk = op_walk(p->op, l->shard);
    enum ps_compress_kind kind = p->op->compress.kind;
    struct block_cursor at = p->from;
    const uint8_t *encoding = p->encoding.data;
    struct walk_block b;
    size_t bytes;
    enum ps_err err;

    if (encoding == NULL)
        return;
    for (uint32_t i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++) {
        err = codec_measure(kind, b.len, encoding, p->bytes - (uint64_t)(encoding - p->encoding.data), &bytes, NULL);
        ps_assert(err == PS_OK); /* our own */
        if (did_not_count(codes != NULL ? codes[i] : all))
            residual_take_back(p->op, &b, encoding);
        encoding += bytes;
    }
}

void
residual_undo(struct shard_link *l, struct request *p)
{
    if (p->encoding.data != NULL && p->op != NULL)
        residual_note(l, p, NULL, PS_ERR_CANCELLED);
}
