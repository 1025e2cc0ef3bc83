#include "tests/unit/client/device/conformance_kit.h"

#define ROW(name) {#name, conform_##name},
static const struct {
    const char *name;
    void (*run)(struct conformance *c);
} rows[] = {CONFORMANCE_LIST(ROW)};

size_t
conformance_rows(void)
{
    return ARRAY_LEN(rows);
}

const char *
conformance_name(size_t row)
{
    return rows[row].name;
}

bool
conformance_run(struct conformance *c, size_t row)
{
    c->failed = false;
    c->text[0] = '\0';
    c->state = c->seed + row;
    rows[row].run(c);
    give_back(c);
    return !c->failed;
}
