/* Errors of the durable side, and how the saver's thread handles them.
 *
 * No space: a save ends, and pieces are tried again, alone, every second. Anything else, and a file that is not found
 * in its directory any more, means that the durable file cannot be used any more (durable_dir.h): another is made, and
 * a full save fills it. */
#include "server/lmdb/store_lmdb.h"
#include "server/saver/saver_state.h"

void
saver_set_durable_state(struct saver *s, enum durable_state state, const struct ps_error *why)
{
    uv_mutex_lock(&s->lock);
    s->durable_state = state;
    s->durable_to = s->redo_next;
    if (why != NULL)
        s->durable_error = *why;
    s->aside = s->config.dir->aside;
    uv_mutex_unlock(&s->lock);
    uv_async_send(&s->async);
}

/* A checkpoint has nothing to do with the durable store. */
static void
end_save(struct saver *s, const struct ps_error *e)
{
    if (s->own != NULL && s->own->save->checkpoint == NULL)
        saver_end_job(s, e->code, e->text);
}

static void
saver_set_lost(struct saver *s, const struct ps_error *why)
{
    durable_dir_close(s->config.dir);
    s->retry_at = 0;
    saver_set_durable_state(s, DURABLE_LOST, why);
}

/* True: the file is no longer in its directory, so that what is written would be lost. */
bool
saver_vanished(struct saver *s)
{
    struct ps_error e;

    if (s->config.dir == NULL || s->durable_state == DURABLE_LOST || durable_dir_still_there(s->config.dir))
        return false;
    (void)ps_fail(&e, PS_ERR_IO, "the durable directory %s was removed or replaced", s->config.dir->path);
    s->vanished = true;
    uv_mutex_lock(&s->lock);
    s->lost++;
    uv_mutex_unlock(&s->lock);
    end_save(s, &e);
    saver_set_lost(s, &e);
    return true;
}

/* Another environment in the directory is not written over, unless it is a copy of this pair's. */
static enum ps_err
open_anew(struct saver *s, const struct env_pair *pair, struct ps_error *e)
{
    struct durable_dir *dir = s->config.dir;
    enum ps_err err;

    if ((err = durable_dir_open(dir, !s->vanished, e)) != PS_OK)
        return err;
    if (dir->pair.id == 0 || dir->pair.id == pair->id)
        return PS_OK;
    durable_dir_close(dir);
    return ps_fail(e, PS_ERR_CONFIG, "another durable environment lies in %s now", dir->path);
}

/* In DURABLE_LOST. The new environment is of the same pair: the next start must recognise it as that of the live
 * one. */
void
saver_make_anew(struct saver *s)
{
    struct durable_dir *dir = s->config.dir;
    struct env_pair pair = dir->pair;
    struct ps_error e = {0};
    enum ps_err err;

    pair.behind = true;
    if ((err = open_anew(s, &pair, &e)) == PS_OK && (err = env_pair_write(dir->store, &pair)) != PS_OK) {
        store_lmdb_undo(dir->store);
        durable_dir_close(dir);
        (void)ps_fail(&e, err, "cannot write to %s: %s", dir->path, ps_strerror(err));
    }
    dir->pair = pair;
    if (err != PS_OK) {
        end_save(s, &e);
        s->retry_at = uv_hrtime() + SAVER_RETRY_NS;
        saver_set_durable_state(s, DURABLE_LOST, &e);
        return;
    }
    (void)ps_fail(&e, PS_ERR_IO, "the durable directory %s waits for a full save", dir->path);
    s->redo_next = 1;
    s->vanished = false;
    saver_set_durable_state(s, DURABLE_NEEDS_SAVE, &e);
}

static bool
may_pass(enum ps_err err)
{
    return err == PS_ERR_FULL || err == PS_ERR_NOMEM || err == PS_ERR_LIMIT;
}

void
saver_failed(struct saver *s, enum ps_err err, bool of_save, bool of_pieces)
{
    const char *why = store_lmdb_why(s->config.dir->store);
    struct ps_error e;

    (void)ps_fail(&e, err, "the durable directory %s cannot be written: %s", s->config.dir->path,
                  *why != '\0' ? why : ps_strerror(err));
    if (of_save || !may_pass(err))
        end_save(s, &e);
    if (!may_pass(err)) {
        saver_set_lost(s, &e);
        return;
    }
    s->cut_at = s->retry_at = uv_hrtime() + SAVER_RETRY_NS;
    if (of_pieces)
        saver_set_durable_state(s, DURABLE_FULL, &e);
}
