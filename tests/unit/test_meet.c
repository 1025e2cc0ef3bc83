/* Meetings: who is let in, when it is enough, who is told what; and any crowd of comers and goers against a model. */
#include <string.h>

#include "common/core/cluster/meet.h"
#include "tests/unit/check_main.h"

#define WHERE "shard 0"

static struct meet m;
static uint64_t now;

static void
setup(void)
{
    now = 1000;
    meet_init(&m, WHERE, MEET_NO_HOST, 42);
}

static void
teardown(void)
{
    meet_finish(&m);
}

/* Worker `task` of 3 on connection task + 1, the first life of it. */
static struct meet_guest
guest(uint32_t task)
{
    return (struct meet_guest){.guest = task + 1,
                               .name = "group",
                               .workers = 3,
                               .task = task,
                               .settle_ms = 100,
                               .timeout_ms = 10000,
                               .incarnation = 1000 + task,
                               .attempt = 1,
                               .address = "127.0.0.1:4000",
                               .host = "here"};
}

static void
come(const struct meet_guest *g)
{
    struct ps_error e = {0};

    ck_assert_msg(meet_come(&m, g, now, &e) == PS_OK, "%s", e.text);
}

static void
come_plain(uint32_t task)
{
    struct meet_guest g = guest(task);

    come(&g);
}

static void
refused(const struct meet_guest *g, enum ps_err code, const char *says)
{
    struct ps_error e = {0};
    uint32_t before = m.guests_len;

    ck_assert_int_eq(meet_come(&m, g, now, &e), code);
    ck_assert_int_eq(e.code, code);
    ck_assert_msg(strstr(e.text, says) != NULL, "'%s' does not say '%s'", e.text, says);
    ck_assert_uint_eq(m.guests_len, before);
}

static void
nobody_is_told(void)
{
    struct meet_answer a;

    ck_assert(!meet_next(&m, now, &a));
    ck_assert_uint_gt(meet_next_time(&m), now);
}

/* The next answer is an error to this guest. */
static void
told_error(uint64_t to, enum ps_err code, const char *says)
{
    struct meet_answer a;

    ck_assert(meet_next(&m, now, &a));
    ck_assert_uint_eq(a.guest, to);
    ck_assert_ptr_null(a.table);
    ck_assert_int_eq(a.error.code, code);
    ck_assert_msg(strstr(a.error.text, says) != NULL, "'%s' does not say '%s'", a.error.text, says);
}

/* The next answers are one table of these tasks, to the guests that they came as. Returns its epoch. */
static uint64_t
told_table(uint32_t ranks, const uint32_t *tasks, const uint64_t *guests)
{
    struct meet_answer a;
    uint64_t epoch = 0, group = 0;

    for (uint32_t i = 0; i < ranks; i++) {
        ck_assert(meet_next(&m, now, &a));
        ck_assert_ptr_nonnull(a.table);
        ck_assert_uint_eq(a.guest, guests[i]);
        ck_assert_uint_eq(a.table->ranks, ranks);
        ck_assert(epoch == 0 || (a.table->epoch == epoch && a.table->group == group));
        epoch = a.table->epoch;
        group = a.table->group;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            ck_assert_uint_eq(a.table->members[rank].task, tasks[rank]);
            ck_assert_str_eq(a.table->members[rank].address, "127.0.0.1:4000");
            ck_assert_str_eq(a.table->members[rank].host, "here");
        }
    }
    return epoch;
}

#define TASKS(...)  ((const uint32_t[]){__VA_ARGS__})
#define GUESTS(...) ((const uint64_t[]){__VA_ARGS__})

START_TEST(all_are_told_the_same_table_in_the_order_of_tasks)
{
    nobody_is_told();
    come_plain(2);
    come_plain(0);
    nobody_is_told();
    ck_assert_uint_eq(meet_present(&m, "group"), 2);
    come_plain(1);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 0);
    ck_assert_uint_eq(meet_next_time(&m), UINT64_MAX);
}
END_TEST

START_TEST(a_group_of_one_waits_for_nobody)
{
    struct meet_guest g = guest(0);

    g.workers = 1;
    come(&g);
    told_table(1, TASKS(0), GUESTS(1));
    nobody_is_told();
}
END_TEST

START_TEST(names_do_not_see_each_other)
{
    struct meet_guest g = guest(1);

    come_plain(0);
    come_plain(2);
    g.name = "other";
    come(&g);
    nobody_is_told();
    ck_assert_uint_eq(meet_present(&m, "other"), 1);
    g = guest(1);
    g.guest = 77;
    come(&g);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 77, 3));
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 1);
}
END_TEST

START_TEST(who_left_is_waited_for)
{
    come_plain(0);
    come_plain(1);
    ck_assert(meet_leave(&m, 1));
    ck_assert(!meet_leave(&m, 1));
    come_plain(2);
    nobody_is_told();
    come_plain(0);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(the_last_one_that_leaves_ends_the_meeting)
{
    struct meet_guest g = guest(0);

    come_plain(0);
    come_plain(1);
    ck_assert(meet_leave(&m, 1));
    ck_assert(meet_leave(&m, 2));
    g.workers = 2; /* of which nobody remembers another number */
    come(&g);
    nobody_is_told();
}
END_TEST

START_TEST(epoch_rises_and_so_it_does_over_a_restart)
{
    uint64_t first, second;
    struct meet_guest g;

    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    first = told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nobody_is_told();
    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    second = told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    ck_assert_uint_gt(second, first);
    nobody_is_told();
    meet_finish(&m);
    meet_init(&m, WHERE, MEET_NO_HOST, 43);
    for (uint32_t task = 0; task < 3; task++) {
        g = guest(task);
        g.epoch = task == 1 ? 7000 : 0;
        come(&g);
    }
    ck_assert_uint_gt(told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3)), 7000);
    g = guest(0);
    g.workers = 1;
    nobody_is_told();
    g.epoch = UINT64_MAX; /* is not believed, and harms nobody */
    come(&g);
    ck_assert_uint_eq(told_table(1, TASKS(0), GUESTS(1)), MEET_EPOCH_MAX + 1);
}
END_TEST

/* Of a meeting of one: its group's id. */
static uint64_t
group_of(uint64_t seed, uint64_t incarnation, uint64_t epoch)
{
    struct meet_guest g = guest(0);
    struct meet_answer a;

    meet_finish(&m);
    meet_init(&m, WHERE, MEET_NO_HOST, seed);
    g.workers = 1;
    g.incarnation = incarnation;
    g.epoch = epoch;
    come(&g);
    ck_assert(meet_next(&m, now, &a) && a.table != NULL);
    return a.table->group;
}

START_TEST(another_forming_has_another_group)
{
    uint64_t first = group_of(1, 1, 1);

    ck_assert_uint_eq(first, group_of(1, 1, 1));
    ck_assert_uint_ne(first, group_of(2, 1, 1));
    ck_assert_uint_ne(first, group_of(1, 2, 1));
    ck_assert_uint_ne(first, group_of(1, 1, 2));
}
END_TEST

START_TEST(they_begin_without_some_when_that_is_allowed_and_all_is_quiet)
{
    struct meet_guest g;

    for (uint32_t task = 0; task < 2; task++) {
        g = guest(task);
        g.ranks_min = 2;
        come(&g);
        nobody_is_told();
        now += 60;
    }
    ck_assert_uint_eq(meet_next_time(&m), 1160); /* 100 after the last one */
    now = 1159;
    nobody_is_told();
    now = 1160;
    ck_assert(meet_is_settled(&m, now));
    told_table(2, TASKS(0, 1), GUESTS(1, 2));
    nobody_is_told();
    g = guest(2); /* who comes too late begins the next one */
    come(&g);
    nobody_is_told();
}
END_TEST

START_TEST(who_comes_in_between_starts_the_quiet_anew)
{
    struct meet_guest g = guest(0);

    g.ranks_min = 1;
    come(&g);
    now += 99;
    g = guest(2);
    g.ranks_min = 1;
    come(&g);
    now += 99;
    nobody_is_told();
    now += 1;
    told_table(2, TASKS(0, 2), GUESTS(1, 3));
}
END_TEST

START_TEST(the_strictest_counts)
{
    struct meet_guest g = guest(0);

    g.ranks_min = 2;
    come(&g);
    g = guest(1);
    g.ranks_min = 0; /* all */
    come(&g);
    now += 5000;
    nobody_is_told();
    ck_assert(meet_leave(&m, 2)); /* now one is too few for the other */
    nobody_is_told();
    g.ranks_min = 1;
    g.settle_ms = 300; /* the longest */
    come(&g);
    now += 299;
    nobody_is_told();
    now += 1;
    told_table(2, TASKS(0, 1), GUESTS(1, 2));
}
END_TEST

START_TEST(who_times_out_is_told_who_has_not_come)
{
    struct meet_guest g = guest(0);

    come(&g);
    g = guest(2);
    come(&g);
    ck_assert_uint_eq(meet_next_time(&m), 11000);
    now = 10999;
    nobody_is_told();
    now = 11000; /* the first to be told does not count as one who has not come */
    told_error(1, PS_ERR_TIMEOUT, "waited 10000 ms at shard 0 for group 'group': worker 1 has not come");
    told_error(3, PS_ERR_TIMEOUT, ": worker 1 has not come");
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 0);
}
END_TEST

START_TEST(who_came_and_went_is_named_as_such)
{
    struct meet_guest g;

    for (uint32_t task = 0; task < 3; task++) {
        come_plain(task);
        if (task == 1)
            ck_assert(meet_leave(&m, 2));
    }
    now += 10000;
    told_error(1, PS_ERR_TIMEOUT, "worker 1 has come and gone");
    told_error(3, PS_ERR_TIMEOUT, "come and gone");
    nobody_is_told();
    for (uint32_t task = 3; task > 0; task--) {
        g = guest(task - 1);
        g.settle_ms = 20000;
        g.ranks_min = 1;
        come(&g);
        if (task < 3)
            ck_assert(meet_leave(&m, task));
    }
    now += 10000;
    told_error(3, PS_ERR_TIMEOUT, "workers 0, 1 have come and gone");
}
END_TEST

START_TEST(a_long_list_of_the_missing_is_cut)
{
    struct meet_guest g = guest(0);

    g.workers = MEET_WORKERS_MAX;
    g.task = 3;
    come(&g);
    now += 10000;
    told_error(1, PS_ERR_TIMEOUT, "workers 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 239 more have");
}
END_TEST

START_TEST(a_full_meeting_begins_though_the_deadline_is_there)
{
    struct meet_guest g = guest(0);

    g.timeout_ms = 0;
    g.workers = 1;
    come(&g);
    told_table(1, TASKS(0), GUESTS(1));
}
END_TEST

START_TEST(another_number_of_workers_is_another_cluster)
{
    struct meet_guest g = guest(1);

    come_plain(0);
    g.workers = 4;
    refused(&g, PS_ERR_CLUSTER, "group 'group' at shard 0 is of 3 workers, and worker 1 comes from a cluster of 4");
    come_plain(1);
    come_plain(2);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(two_processes_of_one_worker_do_not_fit)
{
    struct meet_guest g = guest(1);

    come_plain(1);
    g.guest = 9;
    g.incarnation = 5;
    refused(&g, PS_ERR_TASK_TAKEN, "worker 1 of group 'group' waits at shard 0 already: another process, at 127.0.0.1");
    ck_assert(meet_leave(&m, 2)); /* it died: now its replacement is welcome */
    come(&g);
    come_plain(0);
    come_plain(2);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 9, 3));
}
END_TEST

START_TEST(who_asks_again_has_its_own_place)
{
    struct meet_guest g = guest(1);

    come_plain(1);
    come_plain(0);
    g.guest = 9;
    refused(&g, PS_ERR_CANCELLED, "has asked again since"); /* an old question that was on its way */
    g.attempt = 2;
    come(&g);
    told_error(2, PS_ERR_CANCELLED, "asked again since");
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 2);
    come_plain(2);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 9, 3));
}
END_TEST

START_TEST(an_old_place_that_is_given_up_before_it_is_told_is_not_told)
{
    struct meet_guest g = guest(0);

    come_plain(0);
    g.guest = 9;
    g.attempt = 2;
    come(&g); /* alone there: the meeting goes on with it */
    ck_assert(meet_leave(&m, 1));
    nobody_is_told();
    ck_assert_uint_eq(meet_present(&m, "group"), 1);
}
END_TEST

START_TEST(one_connection_waits_once)
{
    struct meet_guest g = guest(1);

    come_plain(0);
    g.guest = 1;
    refused(&g, PS_ERR_INVALID, "waits at a meeting already");
    g.name = "other";
    refused(&g, PS_ERR_INVALID, "waits at a meeting already");
}
END_TEST

START_TEST(who_leaves_while_others_are_told_is_in_their_table_and_not_told)
{
    struct meet_answer a;

    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    ck_assert(meet_next(&m, now, &a));
    ck_assert_uint_eq(a.guest, 1);
    ck_assert(!meet_leave(&m, 1)); /* it was told */
    ck_assert(meet_leave(&m, 2));
    ck_assert(!meet_leave(&m, 2));
    ck_assert(meet_next(&m, now, &a));
    ck_assert_uint_eq(a.guest, 3);
    ck_assert_uint_eq(a.table->ranks, 3);
    ck_assert_str_eq(a.table->members[1].address, "127.0.0.1:4000");
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 0);
}
END_TEST

START_TEST(all_can_be_sent_away_but_one)
{
    for (uint32_t task = 0; task < 3; task++)
        if (task != 1)
            come_plain(task);
    meet_cancel_all(&m, 3, PS_ERR_DRAINING, "the end");
    told_error(1, PS_ERR_DRAINING, "the end");
    nobody_is_told();
    ck_assert_uint_eq(meet_present(&m, "group"), 1);
    meet_cancel_all(&m, 0, PS_ERR_DRAINING, "the end");
    told_error(3, PS_ERR_DRAINING, "the end");
    nobody_is_told();
    ck_assert_uint_eq(m.guests_len, 0);
}
END_TEST

START_TEST(nothing_is_held_without_the_host)
{
    struct meet_guest g;

    meet_finish(&m);
    meet_init(&m, WHERE, 1, 42);
    for (uint32_t task = 0; task < 3; task += 2) {
        g = guest(task);
        g.ranks_min = 1;
        come(&g);
    }
    now += 5000;
    ck_assert(!meet_is_settled(&m, now));
    nobody_is_told();
    g = guest(1);
    come(&g); /* with it all are there */
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nobody_is_told();
}
END_TEST

START_TEST(an_unsure_host_begins_with_all_or_not_at_all)
{
    struct meet_guest g;

    meet_finish(&m);
    meet_init(&m, WHERE, 1, 42);
    meet_set_unsure(&m, true);
    for (uint32_t task = 0; task < 2; task++) {
        g = guest(task);
        g.ranks_min = 1;
        come(&g);
    }
    ck_assert(!meet_is_settled(&m, now));
    now += 100;
    ck_assert(meet_is_settled(&m, now));
    nobody_is_told();
    meet_set_unsure(&m, false);
    told_table(2, TASKS(0, 1), GUESTS(1, 2));
    nobody_is_told();
    meet_set_unsure(&m, true);
    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    told_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(a_crowd_has_a_limit)
{
    struct meet_guest g = guest(0);
    char name[32];

    for (uint32_t i = 0; i < MEET_GUESTS_MAX; i++) {
        snprintf(name, sizeof name, "g%u", i);
        g.name = name;
        g.guest = i + 1;
        come(&g);
    }
    g.name = "one more";
    g.guest = MEET_GUESTS_MAX + 1;
    refused(&g, PS_ERR_LIMIT, "1024 wait at shard 0");
    ck_assert(meet_leave(&m, 500));
    come(&g);
    nobody_is_told();
}
END_TEST

static bool
count_wait(void *arg, const struct meet_wait *wait)
{
    uint32_t *seen = arg;

    ck_assert_str_eq(wait->name, "group");
    ck_assert_uint_eq(wait->workers, 3);
    ck_assert_uint_eq(wait->since_ms, 1000);
    ck_assert_uint_eq(wait->missing_len, 1);
    ck_assert_uint_eq(wait->missing[0], 1);
    ck_assert_uint_eq(wait->guest, wait->task + 1);
    *seen |= 1u << wait->task;
    return true;
}

START_TEST(who_waits_for_whom_can_be_asked)
{
    uint32_t seen = 0;

    meet_each(&m, count_wait, &seen);
    ck_assert_uint_eq(seen, 0);
    come_plain(0);
    come_plain(2);
    now += 5;
    meet_each(&m, count_wait, &seen);
    ck_assert_uint_eq(seen, 5);
}
END_TEST

/* ---- Any crowd ---- */

/* Check writes something down for each of its assertions, which here are millions. */
#define MUST(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

#define CROWD_GUESTS 64
#define CROWD_NAMES  3
#define CROWD_TASKS  5

/* What a guest that waits said; and what the meeting may do of it. */
struct one {
    bool waits;
    struct meet_guest g;
    uint64_t since;
};

static struct one crowd[CROWD_GUESTS];
static uint64_t last[CROWD_NAMES], newest_epoch;
static const char *const names[CROWD_NAMES] = {"a", "b", "c"};

static int
name_of(const struct meet_guest *g)
{
    return g->name[0] - 'a';
}

static struct one *
holder(const struct meet_guest *g)
{
    for (int i = 0; i < CROWD_GUESTS; i++)
        if (crowd[i].waits && name_of(&crowd[i].g) == name_of(g) && crowd[i].g.task == g->task)
            return &crowd[i];
    return NULL;
}

/* Those at a name: how many, how many they want, and until when they settle. */
static uint32_t
at_name(int name, uint32_t *wanted, uint64_t *settle)
{
    uint32_t n = 0;

    *wanted = 1;
    *settle = 0;
    for (int i = 0; i < CROWD_GUESTS; i++) {
        const struct meet_guest *g = &crowd[i].g;

        if (!crowd[i].waits || name_of(g) != name)
            continue;
        n++;
        *wanted = MAX(*wanted, g->ranks_min != 0 ? g->ranks_min : (uint32_t)CROWD_TASKS);
        *settle = MAX(*settle, last[name] + g->settle_ms);
    }
    return n;
}

static bool
may_begin(int name)
{
    uint32_t wanted, n;
    uint64_t settle;

    n = at_name(name, &wanted, &settle);
    return n == CROWD_TASKS || (n >= wanted && now >= settle);
}

static void
take_table(const struct meet_answer *first)
{
    struct meet_answer a = *first;
    int name = name_of(&crowd[a.guest - 1].g);
    uint32_t ranks = a.table->ranks, wanted;
    uint64_t settle, epoch = a.table->epoch;

    MUST(may_begin(name));
    MUST(at_name(name, &wanted, &settle) == ranks);
    MUST(epoch > newest_epoch);
    newest_epoch = epoch;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct one *o = &crowd[a.guest - 1];

        MUST(o->waits && name_of(&o->g) == name);
        MUST(a.table->epoch == epoch);
        MUST(a.table->members[rank].task == o->g.task);
        MUST(a.table->members[rank].incarnation == o->g.incarnation);
        MUST(epoch > o->g.epoch);
        o->waits = false;
        if (rank + 1 < ranks)
            MUST(meet_next(&m, now, &a) && a.table != NULL);
    }
}

static void
take_answers(void)
{
    struct meet_answer a;

    while (meet_next(&m, now, &a)) {
        struct one *o = &crowd[a.guest - 1];

        if (a.table != NULL) {
            take_table(&a);
            continue;
        }
        MUST(o->waits);
        MUST(a.error.code == PS_ERR_CANCELLED || (a.error.code == PS_ERR_TIMEOUT && now - o->since >= o->g.timeout_ms));
        o->waits = false;
    }
    MUST(meet_next_time(&m) > now);
    for (int name = 0; name < CROWD_NAMES; name++)
        MUST(!may_begin(name)); /* nobody is left waiting for nothing */
    for (int i = 0; i < CROWD_GUESTS; i++)
        MUST(!crowd[i].waits || now - crowd[i].since < crowd[i].g.timeout_ms);
}

static void
someone_comes(struct test_rng *r, int i)
{
    struct meet_guest g = {.guest = (uint64_t)i + 1,
                           .name = names[test_below(r, CROWD_NAMES)],
                           .workers = CROWD_TASKS,
                           .task = (uint32_t)test_below(r, CROWD_TASKS),
                           .ranks_min = (uint32_t)test_below(r, CROWD_TASKS + 1),
                           .settle_ms = (uint32_t)test_below(r, 50),
                           .timeout_ms = (uint32_t)test_below(r, 200),
                           .incarnation = 1 + test_below(r, 2),
                           .attempt = 1 + test_below(r, 3),
                           .epoch = test_below(r, 4) == 0 ? newest_epoch : 0,
                           .address = "127.0.0.1:1",
                           .host = ""};
    const struct one *there = holder(&g);
    enum ps_err err = meet_come(&m, &g, now, NULL);

    if (crowd[i].waits)
        MUST(err == PS_ERR_INVALID);
    else if (there != NULL && there->g.incarnation != g.incarnation)
        MUST(err == PS_ERR_TASK_TAKEN);
    else if (there != NULL && there->g.attempt >= g.attempt)
        MUST(err == PS_ERR_CANCELLED);
    else
        MUST(err == PS_OK);
    if (err != PS_OK)
        return;
    if (there != NULL) {
        struct meet_answer a;

        MUST(meet_next(&m, now, &a));
        MUST(a.error.code == PS_ERR_CANCELLED);
        MUST(&crowd[a.guest - 1] == there);
        crowd[a.guest - 1].waits = false;
    }
    crowd[i] = (struct one){true, g, now};
    last[name_of(&g)] = now;
}

START_TEST(any_crowd_is_told_what_a_model_says)
{
    struct test_rng r = {test_seed()};

    for (int step = 0; step < 40000; step++) {
        int i = (int)test_below(&r, CROWD_GUESTS);

        switch (test_below(&r, 8)) {
        case 0:
            MUST(meet_leave(&m, (uint64_t)i + 1) == crowd[i].waits);
            crowd[i].waits = false;
            break;
        case 1:
            now += test_below(&r, 40);
            break;
        default:
            someone_comes(&r, i);
        }
        take_answers();
    }
    ck_assert_uint_gt(newest_epoch, 100);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("meet");
    TCase *tc = tcase_create("meet");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, all_are_told_the_same_table_in_the_order_of_tasks);
    tcase_add_test(tc, a_group_of_one_waits_for_nobody);
    tcase_add_test(tc, names_do_not_see_each_other);
    tcase_add_test(tc, who_left_is_waited_for);
    tcase_add_test(tc, the_last_one_that_leaves_ends_the_meeting);
    tcase_add_test(tc, epoch_rises_and_so_it_does_over_a_restart);
    tcase_add_test(tc, another_forming_has_another_group);
    tcase_add_test(tc, they_begin_without_some_when_that_is_allowed_and_all_is_quiet);
    tcase_add_test(tc, who_comes_in_between_starts_the_quiet_anew);
    tcase_add_test(tc, the_strictest_counts);
    tcase_add_test(tc, who_times_out_is_told_who_has_not_come);
    tcase_add_test(tc, who_came_and_went_is_named_as_such);
    tcase_add_test(tc, a_long_list_of_the_missing_is_cut);
    tcase_add_test(tc, a_full_meeting_begins_though_the_deadline_is_there);
    tcase_add_test(tc, another_number_of_workers_is_another_cluster);
    tcase_add_test(tc, two_processes_of_one_worker_do_not_fit);
    tcase_add_test(tc, who_asks_again_has_its_own_place);
    tcase_add_test(tc, an_old_place_that_is_given_up_before_it_is_told_is_not_told);
    tcase_add_test(tc, one_connection_waits_once);
    tcase_add_test(tc, who_leaves_while_others_are_told_is_in_their_table_and_not_told);
    tcase_add_test(tc, all_can_be_sent_away_but_one);
    tcase_add_test(tc, nothing_is_held_without_the_host);
    tcase_add_test(tc, an_unsure_host_begins_with_all_or_not_at_all);
    tcase_add_test(tc, a_crowd_has_a_limit);
    tcase_add_test(tc, who_waits_for_whom_can_be_asked);
    tcase_add_test(tc, any_crowd_is_told_what_a_model_says);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
