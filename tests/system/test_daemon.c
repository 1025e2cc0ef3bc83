/* psd as a process: its output, refusals, and the memory and descriptors that it keeps and gives back. PSD_BIN names
 * the binary. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/cluster/address.h"
#include "common/core/model/layout.h"
#include "tests/now.h"
#include "tests/remove_tree.h"
#include "tests/sanitized.h"
#include "tests/system/probe.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/memory_dir.h"

#define SLEEP_MS   10
#define WORDS_MAX  24
#define LARGE_SIZE (MIB / 16) /* floats in the largest block of sgd */

static char base_dir[64], live_dir[128], log_path[128], ready_path[128];
static pid_t psd;
static char address[ADDRESS_MAX];
static const char *notify_socket;
static bool streams_closed; /* standard input, output and error of the next psd */

/* ---- A process ---- */

static void
dirs_setup(void)
{
    snprintf(base_dir, sizeof base_dir, "%s/psd-system-XXXXXX", memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(base_dir));
    snprintf(live_dir, sizeof live_dir, "%s/live", base_dir);
    snprintf(log_path, sizeof log_path, "%s/log", base_dir);
    snprintf(ready_path, sizeof ready_path, "%s/ready", base_dir);
    psd = 0;
    notify_socket = NULL;
    streams_closed = false;
}

static void
dirs_teardown(void)
{
    if (psd > 0) {
        kill(psd, SIGKILL);
        waitpid(psd, NULL, 0);
    }
    remove_tree(base_dir);
}

static const char *
file_text(const char *path)
{
    static char text[1 << 16];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[MAX(n, 0)] = '\0';
    return text;
}

static void
exec_psd(const char *const *words)
{
    char *argv[WORDS_MAX + 5], live[160], ready[160];
    int n = 0, log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const char *bin = getenv("PSD_BIN");

    snprintf(live, sizeof live, "--live-dir=%s", live_dir);
    snprintf(ready, sizeof ready, "--ready-file=%s", ready_path);
    argv[n++] = (char *)(uintptr_t) "psd";
    argv[n++] = live;
    argv[n++] = ready;
    for (; *words != NULL; words++)
        argv[n++] = (char *)(uintptr_t)*words;
    argv[n] = NULL;
    unsetenv("TF_CONFIG");
    unsetenv("MALLOC_PERTURB_"); /* meson's: writes to memory that psd only set aside, and this test weighs it */
    if (notify_socket != NULL)
        setenv("NOTIFY_SOCKET", notify_socket, 1);
    dup2(log, STDERR_FILENO);
    if (streams_closed)
        closefrom(STDIN_FILENO);
    execv(bin != NULL ? bin : "psd", argv);
    _exit(127);
}

static void
daemon_launch(const char *const *words)
{
    unlink(ready_path);
    psd = fork();
    ck_assert_int_ge(psd, 0);
    if (psd == 0)
        exec_psd(words);
}

/* The exit status; -N: signal N. */
static int
wait_exit(void)
{
    int status;

    ck_assert_int_eq(waitpid(psd, &status, 0), psd);
    psd = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Wait until the condition holds, or fail. The process ending is a failure too. */
#define WAIT_FOR(condition) WAIT_FOR_LOGGED(condition, file_text(log_path))

static bool
daemon_logged(const char *fragment)
{
    return strstr(file_text(log_path), fragment) != NULL;
}

static bool
is_ready(void)
{
    ck_assert_msg(waitpid(psd, NULL, WNOHANG) == 0, "psd ended: %s", file_text(log_path));
    return access(ready_path, F_OK) == 0;
}

static void
daemon_start(const char *const *words)
{
    daemon_launch(words);
    WAIT_FOR(is_ready());
    snprintf(address, sizeof address, "%.*s", (int)strcspn(file_text(ready_path), "\n"), file_text(ready_path));
}

#define START(...)  daemon_start((const char *const[]){"--listen=127.0.0.1:0", ##__VA_ARGS__, NULL})
#define LAUNCH(...) daemon_launch((const char *const[]){__VA_ARGS__, NULL})

static int
daemon_stop(void)
{
    kill(psd, SIGTERM);
    return wait_exit();
}

static struct probe
daemon_connected(void)
{
    struct probe p;

    ck_assert(probe_connect(&p, address));
    return p;
}

/* ---- Starting ---- */

START_TEST(ready_file_names_every_address)
{
    char unix_option[160], want[160];

    snprintf(unix_option, sizeof unix_option, "--unix=%s/sock", base_dir);
    START("--listen=127.0.0.1:0", unix_option);
    snprintf(want, sizeof want, "unix:%s/sock\n", base_dir);
    ck_assert_ptr_nonnull(strstr(file_text(ready_path), want));
    ck_assert_int_eq(strncmp(address, "127.0.0.1:", 10), 0);
    ck_assert_int_ne(atoi(address + 10), 0);
    ck_assert_int_eq(daemon_stop(), 0);
    ck_assert_msg(daemon_logged("stopped"), "%s", file_text(log_path));
    snprintf(want, sizeof want, "%s/sock", base_dir);
    ck_assert_int_ne(access(want, F_OK), 0); /* taken away with the process */
}
END_TEST

/* Its own files must not be the descriptors that it prints to. */
START_TEST(closed_standard_streams_are_nobody_elses)
{
    streams_closed = true;
    START();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        char link[64], target[PATH_MAX] = "";

        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)psd, fd);
        ck_assert_int_gt(readlink(link, target, sizeof target - 1), 0);
        ck_assert_str_eq(target, "/dev/null");
    }
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

static const struct {
    const char *word;
    int status;
    const char *says, *live_dir;
} refusals[] = {
    {"--shards=banana", 2, "psd: --shards: expected a whole number, got 'banana'", NULL},
    {"--ready-fd=77", 2, "psd: --ready-fd: descriptor 77 is not open", NULL},
    {"--memory=1MiB", 2, "psd: --memory: expected 0 or a size of at least 64MiB, got '1MiB'", NULL},
    {"--listen=127.0.0.1:0", 1, "its parent does not exist", "/proc/nothing/here"},
    {"--listen=192.0.2.1:1", 1, "cannot listen on 192.0.2.1:1", NULL},
    {"--http=192.0.2.1:1", 1, "--http: cannot listen on 192.0.2.1:1: Cannot assign", NULL},
    {"--http=unix:/x", 2, "psd: --http is one host:port, or none; not 'unix:/x'", NULL},
    {"--http=127.0.0.1:1,127.0.0.1:2", 2, "psd: --http is one host:port, or none", NULL},
    {"--http=banana", 2, "psd: --http: ", NULL},
    {"--http=0.0.0.0:0", 1, "will not show names and figures at --http 0.0.0.0:0", NULL},
    {"--http=[::]:0", 1, "will not show names and figures at --http [::]:0", NULL},
    {"--http-tokens=/dev/null", 2, "psd: /dev/null is not a regular file", NULL},
};

START_TEST(what_cannot_work_is_one_line_and_a_status)
{
    const char *text;

    if (refusals[_i].live_dir != NULL)
        snprintf(live_dir, sizeof live_dir, "%s", refusals[_i].live_dir);
    LAUNCH("--log-level=error", refusals[_i].word);
    ck_assert_int_eq(wait_exit(), refusals[_i].status);
    text = file_text(log_path);
    ck_assert_msg(strstr(text, refusals[_i].says) != NULL, "%s", text);
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    ck_assert_msg(access(live_dir, F_OK) != 0, "%s was left behind", live_dir);
}
END_TEST

START_TEST(who_cannot_listen_does_not_say_that_it_serves_and_keeps_what_was_there)
{
    char path[160];

    LAUNCH("--listen=192.0.2.1:1");
    ck_assert_int_eq(wait_exit(), 1);
    ck_assert(daemon_logged("cannot listen on 192.0.2.1:1") && !daemon_logged("serves"));
    START();
    ck_assert(daemon_logged("serves cluster="));
    ck_assert_int_eq(daemon_stop(), 0);
    LAUNCH("--listen=192.0.2.1:1");
    ck_assert_int_eq(wait_exit(), 1);
    snprintf(path, sizeof path, "%s/data.mdb", live_dir);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_directory_of_somebody_else_is_left_alone)
{
    char notes[160], lock[160];

    snprintf(notes, sizeof notes, "%s/notes.txt", live_dir);
    snprintf(lock, sizeof lock, "%s/psd.lock", live_dir);
    ck_assert_int_eq(mkdir(live_dir, 0700), 0);
    ck_assert_int_eq(close(open(notes, O_CREAT | O_WRONLY, 0600)), 0);
    LAUNCH("--listen=127.0.0.1:0");
    ck_assert_int_eq(wait_exit(), 1);
    ck_assert(daemon_logged("is not empty and was not made by psd: it holds notes.txt"));
    ck_assert(access(notes, F_OK) == 0 && access(lock, F_OK) != 0);
}
END_TEST

START_TEST(second_psd_on_a_directory_is_refused_and_the_first_goes_on)
{
    pid_t first;
    struct probe p;

    START();
    first = psd;
    LAUNCH("--listen=127.0.0.1:0");
    ck_assert_int_eq(wait_exit(), 1);
    ck_assert(daemon_logged("another psd (process "));
    psd = first;
    p = daemon_connected();
    ck_assert(probe_hello(&p, -1, 0, false));
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* A log's, say: it takes no connection, and is in use. */
START_TEST(a_unix_socket_of_another_kind_stays)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char option[160];

    snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", base_dir);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    snprintf(option, sizeof option, "--unix=%s/sock", base_dir);
    LAUNCH("--listen=none", option);
    ck_assert_int_eq(wait_exit(), 1);
    ck_assert(daemon_logged("there is a socket that no psd has left"));
    ck_assert_int_eq(access(a.sun_path, F_OK), 0);
    close(fd);
}
END_TEST

START_TEST(stale_unix_socket_is_replaced_and_a_live_one_is_not)
{
    char option[160];
    pid_t first;
    struct probe p;

    snprintf(option, sizeof option, "--unix=%s/sock", base_dir);
    daemon_start((const char *const[]){"--listen=none", option, NULL});
    first = psd;
    snprintf(live_dir, sizeof live_dir, "%s/live2", base_dir);
    LAUNCH("--listen=none", option);
    ck_assert_int_eq(wait_exit(), 1);
    ck_assert(daemon_logged("another process does"));
    psd = first;
    kill(psd, SIGKILL);
    wait_exit();
    daemon_start((const char *const[]){"--listen=none", option, "--unix-mode=0660", NULL});
    p = daemon_connected();
    ck_assert(probe_hello(&p, -1, 0, false));
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* ---- systemd ---- */

static int notify_fd;

static void
listen_for_notifications(void)
{
    static struct sockaddr_un at;
    struct timeval patience = {.tv_sec = PROBE_WAIT_MS / 1000};

    at = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", base_dir);
    notify_socket = at.sun_path;
    notify_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    ck_assert_int_eq(setsockopt(notify_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    ck_assert_int_eq(bind(notify_fd, (struct sockaddr *)&at, sizeof at), 0);
}

static const char *
daemon_notified(void)
{
    static char text[256];
    ssize_t n = recv(notify_fd, text, sizeof text - 1, 0);

    ck_assert_msg(n > 0, "systemd is told nothing; log: %s", file_text(log_path));
    text[n] = '\0';
    return text;
}

START_TEST(systemd_is_told)
{
    struct probe p;
    unsigned long long usec;

    listen_for_notifications();
    START("--memory=64MiB");
    ck_assert_str_eq(daemon_notified(), "READY=1");
    ck_assert_str_eq(daemon_notified(), "STATUS=Shard 0 of 1, connections: 0, 0 of 64 MiB");
    p = daemon_connected();
    ck_assert_str_eq(daemon_notified(), "STATUS=Shard 0 of 1, connections: 1, 0 of 64 MiB");
    kill(psd, SIGHUP);
    ck_assert_int_eq(sscanf(daemon_notified(), "RELOADING=1\nMONOTONIC_USEC=%llu", &usec), 1);
    ck_assert_uint_le(usec, now_us());
    ck_assert_str_eq(daemon_notified(), "READY=1");
    ck_assert_int_eq(daemon_stop(), 0);
    ck_assert_str_eq(daemon_notified(), "STOPPING=1\nSTATUS=Draining");
    probe_close(&p);
    close(notify_fd);
}
END_TEST

START_TEST(watchdog_sees_signs_of_life_at_half_its_time)
{
    uint64_t began;

    listen_for_notifications();
    setenv("WATCHDOG_USEC", "400000", 1);
    unsetenv("WATCHDOG_PID");
    began = now_us();
    START("--memory=64MiB");
    unsetenv("WATCHDOG_USEC");
    ck_assert_str_eq(daemon_notified(), "READY=1");
    daemon_notified(); /* the status */
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(daemon_notified(), "WATCHDOG=1");
    ck_assert_uint_ge(now_us() - began, (4 * 200 - 50) * 1000); /* no flood either */
    ck_assert_int_eq(daemon_stop(), 0);
    close(notify_fd);
}
END_TEST

START_TEST(watchdog_of_another_process_is_left_alone)
{
    listen_for_notifications();
    setenv("WATCHDOG_USEC", "2000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    START("--memory=64MiB");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    ck_assert_str_eq(daemon_notified(), "READY=1");
    daemon_notified(); /* the status */
    kill(psd, SIGHUP);
    WAIT_FOR(daemon_logged("options read again"));
    ck_assert_int_eq(strncmp(daemon_notified(), "RELOADING=1", 11), 0); /* nothing came before it */
    ck_assert_int_eq(daemon_stop(), 0);
    close(notify_fd);
}
END_TEST

START_TEST(hangup_reloads_and_names_what_needs_a_restart)
{
    char config[128], option[160];
    struct probe p;
    FILE *out;

    snprintf(config, sizeof config, "%s/psd.conf", base_dir);
    snprintf(option, sizeof option, "--config=%s", config);
    out = fopen(config, "w");
    fputs("connections-max = 100\n", out);
    fclose(out);
    START(option);
    out = fopen(config, "w");
    fputs("connections-max = 200\nlog-level = debug\ngrace = 100ms\n", out);
    fclose(out);
    kill(psd, SIGHUP);
    WAIT_FOR(daemon_logged("option changed option=log-level was=info is=debug"));
    ck_assert(daemon_logged("needs a restart option=connections-max was=100 is=200"));
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    probe_close(&p);
    WAIT_FOR(daemon_logged("worker lapsed job=job task=0")); /* in 100 ms, not in 5 s */
    out = fopen(config, "w");
    fputs("nonsense\n", out);
    fclose(out);
    kill(psd, SIGHUP);
    WAIT_FOR(daemon_logged("options stay as they are"));
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(removed_live_directory_is_noticed)
{
    char path[160];

    START();
    snprintf(path, sizeof path, "%s/data.mdb", live_dir);
    ck_assert_int_eq(unlink(path), 0);
    WAIT_FOR(daemon_logged("the live directory was removed or replaced"));
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(disk_is_warned_about_and_a_clean_stop_syncs)
{
    char path[160];

    snprintf(live_dir, sizeof live_dir, "/var/tmp/psd-system-%ld", (long)getpid());
    START("--memory=64MiB");
    if (!daemon_logged("the live directory is on a disk")) {
        fprintf(stderr, "# skipped: /var/tmp is no disk\n");
    } else {
        ck_assert_int_eq(daemon_stop(), 0);
        snprintf(path, sizeof path, "%s/boot", live_dir);
        ck_assert_ptr_nonnull(strstr(file_text(path), " synced\n"));
    }
    if (psd > 0)
        ck_assert_int_eq(daemon_stop(), 0);
    remove_tree(live_dir);
}
END_TEST

/* ---- Data ---- */

static void
daemon_fill(float *grad, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        grad[i] = value;
}

START_TEST(kill_9_and_restart_serve_the_same_bits)
{
    static float grad[LARGE_SIZE], before[LARGE_SIZE], after[LARGE_SIZE];
    struct probe p;
    uint32_t var;

    START();
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 77, false));
    var = probe_declare(&p, "w", LARGE_SIZE);
    for (size_t i = 0; i < LARGE_SIZE; i++)
        grad[i] = (float)i * 0.37f - 1000;
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    ck_assert_uint_eq(probe_pull(&p, var, 0, before, LARGE_SIZE), 5);
    kill(psd, SIGKILL);
    ck_assert_int_eq(wait_exit(), -SIGKILL);
    probe_close(&p);
    START();
    ck_assert(daemon_logged("data=kept"));
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 77, true));
    ck_assert_uint_eq(p.seq, 5);
    ck_assert_uint_eq(probe_declare(&p, "w", LARGE_SIZE), var);
    ck_assert_uint_eq(probe_pull(&p, var, 0, after, LARGE_SIZE), 5);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    ck_assert_uint_eq(probe_pull(&p, var, 0, after, LARGE_SIZE), 6);
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* A tmpfs of the test's own under live_dir, in a mount namespace that ends with this process. */
static bool
mount_small_tmpfs(const char *size)
{
    char options[64];

    if (getenv("CK_FORK") != NULL || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    ck_assert_int_eq(mkdir(live_dir, 0700), 0);
    snprintf(options, sizeof options, "size=%s,mode=0700", size);
    return mount("tmpfs", live_dir, "tmpfs", 0, options) == 0;
}

START_TEST(full_tmpfs_refuses_more_and_service_goes_on)
{
    static float grad[LARGE_SIZE], value[LARGE_SIZE];
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer optimizer = PSD__OPTIMIZER__INIT;
    Psd__Declare declare = PSD__DECLARE__INIT;
    uint64_t n = 512 * MIB / 4;
    char hog[160];
    struct probe p;
    uint32_t var;

    if (!mount_small_tmpfs("160m")) {
        fprintf(stderr, "# skipped: cannot mount a tmpfs here\n");
        return;
    }
    START("--memory=1GiB");
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "fits", LARGE_SIZE);
    optimizer.learning_rate = 1;
    declare.name = (char *)(uintptr_t) "too large";
    declare.dims = &n;
    declare.n_dims = 1;
    declare.init = &init;
    declare.optimizer = &optimizer;
    probe_send(&p, MSG_DECLARE, &declare.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_ERROR);
    ck_assert_uint_eq(p.msg.u.error->code, PS_ERR_FULL);
    daemon_fill(grad, LARGE_SIZE, -1);
    for (int i = 0; i < 800; i++)
        ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    ck_assert_uint_eq(probe_pull(&p, var, 0, value, LARGE_SIZE), 800);
    ck_assert(value[7] == 800.0f);
    probe_declare(&p, "nearly all", 110 * MIB / 4);
    for (int i = 0; i < 800; i++)
        ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    snprintf(hog, sizeof hog, "%s/hog", live_dir); /* another file takes the rest */
    ck_assert_int_eq(posix_fallocate(open(hog, O_CREAT | O_RDWR, 0600), 0, 8 * MIB), 0);
    for (int i = 0; i < 200; i++)
        ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    WAIT_FOR(daemon_logged("the live directory is nearly full"));
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
    umount2(live_dir, MNT_DETACH); /* the test's file in it is still open */
}
END_TEST

/* It asks for no room when it has its own, however many starts it takes. */
START_TEST(a_shard_on_a_full_tmpfs_comes_back)
{
    static float grad[LARGE_SIZE], value[LARGE_SIZE];
    char hog[160];
    struct probe p;
    uint32_t var;
    int fd;

    if (!mount_small_tmpfs("100m")) {
        fprintf(stderr, "# skipped: cannot mount a tmpfs here\n");
        return;
    }
    START("--memory=64MiB");
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "w", LARGE_SIZE);
    daemon_fill(grad, LARGE_SIZE, -1);
    ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
    probe_close(&p);
    kill(psd, SIGKILL);
    ck_assert_int_eq(wait_exit(), -SIGKILL);
    snprintf(hog, sizeof hog, "%s/hog", live_dir);
    fd = open(hog, O_CREAT | O_RDWR, 0600);
    for (off_t step = MIB, at = 0; step >= 4096;) { /* to the last page */
        if (fallocate(fd, 0, at, step) == 0)
            at += step;
        else
            step /= 2;
    }
    for (int i = 0; i < 3; i++) {
        START();
        p = daemon_connected();
        ck_assert(probe_hello(&p, 0, (uint64_t)(2 + i), false));
        var = probe_declare(&p, "w", LARGE_SIZE);
        ck_assert_uint_eq(probe_pull(&p, var, 0, value, LARGE_SIZE), 1 + i);
        ck_assert(value[7] == (float)(1 + i));
        ck_assert_uint_eq(probe_push(&p, var, 0, grad, LARGE_SIZE), PS_OK);
        probe_close(&p);
        kill(psd, SIGKILL);
        ck_assert_int_eq(wait_exit(), -SIGKILL);
    }
    close(fd);
    umount2(live_dir, MNT_DETACH);
}
END_TEST

/* ---- Bad peers and limits ---- */

static void
expect_error_then_end(struct probe *p, enum ps_err code)
{
    ck_assert(probe_receive(p));
    ck_assert_int_eq(p->msg.type, MSG_ERROR);
    ck_assert_msg(p->msg.u.error->code == code, "%u: %s", p->msg.u.error->code, p->msg.u.error->text);
    ck_assert(!probe_receive(p));
    probe_close(p);
}

#define OURS "\x07" /* a version's low byte */
static_assert(FRAME_VERSION == 7, "OURS is another");

START_TEST(strangers_and_broken_frames_lose_their_connection_only)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum ps_err code;
    } bad[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18, PS_ERR_PROTOCOL},
        {"\x16\x03\x01\x02\x00\x01\x00\x01", 8, PS_ERR_PROTOCOL},
        {"PSD1\x09\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00"
         "\x00\x00",
         32, PS_ERR_VERSION},
        {"PSD1" OURS
         "\x00\x63\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00"
         "\x00\x00",
         32, PS_ERR_PROTOCOL},
        {"PSD1" OURS
         "\x00\x01\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00"
         "\x00\x00",
         32, PS_ERR_PROTOCOL},
    };
    struct probe good, p;

    START();
    good = daemon_connected();
    ck_assert(probe_hello(&good, 0, 1, false));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        p = daemon_connected();
        probe_send_bytes(&p, bad[i].bytes, bad[i].len);
        expect_error_then_end(&p, bad[i].code);
    }
    p = daemon_connected(); /* half a frame, then gone */
    probe_send_bytes(&p, bad[2].bytes, 20);
    probe_close(&p);
    ck_assert_uint_eq(probe_declare(&good, "w", 10), probe_declare(&good, "w", 10));
    probe_close(&good);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(one_connection_too_many_is_told_so)
{
    struct probe p[5];

    START("--connections-max=4");
    for (int i = 0; i < 4; i++) {
        p[i] = daemon_connected();
        ck_assert(probe_hello(&p[i], -1, 0, false));
    }
    p[4] = daemon_connected();
    expect_error_then_end(&p[4], PS_ERR_LIMIT);
    probe_close(&p[0]);
    for (;;) { /* the place of the one that went is free, once the server has seen it go */
        p[4] = daemon_connected();
        if (probe_hello(&p[4], -1, 0, false))
            break;
        probe_close(&p[4]);
    }
    for (int i = 1; i < 5; i++)
        probe_close(&p[i]);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

static long
resident_kib(void)
{
    char path[64], *at;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)psd);
    at = strstr(file_text(path), "RssAnon:");
    return at != NULL ? atol(at + 8) : -1;
}

static void
expect_growth_below(long kib, long most)
{
    fprintf(stderr, "# grew by %ld KiB\n", kib);
    if (!SANITIZED_ADDRESS)
        ck_assert_int_lt(kib, most);
}

/* A connection of this worker of a job for many. */
static struct probe
daemon_worker(int task)
{
    struct probe p = daemon_connected();
    Psd__Hello hello;
    Psd__Job job;

    probe_hello_fill(&hello, &job, task, 1 + (uint64_t)task);
    job.name = (char *)(uintptr_t) "crowd";
    job.workers = job.quorum = 64;
    probe_send(&p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_WELCOME);
    return p;
}

/* Frames that promise 4 MiB and then send all but the last byte: what a cap is for. */
START_TEST(promised_payloads_wait_at_the_memory_cap)
{
    enum { SENDERS = 40 };
    static uint8_t bytes[FRAME_PAYLOAD_MAX];
    struct probe p[SENDERS], other;
    Psd__Push push = PSD__PUSH__INIT;
    uint32_t zero = 0;
    long before, after;

    START("--in-flight=16MiB", "--in-flight-connection=8MiB");
    push.seq = push.n_var = push.n_block = 1;
    push.var = push.block = &zero;
    before = resident_kib();
    for (int i = 0; i < SENDERS; i++) {
        size_t len;
        uint8_t *head = wire_encode_new(MSG_PUSH, 1, &push.base, FRAME_PAYLOAD_MAX, &len);

        p[i] = daemon_worker(i);
        probe_send_bytes(&p[i], head, len);
        free(head);
        fcntl(p[i].fd, F_SETFL, O_NONBLOCK);
    }
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < SENDERS; i++)
            (void)send(p[i].fd, bytes, 40000, MSG_NOSIGNAL); /* 3.8 MiB of 4 */
    WAIT_FOR(daemon_logged("messages in memory reached their cap"));
    other = daemon_connected(); /* small frames still pass */
    ck_assert(probe_hello(&other, -1, 0, false));
    after = resident_kib();
    expect_growth_below(after - before, 24 * 1024);
    for (int i = 0; i < SENDERS; i++)
        probe_close(&p[i]);
    probe_close(&other);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* A process that sends one byte on each of the connections, again and again. */
static pid_t
daemon_trickle(const struct probe *p, int n)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        for (int i = 0; i < n; i++)
            (void)send(p[i].fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        usleep(100000);
    }
}

/* Until psd sets so many bytes aside for messages; asked by an observer. */
static void
await_in_flight(uint64_t bytes)
{
    Psd__Query query = PSD__QUERY__INIT;
    struct probe p = daemon_connected();
    uint64_t got;

    ck_assert(probe_hello(&p, -1, 0, false));
    query.kind = PSD__QUERY_KIND__STATUS;
    do {
        probe_send(&p, MSG_QUERY, &query.base, NULL, 0);
        ck_assert(probe_receive(&p));
        ck_assert_int_eq(p.msg.type, MSG_REPORT);
        got = p.msg.u.report->status->in_flight_bytes;
    } while (got < bytes && usleep(SLEEP_MS * 1000) == 0);
    probe_close(&p);
}

/* Peers that promised payloads and do not send them lose their place to a waiting one that does. */
START_TEST(stalled_and_trickling_senders_give_way)
{
    enum { SENDERS = 3 };
    static float grad[LARGE_SIZE];
    Psd__Push push = PSD__PUSH__INIT;
    struct probe p[SENDERS], worker;
    uint32_t zero = 0, var;
    pid_t trickler;

    START("--in-flight=16MiB", "--in-flight-connection=8MiB");
    worker = daemon_connected();
    ck_assert(probe_hello(&worker, 0, 1, false));
    var = probe_declare(&worker, "w", LARGE_SIZE);
    push.seq = push.n_var = push.n_block = 1;
    push.var = push.block = &zero;
    for (int i = 0; i < SENDERS; i++) {
        size_t len;
        uint8_t *head = wire_encode_new(MSG_PUSH, 1, &push.base, FRAME_PAYLOAD_MAX, &len);

        p[i] = daemon_worker(i);
        probe_send_bytes(&p[i], head, len);
        free(head);
    }
    await_in_flight(FRAME_PAYLOAD_MAX); /* the next one is too much for one host's half */
    trickler = daemon_trickle(p, 1);
    ck_assert_uint_eq(probe_push(&worker, var, 0, grad, LARGE_SIZE), PS_OK);
    WAIT_FOR(daemon_logged("closed: it stalls while others wait for memory"));
    kill(trickler, SIGKILL);
    waitpid(trickler, NULL, 0);
    for (int i = 0; i < SENDERS; i++)
        probe_close(&p[i]);
    probe_close(&worker);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* Pulls without reading the answers: the server stops reading, holds little, and serves others. */
START_TEST(peer_that_does_not_fetch_its_answers_is_not_read)
{
    static float value[LARGE_SIZE];
    Psd__Pull pull = PSD__PULL__INIT;
    struct probe lazy, other;
    uint32_t var, zero = 0;
    uint8_t *frame;
    size_t len, at = 0;
    int stuck = 0;
    long before, after;

    START("--in-flight=16MiB", "--in-flight-connection=8MiB");
    other = daemon_connected();
    ck_assert(probe_hello(&other, 0, 1, false));
    var = probe_declare(&other, "w", LARGE_SIZE);
    lazy = daemon_connected();
    ck_assert(probe_hello(&lazy, 1, 2, false));
    pull.n_var = pull.n_block = 1;
    pull.var = &var;
    pull.block = &zero;
    frame = wire_encode_new(MSG_PULL, 7, &pull.base, 0, &len);
    before = resident_kib();
    fcntl(lazy.fd, F_SETFL, O_NONBLOCK);
    while (stuck < 50) { /* until the socket takes no more for half a second */
        ssize_t n = send(lazy.fd, frame + at, len - at, MSG_NOSIGNAL);

        if (n < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            usleep(SLEEP_MS * 1000);
            stuck++;
            continue;
        }
        at = (at + (size_t)n) % len;
        stuck = 0;
    }
    after = resident_kib();
    expect_growth_below(after - before, 32 * 1024);
    ck_assert_uint_eq(probe_pull(&other, var, 0, value, LARGE_SIZE), 0);
    fcntl(lazy.fd, F_SETFL, 0);
    for (int i = 0; i < 100; i++) { /* and when it fetches, it gets them */
        ck_assert(probe_receive(&lazy));
        ck_assert_int_eq(lazy.msg.type, MSG_DATA);
    }
    free(frame);
    probe_close(&lazy);
    probe_close(&other);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* Values for a peer that keeps sending are gathered for one system call, but only while it keeps sending. */
START_TEST(values_come_though_who_asked_stops_within_the_next_message)
{
    enum { WHOLE = 6 };
    static float grad[LARGE_SIZE];
    Psd__Push push = PSD__PUSH__INIT;
    struct probe p;
    uint32_t var, zero = 0;

    START();
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "w", LARGE_SIZE);
    push.n_var = push.n_block = 1;
    push.var = &var;
    push.block = &zero;
    push.want_value = true;
    for (int whole = 1; whole <= WHOLE; whole++) {
        size_t len;
        uint8_t *head;

        for (int i = 0; i < whole; i++) {
            push.seq = ++p.seq;
            probe_send(&p, MSG_PUSH, &push.base, grad, sizeof grad);
        }
        push.seq = ++p.seq;
        head = wire_encode_new(MSG_PUSH, 1000, &push.base, sizeof grad, &len);
        probe_send_bytes(&p, head, len);
        probe_send_bytes(&p, grad, sizeof grad / 2);
        for (int i = whole; i >= 0; i--) {
            ck_assert(probe_receive(&p));
            ck_assert_int_eq(p.msg.type, MSG_DATA);
            ck_assert_uint_ge(p.msg.u.data->version[0], p.seq - (uint64_t)i);
            if (i == 1) /* all that was asked for whole is there */
                probe_send_bytes(&p, (const uint8_t *)grad + sizeof grad / 2, sizeof grad / 2);
        }
        free(head);
    }
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(a_thousand_idle_connections_cost_little)
{
    enum { MANY = 1000 };
    static struct probe p[MANY];
    struct rlimit limit;
    long before, after;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < MANY + 64) {
        fprintf(stderr, "# skipped: only %ld descriptors\n", (long)limit.rlim_cur);
        return;
    }
    START();
    before = resident_kib();
    for (int i = 0; i < MANY; i++) {
        p[i] = daemon_connected();
        ck_assert(probe_hello(&p[i], -1, 0, false));
    }
    after = resident_kib();
    fprintf(stderr, "# %ld bytes a connection\n", (after - before) * 1024 / MANY);
    ck_assert_int_lt((after - before) * 1024 / MANY, 8192);
    for (int i = 0; i < MANY; i++)
        probe_close(&p[i]);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(out_of_descriptors_is_survived)
{
    enum { MANY = 60 };
    struct probe p[MANY];
    struct rlimit limit = {.rlim_cur = 40, .rlim_max = 40}, own;

    START();
    getrlimit(RLIMIT_NOFILE, &own);
    ck_assert_int_eq(prlimit(psd, RLIMIT_NOFILE, &limit, NULL), 0);
    for (int i = 0; i < MANY; i++)
        (void)probe_connect(&p[i], address);
    WAIT_FOR(daemon_logged("used up its file descriptors"));
    ck_assert(probe_hello(&p[0], -1, 0, false)); /* connected peers are served */
    for (int i = 1; i < MANY; i++)
        probe_close(&p[i]);
    for (;;) { /* and new ones again, when descriptors are free */
        ck_assert(probe_connect(&p[1], address));
        if (probe_hello(&p[1], -1, 0, false))
            break;
        probe_close(&p[1]);
        usleep(SLEEP_MS * 1000);
    }
    probe_close(&p[0]);
    probe_close(&p[1]);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

/* ---- Stopping ---- */

START_TEST(second_signal_stops_at_once)
{
    struct probe p;

    START();
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    kill(psd, SIGINT);
    WAIT_FOR(daemon_logged("stopping signal=INT"));
    kill(psd, SIGINT);
    ck_assert_int_eq(wait_exit(), 130);
    probe_close(&p);
}
END_TEST

START_TEST(a_drain_by_message_ends_as_a_stop_does)
{
    Psd__Drain drain = PSD__DRAIN__INIT;
    struct probe p[2];

    START("--grace=100ms");
    p[0] = daemon_connected();
    ck_assert(probe_hello(&p[0], 0, 1, false));
    p[1] = daemon_connected();
    ck_assert(probe_hello(&p[1], -1, 0, false));
    probe_send(&p[1], MSG_DRAIN, &drain.base, NULL, 0);
    ck_assert(probe_receive(&p[1]));
    ck_assert_int_eq(p[1].msg.type, MSG_EVENT);
    ck_assert_int_eq(p[1].msg.u.event->kind, PSD__EVENT_KIND__EVENT_DRAINING);
    if (_i == 1)
        kill(psd, SIGTERM);           /* the first signal, and no second order */
    ck_assert_int_eq(wait_exit(), 0); /* although the worker does not read, and its grace passes */
    WAIT_FOR(daemon_logged("drain asked by=\"probe"));
    ck_assert(!daemon_logged("worker lapsed"));
    probe_close(&p[0]);
    probe_close(&p[1]);
}
END_TEST

/* A lease counts silence, and messages sent while psd itself stood still end the silence. */
START_TEST(worker_that_spoke_while_psd_stood_still_keeps_its_lease)
{
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Job job = PSD__JOB__INIT;
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__Ping ping = PSD__PING__INIT;
    struct probe p;

    START();
    job.name = (char *)(uintptr_t) "job";
    job.workers = job.quorum = 1;
    job.age = &age;
    hello.cluster = (char *)(uintptr_t) "psd";
    hello.shards = 1;
    hello.job = &job;
    hello.incarnation = 1;
    hello.lease_ms = 2000;
    p = daemon_connected();
    probe_send(&p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_WELCOME);
    kill(psd, SIGSTOP);
    for (int i = 0; i < 4; i++) {
        usleep(600000);
        probe_send(&p, MSG_PING, &ping.base, NULL, 0);
    }
    kill(psd, SIGCONT);
    for (int i = 0; i < 4; i++) {
        ck_assert(probe_receive(&p));
        ck_assert_int_eq(p.msg.type, MSG_PONG);
    }
    WAIT_FOR(daemon_logged("worker lapsed")); /* silence is still detected */
    probe_close(&p);
    ck_assert_int_eq(daemon_stop(), 0);
}
END_TEST

START_TEST(stop_tells_the_workers_and_closes)
{
    struct probe p;

    START();
    p = daemon_connected();
    ck_assert(probe_hello(&p, 0, 1, false));
    kill(psd, SIGTERM);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_EVENT);
    ck_assert_int_eq(p.msg.u.event->kind, PSD__EVENT_KIND__EVENT_DRAINING);
    while (probe_receive(&p))
        ;
    probe_close(&p);
    ck_assert_int_eq(wait_exit(), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("daemon");
    TCase *tc = tcase_create("daemon");

    tcase_add_checked_fixture(tc, dirs_setup, dirs_teardown);
    tcase_add_test(tc, ready_file_names_every_address);
    tcase_add_test(tc, closed_standard_streams_are_nobody_elses);
    tcase_add_loop_test(tc, what_cannot_work_is_one_line_and_a_status, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(tc, who_cannot_listen_does_not_say_that_it_serves_and_keeps_what_was_there);
    tcase_add_test(tc, a_directory_of_somebody_else_is_left_alone);
    tcase_add_test(tc, second_psd_on_a_directory_is_refused_and_the_first_goes_on);
    tcase_add_test(tc, stale_unix_socket_is_replaced_and_a_live_one_is_not);
    tcase_add_test(tc, a_unix_socket_of_another_kind_stays);
    tcase_add_test(tc, systemd_is_told);
    tcase_add_test(tc, watchdog_sees_signs_of_life_at_half_its_time);
    tcase_add_test(tc, watchdog_of_another_process_is_left_alone);
    tcase_add_test(tc, hangup_reloads_and_names_what_needs_a_restart);
    tcase_add_test(tc, removed_live_directory_is_noticed);
    tcase_add_test(tc, disk_is_warned_about_and_a_clean_stop_syncs);
    tcase_add_test(tc, kill_9_and_restart_serve_the_same_bits);
    tcase_add_test(tc, full_tmpfs_refuses_more_and_service_goes_on);
    tcase_add_test(tc, a_shard_on_a_full_tmpfs_comes_back);
    tcase_add_test(tc, strangers_and_broken_frames_lose_their_connection_only);
    tcase_add_test(tc, one_connection_too_many_is_told_so);
    tcase_add_test(tc, promised_payloads_wait_at_the_memory_cap);
    tcase_add_test(tc, stalled_and_trickling_senders_give_way);
    tcase_add_test(tc, peer_that_does_not_fetch_its_answers_is_not_read);
    tcase_add_test(tc, values_come_though_who_asked_stops_within_the_next_message);
    tcase_add_test(tc, a_thousand_idle_connections_cost_little);
    tcase_add_test(tc, out_of_descriptors_is_survived);
    tcase_add_test(tc, second_signal_stops_at_once);
    tcase_add_loop_test(tc, a_drain_by_message_ends_as_a_stop_does, 0, 2);
    tcase_add_test(tc, worker_that_spoke_while_psd_stood_still_keeps_its_lease);
    tcase_add_test(tc, stop_tells_the_workers_and_closes);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
