#include "client/core/group/group_request.h"

#include "client/core/plan/plan_schedule.h"

static bool
buffers_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y + b_bytes && y < x + a_bytes;
}

/* Bytes of in and out, and where they may be the same memory. */
struct buffer_extent {
    uint64_t in, out;
    uint64_t in_at, out_at; /* out + out_at == in + in_at: in place */
    bool needs_in, needs_out;
};

static struct buffer_extent
extent_of(const struct group_request *ask, uint32_t ranks, uint32_t rank)
{
    uint64_t size = ps_dtype_size(ask->dtype), all = ask->count * size;
    uint64_t part = ps_group_part(ask->count, ranks, rank) * size;
    uint64_t at = ps_group_part_offset(ask->count, ranks, rank) * size;
    bool root = ask->root == rank;

    switch (ask->op) {
    case PLAN_ALL_REDUCE:
        return (struct buffer_extent){.in = all, .out = all, .needs_in = true, .needs_out = true};
    case PLAN_REDUCE_SCATTER:
        return (struct buffer_extent){.in = all, .out = part, .in_at = at, .needs_in = true, .needs_out = true};
    case PLAN_ALL_GATHER:
        return (struct buffer_extent){.in = part, .out = all, .out_at = at, .needs_in = true, .needs_out = true};
    case PLAN_BROADCAST:
        return (struct buffer_extent){.in = all, .out = all, .needs_in = true, .needs_out = true};
    case PLAN_REDUCE:
        return (struct buffer_extent){.in = all, .out = root ? all : 0, .needs_in = true, .needs_out = root};
    case PLAN_KEY_MERGE: /* never in place, for one rank either */
        return (struct buffer_extent){.in = all, .out = all, .in_at = all, .needs_in = true, .needs_out = true};
    case PLAN_KEY_SEND:
        return (struct buffer_extent){.in = all, .needs_in = true};
    case PLAN_KEY_RECEIVE:
        return (struct buffer_extent){.out = all, .needs_out = true};
    default:
        return (struct buffer_extent){0};
    }
}

static enum ps_err
check_numbers(const struct group_request *ask, uint32_t ranks, uint32_t rank, struct ps_error *e)
{
    bool pair = ask->op == PLAN_KEY_SEND || ask->op == PLAN_KEY_RECEIVE;
    size_t size = ps_dtype_size(ask->dtype);

    if (size == 0)
        return ps_fail(e, PS_ERR_INVALID, "element type %d is not known", (int)ask->dtype);
    if ((int)ask->reduce < PS_SUM || ask->reduce > PS_PRODUCT)
        return ps_fail(e, PS_ERR_INVALID, "reduction %d is not known", (int)ask->reduce);
    if (ask->count > (SIZE_MAX >> 2) / size)
        return ps_fail(e, PS_ERR_INVALID, "%zu elements are more than memory has", ask->count);
    if (ask->root >= ranks)
        return ps_fail(e, PS_ERR_INVALID, "rank %u of a group of %u", ask->root, ranks);
    if (pair && ask->root == rank)
        return ps_fail(e, PS_ERR_INVALID, "rank %u is this rank", ask->root);
    if (ask->op == PLAN_KEY_MERGE && (ask->piece == 0 || ask->count % ranks != 0 || ask->merge == NULL))
        return ps_fail(e, PS_ERR_INVALID, "%zu elements in pieces of %zu cannot be merged by %u ranks", ask->count,
                       ask->piece, ranks);
    return PS_OK;
}

enum ps_err
group_request_check(const struct group_request *ask, uint32_t ranks, uint32_t rank, bool *in_place, struct ps_error *e)
{
    size_t size = ps_dtype_size(ask->dtype);
    struct buffer_extent x;
    enum ps_err err;

    if ((err = check_numbers(ask, ranks, rank, e)) != PS_OK)
        return err;
    x = extent_of(ask, ranks, rank);
    *in_place = ask->op == PLAN_BROADCAST;
    if ((x.needs_in && x.in > 0 && ask->in == NULL) || (x.needs_out && x.out > 0 && ask->out == NULL))
        return ps_fail(e, PS_ERR_INVALID, "a buffer of %zu elements is NULL", ask->count);
    if ((x.in > 0 && (uintptr_t)ask->in % size != 0) || (x.out > 0 && (uintptr_t)ask->out % size != 0))
        return ps_fail(e, PS_ERR_INVALID, "a buffer is not aligned to its elements of %zu bytes", size);
    if (x.in == 0 || x.out == 0 || *in_place || !buffers_overlap(ask->in, x.in, ask->out, x.out))
        return PS_OK;
    if ((const uint8_t *)ask->in + x.in_at != (const uint8_t *)ask->out + x.out_at)
        return ps_fail(e, PS_ERR_INVALID, "the two buffers overlap, and are not in place");
    *in_place = true;
    return PS_OK;
}

struct group_signature
group_request_signature(const struct group_request *ask, const struct plan_plan *plan)
{
    bool pair = ask->op == PLAN_KEY_SEND || ask->op == PLAN_KEY_RECEIVE;
    bool merges = ask->op == PLAN_KEY_MERGE;
    bool reduces = merges || ask->op == PLAN_ALL_REDUCE || ask->op == PLAN_REDUCE_SCATTER || ask->op == PLAN_REDUCE;
    bool rooted = ask->op == PLAN_BROADCAST || ask->op == PLAN_REDUCE;

    return (struct group_signature){
        .count = ask->count,
        .segment_bytes = plan->segment_bytes,
        .elements = merges ? ask->elements : 0,
        .tag = ask->tag,
        .root = rooted ? ask->root : 0,
        .op = pair ? GROUP_OP_PAIR : ask->op,
        .dtype = (uint8_t)ask->dtype,
        .reduce = reduces ? (uint8_t)ask->reduce : 0,
        .algorithm = (uint8_t)plan->algorithm,
        .encoding = merges ? ask->encoding : 0,
    };
}
