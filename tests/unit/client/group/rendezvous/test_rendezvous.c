/* Workers that meet without shards: many of them on one loop, over real sockets. The coordinator, and workers that come
 * late, die, hang, or do not belong. */
#include "client/group/rendezvous/rendezvous.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/group/rendezvous/send_message.h"
#include "tests/unit/kits/check_main.h"

#define WORKERS_MAX 8
#define PATIENCE_MS 60000 /* for calls that should be short */
#define AGAIN_MS    10

struct rendezvous_worker {
    ps_cluster *cluster;
    struct acceptor acceptor;
    struct rendezvous *r;
    struct group_membership table;
    enum ps_err result;
    struct ps_error error;
    bool done;
};

static uv_loop_t loop;
static struct conn_pool pool;
static uv_timer_t tick; /* keeps the loop turning */
static uint32_t n;
static int reserved[WORKERS_MAX]; /* bound, not listening: the ports stay ours */
static char addresses[WORKERS_MAX][32];
static struct rendezvous_worker w[WORKERS_MAX + 1];
static uint64_t incarnations;

/* ---- Names: "here.invalid" is this machine, once it is let go ---- */

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t names_changed = PTHREAD_COND_INITIALIZER;
static bool names_hang;
static unsigned names_asked, names_answered;

int
getaddrinfo(const char *restrict host, const char *restrict port, const struct addrinfo *restrict hints,
            struct addrinfo **restrict list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    int rc = EAI_NONAME;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    pthread_mutex_lock(&names_mutex);
    names_asked++;
    while (names_hang)
        pthread_cond_wait(&names_changed, &names_mutex);
    pthread_mutex_unlock(&names_mutex);
    if (strcmp(host, "nowhere.invalid") != 0)
        rc = real(strcmp(host, "here.invalid") == 0 ? "127.0.0.1" : host, port, hints, list);
    pthread_mutex_lock(&names_mutex);
    names_answered++;
    pthread_cond_broadcast(&names_changed);
    pthread_mutex_unlock(&names_mutex);
    return rc;
}

static void
names_set_hang(bool hang)
{
    pthread_mutex_lock(&names_mutex);
    names_hang = hang;
    pthread_cond_broadcast(&names_changed);
    pthread_mutex_unlock(&names_mutex);
}

/* So many threads that looked a name up have returned. */
static void
names_wait_answered(unsigned asked)
{
    pthread_mutex_lock(&names_mutex);
    while (names_answered < asked)
        pthread_cond_wait(&names_changed, &names_mutex);
    ck_assert_uint_eq(names_asked, asked);
    pthread_mutex_unlock(&names_mutex);
}

static void
rendezvous_ignore(uv_timer_t *timer)
{
    (void)timer;
}

static void
rendezvous_reserve(uint32_t i)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int yes = 1;

    reserved[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(reserved[i], 0);
    ck_assert_int_eq(setsockopt(reserved[i], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    ck_assert_int_eq(bind(reserved[i], (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(getsockname(reserved[i], (struct sockaddr *)&at, &len), 0);
    snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", ntohs(at.sin_port));
}

static ps_cluster *
cluster_of(uint32_t workers, uint32_t task)
{
    struct ps_error e = {0};
    char text[1024];
    ps_cluster *c;
    int at;

    at = snprintf(text, sizeof text, "{\"cluster\": {\"worker\": [");
    for (uint32_t i = 0; i < workers; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s\"", i > 0 ? ", " : "", addresses[i]);
    snprintf(text + at, sizeof text - (size_t)at, "]}, \"task\": {\"type\": \"worker\", \"index\": %u}}", task);
    ck_assert_msg(ps_cluster_from_json(text, &c, &e) == PS_OK, "%s", e.text);
    return c;
}

static void
rendezvous_setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(conn_pool_init(&pool, &loop), PS_OK);
    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, rendezvous_ignore, 5, 5);
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        rendezvous_reserve(i);
}

/* A process begins: another one each time. */
static void
begin_as(struct rendezvous_worker *x, ps_cluster *cluster, const char *name, const char *listen)
{
    struct rendezvous_config config = {.pool = &pool,
                                       .acceptor = &x->acceptor,
                                       .cluster = cluster,
                                       .name = name,
                                       .listen = listen,
                                       .incarnation = ++incarnations,
                                       .seed = 99,
                                       .host = "here",
                                       .again_ms = AGAIN_MS,
                                       .answer_ms = 20 * AGAIN_MS,
                                       .taken_ms = 10 * AGAIN_MS};
    struct ps_error e = {0};

    memset(x, 0, sizeof *x);
    x->cluster = cluster;
    ck_assert_msg(rendezvous_new(&config, &x->r, &e) == PS_OK, "%s", e.text);
}

static void
rendezvous_open_all(uint32_t i)
{
    begin_as(&w[i], cluster_of(n, i), "group", NULL);
}

static void
start_for(struct rendezvous_worker *x, uint32_t ranks_min, uint64_t timeout_ms)
{
    struct rendezvous_ask ask = {.ranks_min = ranks_min, .settle_ms = 50, .epoch = x->table.epoch};

    uv_update_time(&loop);
    ask.deadline_ms = uv_now(&loop) + timeout_ms;
    x->done = false;
    group_membership_finish(&x->table);
    rendezvous_start(x->r, &ask);
}

static void
rendezvous_begin_one(uint32_t i, uint32_t ranks_min)
{
    start_for(&w[i], ranks_min, PATIENCE_MS);
}

static bool
rendezvous_look(struct rendezvous_worker *x)
{
    if (x->r == NULL || x->done || !rendezvous_over(x->r))
        return x->done;
    x->done = true;
    x->result = rendezvous_take(x->r, &x->table, &x->error);
    return true;
}

static void
rendezvous_turn(void)
{
    uv_run(&loop, UV_RUN_ONCE);
}

static void
until_done(uint32_t i)
{
    while (!rendezvous_look(&w[i]))
        rendezvous_turn();
}

/* Runs the loop for so long, to see that an event does not happen. */
static void
rendezvous_pass(uint64_t ms)
{
    uint64_t until;

    uv_update_time(&loop);
    until = uv_now(&loop) + ms;
    while (uv_now(&loop) < until)
        rendezvous_turn();
}

/* kill -9 */
static void
rendezvous_end_all(struct rendezvous_worker *x)
{
    if (x->r == NULL)
        return;
    rendezvous_close(x->r);
    acceptor_close(&x->acceptor);
    while (!rendezvous_closed(x->r) || !acceptor_closed(&x->acceptor))
        rendezvous_turn();
    rendezvous_free(x->r);
    ps_cluster_free(x->cluster);
    group_membership_finish(&x->table);
    memset(x, 0, sizeof *x);
}

static void
rendezvous_teardown(void)
{
    for (uint32_t i = 0; i <= WORKERS_MAX; i++)
        rendezvous_end_all(&w[i]);
    uv_close((uv_handle_t *)&tick, NULL);
    conn_pool_finish(&pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        close(reserved[i]);
}

/* They have one table: these workers, in this order. */
static void
rendezvous_on_met(uint32_t ranks, const uint32_t *tasks)
{
    const struct group_membership *first = NULL;

    for (uint32_t i = 0; i < ranks; i++) {
        const struct rendezvous_worker *x = &w[tasks[i]];

        until_done(tasks[i]);
        ck_assert_msg(x->result == PS_OK, "worker %u: %s", tasks[i], x->error.text);
        ck_assert_uint_eq(x->table.ranks, ranks);
        ck_assert_uint_eq(x->table.rank, i);
        first = first == NULL ? &x->table : first;
        ck_assert_uint_eq(x->table.epoch, first->epoch);
        ck_assert_uint_eq(x->table.id, first->id);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            ck_assert_uint_eq(x->table.members[rank].task, tasks[rank]);
            ck_assert_str_eq(x->table.members[rank].address, addresses[tasks[rank]]);
            ck_assert_uint_eq(x->table.members[rank].incarnation, first->members[rank].incarnation);
            ck_assert_str_eq(x->table.members[rank].host, "here");
        }
    }
}

#define TASKS(...)      ((const uint32_t[]){__VA_ARGS__})
#define MET(ranks, ...) rendezvous_on_met(ranks, TASKS(__VA_ARGS__))

static void
rendezvous_on_failed(struct rendezvous_worker *x, enum ps_err code, const char *says)
{
    char line[PS_ERROR_LINE_MAX];

    while (!rendezvous_look(x))
        rendezvous_turn();
    ps_error_format(&x->error, line, sizeof line);
    ck_assert_msg(x->result == code && strstr(line, says) != NULL, "%s: '%s' does not say '%s'", ps_err_name(x->result),
                  line, says);
}

START_TEST(all_meet_in_whatever_order_they_start)
{
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};

    n = 4;
    for (uint32_t i = 0; i < 4; i++) {
        rendezvous_open_all(orders[_i][i]);
        rendezvous_begin_one(orders[_i][i], 0);
        rendezvous_pass(i == 1 ? 5 * AGAIN_MS : 0); /* these two have tried all by now */
    }
    MET(4, 0, 1, 2, 3);
}
END_TEST

START_TEST(one_worker_meets_nobody)
{
    uint64_t epoch;

    n = 1;
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    until_done(0);
    ck_assert_int_eq(w[0].result, PS_OK);
    ck_assert_uint_eq(w[0].table.ranks, 1);
    epoch = w[0].table.epoch;
    ck_assert_uint_gt(epoch, 0);
    start_for(&w[0], 0, 0);
    until_done(0);
    ck_assert_int_eq(w[0].result, PS_OK);
}
END_TEST

START_TEST(hosts_that_find_a_lower_one_bring_their_guests)
{
    n = 5;
    for (uint32_t i = 4; i >= 2; i--) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    rendezvous_pass(10 * AGAIN_MS);
    rendezvous_open_all(1);
    rendezvous_begin_one(1, 0);
    rendezvous_pass(10 * AGAIN_MS);
    for (uint32_t i = 1; i < 5; i++)
        ck_assert(!rendezvous_look(&w[i]));
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    MET(5, 0, 1, 2, 3, 4);
}
END_TEST

START_TEST(survivors_meet_without_the_lowest)
{
    uint64_t epoch;

    n = 4;
    for (uint32_t i = 0; i < 4; i++) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    MET(4, 0, 1, 2, 3);
    epoch = w[1].table.epoch;
    rendezvous_end_all(&w[0]);
    for (uint32_t i = 3; i > 0; i--)
        rendezvous_begin_one(i, 3);
    MET(3, 1, 2, 3);
    ck_assert_uint_gt(w[1].table.epoch, epoch);
}
END_TEST

START_TEST(a_replacement_takes_the_place_of_the_one_that_died)
{
    uint64_t epoch, incarnation;

    n = 3;
    for (uint32_t i = 0; i < 3; i++) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    MET(3, 0, 1, 2);
    epoch = w[1].table.epoch;
    incarnation = w[1].table.members[_i].incarnation;
    rendezvous_end_all(&w[_i]);
    for (uint32_t i = 0; i < 3; i++)
        if ((int)i != _i)
            rendezvous_begin_one(i, 0);
    rendezvous_pass(5 * AGAIN_MS);
    rendezvous_open_all((uint32_t)_i);
    rendezvous_begin_one((uint32_t)_i, 0);
    MET(3, 0, 1, 2);
    ck_assert_uint_gt(w[1].table.epoch, epoch);
    ck_assert_uint_ne(w[1].table.members[_i].incarnation, incarnation);
}
END_TEST

START_TEST(who_dies_while_it_waits_is_waited_for)
{
    n = 3;
    for (uint32_t i = 0; i < 2; i++) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    rendezvous_pass(3 * AGAIN_MS);
    rendezvous_end_all(&w[_i]); /* the coordinator, or a peer */
    rendezvous_open_all(2);
    rendezvous_begin_one(2, 0);
    rendezvous_pass(5 * AGAIN_MS);
    ck_assert(!rendezvous_look(&w[1 - _i]) && !rendezvous_look(&w[2]));
    rendezvous_open_all((uint32_t)_i);
    rendezvous_begin_one((uint32_t)_i, 0);
    MET(3, 0, 1, 2);
}
END_TEST

START_TEST(who_has_not_come_is_named)
{
    n = 4;
    for (uint32_t i = 1; i < 3; i++) {
        rendezvous_open_all(i);
        start_for(&w[i], 0, 800);
    }
    rendezvous_on_failed(&w[1], PS_ERR_TIMEOUT, "at worker 1 for group 'group': workers 0, 3 have not come");
    rendezvous_on_failed(&w[2], PS_ERR_TIMEOUT, "workers 0, 3 have not come");
    for (uint32_t i = 0; i < 4; i++) { /* and it can be tried again */
        if (i == 0 || i == 3)
            rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    MET(4, 0, 1, 2, 3);
}
END_TEST

/* A listener that sends nothing: a process that is stopped, or computes. */
START_TEST(a_worker_that_does_not_answer_is_not_there)
{
    n = 3;
    ck_assert_int_eq(listen(reserved[0], 16), 0);
    for (uint32_t i = 1; i < 3; i++) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 2);
    }
    MET(2, 1, 2);
}
END_TEST

/* getaddrinfo() cannot be cancelled; the waiting worker goes on, and its next rendezvous asks again. */
START_TEST(a_name_that_hangs_ends_no_later_than_the_deadline)
{
    n = 2;
    names_set_hang(true);
    begin_as(&w[1], cluster_of(n, 1), "group", "here.invalid:0");
    start_for(&w[1], 0, AGAIN_MS);
    rendezvous_on_failed(&w[1], PS_ERR_TIMEOUT, "the address of 'here.invalid'");
    names_set_hang(false);
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    rendezvous_begin_one(1, 0);
    until_done(0);
    until_done(1);
    ck_assert_int_eq(w[0].result, PS_OK);
    ck_assert_str_eq(w[0].table.members[1].address, w[1].acceptor.address);
    ck_assert_int_eq(strncmp(w[1].acceptor.address, "127.0.0.1:", 10), 0);
    names_wait_answered(2);
}
END_TEST

START_TEST(a_name_is_waited_for)
{
    const unsigned port = (unsigned)atoi(strrchr(addresses[0], ':') + 1);

    n = 2;
    snprintf(addresses[0], sizeof addresses[0], "here.invalid:%u", port);
    names_set_hang(true);
    rendezvous_open_all(0);
    rendezvous_open_all(1);
    rendezvous_begin_one(0, 0);
    rendezvous_begin_one(1, 0);
    rendezvous_pass(5 * AGAIN_MS);
    ck_assert(!rendezvous_look(&w[0]) && !rendezvous_look(&w[1]));
    names_set_hang(false);
    until_done(0);
    until_done(1);
    ck_assert_int_eq(w[0].result, PS_OK);
    ck_assert_int_eq(w[1].result, PS_OK);
    ck_assert_uint_eq(w[1].table.ranks, 2);
}
END_TEST

START_TEST(a_name_of_nothing_is_said)
{
    n = 2;
    begin_as(&w[0], cluster_of(n, 0), "group", "nowhere.invalid:0");
    rendezvous_begin_one(0, 0);
    rendezvous_on_failed(&w[0], PS_ERR_UNREACHABLE, "'nowhere.invalid:0'");
}
END_TEST

/* It is closed while its name hangs; the thread returns after that. */
START_TEST(who_is_closed_leaves_its_name_behind)
{
    n = 2;
    names_set_hang(true);
    begin_as(&w[1], cluster_of(n, 1), "group", "here.invalid:0");
    rendezvous_begin_one(1, 0);
    rendezvous_pass(AGAIN_MS);
    rendezvous_end_all(&w[1]);
    names_set_hang(false);
    names_wait_answered(1);
}
END_TEST

START_TEST(another_process_of_a_worker_is_refused)
{
    n = 2;
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    rendezvous_pass(3 * AGAIN_MS);
    begin_as(&w[WORKERS_MAX], cluster_of(n, 0), "group", NULL);
    start_for(&w[WORKERS_MAX], 0, PATIENCE_MS);
    rendezvous_on_failed(&w[WORKERS_MAX], PS_ERR_TASK_TAKEN, addresses[0]); /* the port is held */
    rendezvous_end_all(&w[WORKERS_MAX]);
    rendezvous_open_all(1);
    rendezvous_begin_one(1, 0);
    MET(2, 0, 1);
}
END_TEST

START_TEST(two_guests_of_one_index_do_not_fit)
{
    n = 3;
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    rendezvous_open_all(1);
    rendezvous_begin_one(1, 0);
    rendezvous_pass(5 * AGAIN_MS);
    begin_as(&w[WORKERS_MAX], cluster_of(n, 1), "group", "127.0.0.1:0");
    start_for(&w[WORKERS_MAX], 0, PATIENCE_MS);
    rendezvous_on_failed(&w[WORKERS_MAX], PS_ERR_TASK_TAKEN, "worker 1 of group 'group' waits at worker 0 already");
    rendezvous_open_all(2);
    rendezvous_begin_one(2, 0);
    MET(3, 0, 1, 2);
}
END_TEST

START_TEST(who_belongs_elsewhere_is_refused)
{
    ps_cluster *c;

    n = 3;
    rendezvous_open_all(0);
    rendezvous_begin_one(0, 0);
    c = cluster_of(2, 1);
    begin_as(&w[6], c, "group", "127.0.0.1:0");
    start_for(&w[6], 0, PATIENCE_MS);
    rendezvous_on_failed(&w[6], PS_ERR_CLUSTER, "comes from a cluster of 2");
    c = cluster_of(3, 1);
    ck_assert_int_eq(ps_cluster_set_name(c, "another", NULL), PS_OK);
    begin_as(&w[7], c, "group", "127.0.0.1:0");
    start_for(&w[7], 0, PATIENCE_MS);
    rendezvous_on_failed(&w[7], PS_ERR_CLUSTER, "worker 1 belongs to 'another'");
    begin_as(&w[8], cluster_of(3, 1), "others", "127.0.0.1:0");
    start_for(&w[8], 0, PATIENCE_MS);
    rendezvous_on_failed(&w[8], PS_ERR_MISMATCH, "forms group 'group' here");
    for (uint32_t i = 1; i < 3; i++) {
        rendezvous_open_all(i);
        rendezvous_begin_one(i, 0);
    }
    MET(3, 0, 1, 2);
}
END_TEST

/* Workers begin and die in random order until all are left alive. */
START_TEST(any_crowd_meets_in_the_end)
{
    struct test_rng r = {test_seed() + (uint64_t)_i};

    n = 4;
    for (int step = 0; step < 25; step++) {
        uint32_t i = (uint32_t)test_below(&r, n);

        if (w[i].r != NULL && test_below(&r, 3) == 0)
            rendezvous_end_all(&w[i]);
        if (w[i].r == NULL)
            rendezvous_open_all(i);
        if (rendezvous_look(&w[i]) || !w[i].done)
            if (rendezvous_over(w[i].r))
                rendezvous_begin_one(i, 0);
        rendezvous_pass(test_below(&r, 3 * AGAIN_MS));
    }
    for (;;) { /* some may have met and others been lost on the way: all begin again, as the ranks of a group do */
        for (uint32_t i = 0; i < n; i++) {
            if (w[i].r == NULL)
                rendezvous_open_all(i);
            rendezvous_look(&w[i]);
            if (rendezvous_over(w[i].r))
                rendezvous_begin_one(i, 0);
        }
        for (uint32_t i = 0; i < n; i++)
            until_done(i);
        if (w[0].table.id == w[1].table.id && w[1].table.id == w[2].table.id && w[2].table.id == w[3].table.id)
            break;
    }
    MET(4, 0, 1, 2, 3);
}
END_TEST

START_TEST(clusters_that_cannot_meet_are_refused)
{
    struct rendezvous_config config = {.pool = &pool, .acceptor = &w[0].acceptor, .name = "group", .incarnation = 1};
    struct rendezvous *r;
    struct ps_error e;
    ps_cluster *c;

    ck_assert_int_eq(ps_cluster_from_json("{\"cluster\": {\"worker\": [\"a:1\", \"unix:/x\"]}, \"task\": {\"type\": "
                                          "\"worker\", \"index\": 0}}",
                                          &c, &e),
                     PS_OK);
    config.cluster = c;
    ck_assert_int_eq(rendezvous_new(&config, &r, &e), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "the address of worker 1"));
    config.name = "a\n";
    ps_cluster_free(c);
    c = cluster_of(2, 0);
    config.cluster = c;
    ck_assert_int_eq(rendezvous_new(&config, &r, &e), PS_ERR_INVALID);
    ps_cluster_free(c);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("rendezvous");
    TCase *tc = tcase_create("rendezvous");

    tcase_add_checked_fixture(tc, rendezvous_setup, rendezvous_teardown);
    tcase_set_timeout(tc, 150);
    tcase_add_loop_test(tc, all_meet_in_whatever_order_they_start, 0, 3);
    tcase_add_test(tc, one_worker_meets_nobody);
    tcase_add_test(tc, hosts_that_find_a_lower_one_bring_their_guests);
    tcase_add_test(tc, survivors_meet_without_the_lowest);
    tcase_add_loop_test(tc, a_replacement_takes_the_place_of_the_one_that_died, 0, 3);
    tcase_add_loop_test(tc, who_dies_while_it_waits_is_waited_for, 0, 2);
    tcase_add_test(tc, who_has_not_come_is_named);
    tcase_add_test(tc, a_worker_that_does_not_answer_is_not_there);
    tcase_add_test(tc, a_name_that_hangs_ends_no_later_than_the_deadline);
    tcase_add_test(tc, a_name_is_waited_for);
    tcase_add_test(tc, a_name_of_nothing_is_said);
    tcase_add_test(tc, who_is_closed_leaves_its_name_behind);
    tcase_add_test(tc, another_process_of_a_worker_is_refused);
    tcase_add_test(tc, two_guests_of_one_index_do_not_fit);
    tcase_add_test(tc, who_belongs_elsewhere_is_refused);
    tcase_add_loop_test(tc, any_crowd_meets_in_the_end, 0, 2);
    tcase_add_test(tc, clusters_that_cannot_meet_are_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
