/* One size after the other is set to 1, halved, or lowered by one; and again, until none goes lower. */
#include "tests/sim/shrink.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Apart ---- */

static void
read_report(int fd, struct run_report *out)
{
    size_t got = 0;
    ssize_t n;

    while (got < sizeof *out && (n = read(fd, (char *)out + got, sizeof *out - got)) > 0)
        got += (size_t)n;
    out->failed = out->failed || got < sizeof *out;
}

static _Noreturn void
run_and_tell(const struct run_options *o, int fd)
{
    struct run_report r;
    ssize_t n;

    signal(SIGABRT, SIG_DFL);
    run_one(o, &r);
    fflush(stdout);
    n = write(fd, &r, sizeof r); /* less than a pipe holds */
    _exit(n == sizeof r ? 0 : 1);
}

void
run_apart(const struct run_options *o, struct run_report *out)
{
    int fds[2], status = 0;
    pid_t child;

    fflush(stdout);
    ps_assert(pipe(fds) == 0);
    ps_assert((child = fork()) >= 0);
    if (child == 0)
        run_and_tell(o, fds[1]);
    close(fds[1]);
    *out = (struct run_report){0};
    read_report(fds[0], out);
    close(fds[0]);
    ps_assert(waitpid(child, &status, 0) == child);
    if (status == 0)
        return;
    *out = (struct run_report){.options = *o, .failed = true};
    snprintf(out->failure, sizeof out->failure, "the process ended with %s", strsignal(WTERMSIG(status)));
}

/* ---- Alike ---- */

/* The next word without a digit, *at behind it; 0: there is none. */
static size_t
next_word(const char **at, const char **word)
{
    size_t n;

    for (;; *at += n) {
        *at += strspn(*at, " ");
        if ((n = strcspn(*at, " ")) == 0)
            return 0;
        if (memchr(*at, '%', n) == NULL && strcspn(*at, "0123456789") >= n)
            break;
    }
    *word = *at;
    *at += n;
    return n;
}

bool
failures_alike(const char *x, const char *y)
{
    const char *a = NULL, *b = NULL;
    size_t n;

    do {
        n = next_word(&x, &a);
        if (next_word(&y, &b) != n || (n > 0 && memcmp(a, b, n) != 0))
            return false;
    } while (n > 0);
    return true;
}

/* ---- Smaller ---- */

/* Seeds: its own first, so that nothing changes without need. */
static bool
fails_too(struct run_report *best, struct run_options o, uint32_t seeds)
{
    uint64_t own = o.seed;
    struct run_report r;

    for (uint32_t i = 0; i <= seeds; i++) {
        o.seed = i == 0 ? own : i;
        run_apart(&o, &r);
        if (!r.failed || !failures_alike(r.failure, best->failure))
            continue;
        *best = r;
        return true;
    }
    return false;
}

static bool
shrink_lower(struct run_report *best, uint32_t *(*size)(struct run_options *), uint32_t seeds)
{
    uint32_t now = *size(&best->options); /* 0: no fault came; or not known, for an assertion ended the run */
    const uint32_t tries[] = {1, now / 2, now - 1};

    for (size_t i = 0; i < ARRAY_LEN(tries) && now > 1; i++) {
        struct run_options o = best->options;

        *size(&o) = tries[i];
        if (tries[i] >= 1 && fails_too(best, o, seeds))
            return true;
    }
    return false;
}

static uint32_t *
faults_of(struct run_options *o)
{
    return &o->faults_max;
}

static uint32_t *
steps_of(struct run_options *o)
{
    return &o->steps;
}

static uint32_t *
workers_of(struct run_options *o)
{
    return &o->workers;
}

static uint32_t *
shards_of(struct run_options *o)
{
    return &o->shards;
}

static uint32_t *
vars_of(struct run_options *o)
{
    return &o->vars;
}

static bool
shrink_calmer(struct run_report *best, uint32_t seeds)
{
    for (int level = FAULTS_NONE; level < (int)best->options.faults; level++) {
        struct run_options o = best->options;

        o.faults = (enum sim_faults)level;
        if (fails_too(best, o, seeds))
            return true;
    }
    return false;
}

/* Of all seeds at the size that was reached, the one with the shortest trace. */
static void
shrink_shortest(struct run_report *best, uint32_t seeds)
{
    for (uint32_t i = 1; i <= seeds; i++) {
        struct run_options o = best->options;
        struct run_report r;

        o.seed = i;
        run_apart(&o, &r);
        if (r.failed && failures_alike(r.failure, best->failure) && r.lines < best->lines)
            *best = r;
    }
}

bool
shrink(struct run_report *r, uint32_t seeds)
{
    static uint32_t *(*const sizes[])(struct run_options *) = {steps_of, faults_of, workers_of, shards_of, vars_of};
    bool some, any = false;

    do {
        some = false;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
            some = shrink_lower(r, sizes[i], seeds) || some;
        some = shrink_calmer(r, seeds) || some;
        any = any || some;
    } while (some);
    shrink_shortest(r, seeds);
    return any;
}
