/* Hours of mixed work on one psd, and its use of memory and disk meanwhile: variables of all sizes with and without
 * slots, two workers that push and pull them at random, a slow reader, kill -9 and a new process every so often, and in
 * the second half saves, one after the other.
 *
 *     soak [--seconds N (5)]            PSD_BIN names psd
 *          [--variables N (96)]         of all sizes in turn
 *          [--small]                    of one block of one page each
 *
 * Prints a line a second (a minute, when it runs long) and fails when something grows that should not:
 *
 *     used pages of the live store   at most 1.25 times the data without saves, 2.2 times with them
 *     its file                       the same
 *     the durable store's file       at most 2.2 times the data
 *     memory besides the store       flat
 *
 * each beyond a constant: the size of an empty store. Data is counted in whole pages: a value of one element takes one.
 *
 * A file never shrinks, so it is as large as the worst moment made it. That of the live store holds a value twice if it
 * changed before it was saved: at worst all of the data, and no save begins before the last one's are gone. LMDB's free
 * list, with values of three sizes, takes 1.15 times the pages that are in use. The constant is what no transaction can
 * use yet: pages that the last two turns freed (at most 16 MiB each, with what is usual), room ahead of the last page
 * (34 MiB), and pages that are written while an old state is being read: a pull 10 ms, the saver the time of a look. So
 * the file grows fast in the first saves, then now and then by a block or two: within 100 s of saves without a pause,
 * and restarts, to 226 MiB for 85 of data. A reader that holds pages longer shows here.
 *
 * The durable store's file has two saves, two chunks of a sixteenth of one that were freed and are not free yet, and
 * room ahead for another and 19 MiB. Its redo log has a page at least for each row that changed since the last save, so
 * that of many small variables is as large as they are: the second save is staged in its pages.
 *
 * Memory holds a copy of all rows while a save runs, and keeps it for the next one: half a KiB for each variable.
 * (Under ASan it is not looked at: tests/sanitized.h.) */
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/remove_tree.h"
#include "tests/sanitized.h"
#include "tests/system/lone_psd.h"

enum { WORKERS = 2, READER = WORKERS, SAVER, HELPERS, RESTARTS = 6, SLACK = 8 * MIB };

/* See above. */
#define LIVE_ROOM    (96 * MIB)
#define DURABLE_ROOM (32 * MIB)
#define ROW_COPY     (KIB / 2)

static int seconds = 5, vars = 96;
static bool small;
static uint64_t random_state = 1;

static uint32_t
soak_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static void
soak_sleep(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)}, NULL);
}

/* ---- Processes ---- */

/* From one element to blocks of all three sizes. */
static uint64_t
elements_of(int i)
{
    static const uint64_t some[] = {1, 10, 300, 1008, 1009, 5000, 17000, 60000, 262144, 300000, 700000, 40000};

    return small ? some[i % 3] : some[i % (int)ARRAY_LEN(some)];
}

static const char *
optimizer_of(int i)
{
    return i % 3 == 0 ? "sgd" : i % 3 == 1 ? "momentum" : "adam";
}

struct client {
    ps_client *client;
    ps_var **vars;
    float *values, *gradient;
};

static void
soak_check(enum ps_err err, const struct ps_error *e)
{
    char text[PS_ERROR_LINE_MAX];

    if (err == PS_OK)
        return;
    ps_error_format(e, text, sizeof text);
    lone_die("%s", text);
}

static void
open_client(struct client *c, const char *address, uint32_t task, bool observer)
{
    struct ps_client_options o = {.observer = observer, .job = "soak"};
    struct ps_error e;
    ps_cluster *cluster;

    soak_check(ps_cluster_from_list(address, WORKERS, task, &cluster, &e), &e);
    soak_check(ps_cluster_set_name(cluster, LONE_CLUSTER, &e), &e);
    soak_check(ps_client_open(cluster, &o, &c->client, &e), &e);
    ps_cluster_free(cluster);
}

static void
find_variables(struct client *c, bool observer)
{
    struct ps_error e;
    char name[16];

    c->vars = calloc((size_t)vars, sizeof(ps_var *));
    c->values = calloc(700000, sizeof(float));
    c->gradient = calloc(700000, sizeof(float));
    for (int i = 0; i < vars; i++) {
        struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {elements_of(i)}};

        snprintf(name, sizeof name, "v%d", i);
        soak_check(ps_optimizer_by_name(optimizer_of(i), &spec.optimizer, &e), &e);
        soak_check(observer ? ps_client_attach(c->client, name, &c->vars[i], &e)
                            : ps_client_declare(c->client, &spec, &c->vars[i], &e),
                   &e);
    }
}

static void
close_client(struct client *c)
{
    ps_client_close(c->client);
    free(c->vars);
    free(c->values);
    free(c->gradient);
}

/* declared: gets a byte when all variables are. */
static _Noreturn void
worker_main(const char *address, uint32_t task, int declared)
{
    struct client c = {0};
    struct ps_error e;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    random_state += task;
    open_client(&c, address, task, false);
    find_variables(&c, false);
    if (write(declared, "", 1) != 1)
        lone_die("nobody waits for worker %u", task);
    for (;;) {
        ps_var *v = c.vars[soak_below((uint32_t)vars)];

        c.gradient[soak_below((uint32_t)ps_var_elements(v))] = 1;
        if (soak_below(4) == 0)
            soak_check(ps_client_pull(c.client, 1, &v, &c.values, NULL, &e), &e);
        else
            soak_check(ps_client_push(c.client, 1, &v, (const float *[]){c.gradient}, NULL, &e), &e);
    }
}

/* Returns when all variables are there. */
static void
start_workers(const char *address, pid_t *pids)
{
    char byte;
    int declared[2];

    if (pipe(declared) < 0)
        lone_die("no pipe");
    for (uint32_t i = 0; i < WORKERS; i++)
        if ((pids[i] = fork()) == 0)
            worker_main(address, i, declared[1]);
    close(declared[1]);
    for (int i = 0; i < WORKERS; i++)
        if (read(declared[0], &byte, 1) != 1)
            lone_die("no worker has declared all variables");
    close(declared[0]);
}

static _Noreturn void
reader_main(const char *address)
{
    struct client c = {0};
    struct ps_error e;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_client(&c, address, 0, true);
    find_variables(&c, true);
    for (;; soak_sleep(0.02))
        for (int i = 0; i < vars; i++)
            soak_check(ps_client_pull(c.client, 1, &c.vars[i], &c.values, NULL, &e), &e);
}

/* Save after save, until it is stopped. */
static _Noreturn void
saver_main(const char *address)
{
    struct client c = {0};
    struct ps_error e;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_client(&c, address, 0, true);
    for (;; soak_sleep(0.1))
        soak_check(ps_client_save(c.client, 0, -1, NULL, &e), &e);
}

/* ---- What is seen ---- */

struct soak_sample {
    uint64_t data, used, live_file, durable_file, heap;
};

static uint64_t
file_bytes(const char *dir)
{
    struct stat st;
    char path[512];

    snprintf(path, sizeof path, "%s/data.mdb", dir);
    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Memory that is psd's own: the store's pages are the file's. */
static uint64_t
heap_bytes(pid_t pid)
{
    unsigned long long kib = 0;
    char path[64], line[256];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL && sscanf(line, "RssAnon: %llu kB", &kib) != 1)
        continue;
    fclose(f);
    return kib * KIB;
}

static struct soak_sample
soak_look(ps_client *observer, const struct lone_psd *psd, const char *durable)
{
    struct soak_sample s = {.heap = heap_bytes(psd->pid), .live_file = file_bytes(psd->live)};
    json_t *root, *status;
    struct ps_error e;
    char *text;

    soak_check(ps_client_query(observer, 0, PS_QUERY_STATUS, NULL, -1, &text, &e), &e);
    root = json_loads(text, 0, NULL);
    ps_free(text);
    status = json_object_get(root, "status");
    s.data = (uint64_t)json_integer_value(json_object_get(status, "data_bytes"));
    s.used = (uint64_t)json_integer_value(json_object_get(status, "store_bytes"));
    json_decref(root);
    s.durable_file = durable != NULL ? file_bytes(durable) : 0;
    return s;
}

static void
soak_hold(const char *what, uint64_t is, double times, uint64_t data, uint64_t besides)
{
    if ((double)is > times * (double)data + (double)besides)
        lone_die("%s: %llu bytes for %llu of data, more than %.2f times", what, (unsigned long long)is,
                 (unsigned long long)data, times);
}

static double
soak_mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
}

/* The worst of a phase; heap: of its first and last third. */
struct soak_phase {
    double begin, end;
    uint64_t early, late;
};

static void
take_sample(struct soak_phase *p, const struct soak_sample *s, bool saves, double started)
{
    static double told;
    double third = (p->end - p->begin) / 3, t = now_s();

    soak_hold(saves ? "used pages with saves" : "used pages without saves", s->used, saves ? 2.2 : 1.25, s->data,
              SLACK);
    soak_hold(saves ? "the live file with saves" : "the live file without saves", s->live_file, saves ? 2.2 : 1.25,
              s->data, LIVE_ROOM);
    soak_hold("the durable file", s->durable_file, 2.2, s->data, DURABLE_ROOM);
    if (t < p->begin + third)
        p->early = MAX(p->early, s->heap);
    else if (t > p->end - third)
        p->late = MAX(p->late, s->heap);
    if (t - told < (seconds > 600 ? 60 : 1))
        return;
    told = t;
    printf("%7.0f s  data %7.1f  used %7.1f (%.2f)  live file %7.1f  durable file %7.1f  heap %6.1f MiB\n", t - started,
           soak_mib(s->data), soak_mib(s->used), (double)s->used / (double)s->data, soak_mib(s->live_file),
           soak_mib(s->durable_file), soak_mib(s->heap));
    fflush(stdout);
}

static void
run_phase(struct lone_psd *psd, ps_client *observer, const char *durable, bool saves, double length)
{
    struct soak_phase p = {.begin = now_s(), .end = now_s() + length};
    double restart = length / (RESTARTS / 2 + 1), next = p.begin + restart;
    static double started;

    started = started == 0 ? p.begin : started;
    for (; now_s() < p.end; soak_sleep(0.1)) {
        struct soak_sample s = soak_look(observer, psd, durable);

        take_sample(&p, &s, saves, started);
        if (now_s() < next)
            continue;
        next += restart;
        lone_psd_kill(psd);
        lone_psd_again(psd);
    }
    if (!SANITIZED_ADDRESS && p.late > p.early + SLACK + (saves ? (uint64_t)vars * ROW_COPY : 0))
        lone_die("memory grows: %.1f MiB, then %.1f", soak_mib(p.early), soak_mib(p.late));
}

/* ---- All ---- */

static void
soak_parse(int argc, char **argv)
{
    static const struct option known[] = {{"seconds", required_argument, NULL, 's'},
                                          {"variables", required_argument, NULL, 'v'},
                                          {"small", no_argument, NULL, '1'},
                                          {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        small = small || c == '1';
        seconds = c == 's' ? atoi(optarg) : seconds;
        vars = c == 'v' ? atoi(optarg) : vars;
        if (c == '?' || seconds < 1 || vars < 1) {
            fprintf(stderr, "usage: soak [--seconds N (5)] [--variables N (96)] [--small]\n");
            exit(2);
        }
    }
}

int
main(int argc, char **argv)
{
    char durable[128];
    const char *const more[] = {"--memory", "768MiB",          "--grace", "10m", "--durable-dir",
                                durable,    "--save-interval", "0",       NULL};
    pid_t pids[HELPERS];
    struct client observer = {0};
    struct lone_psd psd;

    soak_parse(argc, argv);
    snprintf(durable, sizeof durable, "%s/psd-soak-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(durable) == NULL)
        lone_die("%s", durable);
    lone_psd_start(&psd, more);
    start_workers(psd.address, pids);
    open_client(&observer, psd.address, 0, true);
    if ((pids[READER] = fork()) == 0)
        reader_main(psd.address);
    run_phase(&psd, observer.client, durable, false, seconds / 2.0);
    if ((pids[SAVER] = fork()) == 0)
        saver_main(psd.address);
    run_phase(&psd, observer.client, durable, true, seconds / 2.0);
    for (int i = 0; i < HELPERS; i++) {
        int status;

        if (waitpid(pids[i], &status, WNOHANG) != 0)
            lone_die("process %d ended", i);
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
    }
    close_client(&observer);
    lone_psd_stop(&psd);
    remove_tree(durable);
    return 0;
}
