/* Drops where a job has assigns: values that wait for blocks go with these, whatever state their assign is in; who
 * waits is answered; and what is left of the assign goes on. */
#include <string.h>

#include "server/core/shard_state.h"
#include "tests/unit/kits/assign_kit.h"
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#define WATCHER 9 /* the administrator's connection */
#define READER  10

#define BEGIN   PSD__ASSIGN_STEP__BEGIN
#define COMMIT  PSD__ASSIGN_STEP__COMMIT
#define PREPARE PSD__ASSIGN_STEP__PREPARE

#define MANY 80 /* variables with values that wait: more than one go erases */

static struct power_disk disk;
static Psd__Job job;
static uint32_t w, v; /* of four elements, all 0 */

static void
assigned_start(const struct shard_config *config, Psd__Mode mode)
{
    disk = (struct power_disk){0};
    kit_init(&k, config);
    kit_observe(&k, WATCHER);
    job = *kit_job("train", mode, 2);
    w = kit_start(&k, &job);
    v = kit_declare(&k, 1, "v", 4, PS_SGD);
}

static void
assigned_setup(void)
{
    assigned_start(NULL, PSD__MODE__SYNC);
}

static void
assigned_setup_durable(void)
{
    assigned_start(&kit_durable_config, PSD__MODE__SYNC);
}

static void
assigned_teardown(void)
{
    kit_finish(&k);
    disk_finish(&disk);
}

/* The disk has everything; answers that waited for that are left to be taken. */
static void
assigned_sync(void)
{
    kit_turn(&k);
    disk_take(&disk, &k, k.redo);
    kit_durable(&k, k.redo);
}

/* ---- Dropping ---- */

static void
assigned_ask(const char *variables)
{
    Psd__Drop m = PSD__DROP__INIT;

    m.job = (char *)"train";
    m.variables = (char *)variables;
    m.force = true;
    kit_frame(&k, WATCHER, MSG_DROP, ++k.next_request, &m.base, NULL, 0);
}

static void
assigned_drop(const char *variables)
{
    assigned_ask(variables);
    kit_work(&k);
    kit_answer_free(kit_expect(&k, WATCHER, MSG_DROPPED));
    for (uint64_t conn = 1; conn <= 2; conn++)
        kit_drop_answers(&k, conn);
}

static bool
assigned_count(void *arg, const struct store_key *key, struct span value)
{
    uint64_t *n = arg;

    (void)value;
    *n += key->generation != STORE_GENERATION_REDO;
    return true;
}

/* Values of blocks and values that wait for them. */
static uint64_t
assigned_values(void)
{
    uint64_t n = 0;

    ck_assert_int_eq(k.store->ops->each_block(k.store, assigned_count, &n), PS_OK);
    return n;
}

/* Both workers come as new processes. */
static void
assigned_come_again(void)
{
    static uint64_t incarnation = 1 << 20;

    for (uint32_t task = 0; task < 2; task++) {
        kit_hello(&k, task + 1, &(struct kit_hello){.job = &job, .task = task, .incarnation = ++incarnation});
        kit_answer_free(kit_expect(&k, task + 1, MSG_WELCOME));
    }
    for (uint64_t conn = 1; conn <= 2; conn++)
        kit_drop_answers(&k, conn);
}

/* An assign of w and v, of this clock. */
static struct kit_assign
assigned_of_clock(uint64_t clock)
{
    struct kit_assign a = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_stage_four(&k, 1, &a, v, 6);
    a.clock = clock;
    assign_commit_ok(&k, 1, &a, 2);
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 2);
    return a;
}

/* ---- Jobs ---- */

/* An assign of w and v, up to this state: 0 its values are there; 1 done, and blocks wait for its clock; 2 done, and
 * nothing was looked at since; 3 all blocks have taken theirs, which are not erased; 4 another one waits behind it. */
static void
assigned_reach(int state)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_stage_four(&k, 1, &a, v, 6);
    a.clock = state == 1 ? 5 : 0;
    if (state >= 1 && state <= 3)
        assign_commit_ok(&k, 1, &a, 2);
    if (state == 1)
        kit_work(&k);
    if (state == 3)
        kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
    if (state == 4) {
        (void)assign_send(&k, 2, BEGIN, &b, 0);
        kit_expect_nothing(&k, 2);
    }
    ck_assert_uint_eq(assign_kit_staged(&k), 2);
}

START_TEST(values_that_wait_go_with_their_job)
{
    assigned_reach(_i);
    assigned_ask("");
    if (k.shard->jobs == NULL)
        kit_work(&k);
    kit_expect_closed(&k, 1, PS_ERR_DROPPED);
    kit_expect_closed(&k, 2, PS_ERR_DROPPED);
    ck_assert_uint_eq(assigned_values(), 0);
    kit_crash(&k);
    kit_work(&k);
    ck_assert_uint_eq(assigned_values(), 0);
    /* The next job of the name knows nothing of it. */
    w = kit_start(&k, &job);
    (void)assign_four(&k, 2, 1, w, 8);
    ck_assert(kit_value_four(&k, 1, w, 1) == 8);
}
END_TEST

START_TEST(a_kill_at_any_moment_leaves_no_value_that_waits)
{
    bool whole = true;

    for (int works = 0; whole; works++) {
        struct kit_assign a = {.attempt = 1};

        assign_begin_ok(&k, 1, &a);
        a.clock = 5;
        for (int i = 0; i < MANY; i++) {
            char name[16];

            snprintf(name, sizeof name, "many%d", i);
            assign_stage_four(&k, 1, &a, kit_declare(&k, 1, name, 4, PS_SGD), 5);
        }
        assign_commit_ok(&k, 1, &a, MANY);
        assigned_ask("");
        for (int i = 0; i < works && shard_busy(k.shard); i++)
            kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
        whole = shard_busy(k.shard);
        kit_crash(&k);
        ck_assert_ptr_null(k.shard->jobs);
        kit_work(&k);
        ck_assert_uint_eq(assigned_values(), 0);
        kit_observe(&k, WATCHER);
        w = kit_start(&k, &job);
        v = kit_declare(&k, 1, "v", 4, PS_SGD);
    }
}
END_TEST

/* ---- Variables ---- */

/* v is dropped while the assign's blocks wait for clock 1; w takes its value when it comes there. */
START_TEST(an_assign_goes_on_for_the_variables_that_are_left)
{
    (void)assigned_of_clock(1);
    assigned_drop("v");
    ck_assert_uint_eq(assign_kit_staged(&k), 1);
    if (_i == 1) {
        kit_crash(&k);
        kit_work(&k);
        ck_assert_uint_eq(assign_kit_staged(&k), 1);
    }
    assigned_come_again();
    kit_step(&k, 2, 1, 0, w, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 1, w, 2) == 5);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        ck_assert_int_eq(k.shard->jobs->assigns.slot[i].state, ASSIGN_FREE);
}
END_TEST

/* All that an assign has values for is dropped: it is over, and others get its slot. */
START_TEST(an_assign_of_dropped_variables_alone_is_over)
{
    for (uint64_t i = 0; i < 2 * ASSIGN_SLOTS; i++) {
        struct kit_assign a = {.attempt = 1};

        assign_begin_ok(&k, 1, &a);
        assign_stage_four(&k, 1, &a, v, 6);
        a.clock = 50;
        assign_commit_ok(&k, 1, &a, 1);
        ck_assert_uint_eq(assign_kit_staged(&k), 1);
        assigned_drop("v");
        kit_work(&k);
        ck_assert_uint_eq(assign_kit_staged(&k), 0);
        assigned_come_again();
        v = kit_declare(&k, 1, "v", 4, PS_SGD);
    }
}
END_TEST

/* The worker that gives values is ended by the drop, and with it what it has not finished. */
START_TEST(an_assign_under_way_ends_with_its_worker)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_stage_four(&k, 1, &a, v, 6);
    assigned_drop("v");
    assigned_come_again();
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    assign_begin_ok(&k, 2, &b);
    assign_stage_four(&k, 2, &b, w, 7);
    assign_commit_ok(&k, 2, &b, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 1, w, 1) == 7);
}
END_TEST

START_TEST(first_values_that_were_given_to_a_dropped_variable_are_those_of_none)
{
    struct kit_assign a = {.attempt = 1, .first = true};
    Psd__Attach attach = PSD__ATTACH__INIT;
    uint32_t given;
    bool awaits;

    assign_declare(&k, 1, 70, "given", true);
    given = assign_declared(&k, 1, 70, &awaits);
    ck_assert(awaits);
    kit_observe(&k, READER);
    attach.job = (char *)"train";
    attach.name = (char *)"given";
    kit_frame(&k, READER, MSG_ATTACH, 71, &attach.base, NULL, 0);
    kit_expect_nothing(&k, READER); /* it waits for them */
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, given, 6);
    assigned_ask("given");
    kit_work(&k);
    kit_answer_free(kit_expect(&k, WATCHER, MSG_DROPPED));
    kit_expect_error(&k, READER, 71, PS_ERR_DROPPED);
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    assigned_come_again();
    assign_declare(&k, 2, 72, "given", true);
    ck_assert_uint_ne(assign_declared(&k, 2, 72, &awaits), given);
    ck_assert(awaits);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* ---- Pulls ---- */

/* A reader waits for values of an assign that its block is to take at a later clock. */
START_TEST(a_pull_that_waits_for_an_assign_is_told)
{
    struct kit_assign a = assigned_of_clock(5);
    uint64_t request;

    kit_observe(&k, READER);
    request = assign_pull(&k, READER, v, 0, a.number, a.number);
    kit_work(&k);
    kit_expect_nothing(&k, READER);
    assigned_drop(_i == 0 ? "" : "v");
    kit_expect_error(&k, READER, request, PS_ERR_DROPPED);
    ck_assert(!k.closed[READER]);
}
END_TEST

/* ---- The disk ---- */

/* Sends the steps of an assign of both, whose answers wait for the disk. */
static void
assigned_durably(uint64_t clock)
{
    struct kit_assign a = {.attempt = 1};
    const float five[4] = {5, 5, 5, 5}, six[4] = {6, 6, 6, 6};

    assign_begin_ok(&k, 1, &a);
    (void)assign_send_stage(&k, 1, &a, w, 0, five, 4);
    (void)assign_send_stage(&k, 1, &a, v, 0, six, 4);
    a.clock = clock;
    (void)assign_send(&k, 1, COMMIT, &a, 2);
    assigned_sync();
    kit_drop_answers(&k, 1);
}

START_TEST(a_drop_behind_an_assign_in_the_log_is_replayed)
{
    static uint64_t boot = 78;

    disk_save(&disk, &k);
    assigned_durably(1);
    assigned_drop(_i == 0 ? "" : "v");
    assigned_sync();
    (void)power_loss(&disk, &k, boot++);
    kit_work(&k);
    if (_i == 0) {
        ck_assert_ptr_null(k.shard->jobs);
        ck_assert_uint_eq(assigned_values(), 0);
        return;
    }
    ck_assert_uint_eq(assign_kit_staged(&k), 1);
    assigned_come_again();
    kit_step(&k, 2, 1, 0, w, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 1, w, 2) == 5);
}
END_TEST

/* A drop comes while a save logs values that waited at its instant: before the first, or behind all. */
START_TEST(a_save_that_logs_values_goes_on_without_the_dropped_ones)
{
    struct shard_save_block blocks[8];
    size_t n;

    assigned_durably(1);
    disk_save(&disk, &k);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    kit_turn(&k);
    ck_assert_ptr_nonnull(k.save);
    if (_i % 2 == 1)
        kit_work(&k);
    assigned_drop(_i < 2 ? "v" : "");
    kit_work(&k);
    assigned_sync();
    while ((n = shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks))) > 0)
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    kit_turn(&k);
    ck_assert(k.save_closing);
    kit_save_ended(&k, 1, 0, NULL);
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), _i < 2 ? 1 : 0);
    (void)power_loss(&disk, &k, 90);
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), _i < 2 ? 1 : 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("drop_assigned");
    TCase *t = tcase_create("memory"), *d = tcase_create("disk");

    tcase_add_checked_fixture(t, assigned_setup, assigned_teardown);
    tcase_add_loop_test(t, values_that_wait_go_with_their_job, 0, 5);
    tcase_add_test(t, a_kill_at_any_moment_leaves_no_value_that_waits);
    tcase_add_loop_test(t, an_assign_goes_on_for_the_variables_that_are_left, 0, 2);
    tcase_add_test(t, an_assign_of_dropped_variables_alone_is_over);
    tcase_add_test(t, an_assign_under_way_ends_with_its_worker);
    tcase_add_test(t, first_values_that_were_given_to_a_dropped_variable_are_those_of_none);
    tcase_add_loop_test(t, a_pull_that_waits_for_an_assign_is_told, 0, 2);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(d, assigned_setup_durable, assigned_teardown);
    tcase_add_loop_test(d, a_drop_behind_an_assign_in_the_log_is_replayed, 0, 2);
    tcase_add_loop_test(d, a_save_that_logs_values_goes_on_without_the_dropped_ones, 0, 4);
    suite_add_tcase(s, d);
    return s;
}

CHECK_MAIN(make_suite)
