/* The cost of waiting for the disk: pushes that are done when they are applied, and when they are on the disk as well,
 * beside as many bytes that are written to a file of the same disk and synced, a window of messages at a time. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

#define FILE_MAX GIB /* then it is started again */

static const struct bench_load loads[] = {
    {LOAD_PUSH, 64, 100, 100, 16}, {LOAD_PUSH, 4032, 1024, 64, 8}, {LOAD_PUSH, MIB, 16, 1, 8}};

static struct {
    struct bench_server psd;
    char durable[BENCH_PATH_MAX], plain[BENCH_PATH_MAX];
    struct bench_worker worker;
    struct var_set vars;
    const struct bench_load *load;
} b;

static double
acks_rate(double seconds_each)
{
    return (double)(b.load->batch * b.load->size) * 1e-6 / seconds_each;
}

static void
sample_applied(void *arg, double seconds, double *figures)
{
    (void)arg;
    figures[0] = acks_rate(worker_run(&b.worker, &b.vars, b.load, NULL, seconds));
}

static void
sample_durable(void *arg, double seconds, double *figures)
{
    struct ps_push_options o = {.flags = PS_PUSH_DURABLE};

    (void)arg;
    figures[0] = acks_rate(worker_run(&b.worker, &b.vars, b.load, &o, seconds));
}

static void
sample_synced(void *arg, double seconds, double *figures)
{
    int fd = open(b.plain, O_CREAT | O_WRONLY | O_CLOEXEC | O_TRUNC, 0600);
    size_t message = b.load->batch * b.load->size;
    double start = now_s();
    uint64_t n = 0;

    (void)arg;
    if (fd < 0)
        bench_die(b.plain, NULL);
    while (n == 0 || now_s() - start < seconds) {
        for (uint32_t i = 0; i < b.load->window; i++, n++)
            if (pwrite(fd, load_gradients(), message, (off_t)(n * message % FILE_MAX)) != (ssize_t)message)
                bench_die(b.plain, NULL);
        if (fdatasync(fd) < 0)
            bench_die(b.plain, NULL);
    }
    figures[0] = acks_rate((now_s() - start) / (double)n);
    close(fd);
}

void
area_acks(const struct bench_options *s, struct bench_report *r)
{
    static const char *more[] = {"--durable-dir", NULL, "--save-interval", "0", "--save-on-stop", "0", NULL};
    static const struct bench_variant ways[] = {
        {.name = "applied", .sample = sample_applied},
        {.name = "durable", .against = {"applied", "fdatasync"}, .sample = sample_durable},
        {.name = "fdatasync", .sample = sample_synced}};
    static struct interleave turns;
    struct table_spec spec = {.title = "push by what its answer says", .unit = "MB/s", .axis = "bytes of a block"};
    struct bench_table *t = report_table(r, &spec, ways, ARRAY_LEN(ways));

    bench_path(b.durable, false, "durable");
    bench_path(b.plain, false, "plain");
    more[1] = b.durable;
    bench_server_start(&b.psd, s, more);
    worker_open(&b.worker, s, b.psd.address, NULL, 1, 0);
    for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
        char text[LOAD_SIZE_TEXT];

        b.load = &loads[i];
        var_set_declare(&b.vars, &b.worker, load_size(loads[i].size, text), loads[i].size, loads[i].blocks);
        interleave_run(s, ways, ARRAY_LEN(ways), 1, &turns);
        worker_check(&b.worker, &b.vars, b.load);
        table_row(t, text, (double)loads[i].size, turns.series[0]);
        var_set_free(&b.vars);
    }
    worker_close(&b.worker);
    bench_server_stop(&b.psd);
    bench_remove(b.durable);
    bench_remove(b.plain);
}
