/* Exactly-once data: which steps of a worker index are counted in which block, across incarnations, kills, power losses
 * and rounds. Variables are trained by plain SGD with ones, so that a value says how many steps it has. */
#include "tests/unit/kits/shard_kit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/power_kit.h"

static struct kit k;
static struct power_disk disk;
static Psd__Job job;
static uint64_t incarnation;

static void
data_cursor_begin(Psd__Mode mode, uint32_t workers)
{
    disk_finish(&disk);
    disk = (struct power_disk){0};
    kit_init(&k, &kit_durable_config);
    job = *kit_job("j", mode, workers);
    incarnation = 5000;
}

static void
data_cursor_finish(void)
{
    kit_finish(&k);
    disk_finish(&disk);
}

static struct began {
    uint64_t clock, others;
} began; /* as the last welcome of a new process said */

/* A new process takes the worker index over; where its data goes on. */
static uint64_t
take_over(uint64_t conn, uint32_t task)
{
    const Psd__Begins *begins;
    struct kit_answer *a;
    uint64_t position;

    for (uint64_t old = 1; old < KIT_CONNS; old++)
        if (k.open[old] && old != conn && old % 8 == task + 1)
            kit_close(&k, old);
    kit_hello(&k, conn, &(struct kit_hello){.job = &job, .task = task, .incarnation = ++incarnation});
    a = kit_expect(&k, conn, MSG_WELCOME);
    position = a->msg.u.welcome->cursor != NULL ? a->msg.u.welcome->cursor->position : 0;
    begins = a->msg.u.welcome->begins;
    ck_assert_ptr_nonnull(begins);
    began = (struct began){begins->clock, begins->others != NULL ? begins->others->position : 0};
    kit_answer_free(a);
    for (uint64_t other = 0; other < KIT_CONNS; other++)
        kit_drop_answers(&k, other); /* they are notified that it is back */
    return position;
}

/* One step's push: data from `from` to `to`. */
static void
data_cursor_push(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, uint64_t from, uint64_t to, bool durable)
{
    float gradient[4] = {1, 1, 1, 1};

    kit_push(&k, conn,
             &(struct kit_push){.seq = seq,
                                .clock = clock,
                                .var = var,
                                .gradient = gradient,
                                .len = 4,
                                .cursor = (uint64_t[]){0, to},
                                .cursor_from = (uint64_t[]){0, from},
                                .durable = durable});
}

static void
data_cursor_ticked(uint64_t conn, uint64_t seq, uint64_t clock, uint64_t position)
{
    kit_tick_at(&k, conn, seq, clock, position);
    kit_ack(&k, conn, seq, PS_OK);
}

static uint64_t
data_cursor_steps(uint64_t conn, uint32_t var)
{
    float out[4];
    uint64_t version;

    kit_drop_answers(&k, conn);
    version = kit_read(&k, conn, var, 0, out, 4);
    ck_assert(out[0] == -(float)version);
    return version;
}

/* Its answer is OK at once. */
static void
data_cursor_pushed(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, uint64_t from, uint64_t to)
{
    data_cursor_push(conn, seq, clock, var, from, to, false);
    kit_ack(&k, conn, seq, PS_OK);
}

/* All workers have come, worker t on connection t + 1, and the first has declared as many variables. */
static void
begin_training(Psd__Mode mode, uint32_t workers, uint32_t vars, uint32_t *var)
{
    static const char *const names[] = {"a", "b", "c", "d"};

    data_cursor_begin(mode, workers);
    for (uint32_t task = 0; task < workers; task++)
        ck_assert_uint_eq(take_over(task + 1, task), 0);
    for (uint32_t i = 0; i < vars; i++)
        var[i] = kit_declare(&k, 1, names[i], 4, PS_SGD);
}

START_TEST(who_takes_over_skips_what_is_counted)
{
    uint32_t var[2];

    begin_training(PSD__MODE__ASYNC, 1, 2, var);
    data_cursor_pushed(1, 1, 0, var[0], 0, 10);
    ck_assert_uint_eq(take_over(9, 0), 0); /* the step was not finished */
    data_cursor_pushed(9, 1, 0, var[0], 0, 10);
    data_cursor_pushed(9, 2, 0, var[1], 0, 10);
    ck_assert_uint_eq(data_cursor_steps(9, var[0]), 1);
    ck_assert_uint_eq(data_cursor_steps(9, var[1]), 1);
    data_cursor_ticked(9, 3, 1, 10);
    ck_assert_uint_eq(take_over(17, 0), 10);
    data_cursor_pushed(17, 1, 1, var[0], 0, 10); /* a shard that had ticked, when another had not */
    data_cursor_pushed(17, 2, 1, var[0], 10, 20);
    ck_assert_uint_eq(data_cursor_steps(17, var[0]), 2);
    ck_assert_uint_eq(data_cursor_steps(17, var[1]), 1);
    data_cursor_finish();
}
END_TEST

START_TEST(a_kill_of_the_shard_forgets_nothing)
{
    uint32_t var[2];

    begin_training(PSD__MODE__ASYNC, 1, 2, var);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false);
    kit_crash(&k);
    ck_assert_uint_eq(take_over(1, 0), 0);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false);
    data_cursor_push(1, 2, 0, var[1], 0, 10, false);
    kit_tick_at(&k, 1, 3, 1, 10);
    kit_crash(&k);
    ck_assert_uint_eq(take_over(1, 0), 10);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 1);
    ck_assert_uint_eq(data_cursor_steps(1, var[1]), 1);
    data_cursor_finish();
}
END_TEST

/* A push of the worker's earlier life waits for the step; its next life cuts its data differently. */
START_TEST(in_sync_a_gradient_of_other_data_does_not_stand_for_that_of_a_push)
{
    uint32_t a;

    begin_training(PSD__MODE__SYNC, 2, 1, &a);
    kit_push(&k, 1,
             &(struct kit_push){
                 .seq = 1, .var = a, .gradient = (float[]){9, 9, 9, 9}, .len = 4, .cursor = (uint64_t[]){0, 10}});
    ck_assert_uint_eq(take_over(9, 0), 0);
    data_cursor_push(9, 1, 0, a, 0, 5, false);
    data_cursor_push(2, 1, 0, a, 0, 3, false);
    kit_ack(&k, 9, 1, PS_OK);
    ck_assert_uint_eq(data_cursor_steps(9, a), 1); /* of ones */
    data_cursor_finish();
}
END_TEST

START_TEST(of_a_push_of_many_blocks_those_that_wait_are_updated)
{
    Psd__Push m = PSD__PUSH__INIT;
    Psd__Cursor cursor = PSD__CURSOR__INIT;
    float gradient[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t vars[3], blocks[3] = {0};

    begin_training(PSD__MODE__ASYNC, 1, 3, vars);
    data_cursor_push(1, 1, 0, vars[1], 0, 10, false);
    take_over(9, 0);
    cursor.position = 10;
    m.seq = 1;
    m.cursor = &cursor;
    m.n_var = m.n_block = 3;
    m.var = vars;
    m.block = blocks;
    kit_push_many(&k, 9, &m, gradient, 12);
    kit_ack(&k, 9, 1, PS_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(data_cursor_steps(9, vars[i]), 1);
    data_cursor_finish();
}
END_TEST

START_TEST(a_step_that_is_cut_differently_is_refused)
{
    uint32_t a;

    begin_training(PSD__MODE__ASYNC, 1, 1, &a);
    data_cursor_pushed(1, 1, 0, a, 0, 10);
    take_over(9, 0);
    data_cursor_push(9, 1, 0, a, 0, 5, false);
    kit_ack(&k, 9, 1, PS_ERR_INVALID);
    data_cursor_push(9, 2, 0, a, 0, 15, false);
    kit_ack(&k, 9, 2, PS_ERR_INVALID);
    data_cursor_pushed(9, 3, 0, a, 0, 10);
    data_cursor_ticked(9, 4, 1, 10);
    data_cursor_push(9, 5, 1, a, 5, 15, false);
    kit_ack(&k, 9, 5, PS_ERR_INVALID);
    data_cursor_pushed(9, 6, 1, a, 10, 15);
    ck_assert_uint_eq(data_cursor_steps(9, a), 2);
    data_cursor_finish();
}
END_TEST

START_TEST(a_shard_that_got_no_push_hears_of_a_step_by_its_tick)
{
    data_cursor_begin(PSD__MODE__ASYNC, 1);
    take_over(1, 0);
    kit_tick_at(&k, 1, 1, 1, 10);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ticked(&k, 1, 2, 2); /* and none of one without data */
    kit_crash(&k);
    ck_assert_uint_eq(take_over(1, 0), 10);
    data_cursor_finish();
}
END_TEST

/* The process that takes over is behind on one shard, and catches up with the others' clock before it does anything. */
START_TEST(a_tick_that_only_catches_up_ends_no_step)
{
    uint32_t var[2];

    begin_training(PSD__MODE__ASYNC, 1, 2, var);
    data_cursor_pushed(1, 1, 0, var[0], 0, 10);
    ck_assert_uint_eq(take_over(9, 0), 0);
    kit_ticked(&k, 9, 1, 1);
    ck_assert_uint_eq(take_over(17, 0), 0);
    data_cursor_pushed(17, 1, 1, var[0], 0, 10);
    data_cursor_pushed(17, 2, 1, var[1], 0, 10);
    ck_assert_uint_eq(data_cursor_steps(17, var[0]), 1);
    ck_assert_uint_eq(data_cursor_steps(17, var[1]), 1);
    data_cursor_finish();
}
END_TEST

START_TEST(a_new_round_begins_from_nothing)
{
    uint32_t a;

    begin_training(PSD__MODE__ASYNC, 1, 1, &a);
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t clock = 2 * round;

        data_cursor_pushed(1, 1, clock, a, 0, 10);
        data_cursor_ticked(1, 2, clock + 1, 10);
        data_cursor_push(1, 3, clock + 1, a, 10, 20, false);
        kit_ack(&k, 1, 3, PS_OK);
        if (round == 1) /* with bits of the last step, or without */
            data_cursor_ticked(1, 4, clock + 2, 20);
        ck_assert_uint_eq(data_cursor_steps(1, a), 2 * (round + 1));
        if (round == 0) {
            kit_tick(&k, 1, 4, clock + 2);
            kit_drop_answers(&k, 1);
        }
        kit_goodbye(&k, 1, true);
        kit_turn(&k);
        if (round == 1)
            kit_crash(&k);
        ck_assert_uint_eq(take_over(1, 0), 0);
    }
    data_cursor_finish();
}
END_TEST

START_TEST(bits_of_a_round_before_are_not_those_of_this_one)
{
    uint32_t var[2];

    begin_training(PSD__MODE__ASYNC, 1, 2, var);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false);
    data_cursor_push(1, 2, 0, var[1], 0, 10, false);
    kit_goodbye(&k, 1, true);
    kit_turn(&k);
    take_over(1, 0);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false); /* the same numbers */
    kit_crash(&k);
    take_over(1, 0);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false);
    data_cursor_push(1, 2, 0, var[1], 0, 10, false);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 2);
    ck_assert_uint_eq(data_cursor_steps(1, var[1]), 2);
    data_cursor_finish();
}
END_TEST

START_TEST(in_sync_a_block_counts_a_step_when_its_update_is_done)
{
    uint32_t var[2];

    begin_training(PSD__MODE__SYNC, 2, 2, var);
    data_cursor_push(1, 1, 0, var[0], 0, 10, false);
    data_cursor_push(2, 1, 0, var[0], 0, 10, false);
    data_cursor_push(1, 2, 0, var[1], 0, 10, false); /* waits for the other worker */
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    kit_crash(&k);
    ck_assert_uint_eq(take_over(1, 0), 0);
    ck_assert_uint_eq(take_over(2, 1), 0);
    data_cursor_pushed(1, 1, 0, var[0], 0, 10);
    data_cursor_push(1, 2, 0, var[1], 0, 10, false);
    data_cursor_pushed(2, 1, 0, var[0], 0, 10);
    data_cursor_pushed(2, 2, 0, var[1], 0, 10);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 1);
    ck_assert_uint_eq(data_cursor_steps(1, var[1]), 1);
    kit_ticked(&k, 1, 3, 1);
    kit_ticked(&k, 2, 3, 1);
    data_cursor_push(1, 4, 1, var[0], 10, 20, false);
    data_cursor_push(2, 4, 1, var[0], 10, 20, false);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 2);
    ck_assert_uint_eq(take_over(9, 0), 10);
    data_cursor_finish();
}
END_TEST

START_TEST(in_sync_a_tick_that_overtakes_does_not_count)
{
    uint32_t a;

    begin_training(PSD__MODE__SYNC, 2, 1, &a);
    data_cursor_push(1, 1, 0, a, 0, 10, false);
    kit_tick(&k, 1, 2, 1);
    kit_drop_answers(&k, 1);
    kit_crash(&k);
    kit_hello(&k, 1, &(struct kit_hello){.job = &job, .task = 0, .incarnation = incarnation - 1, .resume = true});
    kit_expected(&k, 1, MSG_WELCOME);
    data_cursor_push(1, 1, 0, a, 0, 10, false);
    kit_tick(&k, 1, 2, 1);
    kit_drop_answers(&k, 1);
    take_over(2, 1);
    data_cursor_pushed(2, 1, 0, a, 0, 10);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert_uint_eq(data_cursor_steps(1, a), 1);
    data_cursor_finish();
}
END_TEST

/* The tick comes while the push waits, and its place counts with the push: also when the shard is killed between. */
START_TEST(in_sync_a_step_that_was_ticked_ends_with_its_last_push)
{
    uint32_t var[2];

    begin_training(PSD__MODE__SYNC, 2, 2, var);
    for (uint32_t i = 0; i < 2; i++)
        data_cursor_push(1, i + 1, 0, var[i], 0, 10, false);
    kit_tick_at(&k, 1, 3, 1, 10);
    kit_ack(&k, 1, 3, PS_OK);
    if (_i == 1) {
        kit_crash(&k);
        for (uint64_t conn = 1; conn <= 2; conn++) {
            kit_hello(
                &k, conn,
                &(struct kit_hello){
                    .job = &job, .task = (uint32_t)conn - 1, .incarnation = incarnation - 2 + conn, .resume = true});
            kit_expected(&k, conn, MSG_WELCOME);
        }
        for (uint32_t i = 0; i < 2; i++)
            data_cursor_push(1, i + 1, 0, var[i], 0, 10, false);
        kit_skip(&k, 1, 3); /* that was answered */
    }
    data_cursor_push(2, 1, 0, var[0], 0, 10, false);
    kit_drop_answers(&k, 2);
    if (_i == 2)
        ck_assert_uint_eq(take_over(9, 0), 0); /* the other push waits, and goes with the process */
    data_cursor_push(2, 2, 0, var[1], 0, 10, false);
    kit_drop_answers(&k, 2);
    ck_assert_uint_eq(take_over(17, 0), _i == 2 ? 0 : 10);
    if (_i == 2) { /* a barrier's end is no reason to count it */
        kit_barrier(&k, 17, 1, "b");
        kit_barrier(&k, 2, 3, "b");
        ck_assert_uint_eq(take_over(9, 0), 0);
    }
    data_cursor_finish();
}
END_TEST

/* What the first process of a worker index found when it joined holds for all in its place, until a round begins. */
START_TEST(where_a_worker_began_stays)
{
    uint32_t a;

    begin_training(PSD__MODE__ASYNC, 3, 1, &a);
    ck_assert(began.clock == 0 && began.others == 0);
    for (uint32_t task = 0; task < 2; task++) { /* the third one has died before its first step */
        data_cursor_push(task + 1, 1, 0, a, 0, 10 + task, false);
        kit_tick_at(&k, task + 1, 2, 1 + task, 10 + task);
    }
    kit_goodbye(&k, 3, false);
    kit_turn(&k);
    kit_pass(&k, k.config.grace_ms + 1); /* the others go on without it */
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    for (int times = 0; times < 2; times++) {
        ck_assert_uint_eq(take_over(11, 2), 0);
        ck_assert(began.clock == 0 && began.others == 0);
        kit_crash(&k);
    }
    data_cursor_finish();
}
END_TEST

START_TEST(a_late_worker_begins_where_the_slowest_of_the_others_is)
{
    uint32_t a;

    data_cursor_begin(PSD__MODE__ASYNC, 3);
    take_over(1, 0);
    take_over(2, 1);
    a = kit_declare(&k, 1, "a", 4, PS_SGD);
    data_cursor_pushed(1, 1, 0, a, 0, 20);
    data_cursor_ticked(1, 2, 3, 20);
    ck_assert_uint_eq(take_over(3, 2), 0);
    ck_assert(began.clock == 0 && began.others == 0); /* the second one has not done a step */
    data_cursor_pushed(2, 1, 0, a, 0, 10);
    data_cursor_ticked(2, 2, 1, 10);
    ck_assert_uint_eq(take_over(11, 2), 0);
    ck_assert(began.clock == 0 && began.others == 0); /* the first one's */
    kit_goodbye(&k, 11, true);
    kit_turn(&k);
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    ck_assert_uint_eq(take_over(3, 2), 0); /* it begins a round, with none of the others */
    ck_assert(began.clock == 1 && began.others == 0);
    data_cursor_finish();
}
END_TEST

/* Where no worker gets ahead before all have joined, one that joins last has missed nothing: the steps that the others
 * have done within the bound are its own, too. */
START_TEST(in_ssp_a_worker_that_joins_last_begins_at_the_clock_that_waits_for_it)
{
    uint32_t a;

    data_cursor_begin(PSD__MODE__SSP, 3);
    take_over(1, 0);
    take_over(2, 1);
    a = kit_declare(&k, 1, "a", 4, PS_SGD);
    for (uint32_t task = 0; task < 2; task++) {
        data_cursor_pushed(task + 1, 1, 0, a, 0, 10);
        data_cursor_ticked(task + 1, 2, 1, 10);
    }
    for (uint64_t conn = 3; conn <= 11; conn += 8) { /* and so does the process that takes its place */
        ck_assert_uint_eq(take_over(conn, 2), 0);
        ck_assert(began.clock == 0 && began.others == 0);
    }
    data_cursor_finish();
}
END_TEST

START_TEST(durable_steps_are_counted_after_a_power_loss)
{
    uint32_t var[2];

    begin_training(PSD__MODE__ASYNC, 1, 2, var);
    data_cursor_push(1, 1, 0, var[0], 0, 10, true);
    data_cursor_push(1, 2, 0, var[1], 0, 10, true);
    kit_tick_at(&k, 1, 3, 1, 10);
    disk_save(&disk, &k);
    data_cursor_push(1, 4, 1, var[0], 10, 20, true);
    data_cursor_push(1, 5, 1, var[1], 10, 20, true);
    kit_tick_at(&k, 1, 6, 2, 20);
    data_cursor_push(1, 7, 2, var[0], 20, 30, true);
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 78);
    ck_assert_uint_eq(take_over(1, 0), 20);
    data_cursor_pushed(1, 1, 2, var[0], 20, 30);
    data_cursor_pushed(1, 2, 2, var[1], 20, 30);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 3);
    ck_assert_uint_eq(data_cursor_steps(1, var[1]), 3);
    data_cursor_finish();
}
END_TEST

START_TEST(in_sync_durable_steps_are_counted_after_a_power_loss)
{
    uint32_t var[2];

    begin_training(PSD__MODE__SYNC, 2, 2, var);
    disk_save(&disk, &k);
    data_cursor_push(1, 1, 0, var[0], 0, 10, true);
    data_cursor_push(1, 2, 0, var[1], 0, 10, true);
    data_cursor_push(2, 1, 0, var[0], 0, 10, true);
    disk_take(&disk, &k, k.redo);
    data_cursor_push(2, 2, 0, var[1], 0, 10, true);
    power_loss(&disk, &k, 78);
    take_over(1, 0);
    take_over(2, 1);
    for (uint64_t conn = 1; conn <= 2; conn++)
        data_cursor_push(conn, 1, 0, var[0], 0, 10, false);
    for (uint64_t conn = 1; conn <= 2; conn++)
        data_cursor_push(conn, 2, 0, var[1], 0, 10, false);
    ck_assert_uint_eq(data_cursor_steps(1, var[0]), 1);
    ck_assert_uint_eq(data_cursor_steps(1, var[1]), 1);
    data_cursor_finish();
}
END_TEST

/* More blocks than a chunk has bits. */
START_TEST(many_blocks_take_many_chunks)
{
    enum { VARS = 530, EACH = 16 };
    static float ones[1008];
    uint64_t dims = EACH * 1008, seq = 0, round;
    uint32_t vars[VARS];
    char name[16];

    for (size_t i = 0; i < 1008; i++)
        ones[i] = 1;
    data_cursor_begin(PSD__MODE__ASYNC, 1);
    take_over(1, 0);
    for (uint32_t i = 0; i < VARS; i++) {
        snprintf(name, sizeof name, "v%u", i);
        vars[i] = kit_declare(&k, 1, name, dims, PS_SGD);
    }
    k.hold = true;
    for (round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < VARS; i++)
            for (uint32_t block = 0; block < EACH; block++) {
                if (round == 0 && (i * EACH + block) % 3 == 0)
                    continue; /* these are left for the next process */
                kit_push(&k, 1,
                         &(struct kit_push){.seq = ++seq,
                                            .var = vars[i],
                                            .block = block,
                                            .gradient = ones,
                                            .len = 1008,
                                            .cursor = (uint64_t[]){1, 10}});
            }
        kit_turn(&k);
        kit_crash(&k);
        k.hold = false;
        take_over(1, 0);
        k.hold = round == 0;
        seq = 0;
    }
    for (uint32_t i = 0; i < VARS; i += 7)
        for (uint32_t block = 0; block < EACH; block++) {
            float out[1008];

            ck_assert_uint_eq(kit_read(&k, 1, vars[i], block, out, 1008), 1);
        }
    data_cursor_finish();
}
END_TEST

/* Processes die at any point: workers, the shard, its power. Every variable counts every step once, as far as all
 * pushes are durable or nothing takes the power away. */
START_TEST(whatever_dies_every_step_counts_once)
{
    enum { VARS = 4, ENDS = 400 };
    bool durable = _i == 1;
    struct test_rng rng = {test_seed() + (uint64_t)_i};
    uint32_t vars[VARS];
    uint64_t at = 0, seq = 0, clock = 0, done = 0, next_var = 0, boot = 100;

    begin_training(PSD__MODE__ASYNC, 1, VARS, vars);
    disk_save(&disk, &k);
    for (int acts = 0; acts < ENDS; acts++) {
        struct kit_answer *a;
        bool dies = true;

        switch (test_below(&rng, 12)) {
        case 0: /* the worker */
            break;
        case 1: /* the shard, and the worker with it */
            kit_crash(&k);
            break;
        case 2:
            disk_take(&disk, &k, k.redo);
            if (durable)
                power_loss(&disk, &k, boot++);
            else
                disk_save(&disk, &k);
            dies = durable;
            break;
        default:
            dies = false;
            break;
        }
        if (dies) {
            kit_hello(&k, k.open[1] ? 2 : 1, &(struct kit_hello){.job = &job, .incarnation = 1}); /* refused, or in */
            for (uint64_t conn = 1; conn <= 2; conn++)
                if (k.open[conn])
                    kit_close(&k, conn);
            kit_hello(&k, 1, &(struct kit_hello){.job = &job, .incarnation = ++incarnation});
            a = kit_expect(&k, 1, MSG_WELCOME);
            at = a->msg.u.welcome->cursor != NULL ? a->msg.u.welcome->cursor->position : 0;
            clock = a->msg.u.welcome->clock;
            kit_answer_free(a);
            seq = next_var = 0;
            ck_assert(at == 10 * done || at == 10 * (done - 1)); /* the tick may be lost with the power */
            done = at / 10;
        } else if (next_var < VARS) {
            data_cursor_push(1, ++seq, clock, vars[next_var++], at, at + 10, durable);
        } else {
            at += 10;
            kit_tick_at(&k, 1, ++seq, ++clock, at);
            done++;
            next_var = 0;
        }
        kit_drop_answers(&k, 1);
    }
    for (; next_var < VARS; next_var++)
        data_cursor_push(1, ++seq, clock, vars[next_var], at, at + 10, durable);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i < VARS; i++)
        ck_assert_uint_eq(data_cursor_steps(1, vars[i]), done + 1);
    ck_assert_uint_gt(done, 5);
    data_cursor_finish();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("cursor");
    TCase *tc = tcase_create("cursor");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, who_takes_over_skips_what_is_counted);
    tcase_add_test(tc, a_kill_of_the_shard_forgets_nothing);
    tcase_add_test(tc, of_a_push_of_many_blocks_those_that_wait_are_updated);
    tcase_add_test(tc, a_step_that_is_cut_differently_is_refused);
    tcase_add_test(tc, a_shard_that_got_no_push_hears_of_a_step_by_its_tick);
    tcase_add_test(tc, a_tick_that_only_catches_up_ends_no_step);
    tcase_add_test(tc, a_new_round_begins_from_nothing);
    tcase_add_test(tc, bits_of_a_round_before_are_not_those_of_this_one);
    tcase_add_test(tc, in_sync_a_block_counts_a_step_when_its_update_is_done);
    tcase_add_test(tc, in_sync_a_tick_that_overtakes_does_not_count);
    tcase_add_loop_test(tc, in_sync_a_step_that_was_ticked_ends_with_its_last_push, 0, 3);
    tcase_add_test(tc, where_a_worker_began_stays);
    tcase_add_test(tc, a_late_worker_begins_where_the_slowest_of_the_others_is);
    tcase_add_test(tc, in_ssp_a_worker_that_joins_last_begins_at_the_clock_that_waits_for_it);
    tcase_add_test(tc, durable_steps_are_counted_after_a_power_loss);
    tcase_add_test(tc, in_sync_durable_steps_are_counted_after_a_power_loss);
    tcase_add_test(tc, in_sync_a_gradient_of_other_data_does_not_stand_for_that_of_a_push);
    tcase_add_test(tc, many_blocks_take_many_chunks);
    tcase_add_loop_test(tc, whatever_dies_every_step_counts_once, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
