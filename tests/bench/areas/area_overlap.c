/* The gain of reducing gradients while the backward pass goes on: a training step of two ranks or more on this machine,
 * through shared memory or (--tcp) TCP on loopback, in several ways that take turns. For each network a step is:
 * gradient of a slice, its mean over the ranks. Ways:
 *
 *     compute                the gradient alone; the ranks do not wait for each other
 *     whole, after           one all-reduce of all gradients when the backward pass has ended
 *     parameters, after      one for each parameter, then
 *     buckets, after         the buckets, then
 *     buckets, overlapped    each bucket as soon as it is whole; the network moves when a gradient is ready
 *     ... with a thread      the same, with the group's progress thread
 *     int8, overlapped       the same buckets, compressed (--compress), without and with the thread
 *
 * A figure is rank 0's mean of the steps of a turn; a second table has the bytes of gradients that it sends in one.
 * --sweep does buckets of several sizes instead. For a link that is slower than loopback run it in a network namespace
 * with "tc qdisc add dev lo root tbf rate ...". */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/group/group_state.h"
#include "client/include/psclient/ps_network.h"
#include "client/include/psclient/ps_reducer.h"
#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/server.h"
#include "tests/now.h"

enum { RANKS_MAX = 8, GROUPS = 2 /* without and with a thread */, COMPRESSED_MAX = 4 };

static const struct bench_options *settings;
static uint32_t ranks;

/* ---- Networks ---- */

struct overlap_model {
    const char *name, *layers;
    size_t dims[3], rows; /* of a rank */
};

static const struct overlap_model models[] = {
    {"digits conv",
     "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dropout 0.25, dense 10",
     {8, 8, 1},
     48},
    {"perceptron", "dense 1024, relu, dense 1024, relu, dense 1024, relu, dense 1024, relu, dense 10", {784}, 64},
};

/* ---- Ways ---- */

struct how {
    char name[64];
    bool alone, overlapped, threaded;
    size_t bucket, first;
    struct ps_compress compress;
};

static struct how ways[WAYS_MAX];
static size_t ways_len;

static void
add_way(const char *name, bool overlapped, bool threaded, size_t bucket, size_t first)
{
    struct how *w = &ways[ways_len++];

    ps_assert(ways_len <= WAYS_MAX);
    snprintf(w->name, sizeof w->name, "%s%s", name, threaded ? ", with a thread" : "");
    w->overlapped = overlapped;
    w->threaded = threaded;
    w->bucket = bucket;
    w->first = first;
}

/* Each of the list, as buckets that overlap. */
static void
add_compressed(void)
{
    char list[256], *rest = list, *name;
    struct ps_compress how;
    char text[44];
    struct ps_error e;

    snprintf(list, sizeof list, "%s", settings->compress);
    for (int i = 0; i < COMPRESSED_MAX && (name = strsep(&rest, ",")) != NULL; i++) {
        if (ps_compress_parse(name, &how, &e) != PS_OK)
            bench_die("--compress", &e);
        snprintf(text, sizeof text, "%.30s, overlapped", name);
        for (int threaded = 0; how.kind != PS_COMPRESS_NONE && threaded < GROUPS; threaded++) {
            add_way(text, true, threaded, (size_t)settings->bucket, (size_t)settings->first);
            ways[ways_len - 1].compress = how;
        }
    }
}

static void
make_ways(void)
{
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20};
    char name[24];

    add_way("compute", false, false, 1, 1);
    ways[0].alone = true;
    add_way("whole, after", false, false, SIZE_MAX, SIZE_MAX);
    for (size_t i = 0; settings->sweep && i < ARRAY_LEN(sizes); i++)
        for (int threaded = 0; threaded < 2; threaded++) {
            snprintf(name, sizeof name, "%zu KiB", sizes[i] >> 10);
            add_way(name, true, threaded, sizes[i],
                    MIN(settings->first != 0 ? (size_t)settings->first : sizes[i], sizes[i]));
        }
    if (settings->sweep)
        return;
    add_way("whole, after", false, true, SIZE_MAX, SIZE_MAX);
    add_way("parameters, after", false, false, 1, 1);
    add_way("parameters, overlapped", true, false, 1, 1);
    add_way("buckets, after", false, false, (size_t)settings->bucket, (size_t)settings->first);
    add_way("buckets, overlapped", true, false, (size_t)settings->bucket, (size_t)settings->first);
    add_way("buckets, overlapped", true, true, (size_t)settings->bucket, (size_t)settings->first);
    add_compressed();
}

/* ---- What the ranks share ---- */

static struct overlap_shared {
    pthread_barrier_t barrier;
    char address[GROUPS][RANKS_MAX][GROUP_ADDRESS_MAX];
    uint32_t steps[WAYS_MAX];      /* of a cell */
    struct series us[2][WAYS_MAX]; /* rank 0's, of each network */
    struct series kb[2][WAYS_MAX]; /* the same: sent in a step */
    size_t networks;
} * shared;

static void
overlap_barrier(void)
{
    (void)pthread_barrier_wait(&shared->barrier);
}

static void
overlap_fail(const char *what, const struct ps_error *e)
{
    char line[PS_ERROR_LINE_MAX];

    ps_error_format(e, line, sizeof line);
    fprintf(stderr, "bench: overlap: %s: %s\n", what, line);
    (void)kill(getppid(), SIGTERM); /* which takes the other ranks along */
    _exit(1);
}

/* ---- A rank ---- */

struct overlap_area_rank {
    uint32_t rank;
    ps_group *group[GROUPS];
    ps_device *device;
    ps_network *network;
    ps_reducer *reducer[WAYS_MAX];
    struct ps_batch batch;
    float *x;
    uint32_t *labels;
};

static void
form_group(struct overlap_area_rank *r, int threaded)
{
    struct ps_group_options o = {.timeout_ms = 30000,
                                 .progress_thread = threaded,
                                 .transport = settings->tcp ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO,
                                 .incarnation = r->rank + 1};
    struct group_membership t = {.id = 0};
    struct ps_error e;

    if (!settings->tcp)
        unsetenv("PSD_TRANSPORT"); /* bench.c; this is a rank's process */
    if (group_new("bench", &o, &r->group[threaded], &e) || group_listen(r->group[threaded], "127.0.0.1:0", &e) ||
        group_membership_init(&t, ranks, &e))
        overlap_fail("group", &e);
    snprintf(shared->address[threaded][r->rank], GROUP_ADDRESS_MAX, "%s", r->group[threaded]->acceptor.address);
    overlap_barrier();
    t.id = t.epoch = 1;
    t.rank = r->rank;
    for (uint32_t i = 0; i < ranks; i++) {
        t.members[i].task = i;
        t.members[i].incarnation = i + 1;
        snprintf(t.members[i].host, GROUP_HOST_MAX, "%s", settings->tcp ? "" : "here");
        snprintf(t.members[i].address, GROUP_ADDRESS_MAX, "%s", shared->address[threaded][i]);
    }
    if (group_form(r->group[threaded], &t, uv_now(&r->group[threaded]->loop) + 30000, &e))
        overlap_fail("group", &e);
}

static void
make_network(struct overlap_area_rank *r, const struct overlap_model *m)
{
    struct ps_device_options one_thread = {.threads = 1};
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.layer = layers, .rows_max = m->rows, .seed = 1};
    struct ps_error e;
    size_t inputs;

    while (spec.rank < 3 && m->dims[spec.rank] != 0) {
        spec.dims[spec.rank] = m->dims[spec.rank];
        spec.rank++;
    }
    if (ps_device_open("cpu", &one_thread, &r->device, &e) || ps_network_parse(m->layers, layers, &spec.layers, &e) ||
        ps_network_new(r->device, &spec, &r->network, &e))
        overlap_fail(m->name, &e);
    ps_network_initialize(r->network);
    inputs = ps_network_inputs(r->network);
    r->x = calloc(m->rows * inputs, sizeof *r->x);
    r->labels = calloc(m->rows, sizeof *r->labels);
    if (r->x == NULL || r->labels == NULL)
        exit(1);
    for (size_t i = 0; i < m->rows * inputs; i++)
        r->x[i] = (float)((i * 7 + r->rank) % 17) / 17;
    for (size_t i = 0; i < m->rows; i++)
        r->labels[i] = (uint32_t)(i % 10);
    r->batch = (struct ps_batch){.rows = m->rows, .x = r->x, .labels = r->labels};
}

static void
make_reducers(struct overlap_area_rank *r)
{
    uint64_t sizes[2 * PS_LAYERS_MAX];
    struct ps_error e;

    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        struct ps_var_spec spec;

        ps_network_var_spec(r->network, i, &spec);
        sizes[i] = 1;
        for (uint32_t k = 0; k < spec.rank; k++)
            sizes[i] *= spec.dims[k];
    }
    for (size_t w = 0; w < ways_len; w++) {
        struct ps_reducer_options o = {
            .bucket_bytes = ways[w].bucket, .first_bucket_bytes = ways[w].first, .compress = ways[w].compress};

        if (ps_reducer_new(ways[w].alone ? NULL : r->group[ways[w].threaded], ps_network_params(r->network), sizes, &o,
                           &r->reducer[w], &e))
            overlap_fail("reducer", &e);
    }
}

static void
free_model(struct overlap_area_rank *r)
{
    for (size_t w = 0; w < ways_len; w++)
        ps_reducer_free(r->reducer[w]);
    ps_network_free(r->network);
    ps_device_close(r->device);
    free(r->x);
    free(r->labels);
}

static double
run_cell(struct overlap_area_rank *r, size_t w, uint32_t steps)
{
    ps_reducer *reducer = r->reducer[w];
    struct ps_error e;
    double began;

    ps_network_place(r->network, NULL, ps_reducer_buffers(reducer));
    ps_network_on_ready(r->network, ways[w].overlapped ? ps_reducer_ready : NULL, reducer);
    overlap_barrier();
    began = now_s();
    for (uint32_t i = 0; i < steps; i++) {
        if (ps_reducer_begin(reducer, &e) || ps_network_gradient(r->network, &r->batch, 1, i, NULL, &e))
            overlap_fail(ways[w].name, &e);
        for (size_t k = ps_network_params(r->network); !ways[w].overlapped && k-- > 0;)
            ps_reducer_ready(reducer, k);
        if (ps_reducer_finish(reducer, &e))
            overlap_fail(ways[w].name, &e);
    }
    return (now_s() - began) / steps * 1e6;
}

/* How many steps fill a cell, by rank 0's clock. */
static void
overlap_calibrate(struct overlap_area_rank *r)
{
    for (size_t w = 0; w < ways_len; w++) {
        double us = run_cell(r, w, 3);

        us = run_cell(r, w, 5);
        if (r->rank == 0)
            shared->steps[w] = (uint32_t)MAX(settings->seconds * 1e6 / us, 3);
        overlap_barrier();
    }
}

/* A turn of rank 0's, for the tables. */
static void
overlap_note(const struct overlap_area_rank *r, size_t m, size_t w, double us, uint64_t sent_before)
{
    uint64_t sent, plain;

    ps_reducer_bytes(r->reducer[w], &sent, &plain);
    series_add(&shared->us[m][w], us);
    if (!ways[w].alone)
        series_add(&shared->kb[m][w], (double)(sent - sent_before) / 1000 / shared->steps[w]);
}

static void
run_rank(uint32_t rank)
{
    static struct overlap_area_rank r;

    r.rank = rank;
    for (int threaded = 0; threaded < GROUPS; threaded++)
        form_group(&r, threaded);
    for (size_t m = 0; m < shared->networks; m++) {
        make_network(&r, &models[m]);
        make_reducers(&r);
        overlap_calibrate(&r);
        for (int round = 0; round < settings->rounds; round++)
            for (size_t w = 0; w < ways_len; w++) {
                uint64_t sent, plain;
                double us;

                ps_reducer_bytes(r.reducer[w], &sent, &plain);
                us = run_cell(&r, w, shared->steps[w]);
                if (rank == 0)
                    overlap_note(&r, m, w, us, sent);
            }
        free_model(&r);
        overlap_barrier();
    }
    for (int threaded = 0; threaded < GROUPS; threaded++)
        ps_group_close(r.group[threaded]);
}

/* ---- All ---- */

static void
overlap_map_shared(void)
{
    pthread_barrierattr_t attr;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        bench_die("memory", NULL);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, ranks);
}

/* A rank that fails ends the others. */
static void
run_ranks(void)
{
    pid_t pids[RANKS_MAX];
    int status;
    bool failed = false;

    fflush(NULL);
    for (uint32_t i = 0; i < ranks; i++) {
        if ((pids[i] = fork()) < 0)
            bench_die("fork", NULL);
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(i);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < ranks; i++) {
        waitpid(pids[i], &status, 0);
        failed |= status != 0;
    }
    errno = ECHILD;
    if (failed)
        bench_die("a rank", NULL);
}

void
area_overlap(const struct bench_options *s, struct bench_report *r)
{
    struct bench_variant shown[WAYS_MAX] = {{.name = NULL}};
    uint64_t list[8];
    size_t n = bench_options_numbers(s->ranks, NULL, 0, list, ARRAY_LEN(list)), networks;

    settings = s;
    ranks = (uint32_t)MIN(MAX(n > 0 ? list[0] : 2, 2), RANKS_MAX);
    ways_len = 0;
    make_ways();
    overlap_map_shared();
    networks = (size_t)bench_options_pick(s, 1, 2, 2);
    shared->networks = networks;
    run_ranks();
    for (size_t w = 0; w < ways_len; w++)
        shown[w] = (struct bench_variant){.name = ways[w].name, .against = {w > 1 ? ways[1].name : NULL}};
    for (size_t m = 0; m < networks; m++) {
        char title[TITLE_MAX];
        struct table_spec spec = {.title = title, .unit = "us", .less = true},
                          sent = {.title = title, .unit = "kB", .less = true};

        snprintf(title, sizeof title, "a step of %u ranks, %zu rows each: %s", ranks, models[m].rows, models[m].name);
        table_row(report_table(r, &spec, shown, ways_len), models[m].name, 0, shared->us[m]);
        snprintf(title, sizeof title, "gradients that a rank of %u sends in a step: %s", ranks, models[m].name);
        table_row(report_table(r, &sent, shown, ways_len), models[m].name, 0, shared->kb[m]);
    }
    munmap(shared, sizeof *shared);
}
