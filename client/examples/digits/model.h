/* The networks that the digits example trains: ready-made ones by name, and any other from its text. */
#ifndef CLIENT_EXAMPLES_DIGITS_MODEL_H
#define CLIENT_EXAMPLES_DIGITS_MODEL_H

#include "ps_data.h"
#include "ps_network.h"

/* A ready-made model; the last layer, as wide as there are classes, is added by model_new(). */
struct digits_model {
    const char *name, *layers;
    uint64_t epochs;
};

/* NULL: there is none of this name. The list ends with a NULL name. */
extern const struct digits_model models[];
const struct digits_model *model_by_name(const char *name);

/* A network for images such as those of data: layers (in ps_network_parse()'s form, "": none), then
 * "dense <classes>". */
enum ps_err model_new(ps_device *device, const char *layers, const struct ps_dataset *data, uint32_t classes,
                      size_t rows_max, uint64_t seed, ps_network **out, struct ps_error *error) PS_MUST_USE;

/* INVALID with a sentence when layers cannot be read. */
enum ps_err model_check(const char *layers, struct ps_error *error) PS_MUST_USE;

#endif
