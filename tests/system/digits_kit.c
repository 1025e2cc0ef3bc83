#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/system/digits_kit.h"

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
digits_weights(const ps_network *network, size_t max, float *out)
{
    size_t n = 0;

    ck_assert_uint_le(ps_network_elements(network), max);
    for (size_t i = 0; i < ps_network_params(network); n += param_elements(network, i++))
        memcpy(out + n, ps_network_values(network)[i], param_elements(network, i) * sizeof *out);
    return n;
}
