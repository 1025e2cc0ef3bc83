/* Internal to ps_network.h: what a kind of layer provides, and what it receives.
 *
 * Adding a kind: a row in PS_LAYER_LIST (ps_network.h) and a file client/network/layers/<name>.c that defines
 * layer_<name>. Its parameters are named by its word and their suffix: "conv0/weights". How a network uses it:
 *
 *     new       shape() checks the layer against its input and sets its output and parameters; scratch(), kept()
 *               return how much memory it needs; network.c gives each a place for its output
 *     forward   forward() in the order of the layers; returns where the output is
 *     backward  backward() in the opposite order, down to the first layer with parameters
 *
 * Everything that these functions compute is on the device. */
#ifndef CLIENT_NETWORK_LAYER_H
#define CLIENT_NETWORK_LAYER_H

#include "client/include/psclient/ps_network.h"
#include "common/core/base/base.h"
#include "common/core/base/text.h"

struct layer_shape {
    size_t rank, dims[3];
};

struct layer_param {
    const char *suffix; /* "weights": of its name */
    uint32_t rank;
    uint64_t dims[4];
    struct ps_init init; /* seed left out; GLOROT_UNIFORM becomes HE_UNIFORM before a rectifier */

    /* network_params.c fills in these */
    char name[32];
    size_t elements;
    float *value, *gradient;           /* device */
    float *host_value, *host_gradient; /* the same where device memory is host memory */
    float *own_value, *own_gradient;   /* host memory, the network's own: ps_network_place() */
};

/* One layer of a network. */
struct layer {
    const struct layer_kind *kind;
    struct ps_layer spec;
    struct layer_shape in, out;
    size_t params;
    struct layer_param param[PS_LAYER_PARAMS_MAX];
    uint64_t seed; /* of its values and of its dropout */
    float *place;  /* [rows_max, out] for the output; may be the layer before's; NULL: on the network's input */
    void *kept;    /* [kept()]: what forward() leaves for backward() */

    const void *x;  /* of this pass: [rows, in], floats or ids */
    const float *y; /* of this pass: [rows, out], what forward() returned */
};

/* One forward, and perhaps one backward. */
struct pass {
    ps_device *device;
    size_t rows;
    bool training; /* dropout drops */
    uint64_t draw;
    float *scratch; /* the largest scratch() of all layers; nothing stays in it from call to call */
};

enum layer_trait {
    LAYER_Y_ON_X = 1,    /* y may be written where x is: backward() does not read x */
    LAYER_DX_ON_DY = 2,  /* dx may be written where dy is */
    LAYER_READS_Y = 4,   /* backward() reads y */
    LAYER_RECTIFIES = 8, /* weights before it start by He's rule */
    LAYER_PASSES_ON = 16 /* neither mixes nor bends: the layer after it decides how weights before it start */
};

/* A member of struct ps_layer as it stands in a text: first, in this order, the required and the optional ones, which
 * are just numbers; then the others in any order, each after its word. */
struct layer_field {
    enum { FIELD_COUNT, FIELD_PLANE, FIELD_FRACTION, FIELD_FLAG } type;
    const char *word; /* the word before it, or, for a number without one, its name; FLAG: all of it */
    size_t offset;    /* in struct ps_layer */
    enum { FIELD_REQUIRED, FIELD_OPTIONAL, FIELD_AFTER_WORD } position;
};

struct layer_kind {
    unsigned traits; /* of enum layer_trait */
    const struct layer_field *fields;
    size_t field_count;

    /* From spec and in: out and, through layer_add_param(), the parameters. NULL: out is in, nothing to check. */
    enum ps_err (*shape)(struct layer *l, struct ps_error *e);
    size_t (*scratch)(const struct layer *l, size_t rows); /* floats; NULL: none */
    size_t (*kept)(const struct layer *l, size_t rows);    /* elements of 4 bytes, at most 2 for each of its output */

    /* y: l->place. Returns it, or x when there is nothing to do. */
    const float *(*forward)(struct layer *l, const struct pass *p);
    /* From dy: [rows, out]: the parameters' gradients, and dx: [rows, in] unless NULL. */
    void (*backward)(struct layer *l, const struct pass *p, const float *dy, float *dx);
};

#define LAYER_KIND_EXTERN(NAME, name, word) extern const struct layer_kind layer_##name;
PS_LAYER_LIST(LAYER_KIND_EXTERN)
#undef LAYER_KIND_EXTERN

/* NULL: there is no such kind. */
const struct layer_kind *layer_kind_of(int kind);
const char *layer_word(enum ps_layer_kind kind);

/* ---- Shared by several kinds ---- */

size_t shape_elements(const struct layer_shape *s);

/* An image: [positions, channels] has a width of 1. False for rank 1. */
bool shape_plane(const struct layer_shape *s, size_t *height, size_t *width, size_t *channels);

/* A shape of another size, with a width if `like` has one. */
struct layer_shape shape_like(const struct layer_shape *like, size_t height, size_t width, size_t channels);

/* Adds a parameter to l. */
void layer_add_param(struct layer *l, const char *suffix, enum ps_init_kind init, uint32_t rank, const uint64_t *dims);

/* "conv 16 3x3 same" (network_text.c) */
void layer_format(struct text *t, const struct ps_layer *spec);

#endif
