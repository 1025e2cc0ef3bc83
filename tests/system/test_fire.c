/* The ledger under fire: real shards, real workers under psrun and under full load, and kill -9 of any of them at any
 * moment. Three jobs share the shards, one for each mode. After every kill an observer pulls and holds what it sees
 * against the workers' ledgers; at the end of a round, when all is quiet, every block must hold each acknowledged push
 * once and each of unknown outcome at most once.
 *
 * PSD_TEST_KILLS says how many kills (200), PSD_TEST_SEED where and when. A round has KILLS_A_ROUND of them, in a new
 * cluster: on tmpfs or on disk, over TCP or Unix sockets. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/psclient.h"
#include "common/base.h"
#include "tests/system/fine.h"
#include "tests/system/fire_ledger.h"
#include "tests/system/shards.h"
#include "tests/unit/check_main.h"

enum { SHARDS = 2, JOBS = 3, KILLS = 200, KILLS_A_ROUND = 25, APART_MS = 200, WAIT_MS = 60000 };

static const struct fire_job {
    const char *name;
    enum ps_mode mode;
    uint32_t bound;
} fire_jobs[JOBS] = {{"async", PS_ASYNC, 0}, {"ssp", PS_SSP, 3}, {"sync", PS_SYNC, 0}};

/* A job that runs. */
struct crew {
    const struct fire_job *job;
    char path[256]; /* of its ledger */
    int fd;
    struct fire_ledger *ledger;
    pid_t psrun;
    ps_client *observer;
    ps_var *vars[FIRE_VARS];
};

enum kill_kind { KILL_SHARD, KILL_SHARDS, KILL_WORKER, KILL_PSRUN, KILL_KINDS };
static const char *const kill_names[KILL_KINDS] = {"shards", "all shards at once", "workers", "psruns"};

static struct test_rng rng;
static struct shards shards;
static struct crew crews[JOBS];
static uint32_t kills[KILL_KINDS];
static struct ps_error error;
static float *values;

static uint64_t
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void
pause_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* ---- Workers ---- */

static _Noreturn void
become_psrun(const struct crew *c, bool over_unix)
{
    char log[300], workers[16];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(workers, sizeof workers, "%d", FIRE_WORKERS);
    snprintf(log, sizeof log, "%s.log", c->path);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(getenv("PSRUN_BIN"), "psrun", "--ps", over_unix ? shards.sockets : shards.addresses, "--cluster",
          SHARDS_CLUSTER, "--workers", workers, "--restart-workers", "1000000", "--restart-delay", "0", "--",
          getenv("FIRE_WORKER_BIN"), c->path, c->job->name, (char *)NULL);
    _exit(127);
}

static void
start_psrun(struct crew *c, bool over_unix)
{
    if ((c->psrun = fork()) == 0)
        become_psrun(c, over_unix);
    ck_assert_int_gt(c->psrun, 0);
}

static void
start_crew(struct crew *c, const struct fire_job *job, bool over_unix)
{
    *c = (struct crew){.job = job};
    snprintf(c->path, sizeof c->path, "%s/ledger-%s", shards.directory, job->name);
    ck_assert_ptr_nonnull((c->ledger = fire_ledger_open(c->path, &c->fd)));
    c->ledger->mode = job->mode;
    c->ledger->bound = job->bound;
    atomic_store(&c->ledger->last_clock, UINT64_MAX);
    start_psrun(c, over_unix);
}

/* Why a crew ended that should not. */
static void
tell_log(const struct crew *c)
{
    char log[300], line[512];
    FILE *f;

    snprintf(log, sizeof log, "%s.log", c->path);
    if ((f = fopen(log, "r")) == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL)
        fprintf(stderr, "# %s: %s", c->job->name, line);
    fclose(f);
}

static void
check_crew(const struct crew *c)
{
    for (uint32_t i = 0; i < FIRE_WORKERS; i++)
        ck_assert_msg(!atomic_load(&c->ledger->worker[i].failed), "worker %u of job '%s': %s", i, c->job->name,
                      c->ledger->worker[i].text);
}

static uint64_t
pushes_of(const struct crew *c, uint32_t worker)
{
    return fire_begun(&c->ledger->worker[worker].pushes[FIRE_SMALL]);
}

/* Every worker has begun a push that it had not begun before. */
static void
await_pushes(const struct crew *c)
{
    uint64_t until = now_ms() + WAIT_MS;

    for (uint32_t i = 0; i < FIRE_WORKERS; i++)
        for (uint64_t was = pushes_of(c, i); pushes_of(c, i) == was; pause_ms(1)) {
            check_crew(c);
            if (now_ms() > until)
                tell_log(c);
            ck_assert_msg(now_ms() <= until, "worker %u of '%s' does not go on", i, c->job->name);
        }
}

/* All stop at a clock that none has reached yet. */
static void
end_crew(struct crew *c)
{
    uint64_t last = 0;
    int status;

    for (uint32_t i = 0; i < FIRE_WORKERS; i++)
        last = MAX(last, atomic_load(&c->ledger->worker[i].clock));
    atomic_store(&c->ledger->last_clock, last + 50);
    ck_assert_int_eq(waitpid(c->psrun, &status, 0), c->psrun);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        tell_log(c);
    check_crew(c);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "psrun of '%s' ended with status %x", c->job->name,
                  (unsigned)status);
}

/* ---- What an observer sees ---- */

static void
observe(struct crew *c)
{
    struct ps_client_options options = {.job = c->job->name, .observer = 1};
    ps_cluster *cluster;

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &options, &c->observer, &error));
    ps_cluster_free(cluster);
    for (int i = 0; i < FIRE_VARS; i++)
        FINE(ps_client_attach(c->observer, fire_var_names[i], &c->vars[i], &error));
}

static void
check_while_running(struct crew *c, enum fire_var var)
{
    struct fire_bounds bounds;
    char text[512];

    fire_bounds_before(c->ledger, var, &bounds);
    FINE(ps_client_pull(c->observer, 1, &c->vars[var], &values, NULL, &error));
    fire_bounds_after(c->ledger, var, &bounds);
    ck_assert_msg(fire_check_bounds(&bounds, var, values, text, sizeof text), "job '%s': %s", c->job->name, text);
}

static void
check_when_quiet(struct crew *c)
{
    char text[512];

    for (int var = 0; var < FIRE_VARS; var++) {
        FINE(ps_client_pull(c->observer, 1, &c->vars[var], &values, NULL, &error));
        ck_assert_msg(fire_check_exact(c->ledger, (enum fire_var)var, values, text, sizeof text), "job '%s': %s",
                      c->job->name, text);
    }
}

/* ---- Kills ---- */

static void
kill_shards(enum kill_kind kind)
{
    uint32_t first = (uint32_t)test_below(&rng, SHARDS);

    shards_kill(&shards, first);
    if (kind == KILL_SHARDS)
        shards_kill(&shards, 1 - first);
    shards_restart(&shards, first);
    if (kind == KILL_SHARDS)
        shards_restart(&shards, 1 - first);
}

/* Through a descriptor, and only while it holds its place in the ledger: so it is no other process. */
static void
kill_worker(const struct crew *c)
{
    uint32_t task = (uint32_t)test_below(&rng, FIRE_WORKERS);
    pid_t pid = atomic_load(&c->ledger->worker[task].pid);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd >= 0 && fire_is_held(c->fd, task) && atomic_load(&c->ledger->worker[task].pid) == pid)
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    if (fd >= 0)
        close(fd);
}

static void
kill_psrun(struct crew *c, bool over_unix)
{
    kill(c->psrun, SIGKILL);
    waitpid(c->psrun, NULL, 0);
    start_psrun(c, over_unix);
}

static void
kill_one(bool over_unix)
{
    static const enum kill_kind kinds[] = {KILL_SHARD,  KILL_SHARD,  KILL_SHARD,  KILL_SHARD,  KILL_SHARDS,
                                           KILL_WORKER, KILL_WORKER, KILL_WORKER, KILL_WORKER, KILL_PSRUN};
    enum kill_kind kind = kinds[test_below(&rng, ARRAY_LEN(kinds))];
    struct crew *c = &crews[test_below(&rng, JOBS)];

    kills[kind]++;
    if (kind == KILL_WORKER)
        kill_worker(c);
    else if (kind == KILL_PSRUN)
        kill_psrun(c, over_unix);
    else
        kill_shards(kind);
}

/* ---- A round ---- */

static void
kill_at_random(uint32_t n, bool over_unix)
{
    for (uint32_t i = 0; i < n; i++) {
        struct crew *seen = &crews[test_below(&rng, JOBS)];

        pause_ms(test_below(&rng, APART_MS));
        kill_one(over_unix);
        check_while_running(seen, (enum fire_var)test_below(&rng, FIRE_VARS));
        for (int c = 0; c < JOBS; c++)
            check_crew(&crews[c]);
        if (i % 5 == 0)
            await_pushes(&crews[test_below(&rng, JOBS)]);
    }
}

static void
play_round(uint32_t number, uint32_t n)
{
    static const char *const more[] = {"--grace", "10m", NULL}; /* in sync nobody may be left out of a mean */
    const char *tmp = getenv("TMPDIR");
    bool on_disk = number % 4 == 3, over_unix = number % 2 == 1;
    struct shards_options options = {.where = on_disk ? (tmp != NULL ? tmp : "/tmp") : NULL, .more = more};
    uint64_t pushes = 0, lives = 0;

    shards_start_with(&shards, SHARDS, &options);
    for (int i = 0; i < JOBS; i++)
        start_crew(&crews[i], &fire_jobs[i], over_unix);
    for (int i = 0; i < JOBS; i++) {
        await_pushes(&crews[i]);
        observe(&crews[i]);
    }
    kill_at_random(n, over_unix);
    for (int i = 0; i < JOBS; i++)
        end_crew(&crews[i]);
    for (int i = 0; i < JOBS; i++) {
        check_when_quiet(&crews[i]);
        ps_client_close(crews[i].observer);
        for (uint32_t w = 0; w < FIRE_WORKERS; w++) {
            lives += atomic_load(&crews[i].ledger->worker[w].lives);
            for (int var = 0; var < FIRE_VARS; var++)
                pushes += fire_begun(&crews[i].ledger->worker[w].pushes[var]);
        }
        munmap(crews[i].ledger, sizeof *crews[i].ledger);
        close(crews[i].fd);
    }
    shards_stop(&shards);
    fprintf(stderr, "# round %u on %s over %s: %u kills, %llu pushes, %llu lives of %d workers\n", number,
            on_disk ? "disk" : "tmpfs", over_unix ? "Unix sockets" : "TCP", n, (unsigned long long)pushes,
            (unsigned long long)lives, JOBS * FIRE_WORKERS);
}

START_TEST(what_was_acknowledged_is_there_once_whatever_was_killed)
{
    const char *text = getenv("PSD_TEST_KILLS");
    uint32_t left = text != NULL ? (uint32_t)strtoul(text, NULL, 10) : KILLS;

    rng.state = test_seed();
    ck_assert_ptr_nonnull((values = calloc(fire_var_elements[FIRE_LARGE], sizeof *values)));
    for (uint32_t round = 0; left > 0; round++) {
        uint32_t n = MIN(left, (uint32_t)KILLS_A_ROUND);

        play_round(round, n);
        left -= n;
    }
    for (int i = 0; i < KILL_KINDS; i++)
        fprintf(stderr, "# killed: %u times %s\n", kills[i], kill_names[i]);
    free(values);
}
END_TEST

static Suite *
make_suite(void)
{
    const char *text = getenv("PSD_TEST_KILLS");
    Suite *suite = suite_create("fire");
    TCase *tc = tcase_create("fire");

    /* some 0.3 s for a kill; sanitizers and busy machines are slow */
    tcase_set_timeout(tc, 300 + 2 * (text != NULL ? strtod(text, NULL) : 0));
    tcase_add_test(tc, what_was_acknowledged_is_there_once_whatever_was_killed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
