#include "tests/training_kit.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

void
digits_load(struct ps_dataset *data, struct ps_dataset *held_out)
{
    const char *source = getenv("PSD_SOURCE_DIR");
    struct ps_scaling scaling;
    char directory[512];

    snprintf(directory, sizeof directory, "%s/client/examples/data/digits", source != NULL ? source : ".");
    ck_assert_int_eq(ps_dataset_load_idx(directory, PS_TRAIN, data, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_load_idx(directory, PS_HELD_OUT, held_out, NULL), PS_OK);
    ck_assert_int_eq(ps_scaling_fit(data, PS_SCALE_UNIT, &scaling, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(data, &scaling, NULL), PS_OK);
    ck_assert_int_eq(ps_dataset_scale(held_out, &scaling, NULL), PS_OK);
    ps_scaling_free(&scaling);
}

size_t
param_elements(const ps_network *network, size_t i)
{
    struct ps_var_spec spec;
    size_t n = 1;

    ps_network_var_spec(network, i, &spec);
    for (uint32_t k = 0; k < spec.rank; k++)
        n *= (size_t)spec.dims[k];
    return n;
}
