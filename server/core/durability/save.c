/* The state machine of saves: the instant, the saver's requests and reports, and values left behind. */
#include "server/core/durability/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/core/durability/save_request.h"
#include "server/core/durability/save_rows.h"
#include "server/core/shard_state.h"
#include "server/core/turn/save_copy.h"

#define SAVE_BLOCK_TEXT_MAX 400

void
save_init(struct shard *s)
{
    s->save.number = s->save.complete = s->config.saved;
    s->save.changed = true; /* it is not known what the durable environment has */
    s->save.erase = SAVE_PLACE_FIRST;
    s->save.passed = SAVE_PLACE_END;
}

/* ---- Places ---- */

/* Where the part begins; at their end, where all places lie before. */
static struct save_place
save_place_of(const struct save *save, size_t part)
{
    return part < save->parts_len ? (struct save_place){.var = save->parts[part].var} : SAVE_PLACE_END;
}

/* Go on by so many blocks; a place is never at the end of a part. */
static void
save_place_advance(const struct save *save, size_t *part, struct save_place *place, uint64_t blocks)
{
    while (*part < save->parts_len && blocks >= save->parts[*part].count - place->index) {
        blocks -= save->parts[*part].count - place->index;
        *place = save_place_of(save, ++*part);
    }
    if (*part < save->parts_len)
        place->index += blocks;
}

/* ---- The instant ---- */

static void
save_forget(struct shard *s)
{
    struct save *save = &s->save;

    free(save->parts);
    save->parts = NULL;
    save->parts_len = save->parts_room = 0;
    save->parts_blocks = 0;
    save_changed_forget(s);
    if (save->copy != NULL)
        shard_save_free(&save->copy->base);
    save->copy = NULL;
    if (save->done != NULL)
        psd__checkpoint_done__free_unpacked(save->done, NULL);
    save->done = NULL;
    save->state = SAVE_IDLE;
    save->passed = SAVE_PLACE_END;
    save->say_begun = save->say_close = false;
}

/* The one that runs is over, well or not. */
static void
save_over(struct shard *s)
{
    save_staged_end(s);
    save_forget(s);
}

/* The save failed: answer its requests. A checkpoint's failure concerns these alone. */
static void
save_fail(struct shard *s, enum ps_err code, const char *text)
{
    struct save *save = &s->save;
    struct save_request *list = save->answering;
    bool checkpoint = list->job_id != 0;

    actions_log(s, SHARD_LOG_ERROR, "%s failed code=%s reason=\"%s\"", checkpoint ? "checkpoint" : "save",
                ps_err_name(code), text);
    save->stats.checkpoint_failures += checkpoint;
    if (!checkpoint) {
        save->stats.failures++;
        save->changed = true;
        snprintf(save->stats.failure, sizeof save->stats.failure, "%s", text);
    }
    save->answering = NULL;
    save_over(s);
    save_request_failed(s, list, code, text);
}

static void
close_if_passed(struct shard *s)
{
    struct save *save = &s->save;

    if (save->state != SAVE_RUNNING || save->copy != NULL || save->passed_len + MUTATION(CLOSED_EARLY) < save->len ||
        !save_staged_done(s))
        return;
    save->state = SAVE_CLOSING;
    save->passed = SAVE_PLACE_END;
    save->say_close = true;
}

/* One of those that wait for it asked for that. */
static bool
save_verifies(const struct save *save)
{
    const struct save_request *r;

    DL_FOREACH (save->answering, r)
        if (r->verify)
            return true;
    return false;
}

/* Hand the instant out. */
static enum ps_err
say_begun(struct shard *s)
{
    struct save *save = &s->save;
    struct shard_save *out = &save->copy->base;

    ps_assert(save->parts_blocks == save->len);
    out->number = save->job_id == 0 ? save->number : 0;
    out->boot = s->boot;
    out->format = s->format;
    out->redo = save->redo;
    out->blocks = save->len;
    out->bytes = save->bytes;
    out->verify = save_verifies(save);
    if (!actions_save(s, SHARD_SAVE_BEGUN, out))
        return PS_ERR_NOMEM;
    save->copy = NULL;
    save->say_begun = false;
    save->handed = save->passed = save_place_of(save, 0);
    save->handed_part = save->passed_part = 0;
    return PS_OK;
}

/* What is of the shard or the job as a whole; variables follow. */
static enum ps_err
save_take_instant(struct shard *s, const struct job *job, const char *dir)
{
    struct save *save = &s->save;
    enum ps_err err;

    save->job_id = job != NULL ? job->id : 0;
    save->vars = MAX(s->variables.next, 1u) - 1;
    save->looked = 0;
    save->len = job != NULL ? job->blocks : s->blocks;
    save->bytes = job != NULL ? job->data_bytes : s->data_bytes;
    save->redo = s->redo.committed + MUTATION(LOG_CUT_AHEAD);
    save->redo_bytes = s->redo.log_bytes;
    if (job != NULL && (save->done = save_rows_done(s, job)) == NULL)
        return PS_ERR_NOMEM;
    if ((err = save_rows_copy(s, job, dir, &save->copy)) != PS_OK)
        return err;
    return actions_save(s, SHARD_SAVE_INSTANT, NULL) ? PS_OK : PS_ERR_NOMEM; /* of interest to tests alone */
}

static void
save_begin(struct shard *s, struct save_request *list)
{
    struct save *save = &s->save;
    const struct job *job = list->job_id != 0 ? s->jobs_by_id[list->job_id] : NULL;
    enum ps_err err;

    save->answering = list;
    if ((err = save_take_instant(s, job, list->dir)) != PS_OK) {
        save_fail(s, err, ps_strerror(err));
        return;
    }
    save->number += job == NULL;
    save->state = SAVE_RUNNING;
    save->begun_ms = s->now_ms;
    save->begun_ns = s->now_ns;
    save->handed_len = save->passed_len = 0;
    save->handed = save->passed = SAVE_PLACE_FIRST;
    save->erase = SAVE_PLACE_FIRST;
    if (job == NULL) {
        save->changed = false;
        save_staged_begin(s);
    }
    actions_log(s, SHARD_LOG_INFO, "%s begun blocks=%" PRIu64 " bytes=%" PRIu64, job == NULL ? "save" : "checkpoint",
                save->len, save->bytes);
    save_prepare(s);
}

/* ---- Its variables ---- */

bool
save_prepares(const struct shard *s)
{
    return s->save.state == SAVE_RUNNING && s->save.copy != NULL && !s->save.say_begun;
}

static bool
save_add_part(struct save *save, uint32_t var, uint64_t count)
{
    size_t room = MAX(2 * save->parts_room, 64u);
    struct save_part *grown;

    if (count == 0)
        return true;
    if (save->parts_len == save->parts_room) {
        if ((grown = realloc(save->parts, room * sizeof *grown)) == NULL)
            return false;
        save->parts = grown;
        save->parts_room = room;
    }
    save->parts[save->parts_len++] = (struct save_part){var, count};
    save->parts_blocks += count;
    return true;
}

static enum ps_err
save_look_at(struct shard *s, const struct variable *v)
{
    if (!save_has(s, v))
        return PS_OK;
    return save_add_part(&s->save, v->id, save_count(s, v)) ? save_rows_add(s, v) : PS_ERR_NOMEM;
}

void
save_prepare(struct shard *s)
{
    struct save *save = &s->save;
    enum ps_err err = PS_OK;

    for (uint32_t n = 0; err == PS_OK && n < s->config.save_looks && save->looked < save->vars; n++) {
        const struct variable *v = variable_table_from(&s->variables, save->looked + 1);

        if (v != NULL && v->id <= save->vars)
            err = save_look_at(s, v);
        save->looked = v != NULL ? MIN(v->id, save->vars) : save->vars;
        s->looks++;
    }
    if (err != PS_OK)
        save_fail(s, err, ps_strerror(err));
    else
        save->say_begun = save->looked == save->vars;
}

void
save_turn_ended(struct shard *s)
{
    struct save *save = &s->save;
    struct save_request *list;
    enum ps_err err;

    if (save->say_abandoned)
        save->say_abandoned = !actions_save(s, SHARD_SAVE_ABANDONED, NULL);
    if (save->waiting != NULL && save_gate_open(s) && (list = save_request_next(s)) != NULL)
        save_begin(s, list);
    if (save->say_begun && (err = say_begun(s)) != PS_OK)
        save_fail(s, err, ps_strerror(err));
    close_if_passed(s);
    if (save->say_close)
        save->say_close = !actions_save(s, SHARD_SAVE_CLOSE, NULL);
}

void
save_committed(struct shard *s, bool changed)
{
    s->save.changed = s->save.changed || changed;
    s->save.no_room = s->save.no_room && !changed;
}

bool
shard_save_due(const struct shard *s)
{
    return s->save.changed || s->save.complete == 0;
}

/* ---- The saver ---- */

/* Where the block's value of the instant is. */
static struct store_key
key_of_instant(const struct block_ref *ref)
{
    struct store_key key = block_key(ref);

    key.generation ^= ref->block->left;
    return key;
}

size_t
shard_save_next(struct shard *s, size_t bytes, struct shard_save_block *out, size_t room)
{
    struct save *save = &s->save;
    size_t n = 0, sum = 0;

    if (save->state != SAVE_RUNNING || save->copy != NULL)
        return 0;
    while (n < room && save->handed_part < save->parts_len) {
        struct variable *v = variable_table_get(&s->variables, save->handed.var);
        struct block_ref ref = v->kind->nth(s, v, save->handed.index);

        if (n > 0 && sum + ref.size > bytes)
            break;
        out[n++] = (struct shard_save_block){.key = key_of_instant(&ref), .size = ref.size};
        sum += ref.size;
        save_place_advance(save, &save->handed_part, &save->handed, 1);
    }
    save->handed_len += n;
    return n;
}

void
save_passed(struct shard *s, uint64_t blocks)
{
    struct save *save = &s->save;

    if (save->state != SAVE_RUNNING) /* abandoned in this turn: the saver does not know yet */
        return;
    ps_assert(save->passed_len + blocks <= save->handed_len);
    save_place_advance(save, &save->passed_part, &save->passed, blocks);
    save->passed_len += blocks;
    close_if_passed(s);
}

/* "block 3 of variable 'w' of job 'train'"; it may have been dropped since. */
static char *
save_say_block(const struct shard *s, uint64_t count, const struct store_key *key, char *out, size_t size)
{
    const struct variable *v = count > 0 ? variable_find(s, key->var) : NULL;

    out[0] = '\0';
    if (v != NULL)
        snprintf(out, size, "block %" PRIu32 " of variable '%.128s' of job '%.128s'", key->block, v->name,
                 v->job->name);
    else if (count > 0)
        snprintf(out, size, "block %" PRIu32 " of a variable that was dropped", key->block);
    return out;
}

static void
save_say_verified(struct shard *s, const struct shard_verified *found, const char *mended, const char *differs)
{
    if (found->mended > 0)
        actions_log(s, SHARD_LOG_ERROR,
                    "blocks on the disk did not have their checksums, and were written again from memory: is the disk "
                    "well? first=\"%s\" blocks=%" PRIu64,
                    mended, found->mended);
    if (found->differ > 0)
        actions_log(s, SHARD_LOG_ERROR,
                    "blocks in memory are not what was saved of them: is the memory well? The save has the right ones "
                    "first=\"%s\" blocks=%" PRIu64,
                    differs, found->differ);
}

static void
save_done(struct shard *s, uint64_t bytes, const struct shard_verified *found)
{
    struct save *save = &s->save;
    struct save_request *list = save->answering;
    Psd__SaveDone m = PSD__SAVE_DONE__INIT;
    char mended[SAVE_BLOCK_TEXT_MAX], differs[SAVE_BLOCK_TEXT_MAX];

    if (found != NULL) {
        m.verify = true;
        m.verified = found->blocks;
        m.mended = found->mended;
        m.differ = found->differ;
        m.first_mended = save_say_block(s, found->mended, &found->first_mended, mended, sizeof mended);
        m.first_differs = save_say_block(s, found->differ, &found->first_differs, differs, sizeof differs);
        save_say_verified(s, found, mended, differs);
    }

    m.save = save->complete = save->number;
    m.blocks = save->len;
    m.bytes = save->stats.last_bytes = bytes;
    m.ms = save->stats.last_ms = s->now_ms - save->begun_ms;
    save->stats.instant_ms = save->begun_ms;
    save->stats.saves++;
    durations_add(&save->stats.took, m.ms);
    save->stats.failure[0] = '\0';
    redo_saved(s, save->redo);
    redo_cut(s, save->redo_bytes);
    actions_log(s, SHARD_LOG_INFO, "save done number=%" PRIu64 " blocks=%" PRIu64 " written=%" PRIu64 " ms=%" PRIu64,
                m.save, m.blocks, m.bytes, m.ms);
    save->answering = NULL;
    save_over(s);
    save_request_done(s, list, MSG_SAVE_DONE, &m.base);
}

static void
checkpoint_done(struct shard *s, uint64_t bytes, uint64_t left_out)
{
    struct save *save = &s->save;
    struct save_request *list = save->answering;

    save->done->bytes = bytes;
    save->done->left_out = left_out;
    save->stats.checkpoints++;
    actions_log(s, SHARD_LOG_INFO, "checkpoint done dir=\"%s\" blocks=%" PRIu64 " written=%" PRIu64, list->dir,
                save->len, bytes);
    save->answering = NULL;
    save_request_done(s, list, MSG_CHECKPOINT_DONE, &save->done->base);
    save_over(s);
}

void
save_ended(struct shard *s, const struct shard_event *event)
{
    struct save *save = &s->save;

    if (save->state == SAVE_IDLE) /* as above */
        return;
    if (event->error != NULL) {
        save_fail(s, event->error->code, event->error->text);
        return;
    }
    ps_assert(save->state == SAVE_CLOSING && !save->say_close);
    shard_trace_saved(s, save->begun_ns, event->bytes);
    if (save->answering->job_id == 0)
        save_done(s, event->bytes, event->verified);
    else
        checkpoint_done(s, event->bytes, event->count);
}

void
save_abandon(struct shard *s, enum ps_err why)
{
    bool begun = s->save.copy == NULL; /* the saver knows of it */

    if (s->save.state != SAVE_RUNNING)
        return;
    save_fail(s, why,
              why == PS_ERR_FULL ? "no room in memory for old values beside new ones: the save was given up"
                                 : "the save was given up: the live store cannot be read");
    s->save.say_abandoned = begun;
}

void
save_not_durable(struct shard *s, const struct ps_error *why)
{
    const struct save *save = &s->save;

    if (save->state == SAVE_RUNNING && save->copy != NULL && save->answering->job_id == 0)
        save_fail(s, why->code, why->text);
}

void
save_loaded(struct shard *s, bool ok)
{
    if (ok)
        save_request_reload(s);
    else
        save_abandon(s, PS_ERR_IO);
}

/* ---- Reports and the end ---- */

void
save_report(const struct shard *s, Psd__SaveReport *out)
{
    const struct save *save = &s->save;

    out->durable_dir = s->durable_dir;
    out->saves = save->stats.saves;
    out->save = save->complete;
    out->since_ms = save->stats.saves > 0 ? s->now_ms - save->stats.instant_ms : 0;
    out->last_ms = save->stats.last_ms;
    out->last_bytes = save->stats.last_bytes;
    out->failures = save->stats.failures;
    out->failure = (char *)save->stats.failure;
    out->running = save->state != SAVE_IDLE && save->answering->job_id == 0;
    if (out->running) {
        out->blocks = save->len;
        out->blocks_done = save->passed_len;
    }
    out->durable_pushes = s->stats.pushes_durable;
    out->redo_bytes = s->redo.bytes;
    if (redo_failed(s))
        out->redo_failure = (char *)s->redo.failure.text;
}

void
save_finish(struct shard *s)
{
    save_forget(s);
    save_request_free(s->save.answering);
    save_request_free(s->save.waiting);
    s->save.answering = s->save.waiting = NULL;
}
