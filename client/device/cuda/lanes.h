/* Kernels written once, for a GPU and for a C compiler. nvcc makes kernels of them; as plain C they are loops, which
 * the tests hold against references on machines without a GPU: the same arithmetic, the same indices, the same order.
 *
 * Two kinds of kernels. One for elements computes element i by itself:
 *
 *     struct relu_forward_args { const float *x; float *y; };
 *     KERNEL_ELEMENT(relu_forward) { k->y[i] = k->x[i] < 0 ? 0 : k->x[i]; }
 *
 * Where a kernel does little but read and write, element i is four floats, loaded and stored at once (struct quad).
 *
 * One for rows has LANES lanes, a warp, for row i. It is a sequence of stages; in each, every lane does its part, with
 * LANE(v), the value it keeps from stage to stage; lanes_*() join the lanes' values, and everything that a lane wrote
 * before is then visible to all:
 *
 *     KERNEL_ROW(row_sum)
 *     {
 *         LANES_HAVE(float, sum);
 *         EACH_LANE
 *             for (size_t c = lane; c < k->n; c += LANES)
 *                 LANE(sum) += k->x[i * k->n + c];
 *         EACH_LANE
 *             if (lane == 0) k->y[i] = lanes_sum...
 *
 * An array that every lane keeps, in registers where n and the loops over it are constant and UNROLLED, is declared as
 * type name[LANES_KEEP(n)] and has elements name[KEPT_AT(n, j)].
 *
 * A join is outside of EACH_LANE and gives all lanes the same bits. No kernel calls a C library's function but for
 * fabsf, sqrtf and their like, which are exact; products and sums are never fused (nvcc: -fmad=false). */
#ifndef CLIENT_DEVICE_CUDA_LANES_H
#define CLIENT_DEVICE_CUDA_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 32

#ifdef __CUDACC__
#define EVERYWHERE static __host__ __device__ __forceinline__
#define ROWS_ONLY  static __device__ __forceinline__
#else
#define EVERYWHERE static inline
#define ROWS_ONLY  static inline
#endif

#define KERNEL_ELEMENT(name) EVERYWHERE void name##_element(const struct name##_args *k, size_t i)
#define KERNEL_ROW(name)     ROWS_ONLY void name##_row(const struct name##_args *k, size_t i)

#ifdef __CUDACC__

#define LANES_HAVE(type, name) type name[1] = {0}
#define LANE(name)             name[0]
#define EACH_LANE              for (unsigned lane = threadIdx.x % LANES, once_ = 1; once_ != 0; once_ = 0)
#define LANES_KEEP(n)          ((n) > 0 ? (n) : 1)
#define KEPT_AT(n, j)          (j)
#define UNROLLED               _Pragma("unroll")

/* v: the lanes' values. Combine with the lane half the width away, then a quarter, and so on: sums of pairs in the same
 * order in every lane. */
#define LANES_JOIN(type, name, combine)                                                                                \
    ROWS_ONLY type lanes_##name(const type *v)                                                                         \
    {                                                                                                                  \
        type a = v[0];                                                                                                 \
        __syncwarp();                                                                                                  \
        for (int half = LANES / 2; half > 0; half /= 2) {                                                              \
            type b = __shfl_xor_sync(0xffffffffu, a, half);                                                            \
            a = combine(a, b);                                                                                         \
        }                                                                                                              \
        return a;                                                                                                      \
    }

#else

#define LANES_HAVE(type, name) type name[LANES] = {0}
#define LANE(name)             name[lane]
#define EACH_LANE              for (unsigned lane = 0; lane < LANES; lane++)
#define LANES_KEEP(n)          (LANES * ((n) > 0 ? (n) : 1))
#define KEPT_AT(n, j)          (lane * (n) + (j))
#define UNROLLED

#define LANES_JOIN(type, name, combine)                                                                                \
    ROWS_ONLY type lanes_##name(const type *v)                                                                         \
    {                                                                                                                  \
        type a[LANES];                                                                                                 \
        memcpy(a, v, sizeof a);                                                                                        \
        for (int half = LANES / 2; half > 0; half /= 2)                                                                \
            for (int i = 0; i < half; i++)                                                                             \
                a[i] = combine(a[i], a[i + half]);                                                                     \
        return a[0];                                                                                                   \
    }

#endif

#define LANES_ADD(a, b)    ((a) + (b))
#define LANES_LARGER(a, b) ((b) > (a) ? (b) : (a)) /* either alike: NaN does not get here */

LANES_JOIN(float, sum, LANES_ADD)
LANES_JOIN(double, sum_double, LANES_ADD)
LANES_JOIN(uint64_t, sum_count, LANES_ADD)
LANES_JOIN(float, max, LANES_LARGER)
LANES_JOIN(uint64_t, max_key, LANES_LARGER)

/* ---- Four floats at once: a GPU reaches its memory's speed with 16 bytes a thread ---- */

#define QUADS(n)     (((n) + 3) / 4)
#define EACH_OF_QUAD for (size_t e = 0; e < 4; e++)

/* Whether quad i of an array of n lies in it whole, where 16 bytes may be accessed at once. */
EVERYWHERE int
quad_is_whole(const void *x, size_t i, size_t n)
{
    return n - 4 * i >= 4 && (uintptr_t)x % 16 == 0;
}

/* Of numbers 4 i to 4 i + 3 of x: [n]; those behind its end are 0, and not stored. */
#define QUAD_OF(type, name)                                                                                            \
    struct __attribute__((aligned(16))) name {                                                                         \
        type of[4];                                                                                                    \
    };                                                                                                                 \
                                                                                                                       \
    EVERYWHERE struct name name##_load(const type *x, size_t i, size_t n)                                              \
    {                                                                                                                  \
        struct name q = {{0}};                                                                                         \
                                                                                                                       \
        if (quad_is_whole(x, i, n))                                                                                    \
            return ((const struct name *)(const void *)x)[i];                                                          \
        EACH_OF_QUAD                                                                                                   \
        {                                                                                                              \
            if (4 * i + e < n)                                                                                         \
                q.of[e] = x[4 * i + e];                                                                                \
        }                                                                                                              \
        return q;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    EVERYWHERE void name##_store(type *x, size_t i, size_t n, struct name q)                                           \
    {                                                                                                                  \
        if (quad_is_whole(x, i, n)) {                                                                                  \
            ((struct name *)(void *)x)[i] = q;                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        EACH_OF_QUAD                                                                                                   \
        {                                                                                                              \
            if (4 * i + e < n)                                                                                         \
                x[4 * i + e] = q.of[e];                                                                                \
        }                                                                                                              \
    }

QUAD_OF(float, quad)
QUAD_OF(uint32_t, quad_words)

/* Errors that a kernel finds, reported in memory that the host reads: words that are 0 until then. */
enum flag { FLAG_INDEX, FLAG_NONFINITE, FLAGS };

EVERYWHERE void
flag_raise(uint32_t *flags, enum flag which)
{
    *(volatile uint32_t *)(flags + which) = 1; /* many may, and all write the same */
}

#endif
