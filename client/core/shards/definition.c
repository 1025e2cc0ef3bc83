#include "client/core/shards/definition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/core/shards/inbox.h"
#include "client/core/shards/resync.h"
#include "common/core/cluster/placement.h"
#include "common/core/wire/wire_text.h"

static_assert(PS_DEFINITION_MAX == WIRE_FIELDS_MAX && PS_DEFINITION_NAME_MAX == WIRE_FIELD_NAME_MAX,
              "what a worker may define is what a message carries");

#define HASH_TEXT 18 /* characters: "~", 16 digits, the end */

/* The shard that keeps definitions. */
static bool
definition_is_kept_by(const struct shard_link *l)
{
    return l->shard == 0 && l->defines;
}

/* Not within a character. */
static size_t
definition_cut(const char *value, size_t len)
{
    while (len > 0 && ((unsigned char)value[len] & 0xc0) == 0x80)
        len--;
    return len;
}

void
definition_shorten(const char *value, char out[WIRE_FIELD_VALUE_MAX + 1])
{
    size_t len = strlen(value), kept;

    if (len <= WIRE_FIELD_VALUE_MAX) {
        memcpy(out, value, len + 1);
        return;
    }
    kept = definition_cut(value, WIRE_FIELD_VALUE_MAX + 1 - HASH_TEXT);
    memcpy(out, value, kept);
    snprintf(out + kept, HASH_TEXT, "~%016" PRIx64, placement_hash(value, len, 0));
}

/* ---- The message ---- */

struct definition_message {
    Psd__Define define;
    Psd__DefinitionField field[WIRE_FIELDS_MAX];
    Psd__DefinitionField *list[WIRE_FIELDS_MAX];
    char value[WIRE_FIELDS_MAX][WIRE_FIELD_VALUE_MAX + 1];
};

/* Its value from now on. NULL: there is no room for one more. */
static Psd__DefinitionField *
definition_place(struct definition_message *m, const char *name)
{
    size_t n = m->define.n_field;

    for (size_t i = 0; i < n; i++)
        if (strcmp(m->field[i].name, name) == 0)
            return &m->field[i];
    if (n == WIRE_FIELDS_MAX)
        return NULL;
    psd__definition_field__init(&m->field[n]);
    m->field[n].value = m->value[n];
    m->list[n] = &m->field[n];
    m->define.n_field = n + 1;
    return &m->field[n];
}

static bool
definition_put(struct definition_message *m, const char *name, const char *value)
{
    Psd__DefinitionField *field = definition_place(m, name);

    if (field == NULL)
        return false;
    field->name = (char *)name;
    definition_shorten(value, field->value);
    return true;
}

/* What was agreed before, and these. */
static enum ps_err
definition_fill(const struct core *c, size_t n, const struct ps_definition *fields, struct definition_message *m,
                struct ps_error *e)
{
    bool room = true;

    psd__define__init(&m->define);
    m->define.field = m->list;
    for (size_t i = 0; c->definition != NULL && i < c->definition->n_field; i++)
        room = room && definition_put(m, c->definition->field[i]->name, c->definition->field[i]->value);
    for (size_t i = 0; i < n; i++) {
        if (fields[i].name == NULL || fields[i].value == NULL)
            return ps_fail(e, PS_ERR_INVALID, "field %zu of the definition has no name or no value", i);
        room = room && definition_put(m, fields[i].name, fields[i].value);
    }
    if (!room)
        return ps_fail(e, PS_ERR_INVALID, "a worker defines more than %d fields", WIRE_FIELDS_MAX);
    return wire_fields_check(m->define.n_field, m->define.field, e);
}

/* ---- Saying it ---- */

bool
core_defines(const struct core *c)
{
    return definition_is_kept_by(&c->links[0]);
}

enum ps_err
core_define(struct core *c, size_t n, const struct ps_definition *fields, struct core_op **op_out, struct ps_error *e)
{
    struct definition_message m;
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK)
        return err;
    if (n == 0)
        return ps_fail(e, PS_ERR_INVALID, "a definition has no fields");
    if ((err = definition_fill(c, n, fields, &m, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_OTHER)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a definition");
    op->ask_type = MSG_DEFINE;
    if ((op->ask = wire_copy(&m.define.base)) == NULL || op_reserve(op, 0, 1) != PS_OK ||
        op_start_control(c, op, 0, REQUEST_OTHER, NULL) != PS_OK)
        return op_undo(c, op, e, "definition");
    *op_out = op;
    op_pump(c, op);
    return PS_OK;
}

enum ps_err
definition_again(struct core *c, struct shard_link *l)
{
    struct request *p, *next;

    for (p = l->control.first; p != NULL; p = next) {
        next = p->next;
        if (p->kind == REQUEST_DEFINE)
            request_end(c, l, p);
    }
    if (c->definition == NULL || !definition_is_kept_by(l))
        return PS_OK;
    if ((p = request_new_own(c, REQUEST_DEFINE)) == NULL)
        return PS_ERR_NOMEM;
    shard_link_queue_control(l, p);
    return PS_OK;
}

/* ---- The answer ---- */

/* All shards learn of the round by ticks, as when this worker joined. Shard 0, too: an answer that was lost has changed
 * nothing there. */
static void
definition_begin_round(struct core *c, struct shard_link *l, const Psd__Defined *m)
{
    struct ps_error e;

    l->round = m->round;
    l->cursor = (struct ps_cursor){0};
    l->begins = step_begins_of(m->begins, l->clock);
    if (resync_finish_join(c, true) == PS_OK)
        return;
    core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to begin a round");
    core_fail(c, &e);
}

/* The message becomes what is said again. */
static void
definition_keep(struct core *c, struct core_op *op)
{
    if (c->definition != NULL)
        psd__define__free_unpacked(c->definition, NULL);
    c->definition = (Psd__Define *)op->ask;
    c->definition->again = true;
    op->ask = NULL;
}

void
definition_taken(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);
    const Psd__Defined *m = l->msg.u.defined;
    bool asked = p != NULL && p->kind == REQUEST_OTHER && (p->given_up || p->op->ask_type == MSG_DEFINE);

    if (!asked && (p == NULL || p->kind != REQUEST_DEFINE)) {
        inbox_broke(c, l, "answered a definition that was not given");
        return;
    }
    if (asked && !p->given_up)
        definition_keep(c, p->op);
    if (m->round > c->round && c->joined)
        definition_begin_round(c, l, m);
    if (c->fatal.code == PS_OK)
        inbox_answered(c, l, p, NULL);
}
