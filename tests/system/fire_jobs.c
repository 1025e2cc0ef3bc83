/* The jobs' processes, and the comparisons. */
#include "tests/system/fire_jobs.h"
#include "tests/now.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/system/fine.h"

static const struct fire_job {
    const char *name;
    enum ps_mode mode;
    uint32_t bound;
} fire_jobs[FIRE_JOBS] = {{"async", PS_ASYNC, 0}, {"ssp", PS_SSP, 3}, {"sync", PS_SYNC, 0}};

/* In sync no worker may be left out of a mean because its process was slow to come back. */
const char *const fire_shard_options[] = {"--grace", "10m", NULL};

static struct ps_error error;

void
fire_pause_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

uint32_t
fire_times(const char *variable, uint32_t usual)
{
    const char *text = getenv(variable);

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : usual;
}

void
fire_rounds(uint32_t times, uint32_t n, void (*play)(uint32_t round, uint32_t n))
{
    for (uint32_t round = 0; times > 0; round++) {
        uint32_t part = MIN(times, n);

        play(round, part);
        times -= part;
    }
}

/* ---- Workers ---- */

static _Noreturn void
become_psrun(const struct fire *f, const struct fire_workers *c)
{
    char log[300], workers[16];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(workers, sizeof workers, "%d", FIRE_WORKERS);
    snprintf(log, sizeof log, "%s.log", c->path);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(getenv("PSRUN_BIN"), "psrun", "--ps", f->ps, "--cluster", SHARDS_CLUSTER, "--workers", workers,
          "--restart-workers", "1000000", "--restart-delay", "0", "--", getenv("FIRE_WORKER_BIN"), c->path, c->name,
          (char *)NULL);
    _exit(127);
}

static void
start_psrun(const struct fire *f, struct fire_workers *c)
{
    if ((c->psrun = fork()) == 0)
        become_psrun(f, c);
    ck_assert_int_gt(c->psrun, 0);
}

static void
start_crew(struct fire *f, struct fire_workers *c, const struct fire_job *job)
{
    *c = (struct fire_workers){.name = job->name};
    snprintf(c->path, sizeof c->path, "%s/ledger-%s", f->shards->directory, job->name);
    ck_assert_ptr_nonnull((c->ledger = fire_ledger_open(c->path, &c->fd)));
    c->ledger->mode = job->mode;
    c->ledger->bound = job->bound;
    c->ledger->durable = f->durable;
    atomic_store(&c->ledger->last_clock, UINT64_MAX);
    start_psrun(f, c);
}

/* The reason why a job ended unexpectedly. */
static void
tell_log(const struct fire_workers *c)
{
    char log[300], line[512];
    FILE *f;

    snprintf(log, sizeof log, "%s.log", c->path);
    if ((f = fopen(log, "r")) == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL)
        fprintf(stderr, "# %s: %s", c->name, line);
    fclose(f);
}

static void
check_crew(const struct fire_workers *c)
{
    for (uint32_t i = 0; i < FIRE_WORKERS; i++)
        ck_assert_msg(!atomic_load(&c->ledger->worker[i].failed), "worker %u of job '%s': %s", i, c->name,
                      c->ledger->worker[i].text);
}

static uint64_t
pushes_of(const struct fire_workers *c, uint32_t worker)
{
    return fire_begun(&c->ledger->worker[worker].pushes[FIRE_SMALL]);
}

/* Every worker has begun a push that it had not begun before. */
void
fire_await_pushes(const struct fire_workers *c)
{
    uint64_t until = now_ms() + FIRE_WAIT_MS;

    for (uint32_t i = 0; i < FIRE_WORKERS; i++)
        for (uint64_t was = pushes_of(c, i); pushes_of(c, i) == was; fire_pause_ms(1)) {
            check_crew(c);
            if (now_ms() > until)
                tell_log(c);
            ck_assert_msg(now_ms() <= until, "worker %u of '%s' does not go on", i, c->name);
        }
}

/* All stop at a clock that none has reached yet. */
static void
end_crew(struct fire_workers *c)
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
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "psrun of '%s' ended with status %x", c->name,
                  (unsigned)status);
}

/* ---- What an observer sees ---- */

static void
fire_jobs_observe(struct fire *f, struct fire_workers *c)
{
    struct ps_client_options options = {.job = c->name, .observer = 1};
    ps_cluster *cluster;

    FINE(ps_cluster_from_list(f->shards->addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &options, &c->observer, &error));
    ps_cluster_free(cluster);
    for (int i = 0; i < FIRE_VARS; i++)
        FINE(ps_client_attach(c->observer, fire_var_names[i], &c->vars[i], &error));
}

static void
check_while_running(struct fire *f, struct fire_workers *c, enum fire_var var)
{
    struct fire_bounds bounds;
    char text[512];

    if (f->durable && var == FIRE_OTHER)
        return;
    fire_bounds_before(c->ledger, var, &bounds);
    FINE(ps_client_pull(c->observer, 1, &c->vars[var], &f->values, NULL, &error));
    fire_bounds_after(c->ledger, var, &bounds);
    ck_assert_msg(fire_check_bounds(&bounds, var, f->values, text, sizeof text), "job '%s': %s", c->name, text);
}

static void
check_when_quiet(struct fire *f, struct fire_workers *c)
{
    char text[512];

    for (int var = 0; var < FIRE_VARS; var++) {
        FINE(ps_client_pull(c->observer, 1, &c->vars[var], &f->values, NULL, &error));
        if (f->durable && var == FIRE_OTHER)
            ck_assert_msg(fire_check_rolled_back(c->ledger, f->values, text, sizeof text), "job '%s': %s", c->name,
                          text);
        else
            ck_assert_msg(fire_check_exact(c->ledger, (enum fire_var)var, f->values, text, sizeof text), "job '%s': %s",
                          c->name, text);
    }
}

/* ---- Kills ---- */

/* Through a descriptor, and only while it holds its place in the ledger: so it is no other process. */
void
fire_kill_worker(struct fire *f, const struct fire_workers *c)
{
    uint32_t task = (uint32_t)test_below(&f->rng, FIRE_WORKERS);
    pid_t pid = atomic_load(&c->ledger->worker[task].pid);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd >= 0 && fire_is_held(c->fd, task) && atomic_load(&c->ledger->worker[task].pid) == pid)
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    if (fd >= 0)
        close(fd);
}

void
fire_kill_psrun(struct fire *f, struct fire_workers *c)
{
    kill(c->psrun, SIGKILL);
    waitpid(c->psrun, NULL, 0);
    start_psrun(f, c);
}

/* ---- All ---- */

struct fire_workers *
fire_any(struct fire *f)
{
    return &f->crews[test_below(&f->rng, FIRE_JOBS)];
}

void
fire_start(struct fire *f)
{
    ck_assert_ptr_nonnull((f->values = calloc(fire_var_elements[FIRE_LARGE], sizeof *f->values)));
    for (uint32_t i = 0; i < FIRE_JOBS; i++)
        start_crew(f, &f->crews[i], &fire_jobs[i]);
    for (uint32_t i = 0; i < FIRE_JOBS; i++) {
        fire_await_pushes(&f->crews[i]);
        fire_jobs_observe(f, &f->crews[i]);
    }
}

void
fire_look(struct fire *f)
{
    check_while_running(f, fire_any(f), (enum fire_var)test_below(&f->rng, FIRE_VARS));
    for (uint32_t i = 0; i < FIRE_JOBS; i++)
        check_crew(&f->crews[i]);
}

static void
close_crew(struct fire *f, struct fire_workers *c)
{
    for (uint32_t w = 0; w < FIRE_WORKERS; w++) {
        f->lives += atomic_load(&c->ledger->worker[w].lives);
        f->rolled_back += atomic_load(&c->ledger->worker[w].rolled_back);
        for (int var = 0; var < FIRE_VARS; var++)
            f->pushes += fire_begun(&c->ledger->worker[w].pushes[var]);
    }
    ps_client_close(c->observer);
    munmap(c->ledger, sizeof *c->ledger);
    close(c->fd);
}

void
fire_end(struct fire *f)
{
    for (uint32_t i = 0; i < FIRE_JOBS; i++)
        end_crew(&f->crews[i]);
    for (uint32_t i = 0; i < FIRE_JOBS; i++) {
        check_when_quiet(f, &f->crews[i]);
        close_crew(f, &f->crews[i]);
    }
    free(f->values);
}
