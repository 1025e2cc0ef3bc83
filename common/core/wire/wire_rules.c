#include "common/core/wire/wire_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/core/base/utf8.h"

enum ps_err
rule_name(struct ps_error *e, const char *field, const char *text, size_t least, size_t most)
{
    size_t len = strlen(text);

    if (len < least)
        return ps_fail(e, PS_ERR_INVALID, "%s is empty", field);
    if (len > most)
        return ps_fail(e, PS_ERR_LIMIT, "%s has %zu bytes; the limit is %zu", field, len, most);
    if (!utf8_is_printable(text, len))
        return ps_fail(e, PS_ERR_INVALID, "%s is not valid UTF-8, or has characters that control text", field);
    return PS_OK;
}

enum ps_err
rule_sentence(struct ps_error *e, const char *field, char *text)
{
    size_t len = strlen(text);

    if (len > WIRE_ERROR_TEXT_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "%s has %zu bytes; the limit is %d", field, len, WIRE_ERROR_TEXT_MAX);
    utf8_clean(text);
    return PS_OK;
}

enum ps_err
rule_within(struct ps_error *e, const char *field, uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 "; the least is %" PRIu64, field, value, least);
    if (value > most)
        return ps_fail(e, PS_ERR_LIMIT, "%s is %" PRIu64 "; the limit is %" PRIu64, field, value, most);
    return PS_OK;
}

enum ps_err
rule_below(struct ps_error *e, const char *field, uint64_t value, const char *other, uint64_t bound)
{
    if (value >= bound)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 ", it must be below %s (%" PRIu64 ")", field, value, other,
                       bound);
    return PS_OK;
}

enum ps_err
rule_known(struct ps_error *e, const char *field, int value, int count)
{
    if (value < 0 || value >= count)
        return ps_fail(e, PS_ERR_INVALID, "%s is %d, which is not known", field, value);
    return PS_OK;
}

enum ps_err
rule_number(struct ps_error *e, const char *field, double value)
{
    if (!isfinite(value))
        return ps_fail(e, PS_ERR_INVALID, "%s is not finite", field);
    return PS_OK;
}

enum ps_err
rule_parallel(struct ps_error *e, const char *field, size_t n, const char *other, size_t m)
{
    if (n != m)
        return ps_fail(e, PS_ERR_INVALID, "%s has %zu entries, %s has %zu", field, n, other, m);
    return PS_OK;
}

enum ps_err
rule_empty_or_parallel(struct ps_error *e, const char *field, size_t n, const char *other, size_t m)
{
    return n == 0 ? PS_OK : rule_parallel(e, field, n, other, m);
}

enum ps_err
rule_sequence(struct ps_error *e, const char *field, uint64_t seq, uint64_t acked_through)
{
    TRY(rule_within(e, field, seq, 1, UINT64_MAX));
    if (acked_through >= seq)
        return ps_fail(e, PS_ERR_INVALID, "%s is %" PRIu64 ", but acked_through is %" PRIu64, field, seq,
                       acked_through);
    return PS_OK;
}

void
rule_codes_known(uint32_t *code, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (code[i] >= PS_ERR_COUNT)
            code[i] = PS_ERR_INTERNAL;
}

enum ps_err
rule_no_room(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory to unpack metadata");
}

enum ps_err
rule_schedule(const Psd__Schedule *s, struct ps_error *e)
{
    TRY(rule_known(e, "schedule.kind", (int)s->kind, PSD__SCHEDULE_KIND__SCHEDULE_LINEAR + 1));
    TRY(rule_known(e, "schedule.by", (int)s->by, PSD__SCHEDULE_BY__BY_CLOCK + 1));
    TRY(rule_number(e, "schedule.factor", s->factor));
    return rule_number(e, "schedule.floor", s->floor);
}

enum ps_err
rule_clip(const Psd__Clip *c, struct ps_error *e)
{
    TRY(rule_known(e, "clip.kind", (int)c->kind, PSD__CLIP_KIND__CLIP_GIVEN_NORM + 1));
    return rule_number(e, "clip.limit", c->limit);
}
