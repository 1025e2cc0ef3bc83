/* First values of a variable, element by element, from (seed, element index) alone, so that any cut into blocks, any
 * number of shards and any order give the same bits on one instruction set. Pure.
 *
 * Randomness: Philox (philox.h); key = seed, counter = (element index / 4, draw). Scales: Glorot and Bengio, AISTATS
 * 2010; He et al., ICCV 2015; LeCun et al., "Efficient BackProp", 1998. Fans follow the large frameworks: rank 0: 1, 1;
 * rank 1: n, n; rank 2: rows in, columns out; higher rank: the product of the leading dimensions is the receptive
 * field, the last two are in and out. */
#ifndef COMMON_CORE_MODEL_INITIALIZER_H
#define COMMON_CORE_MODEL_INITIALIZER_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* Numbers are those of the protocol's InitKind. */
enum initializer_kind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_CONSTANT,
    INIT_UNIFORM,
    INIT_NORMAL,
    INIT_TRUNCATED_NORMAL,
    INIT_GLOROT_UNIFORM,
    INIT_GLOROT_NORMAL,
    INIT_HE_UNIFORM,
    INIT_HE_NORMAL,
    INIT_LECUN_UNIFORM,
    INIT_LECUN_NORMAL,
    INIT_GIVEN, /* 0 until a worker gives them (server/core/training/assign.h) */
    INIT_KIND_MAX
};

struct initializer {
    enum initializer_kind kind;
    double a, b; /* constant: a; uniform: low, high; normals: mean, standard deviation; others: unused */
    uint64_t seed;
};

/* "glorot_uniform"; NULL for a number that is not known. */
const char *initializer_name(int kind);

/* PS_ERR_INVALID with a sentence: unknown kind, not finite, low > high, negative deviation. */
enum ps_err initializer_check(const struct initializer *init, struct ps_error *e) PS_MUST_USE;

/* Elements first to first + n - 1 of a variable of this shape. out: [n] f32. init has passed initializer_check(). */
void initializer_fill(const struct initializer *init, const uint64_t *dims, size_t rank, uint64_t first, size_t n,
                      float *out);

#endif
