/* The rendezvous: which workers are admitted, when they are enough, the answers; and random arrivals and departures
 * against a model. */
#include <string.h>

#include "common/core/cluster/rendezvous_core.h"
#include "tests/unit/kits/check_main.h"

#define WHERE "shard 0"

static struct rendezvous_core m;
static uint64_t now;

static void
rendezvous_core_setup(void)
{
    now = 1000;
    rendezvous_core_init(&m, WHERE, RENDEZVOUS_NO_COORDINATOR, 42);
}

static void
rendezvous_core_teardown(void)
{
    rendezvous_core_finish(&m);
}

/* Worker `task` of 3 on connection task + 1, the first life of it. */
static struct rendezvous_request
rendezvous_request_of(uint32_t task)
{
    return (struct rendezvous_request){.conn_id = task + 1,
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
rendezvous_core_come(const struct rendezvous_request *g)
{
    struct ps_error e = {0};

    ck_assert_msg(rendezvous_core_join(&m, g, now, &e) == PS_OK, "%s", e.text);
}

static void
come_plain(uint32_t task)
{
    struct rendezvous_request g = rendezvous_request_of(task);

    rendezvous_core_come(&g);
}

static void
rendezvous_core_refused(const struct rendezvous_request *g, enum ps_err code, const char *says)
{
    struct ps_error e = {0};
    uint32_t before = m.requests_len;

    ck_assert_int_eq(rendezvous_core_join(&m, g, now, &e), code);
    ck_assert_int_eq(e.code, code);
    ck_assert_msg(strstr(e.text, says) != NULL, "'%s' does not say '%s'", e.text, says);
    ck_assert_uint_eq(m.requests_len, before);
}

static void
nothing_is_answered(void)
{
    struct rendezvous_answer a;

    ck_assert(!rendezvous_core_next(&m, now, &a));
    ck_assert_uint_gt(rendezvous_core_next_time(&m), now);
}

/* The next answer is an error to this request. */
static void
answered_error(uint64_t to, enum ps_err code, const char *says)
{
    struct rendezvous_answer a;

    ck_assert(rendezvous_core_next(&m, now, &a));
    ck_assert_uint_eq(a.conn_id, to);
    ck_assert_ptr_null(a.table);
    ck_assert_int_eq(a.error.code, code);
    ck_assert_msg(strstr(a.error.text, says) != NULL, "'%s' does not say '%s'", a.error.text, says);
}

/* The next answers are one table of these tasks, to their requests. Returns its epoch. */
static uint64_t
answered_table(uint32_t ranks, const uint32_t *tasks, const uint64_t *guests)
{
    struct rendezvous_answer a;
    uint64_t epoch = 0, group = 0;

    for (uint32_t i = 0; i < ranks; i++) {
        ck_assert(rendezvous_core_next(&m, now, &a));
        ck_assert_ptr_nonnull(a.table);
        ck_assert_uint_eq(a.conn_id, guests[i]);
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
    nothing_is_answered();
    come_plain(2);
    come_plain(0);
    nothing_is_answered();
    ck_assert_uint_eq(rendezvous_core_present(&m, "group"), 2);
    come_plain(1);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 0);
    ck_assert_uint_eq(rendezvous_core_next_time(&m), UINT64_MAX);
}
END_TEST

START_TEST(a_group_of_one_waits_for_nobody)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    g.workers = 1;
    rendezvous_core_come(&g);
    answered_table(1, TASKS(0), GUESTS(1));
    nothing_is_answered();
}
END_TEST

START_TEST(names_do_not_see_each_other)
{
    struct rendezvous_request g = rendezvous_request_of(1);

    come_plain(0);
    come_plain(2);
    g.name = "other";
    rendezvous_core_come(&g);
    nothing_is_answered();
    ck_assert_uint_eq(rendezvous_core_present(&m, "other"), 1);
    g = rendezvous_request_of(1);
    g.conn_id = 77;
    rendezvous_core_come(&g);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 77, 3));
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 1);
}
END_TEST

START_TEST(who_left_is_waited_for)
{
    come_plain(0);
    come_plain(1);
    ck_assert(rendezvous_core_leave(&m, 1));
    ck_assert(!rendezvous_core_leave(&m, 1));
    come_plain(2);
    nothing_is_answered();
    come_plain(0);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(the_last_one_that_leaves_ends_the_meeting)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    come_plain(0);
    come_plain(1);
    ck_assert(rendezvous_core_leave(&m, 1));
    ck_assert(rendezvous_core_leave(&m, 2));
    g.workers = 2; /* no earlier request with another number is remembered */
    rendezvous_core_come(&g);
    nothing_is_answered();
}
END_TEST

START_TEST(epoch_rises_and_so_it_does_over_a_restart)
{
    uint64_t first, second;
    struct rendezvous_request g;

    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    first = answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nothing_is_answered();
    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    second = answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    ck_assert_uint_gt(second, first);
    nothing_is_answered();
    rendezvous_core_finish(&m);
    rendezvous_core_init(&m, WHERE, RENDEZVOUS_NO_COORDINATOR, 43);
    for (uint32_t task = 0; task < 3; task++) {
        g = rendezvous_request_of(task);
        g.epoch = task == 1 ? 7000 : 0;
        rendezvous_core_come(&g);
    }
    ck_assert_uint_gt(answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3)), 7000);
    g = rendezvous_request_of(0);
    g.workers = 1;
    nothing_is_answered();
    g.epoch = UINT64_MAX; /* is not believed, and does no harm */
    rendezvous_core_come(&g);
    ck_assert_uint_eq(answered_table(1, TASKS(0), GUESTS(1)), RENDEZVOUS_EPOCH_MAX + 1);
}
END_TEST

/* Of a rendezvous of one: its group's id. */
static uint64_t
group_of(uint64_t seed, uint64_t incarnation, uint64_t epoch)
{
    struct rendezvous_request g = rendezvous_request_of(0);
    struct rendezvous_answer a;

    rendezvous_core_finish(&m);
    rendezvous_core_init(&m, WHERE, RENDEZVOUS_NO_COORDINATOR, seed);
    g.workers = 1;
    g.incarnation = incarnation;
    g.epoch = epoch;
    rendezvous_core_come(&g);
    ck_assert(rendezvous_core_next(&m, now, &a) && a.table != NULL);
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
    struct rendezvous_request g;

    for (uint32_t task = 0; task < 2; task++) {
        g = rendezvous_request_of(task);
        g.ranks_min = 2;
        rendezvous_core_come(&g);
        nothing_is_answered();
        now += 60;
    }
    ck_assert_uint_eq(rendezvous_core_next_time(&m), 1160); /* 100 after the last one */
    now = 1159;
    nothing_is_answered();
    now = 1160;
    ck_assert(rendezvous_core_is_settled(&m, now));
    answered_table(2, TASKS(0, 1), GUESTS(1, 2));
    nothing_is_answered();
    g = rendezvous_request_of(2); /* a worker that comes too late begins the next one */
    rendezvous_core_come(&g);
    nothing_is_answered();
}
END_TEST

START_TEST(who_comes_in_between_starts_the_quiet_anew)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    g.ranks_min = 1;
    rendezvous_core_come(&g);
    now += 99;
    g = rendezvous_request_of(2);
    g.ranks_min = 1;
    rendezvous_core_come(&g);
    now += 99;
    nothing_is_answered();
    now += 1;
    answered_table(2, TASKS(0, 2), GUESTS(1, 3));
}
END_TEST

START_TEST(the_strictest_counts)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    g.ranks_min = 2;
    rendezvous_core_come(&g);
    g = rendezvous_request_of(1);
    g.ranks_min = 0; /* all */
    rendezvous_core_come(&g);
    now += 5000;
    nothing_is_answered();
    ck_assert(rendezvous_core_leave(&m, 2)); /* now one is too few for the other */
    nothing_is_answered();
    g.ranks_min = 1;
    g.settle_ms = 300; /* the longest */
    rendezvous_core_come(&g);
    now += 299;
    nothing_is_answered();
    now += 1;
    answered_table(2, TASKS(0, 1), GUESTS(1, 2));
}
END_TEST

START_TEST(who_times_out_is_told_who_has_not_come)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    rendezvous_core_come(&g);
    g = rendezvous_request_of(2);
    rendezvous_core_come(&g);
    ck_assert_uint_eq(rendezvous_core_next_time(&m), 11000);
    now = 10999;
    nothing_is_answered();
    now = 11000; /* the first to be answered does not count as missing */
    answered_error(1, PS_ERR_TIMEOUT, "waited 10000 ms at shard 0 for group 'group': worker 1 has not come");
    answered_error(3, PS_ERR_TIMEOUT, ": worker 1 has not come");
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 0);
}
END_TEST

START_TEST(who_came_and_went_is_named_as_such)
{
    struct rendezvous_request g;

    for (uint32_t task = 0; task < 3; task++) {
        come_plain(task);
        if (task == 1)
            ck_assert(rendezvous_core_leave(&m, 2));
    }
    now += 10000;
    answered_error(1, PS_ERR_TIMEOUT, "worker 1 has joined and left");
    answered_error(3, PS_ERR_TIMEOUT, "joined and left");
    nothing_is_answered();
    for (uint32_t task = 3; task > 0; task--) {
        g = rendezvous_request_of(task - 1);
        g.settle_ms = 20000;
        g.ranks_min = 1;
        rendezvous_core_come(&g);
        if (task < 3)
            ck_assert(rendezvous_core_leave(&m, task));
    }
    now += 10000;
    answered_error(3, PS_ERR_TIMEOUT, "workers 0, 1 have joined and left");
}
END_TEST

START_TEST(a_long_list_of_the_missing_is_cut)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    g.workers = RENDEZVOUS_WORKERS_MAX;
    g.task = 3;
    rendezvous_core_come(&g);
    now += 10000;
    answered_error(1, PS_ERR_TIMEOUT,
                   "workers 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 239 more have");
}
END_TEST

START_TEST(a_full_meeting_begins_though_the_deadline_is_there)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    g.timeout_ms = 0;
    g.workers = 1;
    rendezvous_core_come(&g);
    answered_table(1, TASKS(0), GUESTS(1));
}
END_TEST

START_TEST(another_number_of_workers_is_another_cluster)
{
    struct rendezvous_request g = rendezvous_request_of(1);

    come_plain(0);
    g.workers = 4;
    rendezvous_core_refused(&g, PS_ERR_CLUSTER,
                            "group 'group' at shard 0 is of 3 workers, and worker 1 comes from a cluster of 4");
    come_plain(1);
    come_plain(2);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(two_processes_of_one_worker_do_not_fit)
{
    struct rendezvous_request g = rendezvous_request_of(1);

    come_plain(1);
    g.conn_id = 9;
    g.incarnation = 5;
    rendezvous_core_refused(&g, PS_ERR_TASK_TAKEN,
                            "worker 1 of group 'group' waits at shard 0 already: another process, at 127.0.0.1");
    ck_assert(rendezvous_core_leave(&m, 2)); /* it died: now its replacement is welcome */
    rendezvous_core_come(&g);
    come_plain(0);
    come_plain(2);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 9, 3));
}
END_TEST

START_TEST(who_asks_again_has_its_own_place)
{
    struct rendezvous_request g = rendezvous_request_of(1);

    come_plain(1);
    come_plain(0);
    g.conn_id = 9;
    rendezvous_core_refused(&g, PS_ERR_CANCELLED, "has asked again since"); /* an old question that was on its way */
    g.attempt = 2;
    rendezvous_core_come(&g);
    answered_error(2, PS_ERR_CANCELLED, "asked again since");
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 2);
    come_plain(2);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 9, 3));
}
END_TEST

START_TEST(an_old_place_that_is_given_up_before_it_is_told_is_not_told)
{
    struct rendezvous_request g = rendezvous_request_of(0);

    come_plain(0);
    g.conn_id = 9;
    g.attempt = 2;
    rendezvous_core_come(&g); /* alone there: the rendezvous goes on with it */
    ck_assert(rendezvous_core_leave(&m, 1));
    nothing_is_answered();
    ck_assert_uint_eq(rendezvous_core_present(&m, "group"), 1);
}
END_TEST

START_TEST(one_connection_waits_once)
{
    struct rendezvous_request g = rendezvous_request_of(1);

    come_plain(0);
    g.conn_id = 1;
    rendezvous_core_refused(&g, PS_ERR_INVALID, "waits in a rendezvous already");
    g.name = "other";
    rendezvous_core_refused(&g, PS_ERR_INVALID, "waits in a rendezvous already");
}
END_TEST

START_TEST(who_leaves_while_others_are_told_is_in_their_table_and_not_told)
{
    struct rendezvous_answer a;

    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    ck_assert(rendezvous_core_next(&m, now, &a));
    ck_assert_uint_eq(a.conn_id, 1);
    ck_assert(!rendezvous_core_leave(&m, 1)); /* it was answered */
    ck_assert(rendezvous_core_leave(&m, 2));
    ck_assert(!rendezvous_core_leave(&m, 2));
    ck_assert(rendezvous_core_next(&m, now, &a));
    ck_assert_uint_eq(a.conn_id, 3);
    ck_assert_uint_eq(a.table->ranks, 3);
    ck_assert_str_eq(a.table->members[1].address, "127.0.0.1:4000");
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 0);
}
END_TEST

START_TEST(all_can_be_sent_away_but_one)
{
    for (uint32_t task = 0; task < 3; task++)
        if (task != 1)
            come_plain(task);
    rendezvous_core_cancel_all(&m, 3, PS_ERR_DRAINING, "the end");
    answered_error(1, PS_ERR_DRAINING, "the end");
    nothing_is_answered();
    ck_assert_uint_eq(rendezvous_core_present(&m, "group"), 1);
    rendezvous_core_cancel_all(&m, 0, PS_ERR_DRAINING, "the end");
    answered_error(3, PS_ERR_DRAINING, "the end");
    nothing_is_answered();
    ck_assert_uint_eq(m.requests_len, 0);
}
END_TEST

START_TEST(nothing_is_held_without_the_host)
{
    struct rendezvous_request g;

    rendezvous_core_finish(&m);
    rendezvous_core_init(&m, WHERE, 1, 42);
    for (uint32_t task = 0; task < 3; task += 2) {
        g = rendezvous_request_of(task);
        g.ranks_min = 1;
        rendezvous_core_come(&g);
    }
    now += 5000;
    ck_assert(!rendezvous_core_is_settled(&m, now));
    nothing_is_answered();
    g = rendezvous_request_of(1);
    rendezvous_core_come(&g); /* with it all are there */
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
    nothing_is_answered();
}
END_TEST

START_TEST(an_unsure_host_begins_with_all_or_not_at_all)
{
    struct rendezvous_request g;

    rendezvous_core_finish(&m);
    rendezvous_core_init(&m, WHERE, 1, 42);
    rendezvous_core_set_unsure(&m, true);
    for (uint32_t task = 0; task < 2; task++) {
        g = rendezvous_request_of(task);
        g.ranks_min = 1;
        rendezvous_core_come(&g);
    }
    ck_assert(!rendezvous_core_is_settled(&m, now));
    now += 100;
    ck_assert(rendezvous_core_is_settled(&m, now));
    nothing_is_answered();
    rendezvous_core_set_unsure(&m, false);
    answered_table(2, TASKS(0, 1), GUESTS(1, 2));
    nothing_is_answered();
    rendezvous_core_set_unsure(&m, true);
    for (uint32_t task = 0; task < 3; task++)
        come_plain(task);
    answered_table(3, TASKS(0, 1, 2), GUESTS(1, 2, 3));
}
END_TEST

START_TEST(a_crowd_has_a_limit)
{
    struct rendezvous_request g = rendezvous_request_of(0);
    char name[32];

    for (uint32_t i = 0; i < RENDEZVOUS_REQUESTS_MAX; i++) {
        snprintf(name, sizeof name, "g%u", i);
        g.name = name;
        g.conn_id = i + 1;
        rendezvous_core_come(&g);
    }
    g.name = "one more";
    g.conn_id = RENDEZVOUS_REQUESTS_MAX + 1;
    rendezvous_core_refused(&g, PS_ERR_LIMIT, "1024 wait at shard 0");
    ck_assert(rendezvous_core_leave(&m, 500));
    rendezvous_core_come(&g);
    nothing_is_answered();
}
END_TEST

static bool
count_wait(void *arg, const struct rendezvous_wait *wait)
{
    uint32_t *seen = arg;

    ck_assert_str_eq(wait->name, "group");
    ck_assert_uint_eq(wait->workers, 3);
    ck_assert_uint_eq(wait->since_ms, 1000);
    ck_assert_uint_eq(wait->missing_len, 1);
    ck_assert_uint_eq(wait->missing[0], 1);
    ck_assert_uint_eq(wait->conn_id, wait->task + 1);
    *seen |= 1u << wait->task;
    return true;
}

START_TEST(who_waits_for_whom_can_be_asked)
{
    uint32_t seen = 0;

    rendezvous_core_each(&m, count_wait, &seen);
    ck_assert_uint_eq(seen, 0);
    come_plain(0);
    come_plain(2);
    now += 5;
    rendezvous_core_each(&m, count_wait, &seen);
    ck_assert_uint_eq(seen, 5);
}
END_TEST

/* ---- Any crowd ---- */

/* Check writes something down for each of its assertions, which here are millions. */
#define MUST(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

#define CROWD_GUESTS 64
#define CROWD_NAMES  3
#define CROWD_TASKS  5

/* A waiting request; and the outcomes that it allows. */
struct rendezvous_random_worker {
    bool waits;
    struct rendezvous_request g;
    uint64_t since;
};

static struct rendezvous_random_worker crowd[CROWD_GUESTS];
static uint64_t last[CROWD_NAMES], newest_epoch;
static const char *const names[CROWD_NAMES] = {"a", "b", "c"};

static int
name_of(const struct rendezvous_request *g)
{
    return g->name[0] - 'a';
}

static struct rendezvous_random_worker *
rendezvous_core_coordinator(const struct rendezvous_request *g)
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
        const struct rendezvous_request *g = &crowd[i].g;

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
take_table(const struct rendezvous_answer *first)
{
    struct rendezvous_answer a = *first;
    int name = name_of(&crowd[a.conn_id - 1].g);
    uint32_t ranks = a.table->ranks, wanted;
    uint64_t settle, epoch = a.table->epoch;

    MUST(may_begin(name));
    MUST(at_name(name, &wanted, &settle) == ranks);
    MUST(epoch > newest_epoch);
    newest_epoch = epoch;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct rendezvous_random_worker *o = &crowd[a.conn_id - 1];

        MUST(o->waits && name_of(&o->g) == name);
        MUST(a.table->epoch == epoch);
        MUST(a.table->members[rank].task == o->g.task);
        MUST(a.table->members[rank].incarnation == o->g.incarnation);
        MUST(epoch > o->g.epoch);
        o->waits = false;
        if (rank + 1 < ranks)
            MUST(rendezvous_core_next(&m, now, &a) && a.table != NULL);
    }
}

static void
take_answers(void)
{
    struct rendezvous_answer a;

    while (rendezvous_core_next(&m, now, &a)) {
        struct rendezvous_random_worker *o = &crowd[a.conn_id - 1];

        if (a.table != NULL) {
            take_table(&a);
            continue;
        }
        MUST(o->waits);
        MUST(a.error.code == PS_ERR_CANCELLED || (a.error.code == PS_ERR_TIMEOUT && now - o->since >= o->g.timeout_ms));
        o->waits = false;
    }
    MUST(rendezvous_core_next_time(&m) > now);
    for (int name = 0; name < CROWD_NAMES; name++)
        MUST(!may_begin(name)); /* no request is left waiting in vain */
    for (int i = 0; i < CROWD_GUESTS; i++)
        MUST(!crowd[i].waits || now - crowd[i].since < crowd[i].g.timeout_ms);
}

static void
someone_comes(struct test_rng *r, int i)
{
    struct rendezvous_request g = {.conn_id = (uint64_t)i + 1,
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
    const struct rendezvous_random_worker *there = rendezvous_core_coordinator(&g);
    enum ps_err err = rendezvous_core_join(&m, &g, now, NULL);

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
        struct rendezvous_answer a;

        MUST(rendezvous_core_next(&m, now, &a));
        MUST(a.error.code == PS_ERR_CANCELLED);
        MUST(&crowd[a.conn_id - 1] == there);
        crowd[a.conn_id - 1].waits = false;
    }
    crowd[i] = (struct rendezvous_random_worker){true, g, now};
    last[name_of(&g)] = now;
}

START_TEST(any_crowd_is_told_what_a_model_says)
{
    struct test_rng r = {test_seed()};

    for (int step = 0; step < 40000; step++) {
        int i = (int)test_below(&r, CROWD_GUESTS);

        switch (test_below(&r, 8)) {
        case 0:
            MUST(rendezvous_core_leave(&m, (uint64_t)i + 1) == crowd[i].waits);
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

    tcase_add_checked_fixture(tc, rendezvous_core_setup, rendezvous_core_teardown);
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
