/* The state on disk: saves, durable pushes and starts, with a real psd that is killed, loses its memory, has a full
 * disk or one that fails. Values are exact: sgd with rate 1 over zeros and gradients of small whole numbers. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/model/layout.h"
#include "tests/faults/fail_io.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

#define N      (65536 + 16384 + 500) /* floats of the variable: a block of each size */
#define BLOCKS 3

static const char *const quiet[] = {"--cluster", "psd", "--log-level", "info", "--save-interval", "0", NULL};
static const char *const eager[] = {"--cluster", "psd",          "--log-level", "info", "--save-interval",
                                    "20ms",      "--save-pause", "1ms",         NULL};

static struct shards shards;
static struct probe p;
static uint32_t var;
static char control[192];

/* ---- One worker ---- */

static uint32_t
len_of(uint32_t block)
{
    struct layout layout;

    layout_init(&layout, N, 0);
    return layout_block(&layout, block).len;
}

static void
durable_join(uint64_t incarnation, bool resume)
{
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert_msg(probe_hello(&p, 0, incarnation, resume), "%s", p.msg.type == MSG_ERROR ? p.msg.u.error->text : "?");
}

static const float *
durable_gradient(float value)
{
    static float g[N];

    for (size_t i = 0; i < N; i++)
        g[i] = value + (float)(i % 7);
    return g;
}

/* The code that answers. */
static uint32_t
durable_push(float value, bool durable)
{
    static uint32_t vars[BLOCKS], blocks[BLOCKS] = {0, 1, 2};
    Psd__Push m = PSD__PUSH__INIT;

    for (int i = 0; i < BLOCKS; i++)
        vars[i] = var;
    m.seq = ++p.seq;
    m.n_var = m.n_block = BLOCKS;
    m.var = vars;
    m.block = blocks;
    m.durable = durable;
    probe_send(&p, MSG_PUSH, &m.base, durable_gradient(value), N * sizeof(float));
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_ACK);
    return p.msg.u.ack->n_code > 0 ? p.msg.u.ack->code[0] : PS_OK;
}

/* All blocks hold the result of pushing these values to zeros. */
static void
durable_holds(float sum, unsigned pushes)
{
    static float weights[N];
    size_t first = 0;

    for (uint32_t b = 0; b < BLOCKS; b++) {
        ck_assert_uint_eq(probe_pull(&p, var, b, weights + first, len_of(b)), pushes);
        first += len_of(b);
    }
    ck_assert_uint_eq(first, N);
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(weights[i] == -(sum + (float)pushes * (float)(i % 7)), "element %zu is %g", i,
                      (double)weights[i]);
}

static void
durable_save(void)
{
    Psd__Save m = PSD__SAVE__INIT;

    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_msg(p.msg.type == MSG_SAVE_DONE, "%s", p.msg.type == MSG_ERROR ? p.msg.u.error->text : "?");
}

static uint32_t
save_fails(void)
{
    Psd__Save m = PSD__SAVE__INIT;

    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_ERROR);
    return p.msg.u.error->code;
}

/* ---- The world ---- */

static void
setup_with(const char *const *more)
{
    snprintf(control, sizeof control, "%s/psd-durable-control-%ld", "/tmp", (long)getpid());
    unlink(control);
    setenv("FAIL_IO", control, 1);
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .durable = true, .log = true});
    durable_join(1, false);
    var = probe_declare(&p, "w", N);
}

static void
durable_setup(void)
{
    setup_with(quiet);
}

static void
setup_eager(void)
{
    setup_with(eager);
}

static void
durable_teardown(void)
{
    probe_close(&p);
    shards_stop(&shards);
    unlink(control);
}

static void
in_shard_dir(const char *name, char out[256])
{
    snprintf(out, 256, "%s/0%s", shards.directory, name);
}

static void
durable_move(const char *from, const char *to)
{
    char a[256], b[256];

    in_shard_dir(from, a);
    in_shard_dir(to, b);
    ck_assert_int_eq(rename(a, b), 0);
}

static bool
durable_exists(const char *name)
{
    char path[256];

    in_shard_dir(name, path);
    return access(path, F_OK) == 0;
}

static void
kill_it(void)
{
    shards_kill(&shards, 0);
    probe_close(&p);
}

/* kill -9, and the memory is gone. */
static void
lose_power(void)
{
    static int lost;
    char to[32];

    kill_it();
    snprintf(to, sizeof to, ".lost-%d", ++lost);
    durable_move("", to);
}

static bool
durable_logged(const char *text)
{
    return strstr(shards_log(&shards, 0), text) != NULL;
}

#define WAIT_FOR(condition) WAIT_FOR_LOGGED(condition, shards_log(&shards, 0))

/* ---- Saves ---- */

START_TEST(a_save_is_there_after_power_loss_and_what_came_later_is_gone_and_told)
{
    uint64_t boot;

    ck_assert_uint_eq(durable_push(1, false), PS_OK);
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    durable_save();
    ck_assert_uint_eq(durable_push(4, false), PS_OK);
    kill_it();
    shards_restart(&shards, 0); /* the memory is there */
    durable_join(1, true);
    boot = p.msg.u.welcome->boot;
    ck_assert_uint_eq(p.msg.u.welcome->pushes, 3);
    durable_holds(7, 3);
    lose_power();
    shards_restart(&shards, 0);
    ck_assert(durable_logged("rebuilt from the durable directory save=1"));
    durable_join(1, true);
    ck_assert_uint_ne(p.msg.u.welcome->boot, boot);
    ck_assert_uint_eq(p.msg.u.welcome->pushes, 2);
    durable_holds(3, 2);
}
END_TEST

START_TEST(saves_come_by_themselves_when_something_changes)
{
    ck_assert_uint_eq(durable_push(1, false), PS_OK);
    WAIT_FOR(durable_logged("save done"));
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    durable_save(); /* waits for one that runs, and makes another */
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(3, 2);
}
END_TEST

START_TEST(a_stop_saves_what_has_changed)
{
    ck_assert_uint_eq(durable_push(5, false), PS_OK);
    kill(shards.pids[0], SIGTERM);
    shards_wait(&shards, 0);
    probe_close(&p);
    ck_assert(durable_logged("saving before the stop") && durable_logged("save done"));
    durable_move("", ".lost");
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(5, 1);
}
END_TEST

/* At whatever moment it is killed, a save is there or it is not, and with it all durable pushes. */
START_TEST(kill_9_at_any_moment_of_a_save_leaves_a_whole_one)
{
    unsigned pushes = 0, seed = (unsigned)time(NULL);
    const char *given = getenv("PSD_TEST_SEED");

    if (given != NULL)
        seed = (unsigned)strtoul(given, NULL, 10);
    fprintf(stderr, "# PSD_TEST_SEED=%u\n", seed);
    for (int life = 0; life < 8; life++) {
        unsigned sure = pushes, had;

        for (int i = 0; i < 6; i++, pushes++) {
            bool durable = rand_r(&seed) % 3 == 0;

            ck_assert_uint_eq(durable_push(1, durable), PS_OK);
            sure += durable;
        }
        usleep((useconds_t)(rand_r(&seed) % 60000)); /* saves run all the time */
        lose_power();
        shards_restart(&shards, 0);
        durable_join(1, life % 2 == 0);
        had = (unsigned)p.msg.u.welcome->pushes;
        ck_assert_msg(sure <= had && had <= pushes, "%u of %u pushes are there, and %u were durable", had, pushes,
                      sure);
        if (had == 0)
            var = probe_declare(&p, "w", N);
        durable_holds((float)had, had);
        pushes = had;
    }
}
END_TEST

/* ---- Durable pushes ---- */

START_TEST(durable_pushes_are_there_after_power_loss_without_a_save)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    ck_assert(durable_logged("rebuilt from the durable directory save=0"));
    durable_join(1, true);
    ck_assert_uint_eq(p.msg.u.welcome->pushes, 2);
    durable_holds(3, 2);
}
END_TEST

START_TEST(durable_pushes_are_replayed_over_the_save_and_others_are_gone)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    durable_save();
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    ck_assert_uint_eq(durable_push(4, true), PS_OK);
    ck_assert_uint_eq(durable_push(8, true), PS_OK);
    ck_assert_uint_eq(durable_push(16, false), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    ck_assert_uint_eq(p.msg.u.welcome->pushes, 3);
    durable_holds(13, 3);
    lose_power(); /* at once again: the log is still there */
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(13, 3);
}
END_TEST

START_TEST(durable_pushes_without_a_durable_directory_are_refused)
{
    static const char *const none[] = {"--cluster", "psd", NULL};

    durable_teardown();
    shards_start_with(&shards, 1, &(struct shards_options){.more = none});
    durable_join(1, false);
    var = probe_declare(&p, "w", N);
    ck_assert_uint_eq(durable_push(1, true), PS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    durable_holds(2, 1);
}
END_TEST

/* ---- Which directory ---- */

static void
write_boot(const char *text)
{
    char path[256];
    FILE *f;

    in_shard_dir("/boot", path);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

START_TEST(memory_of_another_boot_is_rebuilt_without_being_asked)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    kill_it();
    write_boot("11111111-2222-3333-4444-555555555555 open\n");
    shards_restart(&shards, 0);
    ck_assert(durable_logged("discarded what another boot left unsynced") &&
              durable_logged("rebuilt from the durable directory"));
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

START_TEST(a_half_rebuilt_directory_is_made_anew)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    kill_it();
    write_boot("- making\n");
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

START_TEST(an_empty_shard_says_that_both_are_gone)
{
    kill_it();
    durable_move("", ".lost");
    shards_restart(&shards, 0);
    ck_assert(durable_logged("rebuilt from the durable directory") || durable_logged("this shard begins empty"));
}
END_TEST

START_TEST(a_live_directory_of_another_durable_one_is_refused)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    lose_power();
    durable_move(".disk", ".first");
    shards_restart(&shards, 0); /* both new */
    durable_join(1, false);
    var = probe_declare(&p, "w", N);
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    kill_it();
    durable_move(".disk", ".second");
    durable_move(".first", ".disk");
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(durable_logged("do not belong together"));
    durable_move(".disk", ".first");
    durable_move(".second", ".disk");
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(2, 1);
}
END_TEST

START_TEST(an_older_copy_of_the_memory_is_not_served)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    kill_it();
    durable_move("", ".old");
    shards_restart(&shards, 0); /* rebuilt: another life */
    durable_join(1, true);
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    kill_it();
    durable_move("", ".newer");
    durable_move(".old", "");
    shards_restart(&shards, 0);
    ck_assert(durable_logged("discarded an older copy of the data"));
    durable_join(1, true);
    durable_holds(3, 2);
}
END_TEST

static void
limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};

    ck_assert_int_eq(prlimit(shards.pids[0], RLIMIT_FSIZE, &limit, NULL), 0);
}

START_TEST(a_file_that_may_not_grow_is_as_a_full_disk)
{
    unsigned pushes = 0;
    uint32_t code;

    limit_files(MIB);
    do
        code = durable_push(1, true);
    while (code == PS_OK && ++pushes < 50);
    ck_assert_uint_eq(code, PS_ERR_NOT_DURABLE);
    pushes++;
    limit_files(RLIM_INFINITY);
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds((float)pushes, pushes);
}
END_TEST

/* A commit to a file whose name is gone succeeds. */
START_TEST(a_durable_directory_that_is_removed_is_noticed_and_made_again)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    durable_save();
    durable_move(".disk", ".away");
    WAIT_FOR(durable_logged("was removed or replaced") && durable_logged("pushes can be made durable again"));
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(3, 2);
}
END_TEST

START_TEST(what_lies_in_a_durable_directorys_place_is_not_written_over)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    lose_power();
    durable_move(".disk", ".first");
    shards_restart(&shards, 0); /* both new */
    durable_join(1, false);
    var = probe_declare(&p, "w", N);
    durable_move(".disk", ".second");
    durable_move(".first", ".disk");
    WAIT_FOR(durable_logged("was removed or replaced"));
    while (durable_push(2, true) != PS_ERR_CONFIG) /* the present reason */
        usleep(STEP_MS * 1000);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

START_TEST(a_new_durable_directory_is_filled_at_once)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    kill_it();
    durable_move(".disk", ".lost");
    shards_restart(&shards, 0);
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    durable_join(1, true);
    durable_holds(1, 1);
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(3, 2);
}
END_TEST

/* As after a start that wrote to the one directory, and then the other was full or the process was killed. */
START_TEST(a_durable_directory_that_holds_nothing_belongs_to_whoever_comes)
{
    static const char *const without[] = {"--cluster", "psd", "--durable-dir", "none", NULL};

    durable_teardown();
    setup_with(without);
    ck_assert_uint_eq(durable_push(1, false), PS_OK);
    kill_it();
    durable_move("", ".data");
    shards.options.more = quiet;
    shards_restart(&shards, 0); /* an empty shard: its pair is in ".disk", and nothing else */
    shards_kill(&shards, 0);
    durable_move("", ".empty");
    durable_move(".data", "");
    shards_restart(&shards, 0);
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

START_TEST(a_life_without_the_durable_directory_is_made_up_for)
{
    static const char *const without[] = {"--cluster", "psd", "--log-level", "info", "--durable-dir", "none", NULL};

    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    kill_it();
    shards.options.more = without;
    shards_restart(&shards, 0);
    durable_join(1, true);
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    kill_it();
    shards.options.more = quiet;
    shards_restart(&shards, 0);
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    durable_join(1, true);
    ck_assert_uint_eq(durable_push(4, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(7, 3);
}
END_TEST

START_TEST(one_directory_for_both_is_refused_and_taken_back)
{
    static char live[256], durable[272];
    static const char *const both[] = {"--cluster", "psd", "--live-dir", live, "--durable-dir", durable, NULL};
    char *name;

    kill_it();
    in_shard_dir(".both", live);
    name = strrchr(live, '/');
    snprintf(durable, sizeof durable, "%.*s/.%s", (int)(name - live), live, name);
    shards.options.more = both;
    shards.options.durable = false;
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(durable_logged("are the same directory"));
    ck_assert(!durable_exists(".both"));
    shards.options.durable = true;
}
END_TEST

START_TEST(a_durable_directory_of_another_shard_is_refused)
{
    static const char *const other[] = {"--cluster", "other", NULL};

    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    lose_power();
    shards.options.more = other;
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(durable_logged("to begin without what is in it, move it away"));
    shards.options.more = quiet;
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

START_TEST(a_file_that_is_no_environment_is_refused_and_kept)
{
    char path[256];
    int fd;

    kill_it();
    in_shard_dir(".disk/data.mdb", path);
    fd = open(path, O_WRONLY | O_TRUNC);
    ck_assert_int_eq(write(fd, "not LMDB at all, and long enough to be looked at ......", 55), 55);
    close(fd);
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(durable_exists(".disk/data.mdb"));
    durable_move(".disk", ".lost");
    shards_restart(&shards, 0);
    durable_join(1, true);
}
END_TEST

/* ---- Looking into the log ---- */

struct listed {
    unsigned long record, nonfinite;
    double gradient, weights;
    char pushes[64], variables[64];
};

static size_t
durable_list(struct listed *out, size_t max)
{
    char command[512], line[512];
    size_t n = 0;
    FILE *psd_says;

    snprintf(command, sizeof command, "%s --replay %s/0.disk", getenv("PSD_BIN"), shards.directory);
    psd_says = popen(command, "r");
    while (fgets(line, sizeof line, psd_says) != NULL && n < max)
        n += sscanf(line, "%lu %*u %lf %lu %lf %63s %63s", &out[n].record, &out[n].gradient, &out[n].nonfinite,
                    &out[n].weights, out[n].pushes, out[n].variables) == 6;
    ck_assert_int_eq(pclose(psd_says), 0);
    return n;
}

/* The L2 norm of a + b (i mod 7). */
static double
norm_of(double a, double b)
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        sum += (a + b * (i % 7)) * (a + b * (i % 7));
    return sqrt(sum);
}

static void
is_near(double got, double wanted)
{
    ck_assert_msg(fabs(got - wanted) <= 1e-4 * wanted, "%g, wanted %g", got, wanted);
}

START_TEST(the_log_is_listed_and_replayed_up_to_a_record)
{
    char disk[192], live[192], until[32];
    const char *words[] = {"--cluster", "psd", "--replay", disk, "--until", until, "--live-dir", live, NULL};
    struct listed listed[4];

    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    ck_assert_uint_eq(durable_push(2, true), PS_OK);
    ck_assert_uint_eq(durable_push(4, true), PS_OK);
    kill_it();
    ck_assert_uint_eq(durable_list(listed, 4), 3);
    for (int i = 0; i < 3; i++) {
        is_near(listed[i].gradient, norm_of(1 << i, 1));
        is_near(listed[i].weights, norm_of((2 << i) - 1, i + 1));
        ck_assert_uint_eq(listed[i].nonfinite, 0);
        ck_assert_int_eq(strncmp(listed[i].pushes, "job/0:", 6), 0);
        ck_assert_str_eq(listed[i].variables, "w");
    }
    snprintf(disk, sizeof disk, "%s/0.disk", shards.directory);
    snprintf(live, sizeof live, "%s/scratch", shards.directory);
    snprintf(until, sizeof until, "%lu", listed[1].record);
    shards.options.more = words;
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(3, 2);
    kill_it();
    ck_assert_int_eq(shards_refused(&shards, 0), 1); /* scratch is no new directory any more */
    ck_assert_uint_eq(durable_list(listed, 4), 3);
    shards.options.more = quiet;
    shards_restart(&shards, 0); /* none of that has changed anything */
    durable_join(1, true);
    durable_holds(7, 3);
}
END_TEST

/* ---- Disks that fail ---- */

static void
setup_failing(void)
{
    shards_preload("FAIL_IO_LIB");
    setup_with(quiet);
    unsetenv("LD_PRELOAD");
}

static void
break_disk(const char *line)
{
    char text[256];

    snprintf(text, sizeof text, "%s 0.disk/data.mdb", line);
    ck_assert(fail_io_write(control, text));
}

static void
mend_disk(void)
{
    ck_assert(fail_io_write(control, ""));
}

START_TEST(a_full_disk_fails_saves_and_durable_pushes_and_nothing_else)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    break_disk("any ENOSPC 1 0");
    ck_assert_uint_eq(save_fails(), PS_ERR_FULL);
    ck_assert_uint_eq(durable_push(2, true), PS_ERR_NOT_DURABLE); /* applied, and not on disk */
    ck_assert_uint_eq(durable_push(4, true), PS_ERR_FULL);        /* not applied */
    ck_assert_uint_eq(durable_push(8, false), PS_OK);
    durable_holds(11, 3);
    mend_disk();
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    ck_assert_uint_eq(durable_push(16, true), PS_OK);
    durable_save();
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(27, 4);
}
END_TEST

START_TEST(a_file_whose_sync_failed_is_never_used_again)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    ck_assert_uint_eq(durable_push(2, false), PS_OK);
    break_disk("fdatasync,fsync,pwrite EIO 1 1");
    ck_assert_uint_eq(durable_push(4, true), PS_ERR_NOT_DURABLE);
    WAIT_FOR(durable_logged("pushes can be made durable again")); /* a full save is there */
    ck_assert(durable_exists(".disk/data.mdb.bad-1"));
    ck_assert_uint_eq(durable_push(8, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(15, 4);
}
END_TEST

START_TEST(a_durable_directory_that_was_removed_is_made_anew)
{
    bool applied;

    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    durable_move(".disk", ".lost");
    applied = durable_push(2, true) == PS_ERR_NOT_DURABLE; /* or refused: it was noticed before */
    WAIT_FOR(durable_logged("pushes can be made durable again"));
    ck_assert_uint_eq(durable_push(4, true), PS_OK);
    lose_power();
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(applied ? 7 : 5, applied ? 3 : 2);
}
END_TEST

/* Its pid, from the lock of its directory. */
static pid_t
pid_of_psd(void)
{
    char path[256], text[16] = "";
    int fd;

    in_shard_dir("/psd.lock", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        abort();
    close(fd);
    return (pid_t)strtol(text, NULL, 10);
}

/* Waits until the rebuild is in the midst of it, asks it to stop and lets it go on. */
static void *
stop_rebuild(void *arg)
{
    char hits[256];

    snprintf(hits, sizeof hits, "%s.hits", control);
    for (int waited = 0; access(hits, F_OK) != 0 && waited < WAIT_MS; waited += STEP_MS)
        usleep(STEP_MS * 1000);
    kill(pid_of_psd(), SIGTERM);
    mend_disk();
    unlink(hits);
    return arg;
}

START_TEST(a_signal_ends_a_rebuild_and_the_next_start_makes_it_anew)
{
    pthread_t thread;

    ck_assert_uint_eq(durable_push(1, false), PS_OK);
    durable_save();
    lose_power();
    setenv("LD_PRELOAD", getenv("FAIL_IO_LIB"), 1);
    ck_assert(fail_io_write(control, "fallocate STALL 2 0 0/data.mdb")); /* of the live file: the first makes it */
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_rebuild, NULL), 0);
    ck_assert_int_eq(shards_refused(&shards, 0), 0);
    pthread_join(thread, NULL);
    unsetenv("LD_PRELOAD");
    ck_assert(durable_logged("stopped by a signal before it served"));
    ck_assert(!durable_exists("/data.mdb"));
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

/* On a disk, that is: what is written from then on is not synced. */
START_TEST(a_synced_directory_is_marked_open_before_it_serves)
{
    char path[256], boot[128] = "", *end;
    FILE *f;

    kill_it();
    in_shard_dir("/boot", path);
    ck_assert_ptr_nonnull(f = fopen(path, "r"));
    ck_assert_ptr_nonnull(fgets(boot, sizeof boot, f));
    fclose(f);
    ck_assert_ptr_nonnull(end = strstr(boot, " open"));
    strcpy(end, " synced\n");
    write_boot(boot);
    shards_restart(&shards, 0); /* it has nothing to write before somebody pushes */
    ck_assert_ptr_nonnull(f = fopen(path, "r"));
    ck_assert_ptr_nonnull(fgets(boot, sizeof boot, f));
    fclose(f);
    ck_assert_ptr_nonnull(strstr(boot, " open"));
}
END_TEST

START_TEST(a_file_that_was_set_aside_is_not_forgotten_when_nothing_else_is_left)
{
    ck_assert_uint_eq(durable_push(1, true), PS_OK);
    durable_save();
    break_disk("fdatasync,fsync,pwrite EIO 1 0"); /* nor can a new one be made */
    ck_assert_uint_eq(durable_push(4, true), PS_ERR_NOT_DURABLE);
    WAIT_FOR(durable_exists(".disk/data.mdb.bad-1"));
    lose_power();
    ck_assert_int_eq(shards_refused(&shards, 0), 1);
    ck_assert(durable_logged("data.mdb.bad-1, which was set aside when its disk failed"));
    ck_assert(!durable_exists("") && !durable_exists(".disk/data.mdb")); /* and the next start reports the same */
    durable_move(".disk/data.mdb.bad-1", ".disk/data.mdb");
    shards_restart(&shards, 0);
    durable_join(1, true);
    durable_holds(1, 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("durable");
    TCase *tc = tcase_create("durable"), *failing = tcase_create("failing"), *often = tcase_create("eager"),
          *gone = tcase_create("gone");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, durable_setup, durable_teardown);
    tcase_add_test(tc, a_save_is_there_after_power_loss_and_what_came_later_is_gone_and_told);
    tcase_add_test(tc, a_stop_saves_what_has_changed);
    tcase_add_test(tc, durable_pushes_are_there_after_power_loss_without_a_save);
    tcase_add_test(tc, durable_pushes_are_replayed_over_the_save_and_others_are_gone);
    tcase_add_test(tc, durable_pushes_without_a_durable_directory_are_refused);
    tcase_add_test(tc, memory_of_another_boot_is_rebuilt_without_being_asked);
    tcase_add_test(tc, a_half_rebuilt_directory_is_made_anew);
    tcase_add_test(tc, an_empty_shard_says_that_both_are_gone);
    tcase_add_test(tc, a_live_directory_of_another_durable_one_is_refused);
    tcase_add_test(tc, an_older_copy_of_the_memory_is_not_served);
    tcase_add_test(gone, a_file_that_may_not_grow_is_as_a_full_disk);
    tcase_add_test(gone, a_durable_directory_that_is_removed_is_noticed_and_made_again);
    tcase_add_test(gone, what_lies_in_a_durable_directorys_place_is_not_written_over);
    tcase_add_test(tc, a_new_durable_directory_is_filled_at_once);
    tcase_add_test(gone, a_durable_directory_that_holds_nothing_belongs_to_whoever_comes);
    tcase_add_test(tc, a_life_without_the_durable_directory_is_made_up_for);
    tcase_add_test(gone, one_directory_for_both_is_refused_and_taken_back);
    tcase_add_test(tc, a_durable_directory_of_another_shard_is_refused);
    tcase_add_test(tc, a_file_that_is_no_environment_is_refused_and_kept);
    tcase_add_test(tc, a_durable_directory_that_was_removed_is_made_anew);
    tcase_add_test(tc, the_log_is_listed_and_replayed_up_to_a_record);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(gone, 120);
    tcase_add_checked_fixture(gone, durable_setup, durable_teardown);
    suite_add_tcase(suite, gone);
    tcase_set_timeout(failing, 120);
    tcase_add_checked_fixture(failing, setup_failing, durable_teardown);
    tcase_add_test(failing, a_full_disk_fails_saves_and_durable_pushes_and_nothing_else);
    tcase_add_test(failing, a_file_whose_sync_failed_is_never_used_again);
    tcase_add_test(failing, a_signal_ends_a_rebuild_and_the_next_start_makes_it_anew);
    tcase_add_test(failing, a_synced_directory_is_marked_open_before_it_serves);
    tcase_add_test(failing, a_file_that_was_set_aside_is_not_forgotten_when_nothing_else_is_left);
    suite_add_tcase(suite, failing);
    tcase_set_timeout(often, 120);
    tcase_add_checked_fixture(often, setup_eager, durable_teardown);
    tcase_add_test(often, saves_come_by_themselves_when_something_changes);
    tcase_add_test(often, kill_9_at_any_moment_of_a_save_leaves_a_whole_one);
    suite_add_tcase(suite, often);
    return suite;
}

CHECK_MAIN(make_suite)
