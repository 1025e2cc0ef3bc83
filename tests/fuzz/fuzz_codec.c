/* Encodings of gradients: bytes from a peer are decoded or refused, and what an encoder is given comes back.
 *
 * The first byte chooses the encoding, the next two how many elements there are, the fourth which way; the rest is the
 * encoding, or the elements. */
#include "tests/fuzz/bytes.h"

#include <math.h>

#include "common/core/codec/codec.h"

#define ELEMENTS_MAX 1100

static void
from_a_peer(struct fuzz_bytes *b, enum ps_compress_kind kind, size_t n)
{
    size_t size = b->left / 4 * 4, bytes;
    char *data = bytes_text(b, size);
    float *x = malloc(n * sizeof *x);
    struct ps_error e = {0};
    enum ps_err err = codec_measure(kind, n, data, size, &bytes, &e);

    ps_assert(x != NULL);
    if (err == PS_OK) {
        ps_assert(bytes <= size && bytes % 4 == 0);
        codec_decode(kind, n, data, x);
    } else {
        ps_assert((err == PS_ERR_SHAPE || err == PS_ERR_INVALID) && err == e.code && e.text[0] != '\0');
    }
    free(x);
    free(data);
}

static void
there_and_back(struct fuzz_bytes *b, const struct ps_compress *how, size_t n)
{
    size_t size = codec_size_max(how, n), bytes, used;
    float *gradient = calloc(n, sizeof *gradient), *residual = calloc(n, sizeof *residual), *x = malloc(n * sizeof *x);
    uint8_t *encoding = malloc(size);
    size_t len = MIN(n * sizeof *gradient, b->left);

    ps_assert(gradient != NULL && residual != NULL && x != NULL && encoding != NULL);
    memcpy(gradient, b->at, len);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(gradient[i])) /* refused before it comes here */
            gradient[i] = 0;
    for (int step = 0; step < 2; step++) {
        used = codec_encode(how, n, gradient, residual, encoding);
        ps_assert(used <= size && codec_measure(how->kind, n, encoding, used, &bytes, NULL) == PS_OK && bytes == used);
        codec_decode(how->kind, n, encoding, x);
        for (size_t i = 0; i < n; i++)
            ps_assert(isfinite(x[i]) && isfinite(residual[i]));
    }
    codec_undo(how->kind, n, encoding, gradient, residual);
    for (size_t i = 0; i < n; i++)
        ps_assert(isfinite(residual[i]));
    free(encoding);
    free(x);
    free(residual);
    free(gradient);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    struct ps_compress how = {.kind = (enum ps_compress_kind)(1 + bytes_below(&b, PS_COMPRESS_KINDS - 1))};
    size_t n = 1 + (bytes_one(&b) * 256u + bytes_one(&b)) % ELEMENTS_MAX;
    uint8_t way = bytes_one(&b);

    how.fraction = (double)(way / 2) / 128;
    if (way % 2 == 0)
        from_a_peer(&b, how.kind, n);
    else
        there_and_back(&b, &how, n);
    return 0;
}
