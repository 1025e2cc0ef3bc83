/* First values. Philox gives four 32-bit words for every four neighbouring elements; each kind turns words into
 * numbers.
 *
 *     zeros, ones, constant     no words
 *     uniforms                  one word each
 *     normals                   words 0, 1 make normals 0, 1 and words 2, 3 make normals 2, 3 (Box and Muller, 1958)
 *     truncated normals         the same, drawn again for the elements outside the bounds, with the draw's number in
 *                               the counter: an element's value depends on no other's luck
 *
 * All arithmetic is in double and made of + - * / and sqrt, which IEEE 754 rounds exactly, with logarithm, sine and
 * cosine of our own (elementary.h): no C library's last bit is in a model. */
#include "common/core/model/initializer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/core/model/elementary.h"
#include "common/core/model/philox.h"

#define GROUP 4 /* elements that share a Philox block */

/* Truncated normals: a draw falls outside with probability 0.0455, so this many in a row with 10^-43. */
#define DRAWS_MAX       32
#define TRUNCATE_AT     2.0
#define BOX_MULLER_FAR  6.67 /* sqrt(2 * 32 * ln 2): no draw is farther out */
#define FLOAT_MAX_RANGE ((double)FLT_MAX)

static const char *const names[INIT_KIND_MAX] = {
    [INIT_ZEROS] = "zeros",
    [INIT_ONES] = "ones",
    [INIT_CONSTANT] = "constant",
    [INIT_UNIFORM] = "uniform",
    [INIT_NORMAL] = "normal",
    [INIT_TRUNCATED_NORMAL] = "truncated_normal",
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_GLOROT_NORMAL] = "glorot_normal",
    [INIT_HE_UNIFORM] = "he_uniform",
    [INIT_HE_NORMAL] = "he_normal",
    [INIT_LECUN_UNIFORM] = "lecun_uniform",
    [INIT_LECUN_NORMAL] = "lecun_normal",
    [INIT_GIVEN] = "given",
};

const char *
initializer_name(int kind)
{
    return kind >= 0 && kind < INIT_KIND_MAX ? names[kind] : NULL;
}

static bool
fits_float(double x)
{
    return x >= -FLOAT_MAX_RANGE && x <= FLOAT_MAX_RANGE;
}

static enum ps_err
check_uniform(const struct initializer *init, struct ps_error *e)
{
    if (!fits_float(init->a) || !fits_float(init->b))
        return ps_fail(e, PS_ERR_INVALID, "initializer uniform: bounds %g and %g must be finite float32 numbers",
                       init->a, init->b);
    if (init->a > init->b)
        return ps_fail(e, PS_ERR_INVALID, "initializer uniform: the low bound %g is above the high bound %g", init->a,
                       init->b);
    return PS_OK;
}

static enum ps_err
check_normal(const struct initializer *init, struct ps_error *e)
{
    if (!(init->b >= 0))
        return ps_fail(e, PS_ERR_INVALID, "initializer %s: the standard deviation must be 0 or more, not %g",
                       names[init->kind], init->b);
    if (!fits_float(fabs(init->a) + BOX_MULLER_FAR * init->b))
        return ps_fail(e, PS_ERR_INVALID, "initializer %s: mean %g and standard deviation %g pass float32's range",
                       names[init->kind], init->a, init->b);
    return PS_OK;
}

enum ps_err
initializer_check(const struct initializer *init, struct ps_error *e)
{
    if (initializer_name((int)init->kind) == NULL)
        return ps_fail(e, PS_ERR_INVALID, "initializer %d is not known", (int)init->kind);
    if (init->kind == INIT_CONSTANT && !fits_float(init->a))
        return ps_fail(e, PS_ERR_INVALID, "initializer constant: %g is not a finite float32 number", init->a);
    if (init->kind == INIT_UNIFORM)
        return check_uniform(init, e);
    if (init->kind == INIT_NORMAL || init->kind == INIT_TRUNCATED_NORMAL)
        return check_normal(init, e);
    return PS_OK;
}

/* How many inputs make one output and how many outputs one input feeds, of a layer with weights of this shape. */
struct fans {
    double in, out;
};

static struct fans
shape_fans(const uint64_t *dims, size_t rank)
{
    double field = 1;

    if (rank == 0)
        return (struct fans){1, 1};
    if (rank == 1)
        return (struct fans){(double)dims[0], (double)dims[0]};
    for (size_t i = 0; i + 2 < rank; i++)
        field *= (double)dims[i];
    return (struct fans){field * (double)dims[rank - 2], field * (double)dims[rank - 1]};
}

/* The form to which every kind is reduced: a constant, or offset + spread * (a uniform in [0, 1] or a normal). */
enum initializer_shape { SHAPE_CONSTANT, SHAPE_UNIFORM, SHAPE_NORMAL, SHAPE_TRUNCATED };

struct initializer_plan {
    enum initializer_shape shape;
    double offset, spread;
};

static struct initializer_plan
plan_uniform(double limit)
{
    return (struct initializer_plan){SHAPE_UNIFORM, -limit, 2 * limit};
}

static struct initializer_plan
plan_normal(double deviation)
{
    return (struct initializer_plan){SHAPE_NORMAL, 0, deviation};
}

/* A uniform's limit is sqrt(3) times the deviation that the paper asks for; the normals are not truncated. */
static struct initializer_plan
make_plan(const struct initializer *init, struct fans f)
{
    switch (init->kind) {
    case INIT_ZEROS:
    case INIT_GIVEN:
        return (struct initializer_plan){.shape = SHAPE_CONSTANT};
    case INIT_ONES:
        return (struct initializer_plan){.shape = SHAPE_CONSTANT, .offset = 1};
    case INIT_CONSTANT:
        return (struct initializer_plan){.shape = SHAPE_CONSTANT, .offset = init->a};
    case INIT_UNIFORM:
        return (struct initializer_plan){SHAPE_UNIFORM, init->a, init->b - init->a};
    case INIT_NORMAL:
        return (struct initializer_plan){SHAPE_NORMAL, init->a, init->b};
    case INIT_TRUNCATED_NORMAL:
        return (struct initializer_plan){SHAPE_TRUNCATED, init->a, init->b};
    case INIT_GLOROT_UNIFORM:
        return plan_uniform(sqrt(6 / (f.in + f.out)));
    case INIT_GLOROT_NORMAL:
        return plan_normal(sqrt(2 / (f.in + f.out)));
    case INIT_HE_UNIFORM:
        return plan_uniform(sqrt(6 / f.in));
    case INIT_HE_NORMAL:
        return plan_normal(sqrt(2 / f.in));
    case INIT_LECUN_UNIFORM:
        return plan_uniform(sqrt(3 / f.in));
    case INIT_LECUN_NORMAL:
        return plan_normal(sqrt(1 / f.in));
    case INIT_KIND_MAX:
        break;
    }
    ps_assert(!"initializer_check() passed");
    return (struct initializer_plan){0};
}

static void
group_words(uint64_t seed, uint64_t group, uint32_t draw, uint32_t words[GROUP])
{
    const uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32), draw, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    philox_4x32(counter, key, words);
}

/* The two halves of a group go through the same arithmetic, in two lanes.
 *
 * -2 ln((w + 1) / 2^32), which lies in [0, 44.4]. */
static doubles
minus_two_log(const uint32_t w[2])
{
    doubles k, half = elementary_log_parts((doubles){(double)w[0] + 1, (double)w[1] + 1}, &k);

    return (32.0 - k) * (2 * 0.69314718055994530942) - 4.0 * half;
}

/* a where mask's lanes are all ones, b where they are 0. */
static doubles
initializer_select(longs mask, doubles a, doubles b)
{
    return as_doubles((as_longs(a) & mask) | (as_longs(b) & ~mask));
}

/* Cosine and sine of w / 2^32 turns: the nearest quarter turn is taken out exactly. */
static void
cos_sin(const uint32_t w[2], doubles *cosine, doubles *sine)
{
    uint32_t quarter[2] = {w[0] + 0x20000000u, w[1] + 0x20000000u};
    doubles rest = {(double)(int32_t)(w[0] - (quarter[0] & 0xc0000000u)),
                    (double)(int32_t)(w[1] - (quarter[1] & 0xc0000000u))};
    longs odd = -(longs){quarter[0] >> 30 & 1, quarter[1] >> 30 & 1};
    longs sign = (longs){quarter[0] >> 31, quarter[1] >> 31} << 63;
    doubles c, s;

    elementary_cos_sin(rest * (6.28318530717958647693 * 0x1p-32), &c, &s);
    /* Odd quarters turn (c, s) into (-s, c); the second half turn changes both signs. */
    *cosine = as_doubles(as_longs(initializer_select(odd, -s, c)) ^ sign);
    *sine = as_doubles(as_longs(initializer_select(odd, c, s)) ^ sign);
}

/* Words 0 and 2 give the radii, 1 and 3 the angles. */
static void
group_normals(const uint32_t words[GROUP], double z[GROUP])
{
    doubles square = minus_two_log((uint32_t[]){words[0], words[2]});
    doubles radius = {sqrt(square[0]), sqrt(square[1])};
    doubles c, s;

    cos_sin((uint32_t[]){words[1], words[3]}, &c, &s);
    c *= radius;
    s *= radius;
    z[0] = c[0];
    z[1] = s[0];
    z[2] = c[1];
    z[3] = s[1];
}

/* Bit i: element i is outside the bounds. */
static unsigned
initializer_outside_bounds(const double z[GROUP])
{
    unsigned mask = 0;

    for (int i = 0; i < GROUP; i++)
        mask |= (unsigned)!(fabs(z[i]) <= TRUNCATE_AT) << i;
    return mask;
}

static void
group_truncated(uint64_t seed, uint64_t group, double z[GROUP])
{
    uint32_t words[GROUP];
    unsigned missing;

    group_words(seed, group, 0, words);
    group_normals(words, z);
    missing = initializer_outside_bounds(z);
    for (uint32_t draw = 1; missing != 0 && draw < DRAWS_MAX; draw++) {
        double again[GROUP];

        group_words(seed, group, draw, words);
        group_normals(words, again);
        for (int i = 0; i < GROUP; i++)
            z[i] = missing & (1u << i) ? again[i] : z[i];
        missing = initializer_outside_bounds(z);
    }
    for (int i = 0; i < GROUP; i++)
        z[i] = missing & (1u << i) ? 0 : z[i];
}

static void
group_fill(const struct initializer_plan *p, uint64_t seed, uint64_t group, float out[GROUP])
{
    uint32_t words[GROUP];
    double x[GROUP];

    if (p->shape == SHAPE_TRUNCATED) {
        group_truncated(seed, group, x);
    } else {
        group_words(seed, group, 0, words);
        if (p->shape == SHAPE_NORMAL)
            group_normals(words, x);
        else
            for (int i = 0; i < GROUP; i++)
                x[i] = (double)words[i] * 0x1p-32;
    }
    for (int i = 0; i < GROUP; i++)
        out[i] = (float)(p->offset + p->spread * x[i]);
}

/* The elements of one group from `skip` on, at most n of them; returns how many. */
static size_t
group_part(const struct initializer_plan *p, uint64_t seed, uint64_t group, size_t skip, size_t n, float *out)
{
    size_t count = MIN(n, GROUP - skip);
    float all[GROUP];

    group_fill(p, seed, group, all);
    memcpy(out, all + skip, count * sizeof *out);
    return count;
}

void
initializer_fill(const struct initializer *init, const uint64_t *dims, size_t rank, uint64_t first, size_t n,
                 float *out)
{
    struct initializer_plan p = make_plan(init, shape_fans(dims, rank));
    size_t i = 0;

    if (p.shape == SHAPE_CONSTANT) {
        for (i = 0; i < n; i++)
            out[i] = (float)p.offset;
        return;
    }
    if (n > 0 && first % GROUP != 0)
        i = group_part(&p, init->seed, first / GROUP, first % GROUP, n, out);
    for (; n - i >= GROUP; i += GROUP)
        group_fill(&p, init->seed, (first + i) / GROUP, out + i);
    if (i < n)
        group_part(&p, init->seed, (first + i) / GROUP, 0, n - i, out + i);
}
