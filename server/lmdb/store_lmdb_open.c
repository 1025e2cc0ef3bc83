/* Opening and closing the LMDB store: the directory, the environment, its tables. See store_lmdb.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/file_error.h"
#include "server/lmdb/store_lmdb_env.h"
#include "server/lmdb/store_lmdb_guard.h"

#define READERS_DEFAULT 4096
#define MAP_SPARE       (256 * MIB) /* address space past the limit, never allocated */

static const char *const table_names[STORE_TABLES] = {[STORE_SHARD] = "shard",
                                                      [STORE_JOBS] = "jobs",
                                                      [STORE_VARS] = "vars",
                                                      [STORE_SESSIONS] = "sessions",
                                                      [STORE_CURSORS] = "cursors"};

static void
free_all(struct store_lmdb *s)
{
    while (s->pool != NULL) {
        struct store_snapshot *snap = s->pool;

        s->pool = snap->next;
        mdb_txn_abort(snap->txn);
        free(snap);
    }
    if (s->env != NULL)
        mdb_env_close(s->env);
    store_dir_close(&s->dir);
    free(s);
}

void
store_lmdb_close(struct store *base)
{
    struct store_lmdb *s = store_lmdb_of(base);

    ps_assert(s->txn == NULL && s->open == NULL && s->readers == NULL);
    free_all(s);
}

/* The reader table is mapped as well, and sparse when LMDB makes it. Closed before LMDB opens it: closing a file drops
 * the POSIX locks that the process has on it. */
static enum ps_err
allocate_readers(const struct store_dir *d, const char *dir, uint32_t readers, struct ps_error *e)
{
    char path[PATH_MAX];
    off_t size = (off_t)round_up((readers + 8) * (uint64_t)64, PAGE);
    enum ps_err err = PS_OK;
    int fd;

    snprintf(path, sizeof path, "%s/lock.mdb", dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write in the %s directory %s: %s", d->use, dir, strerror(errno));
    if (fallocate(fd, 0, 0, size) < 0 && errno != EOPNOTSUPP)
        err = ps_fail(e, file_error_code(errno), "cannot allocate %s: %s", path, strerror(errno));
    close(fd);
    return err;
}

static enum ps_err
make_env(struct store_lmdb *s, const struct store_lmdb_options *o, uint32_t readers, struct ps_error *e)
{
    int rc = mdb_env_create(&s->env);

    if (rc != 0)
        return ps_fail(e, store_lmdb_error(rc), "cannot set up LMDB: %s", mdb_strerror(rc));
    mdb_env_set_mapsize(s->env, s->room.limit_pages * PAGE + MAP_SPARE);
    mdb_env_set_maxdbs(s->env, STORE_TABLES + 1);
    mdb_env_set_maxreaders(s->env, readers);
    rc = mdb_env_open(s->env, o->dir, o->durable ? MDB_NOTLS : MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS, 0600);
    if (rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH)
        return ps_fail(e, PS_ERR_VERSION,
                       "%s is not an LMDB environment that this psd can read: %s; to begin without what is in it, move "
                       "it away",
                       s->dir.data_path, mdb_strerror(rc));
    if (rc != 0)
        return ps_fail(e, store_lmdb_error(rc), "cannot open %s: %s", s->dir.data_path, mdb_strerror(rc));
    mdb_env_get_fd(s->env, &s->data_fd);
    return PS_OK;
}

/* The file is as long as its last page says: we allocate it ahead. Reading past the end of one that was cut short would
 * be SIGBUS, or pages of zeros. */
static enum ps_err
check_env(struct store_lmdb *s, uint64_t was_bytes, struct ps_error *e)
{
    MDB_stat stat;
    MDB_envinfo info;

    mdb_env_stat(s->env, &stat);
    mdb_env_info(s->env, &info);
    if (stat.ms_psize != PAGE)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "%s has pages of %u bytes; psd's blocks are made for %d",
                       s->dir.data_path, stat.ms_psize, PAGE);
    if (was_bytes > 0 && was_bytes < (info.me_last_pgno + 1) * PAGE)
        return ps_fail(e, PS_ERR_IO, "%s was cut short: it has %" PRIu64 " bytes of %" PRIu64, s->dir.data_path,
                       was_bytes, (uint64_t)(info.me_last_pgno + 1) * PAGE);
    return PS_OK;
}

static enum ps_err
open_env(struct store_lmdb *s, const struct store_lmdb_options *o, struct ps_error *e)
{
    uint32_t readers = o->readers_max != 0 ? o->readers_max : READERS_DEFAULT;
    struct stat was = {0};
    enum ps_err err;

    (void)stat(s->dir.data_path, &was);
    if (o->durable && (err = store_lmdb_guard_check(s->dir.data_path, e)) != PS_OK)
        return err;
    if ((err = allocate_readers(&s->dir, o->dir, readers, e)) != PS_OK || (err = make_env(s, o, readers, e)) != PS_OK ||
        (err = check_env(s, (uint64_t)was.st_size, e)) != PS_OK)
        return err;
    mdb_reader_check(s->env, NULL);
    return PS_OK;
}

static enum ps_err
open_tables(struct store_lmdb *s, struct ps_error *e)
{
    MDB_txn *txn = NULL;
    enum ps_err err;
    int rc;

    if (!store_room_open(&s->room, s->data_fd))
        return ps_fail(e, file_error_code(errno), "cannot allocate %s: %s", s->dir.data_path, strerror(errno));
    rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "blocks", MDB_CREATE | MDB_INTEGERKEY, &s->blocks);
    for (int t = 0; t < STORE_TABLES && rc == 0; t++)
        rc = mdb_dbi_open(txn, table_names[t], MDB_CREATE, &s->tables[t]);
    if (rc == 0) {
        rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    mdb_txn_abort(txn);
    if (rc != 0)
        return ps_fail(e, store_lmdb_error(rc), "cannot prepare %s: %s", s->dir.data_path, mdb_strerror(rc));
    store_lmdb_publish(s);
    if ((err = store_lmdb_find_map(s)) == PS_OK)
        store_lmdb_guard(s);
    return err;
}

static uint64_t
durable_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return MAX(STORE_LMDB_DURABLE_MIN, pages > 0 && size > 0 ? 4 * (uint64_t)pages * (uint64_t)size : 0);
}

/* Fills in the report. */
static enum ps_err
open_dir(struct store_lmdb *s, const struct store_lmdb_options *o, struct store_dir_report *report, struct ps_error *e)
{
    struct store_dir_options d = {
        .dir = o->dir,
        .max_bytes = o->max_bytes != 0 || !o->durable ? o->max_bytes : durable_bytes(),
        .most_bytes = o->most_bytes,
        .sharers = o->sharers,
        .durable = o->durable,
        .set_aside = o->set_aside,
        .anyones = o->anyones,
    };

    return store_dir_open(&s->dir, &d, report, e);
}

enum ps_err
store_lmdb_open(const struct store_lmdb_options *o, struct store **out, struct store_dir_report *report,
                struct ps_error *e)
{
    struct store_lmdb *s = calloc(1, sizeof *s);
    enum ps_err err;

    if (s == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    s->base.ops = &store_lmdb_ops;
    s->durable = o->durable;
    s->data_fd = -1;
    store_room_init(&s->room, &store_lmdb_room_ops);
    s->room.on_disk = o->durable;
    if ((err = open_dir(s, o, report, e)) != PS_OK)
        goto fail;
    if (s->dir.fresh && o->before_new != NULL && (err = o->before_new(o->before_new_arg, o->dir, e)) != PS_OK)
        goto fail;
    s->room.limit_pages = report->limit_bytes / PAGE;
    if ((err = open_env(s, o, e)) != PS_OK || (err = open_tables(s, e)) != PS_OK)
        goto fail;
    if (o->durable && !store_dir_sync_names(&s->dir)) {
        err = ps_fail(e, PS_ERR_IO, "cannot sync %s: %s", o->dir, strerror(errno));
        goto fail;
    }
    *out = &s->base;
    return PS_OK;
fail:
    store_dir_undo(&s->dir);
    free_all(s);
    return err;
}

void
store_lmdb_undo(struct store *base)
{
    store_dir_undo(&store_lmdb_of(base)->dir);
}

bool
store_lmdb_still_there(struct store *base)
{
    struct store_lmdb *s = store_lmdb_of(base);

    return store_dir_holds(&s->dir, s->data_fd);
}

enum ps_err
store_lmdb_sync(struct store *base)
{
    struct store_lmdb *s = store_lmdb_of(base);
    int rc = mdb_env_sync(s->env, 1);

    return rc != 0 || fsync(s->data_fd) < 0 ? PS_ERR_IO : PS_OK;
}
