/* Encodings: halves, scaled bytes, the largest few. Halves with a residual are made in one loop; other halves and bytes
 * go run by run through a buffer that lies in the first cache. So gradient and residual are read once. */
#include "common/core/codec/codec.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/nearest.h"
#include "common/core/base/number.h"
#include "common/core/codec/codec_isa.h"
#include "common/core/codec/half.h"

static const char *const names[] = {
#define CODEC_NAME(NAME, name, number) [number] = #name,
    PS_COMPRESS_LIST(CODEC_NAME)
#undef CODEC_NAME
};
static_assert(ARRAY_LEN(names) == PS_COMPRESS_KINDS, "numbered from 0 without holes");

static const struct codec_kernels *const kernels[ISA_COUNT] = {
    [ISA_PLAIN] = &codec_kernels_plain,
#ifdef __x86_64__
    [ISA_AVX2] = &codec_kernels_avx2,
    [ISA_AVX512] = &codec_kernels_avx512,
#endif
};
static _Atomic(const struct codec_kernels *) chosen;

const struct codec_kernels *
codec_kernels_of(enum isa isa)
{
    ps_assert(isa_supported(isa) && kernels[isa] != NULL);
    return kernels[isa];
}

void
codec_use(enum isa isa)
{
    atomic_store_explicit(&chosen, codec_kernels_of(isa), memory_order_relaxed);
}

static const struct codec_kernels *
kernels_chosen(void)
{
    const struct codec_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (k == NULL) {
        k = codec_kernels_of(isa_chosen());
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

/* ---- Names ---- */

const char *
ps_compress_name(enum ps_compress_kind kind)
{
    return (size_t)kind < ARRAY_LEN(names) ? names[kind] : NULL;
}

static enum ps_err
kind_of(const char *text, size_t len, enum ps_compress_kind *out, struct ps_error *e)
{
    char name[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)MIN(len, sizeof name - 1), text);
    nearest = nearest_to(name);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum ps_compress_kind)i;
            return PS_OK;
        }
        nearest_offer(&nearest, names[i]);
    }
    return ps_fail(e, PS_ERR_INVALID, "compression '%s' is not known; there are none, float16, bfloat16, int8, top_k%s",
                   name, nearest_text(&nearest, "", meant));
}

enum ps_err
ps_compress_parse(const char *text, struct ps_compress *out, struct ps_error *e)
{
    size_t len = strcspn(text, ":");
    struct ps_compress how = {0};
    const char *value;
    enum ps_err err;

    if ((err = kind_of(text, len, &how.kind, e)) != PS_OK)
        return err;
    if (text[len] == ':') {
        value = text + len + 1;
        if (strncmp(value, "fraction=", 9) == 0)
            value += 9;
        if (how.kind != PS_COMPRESS_TOP_K)
            return ps_fail(e, PS_ERR_INVALID, "compression '%.60s': only top_k has a parameter, top_k:fraction=0.01",
                           text);
        if (!number_parse(value, &how.fraction) || how.fraction == 0)
            return ps_fail(e, PS_ERR_INVALID,
                           "compression '%.60s': the fraction must be a number above 0 and at most 1, as in "
                           "top_k:fraction=0.01",
                           text);
    }
    if ((err = codec_check(&how, e)) != PS_OK)
        return err;
    *out = how;
    return PS_OK;
}

enum ps_err
codec_check(const struct ps_compress *how, struct ps_error *e)
{
    if ((size_t)how->kind >= PS_COMPRESS_KINDS)
        return ps_fail(e, PS_ERR_INVALID, "compression %d is not known", (int)how->kind);
    if (how->kind == PS_COMPRESS_TOP_K && !(how->fraction >= 0 && how->fraction <= 1))
        return ps_fail(e, PS_ERR_INVALID, "compression top_k: a fraction of %g; it must be above 0 and at most 1",
                       how->fraction);
    return PS_OK;
}

/* ---- Sizes ---- */

static size_t
runs_of(size_t n)
{
    return (n + CODEC_RUN - 1) / CODEC_RUN;
}

/* How many elements TOP_K takes at most. */
static size_t
codec_top_k_max(const struct ps_compress *how, size_t n)
{
    double k = ceil((how->fraction > 0 ? how->fraction : PS_COMPRESS_FRACTION) * (double)n);

    return MIN(n, (size_t)MAX(k, 1));
}

/* Of those whose length follows from n; 0: TOP_K. */
static size_t
fixed_size(enum ps_compress_kind kind, size_t n)
{
    switch (kind) {
    case PS_COMPRESS_NONE:
        return n * sizeof(float);
    case PS_COMPRESS_FLOAT16:
    case PS_COMPRESS_BFLOAT16:
        return round_up(n * sizeof(uint16_t), 4);
    case PS_COMPRESS_INT8:
        return runs_of(n) * sizeof(float) + round_up(n, 4);
    default:
        return 0;
    }
}

size_t
codec_size_max(const struct ps_compress *how, size_t n)
{
    return how->kind == PS_COMPRESS_TOP_K ? 4 + 8 * codec_top_k_max(how, n) : fixed_size(how->kind, n);
}

/* ---- A run of at most CODEC_RUN elements ---- */

/* The values to encode: without a residual the gradients themselves. */
static const float *
codec_add_residual(const struct codec_kernels *k, size_t n, const float *gradient, const float *residual, float *room)
{
    if (residual == NULL)
        return gradient;
    k->feed(n, gradient, residual, room);
    return room;
}

static void
half_run(const struct codec_kernels *k, enum ps_compress_kind kind, size_t n, const float *e, uint16_t *out)
{
    float within[CODEC_RUN];

    k->limit(n, e, kind == PS_COMPRESS_BFLOAT16 ? INFINITY : HALF_MOST, within);
    (kind == PS_COMPRESS_BFLOAT16 ? bfloat_from_floats : half_from_floats)(n, within, out);
}

static float
int8_run(const struct codec_kernels *k, size_t n, const float *e, int8_t *out)
{
    float scale = half_one_nan(k->largest(n, e) / 127);

    if (scale > 0)
        k->quantize(n, e, scale, out);
    else
        memset(out, 0, n);
    return scale;
}

/* ---- An encoding's parts ---- */

/* Run i of n elements, decoded. */
static size_t
run_decode(const struct codec_kernels *k, enum ps_compress_kind kind, size_t n, const void *encoding, size_t i,
           float *x)
{
    size_t first = i * CODEC_RUN, len = MIN(n - first, (size_t)CODEC_RUN);
    const uint16_t *halves = encoding;
    const float *scales = encoding;

    if (kind == PS_COMPRESS_FLOAT16)
        half_to_floats(len, halves + first, x);
    else if (kind == PS_COMPRESS_BFLOAT16)
        bfloat_to_floats(len, halves + first, x);
    else
        k->expand(len, (const int8_t *)(scales + runs_of(n)) + first, scales[i], x);
    return len;
}

static size_t
runs_encode(enum ps_compress_kind kind, size_t n, const float *gradient, const float *residual, float *left, void *out)
{
    const struct codec_kernels *k = kernels_chosen();
    size_t size = fixed_size(kind, n);
    float *scales = out;
    int8_t *bytes = (int8_t *)(scales + runs_of(n));
    float room[CODEC_RUN], decoded[CODEC_RUN];

    memset((uint8_t *)out + size - 4, 0, 4); /* the pad */
    if (residual != NULL && left != NULL && kind != PS_COMPRESS_INT8) {
        (kind == PS_COMPRESS_FLOAT16 ? k->half_encode : k->bfloat_encode)(n, gradient, residual, left, out);
        return size;
    }
    for (size_t i = 0; i < runs_of(n); i++) {
        size_t first = i * CODEC_RUN, len = MIN(n - first, (size_t)CODEC_RUN);
        const float *e = codec_add_residual(k, len, gradient + first, residual != NULL ? residual + first : NULL, room);

        if (kind == PS_COMPRESS_INT8)
            scales[i] = int8_run(k, len, e, bytes + first);
        else
            half_run(k, kind, len, e, (uint16_t *)out + first);
        if (left == NULL)
            continue;
        run_decode(k, kind, n, out, i, decoded);
        k->rest(len, e, decoded, left + first);
    }
    return size;
}

/* ---- The largest few ---- */

static uint32_t
codec_magnitude(float x)
{
    return half_bits(x) & 0x7fffffff;
}

/* The magnitude of the k-th largest, 1 <= k <= n, digit by digit from the top; *equal: how many of that magnitude are
 * among the k. */
static uint32_t
kth_largest(size_t n, const float *x, size_t k, size_t *equal)
{
    static const struct {
        unsigned shift, bits;
    } digits[] = {{20, 11}, {9, 11}, {0, 9}};
    uint32_t count[1 << 11], prefix = 0;

    for (size_t d = 0; d < ARRAY_LEN(digits); d++) {
        unsigned shift = digits[d].shift, bits = digits[d].bits;
        uint32_t digit = (1u << bits) - 1;

        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++)
            if (codec_magnitude(x[i]) >> shift >> bits == prefix)
                count[codec_magnitude(x[i]) >> shift & digit]++;
        for (; count[digit] < k; digit--)
            k -= count[digit];
        prefix = prefix << bits | digit;
    }
    *equal = k;
    return prefix;
}

/* Their indices, rising; how many. */
static uint32_t
codec_pick_largest(size_t n, const float *x, size_t k, uint32_t *index)
{
    size_t equal;
    uint32_t least = kth_largest(n, x, k, &equal), count = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t size = codec_magnitude(x[i]);

        if (size < least || size == 0 || (size == least && equal == 0))
            continue;
        equal -= size == least;
        index[count++] = (uint32_t)i;
    }
    return count;
}

static size_t
top_k_encode(const struct ps_compress *how, size_t n, const float *gradient, const float *residual, float *left,
             void *out)
{
    const struct codec_kernels *k = kernels_chosen();
    const float *e = left != NULL ? left : gradient;
    uint32_t *index = (uint32_t *)out + 1, count;
    float *value;

    for (size_t i = 0; left != NULL && i < n; i += CODEC_RUN) {
        size_t len = MIN(n - i, (size_t)CODEC_RUN);
        float room[CODEC_RUN];

        if (residual != NULL)
            k->feed(len, gradient + i, residual + i, room);
        else
            k->limit(len, gradient + i, INFINITY, room);
        memcpy(left + i, room, len * sizeof *room); /* left may be the residual */
    }
    count = codec_pick_largest(n, e, codec_top_k_max(how, n), index);
    memcpy(out, &count, sizeof count);
    value = (float *)(index + count);
    for (uint32_t i = 0; i < count; i++) {
        value[i] = half_one_nan(e[index[i]]);
        if (left != NULL)
            left[index[i]] = 0;
    }
    return 4 + 8 * (size_t)count;
}

static void
top_k_undo(size_t n, const uint32_t *encoding, const float *gradient, float *residual)
{
    const uint32_t *index = encoding + 1;
    const float *value = (const float *)(index + encoding[0]);
    uint32_t next = 0;

    for (size_t i = 0; i < n; i += CODEC_RUN) {
        size_t len = MIN(n - i, (size_t)CODEC_RUN);
        float decoded[CODEC_RUN] = {0};

        for (; next < encoding[0] && index[next] < i + len; next++)
            decoded[index[next] - i] = value[next];
        kernels_chosen()->undo(len, decoded, gradient + i, residual + i);
    }
}

static enum ps_err
top_k_measure(size_t n, const uint32_t *data, size_t size, size_t *bytes, struct ps_error *e)
{
    uint32_t count = size >= 4 ? data[0] : 0;
    const uint32_t *index = data + 1;

    if (size < 4 || count > n || size < 4 + 8 * (size_t)count)
        return ps_fail(e, PS_ERR_SHAPE, "top_k: %u elements of %zu do not fit into %zu bytes", count, n, size);
    for (uint32_t i = 0; i < count; i++)
        if (index[i] >= n || (i > 0 && index[i] <= index[i - 1]))
            return ps_fail(e, PS_ERR_INVALID, "top_k: index %u, the %u-th of %u, among %zu elements", index[i], i,
                           count, n);
    *bytes = 4 + 8 * (size_t)count;
    return PS_OK;
}

static void
top_k_decode(size_t n, const uint32_t *encoding, float *x)
{
    const uint32_t *index = encoding + 1;
    const float *value = (const float *)(index + encoding[0]);

    memset(x, 0, n * sizeof *x);
    for (uint32_t i = 0; i < encoding[0]; i++)
        x[index[i]] = value[i];
}

/* ---- All encodings ---- */

size_t
codec_encode_apart(const struct ps_compress *how, size_t n, const float *gradient, const float *residual, float *left,
                   void *out)
{
    ps_assert(n > 0 && n <= UINT32_MAX && how->kind != PS_COMPRESS_NONE && how->kind < PS_COMPRESS_KINDS);
    if (how->kind == PS_COMPRESS_TOP_K)
        return top_k_encode(how, n, gradient, residual, left, out);
    return runs_encode(how->kind, n, gradient, residual, left, out);
}

size_t
codec_encode(const struct ps_compress *how, size_t n, const float *gradient, float *residual, void *out)
{
    return codec_encode_apart(how, n, gradient, residual, residual, out);
}

void
codec_undo(enum ps_compress_kind kind, size_t n, const void *encoding, const float *gradient, float *residual)
{
    const struct codec_kernels *k = kernels_chosen();
    float decoded[CODEC_RUN];

    if (kind == PS_COMPRESS_TOP_K) {
        top_k_undo(n, encoding, gradient, residual);
        return;
    }
    for (size_t i = 0; i < runs_of(n); i++) {
        size_t len = run_decode(k, kind, n, encoding, i, decoded);

        k->undo(len, decoded, gradient + i * CODEC_RUN, residual + i * CODEC_RUN);
    }
}

static enum ps_err
check_scales(size_t n, const float *scale, struct ps_error *e)
{
    for (size_t i = 0; i < runs_of(n); i++)
        if (!(scale[i] >= 0 && isfinite(scale[i])))
            return ps_fail(e, PS_ERR_INVALID, "int8: scale %zu is %g", i, (double)scale[i]);
    return PS_OK;
}

enum ps_err
codec_measure(enum ps_compress_kind kind, size_t n, const void *data, size_t size, size_t *bytes, struct ps_error *e)
{
    if (kind == PS_COMPRESS_TOP_K)
        return top_k_measure(n, data, size, bytes, e);
    *bytes = fixed_size(kind, n);
    if (size < *bytes)
        return ps_fail(e, PS_ERR_SHAPE, "%s: %zu elements take %zu bytes, there are %zu", names[kind], n, *bytes, size);
    return kind == PS_COMPRESS_INT8 ? check_scales(n, data, e) : PS_OK;
}

void
codec_decode(enum ps_compress_kind kind, size_t n, const void *encoding, float *x)
{
    const struct codec_kernels *k = kernels_chosen();

    if (kind == PS_COMPRESS_NONE) {
        memcpy(x, encoding, n * sizeof *x);
    } else if (kind == PS_COMPRESS_TOP_K) {
        top_k_decode(n, encoding, x);
    } else {
        for (size_t i = 0; i < runs_of(n); i++)
            run_decode(k, kind, n, encoding, i, x + i * CODEC_RUN);
    }
}
