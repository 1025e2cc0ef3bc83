/* Encodings of gradients (ps_compress.h), as specified in PROTOCOL.md's section 12: those of pushes, which workers
 * encode and shards decode, and those between the ranks of a group. Pure, and the same bits on every instruction set.
 *
 * Error feedback: the encoded value is e = gradient + residual, and the new residual is what the encoding leaves out: e
 * minus the value that the other side decodes. Both are exact but for float32's own rounding of the sum, so the sum of
 * all that was decoded and of the residual is the sum of all gradients. Sums are kept within 2^127.
 *
 * NaN: every one in an encoding and in a residual has the same bits, those of HALF_NAN (half.h), whichever NaNs it was
 * made of and on whichever processor. A run of PS_COMPRESS_INT8 with one has it as its scale.
 *
 * An encoding of n elements is a multiple of 4 bytes, to be put at one: several stand one behind the other. Padding
 * bytes at its end are 0 and are not read. n < 2^32. */
#ifndef COMMON_CORE_CODEC_CODEC_H
#define COMMON_CORE_CODEC_CODEC_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_compress.h"

#define CODEC_RUN 256 /* elements that share a scale of PS_COMPRESS_INT8 */

/* PS_ERR_INVALID: a kind that is not known, a fraction out of its range. */
enum ps_err codec_check(const struct ps_compress *how, struct ps_error *e) PS_MUST_USE;

/* Bytes that an encoding of n elements takes at most; PS_COMPRESS_NONE: those of float32. */
size_t codec_size_max(const struct ps_compress *how, size_t n);

/* Encode gradient + residual into out (codec_size_max() bytes, 4-byte aligned), and leave in residual what is left.
 * Both [n] f32, finite. residual NULL: there is none, and none is kept. Returns the encoding's bytes. how->kind is not
 * PS_COMPRESS_NONE. */
size_t codec_encode(const struct ps_compress *how, size_t n, const float *gradient, float *residual, void *out);

/* The same without writing to residual: what is left goes to left, [n] f32. residual NULL: there is none, and the
 * gradient is within 2^127. */
size_t codec_encode_apart(const struct ps_compress *how, size_t n, const float *gradient, const float *residual,
                          float *left, void *out);

/* Take that back: the residual is as if the gradient had never been encoded, whatever was encoded since. */
void codec_undo(enum ps_compress_kind kind, size_t n, const void *encoding, const float *gradient, float *residual);

/* Bytes of the encoding of n elements at data, of which `size` are there, not trusted. PS_ERR_SHAPE: they end before it
 * does; PS_ERR_INVALID: no encoder makes it (a scale that is negative or not finite, indices that do not rise, or are
 * none of the n). */
enum ps_err codec_measure(enum ps_compress_kind kind, size_t n, const void *data, size_t size, size_t *bytes,
                          struct ps_error *e) PS_MUST_USE;

/* Decode a measured encoding to float32: x is [n]. Elements may be NaN or infinite where the encoder's were. */
void codec_decode(enum ps_compress_kind kind, size_t n, const void *encoding, float *x);

#endif
