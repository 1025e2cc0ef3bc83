#include "client/core/reduce/encoded_sum.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/codec/codec.h"
#include "common/core/optimizer/optimizer.h"

/* A piece's first word: which encoding, in the lowest byte; and, where there is none because a gradient was not finite,
 * this bit, and the rank in the upper half. */
#define NOT_FINITE 0x100u
#define WHOSE      16

/* A rank's part of the elements. */
struct sum_part {
    size_t at, len;
};

static struct sum_part
part_of(const struct encoded_sum *s, uint32_t rank)
{
    return (struct sum_part){ps_group_part_offset(s->count, s->ranks, rank), ps_group_part(s->count, s->ranks, rank)};
}

/* Piece i of a part. */
static struct sum_part
piece_of(struct sum_part p, size_t i)
{
    size_t at = MIN(i * ENCODED_SUM_PIECE, p.len);

    return (struct sum_part){p.at + at, MIN(p.len - at, ENCODED_SUM_PIECE)};
}

static size_t
encoded_sum_pieces(const struct encoded_sum *s)
{
    return (s->slot + s->piece - 1) / s->piece;
}

static uint32_t *
piece_at(const struct encoded_sum *s, uint32_t *slots, uint32_t rank, size_t i)
{
    return slots + rank * s->slot + i * s->piece;
}

/* ---- Life ---- */

enum ps_err
encoded_sum_init(struct encoded_sum *s, size_t count, const struct ps_compress *how, struct ps_error *e)
{
    enum ps_err err;

    *s = (struct encoded_sum){.how = *how, .count = count};
    if ((err = codec_check(how, e)) != PS_OK)
        return err;
    if (how->kind == PS_COMPRESS_NONE)
        return ps_fail(e, PS_ERR_INVALID, "compression none: there is nothing to encode");
    s->kept = calloc(MAX(count, (size_t)1), sizeof *s->kept);
    s->next = malloc(MAX(count, (size_t)1) * sizeof *s->next);
    if (s->kept != NULL && s->next != NULL)
        return PS_OK;
    encoded_sum_finish(s);
    return ps_fail(e, PS_ERR_NOMEM, "no memory for what compressed gradients of %zu elements leave out", count);
}

static void
rooms_free(struct encoded_sum *s)
{
    free(s->out);
    free(s->in);
    free(s->sum);
    free(s->decoded);
    s->out = s->in = NULL;
    s->sum = s->decoded = NULL;
    s->ranks = 0;
}

void
encoded_sum_finish(struct encoded_sum *s)
{
    rooms_free(s);
    free(s->kept);
    free(s->next);
    s->kept = s->next = NULL;
}

static size_t
words_of(const struct encoded_sum *s, size_t elements)
{
    return 1 + codec_size_max(&s->how, elements) / sizeof(uint32_t);
}

enum ps_err
encoded_sum_slots(struct encoded_sum *s, uint32_t ranks, uint32_t rank, struct ps_error *e)
{
    size_t part = ps_group_part(s->count, ranks, 0), most = MAX(MIN(part, ENCODED_SUM_PIECE), (size_t)1); /* largest */

    ps_assert(ranks >= 2 && rank < ranks);
    s->rank = rank;
    if (s->ranks == ranks)
        return PS_OK;
    rooms_free(s);
    s->piece = words_of(s, most);
    s->slot = part / ENCODED_SUM_PIECE * s->piece;
    if (part % ENCODED_SUM_PIECE != 0)
        s->slot += words_of(s, part % ENCODED_SUM_PIECE);
    s->out = calloc(MAX(ranks * s->slot, (size_t)1), sizeof *s->out);
    s->in = calloc(MAX(ranks * s->slot, (size_t)1), sizeof *s->in);
    s->sum = malloc(most * sizeof *s->sum);
    s->decoded = malloc(most * sizeof *s->decoded);
    if (s->out == NULL || s->in == NULL || s->sum == NULL || s->decoded == NULL) {
        rooms_free(s);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for compressed gradients of %zu elements", s->count);
    }
    s->ranks = ranks;
    return PS_OK;
}

/* ---- To the others ---- */

/* A piece of the gradient for the rank that owns it. False: it is not finite. It is looked at where it is read anyway,
 * so that it comes from memory once. */
static bool
encode_piece(struct encoded_sum *s, uint32_t rank, size_t i)
{
    struct sum_part p = piece_of(part_of(s, rank), i);
    uint32_t *out = piece_at(s, s->out, rank, i);

    if (!optimizer_finite(p.len, s->gradient + p.at))
        return false;
    out[0] = (uint32_t)s->how.kind;
    if (p.len > 0)
        (void)codec_encode_apart(&s->how, p.len, s->gradient + p.at, s->kept + p.at, s->next + p.at, out + 1);
    return true;
}

static bool
encode_all(struct encoded_sum *s)
{
    struct sum_part own = part_of(s, s->rank);

    if (!optimizer_finite(own.len, s->gradient + own.at))
        return false;
    for (uint32_t k = 1; k < s->ranks; k++)
        for (size_t i = 0; i < encoded_sum_pieces(s); i++)
            if (!encode_piece(s, (s->rank + k) % s->ranks, i))
                return false;
    return true;
}

void
encoded_sum_begin(struct encoded_sum *s, const float *gradient, enum ps_reduce reduce)
{
    ps_assert(s->ranks >= 2 && (reduce == PS_SUM || reduce == PS_MEAN));
    s->gradient = gradient;
    s->mean = reduce == PS_MEAN;
    s->merged = 0;
    s->open = s->finite = encode_all(s);
    for (uint32_t rank = 0; rank < s->ranks && !s->finite; rank++)
        for (size_t i = 0; i < encoded_sum_pieces(s); i++)
            *piece_at(s, s->out, rank, i) = (uint32_t)s->how.kind | NOT_FINITE | s->rank << WHOSE;
}

/* ---- This rank's part ---- */

/* Encoders keep within what their encoding holds: none makes Inf or NaN. */
static bool
finite_halves(size_t n, const uint16_t *h, uint16_t exponent)
{
    bool bad = false;

    for (size_t i = 0; i < n; i++)
        bad |= (h[i] & exponent) == exponent;
    return !bad;
}

static bool
is_finite(enum ps_compress_kind kind, size_t n, const uint32_t *encoding)
{
    switch (kind) {
    case PS_COMPRESS_FLOAT16:
        return finite_halves(n, (const uint16_t *)encoding, 0x7c00);
    case PS_COMPRESS_BFLOAT16:
        return finite_halves(n, (const uint16_t *)encoding, 0x7f80);
    case PS_COMPRESS_TOP_K:
        return optimizer_finite(encoding[0], (const float *)(encoding + 1 + encoding[0]));
    default:
        return true;
    }
}

/* Of n elements that came from a rank: whether an encoder made them. */
static bool
is_encoding(const struct encoded_sum *s, const uint32_t *piece, size_t n)
{
    size_t bytes;

    if (piece[0] & NOT_FINITE)
        return (piece[0] & 0xffff) == ((uint32_t)s->how.kind | NOT_FINITE) && piece[0] >> WHOSE < s->ranks;
    return piece[0] == (uint32_t)s->how.kind &&
           (n == 0 || (codec_measure(s->how.kind, n, piece + 1, codec_size_max(&s->how, n), &bytes, NULL) == PS_OK &&
                       is_finite(s->how.kind, n, piece + 1)));
}

/* Limits a sum to the range that the codec keeps it within. */
static float
encoded_sum_clamp(float x)
{
    x = x > 0x1p127f ? 0x1p127f : x;
    return x < -0x1p127f ? -0x1p127f : x;
}

/* The least power of two that is not below the number of ranks. Elements of a mean are divided by it before they are
 * added up, exactly: the sum of all may be too large. */
static float
mean_power(const struct encoded_sum *s)
{
    float power = 1;

    while (power < (float)s->ranks)
        power *= 2;
    return power;
}

/* A rank's elements of a piece, decoded; this rank's own as they are, with what was left out before. */
static void
gradient_piece(const struct encoded_sum *s, uint32_t rank, struct sum_part p, size_t i, float *out)
{
    const float *gradient = s->gradient + p.at, *kept = s->kept + p.at;

    if (rank != s->rank)
        codec_decode(s->how.kind, p.len, piece_at(s, s->in, rank, i) + 1, out);
    else
        for (size_t k = 0; k < p.len; k++)
            out[k] = encoded_sum_clamp(gradient[k] + kept[k]);
}

/* In the order of the ranks. */
static void
sum_piece(struct encoded_sum *s, struct sum_part p, size_t i)
{
    float power = s->mean ? mean_power(s) : 1, rest = s->mean ? (float)s->ranks / power : 1;

    for (uint32_t r = 0; r < s->ranks; r++) {
        float *x = r == 0 ? s->sum : s->decoded;

        gradient_piece(s, r, p, i, x);
        for (size_t k = 0; s->mean && k < p.len; k++)
            x[k] *= 1 / power;
        for (size_t k = 0; r != 0 && k < p.len; k++)
            s->sum[k] += x[k];
    }
    for (size_t k = 0; rest != 1 && k < p.len; k++)
        s->sum[k] /= rest;
    for (size_t k = 0; k < p.len; k++)
        s->sum[k] = encoded_sum_clamp(s->sum[k]);
}

/* The sum, or the mean, encoded for all. What that leaves out is kept as a part of the sum, and comes with the next
 * gradient, whatever is made of that one. */
static void
encode_sum(struct encoded_sum *s, struct sum_part p, uint32_t *out)
{
    float *left = s->next + p.at;

    (void)codec_encode_apart(&s->how, p.len, s->sum, NULL, left, out);
    for (size_t k = 0; s->mean && k < p.len; k++)
        left[k] = encoded_sum_clamp(left[k] * (float)s->ranks);
}

/* The lowest rank whose gradient was not finite, or UINT32_MAX. */
static uint32_t
not_finite(const struct encoded_sum *s, size_t i)
{
    for (uint32_t r = 0; r < s->ranks; r++)
        if (r == s->rank ? !s->finite : (*piece_at(s, s->in, r, i) & NOT_FINITE) != 0)
            return r;
    return UINT32_MAX;
}

uint32_t
encoded_sum_merge(void *sum, size_t at)
{
    struct encoded_sum *s = sum;
    size_t i = at / s->piece;
    struct sum_part p = piece_of(part_of(s, s->rank), i);
    uint32_t *out = piece_at(s, s->out, s->rank, i), whose;

    for (uint32_t r = 0; r < s->ranks; r++)
        if (r != s->rank && !is_encoding(s, piece_at(s, s->in, r, i), p.len))
            return r;
    out[0] = (uint32_t)s->how.kind;
    if ((whose = not_finite(s, i)) != UINT32_MAX) {
        out[0] |= NOT_FINITE | whose << WHOSE;
    } else if (p.len > 0) {
        sum_piece(s, p, i);
        encode_sum(s, p, out + 1);
    }
    s->merged++;
    return UINT32_MAX;
}

/* ---- All parts ---- */

static uint32_t *
sum_at(const struct encoded_sum *s, uint32_t rank, size_t i)
{
    return piece_at(s, rank == s->rank ? s->out : s->in, rank, i);
}

static enum ps_err
check_sum(const struct encoded_sum *s, uint32_t rank, size_t i, struct ps_error *e)
{
    const uint32_t *piece = sum_at(s, rank, i);

    if (!is_encoding(s, piece, piece_of(part_of(s, rank), i).len))
        return ps_fail(e, PS_ERR_PROTOCOL, "rank %u sent a sum that no encoder makes", rank);
    if (piece[0] & NOT_FINITE)
        return ps_fail(e, PS_ERR_NONFINITE, "rank %u has a gradient with NaN or Inf, which cannot be compressed",
                       piece[0] >> WHOSE);
    return PS_OK;
}

enum ps_err
encoded_sum_end(const struct encoded_sum *s, float *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (uint32_t r = 0; r < s->ranks; r++)
        for (size_t i = 0; i < encoded_sum_pieces(s) && err == PS_OK; i++)
            err = check_sum(s, r, i, e);
    if (err != PS_OK)
        return err;
    for (uint32_t r = 0; r < s->ranks; r++)
        for (size_t i = 0; i < encoded_sum_pieces(s); i++) {
            struct sum_part p = piece_of(part_of(s, r), i);

            if (p.len > 0)
                codec_decode(s->how.kind, p.len, sum_at(s, r, i) + 1, out + p.at);
        }
    return PS_OK;
}

enum ps_err
encoded_sum_alone(struct encoded_sum *s, const float *gradient, float *out, struct ps_error *e)
{
    s->open = optimizer_finite(s->count, gradient);
    if (!s->open)
        return ps_fail(e, PS_ERR_NONFINITE, "this rank has a gradient with NaN or Inf, which cannot be compressed");
    for (size_t i = 0; i < s->count; i++)
        out[i] = encoded_sum_clamp(gradient[i] + s->kept[i]);
    memset(s->next, 0, s->count * sizeof *s->next);
    s->merged = s->ranks == 0 ? 0 : encoded_sum_pieces(s);
    return PS_OK;
}

void
encoded_sum_settle(struct encoded_sum *s, bool counted)
{
    float *kept = s->kept;

    /* A sum that is not whole has counted nowhere, whatever `counted` is. */
    if (s->open && counted && (s->ranks == 0 || s->merged == encoded_sum_pieces(s))) {
        s->kept = s->next;
        s->next = kept;
    }
    s->open = false;
}

uint64_t
encoded_sum_bytes(const struct encoded_sum *s)
{
    return s->ranks == 0 ? 0 : 2 * (uint64_t)(s->ranks - 1) * s->slot * sizeof(uint32_t);
}

uint64_t
encoded_sum_plain_bytes(const struct encoded_sum *s)
{
    return s->ranks == 0 ? 0 : 2 * (uint64_t)(s->ranks - 1) * s->count * sizeof(float) / s->ranks;
}
