/* Pushes and pulls of device memory (ps_tensors.h), over those of host memory.
 *
 *     push    device ──copy──► staging ──► one push for each piece, the last first, as backward passes leave them
 *     pull    one for each piece, the first piece first ──► staging ──copy──► device
 *
 * A compressed push is made whole: a device that encodes (tensor_codec.h) does so first, and the encodings are copied.
 *
 * While a piece is copied the one before it is on the network; a pull's pieces are all requested at once, and each is
 * copied when it has arrived. Where device memory is host memory there is one piece and nothing to copy. */
#include "client/include/psclient/ps_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "client/api/client_internal.h"
#include "client/device/device_codec.h"
#include "client/device/device_staging.h"
#include "client/strategy/tensor_codec.h"
#include "common/core/base/base.h"
#include "common/system/now.h"

#define PIECE_USUAL  ((uint64_t)4 * MIB)
#define TENSOR_ALIGN 64

struct tensor_piece {
    size_t first, n; /* variables */
};

/* A push or a pull that is under way: its pieces, in the order of their starts. */
struct tensor_flight {
    ps_op **op;     /* [pieces]; NULL: not started, or over */
    size_t started; /* of them; 0: none is under way */
    size_t landed;  /* pull: whose values are on the device */
};

#define ON_NO_WAY (-1)

struct ps_tensors {
    ps_client *client;
    ps_device *device;
    bool is_host;
    size_t n, pieces;
    ps_var **vars;
    struct tensor_piece *piece;

    /* Host memory: [n] each, into `staging`. NULL where device memory is host memory. */
    float **values, **gradients;
    void *staging;

    struct tensor_codec *codec; /* NULL: nothing was encoded on the device yet */
    int *on_way;      /* [n]: as what this gradient is on its way to the host, or there: of enum ps_compress_kind;
                         ON_NO_WAY: it is not */
    bool sent;        /* copies to the device may still read values */
    bool overlaid;    /* the pull under way leaves out blocks */
    float *const *to; /* [n]: its tensors */
    float **to_room;
    struct tensor_flight push, pull;
};

/* ---- Making ---- */

static uint64_t
bytes_of(const ps_tensors *t, size_t i)
{
    return ps_var_elements(t->vars[i]) * sizeof(float);
}

/* Neighbours share a piece while it is not larger than so many bytes. */
static void
tensors_cut(ps_tensors *t, uint64_t most)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < t->n; i++) {
        bool fits = t->pieces > 0 && (t->is_host || (bytes <= most && bytes_of(t, i) <= most - bytes));

        if (!fits) {
            t->piece[t->pieces++] = (struct tensor_piece){.first = i};
            bytes = 0;
        }
        t->piece[t->pieces - 1].n++;
        bytes += bytes_of(t, i);
    }
}

/* One block of host memory for all gradients and, unless the caller has them, all values. */
static enum ps_err
tensors_alloc_staging(ps_tensors *t, float *const *values, struct ps_error *e)
{
    uint64_t bytes = 0;
    char *at;
    enum ps_err err;

    for (size_t i = 0; i < t->n; i++)
        bytes += round_up(bytes_of(t, i), TENSOR_ALIGN) * (values == NULL ? 2 : 1);
    if ((err = ps_device_alloc_host(t->device, bytes, &t->staging, e)) != PS_OK)
        return err;
    at = t->staging;
    for (size_t i = 0; i < t->n; i++) {
        t->gradients[i] = (float *)(void *)at;
        at += round_up(bytes_of(t, i), TENSOR_ALIGN);
        t->values[i] = values != NULL ? values[i] : (float *)(void *)at;
        if (values == NULL)
            at += round_up(bytes_of(t, i), TENSOR_ALIGN);
    }
    return PS_OK;
}

static enum ps_err
tensors_allocate(ps_tensors *t, struct ps_error *e)
{
    t->vars = calloc(t->n, sizeof(*t->vars));
    t->piece = calloc(t->n, sizeof *t->piece);
    t->values = calloc(t->n, sizeof(*t->values));
    t->gradients = calloc(t->n, sizeof(*t->gradients));
    t->on_way = calloc(t->n, sizeof *t->on_way);
    t->to_room = calloc(t->n, sizeof(*t->to_room));
    t->push.op = calloc(t->n, sizeof(*t->push.op));
    t->pull.op = calloc(t->n, sizeof(*t->pull.op));
    if (t->vars == NULL || t->piece == NULL || t->values == NULL || t->gradients == NULL || t->on_way == NULL ||
        t->to_room == NULL || t->push.op == NULL || t->pull.op == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu tensors", t->n);
    return PS_OK;
}

enum ps_err
ps_tensors_new(ps_client *client, ps_device *device, size_t n, ps_var *const vars[],
               const struct ps_tensors_options *options, ps_tensors **out, struct ps_error *error)
{
    static const struct ps_tensors_options usual;
    const struct ps_tensors_options *o = options != NULL ? options : &usual;
    enum ps_err err;
    ps_tensors *t;

    if ((err = client_check_vars(client, n, vars, error)) != PS_OK)
        return err;
    if ((t = calloc(1, sizeof *t)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for tensors");
    t->client = client;
    t->device = device;
    t->is_host = ps_device_is_host(device) != 0;
    t->n = n;
    if ((err = tensors_allocate(t, error)) == PS_OK) {
        memcpy(t->vars, vars, n * sizeof(*vars));
        ps_tensors_forget(t);
        tensors_cut(t, o->piece == 0 ? PIECE_USUAL : o->piece);
        err = t->is_host ? PS_OK : tensors_alloc_staging(t, o->values, error);
    }
    if (err != PS_OK) {
        ps_tensors_free(t);
        return err;
    }
    *out = t;
    return PS_OK;
}

void
ps_tensors_free(ps_tensors *tensors)
{
    ps_tensors *t = tensors;
    enum ps_err finished;

    if (t == NULL)
        return;
    ps_tensors_push_cancel(t);
    ps_tensors_pull_cancel(t);
    if (!t->is_host) {
        finished = ps_device_finish(t->device, NULL); /* no copy reads or writes host memory any more */
        (void)finished;
        tensor_codec_free(t->codec);
        ps_device_free_host(t->device, t->staging);
    }
    free(t->vars);
    free(t->piece);
    free(t->values);
    free(t->gradients);
    free(t->on_way);
    free(t->to_room);
    free(t->push.op);
    free(t->pull.op);
    free(t);
}

size_t
ps_tensors_pieces(const ps_tensors *tensors)
{
    return tensors->pieces;
}

/* ---- What is under way ---- */

static void
give_up(struct tensor_flight *f)
{
    for (size_t k = 0; k < f->started; k++) {
        ps_op_free(f->op[k]);
        f->op[k] = NULL;
    }
    f->started = f->landed = 0;
}

int
ps_tensors_pushing(const ps_tensors *tensors)
{
    return tensors->push.started > 0;
}

int
ps_tensors_pulling(const ps_tensors *tensors)
{
    return tensors->pull.started > 0;
}

void
ps_tensors_push_cancel(ps_tensors *tensors)
{
    give_up(&tensors->push);
    tensor_codec_settle(tensors->codec);
}

void
ps_tensors_pull_cancel(ps_tensors *tensors)
{
    give_up(&tensors->pull);
}

static enum ps_err
check_start(const ps_tensors *t, const struct tensor_flight *f, const void *tensors, const char *what,
            struct ps_error *e)
{
    if (f->started > 0)
        return ps_fail(e, PS_ERR_INVALID, "a %s of these tensors is under way: wait for it first", what);
    if (tensors == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a %s needs its tensors", what);
    for (size_t i = 0; i < t->n; i++)
        if (((const void *const *)tensors)[i] == NULL)
            return ps_fail(e, PS_ERR_INVALID, "%s: the tensor of '%s' is NULL", what, ps_var_name(t->vars[i]));
    return PS_OK;
}

/* ---- Push ---- */

/* kind: NONE, or what the device encodes. */
static enum ps_err
tensors_fetch_start(ps_tensors *t, size_t i, enum ps_compress_kind kind, const float *grad, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (t->on_way[i] == (int)kind)
        return PS_OK;
    if (t->on_way[i] != ON_NO_WAY) /* both would be written to one place */
        err = device_fetched(t->device, e);
    t->on_way[i] = ON_NO_WAY;
    if (err == PS_OK && kind == PS_COMPRESS_NONE)
        err = device_fetch(t->device, t->gradients[i], grad, bytes_of(t, i), e);
    else if (err == PS_OK)
        err = tensor_codec_encode(t->codec, i, kind, grad, e);
    if (err == PS_OK)
        t->on_way[i] = (int)kind;
    return err;
}

static enum ps_err
fetch_piece(ps_tensors *t, const struct tensor_piece *p, const float *const grads[], struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = p->first + p->n; err == PS_OK && i-- > p->first;)
        err = tensors_fetch_start(t, i, PS_COMPRESS_NONE, grads[i], e);
    return err;
}

static enum ps_err
push_piece(ps_tensors *t, const struct tensor_piece *p, const float *const grads[],
           const struct ps_push_options *options, struct ps_error *e)
{
    struct tensor_flight *f = &t->push;
    enum ps_err err =
        ps_client_push_start(t->client, p->n, t->vars + p->first, grads + p->first, options, &f->op[f->started], e);

    if (err == PS_OK)
        f->started++;
    return err;
}

/* What is copied is waited for whatever happens: host memory is at rest afterwards. */
static enum ps_err
tensors_fetch_done(ps_tensors *t, enum ps_err before, struct ps_error *e)
{
    enum ps_err err = device_fetched(t->device, before == PS_OK ? e : NULL);

    return before != PS_OK ? before : err;
}

static enum ps_err
push_whole(ps_tensors *t, const float *const grads[], const struct ps_push_options *options, struct ps_error *e)
{
    struct tensor_piece all = {0, t->n};
    enum ps_err err = tensors_fetch_done(t, fetch_piece(t, &all, grads, e), e);

    return err == PS_OK ? push_piece(t, &all, (const float *const *)t->gradients, options, e) : err;
}

/* As what a push's gradients leave the device: NONE where that does not encode so, or the host needs them to find their
 * norm. */
static enum ps_compress_kind
tensors_kind(const ps_tensors *t, const struct ps_push_options *options)
{
    enum ps_compress_kind kind = client_push_compress(t->client, options)->kind;

    return device_encodes(t->device, kind) && !client_clips(t->n, t->vars, options) ? kind : PS_COMPRESS_NONE;
}

static enum ps_err
make_codec(ps_tensors *t, struct ps_error *e)
{
    return t->codec != NULL ? PS_OK : tensor_codec_new(t->device, t->n, t->vars, t->gradients, &t->codec, e);
}

/* All of them, encoded. */
static enum ps_err
fetch_encoded(ps_tensors *t, enum ps_compress_kind kind, const float *const grads[], struct ps_error *e)
{
    enum ps_err err = make_codec(t, e);

    for (size_t i = t->n; err == PS_OK && i-- > 0;)
        err = tensors_fetch_start(t, i, kind, grads[i], e);
    if ((err = tensors_fetch_done(t, err, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < t->n; i++)
        if (!tensor_codec_finite(t->codec, i))
            return ps_fail(e, PS_ERR_NONFINITE,
                           "push: the gradient for variable '%.64s' holds NaN or Inf, and cannot be compressed",
                           ps_var_name(t->vars[i]));
    return PS_OK;
}

static enum ps_err
push_encoded(ps_tensors *t, enum ps_compress_kind kind, const float *const grads[],
             const struct ps_push_options *options, struct ps_error *e)
{
    struct tensor_flight *f = &t->push;
    enum ps_err err = fetch_encoded(t, kind, grads, e);

    if (err == PS_OK)
        err = client_push_encoded_start(t->client, t->n, t->vars, tensor_codec_push(t->codec), options,
                                        &f->op[f->started], e);
    if (err == PS_OK)
        f->started++;
    return err;
}

/* The copy of a piece begins when that before it is complete, and goes on while that is handed to the network. */
static enum ps_err
push_pieces(ps_tensors *t, const float *const grads[], const struct ps_push_options *options, struct ps_error *e)
{
    enum ps_err err = fetch_piece(t, &t->piece[t->pieces - 1], grads, e);

    for (size_t k = t->pieces; err == PS_OK && k-- > 0;) {
        if ((err = tensors_fetch_done(t, err, e)) == PS_OK && k > 0)
            err = fetch_piece(t, &t->piece[k - 1], grads, e);
        if (err == PS_OK)
            err = push_piece(t, &t->piece[k], (const float *const *)t->gradients, options, e);
    }
    return tensors_fetch_done(t, err, e);
}

enum ps_err
ps_tensors_push_start(ps_tensors *tensors, const float *const grads[], const struct ps_push_options *options,
                      struct ps_error *error)
{
    ps_tensors *t = tensors;
    struct ps_push_options o = {0};
    enum ps_compress_kind kind;
    enum ps_err err;

    if ((err = check_start(t, &t->push, grads, "push", error)) != PS_OK)
        return err;
    if (t->is_host)
        return push_piece(t, &t->piece[0], grads, options, error);
    if (options != NULL)
        o = *options;
    o.flags &= ~(unsigned)PS_PUSH_COPY; /* it is one */
    if ((kind = tensors_kind(t, &o)) != PS_COMPRESS_NONE)
        err = push_encoded(t, kind, grads, &o, error);
    else if (t->pieces == 1 || client_looks_first(t->client, t->n, t->vars, &o))
        err = push_whole(t, grads, &o, error);
    else
        err = push_pieces(t, grads, &o, error);
    ps_tensors_forget(t);
    if (err != PS_OK)
        ps_tensors_push_cancel(t);
    return err;
}

/* The first error of those that are done, in the order of the variables; a drop only when there is no other. */
static enum ps_err
push_result(const ps_tensors *t, struct ps_error *e)
{
    enum ps_err err = PS_OK, of_one;
    struct ps_error why = {0};

    for (size_t k = t->push.started; k-- > 0;) {
        of_one = ps_op_result(t->push.op[k], &why);
        if (of_one == PS_OK || (err != PS_OK && (of_one == PS_ERR_STALE || of_one == PS_ERR_LATE)))
            continue;
        if (err != PS_OK && err != PS_ERR_STALE && err != PS_ERR_LATE)
            continue;
        err = of_one;
        if (e != NULL)
            *e = why;
    }
    return err;
}

static bool
all_done(const struct tensor_flight *f)
{
    for (size_t k = 0; k < f->started; k++)
        if (!ps_op_test(f->op[k]))
            return false;
    return true;
}

enum ps_err
ps_tensors_push_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error)
{
    ps_tensors *t = tensors;
    enum ps_err err;

    if (t->push.started == 0)
        return ps_fail(error, PS_ERR_INVALID, "no push of these tensors is under way");
    err = ps_op_wait_all(t->push.started, t->push.op, timeout_ms, error);
    if (err == PS_ERR_TIMEOUT && !all_done(&t->push))
        return err;
    if (err != PS_OK)
        err = push_result(t, error);
    ps_tensors_push_cancel(t);
    return err;
}

enum ps_err
ps_tensors_push(ps_tensors *tensors, const float *const grads[], const struct ps_push_options *options,
                struct ps_error *error)
{
    int timeout_ms = options != NULL && options->timeout_ms != 0 ? options->timeout_ms : -1;
    enum ps_err err = ps_tensors_push_start(tensors, grads, options, error);

    if (err == PS_OK)
        err = ps_tensors_push_wait(tensors, timeout_ms, error);
    ps_tensors_push_cancel(tensors);
    return err;
}

/* ---- Gradients on their way ---- */

enum ps_err
ps_tensors_ready(ps_tensors *tensors, size_t i, const float *grad, struct ps_error *error)
{
    enum ps_compress_kind kind;
    enum ps_err err;

    if (i >= tensors->n || grad == NULL)
        return ps_fail(error, PS_ERR_INVALID, "gradient %zu of %zu is not there, or NULL", i, tensors->n);
    if (tensors->push.started > 0)
        return ps_fail(error, PS_ERR_INVALID, "a push of these tensors is under way: wait for it first");
    if (tensors->is_host)
        return PS_OK;
    kind = tensors_kind(tensors, NULL);
    if (kind != PS_COMPRESS_NONE && (err = make_codec(tensors, error)) != PS_OK)
        return err;
    if (tensors->on_way[i] == (int)kind)
        tensors->on_way[i] = ON_NO_WAY; /* again, in the same place, after the first */
    return tensors_fetch_start(tensors, i, kind, grad, error);
}

void
ps_tensors_forget(ps_tensors *tensors)
{
    for (size_t i = 0; i < tensors->n; i++)
        tensors->on_way[i] = ON_NO_WAY;
}

/* ---- Pull ---- */

/* Afterwards nothing on the device uses what is overwritten, in host or device memory. */
static enum ps_err
clear_way(ps_tensors *t, struct ps_error *e)
{
    enum ps_err err = PS_OK, arrived;

    if ((err = ps_device_finish(t->device, e)) != PS_OK)
        return err;
    t->sent = false;
    for (size_t i = 0; t->overlaid && err == PS_OK && i < t->n; i++)
        err = device_fetch(t->device, t->values[i], t->to[i], bytes_of(t, i), e);
    arrived = device_fetched(t->device, err == PS_OK ? e : NULL);
    return err != PS_OK ? err : arrived;
}

enum ps_err
ps_tensors_pull_start(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options,
                      struct ps_error *error)
{
    ps_tensors *t = tensors;
    struct tensor_flight *f = &t->pull;
    float *const *to = t->is_host ? out : t->values;
    enum ps_err err;

    if ((err = check_start(t, f, out, "pull", error)) != PS_OK)
        return err;
    memcpy(t->to_room, out, t->n * sizeof(*out));
    t->to = t->to_room;
    t->overlaid = options != NULL && (options->newer_than > 0 || options->only_changed);
    if (!t->is_host && (t->sent || t->overlaid) && (err = clear_way(t, error)) != PS_OK)
        return err;
    for (size_t k = 0; err == PS_OK && k < t->pieces; k++) {
        const struct tensor_piece *p = &t->piece[k];

        err = ps_client_pull_start(t->client, p->n, t->vars + p->first, to + p->first, options, &f->op[k], error);
        f->started += err == PS_OK;
    }
    if (err != PS_OK)
        give_up(f);
    return err;
}

static void
tensors_land_piece(ps_tensors *t, size_t k)
{
    const struct tensor_piece *p = &t->piece[k];

    if (t->is_host || ps_op_blocks_transferred(t->pull.op[k]) == 0)
        return;
    for (size_t i = p->first; i < p->first + p->n; i++)
        device_send(t->device, t->to[i], t->values[i], bytes_of(t, i));
    t->sent = true;
}

/* Piece by piece; while one is sent to the device, the others arrive. */
static enum ps_err
land_all(ps_tensors *t, uint64_t until, struct ps_error *e)
{
    struct tensor_flight *f = &t->pull;
    uint64_t begun = monotonic_ms();
    enum ps_err err = PS_OK;

    while (err == PS_OK && f->landed < f->started) {
        uint64_t now = monotonic_ms();

        client_op_waited(f->op[f->landed], now - begun);
        err = ps_op_wait(f->op[f->landed], now < until ? (int)(until - now) : 0, e);
        if (err == PS_OK)
            tensors_land_piece(t, f->landed++);
    }
    return err;
}

enum ps_err
ps_tensors_pull_wait(ps_tensors *tensors, int timeout_ms, struct ps_error *error)
{
    ps_tensors *t = tensors;
    struct tensor_flight *f = &t->pull;
    uint64_t until = monotonic_ms() + client_timeout(t->client, timeout_ms);
    enum ps_err err = PS_OK;

    if (f->started == 0)
        return ps_fail(error, PS_ERR_INVALID, "no pull of these tensors is under way");
    if (!t->is_host && f->landed == 0)
        err = ps_device_finish(t->device, error);
    if (err == PS_OK && (err = land_all(t, until, error)) == PS_ERR_TIMEOUT && !ps_op_test(f->op[f->landed]))
        return err;
    give_up(f);
    return err;
}

enum ps_err
ps_tensors_pull(ps_tensors *tensors, float *const out[], const struct ps_pull_options *options, struct ps_error *error)
{
    int timeout_ms = options != NULL && options->timeout_ms != 0 ? options->timeout_ms : -1;
    enum ps_err err = ps_tensors_pull_start(tensors, out, options, error);

    if (err == PS_OK)
        err = ps_tensors_pull_wait(tensors, timeout_ms, error);
    ps_tensors_pull_cancel(tensors);
    return err;
}
