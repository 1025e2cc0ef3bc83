/* Power loss: the redo log replayed over a save gives the logged state, bit by bit; workers are told which of their
 * pushes are there; and a damaged log is an error with a sentence. */
#include "tests/unit/kits/shard_kit.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/journal/redo_record.h"
#include "server/core/store/value_sum.h"
#include "tests/unit/kits/power_kit.h"

static struct kit k;
static struct power_disk disk;
static Psd__Job job;
static bool job_ages; /* its pushes carry the version that they were computed from */

static void
replay_begin(Psd__Mode mode, uint32_t workers)
{
    disk_finish(&disk);
    disk = (struct power_disk){0};
    kit_init(&k, &kit_durable_config);
    job = *kit_job("j", mode, workers);
}

/* All its workers have joined, and the disk has a save of their variable. */
static uint32_t
begin_saved(Psd__Mode mode, uint32_t workers)
{
    uint32_t var;

    replay_begin(mode, workers);
    var = kit_start(&k, &job);
    disk_save(&disk, &k);
    return var;
}

static void
replay_finish(void)
{
    kit_finish(&k);
    disk_finish(&disk);
}

static void
replay_push(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g, bool durable)
{
    float gradient[4] = {g, g, g, g};

    kit_push(
        &k, conn,
        &(struct kit_push){.seq = seq, .clock = clock, .var = var, .gradient = gradient, .len = 4, .durable = durable});
}

/* The disk has everything. */
static void
sync_disk(void)
{
    disk_take(&disk, &k, k.redo);
    kit_durable(&k, k.redo);
}

static void
sync_and_lose_power(void)
{
    sync_disk();
    power_loss(&disk, &k, 78);
}

/* And a schedule that begins now, or the constant one. */
static void
set_schedule(uint64_t conn, bool moves, double rate)
{
    const struct ps_schedule linear = {.kind = PS_SCHEDULE_LINEAR, .steps = 8}, none = {0};
    Psd__Set m = PSD__SET__INIT;
    Psd__Schedule schedule;
    Psd__Parameter p = PSD__PARAMETER__INIT, *list[] = {&p};

    p.name = (char *)"learning_rate";
    p.value = rate;
    m.job = job.name;
    m.variables = (char *)"*";
    m.n_parameter = 1;
    m.parameter = list;
    wire_schedule_message(moves ? &linear : &none, &schedule);
    m.schedule = &schedule;
    m.begin_now = true;
    kit_frame(&k, conn, MSG_SET, 500, &m.base, NULL, 0);
    kit_expected(&k, conn, MSG_SET_DONE);
}

static void
set_rate(uint64_t conn, double rate)
{
    set_schedule(conn, false, rate);
}

/* The report to a worker that resumes. */
struct replay_reported {
    uint64_t last_seq, clock, pushes, survived_boot;
    uint64_t survived_from;
    uint8_t bits[64];
    size_t len;
    uint64_t odd_seq[WIRE_ODD_MAX], odd_lost;
    uint32_t odd_code[WIRE_ODD_MAX];
    size_t outcomes_len;
};

static struct replay_reported
replay_resume(uint64_t conn, uint32_t task)
{
    struct replay_reported t = {0};
    struct kit_answer *a;
    const Psd__Welcome *w;

    kit_hello(&k, conn, &(struct kit_hello){.job = &job, .task = task, .resume = true});
    a = kit_expect(&k, conn, MSG_WELCOME);
    w = a->msg.u.welcome;
    t.last_seq = w->last_seq;
    t.clock = w->clock;
    t.pushes = w->pushes;
    t.survived_boot = w->survived_boot;
    t.survived_from = w->survived_from;
    t.len = w->survived.len;
    ck_assert_uint_le(t.len, sizeof t.bits);
    if (t.len > 0)
        memcpy(t.bits, w->survived.data, t.len);
    t.outcomes_len = w->n_odd_seq;
    t.odd_lost = w->odd_lost;
    for (size_t i = 0; i < t.outcomes_len; i++) {
        t.odd_seq[i] = w->odd_seq[i];
        t.odd_code[i] = w->odd_code[i];
    }
    kit_answer_free(a);
    return t;
}

static bool
replay_survived(const struct replay_reported *t, uint64_t seq)
{
    uint64_t at = seq - t->survived_from;

    return seq >= t->survived_from && at / 8 < t->len && (t->bits[at / 8] >> at % 8 & 1) != 0;
}

/* A survivor's outcome. */
static enum ps_err
replay_outcome(const struct replay_reported *t, uint64_t seq)
{
    ck_assert(replay_survived(t, seq));
    for (size_t i = 0; i < t->outcomes_len; i++)
        if (t->odd_seq[i] == seq)
            return (enum ps_err)t->odd_code[i];
    return seq <= t->odd_lost ? PS_ERR_UNKNOWN_OUTCOME : PS_OK;
}

/* ---- What comes back ---- */

START_TEST(durable_pushes_survive_and_others_do_not)
{
    struct replay_reported t;
    uint32_t var;

    replay_begin(PSD__MODE__ASYNC, 1);
    var = kit_start(&k, &job);
    replay_push(1, 1, 0, var, 1, false);
    disk_save(&disk, &k);
    replay_push(1, 2, 0, var, 10, false);
    replay_push(1, 3, 0, var, 100, true);
    replay_push(1, 4, 0, var, 1000, false);
    sync_and_lose_power();
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.last_seq, 1);
    ck_assert_uint_eq(t.pushes, 2);
    ck_assert_uint_eq(t.survived_boot, 77);
    ck_assert(!replay_survived(&t, 1) && !replay_survived(&t, 2) && replay_survived(&t, 3) && !replay_survived(&t, 4));
    ck_assert(kit_value_four(&k, 1, var, 2) == -101);
    replay_finish();
}
END_TEST

/* A step's push, whose data ends here, and the tick that takes its metrics along: all steps before it and this one. */
static void
whole_step(uint32_t var, uint64_t step, bool durable)
{
    float gradient[4] = {1, 1, 1, 1};
    uint64_t from[2] = {0, 10 * (step - 1)}, end[2] = {0, 10 * step};
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;
    double sums[] = {(double)step, 0.5 * (double)step};

    kit_push(&k, 1,
             &(struct kit_push){.seq = 2 * step - 1,
                                .clock = step - 1,
                                .var = var,
                                .gradient = gradient,
                                .len = 4,
                                .durable = durable,
                                .cursor = end,
                                .cursor_from = from});
    at.position = end[1];
    m.seq = 2 * step;
    m.clock = step;
    m.cursor = &at;
    m.metrics = &metrics;
    metrics.n_value = ARRAY_LEN(sums);
    metrics.value = sums;
    metrics.at = &at;
    kit_frame(&k, 1, MSG_TICK, 600, &m.base, NULL, 0);
}

/* Another process takes the worker's place: both its data and its metrics go on there. */
static void
successor_is_told(uint64_t steps)
{
    struct kit_answer *a;
    const Psd__Welcome *w;

    kit_hello(&k, 2, &(struct kit_hello){.job = &job, .incarnation = 99});
    a = kit_expect(&k, 2, MSG_WELCOME);
    w = a->msg.u.welcome;
    ck_assert_uint_eq(w->cursor != NULL ? w->cursor->position : 0, 10 * steps);
    ck_assert_uint_eq(w->metrics != NULL ? w->metrics->at->position : 0, 10 * steps);
    ck_assert(w->metrics == NULL ? steps == 0
                                 : w->metrics->n_value == 2 && w->metrics->value[0] == (double)steps &&
                                       w->metrics->value[1] == 0.5 * (double)steps);
    kit_answer_free(a);
}

/* The last step's tick is in no log: that step is done again, by the process that takes over. */
START_TEST(what_durable_steps_have_summed_up_survives)
{
    uint32_t var = begin_saved(PSD__MODE__ASYNC, 1);

    for (uint64_t step = 1; step <= 4; step++)
        whole_step(var, step, true);
    sync_and_lose_power();
    successor_is_told(3);
    replay_finish();
}
END_TEST

START_TEST(what_other_steps_have_summed_up_goes_with_them)
{
    uint32_t var;

    replay_begin(PSD__MODE__ASYNC, 1);
    var = kit_start(&k, &job);
    whole_step(var, 1, false);
    whole_step(var, 2, false);
    disk_save(&disk, &k);
    whole_step(var, 3, false);
    whole_step(var, 4, false);
    sync_and_lose_power();
    successor_is_told(2);
    replay_finish();
}
END_TEST

START_TEST(survivors_are_forgotten_when_the_worker_goes_on)
{
    struct replay_reported t;
    uint32_t var = begin_saved(PSD__MODE__ASYNC, 1);

    replay_push(1, 1, 0, var, 1, false);
    replay_push(1, 2, 0, var, 10, true);
    sync_and_lose_power();
    t = replay_resume(1, 0);
    ck_assert(replay_survived(&t, 2));
    kit_close(&k, 1);
    t = replay_resume(2, 0); /* the first welcome was lost */
    ck_assert(replay_survived(&t, 2));
    kit_drop_answers(&k, 2);
    replay_push(2, 1, 0, var, 1, false);
    kit_ack(&k, 2, 1, PS_OK);
    kit_close(&k, 2);
    kit_crash(&k);
    t = replay_resume(3, 0);
    ck_assert_uint_eq(t.last_seq, 1);
    ck_assert_uint_eq(t.len, 0);
    ck_assert_uint_eq(t.pushes, 2);
    ck_assert(kit_value_four(&k, 3, var, 2) == -11);
    replay_finish();
}
END_TEST

/* Old numbers and new ones are in one log when the save is older than the first power loss. */
START_TEST(a_second_power_loss_tells_the_newer_numbers)
{
    struct replay_reported t;
    uint32_t var = begin_saved(PSD__MODE__ASYNC, 1);

    replay_push(1, 1, 0, var, 1, false);
    replay_push(1, 2, 0, var, 10, true);
    replay_push(1, 3, 0, var, 100, true);
    sync_and_lose_power();
    t = replay_resume(1, 0);
    ck_assert(!replay_survived(&t, 1) && replay_survived(&t, 2) && replay_survived(&t, 3));
    replay_push(1, 1, 0, var, 1000, true); /* formerly number 4 */
    sync_disk();
    kit_ack(&k, 1, 1, PS_OK);
    replay_push(1, 2, 0, var, 10000, false);
    power_loss(&disk, &k, 79);
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.survived_boot, 78);
    ck_assert(replay_survived(&t, 1) && !replay_survived(&t, 2) && !replay_survived(&t, 3));
    ck_assert_uint_eq(t.last_seq, 0);
    ck_assert_uint_eq(t.pushes, 3);
    ck_assert(kit_value_four(&k, 1, var, 3) == -1110);
    replay_finish();
}
END_TEST

START_TEST(what_was_resolved_ahead_of_a_barrier_survives_with_the_save)
{
    struct replay_reported t;
    uint32_t var;

    replay_begin(PSD__MODE__ASYNC, 2);
    var = kit_start(&k, &job);
    kit_barrier(&k, 1, 1, "b");
    replay_push(1, 2, 0, var, 1, false);
    kit_tick(&k, 1, 3, 1);
    replay_push(1, 4, 1, var, 10, false);
    kit_cancel(&k, 1, kit_barrier(&k, 1, 5, "c")); /* its outcome is odd, and it is no push */
    disk_save(&disk, &k);
    power_loss(&disk, &k, 78);
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.last_seq, 0);
    ck_assert_uint_eq(t.pushes, 2);
    ck_assert(replay_survived(&t, 2) && replay_survived(&t, 4) && !replay_survived(&t, 1) && !replay_survived(&t, 5));
    ck_assert_uint_eq(t.clock, 1);
    /* The messages with these numbers are new. */
    replay_push(1, 1, 1, var, 100, false);
    kit_ack(&k, 1, 1, PS_OK);
    replay_push(1, 2, 1, var, 1000, false);
    kit_ack(&k, 1, 2, PS_OK);
    kit_ticked(&k, 1, 3, 2);
    ck_assert(kit_value_four(&k, 1, var, 4) == -1111);
    replay_finish();
}
END_TEST

/* Two blocks of four elements in one push; the first is computed from version 0, the other from the newest. */
static void
push_two(uint64_t conn, uint64_t seq, const uint32_t var[2], bool durable)
{
    float gradient[8] = {1, 1, 1, 1, 1, 1, 1, 1}, out[4];
    uint64_t from[2] = {0};
    uint32_t both[2] = {var[0], var[1]}, block[2] = {0, 0};
    Psd__Push m = PSD__PUSH__INIT;

    kit_drop_answers(&k, conn);
    from[1] = kit_read(&k, conn, var[1], 0, out, 4);
    m.seq = seq;
    m.n_var = m.n_block = 2;
    m.n_from_version = job_ages ? 2 : 0;
    m.var = both;
    m.block = block;
    m.from_version = from;
    m.durable = durable;
    kit_push_many(&k, conn, &m, gradient, 8);
}

/* All workers join and the first declares two variables. */
static void
start_two(uint32_t var[2])
{
    for (uint32_t i = 0; i < job.workers; i++)
        kit_join(&k, 1 + i, &job, i);
    var[0] = kit_declare(&k, 1, "a", 4, PS_SGD);
    var[1] = kit_declare(&k, 1, "b", 4, PS_SGD);
}

/* The first of two variables has grown too old for pushes that were computed from its version 0. */
static void
begin_ages(uint32_t workers, uint32_t var[2])
{
    replay_begin(PSD__MODE__ASYNC, workers);
    job.age->kind = PSD__AGE_KIND__AGE_CUTOFF;
    job.age->parameter = 1;
    job_ages = true;
    start_two(var);
    replay_push(1, 1, 0, var[0], 1, false);
    replay_push(1, 2, 0, var[0], 1, false);
}

START_TEST(a_survivor_of_which_a_block_was_dropped_says_so)
{
    struct replay_reported t;
    uint32_t var[2];

    begin_ages(1, var);
    disk_save(&disk, &k);
    push_two(1, 3, var, true);
    replay_push(1, 4, 0, var[1], 1, true);
    replay_push(1, 5, 0, var[1], 1, false);
    sync_disk();
    power_loss(&disk, &k, 78);
    for (uint64_t conn = 1; conn <= 2; conn++) { /* a process that starts again knows it, too */
        t = replay_resume(conn, 0);
        ck_assert_uint_eq(t.pushes, 4);
        ck_assert_int_eq(replay_outcome(&t, 3), PS_ERR_STALE);
        ck_assert_int_eq(replay_outcome(&t, 4), PS_OK);
        ck_assert(!replay_survived(&t, 5));
        kit_close(&k, conn);
        kit_crash(&k);
    }
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.len, 1);
    /* The numbers after last_seq are other messages' from now on. */
    for (int again = 0; again < 2; again++) {
        replay_push(1, 3, 0, var[1], 1, false);
        kit_ack(&k, 1, 3, PS_OK);
    }
    ck_assert(kit_value_four(&k, 1, var[1], 3) == -3);
    replay_finish();
}
END_TEST

/* Which of the oldest were dropped is forgotten, and reported as unknown. */
START_TEST(of_too_many_survivors_that_were_dropped_in_part_the_oldest_are_unknown)
{
    enum { MANY = SHARD_OUTCOMES_MAX + 3 };
    struct replay_reported t;
    uint32_t var[2];

    begin_ages(1, var);
    disk_save(&disk, &k);
    for (uint64_t seq = 3; seq < 3 + MANY; seq++)
        push_two(1, seq, var, true);
    sync_and_lose_power();
    t = replay_resume(1, 0);
    for (uint64_t seq = 3; seq < 3 + MANY; seq++)
        ck_assert_int_eq(replay_outcome(&t, seq), seq < 6 ? PS_ERR_UNKNOWN_OUTCOME : PS_ERR_STALE);
    for (int again = 0; again < 2; again++) { /* its outcome is known */
        replay_push(1, 3, 0, var[1], 1, false);
        kit_ack(&k, 1, 3, PS_OK);
    }
    replay_finish();
}
END_TEST

/* One of its blocks was updated, and would be once more. */
START_TEST(what_was_dropped_in_part_ahead_of_a_barrier_does_not_come_again)
{
    struct replay_reported t;
    uint32_t var[2];

    begin_ages(2, var);
    kit_barrier(&k, 1, 3, "b");
    push_two(1, 4, var, false);
    kit_push(&k, 1, &(struct kit_push){.seq = 5, .var = var[1], .gradient = (float[3]){0}, .len = 3});
    disk_save(&disk, &k);
    power_loss(&disk, &k, 78);
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.last_seq, 2);
    ck_assert_uint_eq(t.pushes, 4);
    ck_assert_int_eq(replay_outcome(&t, 4), PS_ERR_STALE);
    ck_assert_int_eq(replay_outcome(&t, 5), PS_ERR_SHAPE);
    replay_finish();
}
END_TEST

/* A worker may push two variables and get the second one's answer first. */
static void
replay_overtake(uint32_t var[2])
{
    job_ages = false;
    start_two(var);
    replay_push(1, 1, 0, var[0], 1, false);
    replay_push(1, 2, 0, var[1], 1, false);
    replay_push(2, 1, 0, var[1], 1, false);
    kit_ack(&k, 1, 2, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
}

START_TEST(in_sync_what_was_resolved_ahead_of_what_waits_survives_with_the_save)
{
    struct replay_reported t;
    uint32_t var[2];

    replay_begin(PSD__MODE__SYNC, 2);
    replay_overtake(var);
    disk_save(&disk, &k);
    power_loss(&disk, &k, 78);
    t = replay_resume(1, 0);
    ck_assert_uint_eq(t.last_seq, 0);
    ck_assert_uint_eq(t.pushes, 1);
    ck_assert_int_eq(replay_outcome(&t, 2), PS_OK);
    replay_push(1, 1, 0, var[0], 1, false);
    t = replay_resume(2, 1);
    ck_assert_uint_eq(t.last_seq, 1);
    replay_push(2, 2, 0, var[0], 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 2, PS_OK);
    ck_assert(kit_value_four(&k, 1, var[0], 1) == -1);
    ck_assert(kit_value_four(&k, 1, var[1], 1) == -1);
    replay_finish();
}
END_TEST

/* In k of n a block does not show which workers' gradients its step had. */
START_TEST(in_sync_what_was_resolved_ahead_of_what_waits_is_known_after_a_crash)
{
    struct replay_reported t;
    uint32_t var[2];

    replay_begin(PSD__MODE__SYNC, 3);
    job.quorum = 2;
    replay_overtake(var);
    for (uint64_t i = 0; i < 2; i++) {
        kit_crash(&k);
        t = replay_resume(1, 0);
        ck_assert_uint_eq(t.last_seq, 0);
        ck_assert_uint_eq(t.pushes, 1);
        ck_assert_uint_eq(t.len, 0);
        replay_push(1, 1, 0, var[0], 1, false);
        replay_push(1, 2, 0, var[1], 1, false);
        kit_ack(&k, 1, 2, PS_OK);
    }
    kit_resume(&k, 2, &job, 1, 0);
    replay_push(2, 2, 0, var[0], 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    kit_close(&k, 1);
    t = replay_resume(4, 0);
    ck_assert_uint_eq(t.last_seq, 2);
    ck_assert_uint_eq(t.pushes, 2);
    replay_finish();
}
END_TEST

/* One block came too late for its step, the other is in a step that is on disk. */
START_TEST(in_sync_a_survivor_of_which_a_block_was_late_says_so)
{
    struct replay_reported t;
    uint32_t var[2];

    replay_begin(PSD__MODE__SYNC, 3);
    job.quorum = 2;
    job_ages = false;
    start_two(var);
    disk_save(&disk, &k);
    replay_push(1, 1, 0, var[0], 1, false);
    replay_push(2, 1, 0, var[0], 1, false);
    push_two(3, 1, var, true);
    replay_push(3, 2, 0, var[0], 1, true); /* nothing of it is there */
    kit_ack(&k, 3, 2, PS_ERR_LATE);
    replay_push(1, 2, 0, var[1], 1, false);
    sync_and_lose_power();
    t = replay_resume(3, 2);
    ck_assert_uint_eq(t.pushes, 1);
    ck_assert_int_eq(replay_outcome(&t, 1), PS_ERR_LATE);
    ck_assert(!replay_survived(&t, 2));
    ck_assert(kit_value_four(&k, 3, var[1], 1) == -1);
    replay_finish();
}
END_TEST

START_TEST(a_set_and_a_declare_are_replayed_in_their_place)
{
    float *gradient = calloc(65536, sizeof *gradient);
    uint64_t live;
    uint32_t var, other;

    replay_begin(PSD__MODE__ASYNC, 1);
    kit_join(&k, 1, &job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_ADAM);
    disk_save(&disk, &k);
    replay_push(1, 1, 0, var, 1, true);
    sync_disk();
    kit_drop_answers(&k, 1);
    set_rate(1, 0.25);
    replay_push(1, 2, 0, var, 1, true);
    other = kit_declare(&k, 1, "v", 100000, PS_MOMENTUM);
    replay_push(1, 3, 0, var, 3, true);
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = other, .gradient = gradient, .len = 8192, .durable = true});
    free(gradient);
    sync_disk();
    kit_drop_answers(&k, 1);
    set_schedule(1, true, 0.125); /* which begins at version 3 */
    replay_push(1, 5, 0, var, 1, true);
    replay_push(1, 6, 0, var, 1, true);
    sync_disk();
    live = blocks_hash(k.store);
    ck_assert_uint_gt(power_loss(&disk, &k, 78), 5);
    kit_work(&k);
    ck_assert_uint_eq(blocks_hash(k.store), live);
    replay_finish();
}
END_TEST

START_TEST(who_joined_and_who_left_is_in_the_log)
{
    struct replay_reported t;
    uint32_t var;

    replay_begin(PSD__MODE__ASYNC, 2);
    kit_join(&k, 1, &job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    disk_save(&disk, &k);
    kit_join(&k, 2, &job, 1);
    replay_push(2, 1, 0, var, 1, true);
    kit_goodbye(&k, 1, true);
    kit_hello(&k, 3, &(struct kit_hello){.job = &job, .task = 0, .incarnation = 5555});
    kit_drop_answers(&k, 3);
    replay_push(3, 1, 0, var, 10, true);
    replay_push(3, 2, 0, var, 100, false);
    sync_and_lose_power();
    t = replay_resume(2, 1);
    ck_assert(replay_survived(&t, 1));
    kit_hello(&k, 3, &(struct kit_hello){.job = &job, .task = 0, .resume = true});
    kit_expect_closed(&k, 3, PS_ERR_FENCED); /* the first incarnation */
    kit_hello(&k, 4, &(struct kit_hello){.job = &job, .task = 0, .incarnation = 5555, .resume = true});
    kit_expected(&k, 4, MSG_WELCOME);
    ck_assert(kit_value_four(&k, 4, var, 2) == -11);
    replay_finish();
}
END_TEST

START_TEST(in_sync_a_step_survives_whole)
{
    struct replay_reported a, b;
    uint32_t var = begin_saved(PSD__MODE__SYNC, 2);

    replay_push(1, 1, 0, var, 2, true);
    replay_push(2, 1, 0, var, 4, false);
    sync_disk();
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    kit_ticked(&k, 2, 2, 1);
    kit_ticked(&k, 1, 2, 1);
    replay_push(1, 3, 1, var, 10, false);
    replay_push(2, 3, 1, var, 10, false);
    power_loss(&disk, &k, 78);
    a = replay_resume(1, 0);
    b = replay_resume(2, 1);
    ck_assert(replay_survived(&a, 1) && replay_survived(&b, 1));
    ck_assert_uint_eq(a.pushes, 1);
    ck_assert_uint_eq(b.pushes, 1);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
    /* Both go on: the step after it. */
    kit_ticked(&k, 1, 1, 1);
    kit_ticked(&k, 2, 1, 1);
    replay_push(1, 2, 1, var, 10, true);
    replay_push(2, 2, 1, var, 10, true);
    kit_durable_ack(&k, 1, 2);
    kit_ack(&k, 2, 2, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -13);
    replay_finish();
}
END_TEST

/* ---- Any workload ---- */

enum { VARS = 3, WORKERS = 3 };

struct pushed {
    uint64_t seq;
    uint32_t var;
    bool durable;
    uint64_t next; /* piece after it */
};

struct replay_worker {
    uint64_t conn, seq, clock;
    struct pushed *pushes; /* of the numbering that holds */
    size_t pushes_len;
};

struct replay_world {
    struct test_rng rng;
    uint64_t next_conn;
    uint32_t vars[VARS];
    uint64_t declared;
    struct replay_worker workers[WORKERS];
};

static const enum ps_optimizer_kind kinds[VARS] = {PS_ADAM, PS_MOMENTUM, PS_ADAGRAD};

static uint64_t
replay_elements(uint32_t i)
{
    return i == 0 ? 5 : i == 1 ? 20000 : 1500;
}

static void
declare_next(struct replay_world *w)
{
    static const char *const names[VARS] = {"a", "b", "c"};
    uint32_t i = (uint32_t)w->declared++;

    w->vars[i] = kit_declare(&k, w->workers[0].conn, names[i], replay_elements(i), kinds[i]);
}

/* One block of a random variable; in sync all workers push it, in random order. */
static void
random_push(struct replay_world *w, struct replay_worker *x, uint32_t i, uint32_t block, bool durable)
{
    struct layout l;
    struct ps_optimizer o = kit_optimizer(kinds[i]);
    uint32_t len;
    float *gradient;

    layout_init(&l, replay_elements(i), optimizer_slots(&o));
    len = layout_block(&l, block).len;
    gradient = malloc(len * sizeof *gradient);
    for (uint32_t j = 0; j < len; j++)
        gradient[j] = test_float(&w->rng);
    kit_push(&k, x->conn,
             &(struct kit_push){.seq = ++x->seq,
                                .clock = x->clock,
                                .var = w->vars[i],
                                .block = block,
                                .gradient = gradient,
                                .len = len,
                                .durable = durable});
    free(gradient);
}

static uint32_t
random_block(struct replay_world *w, uint32_t i)
{
    struct layout l;
    struct ps_optimizer o = kit_optimizer(kinds[i]);

    layout_init(&l, replay_elements(i), optimizer_slots(&o));
    return (uint32_t)test_below(&w->rng, l.blocks);
}

static void
replay_tick(struct replay_worker *x)
{
    kit_tick(&k, x->conn, ++x->seq, ++x->clock);
}

static void
drop_all(struct replay_world *w)
{
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++)
        kit_drop_answers(&k, conn);
    (void)w;
}

static void
random_act(struct replay_world *w, Psd__Mode mode)
{
    struct replay_worker *x = &w->workers[test_below(&w->rng, WORKERS)];
    uint32_t i = (uint32_t)test_below(&w->rng, w->declared);
    uint32_t block = random_block(w, i);

    switch (test_below(&w->rng, 16)) {
    case 0:
        set_schedule(w->workers[0].conn, test_below(&w->rng, 2) == 0, (double)(1 + test_below(&w->rng, 8)) / 8);
        break;
    case 1:
        if (w->declared < VARS)
            declare_next(w);
        break;
    case 2:
    case 3:
    case 4:
        if (mode == PSD__MODE__SYNC)
            for (uint32_t j = 0; j < WORKERS; j++)
                replay_tick(&w->workers[j]);
        else
            replay_tick(x);
        break;
    case 5:
        disk_take(&disk, &k, k.redo);
        kit_durable(&k, k.redo);
        kit_work(&k);
        break;
    default:
        if (mode == PSD__MODE__SYNC)
            for (uint32_t j = 0, first = (uint32_t)test_below(&w->rng, WORKERS); j < WORKERS; j++)
                random_push(w, &w->workers[(first + j) % WORKERS], i, block, true);
        else
            random_push(w, x, i, block, true);
        break;
    }
    drop_all(w);
}

static void
world_begin(struct replay_world *w, Psd__Mode mode)
{
    *w = (struct replay_world){.rng = {test_seed() + (uint64_t)mode}, .next_conn = 1};
    replay_begin(mode, WORKERS);
    job.bound = 100;
    for (uint32_t j = 0; j < WORKERS; j++) {
        w->workers[j].conn = w->next_conn++;
        kit_join(&k, w->workers[j].conn, &job, j);
    }
    declare_next(w);
}

/* Workers come back, and act like a client: number from last_seq, catch up with their clock. */
static void
world_resume(struct replay_world *w)
{
    for (uint32_t j = 0; j < WORKERS; j++) {
        struct replay_worker *x = &w->workers[j];
        struct replay_reported t;

        x->conn = 1 + j;
        t = replay_resume(x->conn, j);
        x->seq = t.last_seq;
        if (t.clock < x->clock)
            kit_tick(&k, x->conn, ++x->seq, x->clock);
    }
    drop_all(w);
}

START_TEST(all_durable_comes_back_bit_by_bit)
{
    static const Psd__Mode modes[] = {PSD__MODE__ASYNC, PSD__MODE__SSP, PSD__MODE__SYNC};
    struct replay_world w;
    uint64_t records = 0;

    world_begin(&w, modes[_i]);
    disk_save(&disk, &k);
    for (uint64_t boot = 100; boot < 106; boot++) {
        uint64_t acts = 20 + test_below(&w.rng, 60), live;

        for (uint64_t i = 0; i < acts; i++) {
            random_act(&w, modes[_i]);
            if (test_below(&w.rng, 40) == 0)
                disk_save(&disk, &k);
        }
        disk_take(&disk, &k, k.redo);
        kit_work(&k);
        live = blocks_hash(k.store);
        records += power_loss(&disk, &k, boot);
        kit_work(&k);
        ck_assert_uint_eq(blocks_hash(k.store), live);
        world_resume(&w);
    }
    ck_assert_uint_gt(records, 50);
    replay_finish();
}
END_TEST

/* Workers push ones, to one variable by plain SGD, so that its value says how many pushes it has. The client's side of
 * it: pushes that are neither acknowledged nor there are sent again, under new numbers. */
static uint32_t counter;

static void
note_acks(struct replay_world *w, struct replay_worker *x, bool *acked)
{
    struct kit_answer *a;

    (void)w;
    while ((a = kit_take(&k, x->conn)) != NULL) {
        for (size_t i = 0; a->msg.type == MSG_ACK && i < a->msg.u.ack->n_seq; i++)
            acked[a->msg.u.ack->seq[i]] = true;
        kit_answer_free(a);
    }
}

/* Durable pushes since the save, of whatever numbering, by the piece after each. */
struct after {
    uint64_t pieces[4096];
    size_t len;
};

static void
replay_lose(struct after *a, uint64_t next)
{
    while (a->len > 0 && a->pieces[a->len - 1] > next)
        a->len--;
}

START_TEST(nothing_acknowledged_as_durable_is_lost_and_nothing_counts_twice)
{
    enum { ROUNDS = 40, PUSHES = 30 };
    static struct after after;
    struct replay_world w = {.rng = {test_seed()}};
    struct replay_worker *x = &w.workers[0];
    uint64_t saved = 0, live = 0, numbered = 77;

    replay_begin(PSD__MODE__ASYNC, 1);
    kit_join(&k, 1, &job, 0);
    x->conn = 1;
    counter = kit_declare(&k, 1, "n", 4, PS_SGD);
    disk_save(&disk, &k);
    for (uint64_t boot = 100; boot < 100 + ROUNDS; boot++) {
        bool acked[PUSHES * ROUNDS] = {0}, durable[PUSHES * ROUNDS] = {0};
        uint64_t first = x->seq + 1, version;
        struct replay_reported t;
        float out[4];

        for (uint64_t i = test_below(&w.rng, PUSHES); i > 0; i--) {
            durable[++x->seq] = test_below(&w.rng, 2) == 0;
            replay_push(1, x->seq, 0, counter, 1, durable[x->seq]);
            live++;
            numbered = k.config.boot;
            if (durable[x->seq])
                after.pieces[after.len++] = k.redo;
            switch (test_below(&w.rng, 8)) {
            case 0:
                disk_save(&disk, &k);
                first = x->seq + 1;
                saved = live;
                after.len = 0;
                break;
            case 1:
            case 2:
                disk_take(&disk, &k, MAX(disk.next, 1) + test_below(&w.rng, k.redo - MIN(disk.next, k.redo) + 1));
                kit_durable(&k, disk.next);
                break;
            default:
                break;
            }
            note_acks(&w, x, acked);
        }
        power_loss(&disk, &k, boot);
        replay_lose(&after, disk.next);
        live = saved + after.len;
        t = replay_resume(1, 0);
        ck_assert_uint_eq(t.last_seq, first - 1);
        for (uint64_t seq = first; seq <= x->seq; seq++) {
            bool there = t.survived_boot == numbered && replay_survived(&t, seq);

            ck_assert(!there || durable[seq]);
            ck_assert_msg(!durable[seq] || !acked[seq] || there, "acknowledged as durable, and lost");
        }
        ck_assert_uint_eq(t.pushes, live);
        version = kit_read(&k, 1, counter, 0, out, 4);
        ck_assert_uint_eq(version, live);
        ck_assert(out[0] == -(float)live);
        x->seq = t.last_seq;
    }
    ck_assert_uint_gt(live, 20);
    replay_finish();
}
END_TEST

/* Two workers in sync; now and then one of them wants its push durable, and then the step is. Afterwards the steps with
 * such a push that are on disk are there, whole. */
START_TEST(in_sync_the_steps_that_hold_a_durable_push_survive)
{
    static struct after after;
    struct test_rng rng = {test_seed()};
    uint64_t saved = 0, live = 0, seq[2] = {0}, clock[2] = {0};
    uint32_t var;

    after.len = 0;
    var = begin_saved(PSD__MODE__SYNC, 2);
    for (uint64_t boot = 100; boot < 130; boot++) {
        struct replay_reported t[2];

        for (uint64_t i = test_below(&rng, 12); i > 0; i--) {
            bool durable[2] = {test_below(&rng, 4) == 0, test_below(&rng, 4) == 0};
            uint32_t first = (uint32_t)test_below(&rng, 2);

            for (uint32_t j = 0; j < 2; j++)
                replay_push(1 + (first ^ j), ++seq[first ^ j], clock[first ^ j], var, 1, durable[first ^ j]);
            live++;
            if (durable[0] || durable[1])
                after.pieces[after.len++] = k.redo;
            for (uint32_t j = 0; j < 2; j++)
                kit_tick(&k, 1 + j, ++seq[j], ++clock[j]);
            if (test_below(&rng, 8) == 0) {
                disk_save(&disk, &k);
                saved = live;
                after.len = 0;
            }
            if (test_below(&rng, 3) == 0) {
                disk_take(&disk, &k, MAX(disk.next, 1) + test_below(&rng, k.redo - MIN(disk.next, k.redo) + 1));
                kit_durable(&k, disk.next);
            }
        }
        power_loss(&disk, &k, boot);
        replay_lose(&after, disk.next);
        live = saved + after.len;
        for (uint32_t j = 0; j < 2; j++)
            t[j] = replay_resume(1 + j, j);
        ck_assert_uint_eq(t[0].pushes, live);
        ck_assert_uint_eq(t[1].pushes, live);
        ck_assert(kit_value_four(&k, 1, var, live) == -(float)live);
        for (uint32_t j = 0; j < 2; j++) {
            seq[j] = t[j].last_seq;
            if (t[j].clock < clock[j])
                kit_tick(&k, 1 + j, ++seq[j], clock[j]);
        }
        kit_drop_answers(&k, 1);
        kit_drop_answers(&k, 2);
    }
    ck_assert_uint_gt(live, 10);
    replay_finish();
}
END_TEST

/* A replay that fails reports it, and a second attempt gives the result of the first. */
START_TEST(the_nth_failure_of_the_store_ends_a_replay_and_no_more)
{
    struct ps_error e;
    unsigned failed = 0;

    for (int what = 0; what < STORE_MEM_FAILS; what++)
        for (uint64_t nth = 1; nth < 12; nth++) {
            uint64_t live;
            uint32_t var;
            enum ps_err err;

            replay_begin(PSD__MODE__ASYNC, 1);
            kit_join(&k, 1, &job, 0);
            var = kit_declare(&k, 1, "w", 4, PS_ADAM);
            disk_save(&disk, &k);
            for (uint64_t seq = 1; seq <= 5; seq++) {
                replay_push(1, seq, 0, var, 1, true);
                sync_disk();
                kit_drop_answers(&k, 1);
                set_rate(1, 1.0 / (double)seq);
            }
            sync_disk();
            live = blocks_hash(k.store);
            disk.fail = (enum store_mem_fail)what;
            disk.fail_nth = nth;
            err = power_loss_error(&disk, &k, 78, &e);
            disk.fail_nth = 0;
            if (err != PS_OK) {
                failed++;
                ck_assert_uint_gt(strlen(e.text), 10);
                power_loss(&disk, &k, 79);
            } else {
                store_mem_fail_at(k.store, (enum store_mem_fail)what, 0);
            }
            ck_assert_uint_eq(blocks_hash(k.store), live);
            replay_finish();
        }
    ck_assert_uint_gt(failed, 10);
}
END_TEST

/* ---- Damage ---- */

static void
make_log(void)
{
    uint32_t var, large;

    replay_begin(PSD__MODE__ASYNC, 1);
    var = kit_start(&k, &job);
    large = kit_declare(&k, 1, "v", 2000, PS_SGD);
    disk_save(&disk, &k);
    replay_push(1, 1, 0, var, 1, true);
    set_rate(1, 0.5);
    for (uint64_t seq = 2; seq <= 3; seq++) {
        float *gradient = calloc(1008, sizeof *gradient);

        kit_push(&k, 1,
                 &(struct kit_push){.seq = seq, .var = large, .gradient = gradient, .len = 1008, .durable = true});
        free(gradient);
    }
    replay_push(1, 4, 0, var, 1, true);
    sync_disk();
    ck_assert_uint_gt(disk.pieces_len, 4);
}

static struct redo_head *
head_of(size_t i)
{
    return (struct redo_head *)disk.pieces[i].bytes;
}

/* Finishes the kit after a log was refused. */
static void
drop_shardless(void)
{
    k.store->ops->close(k.store);
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++)
        kit_drop_answers(&k, conn);
}

static void
expect_refused(enum ps_err code)
{
    struct ps_error e = {0};

    ck_assert_int_eq(power_loss_error(&disk, &k, 78, &e), code);
    ck_assert_uint_gt(strlen(e.text), 20);
    drop_shardless();
}

START_TEST(a_record_that_is_cut_short_is_refused)
{
    size_t of_two = 0;

    make_log();
    for (size_t i = 0; i < disk.pieces_len; i++)
        if (head_of(i)->pieces > 1)
            of_two = i;
    ck_assert_uint_gt(of_two, 0);
    for (; disk.pieces_len > of_two; disk.pieces_len--)
        free(disk.pieces[disk.pieces_len - 1].bytes);
    ck_assert_uint_gt(head_of(disk.pieces_len - 1)->pieces, 1);
    expect_refused(PS_ERR_IO);
    disk_finish(&disk);
}
END_TEST

START_TEST(pieces_out_of_order_are_refused)
{
    struct disk_bytes x;

    make_log();
    x = disk.pieces[1];
    disk.pieces[1] = disk.pieces[2];
    disk.pieces[2] = x;
    expect_refused(PS_ERR_IO);
    disk_finish(&disk);
}
END_TEST

START_TEST(another_format_is_refused_as_such)
{
    make_log();
    head_of(0)->format = REDO_FORMAT_ASSIGNS + 1;
    expect_refused(PS_ERR_VERSION);
    disk_finish(&disk);
}
END_TEST

/* As the saver writes them. */
static void
sum_pieces(void)
{
    for (size_t i = 0; i < disk.pieces_len; i++) {
        head_of(i)->format |= REDO_SUMMED;
        value_sum_put(&disk.pieces[i].key, disk.pieces[i].bytes, disk.pieces[i].len);
    }
}

START_TEST(pieces_with_their_checksums_are_replayed)
{
    struct ps_error e = {0};

    make_log();
    sum_pieces();
    ck_assert_msg(power_loss_error(&disk, &k, 78, &e) == PS_OK, "%s", e.text);
    disk_finish(&disk);
    kit_finish(&k);
}
END_TEST

/* Bits of the head, of metadata, of gradients, of what lies behind the record. */
START_TEST(a_piece_with_a_flipped_bit_is_refused)
{
    static const size_t places[] = {0, 9, 20, 30, 45, 60, 2000, 4079};
    struct ps_error e = {0};
    char says[96];

    make_log();
    sum_pieces();
    disk.pieces[1].bytes[places[_i]] ^= 4;
    snprintf(says, sizeof says, "the redo log is damaged: piece %" PRIu64 " does not have its checksum",
             store_redo_number(&disk.pieces[1].key));
    ck_assert_int_eq(power_loss_error(&disk, &k, 78, &e), PS_ERR_IO);
    ck_assert_str_eq(e.text, says);
    drop_shardless();
    disk_finish(&disk);
}
END_TEST

START_TEST(heads_that_cannot_be_are_refused)
{
    make_log();
    switch (_i) {
    case 0:
        head_of(1)->len = UINT32_MAX;
        break;
    case 1:
        head_of(1)->payload_len = UINT64_MAX - 8;
        break;
    case 2:
        head_of(1)->meta_len = UINT32_MAX;
        break;
    case 3:
        head_of(1)->piece = head_of(1)->pieces;
        break;
    case 4:
        head_of(1)->len = 0;
        break;
    case 5:
        head_of(1)->payload_len += 4;
        break;
    case 6:
        head_of(1)->pieces++;
        break;
    case 7:
        disk.pieces[1].len = 20;
        break;
    }
    expect_refused(PS_ERR_IO);
    disk_finish(&disk);
}
END_TEST

/* Any byte of the metadata changed: an error or not, but no crash. Run under ASan and UBSan this says more. */
START_TEST(damaged_metadata_never_crashes)
{
    struct test_rng rng = {test_seed()};
    unsigned refused = 0;

    for (int i = 0; i < 200; i++) {
        struct ps_error e = {0};
        size_t piece;
        struct redo_head *head;
        enum ps_err err;

        make_log();
        piece = test_below(&rng, disk.pieces_len);
        head = head_of(piece);
        if (head->piece > 0)
            head = head_of(--piece);
        for (uint64_t n = 1 + test_below(&rng, 3); n > 0; n--)
            disk.pieces[piece].bytes[sizeof *head + test_below(&rng, MIN(head->meta_len, head->len))] ^=
                (uint8_t)(1u << test_below(&rng, 8));
        err = power_loss_error(&disk, &k, 78, &e);
        if (err != PS_OK) {
            refused++;
            ck_assert_uint_gt(strlen(e.text), 10);
            drop_shardless();
        } else {
            kit_finish(&k);
        }
    }
    ck_assert_uint_gt(refused, 50);
    disk_finish(&disk);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("replay");
    TCase *tc = tcase_create("replay");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, durable_pushes_survive_and_others_do_not);
    tcase_add_test(tc, what_durable_steps_have_summed_up_survives);
    tcase_add_test(tc, what_other_steps_have_summed_up_goes_with_them);
    tcase_add_test(tc, survivors_are_forgotten_when_the_worker_goes_on);
    tcase_add_test(tc, a_second_power_loss_tells_the_newer_numbers);
    tcase_add_test(tc, what_was_resolved_ahead_of_a_barrier_survives_with_the_save);
    tcase_add_test(tc, a_survivor_of_which_a_block_was_dropped_says_so);
    tcase_add_test(tc, of_too_many_survivors_that_were_dropped_in_part_the_oldest_are_unknown);
    tcase_add_test(tc, what_was_dropped_in_part_ahead_of_a_barrier_does_not_come_again);
    tcase_add_test(tc, in_sync_what_was_resolved_ahead_of_what_waits_survives_with_the_save);
    tcase_add_test(tc, in_sync_what_was_resolved_ahead_of_what_waits_is_known_after_a_crash);
    tcase_add_test(tc, in_sync_a_survivor_of_which_a_block_was_late_says_so);
    tcase_add_test(tc, a_set_and_a_declare_are_replayed_in_their_place);
    tcase_add_test(tc, who_joined_and_who_left_is_in_the_log);
    tcase_add_test(tc, in_sync_a_step_survives_whole);
    tcase_add_loop_test(tc, all_durable_comes_back_bit_by_bit, 0, 3);
    tcase_add_test(tc, nothing_acknowledged_as_durable_is_lost_and_nothing_counts_twice);
    tcase_add_test(tc, in_sync_the_steps_that_hold_a_durable_push_survive);
    tcase_add_test(tc, the_nth_failure_of_the_store_ends_a_replay_and_no_more);
    tcase_add_test(tc, a_record_that_is_cut_short_is_refused);
    tcase_add_test(tc, pieces_out_of_order_are_refused);
    tcase_add_test(tc, another_format_is_refused_as_such);
    tcase_add_test(tc, pieces_with_their_checksums_are_replayed);
    tcase_add_loop_test(tc, a_piece_with_a_flipped_bit_is_refused, 0, 8);
    tcase_add_loop_test(tc, heads_that_cannot_be_are_refused, 0, 8);
    tcase_add_test(tc, damaged_metadata_never_crashes);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
