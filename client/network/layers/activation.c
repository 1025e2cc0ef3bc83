/* Element by element: y = f(x). The table says what each backward reads: where that is y, y may lie on x. */
#include "client/network/layer.h"

#define ACTIVATION(name, READS, TRAITS)                                                                                \
    static const float *name##_forward(struct layer *l, const struct pass *p)                                          \
    {                                                                                                                  \
        ps_##name##_forward(p->device, p->rows *shape_elements(&l->in), l->x, l->place);                               \
        return l->place;                                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    static void name##_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)                     \
    {                                                                                                                  \
        ps_##name##_backward(p->device, p->rows *shape_elements(&l->in), l->READS, dy, dx);                            \
    }                                                                                                                  \
                                                                                                                       \
    const struct layer_kind layer_##name = {                                                                           \
        .traits = LAYER_DX_ON_DY | (TRAITS), .forward = name##_forward, .backward = name##_backward};

ACTIVATION(relu, y, LAYER_Y_ON_X | LAYER_READS_Y | LAYER_RECTIFIES)
ACTIVATION(tanh, y, LAYER_Y_ON_X | LAYER_READS_Y)
ACTIVATION(sigmoid, y, LAYER_Y_ON_X | LAYER_READS_Y)
ACTIVATION(gelu, x, LAYER_RECTIFIES)
