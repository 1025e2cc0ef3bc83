/* An encoded push (PROTOCOL.md, section 12) as float32. All that comes after this knows no encodings: sync steps,
 * updates and the redo log see the push of a worker that does not compress, so a replay gives the same bits. But for
 * float16, which an update may take as it came and decode in passing: a block's worth less to write and read again. */
#include <inttypes.h>

#include "common/core/codec/codec.h"
#include "server/core/shard_state.h"
#include "server/core/training/push.h"

static enum ps_err
check_size(const struct event_context *ctx, const Psd__Push *m, uint64_t bytes, struct ps_error *e)
{
    if (bytes <= FRAME_PAYLOAD_MAX)
        return PS_OK;
    return ps_fail(e, PS_ERR_LIMIT,
                   "the %zu blocks of this push, from '%.64s', take %" PRIu64
                   " bytes as float32; the limit is %" PRIu64,
                   m->n_var, ctx->blocks[0].variable->name, bytes, FRAME_PAYLOAD_MAX);
}

/* Why the encoding of a block was refused, with its name. */
static enum ps_err
push_decode_error(const struct block_ref *ref, enum ps_err err, const struct ps_error *why, struct ps_error *e)
{
    return ps_fail(e, err, "block %u of variable '%.64s': %s", ref->number, ref->variable->name, why->text);
}

/* out NULL: it is looked at, and left as it is. */
static enum ps_err
push_decode_blocks(const struct event_context *ctx, const struct wire_msg *msg, const uint8_t *data, float *out,
                   struct ps_error *e)
{
    const Psd__Push *m = msg->u.push;
    enum ps_compress_kind kind = (enum ps_compress_kind)m->encoding;
    uint64_t left = msg->payload_len;
    struct ps_error why;
    size_t bytes;
    enum ps_err err;

    for (size_t i = 0; i < m->n_var; i++) {
        const struct block_ref *ref = &ctx->blocks[i];

        if ((err = codec_measure(kind, ref->values, data, left, &bytes, &why)) != PS_OK)
            return push_decode_error(ref, err, &why, e);
        if (out != NULL) {
            codec_decode(kind, ref->values, data, out);
            out += ref->values;
        }
        data += bytes;
        left -= bytes;
    }
    if (left > 0)
        return ps_fail(e, PS_ERR_SHAPE,
                       "the %zu blocks of this push, from '%.64s', leave %" PRIu64 " bytes of %" PRIu64, m->n_var,
                       ctx->blocks[0].variable->name, left, msg->payload_len);
    return PS_OK;
}

enum ps_err
push_decode(const struct shard *s, struct event_context *ctx, const struct wire_msg *msg, const void *payload,
            uint64_t bytes, bool in_passing, struct ps_error *e)
{
    const Psd__Push *m = msg->u.push;
    float *decoded = NULL;
    enum ps_err err;

    in_passing &= m->encoding == PS_COMPRESS_FLOAT16;
    ctx->gradients = (struct gradient){.values = payload};
    if (m->encoding == PS_COMPRESS_NONE) {
        if (bytes == msg->payload_len)
            return PS_OK;
        return ps_fail(e, PS_ERR_SHAPE,
                       "the %zu blocks of this push, from '%.64s', take %" PRIu64 " bytes, the payload has %" PRIu64,
                       m->n_var, ctx->blocks[0].variable->name, bytes, msg->payload_len);
    }
    if (m->encoding >= PS_COMPRESS_KINDS)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "shard %u knows no encoding %u of gradients", s->config.shard,
                       m->encoding);
    if (msg->payload_len == 0)
        return ps_fail(e, PS_ERR_SHAPE, "an encoded push without a payload, from '%.64s'",
                       ctx->blocks[0].variable->name);
    if ((err = check_size(ctx, m, bytes, e)) != PS_OK)
        return err;
    if (!in_passing && (decoded = event_decoded_room(ctx, bytes)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to decode %" PRIu64 " bytes of gradients", bytes);
    if ((err = push_decode_blocks(ctx, msg, payload, decoded, e)) != PS_OK)
        return err;
    ctx->gradients = in_passing ? (struct gradient){.halves = payload} : (struct gradient){.values = decoded};
    return PS_OK;
}
