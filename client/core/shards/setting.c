/* From the public struct to the message, and from the shards' answers to one result. */
#include "client/core/shards/setting.h"

#include <stdio.h>
#include <string.h>

#include "client/core/shards/shard_link.h"
#include "common/core/base/text.h"
#include "common/core/wire/wire_check.h"

/* ---- Starting ---- */

/* The message and all that it points to. */
struct set_message {
    Psd__Set set;
    Psd__Parameter parameters[WIRE_PARAMETERS_MAX];
    Psd__Parameter *list[WIRE_PARAMETERS_MAX];
    Psd__Schedule schedule;
    Psd__Clip clip;
    Psd__AgePolicy age;
    Psd__Bound bound;
};

static void
fill_parameters(struct set_message *m, const struct ps_setting *s)
{
    for (size_t i = 0; i < s->parameters; i++) {
        psd__parameter__init(&m->parameters[i]);
        m->parameters[i].name = (char *)(s->parameter[i].name != NULL ? s->parameter[i].name : "");
        m->parameters[i].value = s->parameter[i].value;
        m->list[i] = &m->parameters[i];
    }
    m->set.n_parameter = s->parameters;
    m->set.parameter = m->list;
}

static void
fill_job(struct set_message *m, const struct ps_setting *s)
{
    if (s->age != NULL) {
        psd__age_policy__init(&m->age);
        m->age.kind = (Psd__AgeKind)s->age->kind;
        m->age.parameter = s->age->parameter;
        m->set.age = &m->age;
    }
    m->set.workers = s->workers;
    if (s->bound != NULL) {
        psd__bound__init(&m->bound);
        m->bound.clocks = *s->bound;
        m->set.bound = &m->bound;
    }
}

static enum ps_err
setting_fill(struct set_message *m, const struct core *c, const struct ps_setting *s, struct ps_error *e)
{
    struct wire_msg msg = {.type = MSG_SET, .u.set = &m->set};

    if (s->parameters > WIRE_PARAMETERS_MAX || (s->parameters > 0 && s->parameter == NULL))
        return ps_fail(e, PS_ERR_INVALID, "a set has %d parameters at most, and a list of them", WIRE_PARAMETERS_MAX);
    psd__set__init(&m->set);
    m->set.job = (char *)(s->job != NULL ? s->job : c->config.job);
    m->set.variables = (char *)(s->variables != NULL ? s->variables : "");
    fill_parameters(m, s);
    if (s->schedule != NULL) {
        wire_schedule_message(s->schedule, &m->schedule);
        m->set.schedule = &m->schedule;
        m->set.begin_now = s->schedule->begin == 0 && s->from_start == 0;
    }
    m->set.careful = s->force == 0;
    if (s->clip != NULL) {
        wire_clip_message(s->clip, &m->clip);
        m->set.clip = &m->clip;
    }
    fill_job(m, s);
    return wire_check_set(&msg, NULL, e); /* as the shards will */
}

enum ps_err
core_set(struct core *c, const struct ps_setting *setting, struct core_op **op_out, struct ps_error *e)
{
    struct set_message m;
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_start(c, e)) != PS_OK || (err = setting_fill(&m, c, setting, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_SET)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a set");
    if (op_reserve(op, 0, c->config.shards) != PS_OK || (op->set = wire_copy(&m.set.base)) == NULL)
        return op_undo(c, op, e, "set");
    *op_out = op;
    for (uint32_t i = 0; i < c->config.shards; i++) {
        struct ps_error starved;

        if (op_start_control(c, op, i, REQUEST_SET, NULL) == PS_OK)
            continue;
        ps_fail(&starved, PS_ERR_NOMEM, "no memory to start a set");
        op_give_up(c, op, &starved);
        return PS_OK;
    }
    op_pump(c, op);
    return PS_OK;
}

uint64_t
core_op_variables(const struct core_op *op)
{
    return op->variables;
}

/* ---- The result ---- */

/* "on no shard", "on shard 1", "on shards 0, 1 and 2"; of a long list the first: "on shards 0, 1 and more". */
static void
changed_on(const struct core_op *op, char *out, size_t size)
{
    struct text t = text_start(out, size);
    uint32_t all = 0, said = 0;

    for (uint32_t i = 0; i < op->lanes_n; i++)
        all += op->lanes[i].changed;
    text_put(&t, all == 0 ? "on no shard" : all == 1 ? "on shard" : "on shards");
    for (uint32_t i = 0; i < op->lanes_n; i++) {
        if (!op->lanes[i].changed)
            continue;
        if (size - t.len < sizeof ", 4095 and more") {
            text_put(&t, " and more");
            return;
        }
        text_put(&t, "%s %u", said == 0 ? "" : said + 1 == all ? " and" : ",", op->lanes[i].shard);
        said++;
    }
}

void
setting_result(struct core_op *op)
{
    char text[sizeof(op->result.text)], shards[128];

    if (op->result.code == PS_OK && op->set->variables[0] != '\0' && op->variables == 0) {
        ps_fail(&op->result, PS_ERR_NOT_FOUND, "no variable of job '%.64s' has a name that fits '%.64s'", op->set->job,
                op->set->variables);
        return;
    }
    if (op->result.code == PS_OK || op->lanes_n == 1)
        return;
    changed_on(op, shards, sizeof(shards));
    snprintf(text, sizeof(text), "%.80s: %.240s; changed %.127s", op->result.peer, op->result.text, shards);
    memcpy(op->result.text, text, sizeof(text));
}

void
setting_describe(const struct core_op *op, char *out, size_t size)
{
    char shards[96];

    changed_on(op, shards, sizeof(shards));
    snprintf(out, size, "set of job '%.64s', changed %s so far", op->set->job, shards);
}
