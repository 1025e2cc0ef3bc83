/* Drops: a job or variables of it go, with all that belongs to them, whatever dies on the way; what clients that still
 * have them are told; and memory that comes back. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "server/core/durability/drop_erase.h"
#include "server/core/durability/identity.h"
#include "server/core/shard_state.h"
#include "server/core/store/metadata_rows.h"
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#define WATCHER 9 /* the administrator's connection */
#define READER  10

static void
drop_setup(void)
{
    kit_init(&k, &kit_durable_config);
    kit_observe(&k, WATCHER);
}

static uint64_t
drop_ask(uint64_t conn, const Psd__Drop *m)
{
    kit_frame(&k, conn, MSG_DROP, ++k.next_request, &m->base, NULL, 0);
    return k.next_request;
}

static Psd__Drop
drop_of(const char *job, const char *variables)
{
    Psd__Drop m = PSD__DROP__INIT;

    m.job = (char *)job;
    m.variables = (char *)variables;
    return m;
}

/* The answer, when background work is done. */
static Psd__Dropped
drop_done(const Psd__Drop *m)
{
    uint64_t request = drop_ask(WATCHER, m);
    struct kit_answer *a;
    Psd__Dropped did;

    kit_work(&k);
    a = kit_expect(&k, WATCHER, MSG_DROPPED);
    ck_assert_uint_eq(a->msg.request, request);
    did = *a->msg.u.dropped;
    kit_answer_free(a);
    return did;
}

static Psd__Dropped
drop_job_now(const char *job)
{
    Psd__Drop m = drop_of(job, "");

    return drop_done(&m);
}

static Psd__Dropped
drop_by_force(const char *job, const char *variables)
{
    Psd__Drop m = drop_of(job, variables);

    m.force = true;
    return drop_done(&m);
}

/* ---- What the store has ---- */

struct drop_count {
    uint32_t job, rows, blocks;
};

static bool
count_row(void *arg, struct span key, struct span value)
{
    struct drop_count *c = arg;
    uint32_t id;

    (void)value;
    memcpy(&id, key.data, sizeof id);
    c->rows += c->job == 0 || be32toh(id) == c->job;
    return true;
}

static bool
count_block(void *arg, const struct store_key *key, struct span value)
{
    struct drop_count *c = arg;

    (void)value;
    c->blocks += key->generation < STORE_GENERATION_REDO;
    return true;
}

static uint32_t
rows_in(enum store_table table, uint32_t job)
{
    struct drop_count c = {.job = job};

    ck_assert_int_eq(k.store->ops->each_row(k.store, table, count_row, &c), PS_OK);
    return c.rows;
}

static uint32_t
blocks_in(struct store *store)
{
    struct drop_count c = {0};

    ck_assert_int_eq(store->ops->each_block(store, count_block, &c), PS_OK);
    return c.blocks;
}

/* No trace of any job, in the store or in what the shard keeps. */
static void
nothing_is_left(void)
{
    const struct shard *s = k.shard;

    ck_assert_uint_eq(blocks_in(k.store), 0);
    for (enum store_table t = STORE_JOBS; t < STORE_TABLES; t++)
        ck_assert_uint_eq(rows_in(t, 0), 0);
    ck_assert(s->data_bytes == 0 && s->promised_bytes == 0 && s->gather_bytes == 0 && s->blocks == 0);
    ck_assert(s->sessions_len == 0 && s->barriers_len == 0 && s->variables_len == 0 && s->ordinals.end == 0);
    ck_assert(s->jobs == NULL && s->drops.jobs == NULL && s->drops.variables == NULL && s->work == NULL);
    ck_assert(variable_table_from(&s->variables, 1) == NULL && s->due == NULL);
}

/* ---- Jobs that have lived ---- */

/* Another process of a worker. */
static void
join_anew(uint64_t conn, const Psd__Job *job, uint32_t task)
{
    static uint64_t incarnation = 1 << 20;

    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .incarnation = ++incarnation});
    kit_answer_free(kit_expect(&k, conn, MSG_WELCOME));
}

/* Two workers, two variables, steps with cursors, and goodbyes. Returns the first variable. */
static uint32_t
live_and_leave(const char *name, Psd__Mode mode)
{
    Psd__Job *job = kit_job(name, mode, 2);
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_ADAM);
    kit_declare(&k, 1, "big", 200000, PS_SGD);
    for (uint64_t conn = 1; conn <= 2; conn++)
        kit_push(&k, conn,
                 &(struct kit_push){
                     .seq = 1, .var = var, .gradient = g, .len = 4, .cursor = (uint64_t[]){0, 1}, .durable = true});
    kit_durable(&k, k.redo);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        kit_tick_at(&k, conn, 2, 1, 1);
        kit_goodbye(&k, conn, true);
        kit_drop_answers(&k, conn);
    }
    kit_work(&k);
    return var;
}

START_TEST(nothing_of_a_dropped_job_is_left)
{
    static const Psd__Mode modes[] = {PSD__MODE__ASYNC, PSD__MODE__SSP, PSD__MODE__SYNC};
    Psd__Dropped did;

    live_and_leave("train", modes[_i]);
    ck_assert_uint_gt(rows_in(STORE_SESSIONS, 1), 0);
    ck_assert_uint_gt(rows_in(STORE_CURSORS, 1), 0);
    did = drop_job_now("train");
    ck_assert(did.found && did.variables == 2 && did.first == 2 && did.workers == 0 && !did.more && !did.kept);
    ck_assert(did.blocks > 2 && did.bytes > 800000);
    nothing_is_left();
    kit_crash(&k);
    nothing_is_left();
}
END_TEST

START_TEST(another_job_is_as_it_was)
{
    Psd__Job *other;
    uint32_t var;

    live_and_leave("train", PSD__MODE__ASYNC);
    other = kit_job("other", PSD__MODE__ASYNC, 1);
    kit_join(&k, 3, other, 0);
    var = kit_declare(&k, 3, "w", 4, PS_SGD);
    kit_push_four(&k, 3, 1, 0, var, 2);
    kit_ack(&k, 3, 1, PS_OK);
    drop_job_now("train");
    ck_assert_uint_eq(rows_in(STORE_JOBS, 0), 1);
    ck_assert(kit_value_four(&k, 3, var, 1) == -2);
    kit_push_four(&k, 3, 2, 0, var, 2);
    kit_ack(&k, 3, 2, PS_OK);
    kit_crash(&k);
    kit_resume(&k, 4, other, 0, 0);
    ck_assert(kit_value_four(&k, 4, var, 2) == -4);
}
END_TEST

START_TEST(only_looking_changes_nothing)
{
    Psd__Drop m = drop_of("train", "");
    uint64_t before;
    Psd__Dropped did;

    live_and_leave("train", PSD__MODE__ASYNC);
    join_anew(3, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    before = kit_state(&k);
    m.check = true;
    did = drop_done(&m);
    ck_assert(did.found && did.variables == 2 && did.workers == 1 && did.connected == 1);
    m.variables = (char *)"w";
    did = drop_done(&m);
    ck_assert(did.found && did.variables == 1 && did.blocks == 1);
    m.job = (char *)"none";
    ck_assert(!drop_done(&m).found);
    ck_assert_uint_eq(kit_state(&k), before);
}
END_TEST

START_TEST(a_job_that_is_not_there_is_no_error)
{
    ck_assert(!drop_job_now("none").found);
    live_and_leave("train", PSD__MODE__ASYNC);
    ck_assert(drop_job_now("train").found);
    ck_assert(!drop_job_now("train").found);
}
END_TEST

/* ---- Live workers ---- */

START_TEST(live_workers_are_in_the_way_until_it_is_forced)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 3);
    Psd__Drop m = drop_of("train", "");
    struct kit_answer *a;
    uint64_t request;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 2);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    request = drop_ask(WATCHER, &m);
    a = kit_expect(&k, WATCHER, MSG_ERROR);
    ck_assert(a->msg.request == request && a->msg.u.error->code == PS_ERR_BUSY);
    ck_assert_ptr_nonnull(
        strstr(a->msg.u.error->text, "2 workers of job 'train' are live on shard 0 (worker 0, worker 2)"));
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "psctl drop --force"));
    kit_answer_free(a);
    ck_assert(!k.closed[1] && !k.closed[2]);
    ck_assert_uint_eq(drop_by_force("train", "").workers, 2);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        a = kit_expect(&k, conn, MSG_ERROR);
        ck_assert(a->msg.request == 0 && a->msg.u.error->code == PS_ERR_DROPPED);
        ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "job 'train' was dropped by "));
        kit_answer_free(a);
        ck_assert(k.closed[conn]);
    }
    nothing_is_left();
}
END_TEST

START_TEST(a_worker_that_was_away_is_told_when_it_comes_again)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 2);
    uint64_t boot = k.shard->boot;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    kit_close(&k, 1);
    kit_goodbye(&k, 2, true);
    kit_pass(&k, 6000); /* it lapses */
    drop_job_now("train");
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .resume = true, .boot = boot});
    kit_expect_closed(&k, 3, PS_ERR_DROPPED);
    ck_assert_ptr_null(k.shard->jobs); /* its hello makes no job */
    kit_crash(&k);
    kit_hello(&k, 4, &(struct kit_hello){.job = job, .resume = true, .boot = boot});
    kit_expect_closed(&k, 4, PS_ERR_DROPPED);
    /* One of another life of the data may have been lost with it, and is made again. */
    kit_hello(&k, 5, &(struct kit_hello){.job = job, .resume = true, .boot = boot + 1});
    kit_expect_closed(&k, 5, PS_ERR_NOT_FOUND);
    kit_join(&k, 6, job, 0);
}
END_TEST

START_TEST(a_client_of_before_is_fenced)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);

    kit_hello(&k, 1, &(struct kit_hello){.job = job, .older = true});
    kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    drop_by_force("train", "");
    kit_expect_closed(&k, 1, PS_ERR_FENCED);
}
END_TEST

START_TEST(the_next_job_of_the_name_begins_from_nothing)
{
    Psd__Job *job;
    uint32_t var = live_and_leave("train", PSD__MODE__ASYNC), again;
    float g[4] = {1, 1, 1, 1};
    struct kit_answer *a;

    drop_job_now("train");
    job = kit_job("train", PSD__MODE__SYNC, 1); /* otherwise than before, too */
    kit_hello(&k, 3, &(struct kit_hello){.job = job});
    a = kit_expect(&k, 3, MSG_WELCOME);
    ck_assert(a->msg.u.welcome->clock == 0 && a->msg.u.welcome->round == 0 && a->msg.u.welcome->cursor == NULL);
    kit_answer_free(a);
    again = kit_declare(&k, 3, "w", 6, PS_SGD);
    ck_assert_uint_ne(again, var);
    /* The id of before is answered, and names nothing of now. */
    kit_push(&k, 3, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 3, 1, PS_ERR_DROPPED);
    kit_expect_error(&k, 3, kit_pull(&k, 3, var, 0, 0), PS_ERR_DROPPED);
    kit_crash(&k);
    kit_resume(&k, 4, job, 0, 0);
    ck_assert_uint_gt(kit_declare(&k, 4, "v", 6, PS_SGD), again);
    kit_expect_error(&k, 4, kit_pull(&k, 4, var, 0, 0), PS_ERR_DROPPED);
}
END_TEST

START_TEST(a_reader_of_a_dropped_variable_is_told)
{
    Psd__Attach attach = PSD__ATTACH__INIT;
    uint32_t var = live_and_leave("train", PSD__MODE__ASYNC);

    kit_observe(&k, READER);
    attach.job = (char *)"train";
    attach.name = (char *)"w";
    kit_frame(&k, READER, MSG_ATTACH, 5, &attach.base, NULL, 0);
    kit_answer_free(kit_expect(&k, READER, MSG_DECLARED));
    drop_job_now("train");
    kit_expect_error(&k, READER, kit_pull(&k, READER, var, 0, 0), PS_ERR_DROPPED);
    kit_frame(&k, READER, MSG_ATTACH, 7, &attach.base, NULL, 0);
    kit_expect_error(&k, READER, 7, PS_ERR_NOT_FOUND);
    ck_assert(!k.closed[READER]);
}
END_TEST

/* ---- What waits ---- */

START_TEST(requests_that_wait_in_the_job_are_answered)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 3);
    Psd__Checkpoint checkpoint = PSD__CHECKPOINT__INIT;
    Psd__Attach attach = PSD__ATTACH__INIT;
    uint32_t var;

    for (uint32_t task = 0; task < 3; task++)
        kit_join(&k, task + 1, job, task);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_push_four(&k, 2, 1, 0, var, 1);
    kit_pull(&k, 2, var, 0, 1);
    kit_barrier(&k, 3, 1, "meet");
    kit_observe(&k, READER);
    kit_declare_as(&k, 3, 70, "slow", (uint64_t[]){3000000}, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    attach.job = (char *)"train";
    attach.name = (char *)"slow";
    kit_frame(&k, READER, MSG_ATTACH, 5, &attach.base, NULL, 0);
    checkpoint.job = (char *)"train";
    checkpoint.dir = (char *)"/tmp/x";
    checkpoint.at_clock = true;
    checkpoint.clock = 5;
    kit_frame(&k, READER, MSG_CHECKPOINT, 6, &checkpoint.base, NULL, 0);
    kit_expect_nothing(&k, READER);
    drop_by_force("train", "");
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_expect_closed(&k, conn, PS_ERR_DROPPED);
    kit_expect_error(&k, READER, 6, PS_ERR_DROPPED);
    kit_expect_error(&k, READER, 5, PS_ERR_DROPPED);
    nothing_is_left();
}
END_TEST

START_TEST(an_answer_on_its_way_to_a_reader_is_of_before_or_ends_its_connection)
{
    uint32_t var = live_and_leave("train", PSD__MODE__ASYNC);
    struct store_snapshot *snap;
    struct shard_data *data;
    struct shard_reply reply;
    struct shard_action action = {0};
    Psd__Drop m = drop_of("train", "");
    Psd__Pull pull = PSD__PULL__INIT;
    uint32_t block = 0;

    kit_observe(&k, READER);
    pull.n_var = pull.n_block = 1;
    pull.var = &var;
    pull.block = &block;
    k.hold = true;
    kit_frame(&k, READER, MSG_PULL, 5, &pull.base, NULL, 0);
    ck_assert_int_eq(shard_commit(k.shard), PS_OK);
    while (shard_next_action(k.shard, &action) && action.kind != SHARD_DATA)
        free(action.text);
    data = action.data;
    ck_assert_ptr_nonnull(data);
    k.hold = false;
    drop_ask(WATCHER, &m);
    kit_work(&k);
    kit_drop_answers(&k, WATCHER);
    ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
    ck_assert_int_eq(shard_data_open(k.shard, data, snap, &reply), PS_ERR_DROPPED);
    k.store->ops->snapshot_unref(k.store, snap);
    shard_data_free(data);
}
END_TEST

/* ---- Whatever dies ---- */

START_TEST(a_kill_at_any_moment_leaves_a_job_whole_or_none_of_it)
{
    bool whole = true;

    for (int works = 0; works < 40; works++) {
        Psd__Drop m = drop_of("train", "");

        live_and_leave("train", PSD__MODE__ASYNC);
        drop_ask(WATCHER, &m);
        for (int i = 0; i < works && shard_busy(k.shard); i++)
            kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
        whole = whole && shard_busy(k.shard);
        kit_crash(&k);
        ck_assert_ptr_null(k.shard->jobs);
        ck_assert_uint_eq(k.shard->variables_len, 0);
        kit_work(&k);
        nothing_is_left();
        kit_observe(&k, WATCHER);
    }
    ck_assert(!whole);
}
END_TEST

START_TEST(one_that_is_not_committed_did_not_happen)
{
    Psd__Drop m = drop_of("train", "");

    live_and_leave("train", PSD__MODE__ASYNC);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    drop_ask(WATCHER, &m);
    ck_assert(k.closed[WATCHER]); /* it asks again */
    kit_expect_nothing(&k, WATCHER);
    ck_assert(k.shard->jobs != NULL && k.shard->variables_len == 2 && k.shard->drops.waiters == NULL);
    kit_observe(&k, WATCHER);
    ck_assert(drop_job_now("train").found);
    nothing_is_left();
}
END_TEST

/* Each operation of the store that erases: the turn is undone, and erasing goes on. */
START_TEST(erasing_goes_on_after_a_store_that_failed)
{
    static const enum store_mem_fail kinds[] = {STORE_MEM_FAIL_COMMIT, STORE_MEM_FAIL_BEGIN};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (uint64_t nth = 1; nth < 6; nth++) {
            Psd__Drop m = drop_of("train", "");

            live_and_leave("train", PSD__MODE__ASYNC);
            drop_ask(WATCHER, &m);
            store_mem_fail_at(k.store, kinds[i], nth);
            kit_work(&k);
            store_mem_fail_at(k.store, kinds[i], 0);
            kit_pass(&k, 10);
            k.shard->drops.no_room = false; /* as any turn that writes has it */
            kit_work(&k);
            nothing_is_left();
            kit_close(&k, WATCHER);
            kit_observe(&k, WATCHER);
            kit_drop_answers(&k, WATCHER);
        }
}
END_TEST

START_TEST(a_drop_is_in_the_log)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    uint32_t keep, again;
    Psd__Job *job;

    live_and_leave("train", PSD__MODE__ASYNC);
    kit_join(&k, 3, kit_job("keep", PSD__MODE__ASYNC, 1), 0);
    keep = kit_declare(&k, 3, "w", 4, PS_SGD);
    disk_save(&disk, &k);
    kit_push(&k, 3, &(struct kit_push){.seq = 1, .var = keep, .gradient = g, .len = 4, .durable = true});
    drop_job_now("train");
    /* Another of the name, which gets the old one's number, and durable pushes to it. */
    k.shard->jobs_next = 1;
    job = kit_job("train", PSD__MODE__ASYNC, 3);
    kit_join(&k, 4, job, 2);
    ck_assert_uint_eq(k.shard->jobs_by_id[1]->options->workers, 3);
    again = kit_declare(&k, 4, "w", 4, PS_SGD);
    kit_push(&k, 4, &(struct kit_push){.seq = 1, .var = again, .gradient = g, .len = 4, .durable = true});
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 78);
    ck_assert_uint_eq(HASH_COUNT(k.shard->jobs), 2);
    ck_assert_uint_eq(k.shard->variables_len, 2);
    ck_assert_uint_eq(rows_in(STORE_SESSIONS, 1), 1);
    ck_assert_uint_eq(rows_in(STORE_CURSORS, 1), 0);
    kit_resume(&k, 5, job, 2, 0);
    ck_assert(kit_value_four(&k, 5, again, 1) == -1);
    /* And once more, with what came since: the same log goes over the same save. */
    power_loss(&disk, &k, 79);
    ck_assert_uint_eq(k.shard->variables_len, 2);
    disk_finish(&disk);
}
END_TEST

static uint32_t
format_of(struct store *store)
{
    Psd__ShardRow *row;
    uint32_t format;

    ck_assert_int_eq(identity_get(store, identity_live, &row), PS_OK);
    format = row->format;
    psd__shard_row__free_unpacked(row, NULL);
    return format;
}

START_TEST(an_earlier_psd_refuses_data_of_which_something_was_dropped)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    uint32_t keep;

    live_and_leave("train", PSD__MODE__ASYNC);
    kit_join(&k, 3, kit_job("keep", PSD__MODE__ASYNC, 1), 0);
    keep = kit_declare(&k, 3, "w", 4, PS_SGD);
    kit_crash(&k);
    ck_assert_uint_eq(format_of(k.store), SHARD_FORMAT); /* which it reads */
    disk_save(&disk, &k);
    kit_observe(&k, WATCHER);
    drop_job_now("train");
    ck_assert_uint_eq(format_of(k.store), SHARD_FORMAT_DROPS);
    kit_resume(&k, 4, kit_job("keep", PSD__MODE__ASYNC, 1), 0, 0);
    kit_push(&k, 4, &(struct kit_push){.seq = 1, .var = keep, .gradient = g, .len = 4, .durable = true});
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 78); /* by the redo log */
    ck_assert_uint_eq(format_of(k.store), SHARD_FORMAT_DROPS);
    kit_crash(&k);
    ck_assert_uint_eq(k.shard->variables_len, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE}); /* and in a save */
    ck_assert_uint_eq(k.save->format, SHARD_FORMAT_DROPS);
    disk_finish(&disk);
}
END_TEST

START_TEST(a_drop_of_variables_is_in_the_log)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    uint32_t a, b;

    kit_join(&k, 1, job, 0);
    a = kit_declare(&k, 1, "a", 4, PS_SGD);
    b = kit_declare(&k, 1, "b", 4, PS_SGD);
    disk_save(&disk, &k);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = a, .gradient = g, .len = 4, .durable = true});
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = b, .gradient = g, .len = 4, .durable = true});
    ck_assert_uint_eq(drop_by_force("train", "a").variables, 1);
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 78);
    ck_assert_uint_eq(k.shard->variables_len, 1);
    ck_assert_uint_eq(blocks_in(k.store), 1);
    join_anew(2, job, 0);
    ck_assert(kit_value_four(&k, 2, b, 1) == -1);
    disk_finish(&disk);
}
END_TEST

/* ---- Variables ---- */

START_TEST(variables_go_and_the_job_stays)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 1);
    uint32_t one, two, keep;
    Psd__Drop m = drop_of("train", "layer/*");
    Psd__Dropped did;

    kit_join(&k, 1, job, 0);
    one = kit_declare(&k, 1, "layer/1", 4, PS_SGD);
    two = kit_declare(&k, 1, "layer/2", 4, PS_ADAM);
    keep = kit_declare(&k, 1, "out", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, keep, 3);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ticked(&k, 1, 2, 7);
    kit_expect_error(&k, WATCHER, drop_ask(WATCHER, &m), PS_ERR_BUSY);
    kit_goodbye(&k, 1, true);
    did = drop_done(&m);
    ck_assert(did.found && did.variables == 2 && did.first == 2 && did.blocks == 2 && !did.more);
    ck_assert_uint_eq(blocks_in(k.store), 1);
    ck_assert_uint_eq(rows_in(STORE_VARS, 0), 1);
    kit_crash(&k);
    join_anew(2, job, 0);
    ck_assert(kit_value_four(&k, 2, keep, 1) == -3);
    kit_expect_error(&k, 2, kit_pull(&k, 2, one, 0, 7), PS_ERR_DROPPED);
    kit_expect_error(&k, 2, kit_pull(&k, 2, two, 0, 7), PS_ERR_DROPPED);
    ck_assert(kit_value_four(&k, 2, kit_declare(&k, 2, "layer/2", 4, PS_SGD), 0) == 0); /* otherwise than before */
}
END_TEST

START_TEST(workers_of_a_job_that_loses_variables_by_force_are_told)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint64_t boot = k.shard->boot;
    uint32_t a, b;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    a = kit_declare(&k, 1, "a", 4, PS_SGD);
    b = kit_declare(&k, 1, "b", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, a, 1);
    kit_push_four(&k, 1, 2, 0, b, 1);
    kit_close(&k, 2);
    ck_assert_uint_eq(drop_by_force("train", "a").workers, 2);
    kit_expect_closed(&k, 1, PS_ERR_DROPPED);
    for (int crash = 0; crash < 2; crash++) {
        kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 1, .resume = true, .boot = boot});
        kit_expect_closed(&k, 3, PS_ERR_DROPPED);
        kit_crash(&k);
    }
    kit_hello(&k, 4, &(struct kit_hello){.job = job, .task = 1, .incarnation = 5});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
    ck_assert_uint_eq(k.shard->variables_len, 1);
}
END_TEST

START_TEST(many_variables_take_several_asks)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    uint32_t asks = 0;
    char name[32];
    Psd__Dropped did;

    kit_join(&k, 1, job, 0);
    for (int i = 0; i < 2 * SHARD_DROP_MAX + 5; i++) {
        snprintf(name, sizeof name, "v%d", i);
        kit_declare(&k, 1, name, 4, PS_SGD);
    }
    kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_goodbye(&k, 1, true);
    do {
        Psd__Drop m = drop_of("train", "v*");

        did = drop_done(&m);
        asks++;
    } while (did.more);
    ck_assert_uint_eq(asks, 3);
    ck_assert_uint_eq(did.variables, 5); /* those that were left for it */
    ck_assert_uint_eq(blocks_in(k.store), 1);
}
END_TEST

START_TEST(what_blocks_have_counted_stays_with_them)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    const uint64_t step[] = {0, 1};
    float g[4] = {1, 1, 1, 1};
    uint32_t a, b, c;

    kit_join(&k, 1, job, 0);
    a = kit_declare(&k, 1, "a", 4, PS_SGD);
    b = kit_declare(&k, 1, "b", 4, PS_SGD);
    c = kit_declare(&k, 1, "c", 4, PS_SGD);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = a, .gradient = g, .len = 4, .cursor = step});
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = c, .gradient = g, .len = 4, .cursor = step});
    kit_close(&k, 1); /* in the middle of the step: b has not counted it */
    kit_pass(&k, 6000);
    drop_by_force("train", "a");
    for (int crash = 0; crash < 2; crash++) { /* ordinals are those of before, also when all is loaded again */
        ck_assert_uint_eq(variable_find(k.shard, b)->first, 1);
        ck_assert_uint_eq(variable_find(k.shard, c)->first, 2);
        kit_crash(&k);
    }
    join_anew(2, job, 0);
    a = kit_declare(&k, 2, "new", 4, PS_SGD);
    ck_assert_uint_eq(variable_find(k.shard, a)->first, 0); /* where a was, which had counted the step */
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = a, .gradient = g, .len = 4, .cursor = step});
    kit_push(&k, 2, &(struct kit_push){.seq = 2, .var = b, .gradient = g, .len = 4, .cursor = step});
    kit_push(&k, 2, &(struct kit_push){.seq = 3, .var = c, .gradient = g, .len = 4, .cursor = step});
    kit_drop_answers(&k, 2);
    ck_assert(kit_value_four(&k, 2, a, 1) == -1);
    ck_assert(kit_value_four(&k, 2, b, 1) == -1);
    ck_assert(kit_value_four(&k, 2, c, 1) == -1); /* once */
}
END_TEST

/* What is there and otherwise is refused with the command that makes room for it, however long the names are. */
START_TEST(a_refusal_of_other_options_says_how_to_drop)
{
    char name[2][201], command[256];
    uint64_t five = 5;
    Psd__Job *job;
    struct kit_answer *a;

    memset(name, 'n', sizeof name);
    for (int i = 0; i < 2; i++)
        name[i][i == 0 ? 5 : 200] = '\0';
    for (int i = 0; i < 2; i++) {
        job = kit_job(name[i], PSD__MODE__SSP, 2);
        kit_join(&k, 2 * i + 1, job, 0);
        kit_declare(&k, 2 * i + 1, name[1 - i], 4, PS_ADAM);
        kit_declare_as(&k, 2 * i + 1, 9, name[1 - i], &five, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
        a = kit_expect(&k, 2 * i + 1, MSG_ERROR);
        ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
        snprintf(command, sizeof command, "; to begin anew: psctl drop --job %.64s --variables '%.64s'", name[i],
                 name[1 - i]);
        ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "shape float32[4], not float32[5]"));
        ck_assert_str_eq(a->msg.u.error->text + strlen(a->msg.u.error->text) - strlen(command), command);
        kit_answer_free(a);
        job->mode = PSD__MODE__SYNC;
        kit_hello(&k, 2 * i + 2, &(struct kit_hello){.job = job, .task = 1, .incarnation = 7});
        a = kit_expect(&k, 2 * i + 2, MSG_ERROR);
        ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
        snprintf(command, sizeof command, "; to begin anew: psctl drop --job %.64s", name[i]);
        ck_assert_str_eq(a->msg.u.error->text + strlen(a->msg.u.error->text) - strlen(command), command);
        kit_answer_free(a);
    }
}
END_TEST

/* ---- Saves ---- */

START_TEST(a_save_that_runs_keeps_what_it_reads)
{
    struct shard_save_block blocks[64];
    struct store_snapshot *snap;
    struct span value;
    Psd__Dropped did;
    size_t n;

    live_and_leave("train", PSD__MODE__ASYNC);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_ptr_nonnull(k.save);
    did = drop_job_now("train");
    ck_assert(did.found && did.kept);
    kit_crash(&k); /* it is still so: nothing runs then */
    kit_work(&k);
    nothing_is_left();
    kit_observe(&k, WATCHER);

    live_and_leave("train", PSD__MODE__ASYNC);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert(drop_job_now("train").kept);
    while ((n = shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks))) > 0) {
        ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
        for (size_t i = 0; i < n; i++)
            ck_assert_int_eq(k.store->ops->snapshot_get(k.store, snap, &blocks[i].key, &value), PS_OK);
        k.store->ops->snapshot_unref(k.store, snap);
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    }
    kit_work(&k);
    ck_assert_uint_gt(blocks_in(k.store), 0);
    kit_save_ended(&k, 1, 0, NULL);
    kit_work(&k);
    nothing_is_left();
}
END_TEST

/* Variables of the save that is under way, none of them dropped. */
static uint32_t
rows_of_save(void)
{
    uint32_t n = 0;

    for (size_t i = 0; i < k.save->rows_len; i++) {
        Psd__VariableRow *row;

        if (k.save->rows[i].table != STORE_VARS)
            continue;
        row = psd__variable_row__unpack(NULL, k.save->rows[i].value.len, k.save->rows[i].value.data);
        ck_assert(row != NULL && !row->dropped && row->ordinal == ++n);
        psd__variable_row__free_unpacked(row, NULL);
    }
    return n;
}

/* It looks at a variable in each event, at first or also after the drop. */
START_TEST(a_save_that_begins_has_what_is_dropped_before_it_has_looked_at_all)
{
    Psd__Drop m = drop_of("train", _i % 2 == 0 ? "" : "*");
    struct shard_save_block blocks[8];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (uint32_t i = 0; i < 4; i++)
        kit_declare(&k, 1, (char[]){(char)('a' + i), 0}, 4, PS_SGD);
    kit_goodbye(&k, 1, true);
    kit_work(&k);
    k.shard->config.save_looks = 1;
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    for (int i = 0; i < _i / 2; i++)
        kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
    ck_assert_ptr_null(k.save);
    drop_ask(WATCHER, &m);
    kit_work(&k);
    ck_assert_ptr_nonnull(k.save);
    ck_assert_uint_eq(k.save->blocks, 4);
    ck_assert_uint_eq(rows_of_save(), 4);
    ck_assert_uint_eq(shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks)), 4);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = 4});
    kit_save_ended(&k, 1, 0, NULL);
    kit_work(&k);
    ck_assert_uint_eq(blocks_in(k.store), 0);
}
END_TEST

/* What it reads after the gap that a dropped variable has left is not erased before it was read. */
START_TEST(a_save_finds_the_blocks_behind_a_gap)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    struct shard_save_block blocks[4];
    struct store_snapshot *snap;
    struct span value;
    uint32_t first, last;

    kit_join(&k, 1, job, 0);
    first = kit_declare(&k, 1, "first", 4, PS_SGD);
    kit_declare(&k, 1, "middle", 4, PS_SGD);
    last = kit_declare(&k, 1, "last", 4, PS_SGD);
    kit_goodbye(&k, 1, true);
    drop_by_force("train", "middle");
    join_anew(2, job, 0);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_uint_eq(shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks)), 2);
    kit_push_four(&k, 2, 1, 0, first, 1);
    kit_push_four(&k, 2, 2, 0, last, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = 1});
    kit_work(&k);
    ck_assert_uint_eq(blocks_in(k.store), 3); /* of the last both values */
    ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
    ck_assert_int_eq(k.store->ops->snapshot_get(k.store, snap, &blocks[1].key, &value), PS_OK);
    ck_assert(((const float *)((const struct block_head *)value.data + 1))[0] == 0);
    k.store->ops->snapshot_unref(k.store, snap);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = 1});
    kit_work(&k);
    ck_assert_uint_eq(blocks_in(k.store), 2);
    kit_save_ended(&k, 1, 0, NULL);
}
END_TEST

START_TEST(a_save_waits_for_what_is_erased_and_has_nothing_of_it)
{
    Psd__Drop m = drop_of("train", "");

    live_and_leave("train", PSD__MODE__ASYNC);
    k.shard->drops.no_room = true;
    drop_ask(WATCHER, &m);
    k.shard->drops.no_room = true; /* the store has no room to erase */
    if (_i == 1)
        kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_ptr_null(k.save);
    kit_work(&k);
    ck_assert_ptr_nonnull(k.save);
    ck_assert_uint_eq(k.save->blocks, 0);
    ck_assert_uint_eq(k.save->rows_len, 0);
}
END_TEST

/* ---- Memory ---- */

START_TEST(memory_comes_back_however_often)
{
    struct store_usage usage;
    uint64_t used = 0, file = 0, pages = 0;

    for (int i = 0; i < 300; i++) {
        live_and_leave("train", i % 2 == 0 ? PSD__MODE__ASYNC : PSD__MODE__SYNC);
        kit_close(&k, 1);
        drop_job_now("train");
        k.store->ops->usage(k.store, &usage);
        if (i == 10) {
            used = usage.used_bytes;
            file = usage.file_bytes;
            pages = k.shard->variables.pages_len;
        }
        ck_assert(i <= 10 || (usage.used_bytes <= used && usage.file_bytes <= file));
    }
    ck_assert_uint_eq(k.shard->variables.pages_len, pages);
    ck_assert_uint_eq(k.shard->variables.next, 601);
    nothing_is_left();
}
END_TEST

START_TEST(ids_come_again_when_no_block_of_before_can_be_on_disk)
{
    struct shard_config few = kit_durable_config;
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    struct kit_answer *a;

    kit_finish(&k);
    few.variable_ids_max = 3;
    kit_init(&k, &few);
    kit_observe(&k, WATCHER);
    kit_join(&k, 1, job, 0);
    kit_declare(&k, 1, "a", 4, PS_SGD);
    kit_declare(&k, 1, "b", 4, PS_SGD);
    kit_declare(&k, 1, "c", 4, PS_SGD);
    kit_goodbye(&k, 1, true);
    drop_by_force("train", "b");
    join_anew(2, job, 0);
    for (int saves = 0; saves < 2; saves++) {
        kit_declare_as(&k, 2, 70, "d", (uint64_t[]){4}, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
        a = kit_expect(&k, 2, MSG_ERROR);
        ck_assert(a->msg.u.error->code == PS_ERR_LIMIT && strstr(a->msg.u.error->text, "psctl save") != NULL);
        kit_answer_free(a);
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
        while (!k.save_closing) {
            struct shard_save_block blocks[8];
            size_t n = shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks));

            kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
        }
        kit_save_ended(&k, 1, 0, NULL);
    }
    ck_assert_uint_eq(kit_declare(&k, 2, "d", 4, PS_SGD), 2);
}
END_TEST

/* ---- Rows of before ---- */

static bool
take_var_row(void *arg, struct span key, struct span value)
{
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);
    uint8_t bytes[4 * KIB];
    struct kit *kit = arg;
    size_t len;

    row->ordinal = 0;
    len = psd__variable_row__pack(row, bytes);
    psd__variable_row__free_unpacked(row, NULL);
    ck_assert_int_eq(kit->store->ops->row_put(kit->store, STORE_VARS, key, (struct span){bytes, len}), PS_OK);
    return true;
}

START_TEST(rows_that_do_not_say_their_ordinals_keep_those_that_they_had)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    const uint64_t step[] = {0, 1};
    float g[4] = {1, 1, 1, 1};
    uint32_t b;

    kit_join(&k, 1, job, 0);
    kit_declare(&k, 1, "a", 4, PS_SGD);
    b = kit_declare(&k, 1, "b", 4, PS_SGD);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = b, .gradient = g, .len = 4, .cursor = step});
    ck_assert_int_eq(k.store->ops->begin(k.store, MIB), PS_OK);
    ck_assert_int_eq(k.store->ops->each_row(k.store, STORE_VARS, take_var_row, &k), PS_OK);
    ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    kit_crash(&k); /* as a store that an older psd left */
    ck_assert_uint_eq(k.shard->unnumbered, 0);
    kit_observe(&k, WATCHER);
    drop_by_force("train", "a");
    kit_crash(&k);
    ck_assert_uint_eq(variable_find(k.shard, b)->first, 1);
    join_anew(2, job, 0);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = b, .gradient = g, .len = 4, .cursor = step});
    kit_drop_answers(&k, 2);
    ck_assert(kit_value_four(&k, 2, b, 1) == -1);
}
END_TEST

/* ---- Permissions ---- */

START_TEST(only_an_administrator_may_drop)
{
    Psd__Drop m = drop_of("train", "");

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    drop_ask(1, &m);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL); /* a worker's connection */
    k.role = ROLE_TRAIN;
    kit_expect_error(&k, WATCHER, drop_ask(WATCHER, &m), PS_ERR_DENIED);
    k.role = ROLE_ADMIN;
    m.job = (char *)"";
    kit_expect_error(&k, WATCHER, drop_ask(WATCHER, &m), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(k.shard->jobs);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("drop");
    TCase *t = tcase_create("drop");

    tcase_add_checked_fixture(t, drop_setup, shard_teardown);
    tcase_add_loop_test(t, nothing_of_a_dropped_job_is_left, 0, 3);
    tcase_add_test(t, another_job_is_as_it_was);
    tcase_add_test(t, only_looking_changes_nothing);
    tcase_add_test(t, a_job_that_is_not_there_is_no_error);
    tcase_add_test(t, live_workers_are_in_the_way_until_it_is_forced);
    tcase_add_test(t, a_worker_that_was_away_is_told_when_it_comes_again);
    tcase_add_test(t, a_client_of_before_is_fenced);
    tcase_add_test(t, the_next_job_of_the_name_begins_from_nothing);
    tcase_add_test(t, a_reader_of_a_dropped_variable_is_told);
    tcase_add_test(t, requests_that_wait_in_the_job_are_answered);
    tcase_add_test(t, an_answer_on_its_way_to_a_reader_is_of_before_or_ends_its_connection);
    tcase_add_test(t, a_kill_at_any_moment_leaves_a_job_whole_or_none_of_it);
    tcase_add_test(t, one_that_is_not_committed_did_not_happen);
    tcase_add_test(t, erasing_goes_on_after_a_store_that_failed);
    tcase_add_test(t, a_drop_is_in_the_log);
    tcase_add_test(t, an_earlier_psd_refuses_data_of_which_something_was_dropped);
    tcase_add_test(t, a_drop_of_variables_is_in_the_log);
    tcase_add_test(t, variables_go_and_the_job_stays);
    tcase_add_test(t, workers_of_a_job_that_loses_variables_by_force_are_told);
    tcase_add_test(t, many_variables_take_several_asks);
    tcase_add_test(t, what_blocks_have_counted_stays_with_them);
    tcase_add_test(t, a_refusal_of_other_options_says_how_to_drop);
    tcase_add_test(t, a_save_that_runs_keeps_what_it_reads);
    tcase_add_loop_test(t, a_save_that_begins_has_what_is_dropped_before_it_has_looked_at_all, 0, 6);
    tcase_add_test(t, a_save_finds_the_blocks_behind_a_gap);
    tcase_add_loop_test(t, a_save_waits_for_what_is_erased_and_has_nothing_of_it, 0, 2);
    tcase_add_test(t, memory_comes_back_however_often);
    tcase_add_test(t, ids_come_again_when_no_block_of_before_can_be_on_disk);
    tcase_add_test(t, rows_that_do_not_say_their_ordinals_keep_those_that_they_had);
    tcase_add_test(t, only_an_administrator_may_drop);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
