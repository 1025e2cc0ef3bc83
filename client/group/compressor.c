/* All-reduce of compressed gradients over the group's own operations.
 *
 *     encode the other ranks' parts ──► exchange ──► sum of this rank's part ──encode──► all-gather ──► decode all
 *          │ residual                                       │ left
 *
 * Nothing that is kept changes for good before the last exchange is over: until then each encoding can be taken back,
 * for the gradient is still there.
 *
 * A message is a slot: a word that says what it is, then the part in pieces of PIECE elements, each at the place that
 * the largest encoding before it would end at. So all slots have one length, whatever top-k found. */
#include <stdlib.h>
#include <string.h>

#include "client/ps_compressor.h"
#include "common/base.h"
#include "common/codec.h"
#include "common/optimizer.h"

#define PIECE      ((size_t)65536)
#define WINDOW     32    /* sends and receives in flight, each */
#define NOT_FINITE 0x100 /* in a slot's first word, beside the encoding's number: nothing else is in it */

struct ps_compressor {
    ps_group *group;
    size_t count;
    struct ps_compress how;
    float *residual;      /* [count] */
    uint32_t ranks;       /* that the rooms below are for; 0: there are none */
    size_t slot;          /* words */
    uint32_t *out, *in;   /* [ranks * slot] */
    float *sum, *left;    /* [the largest part] */
    float *decoded;       /* [PIECE] */
    uint64_t sent, plain; /* bytes */
};

/* A rank's part, and where it lies. */
struct piece_of {
    size_t at, len;
};

static struct piece_of
part_of(const struct ps_compressor *c, uint32_t rank)
{
    return (struct piece_of){ps_group_part_offset(c->count, c->ranks, rank), ps_group_part(c->count, c->ranks, rank)};
}

/* ---- Slots ---- */

/* Bytes of n elements in pieces. */
static size_t
pieces_size(const struct ps_compressor *c, size_t n)
{
    size_t whole = n / PIECE, rest = n % PIECE;

    return whole * codec_size_max(&c->how, PIECE) + (rest > 0 ? codec_size_max(&c->how, rest) : 0);
}

/* Piece i of n elements in a slot. */
static uint32_t *
piece_at(const struct ps_compressor *c, uint32_t *slot, size_t i)
{
    return slot + 1 + i * (codec_size_max(&c->how, PIECE) / sizeof *slot);
}

static size_t
piece_len(size_t n, size_t i)
{
    return MIN(n - i * PIECE, PIECE);
}

static size_t
pieces(size_t n)
{
    return (n + PIECE - 1) / PIECE;
}

static void
slot_encode(struct ps_compressor *c, uint32_t *slot, size_t n, const float *gradient, float *residual)
{
    slot[0] = c->how.kind;
    for (size_t i = 0; i < pieces(n); i++)
        (void)codec_encode(&c->how, piece_len(n, i), gradient + i * PIECE, residual + i * PIECE, piece_at(c, slot, i));
}

static void
slot_undo(struct ps_compressor *c, uint32_t *slot, size_t n, const float *gradient, float *residual)
{
    for (size_t i = 0; i < pieces(n); i++)
        codec_undo(c->how.kind, piece_len(n, i), piece_at(c, slot, i), gradient + i * PIECE, residual + i * PIECE);
}

static enum ps_err
blame(const struct ps_compressor *c, enum ps_err err, uint32_t rank, const char *what, struct ps_error *e)
{
    return ps_fail(e, err, "rank %u of group epoch %llu %s", rank, (unsigned long long)ps_group_epoch(c->group), what);
}

/* A slot with n elements that came from a rank. */
static enum ps_err
slot_check(const struct ps_compressor *c, uint32_t *slot, size_t n, uint32_t rank, struct ps_error *e)
{
    size_t bytes;

    if (slot[0] != (uint32_t)c->how.kind)
        return blame(c, PS_ERR_MISMATCH, rank, "compresses otherwise", e);
    for (size_t i = 0; i < pieces(n); i++)
        if (codec_measure(c->how.kind, piece_len(n, i), piece_at(c, slot, i), codec_size_max(&c->how, piece_len(n, i)),
                          &bytes, NULL) != PS_OK)
            return blame(c, PS_ERR_PROTOCOL, rank, "sent what no encoder makes", e);
    return PS_OK;
}

/* ---- Rooms ---- */

static void
rooms_free(struct ps_compressor *c)
{
    free(c->out);
    free(c->in);
    free(c->sum);
    free(c->left);
    c->out = c->in = NULL;
    c->sum = c->left = NULL;
    c->ranks = 0;
}

/* For as many ranks as there are now. */
static enum ps_err
rooms(struct ps_compressor *c, struct ps_error *e)
{
    uint32_t ranks = ps_group_ranks(c->group);
    size_t part = ps_group_part(c->count, ranks, 0); /* the largest */

    if (c->ranks == ranks)
        return PS_OK;
    rooms_free(c);
    c->slot = 1 + pieces_size(c, part) / sizeof *c->out;
    c->out = calloc(ranks * c->slot, sizeof *c->out);
    c->in = calloc(ranks * c->slot, sizeof *c->in);
    c->sum = malloc(MAX(part, (size_t)1) * sizeof *c->sum);
    c->left = malloc(MAX(part, (size_t)1) * sizeof *c->left);
    if (c->out == NULL || c->in == NULL || c->sum == NULL || c->left == NULL) {
        rooms_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for compressed gradients of %zu elements", c->count);
    }
    c->ranks = ranks;
    return PS_OK;
}

/* ---- The first exchange: parts to their ranks ---- */

static void
encode_parts(struct ps_compressor *c, const float *gradient, bool finite)
{
    uint32_t rank = ps_group_rank(c->group);

    for (uint32_t r = 0; r < c->ranks; r++) {
        struct piece_of p = part_of(c, r);

        if (!finite)
            c->out[r * c->slot] = (uint32_t)c->how.kind | NOT_FINITE;
        else if (r != rank)
            slot_encode(c, c->out + r * c->slot, p.len, gradient + p.at, c->residual + p.at);
    }
}

static void
undo_parts(struct ps_compressor *c, const float *gradient)
{
    uint32_t rank = ps_group_rank(c->group);

    for (uint32_t r = 0; r < c->ranks; r++) {
        struct piece_of p = part_of(c, r);

        if (r != rank)
            slot_undo(c, c->out + r * c->slot, p.len, gradient + p.at, c->residual + p.at);
    }
}

/* Wait for one, unless another has failed: then the group has, and its end is near. A wait that ends while the work
 * goes on is begun again: the work has a deadline of its own, which fails the group. */
static enum ps_err
end_work(ps_work *work, enum ps_err err, struct ps_error *e)
{
    if (err == PS_OK && work != NULL) {
        while ((err = ps_work_wait(work, -1, e)) == PS_ERR_TIMEOUT && !ps_work_test(work))
            continue;
        if (err == PS_ERR_TIMEOUT) /* of the wait, or of the work, which has ended by now */
            err = ps_work_wait(work, 0, e);
    }
    ps_work_free(work);
    return err;
}

/* To the rank that is `step` further, and from the one that is as far behind: all pairs, without a crowd at one rank.
 */
static enum ps_err
exchange(struct ps_compressor *c, struct ps_error *e)
{
    uint32_t rank = ps_group_rank(c->group), n = c->ranks, step;
    ps_work *sends[WINDOW] = {NULL}, *receives[WINDOW] = {NULL};
    enum ps_err err = PS_OK;

    for (step = 1; step < n && err == PS_OK; step++) {
        uint32_t to = (rank + step) % n, from = (rank + n - step) % n, w = step % WINDOW;

        err = end_work(receives[w], end_work(sends[w], PS_OK, e), e);
        sends[w] = receives[w] = NULL;
        if (err != PS_OK ||
            (err = ps_group_receive(c->group, c->in + from * c->slot, c->slot, PS_I32, from, &receives[w], e)) != PS_OK)
            break;
        err = ps_group_send(c->group, c->out + to * c->slot, c->slot, PS_I32, to, &sends[w], e);
    }
    for (uint32_t w = 0; w < WINDOW; w++) {
        err = end_work(sends[w], err, e);
        err = end_work(receives[w], err, e);
    }
    return err;
}

/* The same on every rank: all have heard of all. */
static enum ps_err
check_finite(const struct ps_compressor *c, bool finite, struct ps_error *e)
{
    uint32_t rank = ps_group_rank(c->group);

    for (uint32_t r = 0; r < c->ranks; r++)
        if (r == rank ? !finite : (c->in[r * c->slot] & NOT_FINITE) != 0)
            return blame(c, PS_ERR_NONFINITE, r, "has a gradient with NaN or Inf", e);
    return PS_OK;
}

static enum ps_err
check_parts(const struct ps_compressor *c, struct ps_error *e)
{
    uint32_t rank = ps_group_rank(c->group);
    size_t n = part_of(c, rank).len;
    enum ps_err err;

    for (uint32_t r = 0; r < c->ranks; r++)
        if (r != rank && (err = slot_check(c, c->in + r * c->slot, n, r, e)) != PS_OK)
            return err;
    return PS_OK;
}

/* ---- The sum of this rank's part ---- */

static void
add(size_t n, const float *x, float *sum, bool first)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = first ? x[i] : sum[i] + x[i];
}

/* In the order of the ranks; this one's gradient as it is, with what was left out before. */
static void
sum_part(struct ps_compressor *c, const float *gradient)
{
    uint32_t rank = ps_group_rank(c->group);
    struct piece_of p = part_of(c, rank);

    for (size_t i = 0; i < pieces(p.len); i++) {
        size_t len = piece_len(p.len, i), at = p.at + i * PIECE;

        for (uint32_t r = 0; r < c->ranks; r++) {
            if (r != rank)
                codec_decode(c->how.kind, len, piece_at(c, c->in + r * c->slot, i), c->decoded);
            for (size_t k = 0; r == rank && k < len; k++)
                c->decoded[k] = gradient[at + k] + c->residual[at + k];
            add(len, c->decoded, c->sum + i * PIECE, r == 0);
        }
    }
    memset(c->left, 0, p.len * sizeof *c->left);
    slot_encode(c, c->out + rank * c->slot, p.len, c->sum, c->left);
}

/* ---- The second exchange: sums to all ---- */

static enum ps_err
gather(struct ps_compressor *c, struct ps_error *e)
{
    uint32_t rank = ps_group_rank(c->group);
    enum ps_err err =
        ps_group_all_gather(c->group, c->out + rank * c->slot, c->in, c->ranks * c->slot, PS_I32, NULL, e);

    for (uint32_t r = 0; err == PS_OK && r < c->ranks; r++)
        err = slot_check(c, c->in + r * c->slot, part_of(c, r).len, r, e);
    return err;
}

static void
decode_all(struct ps_compressor *c, float *out, enum ps_reduce reduce)
{
    for (uint32_t r = 0; r < c->ranks; r++) {
        struct piece_of p = part_of(c, r);

        for (size_t i = 0; i < pieces(p.len); i++)
            codec_decode(c->how.kind, piece_len(p.len, i), piece_at(c, c->in + r * c->slot, i), out + p.at + i * PIECE);
    }
    for (size_t i = 0; reduce == PS_MEAN && i < c->count; i++)
        out[i] /= (float)c->ranks;
}

static void
keep_left(struct ps_compressor *c)
{
    struct piece_of p = part_of(c, ps_group_rank(c->group));

    memcpy(c->residual + p.at, c->left, p.len * sizeof *c->left);
}

static void
count_bytes(struct ps_compressor *c)
{
    uint64_t others = c->ranks - 1;

    c->sent += 2 * others * c->slot * sizeof *c->out;
    c->plain += 2 * others * c->count * sizeof(float) / c->ranks;
}

/* ---- Public ---- */

enum ps_err
ps_compressor_new(ps_group *group, size_t count, const struct ps_compress *how, ps_compressor **out, struct ps_error *e)
{
    struct ps_compressor *c;
    enum ps_err err;

    if ((err = codec_check(how, e)) != PS_OK)
        return err;
    if (how->kind == PS_COMPRESS_NONE || group == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a compressor needs a group and a compression");
    if ((c = calloc(1, sizeof *c)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a compressor");
    *c = (struct ps_compressor){.group = group, .count = count, .how = *how};
    c->residual = calloc(MAX(count, (size_t)1), sizeof *c->residual);
    c->decoded = malloc(PIECE * sizeof *c->decoded);
    if (c->residual == NULL || c->decoded == NULL) {
        ps_compressor_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for what compressed gradients of %zu elements leave out", count);
    }
    *out = c;
    return PS_OK;
}

void
ps_compressor_free(ps_compressor *c)
{
    if (c == NULL)
        return;
    rooms_free(c);
    free(c->residual);
    free(c->decoded);
    free(c);
}

/* All that can fail; what was encoded for others is then taken back. */
static enum ps_err
reduce_parts(struct ps_compressor *c, const float *in, struct ps_error *e)
{
    bool finite = optimizer_finite(c->count, in);
    enum ps_err err;

    encode_parts(c, in, finite);
    if ((err = exchange(c, e)) == PS_OK && (err = check_finite(c, finite, e)) == PS_OK &&
        (err = check_parts(c, e)) == PS_OK) {
        sum_part(c, in);
        err = gather(c, e);
    }
    if (err != PS_OK && finite)
        undo_parts(c, in);
    return err;
}

/* Nothing is sent, so nothing is left out. */
static enum ps_err
alone(struct ps_compressor *c, const float *in, float *out, struct ps_error *e)
{
    if (!optimizer_finite(c->count, in))
        return blame(c, PS_ERR_NONFINITE, 0, "has a gradient with NaN or Inf", e);
    for (size_t i = 0; i < c->count; i++)
        out[i] = in[i] + c->residual[i];
    memset(c->residual, 0, c->count * sizeof *c->residual);
    return PS_OK;
}

enum ps_err
ps_compressor_all_reduce(ps_compressor *c, const float *in, float *out, enum ps_reduce reduce, struct ps_error *e)
{
    enum ps_err err;

    if (reduce != PS_SUM && reduce != PS_MEAN)
        return ps_fail(e, PS_ERR_INVALID, "compressed gradients have a sum and a mean, no reduction %d", (int)reduce);
    if ((err = ps_group_state(c->group, e)) != PS_OK)
        return err;
    if (ps_group_ranks(c->group) == 1)
        return alone(c, in, out, e);
    if ((err = rooms(c, e)) != PS_OK || (err = reduce_parts(c, in, e)) != PS_OK)
        return err;
    keep_left(c);
    decode_all(c, out, reduce);
    count_bytes(c);
    return PS_OK;
}

void
ps_compressor_bytes(const ps_compressor *c, uint64_t *sent, uint64_t *plain)
{
    *sent = c->sent;
    *plain = c->plain;
}
