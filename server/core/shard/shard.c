/* Events in, actions out, and the life of a shard. Frames are message.c's, the ends of turns commit.c's. */
#include "server/core/shard/shard.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/durability/drop_erase.h"
#include "server/core/durability/identity.h"
#include "server/core/shard/drain.h"
#include "server/core/shard/upcall_handlers.h"
#include "server/core/shard/worker_exit.h"
#include "server/core/shard_state.h"

#define GRACE_MS_DEFAULT    5000
#define CONNECTIONS_DEFAULT 4096
#define GATHER_DEFAULT      (1 * GIB)
#define REDO_DEFAULT        (1 * GIB)
#define STREAM_MIN_DEFAULT  (8 * MIB)

/* ---- Steps ---- */

/* A connection whose role is too low, or that takes more than its share, has broken no rule of the protocol. */
static void
on_broken(struct shard *s, struct connection *c, const struct ps_error *why)
{
    s->stats.denied += why->code == PS_ERR_DENIED;
    if (why->code == PS_ERR_DENIED || why->code == PS_ERR_LIMIT)
        connection_refuse(s, c, why->code, "%s", why->text);
    else
        connection_break(s, c, why->code, "%s", why->text);
}

static enum shard_result
on_connection_event(struct shard *s, struct event_context *ctx)
{
    const struct shard_event *event = ctx->event;
    struct connection *c = connection_find(s, event->conn);

    if (c == NULL)
        return SHARD_TAKEN;
    if (event->kind == SHARD_CLOSED) {
        connection_gone(s, c);
        drain_stop_if_idle(s);
    } else if (c->state == CONN_CLOSING) {
        return SHARD_TAKEN;
    } else if (event->kind == SHARD_BROKEN) {
        on_broken(s, c, event->error);
    } else {
        return message_take(s, c, ctx);
    }
    return SHARD_TAKEN;
}

static bool
wants_blocks(const struct shard *s)
{
    return s->work != NULL &&
           !restore_holds_saves(&s->restore, s->draining); /* what is restored needs no first values */
}

static enum shard_result
shard_log_staged(struct shard *s)
{
    enum ps_err err;
    bool went_on = save_staged_work(s, &err);

    if (err != PS_OK)
        save_abandon(s, err);
    return went_on ? SHARD_TAKEN : SHARD_TURN_FULL;
}

static enum shard_result
shard_work_on(struct shard *s, struct event_context *ctx)
{
    if (!shard_busy(s))
        return SHARD_TAKEN;
    if (s->due != NULL)
        return sync_step_work(s, ctx) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (save_prepares(s)) /* beside the other work, which does not wait for it */
        save_prepare(s);
    if (save_busy(s))
        return save_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (redo_busy(s))
        return redo_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (save_staged_busy(s))
        return shard_log_staged(s);
    if (drop_erase_busy(s))
        return drop_erase_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (restore_busy(s) && !s->draining)
        return restore_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (assign_busy(s) && !s->draining)
        return assign_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
    if (!wants_blocks(s))
        return SHARD_TAKEN;
    return block_work(s) ? SHARD_TAKEN : SHARD_TURN_FULL;
}

static enum shard_result
shard_take_event(struct shard *s, struct event_context *ctx)
{
    const struct shard_event *event = ctx->event;

    switch (event->kind) {
    case SHARD_OPENED:
        connection_open(s, event->conn, event->peer != NULL ? event->peer : "", event->reserved);
        return SHARD_TAKEN;
    case SHARD_FRAME:
    case SHARD_BROKEN:
    case SHARD_CLOSED:
        return on_connection_event(s, ctx);
    case SHARD_TIME:
        worker_exit_time(s);
        connection_time(s);
        rendezvous_service_time(s);
        return SHARD_TAKEN;
    case SHARD_WORK:
        return shard_work_on(s, ctx);
    case SHARD_DRAIN:
        drain_begin(s);
        return SHARD_TAKEN;
    case SHARD_SAVE:
        save_request_save(s, NULL, 0, false);
        return SHARD_TAKEN;
    case SHARD_SAVE_PASSED:
        save_passed(s, event->count);
        return SHARD_TAKEN;
    case SHARD_SAVE_ENDED:
        save_ended(s, event);
        return SHARD_TAKEN;
    case SHARD_DURABLE:
        redo_durable(s, event->number);
        return SHARD_TAKEN;
    case SHARD_RESTORE:
        restore_take(s, event);
        return SHARD_TAKEN;
    case SHARD_NOT_DURABLE:
        save_not_durable(s, event->error);
        redo_not_durable(s, event->error);
        return SHARD_TAKEN;
    default:
        break;
    }
    ps_assert(false);
}

enum shard_result
shard_step(struct shard *s, const struct shard_event *event)
{
    struct event_context ctx = {.event = event, .buffers = &s->event_buffers};
    enum shard_result result;

    if (s->turn.failed != PS_OK)
        return SHARD_TURN_FULL;
    ps_assert(event->now_ms >= s->now_ms);
    s->now_ms = event->now_ms;
    s->now_ns = event->now_ns != 0 ? event->now_ns : event->now_ms * 1000000;
    result = shard_take_event(s, &ctx);
    if (result == SHARD_TAKEN && s->due != NULL)
        sync_step_work(s, &ctx);
    redo_event_end(s);
    return result;
}

/* ---- Turns ---- */

bool
shard_dirty(const struct shard *s)
{
    return turn_dirty(s) || redo_waits(s);
}

enum ps_err
shard_head(const struct shard *s, uint64_t conn, const struct frame_head *head, enum role role, struct ps_error *e)
{
    return message_head(s, conn, head, role, e);
}

bool
shard_long_turn(const struct shard *s)
{
    return s->turn.updated >= SHARD_TURN_LONG || s->actions.bytes >= SHARD_TURN_ANSWERS;
}

uint64_t
shard_waiting_bytes(const struct shard *s)
{
    return s->parked_bytes;
}

uint64_t
shard_connection_waiting_bytes(const struct shard *s, uint64_t conn)
{
    const struct connection *c = connection_find(s, conn);

    return c != NULL ? c->parked_bytes : 0;
}

uint64_t
shard_turn_updated(const struct shard *s)
{
    return s->turn.updated;
}

void
shard_set_grace(struct shard *s, uint32_t grace_ms)
{
    s->config.grace_ms = grace_ms != 0 ? grace_ms : GRACE_MS_DEFAULT;
    s->lapse_at = s->now_ms; /* all deadlines are counted again */
}

bool
shard_set_quotas(struct shard *s, const struct quota_row *rows, size_t len)
{
    struct quota_row *copy = malloc(MAX(len, 1) * sizeof *copy);

    if (copy == NULL)
        return false;
    if (len > 0)
        memcpy(copy, rows, len * sizeof *copy);
    free(s->quotas);
    s->quotas = copy;
    s->quotas_len = len;
    return true;
}

void
shard_set_in_flight(struct shard *s, uint64_t bytes)
{
    s->config.in_flight_bytes_max = bytes;
    s->config.parked_all_max = bytes / SHARD_PARKED_PART;
}

uint64_t
shard_next_time(const struct shard *s)
{
    return s->draining ? UINT64_MAX
                       : MIN(MIN(s->lapse_at, connection_next_time(s)), rendezvous_core_next_time(&s->rendezvous));
}

bool
shard_busy(const struct shard *s)
{
    return !s->broken &&
           (save_prepares(s) || save_busy(s) || redo_busy(s) || save_staged_busy(s) || drop_erase_busy(s) ||
            (!s->draining && (wants_blocks(s) || restore_busy(s) || assign_busy(s) || s->due != NULL)));
}

uint64_t
shard_erased(const struct shard *s)
{
    return s->drops.erased;
}

bool
shard_next_action(struct shard *s, struct shard_action *out)
{
    return actions_next(s, out);
}

/* ---- Life ---- */

static struct identity
own_identity(const struct shard *s)
{
    return (struct identity){.format = SHARD_FORMAT,
                             .newest = SHARD_FORMAT_ASSIGNS,
                             .cluster = s->cluster,
                             .shard = s->config.shard,
                             .shards = s->config.shards,
                             .id = s->config.boot};
}

static enum ps_err
put_identity(struct shard *s)
{
    const struct store_ops *ops = s->store->ops;
    struct identity own = own_identity(s);
    enum ps_err err;

    s->boot = own.id;
    s->format = own.format;
    if ((err = ops->begin(s->store, 64 * KIB)) != PS_OK)
        return err;
    if ((err = identity_put(s->store, identity_live, &own)) != PS_OK) {
        ops->abort(s->store);
        return err;
    }
    return ops->commit(s->store);
}

static enum ps_err
shard_identify(struct shard *s, struct ps_error *e)
{
    struct identity own = own_identity(s);
    Psd__ShardRow *row;
    enum ps_err err = identity_get(s->store, identity_live, &row);

    if (err == PS_OK && row == NULL)
        err = put_identity(s);
    if (err != PS_OK)
        return ps_fail(e, err, "the store cannot be used: %s", ps_strerror(err));
    if (row == NULL)
        return PS_OK;
    err = identity_check(row, &own, "the store", e);
    s->boot = row->boot;
    s->format = row->format;
    psd__shard_row__free_unpacked(row, NULL);
    return err;
}

static void
set_defaults(struct shard_config *c)
{
    if (c->grace_ms == 0)
        c->grace_ms = GRACE_MS_DEFAULT;
    if (c->connections_max == 0)
        c->connections_max = CONNECTIONS_DEFAULT;
    if (c->jobs_max == 0)
        c->jobs_max = SHARD_JOBS;
    if (c->variables_max == 0)
        c->variables_max = SHARD_VARIABLES;
    if (c->sessions_max == 0)
        c->sessions_max = SHARD_SESSIONS;
    if (c->barriers_max == 0)
        c->barriers_max = SHARD_BARRIERS;
    if (c->parked_max == 0)
        c->parked_max = SHARD_PARKED;
    if (c->parked_bytes_max == 0)
        c->parked_bytes_max = SHARD_PARKED_BYTES;
    if (c->variable_ids_max == 0)
        c->variable_ids_max = STORE_VAR_MAX;
    if (c->hello_ms == 0)
        c->hello_ms = SHARD_HELLO_MS;
    if (c->gather_bytes_max == 0)
        c->gather_bytes_max = GATHER_DEFAULT;
    if (c->redo_bytes_max == 0)
        c->redo_bytes_max = REDO_DEFAULT;
    if (c->save_looks == 0)
        c->save_looks = SHARD_SAVE_LOOKS;
    if (c->stream_min_bytes == 0)
        c->stream_min_bytes = STREAM_MIN_DEFAULT;
}

enum ps_err
shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms, struct shard **out,
          struct ps_error *e)
{
    struct shard *s = calloc(1, sizeof *s);
    enum ps_err err = PS_ERR_NOMEM;

    ps_assert(config->shards >= 1 && config->shards <= WIRE_SHARDS_MAX && config->shard < config->shards);
    if (s == NULL)
        return ps_fail(e, err, "no memory for a shard");
    s->config = *config;
    set_defaults(&s->config);
    s->store = store;
    s->upcalls = &listeners;
    s->now_ms = s->start_ms = now_ms;
    s->now_ns = now_ms * 1000000;
    s->lapse_at = UINT64_MAX;
    s->turn.number = 1;
    save_init(s);
    s->drops.save = s->save.number;
    rendezvous_core_init(&s->rendezvous, "shard 0", RENDEZVOUS_NO_COORDINATOR, config->boot);
    s->cluster = strdup(config->cluster);
    s->version = strdup(config->version != NULL ? config->version : "");
    s->live_dir = strdup(config->live_dir != NULL ? config->live_dir : "");
    s->durable_dir = strdup(config->durable_dir != NULL ? config->durable_dir : "");
    s->machine = strdup(config->machine != NULL ? config->machine : "");
    if (config->timeline > 0)
        s->timeline_slots = calloc(config->timeline, sizeof(struct timeline_span));
    timeline_init(&s->timeline, s->timeline_slots, s->timeline_slots != NULL ? config->timeline : 0);
    if (s->cluster == NULL || s->version == NULL || s->live_dir == NULL || s->durable_dir == NULL ||
        s->machine == NULL || !event_buffers_init(&s->event_buffers) || !actions_room(s, 0))
        ps_fail(e, err, "no memory for a shard");
    else if ((err = shard_identify(s, e)) == PS_OK)
        err = catalog_load(s, e);
    if (err == PS_OK)
        err = redo_load(s, e);
    if (err == PS_OK)
        err = restore_load(s, e);
    if (err != PS_OK) {
        shard_free(s);
        return err;
    }
    *out = s;
    return PS_OK;
}

void
shard_free(struct shard *s)
{
    if (s == NULL)
        return;
    if (s->turn.begun)
        s->store->ops->abort(s->store);
    catalog_free(s);
    save_finish(s);
    restore_finish(s);
    actions_finish(s);
    durable_acks_finish(s);
    drop_erase_finish(s);
    connection_free_all(s);
    redo_finish(s);
    replay_free(s->replay);
    rendezvous_core_finish(&s->rendezvous);
    pool_finish(&s->pool);
    arena_finish(&s->arena);
    free(s->timeline_slots);
    free(s->quotas);
    event_buffers_finish(&s->event_buffers);
    free(s->cluster);
    free(s->version);
    free(s->live_dir);
    free(s->durable_dir);
    free(s->machine);
    free(s);
}
