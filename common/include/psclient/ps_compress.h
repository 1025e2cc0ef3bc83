/* ps_compress.h: smaller gradients, for pushes and collectives. What an encoding leaves out of one gradient the worker
 * keeps and adds to its next one (error feedback), so that nothing is lost for good: Seide et al., "1-Bit Stochastic
 * Gradient Descent", Interspeech 2014; Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019. Part of
 * psclient.h.
 *
 * Threads: any. */
#ifndef PS_COMPRESS_H
#define PS_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What gradients travel as: constant, name, number on the wire (add at the end, never renumber). proto/PROTOCOL.md,
 * section 12, has the bytes.
 *
 * Since: 0.1 */
/* clang-format off */
#define PS_COMPRESS_LIST(X)     \
    X(NONE,     none,     0)    \
    X(FLOAT16,  float16,  1)    \
    X(BFLOAT16, bfloat16, 2)    \
    X(INT8,     int8,     3)    \
    X(TOP_K,    top_k,    4)
/* clang-format on */

/* What gradients travel as.
 *
 *     NONE      4 bytes an element, as they are.
 *     FLOAT16   2 bytes an element. Beyond 65504 an element is cut off there; what is over comes with later gradients.
 *     BFLOAT16  2 bytes an element: float32's range with 8 bits of precision.
 *     INT8      1 byte an element, and 4 for each 256 of a block: their largest magnitude / 127 is the step between two
 *               values (Dettmers, "8-Bit Approximations for Parallelism in Deep Learning", ICLR 2016).
 *     TOP_K     of each block the `fraction` of its elements that are largest by magnitude, at least one, with 8 bytes
 *               each; of equal ones the first. Those that are 0 are left out. (Aji and Heafield, "Sparse Communication
 *               for Distributed Gradient Descent", EMNLP 2017; Lin et al., "Deep Gradient Compression", ICLR 2018.)
 *
 * Since: 0.1 */
enum ps_compress_kind {
#define PS_COMPRESS_ENUM(NAME, name, number) PS_COMPRESS_##NAME = number,
    PS_COMPRESS_LIST(PS_COMPRESS_ENUM)
#undef PS_COMPRESS_ENUM
        PS_COMPRESS_KINDS /* one past the last */
};

/* An encoding with its parameter. Zeroed: none.
 * Since: 0.1 */
struct ps_compress {
    enum ps_compress_kind kind;
    double fraction; /* TOP_K: above 0, at most 1; 0: PS_COMPRESS_FRACTION. Others pass it over */
};

/* The fraction of TOP_K where none is given.
 * Since: 0.1 */
#define PS_COMPRESS_FRACTION 0.01

/* The name of an encoding.
 *
 * Parameters:
 *   kind  an encoding
 * Returns: "int8"; NULL for a number that is not known. Static.
 * Since: 0.1 */
PS_API const char *ps_compress_name(enum ps_compress_kind kind);

/* Read an encoding from text: a name, and for top_k its fraction.
 *
 *     float16    top_k    top_k:fraction=0.05    top_k:0.05
 *
 * Parameters:
 *   text   what is to be read
 *   out    the encoding; as it was after an error
 *   error  filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_INVALID  no such encoding, with what can be said instead; a parameter that it does not have, a fraction out
 *                   of its range
 * Since: 0.1 */
PS_API enum ps_err ps_compress_parse(const char *text, struct ps_compress *out, struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
