/* How long a shard that was killed is away, by the size of its model: until it listens again, and until a worker that
 * connects again has its first block; once with its live directory as the kill left it, once without, so that it is
 * rebuilt from the durable one. Beside that a plain read of the durable file; before both the page cache is asked to
 * forget it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

#define VAR_BYTES (4 * MIB)

enum { KEPT, KEPT_PULL, REBUILT, REBUILT_PULL, PLAIN, RESTART_WAYS };

static const struct bench_variant ways[RESTART_WAYS] = {
    [KEPT] = {.name = "kept, listens"},
    [KEPT_PULL] = {.name = "kept, pulled"},
    [REBUILT] = {.name = "rebuilt, listens", .against = {"plain read"}},
    [REBUILT_PULL] = {.name = "rebuilt, pulled"},
    [PLAIN] = {.name = "plain read"},
};

static struct {
    struct bench_server psd;
    char durable[BENCH_PATH_MAX];
} b;

static int
open_forgotten(void)
{
    char path[BENCH_PATH_MAX + 16];
    int fd;

    snprintf(path, sizeof path, "%s/data.mdb", b.durable);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        bench_die(path, NULL);
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return fd;
}

static double
plain_read(void)
{
    static char buffer[MIB];
    int fd = open_forgotten();
    double start = now_s();
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        ;
    if (n < 0)
        bench_die("read", NULL);
    close(fd);
    return now_s() - start;
}

/* An observer's first block, and whether it is what the pushes made. */
static void
restart_first_block(const struct bench_options *s)
{
    const float *grad = (const float *)(const void *)load_gradients();
    struct bench_worker w;
    struct ps_error e;
    ps_var *var;
    float *out = load_memory(VAR_BYTES);

    worker_open(&w, s, b.psd.address, &(struct ps_client_options){.job = "bench", .observer = 1}, 1, 0);
    if (ps_client_attach(w.client, "w/0", &var, &e) != PS_OK ||
        ps_client_pull(w.client, 1, &var, &out, NULL, &e) != PS_OK)
        bench_die("pull after a restart", &e);
    if (!(out[1] * grad[1] < 0)) {
        fprintf(stderr, "bench: after a restart the block is not what was pushed\n");
        exit(EXIT_FAILURE);
    }
    free(out);
    worker_close(&w);
}

static void
restart_again(const struct bench_options *s, double *listens, double *pulled)
{
    double start = now_s();

    bench_server_again(&b.psd);
    *listens = now_s() - start;
    restart_first_block(s);
    *pulled = now_s() - start;
}

static void
round_of(const struct bench_options *s, double *figures)
{
    bench_server_end(&b.psd, SIGKILL);
    restart_again(s, &figures[KEPT], &figures[KEPT_PULL]);
    bench_server_end(&b.psd, SIGKILL);
    figures[PLAIN] = plain_read();
    bench_remove(b.psd.live);
    close(open_forgotten());
    restart_again(s, &figures[REBUILT], &figures[REBUILT_PULL]);
}

/* A model of so many bytes, each variable pushed once, and saved. */
static void
make_model(const struct bench_options *s, uint64_t bytes)
{
    static const char *more[] = {
        "--durable-dir", NULL, "--save-interval", "0", "--save-on-stop", "0", "--save-rate", "0", NULL};
    struct ps_save_report saved;
    struct ps_error e;
    struct bench_worker w;
    struct var_set v;

    bench_path(b.durable, false, "durable");
    more[1] = b.durable;
    bench_server_start(&b.psd, s, more);
    worker_open(&w, s, b.psd.address, &(struct ps_client_options){.job = "bench"}, 1, 0);
    var_set_declare(&v, &w, "w", VAR_BYTES, (uint32_t)(bytes / VAR_BYTES));
    for (uint32_t i = 0; i < v.count; i++)
        if (ps_client_push(w.client, 1, &v.vars[i], (const float *[]){(const float *)(const void *)load_gradients()},
                           NULL, &e) != PS_OK)
            bench_die("push", &e);
    if (ps_client_save(w.client, 0, 600000, &saved, &e) != PS_OK)
        bench_die("save", &e);
    var_set_free(&v);
    worker_close(&w);
}

void
area_restart(const struct bench_options *s, struct bench_report *r)
{
    static const uint64_t sizes[] = {256 * MIB, 4096 * MIB};
    struct table_spec spec = {
        .title = "a restart after kill -9", .unit = "ms", .less = true, .axis = "bytes of the model"};
    struct bench_table *t = report_table(r, &spec, ways, RESTART_WAYS);

    for (size_t i = 0; i < (size_t)bench_options_pick(s, 1, 1, ARRAY_LEN(sizes)); i++) {
        uint64_t bytes = s->extent == EXTENT_TINY ? 8 * MIB : sizes[i];
        struct series series[RESTART_WAYS] = {{.n = 0}};
        char text[LOAD_SIZE_TEXT];

        make_model(s, bytes);
        for (int64_t round = 0; round < s->rounds; round++) {
            double figures[RESTART_WAYS];

            round_of(s, figures);
            for (size_t w = 0; w < RESTART_WAYS; w++)
                series_add(&series[w], figures[w] * 1e3);
        }
        table_row(t, load_size(bytes, text), (double)bytes, series);
        bench_server_stop(&b.psd);
        bench_remove(b.durable);
    }
}
