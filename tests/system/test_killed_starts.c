/* A psd that is killed with signal 9 at any system call of its start needs nothing but another start: with the same
 * command line it serves what it has to serve. Every kind of start is tried: data that are kept, rebuilt from the
 * durable directory (after the live one was lost, or was left by another boot), restored from a checkpoint, and none.
 *
 * The start is traced (ptrace) and stopped before and after each of its system calls, in all of its threads; at one of
 * these stops it is killed. A sample of the stops is tried, chosen with PSD_TEST_SEED; PSD_TEST_ALL=1 tries them all.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/remove_tree.h"
#include "tests/system/fine.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/memory_dir.h"

enum { SAMPLE = 5, WEIGHTS = 3000, SAVED = 2, LOGGED = 3, READY_MS = 60000, READY_FD = 3, WORDS_MAX = 32 };

static struct ps_error error;
static struct test_rng rng;
static char dir[96];
static char words_text[WORDS_MAX][256];
static const char *words[WORDS_MAX]; /* of the command line */
static size_t words_len;

/* ---- Files ---- */

static const char *
in_dir(const char *name)
{
    static char path[8][256];
    static size_t next;
    char *out = path[next++ % ARRAY_LEN(path)];

    snprintf(out, sizeof path[0], "%s/%s", dir, name);
    return out;
}

static void
killed_lose(const char *name)
{
    (void)remove_tree(in_dir(name));
}

/* As after a power cut on a disk: the file is there, and another boot wrote it. */
static void
write_boot(const char *text)
{
    int fd = open(in_dir("live/boot"), O_WRONLY | O_TRUNC);

    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* ---- psd ---- */

struct started {
    pid_t pid;
    int ready; /* it writes its address there */
    char address[64];
};

static void
killed_word(const char *word)
{
    ck_assert_uint_lt(words_len, WORDS_MAX - 1);
    ck_assert_int_lt(snprintf(words_text[words_len], sizeof words_text[0], "%s", word), sizeof words_text[0]);
    words[words_len] = words_text[words_len];
    words_len++;
    words[words_len] = NULL;
}

static void
killed_command(const char *durable, const char *more, const char *value)
{
    const char *const usual[] = {"psd",        "--listen",   "127.0.0.1:0",  "--cluster",     "test",
                                 "--ready-fd", "3",          "--memory",     "64MiB",         "--log-level",
                                 "error",      "--live-dir", in_dir("live"), "--durable-dir", durable};

    words_len = 0;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        killed_word(usual[i]);
    if (more != NULL)
        killed_word(more);
    if (value != NULL)
        killed_word(value);
}

static struct started
killed_launch(bool traced)
{
    struct started s = {.address = ""};
    int ready[2];

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    if ((s.pid = fork()) == 0) {
        dup2(ready[1], READY_FD);
        if (READY_FD == ready[1])
            fcntl(READY_FD, F_SETFD, 0);
        if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(126);
        execv(getenv("PSD_BIN"), (char *const *)(uintptr_t)words);
        _exit(127);
    }
    ck_assert_int_gt(s.pid, 0);
    close(ready[1]);
    s.ready = ready[0];
    return s;
}

static void
killed_end(struct started *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, __WALL);
    close(s->ready);
}

/* False: it ended. */
static bool
killed_serves(struct started *s)
{
    struct pollfd p = {.fd = s->ready, .events = POLLIN};
    ssize_t n;

    ck_assert_int_eq(poll(&p, 1, READY_MS), 1);
    n = read(s->ready, s->address, sizeof s->address - 1);
    if (n <= 0)
        return false;
    s->address[strcspn(s->address, "\n")] = '\0';
    return true;
}

/* ---- Tracing ---- */

/* Stops at system calls are counted from the first directory that is made: before that nothing is touched. */
struct killed_trace {
    uint64_t stops, kill_at; /* 0: never */
    bool counts;
};

static void
killed_see(struct killed_trace *t, pid_t thread)
{
    struct ptrace_syscall_info info = {0};

    if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_mkdirat)
        t->counts = true;
#ifdef SYS_mkdir
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_mkdir)
        t->counts = true;
#endif
    t->stops += t->counts;
}

static bool
killed_is_ready(const struct started *s)
{
    struct pollfd p = {.fd = s->ready, .events = POLLIN};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

/* What a stopped thread is to go on with: the signal that stopped it, if it was one. */
static int
killed_passes(int status)
{
    int number = WSTOPSIG(status);

    return number == SIGTRAP || number == (SIGTRAP | 0x80) || number == SIGSTOP ? 0 : number;
}

/* Runs it until it is killed, ends, or is ready; then it is killed as well. */
static void
killed_follow(const struct started *s, struct killed_trace *t)
{
    int status;
    pid_t thread;

    ck_assert_int_eq(waitpid(s->pid, &status, __WALL), s->pid);
    ck_assert_msg(WIFSTOPPED(status), "it cannot be traced: %x", (unsigned)status);
    ck_assert_int_eq(
        ptrace(PTRACE_SETOPTIONS, s->pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL), 0);
    ptrace(PTRACE_SYSCALL, s->pid, NULL, NULL);
    while ((thread = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status))
            continue;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            killed_see(t, thread);
        if ((t->kill_at != 0 && t->stops >= t->kill_at) || killed_is_ready(s))
            kill(s->pid, SIGKILL);
        ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(uintptr_t)killed_passes(status));
    }
}

/* Returns how many stops there were. */
static uint64_t
killed_at(uint64_t stop)
{
    struct killed_trace t = {.kill_at = stop};
    struct started s = killed_launch(true);

    killed_follow(&s, &t);
    close(s.ready);
    return t.stops;
}

/* ---- What it serves ---- */

static ps_client *
killed_connect(const struct started *s, ps_var **v)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {WEIGHTS}, .optimizer = {.learning_rate = 1}};
    struct ps_client_options options = {.mode = PS_ASYNC};
    ps_cluster *cluster;
    ps_client *c;

    FINE(ps_cluster_from_list(s->address, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, "test", &error));
    FINE(ps_client_open(cluster, &options, &c, &error));
    ps_cluster_free(cluster);
    FINE(ps_client_declare(c, &spec, v, &error));
    return c;
}

static void
killed_push(ps_client *c, ps_var *v, bool durable, int times)
{
    struct ps_push_options options = {.flags = durable ? PS_PUSH_DURABLE : 0};
    static float ones[WEIGHTS];

    for (int i = 0; i < WEIGHTS; i++)
        ones[i] = 1;
    for (int i = 0; i < times; i++)
        FINE(ps_client_push(c, 1, &v, (const float *const[]){ones}, &options, &error));
}

static void
killed_values_are(const struct started *s, float value, const char *kind, uint64_t stop)
{
    static float out[WEIGHTS];
    ps_var *v;
    ps_client *c = killed_connect(s, &v);

    FINE(ps_client_pull(c, 1, &v, (float *[]){out}, NULL, &error));
    for (int i = 0; i < WEIGHTS; i++)
        ck_assert_msg(out[i] == value, "%s, killed at stop %llu: weight %d is %g, not %g", kind,
                      (unsigned long long)stop, i, (double)out[i], (double)value);
    ps_client_close(c);
}

/* ---- Trials ---- */

static void
killed_try(const char *kind, void (*before)(void), float value, uint64_t stop)
{
    struct started s;

    before();
    (void)killed_at(stop);
    s = killed_launch(false);
    ck_assert_msg(killed_serves(&s), "%s, killed at stop %llu: the next start refuses", kind, (unsigned long long)stop);
    killed_values_are(&s, value, kind, stop);
    killed_end(&s);
}

static void
killed_everywhere(const char *kind, void (*before)(void), float value)
{
    const char *all = getenv("PSD_TEST_ALL");
    uint64_t stops, trials;

    before();
    stops = killed_at(0);
    ck_assert_uint_gt(stops, 100);
    trials = all != NULL && *all != '\0' ? stops : SAMPLE;
    fprintf(stderr, "# %s: killed at %llu of %llu stops\n", kind, (unsigned long long)trials,
            (unsigned long long)stops);
    for (uint64_t i = 0; i < trials; i++) { /* one from each part of the start */
        uint64_t from = stops * i / trials, until = stops * (i + 1) / trials;

        killed_try(kind, before, value, 1 + from + test_below(&rng, until - from));
    }
}

/* ---- The kinds ---- */

static void
killed_setup(void)
{
    rng.state = test_seed();
    snprintf(dir, sizeof dir, "%s/psd-starts-XXXXXX", memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
killed_teardown(void)
{
    (void)remove_tree(dir);
}

/* A save with some updates in it, more in the redo log, and a checkpoint of the former. */
static void
make_data(bool durable)
{
    struct ps_checkpoint_options options = {.name = "one"};
    struct started s;
    char *made = NULL;
    ps_client *c;
    ps_var *v;

    killed_command(durable ? in_dir("disk") : "none", durable ? "--save-interval" : NULL, durable ? "1h" : NULL);
    s = killed_launch(false);
    ck_assert(killed_serves(&s));
    c = killed_connect(&s, &v);
    killed_push(c, v, durable, SAVED);
    if (durable) {
        FINE(ps_client_checkpoint(c, in_dir("backups"), &options, 60000, &made, &error));
        ps_free(made);
        FINE(ps_client_save(c, 0, 60000, NULL, &error));
        killed_push(c, v, true, LOGGED);
    }
    ps_client_close(c);
    killed_end(&s);
}

static void
nothing_is_done(void)
{
}

static void
live_is_lost(void)
{
    killed_lose("live");
}

static void
live_is_of_another_boot(void)
{
    write_boot("11111111-2222-3333-4444-555555555555 open\n");
}

static void
all_is_lost(void)
{
    killed_lose("live");
    killed_lose("disk");
}

START_TEST(a_start_that_keeps_its_data_may_be_killed_anywhere)
{
    make_data(true);
    killed_everywhere("kept", nothing_is_done, -(SAVED + LOGGED));
}
END_TEST

START_TEST(a_start_that_rebuilds_may_be_killed_anywhere)
{
    make_data(true);
    killed_everywhere("rebuilt", live_is_lost, -(SAVED + LOGGED));
}
END_TEST

START_TEST(a_start_that_rebuilds_over_stale_data_may_be_killed_anywhere)
{
    make_data(true);
    killed_everywhere("rebuilt over stale data", live_is_of_another_boot, -(SAVED + LOGGED));
}
END_TEST

START_TEST(a_start_that_restores_may_be_killed_anywhere)
{
    make_data(true);
    killed_command("none", "--restore", in_dir("backups/one"));
    killed_everywhere("restored", all_is_lost, -SAVED);
}
END_TEST

START_TEST(a_start_that_restores_and_saves_may_be_killed_anywhere)
{
    make_data(true);
    killed_command(in_dir("disk"), "--restore", in_dir("backups/latest"));
    killed_everywhere("restored, durable", all_is_lost, -SAVED);
}
END_TEST

START_TEST(a_start_with_nothing_may_be_killed_anywhere)
{
    killed_command("none", NULL, NULL);
    killed_everywhere("empty", all_is_lost, 0);
}
END_TEST

START_TEST(a_durable_start_with_nothing_may_be_killed_anywhere)
{
    killed_command(in_dir("disk"), NULL, NULL);
    killed_everywhere("empty, durable", all_is_lost, 0);
}
END_TEST

START_TEST(a_start_that_discards_may_be_killed_anywhere)
{
    make_data(false);
    killed_command("none", "--discard-stale", NULL);
    killed_everywhere("discarded", live_is_of_another_boot, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("killed_starts");
    TCase *tc = tcase_create("killed_starts");
    const char *all = getenv("PSD_TEST_ALL");

    tcase_set_timeout(tc, all != NULL && *all != '\0' ? 36000 : 300);
    tcase_add_checked_fixture(tc, killed_setup, killed_teardown);
    tcase_add_test(tc, a_start_that_keeps_its_data_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_that_rebuilds_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_that_rebuilds_over_stale_data_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_that_restores_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_that_restores_and_saves_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_with_nothing_may_be_killed_anywhere);
    tcase_add_test(tc, a_durable_start_with_nothing_may_be_killed_anywhere);
    tcase_add_test(tc, a_start_that_discards_may_be_killed_anywhere);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
