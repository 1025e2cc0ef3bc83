#include "client/core/group/group_wire.h"

#include <string.h>

#include "client/core/plan/plan.h"
#include "common/core/base/little_endian.h"
#include "common/core/base/text.h"
#include "common/core/base/utf8.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_compress.h"

/* Numbers one behind the other. */
static uint8_t *
group_wire_put(uint8_t *at, uint64_t value, int bytes)
{
    put_le(at, value, bytes);
    return at + bytes;
}

static uint64_t
group_wire_get(const uint8_t **at, int bytes)
{
    uint64_t value = get_le(*at, bytes);

    *at += bytes;
    return value;
}

static uint8_t *
head_put(uint8_t *out, enum msg_type type, uint64_t id, uint32_t meta_len, uint64_t payload_len)
{
    frame_head_encode(&(struct frame_head){.version = FRAME_VERSION,
                                           .type = (uint16_t)type,
                                           .meta_len = meta_len,
                                           .payload_len = payload_len,
                                           .request = id},
                      out);
    return out + FRAME_HEAD_SIZE;
}

static enum ps_err
group_wire_expect(const struct frame_head *head, const char *what, uint32_t meta_len, bool payload, struct ps_error *e)
{
    if (head->meta_len != meta_len || (head->payload_len > 0 && !payload))
        return ps_fail(e, PS_ERR_PROTOCOL, "a %s of %u bytes with %llu of payload", what, head->meta_len,
                       (unsigned long long)head->payload_len);
    return PS_OK;
}

/* ---- Operations ---- */

bool
group_signature_equal(const struct group_signature *a, const struct group_signature *b)
{
    return a->count == b->count && a->segment_bytes == b->segment_bytes && a->elements == b->elements &&
           a->tag == b->tag && a->root == b->root && a->op == b->op && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->algorithm == b->algorithm && a->encoding == b->encoding;
}

static const char *
group_wire_op_name(uint8_t op)
{
    static const char *const ops[] = {[PLAN_ALL_REDUCE] = "all_reduce", [PLAN_REDUCE_SCATTER] = "reduce_scatter",
                                      [PLAN_ALL_GATHER] = "all_gather", [PLAN_BROADCAST] = "broadcast",
                                      [PLAN_REDUCE] = "reduce",         [PLAN_BARRIER] = "barrier",
                                      [GROUP_OP_MERGE] = "all_reduce",  [GROUP_OP_PAIR] = "message"};

    return op < ARRAY_LEN(ops) && ops[op] != NULL ? ops[op] : "an operation";
}

static void
group_wire_put_tag(struct text *t, uint64_t tag)
{
    static const char *const tags[GROUP_TAGS] = {[GROUP_TAG_NONE] = "",
                                                 [GROUP_TAG_ADMIT] = " of ps_group_admit()",
                                                 [GROUP_TAG_DEVICES] = " of a ps_device_group"};

    if (tag & GROUP_TAG_HASH)
        text_put(t, " of a reducer whose parameters have the hash %08x", (unsigned)tag);
    else
        text_put(t, "%s", tag < GROUP_TAGS ? tags[tag] : " of something unknown");
}

void
group_signature_text(const struct group_signature *s, char *out, size_t size)
{
    static const char *const reductions[] = {"sum", "mean", "min", "max", "product"};
    const char *encoding = ps_compress_name((enum ps_compress_kind)s->encoding);
    bool merges = s->op == GROUP_OP_MERGE;
    enum ps_dtype dtype = merges ? PS_F32 : (enum ps_dtype)s->dtype;
    struct text t = text_start(out, size);

    text_put(&t, "%s", group_wire_op_name(s->op));
    if (s->op != PLAN_BARRIER)
        text_put(&t, " of %llu %s", (unsigned long long)(merges ? s->elements : s->count),
                 dtype < PS_DTYPES ? ps_dtype_name(dtype) : "elements");
    if (merges || s->op == PLAN_ALL_REDUCE || s->op == PLAN_REDUCE_SCATTER || s->op == PLAN_REDUCE)
        text_put(&t, ", %s", s->reduce < ARRAY_LEN(reductions) ? reductions[s->reduce] : "unknown");
    if (merges)
        text_put(&t, ", compressed as %s", encoding != NULL ? encoding : "something unknown");
    if (s->op == PLAN_BROADCAST || s->op == PLAN_REDUCE)
        text_put(&t, " %s rank %u", s->op == PLAN_BROADCAST ? "from" : "to", s->root);
    group_wire_put_tag(&t, s->tag);
}

void
group_signature_cut_text(const struct group_signature *s, char *out, size_t size)
{
    static const char *const algorithms[] = {"auto", "direct", "ring", "halving", "hierarchical"};
    struct text t = text_start(out, size);

    if (s->op != GROUP_OP_PAIR)
        text_put(&t, "%s in segments of %llu B",
                 s->algorithm < ARRAY_LEN(algorithms) ? algorithms[s->algorithm] : "unknown",
                 (unsigned long long)s->segment_bytes);
}

static void
signature_put(uint8_t *at, const struct group_signature *s, uint32_t ready)
{
    at = group_wire_put(at, s->count, 8);
    at = group_wire_put(at, s->segment_bytes, 8);
    at = group_wire_put(at, s->root, 4);
    at = group_wire_put(at, s->op, 1);
    at = group_wire_put(at, s->dtype, 1);
    at = group_wire_put(at, s->reduce, 1);
    at = group_wire_put(at, s->algorithm, 1);
    at = group_wire_put(at, ready, 4);
    at = group_wire_put(at, s->encoding, 4);
    at = group_wire_put(at, s->elements, 8);
    group_wire_put(at, s->tag, 8);
}

void
group_work_encode(uint64_t id, const struct group_signature *s, uint32_t ready, uint64_t payload_len, uint8_t *out)
{
    signature_put(head_put(out, MSG_GROUP_WORK, id, GROUP_WORK_SIZE, payload_len), s, ready);
}

enum ps_err
group_work_decode(const struct frame_head *head, const void *meta, struct group_signature *s, uint32_t *ready,
                  struct ps_error *e)
{
    const uint8_t *at = meta;
    enum ps_err err;

    if ((err = group_wire_expect(head, "GROUP_WORK", GROUP_WORK_SIZE, true, e)) != PS_OK)
        return err;
    s->count = group_wire_get(&at, 8);
    s->segment_bytes = group_wire_get(&at, 8);
    s->root = (uint32_t)group_wire_get(&at, 4);
    s->op = (uint8_t)group_wire_get(&at, 1);
    s->dtype = (uint8_t)group_wire_get(&at, 1);
    s->reduce = (uint8_t)group_wire_get(&at, 1);
    s->algorithm = (uint8_t)group_wire_get(&at, 1);
    *ready = (uint32_t)group_wire_get(&at, 4);
    s->encoding = (uint8_t)group_wire_get(&at, 4);
    s->elements = group_wire_get(&at, 8);
    s->tag = group_wire_get(&at, 8);
    return PS_OK;
}

void
group_vote_encode(uint64_t id, const struct group_signature *s, uint8_t *out)
{
    signature_put(head_put(out, MSG_GROUP_VOTE, id, GROUP_WORK_SIZE, 0), s, 0);
}

void
group_data_encode(uint64_t id, uint64_t payload_len, uint8_t *out)
{
    head_put(out, MSG_GROUP_DATA, id, 0, payload_len);
}

void
group_ready_encode(uint64_t id, uint32_t ready, uint8_t *out)
{
    group_wire_put(head_put(out, MSG_GROUP_READY, id, GROUP_READY_SIZE, 0), ready, GROUP_READY_SIZE);
}

enum ps_err
group_ready_decode(const struct frame_head *head, const void *meta, uint32_t *ready, struct ps_error *e)
{
    const uint8_t *at = meta;
    enum ps_err err;

    if ((err = group_wire_expect(head, "GROUP_READY", GROUP_READY_SIZE, false, e)) != PS_OK)
        return err;
    *ready = (uint32_t)group_wire_get(&at, 4);
    return PS_OK;
}

/* ---- How one is ---- */

void
group_ping_encode(uint64_t number, uint8_t *out)
{
    head_put(out, MSG_GROUP_PING, number, 0, 0);
}

void
group_pong_encode(uint64_t number, uint64_t started, uint8_t *out)
{
    group_wire_put(head_put(out, MSG_GROUP_PONG, number, GROUP_PONG_SIZE, 0), started, GROUP_PONG_SIZE);
}

enum ps_err
group_pong_decode(const struct frame_head *head, const void *meta, uint64_t *started, struct ps_error *e)
{
    const uint8_t *at = meta;
    enum ps_err err;

    if ((err = group_wire_expect(head, "GROUP_PONG", GROUP_PONG_SIZE, false, e)) != PS_OK)
        return err;
    *started = group_wire_get(&at, 8);
    return PS_OK;
}

/* ---- The end ---- */

size_t
group_abort_encode(enum ps_err code, uint32_t rank, const char *text, uint8_t *out)
{
    uint32_t len = (uint32_t)strnlen(text, GROUP_ABORT_TEXT_MAX), meta_len = 16 + len;
    uint8_t *at = head_put(out, MSG_GROUP_ABORT, 0, meta_len, 0);

    at = group_wire_put(at, (uint64_t)code, 4);
    at = group_wire_put(at, rank, 4);
    at = group_wire_put(at, len, 4);
    at = group_wire_put(at, 0, 4);
    memcpy(at, text, len);
    memset(at + len, 0, frame_pad(meta_len));
    return FRAME_HEAD_SIZE + meta_len + frame_pad(meta_len);
}

enum ps_err
group_abort_decode(const struct frame_head *head, const void *meta, enum ps_err *code, uint32_t *rank,
                   char text[GROUP_ABORT_TEXT_MAX + 1], struct ps_error *e)
{
    const uint8_t *at = meta;
    uint32_t number, len;

    if (head->meta_len < 16 || head->meta_len > GROUP_ABORT_MAX || head->payload_len > 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "a GROUP_ABORT of %u bytes", head->meta_len);
    number = (uint32_t)group_wire_get(&at, 4);
    *rank = (uint32_t)group_wire_get(&at, 4);
    len = (uint32_t)group_wire_get(&at, 4);
    group_wire_get(&at, 4);
    if (len != head->meta_len - 16)
        return ps_fail(e, PS_ERR_PROTOCOL, "a GROUP_ABORT of %u bytes with a text of %u", head->meta_len, len);
    *code = number != PS_OK && number < PS_ERR_COUNT ? (enum ps_err)number : PS_ERR_INTERNAL;
    memcpy(text, at, len);
    text[len] = '\0';
    utf8_clean(text);
    return PS_OK;
}

void
group_bye_encode(uint8_t *out)
{
    head_put(out, MSG_GROUP_BYE, 0, 0, 0);
}

/* ---- The beginning ---- */

size_t
group_hello_encode(enum msg_type type, const struct group_hello *h, uint8_t *out)
{
    uint32_t cluster = (uint32_t)strlen(h->cluster), name = (uint32_t)strlen(h->name);
    uint32_t meta_len = GROUP_HELLO_FIXED + cluster + name;
    uint8_t *at = head_put(out, type, 0, meta_len, 0);

    at = group_wire_put(at, h->group, 8);
    at = group_wire_put(at, h->epoch, 8);
    at = group_wire_put(at, h->incarnation, 8);
    at = group_wire_put(at, h->rank, 4);
    at = group_wire_put(at, h->ranks, 4);
    at = group_wire_put(at, h->to, 4);
    at = group_wire_put(at, cluster, 4);
    at = group_wire_put(at, name, 4);
    at = group_wire_put(at, h->rules, 2);
    at = group_wire_put(at, h->shares, 2);
    at = group_wire_put(at, h->share_token, 8);
    at = group_wire_put(at, h->share_pid, 4);
    at = group_wire_put(at, h->share_fd, 4);
    memcpy(at, h->cluster, cluster);
    memcpy(at + cluster, h->name, name);
    memset(at + cluster + name, 0, frame_pad(meta_len));
    return FRAME_HEAD_SIZE + meta_len + frame_pad(meta_len);
}

enum ps_err
group_hello_decode(const struct frame_head *head, const void *meta, struct group_hello *h, struct ps_error *e)
{
    const uint8_t *at = meta;
    uint32_t cluster, name;

    if (head->meta_len < GROUP_HELLO_FIXED || head->payload_len > 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "a GROUP_HELLO of %u bytes", head->meta_len);
    *h = (struct group_hello){.group = group_wire_get(&at, 8)};
    h->epoch = group_wire_get(&at, 8);
    h->incarnation = group_wire_get(&at, 8);
    h->rank = (uint32_t)group_wire_get(&at, 4);
    h->ranks = (uint32_t)group_wire_get(&at, 4);
    h->to = (uint32_t)group_wire_get(&at, 4);
    cluster = (uint32_t)group_wire_get(&at, 4);
    name = (uint32_t)group_wire_get(&at, 4);
    h->rules = (uint16_t)group_wire_get(&at, 2);
    h->shares = group_wire_get(&at, 2) != 0;
    h->share_token = group_wire_get(&at, 8);
    h->share_pid = (uint32_t)group_wire_get(&at, 4);
    h->share_fd = (uint32_t)group_wire_get(&at, 4);
    if (cluster > GROUP_HELLO_NAME_MAX || name > GROUP_HELLO_NAME_MAX ||
        head->meta_len != GROUP_HELLO_FIXED + cluster + name)
        return ps_fail(e, PS_ERR_PROTOCOL, "a GROUP_HELLO of %u bytes with names of %u and %u", head->meta_len, cluster,
                       name);
    memcpy(h->cluster, at, cluster);
    memcpy(h->name, at + cluster, name);
    if (memchr(h->cluster, '\0', cluster) != NULL || memchr(h->name, '\0', name) != NULL)
        return ps_fail(e, PS_ERR_PROTOCOL, "a GROUP_HELLO whose names hold a zero byte");
    utf8_clean(h->cluster);
    utf8_clean(h->name);
    return PS_OK;
}
