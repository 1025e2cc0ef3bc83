/* Products of matrices in the device's precision. float32 and tf32 are one call of a BLAS. For bfloat16 both factors
 * are rounded into memory of the device's own first; what does not fit there is cut into products of parts, always at
 * the same places. Sums are float32.
 *
 * A file that includes operations.h has defined, besides what stands there,
 *
 *     run_halves_product(d, a_transposed, b_transposed, m, n, k, a, a_line, b, b_line, keep, c, c_line)
 *
 * the product of such rounded factors; *_line: numbers from one row to the next. */
#ifndef CLIENT_DEVICE_CUDA_PRODUCT_OPERATIONS_H
#define CLIENT_DEVICE_CUDA_PRODUCT_OPERATIONS_H

#include "client/device/cuda/halves.h"

/* c: [m, n] = keep c + a b; a: [m, k], b: [k, n], each as it is or transposed. */
struct product {
    int a_transposed, b_transposed;
    size_t m, n, k;
    const float *a, *b;
    size_t a_line, b_line;
    float keep;
    float *c;
    size_t c_line;
};

/* A factor in 16 bits. */
struct halved {
    const uint16_t *at;
    size_t line;
};

static size_t
halves_line(size_t columns)
{
    return (columns + HALVES_RUN - 1) / HALVES_RUN * HALVES_RUN;
}

/* How much of the memory for rounded factors [rows, columns] takes. */
static size_t
halves_size(size_t rows, size_t columns)
{
    return rows * halves_line(columns);
}

/* from: [rows, columns], rounded to number `at` of that memory. */
static struct halved
halves_at(PS_MODULE_DEVICE, size_t at, size_t rows, size_t columns, const float *from, size_t line)
{
    struct halved h = {d->halves + at, halves_line(columns)};

    RUN_ELEMENTS(d, halves, rows * (h.line / HALVES_RUN), columns, line, h.line,
                 line % 4 == 0 && (uintptr_t)from % 16 == 0, from, d->halves + at);
    return h;
}

/* Two parts of a product, cut at its longest side. */
static void
product_cut(const struct product *p, struct product *first, struct product *second)
{
    size_t longest = p->m > p->n ? p->m : p->n, half;

    longest = p->k > longest ? p->k : longest;
    half = halves_line(longest / 2);
    *first = *second = *p;
    if (longest == p->k) {
        first->k = half;
        second->k -= half;
        second->a += p->a_transposed ? half * p->a_line : half;
        second->b += p->b_transposed ? half : half * p->b_line;
        second->keep = 1;
    } else if (longest == p->m) {
        first->m = half;
        second->m -= half;
        second->a += p->a_transposed ? half : half * p->a_line;
        second->c += half * p->c_line;
    } else {
        first->n = half;
        second->n -= half;
        second->b += p->b_transposed ? half * p->b_line : half;
        second->c += half;
    }
}

static void
product_in_halves(PS_MODULE_DEVICE, const struct product *p)
{
    size_t a_rows = p->a_transposed ? p->k : p->m, a_columns = p->a_transposed ? p->m : p->k;
    size_t b_rows = p->b_transposed ? p->n : p->k, b_columns = p->b_transposed ? p->k : p->n;
    size_t a_size = halves_size(a_rows, a_columns);
    struct halved a, b;

    if (a_size + halves_size(b_rows, b_columns) > d->halves_max) {
        struct product first, second;

        product_cut(p, &first, &second);
        product_in_halves(d, &first);
        product_in_halves(d, &second);
        return;
    }
    a = halves_at(d, 0, a_rows, a_columns, p->a, p->a_line);
    b = halves_at(d, a_size, b_rows, b_columns, p->b, p->b_line);
    run_halves_product(d, p->a_transposed, p->b_transposed, p->m, p->n, p->k, a.at, a.line, b.at, b.line, p->keep, p->c,
                       p->c_line);
}

/* As cpu_product(), client/device/cpu/device_cpu.h. */
static void
products_multiply(PS_MODULE_DEVICE, int a_transposed, int b_transposed, size_t m, size_t n, size_t k, const float *a,
                  const float *b, float keep, float *c)
{
    struct product p = {a_transposed,         b_transposed,         m,    n, k, a, b,
                        a_transposed ? m : k, b_transposed ? k : n, keep, c, n};

    if (d->precision == PS_MODULE_BFLOAT16)
        product_in_halves(d, &p);
    else
        run_product(d, a_transposed, b_transposed, m, n, k, a, b, keep, c);
}

/* dw: [in, out] = xT dy and, unless NULL, dx: [rows, in] = dy wT. In bfloat16 dy is rounded once for both. */
static void
products_backward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                  float *dx, float *dw)
{
    size_t dy_size = halves_size(rows, out), x_size = halves_size(rows, in), w_size = halves_size(in, out);
    struct halved g, h;

    if (d->precision != PS_MODULE_BFLOAT16 || dy_size + (x_size > w_size ? x_size : w_size) > d->halves_max) {
        products_multiply(d, 1, 0, in, out, rows, x, dy, 0, dw);
        if (dx != NULL)
            products_multiply(d, 0, 1, rows, in, out, dy, w, 0, dx);
        return;
    }
    g = halves_at(d, 0, rows, out, dy, out);
    h = halves_at(d, dy_size, rows, in, x, in);
    run_halves_product(d, 1, 0, in, out, rows, h.at, h.line, g.at, g.line, 0, dw, out);
    if (dx == NULL)
        return;
    h = halves_at(d, dy_size, in, out, w, out);
    run_halves_product(d, 0, 1, rows, in, out, g.at, g.line, h.at, h.line, 0, dx, in);
}

#endif
