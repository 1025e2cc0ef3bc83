/* Groups of real processes that meet: through psd, whose ports alone are known, and among themselves, where only their
 * own are. Late ones, killed ones, replacements, strangers; and psd killed in the middle. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "tests/system/proxy.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define WORKERS_MAX 5
#define PATIENCE_MS 60000 /* for calls that should be short */
#define LOOK_MS     20000 /* for meeting, where one rank cannot */
#define SAID_MAX    1024

/* ---- Workers ---- */

struct group_rendezvous_worker {
    pid_t pid;
    int say, hear; /* to it, from it */
};

struct rendezvous_order {
    uint32_t workers, task, ranks_min;
    const char *cluster; /* NULL: "test" */
    const char *group;   /* NULL: "crew" */
    const char *listen;
    const char *shards; /* NULL: where they are */
    int timeout_ms;     /* 0: PATIENCE_MS */
    int threaded;
};

static struct shards shards;
static bool by_shard;
static struct group_rendezvous_worker w[WORKERS_MAX + 1];
static int reserved[WORKERS_MAX]; /* bound, not listening: the ports stay ours */
static char addresses[WORKERS_MAX][32];

/* In the worker: its state, as one line. */
static void
rendezvous_tell(int out, enum ps_err err, ps_group *g, const struct ps_error *e)
{
    char line[SAID_MAX];
    float task = g != NULL ? (float)(1u << ps_group_task(g, ps_group_rank(g))) : 0, sum = 0;
    struct ps_error why = {0};

    if (err == PS_OK && (err = ps_group_all_reduce(g, &task, &sum, 1, PS_F32, PS_SUM, NULL, &why)) != PS_OK)
        e = &why;
    if (err == PS_OK)
        snprintf(line, sizeof line, "OK %llu %u %u %.0f\n", (unsigned long long)ps_group_epoch(g), ps_group_ranks(g),
                 ps_group_rank(g), (double)sum);
    else
        snprintf(line, sizeof line, "%s %.700s (%s)\n", ps_err_name(err), e->text, e->peer);
    if (write(out, line, strlen(line)) < 0)
        _exit(3);
}

static ps_cluster *
cluster_of(const struct rendezvous_order *o)
{
    char text[1024];
    ps_cluster *c = NULL;
    int at;

    if (by_shard) {
        if (ps_cluster_from_list(o->shards != NULL ? o->shards : shards.addresses, o->workers, o->task, &c, NULL) !=
            PS_OK)
            _exit(4);
    } else {
        at = snprintf(text, sizeof text, "{\"cluster\": {\"worker\": [");
        for (uint32_t i = 0; i < o->workers; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s\"", i > 0 ? ", " : "", addresses[i]);
        snprintf(text + at, sizeof text - (size_t)at, "]}, \"task\": {\"type\": \"worker\", \"index\": %u}}", o->task);
        if (ps_cluster_from_json(text, &c, NULL) != PS_OK)
            _exit(4);
    }
    if (ps_cluster_set_name(c, o->cluster != NULL ? o->cluster : SHARDS_CLUSTER, NULL) != PS_OK)
        _exit(4);
    return c;
}

/* Admit waiting workers, and print the result: "KEPT" and why, or the group. all: until the group has all workers. */
static void
rendezvous_admit(ps_group *g, bool all, uint32_t workers, int out)
{
    struct ps_error e = {0}, why = {0};
    char line[SAID_MAX];
    enum ps_err err;
    int formed;

    do
        err = ps_group_admit(g, all ? -1 : LOOK_MS, &formed, &e);
    while (all && err == PS_OK && ps_group_ranks(g) < workers);
    if (err == PS_OK || ps_group_state(g, &why) != PS_OK) {
        rendezvous_tell(out, err, g, &e);
        return;
    }
    snprintf(line, sizeof line, "KEPT %d %s %.700s (%s)\n", formed, ps_err_name(err), e.text, e.peer);
    if (write(out, line, strlen(line)) < 0)
        _exit(3);
    rendezvous_tell(out, PS_OK, g, &e);
}

/* Open the group; then "r" and a number form it again with at least so many, "a" admits waiting workers, "A" until all
 * are there, "q" and the end of the pipe end it. */
static void
worker_main(const struct rendezvous_order *o, int in, int out)
{
    struct ps_group_options options = {.name = o->group != NULL ? o->group : "crew",
                                       .ranks_min = o->ranks_min,
                                       .settle_ms = 300,
                                       .listen = o->listen,
                                       .progress_thread = o->threaded,
                                       .timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : PATIENCE_MS};
    ps_cluster *cluster = cluster_of(o);
    struct ps_error e = {0};
    ps_group *g = NULL;
    char what[2];
    enum ps_err err = ps_group_open(cluster, &options, &g, &e);

    rendezvous_tell(out, err, g, &e);
    while (g != NULL && read(in, what, 2) == 2 && strchr("raA", what[0]) != NULL) {
        if (what[0] != 'r') {
            rendezvous_admit(g, what[0] == 'A', o->workers, out);
            continue;
        }
        err = ps_group_reform(g, (uint32_t)(what[1] - '0'), -1, &e);
        rendezvous_tell(out, err, g, &e);
    }
    ps_group_close(g);
    ps_cluster_free(cluster);
    _exit(0);
}

static void
rendezvous_start(uint32_t slot, const struct rendezvous_order *o)
{
    int to[2], from[2];
    pid_t parent = getpid();

    ck_assert_int_eq(w[slot].pid, 0);
    ck_assert(pipe(to) == 0 && pipe(from) == 0);
    w[slot].pid = fork();
    ck_assert_int_ge(w[slot].pid, 0);
    if (w[slot].pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(5);
        close(to[1]);
        close(from[0]);
        for (uint32_t i = 0; i <= WORKERS_MAX; i++)
            if (i != slot && w[i].pid != 0) {
                close(w[i].say);
                close(w[i].hear);
            }
        worker_main(o, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    w[slot].say = to[1];
    w[slot].hear = from[0];
}

static void
start_one(uint32_t workers, uint32_t task)
{
    rendezvous_start(task, &(struct rendezvous_order){.workers = workers, .task = task});
}

/* It may close its group, which is quick when the others do so, too. */
static void
rendezvous_dismiss(uint32_t slot)
{
    if (w[slot].pid != 0 && w[slot].say >= 0)
        close(w[slot].say);
    w[slot].say = -1;
}

/* Gone: killed, or by itself with 0. */
static void
rendezvous_end(uint32_t slot, bool kill_it)
{
    struct group_rendezvous_worker *x = &w[slot];
    int status;

    if (x->pid == 0)
        return;
    if (kill_it)
        kill(x->pid, SIGKILL);
    rendezvous_dismiss(slot);
    ck_assert_int_eq(waitpid(x->pid, &status, 0), x->pid);
    close(x->hear);
    if (!kill_it)
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "worker %u ended with %x", slot, status);
    *x = (struct group_rendezvous_worker){0};
}

/* The next line that it prints. */
static const char *
rendezvous_heard(uint32_t slot)
{
    static char line[SAID_MAX];
    struct pollfd p = {.fd = w[slot].hear, .events = POLLIN};
    size_t n = 0;

    while (n + 1 < sizeof line) {
        ck_assert_msg(poll(&p, 1, 2 * PATIENCE_MS) == 1, "worker %u says nothing", slot);
        ck_assert_msg(read(w[slot].hear, line + n, 1) == 1, "worker %u is gone", slot);
        if (line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    return line;
}

static bool
is_silent(uint32_t slot)
{
    struct pollfd p = {.fd = w[slot].hear, .events = POLLIN};

    return poll(&p, 1, 0) == 0;
}

/* These are one group, of these tasks alone. Returns its epoch. */
static unsigned long long
rendezvous_met_all(uint32_t ranks, const uint32_t *tasks)
{
    unsigned long long epoch, first = 0;
    unsigned sum = 0, n, rank;
    double total;

    for (uint32_t i = 0; i < ranks; i++)
        sum += 1u << tasks[i];
    for (uint32_t i = 0; i < ranks; i++) {
        const char *line = rendezvous_heard(tasks[i]);

        ck_assert_msg(sscanf(line, "OK %llu %u %u %lf", &epoch, &n, &rank, &total) == 4, "worker %u: %s", tasks[i],
                      line);
        first = first == 0 ? epoch : first;
        ck_assert_msg(epoch == first && n == ranks && rank == i && total == sum, "worker %u: %s", tasks[i], line);
    }
    return first;
}

#define MET(ranks, ...) rendezvous_met_all(ranks, (const uint32_t[]){__VA_ARGS__})

static bool
is_refusal(const char *line, enum ps_err code, const char *says)
{
    const char *name = ps_err_name(code);

    return strncmp(line, name, strlen(name)) == 0 && strstr(line, says) != NULL;
}

static void
rendezvous_refused(uint32_t slot, enum ps_err code, const char *says)
{
    const char *line = rendezvous_heard(slot);

    ck_assert_msg(is_refusal(line, code, says), "'%s' is not %s, %s", line, ps_err_name(code), says);
    rendezvous_end(slot, false);
}

/* A group of its own that is refused at its deadline: a short one, and a longer one where the machine is so busy that
 * it failed before the first. */
static void
lonely_is_refused(enum ps_err code, const char *says)
{
    struct rendezvous_order o = {.workers = 3, .task = 1, .group = "lonely"};

    for (o.timeout_ms = 500; o.timeout_ms < 10000; o.timeout_ms *= 4) {
        bool well;

        rendezvous_start(4, &o);
        well = is_refusal(rendezvous_heard(4), code, says);
        rendezvous_end(4, false);
        if (well)
            return;
    }
    rendezvous_start(4, &o);
    rendezvous_refused(4, code, says);
}

static void
rendezvous_again(uint32_t slot, uint32_t ranks_min)
{
    char what[2] = {'r', (char)('0' + ranks_min)};

    ck_assert_int_eq(write(w[slot].say, what, 2), 2);
}

static void
let_in(uint32_t slot, char how)
{
    char what[2] = {how, '0'};

    ck_assert_int_eq(write(w[slot].say, what, 2), 2);
}

/* Its group goes on although it could not meet. Returns the epoch of the two. */
static unsigned long long
rendezvous_kept(const char *says_0, const char *says_1)
{
    const char *says[] = {says_0, says_1};

    for (uint32_t i = 0; i < 2; i++) {
        const char *line = rendezvous_heard(i);

        ck_assert_msg(strncmp(line, "KEPT 0 ", 7) == 0 && strstr(line, says[i]) != NULL, "'%s' does not say '%s'", line,
                      says[i]);
    }
    return MET(2, 0, 1);
}

/* Gives an event that must not happen time to happen. */
static void
a_moment(void)
{
    usleep(300000);
}

/* ---- Where they meet ---- */

static void
rendezvous_reserve(uint32_t i)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int yes = 1;

    reserved[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(reserved[i], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    ck_assert_int_eq(bind(reserved[i], (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(getsockname(reserved[i], (struct sockaddr *)&at, &len), 0);
    snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", ntohs(at.sin_port));
}

static void
setup_shard(void)
{
    signal(SIGPIPE, SIG_IGN);
    by_shard = true;
    shards_start(&shards, 1);
}

static void
setup_alone(void)
{
    signal(SIGPIPE, SIG_IGN);
    by_shard = false;
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        rendezvous_reserve(i);
}

static void
rendezvous_teardown(void)
{
    for (uint32_t i = 0; i <= WORKERS_MAX; i++)
        rendezvous_end(i, true);
    if (by_shard)
        shards_stop(&shards);
    for (uint32_t i = 0; !by_shard && i < WORKERS_MAX; i++)
        close(reserved[i]);
}

/* ---- In both ways ---- */

START_TEST(workers_meet_however_late_one_is)
{
    start_one(3, 2);
    start_one(3, 1);
    a_moment();
    ck_assert(is_silent(1) && is_silent(2));
    start_one(3, 0);
    MET(3, 0, 1, 2);
    for (uint32_t i = 0; i < 3; i++)
        rendezvous_dismiss(i);
    for (uint32_t i = 0; i < 3; i++)
        rendezvous_end(i, false);
}
END_TEST

START_TEST(who_is_killed_while_it_waits_is_replaced)
{
    start_one(3, 0);
    start_one(3, 1);
    a_moment();
    rendezvous_end(0, true); /* without psd it was the coordinator */
    start_one(3, 2);
    a_moment();
    ck_assert(is_silent(1) && is_silent(2));
    start_one(3, 0);
    MET(3, 0, 1, 2);
}
END_TEST

START_TEST(survivors_form_the_group_anew)
{
    unsigned long long epoch;

    for (uint32_t i = 0; i < 4; i++)
        start_one(4, i);
    epoch = MET(4, 0, 1, 2, 3);
    rendezvous_end(0, true);
    for (uint32_t i = 1; i < 4; i++)
        rendezvous_again(i, 3);
    ck_assert_uint_gt(MET(3, 1, 2, 3), epoch);
}
END_TEST

START_TEST(a_replacement_is_waited_for)
{
    unsigned long long epoch;

    for (uint32_t i = 0; i < 3; i++)
        start_one(3, i);
    epoch = MET(3, 0, 1, 2);
    rendezvous_end(0, true);
    rendezvous_again(1, 0);
    rendezvous_again(2, 0);
    a_moment();
    ck_assert(is_silent(1) && is_silent(2));
    start_one(3, 0);
    ck_assert_uint_gt(MET(3, 0, 1, 2), epoch);
    rendezvous_again(1, 0); /* none of them died: all of them report so */
    rendezvous_again(0, 0);
    rendezvous_again(2, 0);
    ck_assert_uint_gt(MET(3, 0, 1, 2), epoch + 1);
}
END_TEST

/* Two of three, of which the third was lost. */
static unsigned long long
start_two(const struct rendezvous_order *o)
{
    struct rendezvous_order order = *o;

    order.workers = 3;
    for (order.task = 0; order.task < 3; order.task++)
        rendezvous_start(order.task, &order);
    MET(3, 0, 1, 2);
    rendezvous_end(2, true);
    rendezvous_again(0, 2);
    rendezvous_again(1, 2);
    return MET(2, 0, 1);
}

START_TEST(who_waits_is_let_in)
{
    struct rendezvous_order o = {.workers = 3, .task = 2, .threaded = _i};
    unsigned long long epoch = start_two(&o);

    for (int i = 0; i < 2; i++) { /* no worker waits */
        let_in(0, 'a');
        let_in(1, 'a');
        ck_assert_uint_eq(MET(2, 0, 1), epoch);
    }
    rendezvous_start(2, &o);
    let_in(0, 'A');
    let_in(1, 'A');
    ck_assert_uint_gt(MET(3, 0, 1, 2), epoch);
    rendezvous_end(0, true);
    rendezvous_again(1, 2);
    rendezvous_again(2, 2);
    ck_assert_uint_gt(MET(2, 1, 2), epoch + 1);
}
END_TEST

START_TEST(who_is_lost_while_they_look_is_named)
{
    start_two(&(struct rendezvous_order){.threaded = _i});
    let_in(1, 'A');
    a_moment();
    ck_assert(is_silent(1));
    rendezvous_end(0, true);
    rendezvous_refused(1, PS_ERR_CLOSED, "(rank 0 at ");
}
END_TEST

START_TEST(strangers_are_refused_and_harm_nobody)
{
    start_one(3, 0);
    start_one(3, 1);
    a_moment();
    if (by_shard)
        lonely_is_refused(PS_ERR_TIMEOUT, "at shard 0 for group 'lonely': workers 0, 2 have not come");
    rendezvous_start(5, &(struct rendezvous_order){.workers = 3, .task = 1, .listen = "127.0.0.1:0"});
    rendezvous_refused(5, PS_ERR_TASK_TAKEN, "worker 1 of group 'crew' waits");
    rendezvous_start(5,
                     &(struct rendezvous_order){.workers = 3, .task = 2, .listen = "127.0.0.1:0", .cluster = "others"});
    rendezvous_refused(5, PS_ERR_CLUSTER, "others");
    rendezvous_start(5, &(struct rendezvous_order){.workers = 4, .task = 3, .listen = "127.0.0.1:0"});
    rendezvous_refused(5, PS_ERR_CLUSTER, "a cluster of 4");
    start_one(3, 2);
    MET(3, 0, 1, 2);
}
END_TEST

/* ---- Through psd ---- */

START_TEST(psd_is_killed_while_they_wait)
{
    start_one(3, 0);
    start_one(3, 1);
    a_moment();
    shards_kill(&shards, 0);
    lonely_is_refused(PS_ERR_UNREACHABLE, "shard 0 at 127.0.0.1:");
    ck_assert(is_silent(0) && is_silent(1));
    shards_restart(&shards, 0);
    start_one(3, 2);
    MET(3, 0, 1, 2);
}
END_TEST

/* The group outlives the shard where it was formed. */
START_TEST(a_group_goes_on_while_psd_is_away)
{
    struct rendezvous_order o = {.workers = 3, .task = 2, .threaded = _i};
    unsigned long long epoch = start_two(&o);

    shards_kill(&shards, 0);
    let_in(0, 'a');
    let_in(1, 'a');
    ck_assert_uint_eq(rendezvous_kept("UNREACHABLE", "UNREACHABLE"), epoch);
    shards_restart(&shards, 0);
    rendezvous_start(2, &o);
    let_in(0, 'A');
    let_in(1, 'A');
    ck_assert_uint_gt(MET(3, 0, 1, 2), epoch);
}
END_TEST

/* One cannot meet: the others are notified, and keep the group; so is the new worker that was at the meeting, by a rank
 * that drives its network. */
START_TEST(a_group_goes_on_when_one_of_them_cannot_meet)
{
    unsigned long long epoch;
    struct proxy proxy;

    proxy_start(&proxy, &shards);
    rendezvous_start(1, &(struct rendezvous_order){.workers = 3, .task = 1, .shards = proxy.addresses, .threaded = 1});
    rendezvous_start(0, &(struct rendezvous_order){.workers = 3, .task = 0, .threaded = 1});
    start_one(3, 2);
    MET(3, 0, 1, 2);
    rendezvous_end(2, true);
    rendezvous_again(0, 2);
    rendezvous_again(1, 2);
    epoch = MET(2, 0, 1);
    proxy_stop(&proxy);
    rendezvous_start(2, &(struct rendezvous_order){.workers = 3, .task = 2, .ranks_min = 2});
    let_in(0, 'a');
    let_in(1, 'a');
    ck_assert_uint_eq(rendezvous_kept("UNREACHABLE rank 1 did not get to meet the others (rank 1 at ", "UNREACHABLE"),
                      epoch);
    rendezvous_refused(2, PS_ERR_CLUSTER, "this is another forming of the group");
}
END_TEST

static void
add_both(TCase *tc)
{
    tcase_set_timeout(tc, 250);
    tcase_add_test(tc, workers_meet_however_late_one_is);
    tcase_add_test(tc, who_is_killed_while_it_waits_is_replaced);
    tcase_add_test(tc, survivors_form_the_group_anew);
    tcase_add_test(tc, a_replacement_is_waited_for);
    tcase_add_loop_test(tc, who_waits_is_let_in, 0, 2);
    tcase_add_loop_test(tc, who_is_lost_while_they_look_is_named, 0, 2);
    tcase_add_test(tc, strangers_are_refused_and_harm_nobody);
}

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("meeting");
    TCase *shard = tcase_create("through psd"), *alone = tcase_create("among themselves");

    tcase_add_checked_fixture(shard, setup_shard, rendezvous_teardown);
    add_both(shard);
    tcase_add_test(shard, psd_is_killed_while_they_wait);
    tcase_add_loop_test(shard, a_group_goes_on_while_psd_is_away, 0, 2);
    tcase_add_test(shard, a_group_goes_on_when_one_of_them_cannot_meet);
    tcase_add_checked_fixture(alone, setup_alone, rendezvous_teardown);
    add_both(alone);
    suite_add_tcase(suite, shard);
    suite_add_tcase(suite, alone);
    return suite;
}

CHECK_MAIN(make_suite)
