/* The way of a batch to the device: before it is computed with, or while the one before it is.
 *
 *     prefetch b     noted; memory for a second batch is set aside the first time
 *     gradient of a  all its kernels are started; b's copies are, into the other slot; the results of a are waited for,
 *                    and so b has arrived
 *     gradient of b  computes from that slot
 *
 * A slot is written when nothing that reads it still runs: each pass ends with its results on the host. */
#include <string.h>

#include "client/device/device_staging.h"
#include "client/network/network.h"

/* What a batch brings for the first layer, and what its outputs are compared with. */
static const void *
batch_input(const ps_network *n, const struct ps_batch *b)
{
    return n->takes_ids ? (const void *)b->ids : b->x;
}

static const void *
batch_wanted(const ps_network *n, const struct ps_batch *b)
{
    return n->loss == PS_LOSS_SIGMOID ? (const void *)b->targets : b->labels;
}

/* Bytes of both. */
static size_t
batch_input_size(const ps_network *n, size_t rows)
{
    return rows * n->inputs * sizeof(float);
}

static size_t
batch_wanted_size(const ps_network *n, size_t rows)
{
    return rows * (n->loss == PS_LOSS_SIGMOID ? n->outputs : 1) * sizeof(float);
}

static bool
batch_same(const ps_network *n, const struct ps_batch *a, const struct ps_batch *b)
{
    return a->rows == b->rows && batch_input(n, a) == batch_input(n, b) && batch_wanted(n, a) == batch_wanted(n, b);
}

/* ---- Computing with it ---- */

const void *
network_batch_input(ps_network *n, const struct ps_batch *b)
{
    struct network_batches *s = &n->batches;

    if (ps_device_is_host(n->device))
        return batch_input(n, b);
    s->here = s->has_sent && batch_same(n, b, &s->sent);
    if (s->here) {
        s->has_sent = false;
        s->slot = 1 - s->slot;
    } else {
        device_send(n->device, s->input[s->slot], batch_input(n, b), batch_input_size(n, b->rows));
    }
    return s->input[s->slot];
}

const void *
network_batch_wanted(ps_network *n, const struct ps_batch *b)
{
    struct network_batches *s = &n->batches;

    if (ps_device_is_host(n->device))
        return batch_wanted(n, b);
    if (!s->here)
        device_send(n->device, s->wanted[s->slot], batch_wanted(n, b), batch_wanted_size(n, b->rows));
    return s->wanted[s->slot];
}

/* ---- While the one before computes ---- */

/* staged: where memory that the device does not access directly is copied first. */
static void
batch_send(ps_network *n, void *to, const void *from, void *staged, size_t size)
{
    if (size == 0)
        return;
    if (!device_staging_serves(n->device, from, size)) {
        memcpy(staged, from, size);
        from = staged;
    }
    device_send(n->device, to, from, size);
}

void
network_batch_send_next(ps_network *n)
{
    struct network_batches *s = &n->batches;
    size_t other = 1 - s->slot;

    if (!s->has_next)
        return;
    batch_send(n, s->input[other], batch_input(n, &s->next), s->staged_input, batch_input_size(n, s->next.rows));
    batch_send(n, s->wanted[other], batch_wanted(n, &s->next), s->staged_wanted, batch_wanted_size(n, s->next.rows));
    s->sent = s->next;
    s->has_sent = true;
    s->has_next = false;
}

static enum ps_err
alloc_second(ps_network *n, struct ps_error *e)
{
    struct network_batches *s = &n->batches;
    size_t other = 1 - s->slot;

    if (s->input[other] == NULL &&
        (s->input[other] = network_alloc(n, batch_input_size(n, n->rows_max) / sizeof(float), e)) == NULL)
        return PS_ERR_NOMEM;
    if (s->wanted[other] == NULL &&
        (s->wanted[other] = network_alloc(n, batch_wanted_size(n, n->rows_max) / sizeof(float), e)) == NULL)
        return PS_ERR_NOMEM;
    return PS_OK;
}

static enum ps_err
alloc_staged(ps_network *n, struct ps_error *e)
{
    struct network_batches *s = &n->batches;

    if (s->staged_input == NULL &&
        (s->staged_input = network_alloc_host(n, batch_input_size(n, n->rows_max) / sizeof(float), e)) == NULL)
        return PS_ERR_NOMEM;
    if (s->staged_wanted == NULL &&
        (s->staged_wanted = network_alloc_host(n, batch_wanted_size(n, n->rows_max) / sizeof(float), e)) == NULL)
        return PS_ERR_NOMEM;
    return PS_OK;
}

static bool
batch_is_staging(const ps_network *n, const struct ps_batch *b)
{
    return device_staging_serves(n->device, batch_input(n, b), batch_input_size(n, b->rows)) &&
           device_staging_serves(n->device, batch_wanted(n, b), batch_wanted_size(n, b->rows));
}

enum ps_err
ps_network_prefetch(ps_network *network, const struct ps_batch *batch, struct ps_error *error)
{
    ps_network *n = network;
    enum ps_err err;

    if ((err = network_check_rows(n, batch, error)) != PS_OK)
        return err;
    if (batch->rows > 0 && (batch_input(n, batch) == NULL || batch_wanted(n, batch) == NULL))
        return ps_fail(error, PS_ERR_INVALID, "a batch of %zu rows without %s", batch->rows,
                       batch_input(n, batch) == NULL ? "inputs"
                       : n->loss == PS_LOSS_SIGMOID  ? "targets"
                                                     : "labels");
    if (ps_device_is_host(n->device))
        return PS_OK;
    if ((err = alloc_second(n, error)) != PS_OK)
        return err;
    if (!batch_is_staging(n, batch) && (err = alloc_staged(n, error)) != PS_OK)
        return err;
    n->batches.next = *batch;
    n->batches.has_next = true;
    return PS_OK;
}
