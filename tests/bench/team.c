#include "tests/bench/team.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/reason.h"
#include "tests/now.h"

#define ANSWER_MS 120000 /* the longest that an order may take */

static _Noreturn void
team_die(const char *who, const char *what)
{
    fprintf(stderr, "bench: %s: %s%s%s\n", who, what, reason_before(), reason_text());
    exit(1);
}

/* ---- In a rank's process ---- */

static float *
map_floats(uint64_t count)
{
    float *p = mmap(NULL, count * sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        team_die("team", "memory");
    return p;
}

/* Small numbers, whose sums are exact in any order; then zeros, which stay what they are however often they are added.
 */
static void
check_sums(const struct team_kind *kind, void *state, float *values, uint64_t count, uint32_t rank, uint32_t ranks)
{
    uint64_t each = ranks * (ranks + 1) / 2;

    for (uint64_t i = 0; i < count; i++)
        values[i] = (float)(rank + 1 + i % 64);
    kind->all_reduce(state, values, count);
    for (uint64_t i = 0; !kind->moves_only && i < count; i++)
        if (values[i] != (float)(each + ranks * (i % 64))) {
            fprintf(stderr, "bench: rank %u: sum %llu of %llu is %g\n", rank, (unsigned long long)i,
                    (unsigned long long)count, (double)values[i]);
            exit(1);
        }
    kind->all_reduce(state, values, count); /* until all have checked: the others may still read this rank's memory */
    memset(values, 0, count * sizeof *values);
}

static void
team_answer(int fd, double seconds)
{
    if (write(fd, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        team_die("team", "answer");
}

/* Where the scheduler puts two ranks on one core for a while, a figure measures that more than the reduction. */
static void
team_pin(uint32_t rank)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    if (getenv(TEAM_PIN) == NULL)
        return;
    CPU_ZERO(&set);
    CPU_SET(rank % (unsigned)cores, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        team_die("team", "affinity");
}

void
team_serve(const struct team_kind *kind, void *state, uint32_t rank, uint32_t ranks, int orders, int answers)
{
    struct team_order order;
    float *values = NULL;
    uint64_t count = 0;
    double start;

    team_pin(rank);
    while (read(orders, &order, sizeof order) == (ssize_t)sizeof order && order.iterations > 0) {
        if (order.count != count) {
            if (values != NULL && kind->values == NULL)
                munmap(values, count * sizeof *values);
            count = order.count;
            values = kind->values != NULL ? kind->values(state, count) : map_floats(count);
            check_sums(kind, state, values, count, rank, ranks);
        }
        kind->all_reduce(state, values, count); /* all ranks are there, and awake */
        start = now_s();
        for (uint64_t i = 0; i < order.iterations; i++)
            kind->all_reduce(state, values, count);
        if (rank == 0)
            team_answer(answers, (now_s() - start) / (double)order.iterations);
    }
}

/* ---- In the bench ---- */

void
team_start(struct bench_team *t, const char *name, uint32_t ranks, const struct team_kind *kind, const void *arg)
{
    int answers[2], orders[TEAM_RANKS_MAX][2];

    *t = (struct bench_team){.name = name, .ranks = ranks, .processes = ranks};
    if (pipe2(answers, O_CLOEXEC) < 0)
        team_die(name, "pipe");
    for (uint32_t r = 0; r < ranks; r++)
        if (pipe2(orders[r], O_CLOEXEC) < 0)
            team_die(name, "pipe");
    fflush(NULL);
    for (uint32_t r = 0; r < ranks; r++) {
        if ((t->pids[r] = fork()) < 0)
            team_die(name, "fork");
        if (t->pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            team_serve(kind, kind->start(r, ranks, arg), r, ranks, orders[r][0], answers[1]);
            _exit(0);
        }
    }
    close(answers[1]);
    t->answers = answers[0];
    for (uint32_t r = 0; r < ranks; r++) {
        close(orders[r][0]);
        t->orders[r] = orders[r][1];
    }
}

/* Open at both ends: no open() waits for another one. */
static int
team_fifo(const char *dir, const char *what, uint32_t number)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, number == UINT32_MAX ? "%s/%s" : "%s/%s.%u", dir, what, number);
    if (mkfifo(path, 0600) < 0 || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        team_die(path, "fifo");
    return fd;
}

void
team_start_program(struct bench_team *t, const char *name, uint32_t ranks, const char *const *argv, const char *dir)
{
    *t = (struct bench_team){.name = name, .ranks = ranks, .processes = 1};
    for (uint32_t r = 0; r < ranks; r++)
        t->orders[r] = team_fifo(dir, "order", r);
    t->answers = team_fifo(dir, "answer", UINT32_MAX);
    fflush(NULL);
    if ((t->pids[0] = fork()) < 0)
        team_die(name, "fork");
    if (t->pids[0] > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    team_die(name, argv[0]);
}

/* None of its processes has ended: an answer may still come. */
static void
check_alive(struct bench_team *t)
{
    int status;

    for (uint32_t i = 0; i < t->processes; i++)
        if (waitpid(t->pids[i], &status, WNOHANG) == t->pids[i]) {
            fprintf(stderr, "bench: %s: a process ended with status %x\n", t->name, (unsigned)status);
            exit(1);
        }
}

double
team_run(struct bench_team *t, uint64_t count, uint64_t iterations)
{
    struct team_order order = {count, iterations};
    struct pollfd p = {.fd = t->answers, .events = POLLIN};
    double seconds;

    for (uint32_t r = 0; r < t->ranks; r++)
        if (write(t->orders[r], &order, sizeof order) != (ssize_t)sizeof order)
            team_die(t->name, "order");
    for (int waited = 0; poll(&p, 1, 1000) != 1; waited += 1000) {
        check_alive(t);
        if (waited >= ANSWER_MS) {
            errno = ETIMEDOUT;
            team_die(t->name, "no answer");
        }
    }
    if (read(t->answers, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        team_die(t->name, "answer");
    return seconds;
}

void
team_stop(struct bench_team *t)
{
    struct team_order last = {0, 0};

    for (uint32_t r = 0; r < t->ranks; r++)
        if (write(t->orders[r], &last, sizeof last) != (ssize_t)sizeof last)
            team_die(t->name, "order");
    for (uint32_t i = 0; i < t->processes; i++)
        waitpid(t->pids[i], NULL, 0);
    for (uint32_t r = 0; r < t->ranks; r++)
        close(t->orders[r]);
    close(t->answers);
}
