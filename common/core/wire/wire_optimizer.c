/* Optimizers, schedules and clips between messages and the public structs. Both halves go by the one list of
 * parameters, whose names are the same in both. */
#include "common/core/wire/wire.h"

#include "common/core/model/schedule.h"

static const size_t offsets[] = {
#define OFFSET(name) [PARAMETER_##name] = offsetof(Psd__Optimizer, name),
    OPTIMIZER_PARAMETER_LIST(OFFSET)
#undef OFFSET
};

static double *
wire_optimizer_parameter_at(const Psd__Optimizer *o, enum optimizer_parameter p)
{
    return (double *)(void *)((char *)(uintptr_t)o + offsets[p]);
}

struct ps_schedule
wire_schedule(const Psd__Schedule *s)
{
    struct ps_schedule out = {0};

    if (s != NULL)
        out = (struct ps_schedule){.kind = (enum ps_schedule_kind)s->kind,
                                   .by = (enum ps_schedule_by)s->by,
                                   .warmup_steps = s->warmup_steps,
                                   .steps = s->steps,
                                   .factor = s->factor,
                                   .floor = s->floor,
                                   .begin = s->begin};
    return out;
}

struct ps_clip
wire_clip(const Psd__Clip *c)
{
    struct ps_clip out = {0};

    if (c != NULL)
        out = (struct ps_clip){(enum ps_clip_kind)c->kind, c->limit};
    return out;
}

struct ps_optimizer
wire_optimizer(const Psd__Optimizer *o)
{
    struct ps_optimizer out = {
        .kind = (enum ps_optimizer_kind)o->kind, .schedule = wire_schedule(o->schedule), .clip = wire_clip(o->clip)};

    for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++)
        *optimizer_parameter(&out, p) = *wire_optimizer_parameter_at(o, p);
    return ps_optimizer_name(out.kind) != NULL ? optimizer_used(&out) : out;
}

void
wire_schedule_message(const struct ps_schedule *s, Psd__Schedule *out)
{
    psd__schedule__init(out);
    out->kind = (Psd__ScheduleKind)s->kind;
    out->by = (Psd__ScheduleBy)s->by;
    out->warmup_steps = s->warmup_steps;
    out->steps = s->steps;
    out->factor = s->factor;
    out->floor = s->floor;
    out->begin = s->begin;
}

void
wire_clip_message(const struct ps_clip *c, Psd__Clip *out)
{
    psd__clip__init(out);
    out->kind = (Psd__ClipKind)c->kind;
    out->limit = c->limit;
}

Psd__Optimizer *
wire_optimizer_message(const struct ps_optimizer *o, struct wire_optimizer *room)
{
    struct ps_optimizer used = optimizer_used(o);
    Psd__Optimizer *out = &room->optimizer;

    psd__optimizer__init(out);
    out->kind = (uint32_t)o->kind;
    for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++)
        *wire_optimizer_parameter_at(out, p) = *optimizer_parameter(&used, p);
    if (schedule_moves(&used.schedule)) {
        wire_schedule_message(&used.schedule, &room->schedule);
        out->schedule = &room->schedule;
    }
    if (used.clip.kind != PS_CLIP_NONE) {
        wire_clip_message(&used.clip, &room->clip);
        out->clip = &room->clip;
    }
    return out;
}

double
wire_optimizer_parameter(const Psd__Optimizer *o, enum optimizer_parameter p)
{
    return *wire_optimizer_parameter_at(o, p);
}
