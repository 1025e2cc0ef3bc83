/* Restores, from the shard's side: the resulting state, which connections are let in meanwhile, and the state that is
 * left when it ends in the middle. The source is made by hand; each of its values tells its place. */
#include "tests/unit/kits/shard_kit.h"

#include <string.h>

#include "common/core/format/checkpoint.h"
#include "server/core/metrics/metrics.h"

static struct kit k;
static unsigned closed;  /* sources that were */
static uint64_t fail_at; /* elements read from the source before one fails; 0: none */

#define CLOCK 40
#define BOOT  4242
#define LARGE 1500000 /* elements: several blocks of two classes */

/* ---- A source ---- */

struct restore_source_fake {
    struct shard_restore base;
    struct checkpoint manifest;
};

static float
value_of(size_t variable, uint32_t array, uint64_t element)
{
    return (float)(1 + variable) * 0.5f + (float)array * 1000 + (float)(element % 977);
}

static enum ps_err
restore_elements(struct shard_restore *r, size_t variable, uint32_t array, uint64_t first, uint32_t len, float *to,
                 struct ps_error *e)
{
    (void)r;
    if (fail_at > 0 && --fail_at == 0)
        return ps_fail(e, PS_ERR_IO, "cannot read weights.safetensors: the disk is gone");
    for (uint32_t i = 0; i < len; i++)
        to[i] = value_of(variable, array, first + i);
    return PS_OK;
}

static enum ps_err
restore_counts(struct shard_restore *r, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
               struct ps_error *e)
{
    const struct restore_source_fake *s = (const struct restore_source_fake *)r;

    (void)e;
    *version = 100 + 10 * variable + block;
    *clock = s->manifest.declared->mode == PSD__MODE__SYNC ? CLOCK : 0;
    return PS_OK;
}

static void
close_source(struct shard_restore *r)
{
    struct restore_source_fake *s = (struct restore_source_fake *)r;

    checkpoint_finish(&s->manifest);
    free(s);
    closed++;
}

static void
restore_add(struct checkpoint *c, const char *name, uint64_t len, enum ps_optimizer_kind kind)
{
    struct ps_optimizer optimizer = kit_optimizer(kind), now = optimizer;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Declare declared = PSD__DECLARE__INIT, is;
    struct wire_optimizer room, now_room;
    struct ps_error e;

    declared.name = (char *)name;
    declared.n_dims = 1;
    declared.dims = &len;
    declared.init = &init;
    is = declared;
    declared.optimizer = wire_optimizer_message(&optimizer, &room);
    now.learning_rate = 0.25; /* as a SET left it */
    is.optimizer = wire_optimizer_message(&now, &now_room);
    ck_assert_int_eq(checkpoint_add(c, &declared, &is, &e), PS_OK);
}

/* "a" of 4 elements without slots, "w" of many with two. */
static struct shard_restore *
restore_source(const char *job, Psd__Mode mode)
{
    struct restore_source_fake *s = calloc(1, sizeof *s);
    struct ps_error e;

    s->base = (struct shard_restore){.manifest = &s->manifest,
                                     .dir = "/c/clock-40",
                                     .job = job,
                                     .boot = BOOT,
                                     .elements = restore_elements,
                                     .counts = restore_counts,
                                     .close = close_source};
    s->manifest.clock = CLOCK;
    ck_assert_int_eq(checkpoint_set_job(&s->manifest, kit_job("train", mode, 2), kit_job("train", mode, 2), &e), PS_OK);
    restore_add(&s->manifest, "a", 4, PS_SGD);
    restore_add(&s->manifest, "w", LARGE, PS_ADAM);
    return &s->base;
}

/* ---- Asking ---- */

static void
restore_ask(uint64_t conn, const char *job, bool check)
{
    Psd__Restore m = PSD__RESTORE__INIT;

    m.dir = (char *)"/c/clock-40";
    m.job = (char *)job;
    m.check = check;
    kit_frame(&k, conn, MSG_RESTORE, 9, &m.base, NULL, 0);
}

static void
restore_give(struct shard_restore *r, uint64_t conn)
{
    kit_event(&k,
              &(struct shard_event){.kind = SHARD_RESTORE, .restore = r, .conn = conn, .number = conn != 0 ? 9 : 0});
}

static void
expect_done(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_RESTORE_DONE);

    ck_assert_uint_eq(a->msg.request, 9);
    ck_assert_uint_eq(a->msg.u.restore_done->variables, 2);
    ck_assert_uint_gt(a->msg.u.restore_done->blocks, 4);
    kit_answer_free(a);
}

static void
restore_start(Psd__Mode mode)
{
    closed = 0;
    fail_at = 0;
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_give(restore_source("", mode), 1);
    kit_work(&k);
    expect_done(1);
    ck_assert_uint_eq(closed, 1);
}

static uint32_t
restore_attach(uint64_t conn, const char *job, const char *name, double *rate)
{
    Psd__Attach m = PSD__ATTACH__INIT;
    struct kit_answer *a;
    uint32_t var;

    m.job = (char *)job;
    m.name = (char *)name;
    kit_frame(&k, conn, MSG_ATTACH, 3, &m.base, NULL, 0);
    a = kit_expect(&k, conn, MSG_DECLARED);
    var = a->msg.u.declared->var;
    if (rate != NULL)
        *rate = a->msg.u.declared->declare->optimizer->learning_rate;
    kit_answer_free(a);
    return var;
}

/* All of the checkpoint is there. */
static void
check_values(uint64_t conn, const char *job)
{
    uint32_t a = restore_attach(conn, job, "a", NULL), w = restore_attach(conn, job, "w", NULL);
    struct layout layout;
    float *out = malloc(LARGE * sizeof *out);

    layout_init(&layout, LARGE, 2);
    ck_assert_uint_eq(kit_read(&k, conn, a, 0, out, 4), 100);
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_float_eq(out[i], value_of(0, 0, i));
    for (uint64_t b = 0; b < layout.blocks; b++) {
        struct layout_block cut = layout_block(&layout, b);

        ck_assert_uint_eq(kit_read(&k, conn, w, (uint32_t)b, out, cut.len), 110 + b);
        for (uint32_t i = 0; i < cut.len; i += 61)
            ck_assert_float_eq(out[i], value_of(1, 0, cut.first + i));
    }
    free(out);
}

/* The state that the readiness check gets. */
static enum metrics_state
state_now(void)
{
    struct metrics *m = calloc(1, sizeof *m);
    enum metrics_state state;

    ck_assert_ptr_nonnull(m);
    shard_measure(k.shard, &(struct shard_event){.now_ms = k.now_ms}, m);
    state = m->state;
    free(m);
    return state;
}

static void
expect_busy(uint64_t conn)
{
    ck_assert_int_eq(state_now(), METRICS_RESTORING);
    kit_hello(&k, conn, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .task = 0});
    kit_expect_closed(&k, conn, PS_ERR_BUSY);
}

static uint64_t
welcome_boot(uint64_t conn, Psd__Mode mode, uint64_t *clock)
{
    struct kit_answer *a;
    uint64_t boot;

    kit_hello(&k, conn, &(struct kit_hello){.job = kit_job("train", mode, 2), .task = 0});
    a = kit_expect(&k, conn, MSG_WELCOME);
    boot = a->msg.u.welcome->boot;
    *clock = a->msg.u.welcome->clock;
    kit_answer_free(a);
    return boot;
}

/* ---- What becomes of it ---- */

START_TEST(an_empty_shard_becomes_what_the_checkpoint_was)
{
    uint64_t clock;
    double rate;

    restore_start(PSD__MODE__SYNC);
    ck_assert_uint_eq(welcome_boot(2, PSD__MODE__SYNC, &clock), BOOT);
    ck_assert_uint_eq(clock, CLOCK);
    check_values(1, "train");
    restore_attach(1, "train", "w", &rate);
    ck_assert_double_eq(rate, kit_optimizer(PS_ADAM).learning_rate); /* declared so: workers declare it again */
    kit_crash(&k);
    kit_work(&k);
    kit_observe(&k, 1);
    check_values(1, "train");
    ck_assert_uint_eq(welcome_boot(2, PSD__MODE__SYNC, &clock), BOOT);
    kit_finish(&k);
}
END_TEST

/* Nobody has joined yet. */
START_TEST(clocks_are_reported_as_the_checkpoint_has_them)
{
    Psd__Query m = PSD__QUERY__INIT;
    struct kit_answer *a;

    restore_start(PSD__MODE__SSP);
    m.kind = PSD__QUERY_KIND__JOBS;
    kit_frame(&k, 1, MSG_QUERY, 77, &m.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_REPORT);
    ck_assert_uint_eq(a->msg.u.report->n_job, 1);
    ck_assert_uint_eq(a->msg.u.report->job[0]->slowest_clock, CLOCK);
    ck_assert_uint_eq(a->msg.u.report->job[0]->fastest_clock, CLOCK);
    kit_answer_free(a);
    kit_finish(&k);
}
END_TEST

START_TEST(it_may_get_another_name)
{
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_give(restore_source("other", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    expect_done(1);
    check_values(1, "other");
    kit_finish(&k);
}
END_TEST

START_TEST(it_comes_again_under_the_other_name)
{
    kit_init(&k, NULL);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        kit_observe(&k, conn);
        restore_give(restore_source("other", PSD__MODE__ASYNC), conn);
        kit_work(&k);
        expect_done(conn);
    }
    kit_finish(&k);
}
END_TEST

/* "a" was saved with a rate that a SET had left it with, and is declared with that one here. */
START_TEST(settings_fit_as_they_were_declared_or_as_they_were_then)
{
    struct ps_optimizer sgd = kit_optimizer(PS_SGD);

    kit_init(&k, NULL);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    sgd.learning_rate = 0.25;
    kit_declare_with(&k, 2, "a", 4, &sgd);
    kit_observe(&k, 1);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    expect_done(1);
    kit_finish(&k);
}
END_TEST

/* A job that trains: "a" was pushed to, another variable is not in the checkpoint. */
static void
restore_train(void)
{
    uint32_t var;

    kit_init(&k, NULL);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_join(&k, 4, kit_job("bystander", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 2, "a", 4, PS_SGD);
    kit_declare(&k, 2, "more", 4, PS_SGD);
    kit_declare(&k, 4, "b", 4, PS_SGD);
    kit_push_four(&k, 2, 1, 0, var, 3);
    kit_ack(&k, 2, 1, PS_OK);
    kit_observe(&k, 1);
}

START_TEST(a_job_that_is_there_gets_its_values_and_everybody_goes)
{
    const Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 2);

    restore_train();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_expect_closed(&k, 2, PS_ERR_BUSY);
    kit_expect_closed(&k, 4, PS_ERR_BUSY);
    expect_done(1);
    check_values(1, "train");
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 0, .resume = true});
    kit_expect_closed(&k, 3, PS_ERR_NOT_FOUND);
    for (int process = 0; process < 2; process++) {
        struct kit_answer *a;

        kit_hello(&k, 6, &(struct kit_hello){.job = job, .task = 0});
        a = kit_expect(&k, 6, MSG_WELCOME);
        ck_assert_str_eq(a->msg.u.welcome->restored, "clock-40");
        ck_assert_uint_eq(a->msg.u.welcome->restored_boot, BOOT);
        kit_answer_free(a);
        kit_hello(&k, 7, &(struct kit_hello){.job = kit_job("bystander", PSD__MODE__ASYNC, 1), .resume = true});
        a = kit_expect(&k, 7, MSG_WELCOME);
        ck_assert_uint_eq(a->msg.u.welcome->restored_boot, 0);
        kit_answer_free(a);
        job = kit_job("train", PSD__MODE__ASYNC, 2);
        kit_crash(&k);
    }
    ck_assert_uint_eq(kit_resume(&k, 5, kit_job("bystander", PSD__MODE__ASYNC, 1), 0, 0), 0);
    kit_finish(&k);
}
END_TEST

START_TEST(what_does_not_fit_changes_nothing)
{
    uint64_t before;

    restore_train();
    before = kit_state(&k);
    restore_give(restore_source("", PSD__MODE__SSP), 1);
    kit_work(&k);
    kit_expect_error(&k, 1, 9, PS_ERR_MISMATCH);
    ck_assert_uint_eq(kit_state(&k), before);
    kit_declare(&k, 2, "w", 7, PS_SGD);
    before = kit_state(&k);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_expect_error(&k, 1, 9, PS_ERR_MISMATCH);
    ck_assert_uint_eq(kit_state(&k), before);
    kit_expect_nothing(&k, 2);
    kit_finish(&k);
}
END_TEST

START_TEST(a_shard_without_room_says_so_before_anything_happens)
{
    uint64_t before;

    kit_init_size(&k, NULL, 24 * MIB);
    kit_observe(&k, 1);
    before = kit_state(&k);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_expect_error(&k, 1, 9, PS_ERR_FULL);
    ck_assert_uint_eq(kit_state(&k), before);
    kit_finish(&k);
}
END_TEST

START_TEST(a_check_changes_nothing)
{
    struct shard_restore *r = restore_source("", PSD__MODE__ASYNC);
    uint64_t before;

    restore_train();
    before = kit_state(&k);
    r->check = true;
    closed = 0;
    restore_give(r, 1);
    kit_work(&k);
    expect_done(1);
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(kit_state(&k), before);
    kit_expect_nothing(&k, 2);
    kit_finish(&k);
}
END_TEST

/* Reading the files may take minutes: a client that has given up meanwhile does not want the data replaced any more. */
START_TEST(what_nobody_waits_for_any_more_is_not_begun)
{
    uint64_t before;

    closed = 0;
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_ask(1, "", false);
    before = kit_state(&k);
    kit_close(&k, 1);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(kit_state(&k), before);
    ck_assert(!shard_is_restoring(k.shard, NULL) && shard_is_empty(k.shard));
    kit_finish(&k);
}
END_TEST

START_TEST(the_glue_is_asked_for_the_files)
{
    const struct ps_error why = {.code = PS_ERR_DATA, .text = "weights.safetensors: it is damaged"};

    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_ask(1, "x", true);
    ck_assert_str_eq(k.wanted.text, "/c/clock-40");
    ck_assert_str_eq(k.wanted.job, "x");
    ck_assert(k.wanted.check);
    ck_assert_uint_eq(k.wanted.conn, 1);
    ck_assert_uint_eq(k.wanted.number, 9);
    kit_event(&k, &(struct shard_event){.kind = SHARD_RESTORE, .error = &why, .conn = 1, .number = 9});
    kit_expect_error(&k, 1, 9, PS_ERR_DATA);
    kit_finish(&k);
}
END_TEST

/* ---- In the middle ---- */

/* So many turns of background work. */
static void
restore_work(int turns)
{
    for (int i = 0; i < turns && shard_busy(k.shard); i++)
        kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
}

/* An answer that was due before, and is first in line when the values have been replaced: its client does not know that
 * yet. */
START_TEST(an_answer_of_before_does_not_go_out_with_values_of_after)
{
    struct store_snapshot *snap;
    struct shard_data *d = NULL;
    struct shard_reply reply;
    struct shard_action a;
    uint32_t var;

    restore_train();
    var = restore_attach(2, "train", "a", NULL);
    k.hold = true;
    kit_pull(&k, 2, var, 0, 0);
    ck_assert_int_eq(shard_commit(k.shard), PS_OK);
    while (shard_next_action(k.shard, &a))
        if (a.kind == SHARD_DATA)
            d = a.data;
    ck_assert_ptr_nonnull(d);
    k.hold = false;
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(_i); /* all connections end, then it writes */
    if (_i == 8)
        kit_work(&k);
    ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
    ck_assert_int_eq(shard_data_open(k.shard, d, snap, &reply), _i < 2 ? PS_OK : PS_ERR_ROLLED_BACK);
    shard_data_free(d);
    k.store->ops->snapshot_unref(k.store, snap);
    kit_work(&k);
    kit_expect_closed(&k, 2, PS_ERR_BUSY);
    kit_expect_closed(&k, 4, PS_ERR_BUSY);
    expect_done(1);
    kit_finish(&k);
}
END_TEST

START_TEST(nobody_trains_on_half_of_a_model)
{
    uint64_t clock;

    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(3);
    ck_assert(shard_busy(k.shard));
    expect_busy(2);
    restore_ask(1, "y", false);
    kit_expect_error(&k, 1, 9, PS_ERR_BUSY);
    kit_work(&k);
    expect_done(1);
    ck_assert_uint_eq(welcome_boot(3, PSD__MODE__ASYNC, &clock), BOOT);
    kit_finish(&k);
}
END_TEST

START_TEST(who_lost_its_connection_asks_again_and_hears_the_end)
{
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(3);
    kit_close(&k, 1);
    kit_observe(&k, 2);
    restore_ask(2, "", false);
    kit_work(&k);
    expect_done(2);
    kit_finish(&k);
}
END_TEST

/* However many turns it got, after a crash the old state is there, or one that is marked as half of a new one. */
START_TEST(a_crash_in_the_middle_is_mended_by_the_next_start)
{
    const char *dir, *job;
    uint64_t clock;
    bool unfinished;

    restore_train();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(_i);
    kit_crash(&k);
    unfinished = shard_restore_unfinished(k.shard, &dir, &job);
    ck_assert_int_eq(unfinished, _i >= 2);
    if (unfinished) {
        ck_assert_str_eq(dir, "/c/clock-40");
        ck_assert_str_eq(job, "");
        expect_busy(2);
        restore_give(restore_source("", PSD__MODE__ASYNC), 0);
        kit_work(&k);
        kit_observe(&k, 1);
        check_values(1, "train");
        ck_assert_uint_eq(welcome_boot(3, PSD__MODE__ASYNC, &clock), BOOT);
    } else {
        kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    }
    kit_finish(&k);
}
END_TEST

/* Whether it was in the middle is unknown then. */
START_TEST(a_shard_that_cannot_tell_whether_it_was_restored_does_not_start)
{
    const struct span name = {"restoring", 9}, damaged = {"\xff", 1};
    struct shard *s;
    struct ps_error e;

    restore_train();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(3);
    kit_crash(&k);
    ck_assert(shard_is_restoring(k.shard, NULL));
    ck_assert_int_eq(k.store->ops->begin(k.store, STORE_ROW_ROOM), PS_OK);
    ck_assert_int_eq(k.store->ops->row_put(k.store, STORE_SHARD, name, damaged), PS_OK);
    ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    ck_assert_int_eq(shard_new(&k.config, k.store, k.now_ms, &s, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "whether the store was being restored cannot be read"));
    kit_finish(&k);
}
END_TEST

START_TEST(a_source_that_fails_leaves_a_shard_that_waits_for_another)
{
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    fail_at = 4;
    kit_work(&k);
    kit_expect_error(&k, 1, 9, PS_ERR_IO);
    expect_busy(2);
    fail_at = 0;
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    expect_done(1);
    check_values(1, "train");
    kit_finish(&k);
}
END_TEST

/* Every commit, and every row, failing in turn: it is done again, or reported and done again on request. */
START_TEST(a_store_that_fails_is_tried_again)
{
    enum store_mem_fail what = _i % 2 == 0 ? STORE_MEM_FAIL_COMMIT : STORE_MEM_FAIL_ROW_PUT;
    const char *dir, *job;
    struct kit_answer *a;

    restore_train();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(1);
    store_mem_fail_at(k.store, what, (uint64_t)_i / 2 + 1);
    kit_work(&k);
    store_mem_fail_none(k.store);
    a = kit_take(&k, 1);
    ck_assert(a == NULL || a->msg.type == MSG_RESTORE_DONE || a->msg.type == MSG_ERROR);
    if (a == NULL || a->msg.type == MSG_ERROR) { /* nothing happened, or half of it: a repeated request does all */
        ck_assert(!shard_is_restoring(k.shard, NULL) || shard_restore_unfinished(k.shard, &dir, &job));
        restore_give(restore_source("", PSD__MODE__ASYNC), 0);
        kit_work(&k);
    }
    kit_answer_free(a);
    kit_observe(&k, 6);
    check_values(6, "train");
    kit_finish(&k);
}
END_TEST

/* ---- Saves ---- */

static void
start_durable(void)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 77, .durable = true, .durable_dir = "/d"};

    kit_init(&k, &config);
    kit_observe(&k, 1);
}

/* The saver has read all and written it. */
static void
restore_save(const struct ps_error *error)
{
    struct shard_save_block blocks[64];
    size_t n = 1;

    ck_assert_ptr_nonnull(k.save);
    while (error == NULL && n > 0) {
        n = shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks));
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    }
    kit_save_ended(&k, 1, 0, error);
}

START_TEST(it_is_done_when_a_save_has_it)
{
    const struct ps_error why = {.code = PS_ERR_FULL, .text = "the disk is full"};
    uint64_t clock;

    start_durable();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_expect_nothing(&k, 1);
    expect_busy(2);
    restore_save(&why);
    kit_work(&k);
    kit_expect_nothing(&k, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    restore_save(NULL);
    kit_work(&k);
    expect_done(1);
    ck_assert_uint_eq(welcome_boot(3, PSD__MODE__ASYNC, &clock), BOOT);
    kit_finish(&k);
}
END_TEST

START_TEST(a_crash_before_the_save_still_waits_for_one)
{
    uint64_t clock;

    start_durable();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_crash(&k);
    kit_work(&k);
    expect_busy(2);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    restore_save(NULL);
    kit_work(&k);
    ck_assert_uint_eq(welcome_boot(3, PSD__MODE__ASYNC, &clock), BOOT);
    kit_observe(&k, 4);
    check_values(4, "train");
    kit_finish(&k);
}
END_TEST

START_TEST(a_save_that_runs_ends_first)
{
    start_durable();
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare(&k, 2, "a", 4, PS_SGD);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    ck_assert(!k.closed[2]);
    restore_save(NULL);
    kit_work(&k);
    kit_expect_closed(&k, 2, PS_ERR_BUSY);
    restore_save(NULL);
    kit_work(&k);
    expect_done(1);
    check_values(1, "train");
    kit_finish(&k);
}
END_TEST

START_TEST(no_save_holds_half_of_a_checkpoint)
{
    start_durable();
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    restore_work(3);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_ptr_null(k.save);
    kit_work(&k);
    restore_save(NULL);
    kit_work(&k);
    expect_done(1);
    kit_finish(&k);
}
END_TEST

/* After a power loss nothing would show that it is a half. */
START_TEST(no_save_holds_what_a_source_that_failed_has_left)
{
    Psd__Save ask_save = PSD__SAVE__INIT;

    start_durable();
    fail_at = 4;
    restore_give(restore_source("", PSD__MODE__ASYNC), 1);
    kit_work(&k);
    kit_expect_error(&k, 1, 9, PS_ERR_IO);
    fail_at = 0;
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_ptr_null(k.save);
    ck_assert(shard_is_half_restored(k.shard));
    kit_frame(&k, 1, MSG_SAVE, 10, &ask_save.base, NULL, 0);
    kit_expect_error(&k, 1, 10, PS_ERR_BUSY);
    kit_crash(&k);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    ck_assert_ptr_null(k.save);
    kit_observe(&k, 2);
    restore_give(restore_source("", PSD__MODE__ASYNC), 2);
    kit_work(&k);
    restore_save(NULL);
    kit_work(&k);
    expect_done(2);
    kit_finish(&k);
}
END_TEST

static Suite *
restore_make(void)
{
    Suite *suite = suite_create("restore");
    TCase *tc = tcase_create("restore");

    tcase_add_test(tc, an_empty_shard_becomes_what_the_checkpoint_was);
    tcase_add_test(tc, clocks_are_reported_as_the_checkpoint_has_them);
    tcase_add_test(tc, it_may_get_another_name);
    tcase_add_test(tc, a_job_that_is_there_gets_its_values_and_everybody_goes);
    tcase_add_loop_test(tc, an_answer_of_before_does_not_go_out_with_values_of_after, 0, 9);
    tcase_add_test(tc, it_comes_again_under_the_other_name);
    tcase_add_test(tc, settings_fit_as_they_were_declared_or_as_they_were_then);
    tcase_add_test(tc, what_does_not_fit_changes_nothing);
    tcase_add_test(tc, a_shard_without_room_says_so_before_anything_happens);
    tcase_add_test(tc, a_check_changes_nothing);
    tcase_add_test(tc, what_nobody_waits_for_any_more_is_not_begun);
    tcase_add_test(tc, the_glue_is_asked_for_the_files);
    tcase_add_test(tc, nobody_trains_on_half_of_a_model);
    tcase_add_test(tc, who_lost_its_connection_asks_again_and_hears_the_end);
    tcase_add_loop_test(tc, a_crash_in_the_middle_is_mended_by_the_next_start, 0, 7);
    tcase_add_test(tc, a_shard_that_cannot_tell_whether_it_was_restored_does_not_start);
    tcase_add_test(tc, a_source_that_fails_leaves_a_shard_that_waits_for_another);
    tcase_add_loop_test(tc, a_store_that_fails_is_tried_again, 0, 14);
    tcase_add_test(tc, it_is_done_when_a_save_has_it);
    tcase_add_test(tc, a_crash_before_the_save_still_waits_for_one);
    tcase_add_test(tc, a_save_that_runs_ends_first);
    tcase_add_test(tc, no_save_holds_half_of_a_checkpoint);
    tcase_add_test(tc, no_save_holds_what_a_source_that_failed_has_left);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(restore_make)
