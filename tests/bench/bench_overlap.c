/* What it gains to reduce gradients while the backward pass goes on: a training step of two ranks or more on this
 * machine, over TCP on loopback, in several ways that take turns.
 *
 *     bench_overlap [--ranks N] [--rounds N] [--seconds S] [--bucket BYTES] [--first BYTES] [--sweep] [--tcp]
 *
 * For each network a step is: gradient of a slice, its mean over the ranks. Ways:
 *
 *     compute                the gradient alone; the ranks do not wait for each other
 *     whole, after           one all-reduce of all gradients when the backward pass has ended
 *     parameters, after      one for each parameter, then
 *     buckets, after         the buckets, then
 *     buckets, overlapped    each bucket as soon as it is whole; the network moves when a gradient is ready
 *     ... with a thread      the same, with the group's progress thread
 *
 * A figure is rank 0's median over the rounds of the mean of a cell's steps; ratios are medians of the rounds' own, to
 * "whole, after" of the same round. --sweep does buckets of several sizes instead. Nothing is asserted: it reports. For
 * a link that is slower than loopback run it in a network namespace with "tc qdisc add dev lo root tbf rate ...". */
#include <getopt.h>
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
#include "client/ps_network.h"
#include "client/ps_reducer.h"
#include "common/base.h"
#include "series.h"
#include "tests/now.h"

enum { RANKS_MAX = 8, WAYS_MAX = 16, GROUPS = 2 /* without and with a thread */ };

static struct {
    uint32_t ranks;
    int rounds;
    double seconds; /* of a cell */
    size_t bucket, first;
    bool sweep, tcp;
} options = {.ranks = 2, .rounds = 9, .seconds = 0.1};

/* ---- Networks ---- */

struct model {
    const char *name, *layers;
    size_t dims[3], rows; /* of a rank */
};

static const struct model models[] = {
    {"digits conv",
     "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dropout 0.25, dense 10",
     {8, 8, 1},
     48},
    {"perceptron", "dense 1024, relu, dense 1024, relu, dense 1024, relu, dense 1024, relu, dense 10", {784}, 64},
};

/* ---- Ways ---- */

struct way {
    char name[64];
    bool alone, overlapped, threaded;
    size_t bucket, first;
};

static struct way ways[WAYS_MAX];
static size_t ways_len;

static void
add_way(const char *name, bool overlapped, bool threaded, size_t bucket, size_t first)
{
    struct way *w = &ways[ways_len++];

    ps_assert(ways_len <= WAYS_MAX);
    snprintf(w->name, sizeof w->name, "%s%s", name, threaded ? ", with a thread" : "");
    w->overlapped = overlapped;
    w->threaded = threaded;
    w->bucket = bucket;
    w->first = first;
}

static void
make_ways(void)
{
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20};
    char name[24];

    add_way("compute", false, false, 1, 1);
    ways[0].alone = true;
    add_way("whole, after", false, false, SIZE_MAX, SIZE_MAX);
    for (size_t i = 0; options.sweep && i < ARRAY_LEN(sizes); i++)
        for (int threaded = 0; threaded < 2; threaded++) {
            snprintf(name, sizeof name, "%zu KiB", sizes[i] >> 10);
            add_way(name, true, threaded, sizes[i], MIN(options.first != 0 ? options.first : sizes[i], sizes[i]));
        }
    if (options.sweep)
        return;
    add_way("whole, after", false, true, SIZE_MAX, SIZE_MAX);
    add_way("parameters, after", false, false, 1, 1);
    add_way("parameters, overlapped", true, false, 1, 1);
    add_way("buckets, after", false, false, options.bucket, options.first);
    add_way("buckets, overlapped", true, false, options.bucket, options.first);
    add_way("buckets, overlapped", true, true, options.bucket, options.first);
}

/* ---- What the ranks share ---- */

static struct shared {
    pthread_barrier_t barrier;
    char address[GROUPS][RANKS_MAX][GROUP_ADDRESS_MAX];
    uint32_t steps[WAYS_MAX]; /* of a cell */
} * shared;

static void
meet(void)
{
    (void)pthread_barrier_wait(&shared->barrier);
}

static void
fail(const char *what, const struct ps_error *e)
{
    char line[PS_ERROR_LINE_MAX];

    ps_error_format(e, line, sizeof line);
    fprintf(stderr, "bench_overlap: %s: %s\n", what, line);
    kill(getppid(), SIGTERM); /* which takes the other ranks along */
    _exit(1);
}

/* ---- A rank ---- */

struct rank {
    uint32_t rank;
    ps_group *group[GROUPS];
    ps_device *device;
    ps_network *network;
    ps_reducer *reducer[WAYS_MAX];
    struct ps_batch batch;
    float *x;
    uint32_t *labels;
    struct series us[WAYS_MAX];
};

static void
form_group(struct rank *r, int threaded)
{
    struct ps_group_options o = {.timeout_ms = 30000,
                                 .progress_thread = threaded,
                                 .transport = options.tcp ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO,
                                 .incarnation = r->rank + 1};
    struct group_table t = {.id = 0};
    struct ps_error e;

    if (group_new("bench", &o, &r->group[threaded], &e) || group_listen(r->group[threaded], "127.0.0.1:0", &e) ||
        group_table_init(&t, options.ranks, &e))
        fail("group", &e);
    snprintf(shared->address[threaded][r->rank], GROUP_ADDRESS_MAX, "%s", r->group[threaded]->door.address);
    meet();
    t.id = t.epoch = 1;
    t.rank = r->rank;
    for (uint32_t i = 0; i < options.ranks; i++) {
        t.members[i].task = i;
        t.members[i].incarnation = i + 1;
        snprintf(t.members[i].host, GROUP_HOST_MAX, "%s", options.tcp ? "" : "here");
        snprintf(t.members[i].address, GROUP_ADDRESS_MAX, "%s", shared->address[threaded][i]);
    }
    if (group_form(r->group[threaded], &t, uv_now(&r->group[threaded]->loop) + 30000, &e))
        fail("group", &e);
}

static void
make_network(struct rank *r, const struct model *m)
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
        fail(m->name, &e);
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
make_reducers(struct rank *r)
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
        struct ps_reducer_options o = {.bucket_bytes = ways[w].bucket, .first_bucket_bytes = ways[w].first};

        if (ps_reducer_new(ways[w].alone ? NULL : r->group[ways[w].threaded], ps_network_params(r->network), sizes, &o,
                           &r->reducer[w], &e))
            fail("reducer", &e);
    }
}

static void
free_model(struct rank *r)
{
    for (size_t w = 0; w < ways_len; w++)
        ps_reducer_free(r->reducer[w]);
    ps_network_free(r->network);
    ps_device_close(r->device);
    free(r->x);
    free(r->labels);
}

static double
run_cell(struct rank *r, size_t w, uint32_t steps)
{
    ps_reducer *reducer = r->reducer[w];
    struct ps_error e;
    double began;

    ps_network_place(r->network, NULL, ps_reducer_buffers(reducer));
    ps_network_on_ready(r->network, ways[w].overlapped ? ps_reducer_ready : NULL, reducer);
    meet();
    began = now_s();
    for (uint32_t i = 0; i < steps; i++) {
        if (ps_reducer_begin(reducer, &e) || ps_network_gradient(r->network, &r->batch, 1, i, NULL, &e))
            fail(ways[w].name, &e);
        for (size_t k = ps_network_params(r->network); !ways[w].overlapped && k-- > 0;)
            ps_reducer_ready(reducer, k);
        if (ps_reducer_finish(reducer, &e))
            fail(ways[w].name, &e);
    }
    return (now_s() - began) / steps * 1e6;
}

/* How many steps fill a cell, by rank 0's clock. */
static void
calibrate(struct rank *r)
{
    for (size_t w = 0; w < ways_len; w++) {
        double us = run_cell(r, w, 3);

        us = run_cell(r, w, 5);
        if (r->rank == 0)
            shared->steps[w] = (uint32_t)MAX(options.seconds * 1e6 / us, 3);
        meet();
    }
}

static void
report(struct rank *r, const struct model *m)
{
    char text[512];

    printf("\n%s: %s\n%" PRIu64 " gradients, %.2f MB; %zu rows a rank; %u ranks\n", m->name,
           ps_network_describe(r->network, text, sizeof text), ps_network_elements(r->network),
           (double)ps_network_elements(r->network) * 4e-6, m->rows, options.ranks);
    printf("%-38s %8s %10s %10s %8s\n", "", "buckets", "us a step", "spread", "ratio");
    for (size_t w = 0; w < ways_len; w++)
        printf("%-38s %8zu %10.0f %9.0f%% %8.3f\n", ways[w].name, ways[w].alone ? 0 : ps_reducer_buckets(r->reducer[w]),
               series_quantile(&r->us[w], 0.5), 100 * series_spread(&r->us[w]), series_ratio(&r->us[w], &r->us[1]));
    fflush(stdout);
}

static void
run_rank(uint32_t rank)
{
    static struct rank r;

    r.rank = rank;
    for (int threaded = 0; threaded < GROUPS; threaded++)
        form_group(&r, threaded);
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        make_network(&r, &models[m]);
        make_reducers(&r);
        calibrate(&r);
        for (int round = 0; round < options.rounds; round++)
            for (size_t w = 0; w < ways_len; w++) {
                r.us[w].value[round] = run_cell(&r, w, shared->steps[w]);
                r.us[w].n = round + 1;
            }
        if (rank == 0)
            report(&r, &models[m]);
        free_model(&r);
        meet();
    }
    for (int threaded = 0; threaded < GROUPS; threaded++)
        ps_group_close(r.group[threaded]);
}

/* ---- All ---- */

static void
read_options(int argc, char **argv)
{
    static const struct option table[] = {
        {"ranks", required_argument, NULL, 'n'},   {"rounds", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'}, {"bucket", required_argument, NULL, 'b'},
        {"first", required_argument, NULL, 'f'},   {"sweep", no_argument, NULL, 'w'},
        {"tcp", no_argument, NULL, 't'},           {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (c == 'n')
            options.ranks = (uint32_t)atoi(optarg);
        else if (c == 'r')
            options.rounds = atoi(optarg);
        else if (c == 's')
            options.seconds = atof(optarg);
        else if (c == 'b')
            options.bucket = (size_t)atoll(optarg);
        else if (c == 'f')
            options.first = (size_t)atoll(optarg);
        else if (c == 'w')
            options.sweep = true;
        else if (c == 't')
            options.tcp = true;
        else
            exit(2);
    }
    if (options.ranks < 2 || options.ranks > RANKS_MAX || options.rounds < 1 || options.rounds > SERIES_MAX) {
        fprintf(stderr, "bench_overlap: 2 to %d ranks, 1 to %d rounds\n", RANKS_MAX, SERIES_MAX);
        exit(2);
    }
}

int
main(int argc, char **argv)
{
    pthread_barrierattr_t attr;
    int status, failed = 0;

    read_options(argc, argv);
    make_ways();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, options.ranks);
    for (uint32_t i = 0; i < options.ranks; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(i);
            exit(0);
        }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}
