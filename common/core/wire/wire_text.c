#include "common/core/wire/wire_text.h"

#include <string.h>

#include "common/core/base/utf8.h"
#include "common/core/wire/wire.h"

static enum ps_err
name_check(const char *what, const char *name, size_t most, struct ps_error *e)
{
    size_t len = name != NULL ? strnlen(name, most + 1) : 0;

    if (len == 0 || len > most || !utf8_is_printable(name, len))
        return ps_fail(e, PS_ERR_INVALID, "a %s's name is 1 to %zu bytes of UTF-8 without control characters", what,
                       most);
    return PS_OK;
}

enum ps_err
wire_name_check(const char *what, const char *name, struct ps_error *e)
{
    return name_check(what, name, WIRE_NAME_MAX, e);
}

enum ps_err
wire_metric_names_check(size_t n, const char *const *names, struct ps_error *e)
{
    enum ps_err err;

    if (n > WIRE_METRICS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%zu metrics are named; there are at most %d", n, WIRE_METRICS_MAX);
    if (n > 0 && names == NULL)
        return ps_fail(e, PS_ERR_INVALID, "%zu metrics are named, and there are no names", n);
    for (size_t i = 0; i < n; i++) {
        if ((err = name_check("metric", names[i], WIRE_METRIC_NAME_MAX, e)) != PS_OK)
            return err;
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                return ps_fail(e, PS_ERR_INVALID, "metrics %zu and %zu are both called '%s'", j, i, names[i]);
    }
    return PS_OK;
}

enum ps_err
wire_fields_check(size_t n, Psd__DefinitionField *const *fields, struct ps_error *e)
{
    enum ps_err err;

    if (n > WIRE_FIELDS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a definition of %zu fields; there are at most %d", n, WIRE_FIELDS_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t len = strnlen(fields[i]->value, WIRE_FIELD_VALUE_MAX + 1);

        if ((err = name_check("field", fields[i]->name, WIRE_FIELD_NAME_MAX, e)) != PS_OK)
            return err;
        if (len > WIRE_FIELD_VALUE_MAX || !utf8_is_printable(fields[i]->value, len))
            return ps_fail(e, PS_ERR_INVALID,
                           "the value of field '%s' is at most %d bytes of UTF-8 without control characters",
                           fields[i]->name, WIRE_FIELD_VALUE_MAX);
        for (size_t j = 0; j < i; j++)
            if (strcmp(fields[i]->name, fields[j]->name) == 0)
                return ps_fail(e, PS_ERR_INVALID, "fields %zu and %zu are both called '%s'", j, i, fields[i]->name);
    }
    return PS_OK;
}
