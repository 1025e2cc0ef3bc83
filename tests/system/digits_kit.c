#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits_kit.h"

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

enum ps_err
digits_read(struct digits_words *words, struct digits_options *out, struct ps_error *error, const char *format, ...)
{
    char *rest = words->text;
    va_list args;
    int argc = 0;

    va_start(args, format);
    ck_assert_int_lt(vsnprintf(words->text, sizeof words->text, format, args), sizeof words->text);
    va_end(args);
    words->argv[argc++] = (char *)"test";
    while (rest != NULL) {
        ck_assert_int_lt(argc, DIGITS_WORDS_MAX);
        words->argv[argc++] = strsep(&rest, " ");
    }
    return digits_options_parse(argc, words->argv, out, error);
}

size_t
digits_elements(const ps_network *network, size_t i)
{
    struct ps_var_spec spec;
    size_t n = 1;

    ps_network_var_spec(network, i, &spec);
    for (uint32_t k = 0; k < spec.rank; k++)
        n *= (size_t)spec.dims[k];
    return n;
}

size_t
digits_weights(const ps_network *network, size_t max, float *out)
{
    size_t n = 0;

    ck_assert_uint_le(ps_network_elements(network), max);
    for (size_t i = 0; i < ps_network_params(network); n += digits_elements(network, i++))
        memcpy(out + n, ps_network_values(network)[i], digits_elements(network, i) * sizeof *out);
    return n;
}
