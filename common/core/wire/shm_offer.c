#include "common/core/wire/shm_offer.h"

#include <string.h>

#include "common/core/base/little_endian.h"

#define OFFER_BYTES  16
#define ANSWER_BYTES 8

static size_t
head_encode(enum msg_type type, uint32_t meta_len, uint8_t *out)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = (uint16_t)type, .meta_len = meta_len};

    static_assert(FRAME_HEAD_SIZE + OFFER_BYTES <= SHM_OFFER_FRAME_MAX &&
                      FRAME_HEAD_SIZE + ANSWER_BYTES <= SHM_OFFER_FRAME_MAX,
                  "both fit");
    static_assert(OFFER_BYTES % FRAME_ALIGN == 0 && ANSWER_BYTES % FRAME_ALIGN == 0, "no pad behind them");
    frame_head_encode(&head, out);
    return FRAME_HEAD_SIZE + meta_len;
}

size_t
shm_offer_encode(const struct shm_offer *o, uint8_t *out)
{
    size_t len = head_encode(MSG_SHARE, OFFER_BYTES, out);

    put_le(out + FRAME_HEAD_SIZE, o->pid, 4);
    put_le(out + FRAME_HEAD_SIZE + 4, o->fd, 4);
    put_le(out + FRAME_HEAD_SIZE + 8, o->token, 8);
    return len;
}

size_t
shm_answer_encode(bool yes, uint8_t *out)
{
    size_t len = head_encode(MSG_SHARED, ANSWER_BYTES, out);

    put_le(out + FRAME_HEAD_SIZE, yes, 8);
    return len;
}

static enum ps_err
shm_offer_check_head(const struct frame_head *head, enum msg_type type, uint32_t meta_len, struct ps_error *e)
{
    if (head->type == type && head->meta_len == meta_len && head->payload_len == 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_PROTOCOL, "a frame of type %u with %u bytes of metadata where memory was to be shared",
                   head->type, head->meta_len);
}

enum ps_err
shm_offer_decode(const struct frame_head *head, const void *meta, struct shm_offer *o, struct ps_error *e)
{
    enum ps_err err = shm_offer_check_head(head, MSG_SHARE, OFFER_BYTES, e);
    const uint8_t *in = meta;

    if (err != PS_OK)
        return err;
    *o = (struct shm_offer){
        .pid = (uint32_t)get_le(in, 4), .fd = (uint32_t)get_le(in + 4, 4), .token = get_le(in + 8, 8)};
    if (o->pid > INT32_MAX || o->fd > INT32_MAX || o->token == 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "an offer to share memory that cannot be: process %u, descriptor %u", o->pid,
                       o->fd);
    return PS_OK;
}

enum ps_err
shm_answer_decode(const struct frame_head *head, const void *meta, bool *yes, struct ps_error *e)
{
    enum ps_err err = shm_offer_check_head(head, MSG_SHARED, ANSWER_BYTES, e);
    uint64_t value;

    if (err != PS_OK)
        return err;
    value = get_le(meta, ANSWER_BYTES);
    if (value > 1)
        return ps_fail(e, PS_ERR_PROTOCOL, "an answer to an offer of memory that is neither yes nor no");
    *yes = value == 1;
    return PS_OK;
}
