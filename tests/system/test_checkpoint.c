/* Checkpoints of real shards: written, damaged, kept, and put into clusters of other sizes, where training goes on
 * without a trace. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/checkpoint/checkpoint_dir_writer.h"
#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "server/daemon/restore_requests.h"
#include "tests/now.h"
#include "tests/remove_tree.h"
#include "tests/system/fine.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define LARGE   300000 /* elements: blocks of all sizes, on every shard */
#define SMALL   7
#define WORKERS 2

static struct shards shards;
static struct ps_error error;
static char dir[64]; /* of checkpoints */

static void
checkpoint_setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/psd-checkpoint-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
checkpoint_teardown(void)
{
    ck_assert_int_eq(remove_tree(dir), 0);
}

static const char *
in_dir(const char *name)
{
    static char path[4][512];
    static unsigned next;

    snprintf(path[++next % 4], sizeof path[0], "%s/%s", dir, name);
    return path[next % 4];
}

static bool
is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* ---- Clients ---- */

static ps_client *
open_with(struct ps_client_options o, uint32_t task)
{
    ps_cluster *cluster;
    ps_client *c;

    FINE(ps_cluster_from_list(shards.addresses, WORKERS, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &o, &c, &error));
    ps_cluster_free(cluster);
    return c;
}

static ps_client *
checkpoint_observe(void)
{
    return open_with((struct ps_client_options){.observer = 1}, 0);
}

static void
checkpoint_take(const char *name, uint32_t keep)
{
    ps_client *c = checkpoint_observe();
    struct ps_checkpoint_options o = {.name = name, .keep = keep};
    char *made = NULL;

    FINE(ps_client_checkpoint(c, dir, &o, 20000, &made, &error));
    ck_assert_str_eq(made, name);
    ps_free(made);
    ps_client_close(c);
}

static enum ps_err
checkpoint_restore(const char *path)
{
    ps_client *c = checkpoint_observe();
    enum ps_err err = ps_client_restore(c, path, NULL, 60000, &error);

    ps_client_close(c);
    return err;
}

/* ---- Two workers that train in step, driven from one thread ---- */

struct checkpoint_worker {
    ps_client *client;
    ps_var *vars[2];
    float *weights[2], *grads[2];
};

static const uint64_t sizes[2] = {LARGE, SMALL};

static void
worker_open(struct checkpoint_worker *w, uint32_t task)
{
    static const char *const names[2] = {"large", "a small one"};

    w->client = open_with((struct ps_client_options){.mode = PS_SYNC}, task);
    for (int v = 0; v < 2; v++) {
        struct ps_var_spec spec = {
            .name = names[v], .rank = 1, .dims = {sizes[v]}, .init = {.kind = PS_INIT_NORMAL, .b = 0.1, .seed = 11}};

        FINE(ps_optimizer_parse("adam:learning_rate=0.01,schedule=step,steps=3,factor=0.5", &spec.optimizer, &error));
        FINE(ps_client_declare(w->client, &spec, &w->vars[v], &error));
        w->weights[v] = malloc(sizes[v] * sizeof(float));
        w->grads[v] = malloc(sizes[v] * sizeof(float));
    }
}

static void
worker_close(struct checkpoint_worker *w)
{
    ps_client_close(w->client);
    for (int v = 0; v < 2; v++) {
        free(w->weights[v]);
        free(w->grads[v]);
    }
}

/* A gradient that depends on the weights, the worker and the step. */
static void
checkpoint_compute(struct checkpoint_worker *w, uint32_t task)
{
    uint64_t clock = ps_client_clock(w->client);

    for (int v = 0; v < 2; v++)
        for (uint64_t i = 0; i < sizes[v]; i++)
            w->grads[v][i] = w->weights[v][i] * 0.5f + (float)((i * 7 + clock * 13 + task) % 29) / 31.0f;
}

static void
open_both(struct checkpoint_worker w[WORKERS])
{
    for (uint32_t t = 0; t < WORKERS; t++)
        worker_open(&w[t], t);
}

static void
train_until(struct checkpoint_worker w[WORKERS], uint64_t clock)
{
    ps_op *ops[WORKERS];

    while (ps_client_clock(w[0].client) < clock) {
        for (uint32_t t = 0; t < WORKERS; t++) {
            FINE(ps_client_pull(w[t].client, 2, w[t].vars, w[t].weights, NULL, &error));
            checkpoint_compute(&w[t], t);
        }
        for (uint32_t t = 0; t < WORKERS; t++)
            FINE(ps_client_push_start(w[t].client, 2, w[t].vars, (const float *const *)w[t].grads, NULL, &ops[t],
                                      &error));
        while (!(ps_op_test(ops[0]) & ps_op_test(ops[1])))
            ; /* each is answered when the other has arrived, and each client sends only while it is driven */
        for (uint32_t t = 0; t < WORKERS; t++) {
            FINE(ps_op_wait(ops[t], 60000, &error));
            ps_op_free(ops[t]);
            FINE(ps_client_tick(w[t].client, &error));
        }
    }
}

static void
close_both(struct checkpoint_worker w[WORKERS])
{
    for (uint32_t t = 0; t < WORKERS; t++)
        worker_close(&w[t]);
}

/* ---- Files ---- */

static void
check_same_file(const char *one, const char *other, const char *file)
{
    char command[1200];

    snprintf(command, sizeof command, "cmp %s/%s/%s %s/%s/%s", dir, one, file, dir, other, file);
    ck_assert_msg(system(command) == 0, "%s of %s and %s differ", file, one, other);
}

static void
check_same(const char *one, const char *other)
{
    check_same_file(one, other, "weights.safetensors");
    check_same_file(one, other, "slots.safetensors");
}

START_TEST(training_goes_on_bitwise_on_any_number_of_shards)
{
    struct checkpoint_worker w[WORKERS];

    shards_start(&shards, 2);
    open_both(w);
    train_until(w, 4);
    close_both(w);
    checkpoint_take("at-4", 0);
    open_both(w); /* a new round */
    train_until(w, 8);
    close_both(w);
    checkpoint_take("at-8", 0);
    shards_stop(&shards);
    for (uint32_t n = 1; n <= 3; n++) {
        char name[16];

        shards_start(&shards, n);
        FINE(checkpoint_restore(in_dir("at-4")));
        snprintf(name, sizeof name, "at-4-%u", n);
        checkpoint_take(name, 0);
        check_same("at-4", name);
        open_both(w);
        ck_assert_uint_eq(ps_client_clock(w[0].client), 4);
        train_until(w, 8);
        close_both(w);
        snprintf(name, sizeof name, "at-8-%u", n);
        checkpoint_take(name, 0);
        check_same("at-8", name);
        shards_stop(&shards);
    }
}
END_TEST

START_TEST(weights_in_the_file_are_those_that_workers_pull)
{
    struct checkpoint_source source;
    struct checkpoint_worker w[WORKERS];
    float *file = malloc(LARGE * sizeof *file);

    shards_start(&shards, 2);
    open_both(w);
    train_until(w, 2);
    close_both(w);
    checkpoint_take("one", 0);
    open_both(w);
    FINE(ps_client_pull(w[0].client, 2, w[0].vars, w[0].weights, NULL, &error));
    FINE(checkpoint_source_open(in_dir("one"), NULL, &source, &error));
    FINE(checkpoint_source_verify(in_dir("one"), &source, NULL, &error));
    for (int v = 0; v < 2; v++) {
        const struct safetensors_tensor *t =
            safetensors_find(&source.files.tensors[CHECKPOINT_WEIGHTS], ps_var_name(w[0].vars[v]));

        ck_assert_ptr_nonnull(t);
        FINE(checkpoint_read(source.files.fd[CHECKPOINT_WEIGHTS], "weights", file, t->bytes, t->begin, &error));
        ck_assert_int_eq(memcmp(file, w[0].weights[v], t->bytes), 0);
    }
    ck_assert_uint_eq(source.manifest.clock, 2);
    ck_assert(source.manifest.at_clock);
    checkpoint_source_close(&source);
    close_both(w);
    free(file);
    shards_stop(&shards);
}
END_TEST

/* ---- Names ---- */

START_TEST(the_newest_are_kept_and_latest_leads_to_the_last)
{
    char target[64] = "";

    shards_start(&shards, 1);
    ps_client_close(open_with((struct ps_client_options){0}, 0));
    ck_assert_int_eq(mkdir(in_dir("not-ours"), 0777), 0);
    checkpoint_take("a", 0);
    checkpoint_take("b", 0);
    checkpoint_take("c", 2);
    ck_assert(!is_there(in_dir("a")));
    ck_assert(is_there(in_dir("b")) && is_there(in_dir("c")) && is_there(in_dir("not-ours")));
    ck_assert_int_gt(readlink(in_dir("latest"), target, sizeof target - 1), 0);
    ck_assert_str_eq(target, "c");
    FINE(checkpoint_restore(in_dir("latest")));
    shards_stop(&shards);
}
END_TEST

START_TEST(names_that_are_taken_or_mean_something_are_refused)
{
    static const char *const bad[] = {"latest", "", "a/b", ".hidden", "x.partial"};
    ps_client *c;

    shards_start(&shards, 1);
    ps_client_close(open_with((struct ps_client_options){0}, 0));
    checkpoint_take("a", 0);
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.name = "a"}, 20000, NULL, &error),
                     PS_ERR_BUSY);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_int_eq(
            ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.name = bad[i]}, 20000, NULL, &error),
            PS_ERR_INVALID);
    ck_assert_int_eq(
        ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.job = "nobody"}, 20000, NULL, &error),
        PS_ERR_NOT_FOUND);
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

/* ---- What goes wrong ---- */

static ps_client *slow;

static void
interrupt_slow(int sig)
{
    (void)sig;
    ps_client_interrupt(slow);
}

/* A process that begins the checkpoint "slow", which waits for a clock that no worker reaches. TERM ends it. */
static pid_t
begin_slow(int progress_thread)
{
    const struct ps_checkpoint_options o = {.name = "slow", .at_clock = 1, .clock = 1000};
    pid_t pid = fork();
    enum ps_err err;

    if (pid != 0)
        return pid;
    slow = open_with((struct ps_client_options){.observer = 1, .progress_thread = progress_thread}, 0);
    signal(SIGTERM, interrupt_slow);
    err = ps_client_checkpoint(slow, dir, &o, 60000, NULL, NULL);
    ps_client_close(slow);
    _exit((int)err);
}

static void
checkpoint_await(const char *path)
{
    for (int i = 0; i < 20000 && !is_there(path); i++)
        usleep(1000); /* there is no event for another process's progress */
    ck_assert_msg(is_there(path), "%s did not come", path);
}

START_TEST(one_that_is_killed_in_the_middle_leaves_nothing_that_counts)
{
    ps_client *worker, *c;
    pid_t pid;

    shards_start(&shards, 2);
    worker = open_with((struct ps_client_options){.mode = PS_SSP, .bound = 1}, 0);
    checkpoint_take("before", 0);
    pid = begin_slow(0);
    checkpoint_await(in_dir("slow.partial/slots.safetensors"));
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.name = "slow"}, 20000, NULL, &error),
                     PS_ERR_BUSY);
    ps_client_close(c);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(!is_there(in_dir("slow")));
    ck_assert_int_eq(checkpoint_restore(in_dir("slow.partial")), PS_ERR_DATA);
    checkpoint_take("slow", 1); /* the dead process's files disturb no other */
    ck_assert(!is_there(in_dir("slow.partial")) && !is_there(in_dir("before")));
    ps_client_abandon(worker);
    shards_stop(&shards);
}
END_TEST

/* Whether shard i has a waiting request. */
static bool
anybody_waits(ps_client *c, uint32_t i)
{
    char *json;
    bool waits;

    FINE(ps_client_query(c, i, PS_QUERY_BLOCKED, NULL, -1, &json, &error));
    waits = strstr(json, "checkpoint") != NULL;
    ps_free(json);
    return waits;
}

START_TEST(one_that_is_interrupted_goes_at_once_and_no_shard_goes_on_with_it)
{
    ps_client *worker, *c;
    int status;
    pid_t pid;

    shards_start(&shards, 2);
    worker = open_with((struct ps_client_options){.mode = PS_SSP, .bound = 1}, 0);
    pid = begin_slow(_i);
    checkpoint_await(in_dir("slow.partial/slots.safetensors"));
    c = checkpoint_observe();
    for (uint32_t i = 0; i < 2; i++)
        while (!anybody_waits(c, i))
            ; /* for the clock */
    kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == PS_ERR_CANCELLED);
    ck_assert(!is_there(in_dir("slow.partial")) && !is_there(in_dir("slow")));
    for (uint32_t i = 0; i < 2; i++)
        while (anybody_waits(c, i))
            ; /* its last answer may be read after this request */
    checkpoint_take("slow", 0);
    ps_client_close(c);
    ps_client_abandon(worker);
    shards_stop(&shards);
}
END_TEST

START_TEST(one_that_is_given_up_is_taken_back_from_shards_that_its_client_stays_with)
{
    const struct ps_checkpoint_options o = {.name = "late", .at_clock = 1, .clock = 99};
    ps_client *worker, *c;

    shards_start(&shards, 1);
    worker = open_with((struct ps_client_options){.mode = PS_SSP, .bound = 1}, 0);
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_checkpoint(c, dir, &o, 200, NULL, &error), PS_ERR_TIMEOUT);
    ck_assert(!anybody_waits(c, 0));
    ps_client_close(c);
    ps_client_abandon(worker);
    shards_stop(&shards);
}
END_TEST

START_TEST(a_clock_of_a_job_that_has_none_is_refused)
{
    const struct ps_checkpoint_options o = {.name = "never", .at_clock = 1, .clock = 1};
    ps_client *c;

    shards_start(&shards, 1);
    ps_client_close(open_with((struct ps_client_options){.mode = PS_ASYNC}, 0));
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_checkpoint(c, dir, &o, 20000, NULL, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "async"));
    ck_assert(!is_there(in_dir("never")) && !is_there(in_dir("never.partial")));
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

/* A manifest with the files of m, though their checksums are not those. */
static void
write_manifest(const struct dir_writer *m, struct checkpoint *c)
{
    char *text;
    struct stat st;
    int fd;

    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        ck_assert_int_eq(fstatat(m->fd, checkpoint_file_name((enum checkpoint_file)f), &st, 0), 0);
        c->files[f].bytes = (uint64_t)st.st_size;
        memset(c->files[f].sha256, '0', CHECKPOINT_DIGEST - 1);
    }
    text = checkpoint_text(c);
    fd = openat(m->fd, CHECKPOINT_MANIFEST, O_WRONLY | O_CREAT, 0666);
    FINE(checkpoint_write(fd, CHECKPOINT_MANIFEST, text, strlen(text), 0, &error));
    close(fd);
    free(text);
}

/* A checkpoint that takes long to read: one variable, a hole of 32 GiB. */
static void
make_huge(struct dir_writer *m)
{
    Psd__Declare declare = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer sgd = PSD__OPTIMIZER__INIT;
    Psd__Job job = PSD__JOB__INIT;
    struct checkpoint c = {.version = strdup("1"), .shares = calloc(1, sizeof *c.shares), .shares_len = 1};
    uint64_t dims[1] = {UINT64_C(8) << 30};

    job.name = (char *)"train";
    job.workers = 1;
    declare.name = (char *)"huge";
    declare.n_dims = 1;
    declare.dims = dims;
    declare.init = &init;
    declare.optimizer = &sgd;
    sgd.learning_rate = 1;
    FINE(checkpoint_set_job(&c, &job, &job, &error));
    FINE(checkpoint_add(&c, &declare, &declare, &error));
    FINE(dir_writer_begin(m, dir, "huge", false, &error));
    FINE(dir_writer_files(m, &c, &error));
    write_manifest(m, &c);
    checkpoint_finish(&c);
}

START_TEST(checksums_end_by_the_deadline)
{
    struct dir_writer m;
    ps_client *c;

    make_huge(&m);
    shards_start(&shards, 1);
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_restore(c, m.partial, NULL, 300, &error), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "300 ms were over at the checksum of weights.safetensors"));
    ps_client_close(c);
    dir_writer_close(&m);
    shards_stop(&shards);
}
END_TEST

/* ---- A shard that lies ---- */

/* Answer one request of a client: about this job. NULL: it does not even answer whether it could restore. */
static void
checkpoint_answer(struct probe *p, const char *job)
{
    Psd__Welcome welcome = PSD__WELCOME__INIT;
    Psd__Report report = PSD__REPORT__INIT;
    Psd__JobDefinition definition = PSD__JOB_DEFINITION__INIT;
    Psd__Job other = PSD__JOB__INIT;
    Psd__RestoreDone done = PSD__RESTORE_DONE__INIT;

    p->request = p->msg.request - 1; /* an answer has the request's number */
    if (p->msg.type == MSG_HELLO) {
        welcome.cluster = (char *)SHARDS_CLUSTER;
        welcome.shards = 1;
        welcome.boot = 1;
        probe_send(p, MSG_WELCOME, &welcome.base, NULL, 0);
    } else if (p->msg.type == MSG_QUERY) {
        other.name = (char *)job;
        other.workers = 1;
        definition.declared = definition.now = &other;
        report.kind = p->msg.u.query->kind;
        report.job_definition = &definition;
        probe_send(p, MSG_REPORT, &report.base, NULL, 0);
    } else if (p->msg.type == MSG_RESTORE && p->msg.u.restore->check && job != NULL) {
        probe_send(p, MSG_RESTORE_DONE, &done.base, NULL, 0);
    }
}

static void
be_a_shard(int listener, const char *job)
{
    struct probe p = {.fd = accept(listener, NULL, NULL)};

    while (probe_receive(&p))
        checkpoint_answer(&p, job);
    probe_close(&p);
    _exit(0);
}

/* A process that plays a shard, and its client. */
static pid_t
open_liar(const char *job, ps_client **c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ps_cluster *cluster;
    char list[256];
    pid_t pid;

    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    setenv("PSD_TRANSPORT", "tcp", 1); /* it knows no other transport */
    if ((pid = fork()) == 0)
        be_a_shard(listener, job);
    close(listener);
    snprintf(list, sizeof list, "unix:%s", address.sun_path);
    FINE(ps_cluster_from_list(list, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &(struct ps_client_options){.observer = 1}, c, &error));
    ps_cluster_free(cluster);
    return pid;
}

START_TEST(an_answer_about_another_job_is_not_believed)
{
    ps_client *c;
    pid_t pid = open_liar("another", &c);
    int status;

    ck_assert_int_eq(ps_client_checkpoint(c, dir, NULL, 20000, NULL, &error), PS_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(error.text, "asked for job 'train' and answered with job 'another'"));
    ps_client_close(c);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

/* _i: the shard has answered that it could, and is silent when it is to do it. */
START_TEST(a_restore_that_takes_too_long_says_what_became_of_the_data)
{
    ps_client *worker, *c;
    int status;
    pid_t pid;

    shards_start(&shards, 1);
    worker = open_with((struct ps_client_options){0}, 0);
    checkpoint_take("one", 0);
    ps_client_abandon(worker);
    shards_stop(&shards);
    pid = open_liar(_i == 0 ? NULL : "train", &c);
    ck_assert_int_eq(ps_client_restore(c, in_dir("one"), NULL, _i == 0 ? 300 : 2000, &error), PS_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, _i == 0 ? "; nothing has changed" : "; the shards go on with it") != NULL, "%s",
                  error.text);
    ps_client_close(c);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

START_TEST(one_that_is_given_up_is_removed)
{
    ps_client *worker, *c;

    shards_start(&shards, 1);
    worker = open_with((struct ps_client_options){.mode = PS_SSP, .bound = 1}, 0);
    c = checkpoint_observe();
    ck_assert_int_eq(ps_client_checkpoint(c, dir,
                                          &(struct ps_checkpoint_options){.name = "late", .at_clock = 1, .clock = 99},
                                          200, NULL, &error),
                     PS_ERR_TIMEOUT);
    ck_assert(!is_there(in_dir("late.partial")) && !is_there(in_dir("late")));
    ps_client_close(c);
    ps_client_abandon(worker);
    shards_stop(&shards);
}
END_TEST

/* The processor's time that a process has taken, in seconds. */
static double
processor_seconds(pid_t pid)
{
    unsigned long user = 0, system = 0;
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    fclose(f);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

START_TEST(one_that_waits_for_its_rate_leaves_the_processor_alone)
{
    struct checkpoint_worker w[WORKERS];
    double began, took, processor;

    shards_start_with(&shards, 1, &(struct shards_options){.more = (const char *const[]){"--save-rate", "1MiB", NULL}});
    open_both(w);
    train_until(w, 1);
    close_both(w);
    began = now_s();
    processor = processor_seconds(shards.pids[0]);
    checkpoint_take("slow", 0); /* of 4 MB, MiB by MiB */
    took = now_s() - began;
    processor = processor_seconds(shards.pids[0]) - processor;
    ck_assert_double_gt(took, 2);
    ck_assert_double_lt(processor, took / 2); /* a spinning process takes all of it */
    shards_stop(&shards);
}
END_TEST

enum harm { HARM_FLIP_FIRST, HARM_FLIP_MIDDLE, HARM_FLIP_LAST, HARM_CUT, HARM_GROW, HARM_REMOVE, HARMS };

static void
checkpoint_harm(const char *path, enum harm what)
{
    int fd = open(path, O_RDWR);
    struct stat st;
    uint8_t byte;
    off_t at;

    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    at = what == HARM_FLIP_FIRST ? 0 : what == HARM_FLIP_MIDDLE ? st.st_size / 2 : st.st_size - 1;
    if (what <= HARM_FLIP_LAST) {
        ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    } else if (what == HARM_REMOVE) {
        ck_assert_int_eq(unlink(path), 0);
    } else {
        ck_assert_int_eq(ftruncate(fd, st.st_size + (what == HARM_CUT ? -1 : 1)), 0);
    }
    close(fd);
}

START_TEST(what_is_damaged_is_refused_and_nothing_changes)
{
    static const char *const files[] = {"manifest.json", "weights.safetensors", "slots.safetensors"};
    struct checkpoint_worker w[WORKERS];
    char command[600], path[256];

    shards_start(&shards, 1);
    open_both(w);
    train_until(w, 1);
    close_both(w);
    checkpoint_take("good", 0);
    shards_stop(&shards);
    shards_start(&shards, 2);
    for (size_t f = 0; f < ARRAY_LEN(files); f++)
        for (int what = 0; what < HARMS; what++) {
            snprintf(command, sizeof command, "rm -rf %s/bad && cp -r %s/good %s/bad", dir, dir, dir);
            ck_assert_int_eq(system(command), 0);
            snprintf(path, sizeof path, "%s/bad/%s", dir, files[f]);
            checkpoint_harm(path, (enum harm)what);
            ck_assert_msg(checkpoint_restore(in_dir("bad")) == PS_ERR_DATA, "%s, harm %d: %s", files[f], what,
                          error.text);
            ck_assert_msg(strstr(error.text, files[f]) != NULL, "%s is not named: %s", files[f], error.text);
        }
    ck_assert_int_eq(checkpoint_restore(in_dir("nowhere")), PS_ERR_IO);
    FINE(checkpoint_restore(in_dir("good"))); /* all that time the shards were empty */
    shards_stop(&shards);
}
END_TEST

/* What an observer is answered; an error's text is in `error`. */
static enum ps_err
ask_shard(enum msg_type type, const ProtobufCMessage *m)
{
    enum ps_err err = PS_OK;
    struct probe p;

    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, -1, 0, false));
    probe_send(&p, type, m, NULL, 0);
    ck_assert(probe_receive(&p));
    if (p.msg.type == MSG_ERROR) {
        err = (enum ps_err)p.msg.u.error->code;
        snprintf(error.text, sizeof error.text, "%s", p.msg.u.error->text);
    }
    probe_close(&p);
    return err;
}

/* Any worker may ask a shard to write, into any directory that psd may write to. */
static enum ps_err
ask_to_write(const char *path)
{
    Psd__Checkpoint m = PSD__CHECKPOINT__INIT;

    m.job = (char *)"train";
    m.dir = (char *)path;
    return ask_shard(MSG_CHECKPOINT, &m.base);
}

START_TEST(a_finished_checkpoint_is_not_written_again)
{
    const char *more[] = {"--cluster", "psd", NULL};
    struct shards_options o = {.more = more};
    struct checkpoint_source s;
    ps_cluster *cluster;
    ps_client *c;

    shards_start_with(&shards, 1, &o);
    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_client_open(cluster, &(struct ps_client_options){.observer = 0}, &c, &error));
    ps_cluster_free(cluster);
    for (int i = 0; i < 2; i++) {
        struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {SMALL}, .optimizer = {.learning_rate = 1}};
        static const float ones[SMALL] = {1, 1, 1, 1, 1, 1, 1};
        ps_var *v;

        FINE(ps_client_declare(c, &spec, &v, &error));
        FINE(ps_client_push(c, 1, &v, (const float *const[]){ones}, NULL, &error));
        if (i == 0)
            FINE(ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.name = "good"}, 20000, NULL, &error));
    }
    ck_assert_int_eq(ask_to_write(in_dir("good")), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "a finished checkpoint is in that directory"));
    FINE(checkpoint_source_open(in_dir("good"), NULL, &s, &error));
    FINE(checkpoint_source_verify(in_dir("good"), &s, NULL, &error));
    checkpoint_source_close(&s);
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

/* Another program that asks, without having verified anything: `stamps` says what it claims to have verified. */
static enum ps_err
ask_to_restore(const char *path, bool check, uint64_t *stamps)
{
    Psd__Restore m = PSD__RESTORE__INIT;

    m.job = (char *)"";
    m.dir = (char *)path;
    m.check = check;
    m.n_verified = stamps != NULL ? CHECKPOINT_FILES : 0;
    m.verified = stamps;
    return ask_shard(MSG_RESTORE, &m.base);
}

static unsigned
times_said(const char *text)
{
    unsigned n = 0;

    for (const char *at = shards_log(&shards, 0); (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Whichever client asks, the shard that loads has verified the bytes' checksums, or knows that another shard or client
 * did. */
START_TEST(a_shard_verifies_what_it_loads)
{
    static const char *const more[] = {"--cluster", "psd", "--log-level", "info", NULL};
    struct checkpoint_source source;
    struct checkpoint_stamps stamps;
    struct checkpoint_worker w[WORKERS];
    char path[256], want[CHECKPOINT_DIGEST + 64];

    shards_start(&shards, 1);
    open_both(w);
    train_until(w, 1);
    close_both(w);
    checkpoint_take("one", 0);
    shards_stop(&shards);
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
    FINE(checkpoint_source_open(in_dir("one"), NULL, &source, &error));
    snprintf(want, sizeof want, "the manifest says %s", source.manifest.files[CHECKPOINT_WEIGHTS].sha256);
    snprintf(path, sizeof path, "%s/one/weights.safetensors", dir);
    checkpoint_harm(path, HARM_FLIP_MIDDLE);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ask_to_restore(in_dir("one"), i == 0, NULL), PS_ERR_DATA);
        ck_assert_msg(strstr(error.text, "weights.safetensors: it is damaged: its SHA-256 is ") != NULL &&
                          strstr(error.text, want) != NULL,
                      "%s", error.text);
    }
    FINE(checkpoint_source_stamps(&source, &stamps, &error));
    stamps.of[0]++; /* of another file: the claim is worth nothing */
    ck_assert_int_eq(ask_to_restore(in_dir("one"), false, stamps.of), PS_ERR_DATA);
    ck_assert_uint_eq(times_said("restore begins"), 0);
    checkpoint_harm(path, HARM_FLIP_MIDDLE); /* back again */
    FINE(ask_to_restore(in_dir("one"), true, NULL));
    ck_assert_uint_eq(times_said("checkpoint verified"), 1);
    FINE(ask_to_restore(in_dir("one"), false, NULL)); /* known from the request before */
    ck_assert_uint_eq(times_said("checkpoint verified"), 1);
    shards_stop(&shards);

    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
    FINE(checkpoint_source_stamps(&source, &stamps, &error));
    FINE(ask_to_restore(in_dir("one"), false, stamps.of)); /* known to the client */
    ck_assert_uint_eq(times_said("verif"), 0);
    checkpoint_source_close(&source);
    shards_stop(&shards);
}
END_TEST

static void
ask_about(struct probe *p, const char *path)
{
    Psd__Restore m = PSD__RESTORE__INIT;

    m.job = (char *)"";
    m.dir = (char *)path;
    m.check = true;
    probe_send(p, MSG_RESTORE, &m.base, NULL, 0);
}

static enum ps_err
checkpoint_refusal(struct probe *p)
{
    ck_assert(probe_receive(p));
    ck_assert_int_eq(p->msg.type, MSG_ERROR);
    return (enum ps_err)p->msg.u.error->code;
}

/* Files that take a minute to read; when the client leaves, they are read no more. */
START_TEST(who_asks_about_a_large_checkpoint_holds_nobody_up_for_ever)
{
    static const char *const more[] = {"--cluster", "psd", "--log-level", "info", NULL};
    const uint32_t over = 3;
    struct dir_writer m;
    struct probe first, second;

    make_huge(&m);
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
    ck_assert(probe_connect(&first, shards.address[0]) && probe_hello(&first, -1, 0, false));
    ck_assert(probe_connect(&second, shards.address[0]) && probe_hello(&second, -1, 0, false));
    ask_about(&first, m.partial);
    while (times_said("verifying checkpoint") == 0)
        ;
    for (uint32_t i = 0; i < RESTORE_REQUESTS_MAX + over; i++)
        ask_about(&second, in_dir("none"));
    for (uint32_t i = 0; i < over; i++) {
        ck_assert_int_eq(checkpoint_refusal(&second), PS_ERR_LIMIT);
        ck_assert_uint_gt(second.msg.request, RESTORE_REQUESTS_MAX + 1); /* its first was the hello */
    }
    probe_close(&first);
    for (uint32_t i = 0; i < RESTORE_REQUESTS_MAX; i++)
        ck_assert_int_ne(checkpoint_refusal(&second), PS_ERR_LIMIT);
    ck_assert_uint_eq(times_said("checkpoint verified"), 0);
    probe_close(&second);
    dir_writer_close(&m);
    shards_stop(&shards);
}
END_TEST

START_TEST(a_cluster_that_holds_something_else_says_what)
{
    struct checkpoint_worker w[WORKERS];
    ps_client *c;

    shards_start(&shards, 1);
    open_both(w);
    close_both(w);
    checkpoint_take("sync", 0);
    shards_stop(&shards);
    shards_start(&shards, 2);
    c = open_with((struct ps_client_options){.mode = PS_ASYNC}, 0);
    ck_assert_int_eq(checkpoint_restore(in_dir("sync")), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.text, "sync(2 of 2)"));
    FINE(ps_client_tick(c, &error)); /* and no worker was disturbed */
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

static void
note_event(void *arg, const struct ps_error *event)
{
    struct ps_error *told = arg;

    if (event->code == PS_ERR_ROLLED_BACK || event->code == PS_ERR_RESTORED)
        *told = *event;
}

START_TEST(a_worker_that_lives_on_is_told_and_goes_on)
{
    static const float ones[SMALL] = {1, 1, 1, 1, 1, 1, 1};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {SMALL}, .optimizer = {.learning_rate = 1}};
    struct ps_error told = {0};
    ps_client *worker;
    float out[SMALL];
    ps_var *v;

    shards_start(&shards, 1);
    worker = open_with((struct ps_client_options){.on_event = note_event, .on_event_arg = &told}, 0);
    FINE(ps_client_declare(worker, &spec, &v, &error));
    FINE(ps_client_push(worker, 1, &v, (const float *const[]){ones}, NULL, &error));
    checkpoint_take("one", 0);
    for (int i = 0; i < 2; i++)
        FINE(ps_client_push(worker, 1, &v, (const float *const[]){ones}, NULL, &error));
    ck_assert_int_eq(ps_client_restore(worker, in_dir("one"), NULL, 60000, &error), PS_ERR_INVALID);
    FINE(checkpoint_restore(in_dir("one")));
    FINE(ps_client_push(worker, 1, &v, (const float *const[]){ones}, NULL, &error));
    FINE(ps_client_pull(worker, 1, &v, (float *[]){out}, NULL, &error));
    ck_assert_float_eq(out[0], -2); /* the checkpoint's one, and the one after it */
    ck_assert_int_eq(told.code, PS_ERR_RESTORED);
    ck_assert_ptr_nonnull(strstr(told.text, "was restored from checkpoint 'one'"));
    ck_assert_uint_eq(ps_client_rolled_back(worker, 0), 0);
    ps_client_close(worker);
    shards_stop(&shards);
}
END_TEST

/* ---- psd's own options ---- */

/* The command line of a service stays as it is: `latest` has moved on, the checkpoint may be gone. Another checkpoint
 * than the one that the data began with is refused. */
START_TEST(psd_begins_with_a_checkpoint_once)
{
    struct shards_options o = {.log = true, .durable = true};
    const char *more[] = {"--restore", NULL, NULL};
    struct checkpoint_worker w[WORKERS];

    shards_start(&shards, 1);
    open_both(w);
    train_until(w, 3);
    close_both(w);
    checkpoint_take("three", 0);
    shards_stop(&shards);
    more[1] = in_dir("latest");
    o.more = more;
    shards_start_with(&shards, 2, &o);
    open_both(w); /* the first to come waits */
    ck_assert_uint_eq(ps_client_clock(w[0].client), 3);
    close_both(w);
    checkpoint_take("again", 0);
    check_same("three", "again");
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    shards_lose_power(&shards, 1); /* rebuilt from its save */
    ck_assert_int_eq(shards_shell("rm -r %s", in_dir("three")), 0);
    shards_restart(&shards, 1);
    shards_kill(&shards, 0);
    more[1] = in_dir("again");
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "--restore is for an empty shard"));
    more[0] = NULL;
    shards_restart(&shards, 0);
    open_both(w);
    ck_assert_uint_eq(ps_client_clock(w[0].client), 3);
    close_both(w);
    shards_stop(&shards);
}
END_TEST

/* Files that take a minute to read. */
START_TEST(a_start_that_verifies_ends_when_it_is_told_to)
{
    char live[96], said[4096] = "";
    int out[2], status;
    struct dir_writer m;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    make_huge(&m);
    snprintf(live, sizeof live, "%s/live", dir);
    ck_assert_int_eq(pipe(out), 0);
    if ((pid = fork()) == 0) {
        dup2(out[1], STDERR_FILENO);
        execl(getenv("PSD_BIN"), "psd", "--listen", "127.0.0.1:0", "--live-dir", live, "--durable-dir", "none",
              "--memory", "64MiB", "--log-level", "info", "--restore", m.partial, NULL);
        _exit(127);
    }
    close(out[1]);
    while (strstr(said, "verifying checkpoint") == NULL) {
        n = read(out[0], said + len, sizeof said - 1 - len);
        ck_assert_msg(n > 0, "%s", said);
        len += (size_t)n;
    }
    kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    n = read(out[0], said, sizeof said - 1);
    said[MAX(n, 0)] = '\0';
    ck_assert_msg(strstr(said, "stopped by a signal before it served") != NULL, "%s", said);
    close(out[0]);
    dir_writer_close(&m);
}
END_TEST

START_TEST(a_root_is_not_left)
{
    const char *more[] = {"--checkpoint-root", in_dir("root"), NULL};
    struct shards_options o = {.more = more};
    ps_client *c;

    ck_assert_int_eq(mkdir(in_dir("root"), 0777), 0);
    ck_assert_int_eq(symlink(dir, in_dir("root/link")), 0);
    shards_start_with(&shards, 1, &o);
    ps_client_close(open_with((struct ps_client_options){0}, 0));
    c = checkpoint_observe();
    FINE(ps_client_checkpoint(c, in_dir("root"), &(struct ps_checkpoint_options){.name = "in"}, 20000, NULL, &error));
    ck_assert_int_eq(ps_client_checkpoint(c, dir, &(struct ps_checkpoint_options){.name = "out"}, 20000, NULL, &error),
                     PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_checkpoint(c, in_dir("root/link"), &(struct ps_checkpoint_options){.name = "out"}, 20000,
                                          NULL, &error),
                     PS_ERR_INVALID);
    ck_assert_int_eq(
        ps_client_checkpoint(c, in_dir("root/.."), &(struct ps_checkpoint_options){.name = "out"}, 20000, NULL, &error),
        PS_ERR_INVALID);
    ck_assert(!is_there(in_dir("out")) && !is_there(in_dir("out.partial")));
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

/* ---- Losses ---- */

START_TEST(what_was_restored_survives_a_loss_of_power)
{
    struct shards_options o = {.durable = true};
    struct checkpoint_worker w[WORKERS];
    char command[256];

    shards_start(&shards, 1);
    open_both(w);
    train_until(w, 2);
    close_both(w);
    checkpoint_take("two", 0);
    shards_stop(&shards);
    shards_start_with(&shards, 2, &o);
    open_both(w);
    train_until(w, 3); /* another state, in the save that comes first */
    close_both(w);
    FINE(checkpoint_restore(in_dir("two")));
    for (uint32_t i = 0; i < 2; i++) {
        shards_kill(&shards, i);
        snprintf(command, sizeof command, "rm -r %s/%u", shards.directory, i);
        ck_assert_int_eq(system(command), 0);
        shards_restart(&shards, i);
    }
    checkpoint_take("again", 0);
    check_same("two", "again");
    shards_stop(&shards);
}
END_TEST

START_TEST(a_shard_that_is_killed_while_it_restores_ends_up_with_all_of_it)
{
    const char *more[] = {"--log-level", "info", NULL};
    struct shards_options o = {.log = true, .more = more};
    struct ps_var_spec spec = {.name = "big",
                               .rank = 1,
                               .dims = {8000000},
                               .optimizer = {.learning_rate = 1},
                               .init = {.kind = PS_INIT_NORMAL, .b = 1, .seed = 5}};
    ps_client *c;
    ps_var *v;
    pid_t pid;

    shards_start(&shards, 1);
    c = open_with((struct ps_client_options){0}, 0);
    FINE(ps_client_declare(c, &spec, &v, &error));
    ps_client_close(c);
    checkpoint_take("big", 0);
    shards_stop(&shards);
    shards_start_with(&shards, 2, &o);
    if ((pid = fork()) == 0)
        _exit(checkpoint_restore(in_dir("big")) == PS_OK ? 0 : 1);
    while (strstr(shards_log(&shards, 1), "restore begins") == NULL)
        usleep(500); /* as above */
    shards_kill(&shards, 1);
    shards_restart(&shards, 1);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    FINE(ps_client_attach(c = checkpoint_observe(), "big", &v, &error));
    ps_client_close(c);
    checkpoint_take("again", 0);
    check_same("big", "again");
    shards_stop(&shards);
}
END_TEST

/* Restored, and killed before the save that workers wait for is on disk: the next process makes it, unasked. */
START_TEST(a_shard_that_is_killed_while_it_saves_what_it_restored_saves_it)
{
    const char *slow[] = {"--log-level", "info", "--save-interval", "0", "--save-rate", "1MiB", NULL};
    const char *fast[] = {"--log-level", "info", "--save-interval", "0", NULL};
    struct shards_options o = {.log = true, .durable = true, .more = slow};
    struct ps_var_spec spec = {.name = "big", .rank = 1, .dims = {8000000}, .optimizer = {.learning_rate = 1}};
    ps_client *c;
    ps_var *v;
    pid_t pid;

    shards_start(&shards, 1);
    c = open_with((struct ps_client_options){0}, 0);
    FINE(ps_client_declare(c, &spec, &v, &error));
    ps_client_close(c);
    checkpoint_take("big", 0);
    shards_stop(&shards);
    shards_start_with(&shards, 1, &o);
    if ((pid = fork()) == 0)
        _exit(checkpoint_restore(in_dir("big")) == PS_OK ? 0 : 1);
    while (strstr(shards_log(&shards, 0), "restore filled") == NULL)
        usleep(500); /* as above */
    shards_kill(&shards, 0);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_ptr_null(strstr(shards_log(&shards, 0), "restore done"));
    shards.options.more = fast;
    shards_restart(&shards, 0);
    c = open_with((struct ps_client_options){0}, 0); /* waits until it is let in */
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "restore done"));
    ps_client_close(c);
    shards_stop(&shards);
}
END_TEST

static Suite *
checkpoint_make(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tc = tcase_create("checkpoint"), *killed = tcase_create("killed");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, checkpoint_setup, checkpoint_teardown);
    tcase_add_test(tc, training_goes_on_bitwise_on_any_number_of_shards);
    tcase_add_test(tc, weights_in_the_file_are_those_that_workers_pull);
    tcase_add_test(tc, the_newest_are_kept_and_latest_leads_to_the_last);
    tcase_add_test(tc, names_that_are_taken_or_mean_something_are_refused);
    tcase_add_test(tc, one_that_is_killed_in_the_middle_leaves_nothing_that_counts);
    tcase_add_test(tc, one_that_is_given_up_is_removed);
    tcase_add_loop_test(tc, one_that_is_interrupted_goes_at_once_and_no_shard_goes_on_with_it, 0, 2);
    tcase_add_test(tc, one_that_is_given_up_is_taken_back_from_shards_that_its_client_stays_with);
    tcase_add_test(tc, a_clock_of_a_job_that_has_none_is_refused);
    tcase_add_test(tc, checksums_end_by_the_deadline);
    tcase_add_test(tc, an_answer_about_another_job_is_not_believed);
    tcase_add_loop_test(tc, a_restore_that_takes_too_long_says_what_became_of_the_data, 0, 2);
    tcase_add_test(tc, one_that_waits_for_its_rate_leaves_the_processor_alone);
    tcase_add_test(tc, what_is_damaged_is_refused_and_nothing_changes);
    tcase_add_test(tc, a_shard_verifies_what_it_loads);
    tcase_add_test(tc, who_asks_about_a_large_checkpoint_holds_nobody_up_for_ever);
    tcase_add_test(tc, a_cluster_that_holds_something_else_says_what);
    tcase_add_test(tc, a_worker_that_lives_on_is_told_and_goes_on);
    tcase_add_test(tc, psd_begins_with_a_checkpoint_once);
    tcase_add_test(tc, a_start_that_verifies_ends_when_it_is_told_to);
    tcase_add_test(tc, a_finished_checkpoint_is_not_written_again);
    tcase_add_test(tc, a_root_is_not_left);
    tcase_add_test(tc, what_was_restored_survives_a_loss_of_power);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(killed, 60);
    tcase_add_checked_fixture(killed, checkpoint_setup, checkpoint_teardown);
    tcase_add_test(killed, a_shard_that_is_killed_while_it_restores_ends_up_with_all_of_it);
    tcase_add_test(killed, a_shard_that_is_killed_while_it_saves_what_it_restored_saves_it);
    suite_add_tcase(suite, killed);
    return suite;
}

CHECK_MAIN(checkpoint_make)
