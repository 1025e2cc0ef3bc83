/* Memory that two sides share, both of them here: bytes that are put in come out, wherever the ring ends; impossible
 * positions are noticed; a descriptor that is not the other side's memory is not taken. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/shm_ring.h"
#include "tests/unit/kits/check_main.h"

static struct shm_ring a, b;

static void
shm_ring_both(size_t ring_bytes)
{
    struct ps_error e;

    ck_assert_msg(shm_ring_make(&a, ring_bytes, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(shm_ring_find(&b, getpid(), a.fd, a.token, &e) == PS_OK, "%s", e.text);
    shm_ring_offered(&a);
}

static void
finish_both(void)
{
    shm_ring_finish(&a);
    shm_ring_finish(&b);
    shm_ring_finish(&b);
}

static uint8_t
byte_at(uint64_t i)
{
    return (uint8_t)((i + 1) * 0x9e3779b97f4a7c15u >> 56);
}

START_TEST(what_is_put_comes_out_wherever_the_ring_ends)
{
    struct shm_ring *from = _i == 0 ? &a : &b, *to = _i == 0 ? &b : &a;
    uint64_t put = 0, taken = 0, z = 12345;

    shm_ring_both(SHM_RING_MIN);
    ck_assert_uint_eq(shm_ring_space(from), SHM_RING_MIN);
    while (taken < 10 * SHM_RING_MIN) {
        size_t n;

        z = z * 6364136223846793005u + 1442695040888963407u;
        n = MIN(shm_ring_space(from), (size_t)(z >> 33) % 50000);
        for (size_t i = 0; i < n; i++)
            shm_ring_in(from)[i] = byte_at(put + i);
        shm_ring_put(from, n);
        put += n;
        ck_assert_uint_eq(shm_ring_filled(to), put - taken);
        n = MIN(shm_ring_filled(to), (size_t)(z >> 13) % 50000);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(shm_ring_out(to)[i], byte_at(taken + i));
        shm_ring_take(to, n);
        taken += n;
        ck_assert_uint_eq(shm_ring_space(from), SHM_RING_MIN - (put - taken));
    }
    ck_assert_uint_eq(shm_ring_filled(from), 0);
    finish_both();
}
END_TEST

START_TEST(who_sleeps_is_rung_once_and_only_for_what_it_wants)
{
    shm_ring_both(SHM_RING_MIN);
    ck_assert(shm_ring_sleep(&b, SHM_RING_DATA, 0));
    ck_assert(!shm_ring_notify(&a, SHM_RING_SPACE));
    shm_ring_put(&a, 8);
    ck_assert(shm_ring_notify(&a, SHM_RING_DATA));
    ck_assert(!shm_ring_notify(&a, SHM_RING_DATA));
    ck_assert(!shm_ring_sleep(&b, SHM_RING_DATA, 0)); /* there is something */
    ck_assert(!shm_ring_notify(&a, SHM_RING_DATA));   /* so it is awake */
    ck_assert(shm_ring_sleep(&b, SHM_RING_DATA, 8));  /* but not enough */
    shm_ring_wake(&b);
    ck_assert(!shm_ring_notify(&a, SHM_RING_DATA));

    shm_ring_put(&a, SHM_RING_MIN - 8);
    ck_assert_uint_eq(shm_ring_space(&a), 0);
    ck_assert(shm_ring_sleep(&a, SHM_RING_DATA | SHM_RING_SPACE, 0));
    shm_ring_take(&b, 8);
    ck_assert(shm_ring_notify(&b, SHM_RING_SPACE));
    ck_assert(!shm_ring_sleep(&a, SHM_RING_DATA | SHM_RING_SPACE, 0));
    finish_both();
}
END_TEST

START_TEST(a_position_that_cannot_be_is_noticed)
{
    shm_ring_both(SHM_RING_MIN);
    shm_ring_put(&a, SHM_RING_MIN + 1);
    ck_assert(shm_ring_filled(&b) == SIZE_MAX);
    ck_assert(shm_ring_space(&a) == SIZE_MAX);
    shm_ring_take(&a, 1); /* more than was put */
    ck_assert(shm_ring_space(&b) == SIZE_MAX);
    finish_both();
}
END_TEST

static void
shm_ring_refused(int fd, uint64_t token, const char *why)
{
    struct ps_error e;

    ck_assert_int_eq(shm_ring_find(&b, getpid(), fd, token, &e), PS_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(e.text, why) != NULL, "%s", e.text);
    ck_assert(b.page == NULL);
}

START_TEST(what_is_not_the_others_memory_is_not_taken)
{
    static const size_t lengths[] = {0, 100, 4096, 8192};
    struct ps_error e;
    int fd;

    ck_assert(shm_ring_make(&a, SHM_RING_MIN, &e) == PS_OK);
    shm_ring_refused(a.fd, a.token + 2, "another file");
    shm_ring_refused(a.fd, 0, "another file");
    shm_ring_refused(1 << 20, a.token, "open");
    ck_assert_int_eq(shm_ring_find(&b, 0x7ffffff0, a.fd, a.token, &e), PS_ERR_UNSUPPORTED);
    fd = open("/dev/null", O_RDWR);
    ck_assert_int_ge(fd, 0);
    shm_ring_refused(fd, a.token, "sealed");
    close(fd);
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        ck_assert(fd >= 0 && ftruncate(fd, (off_t)lengths[i]) == 0);
        shm_ring_refused(fd, a.token, "sealed");
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        shm_ring_refused(fd, a.token, lengths[i] < 4096 ? "page" : "another file");
        close(fd);
    }
    shm_ring_finish(&a);
}
END_TEST

/* A terminal that a session leader without one opens becomes its controlling one, and is there as /dev/tty then. */
START_TEST(a_terminal_is_refused_and_is_nobodys_controlling_one)
{
    int master, slave, status;
    pid_t leader = fork();

    ck_assert_int_ge(leader, 0);
    if (leader > 0) {
        ck_assert_int_eq(waitpid(leader, &status, 0), leader);
        ck_assert_int_eq(status, 0);
        return;
    }
    ck_assert_int_gt(setsid(), 0);
    ck_assert_int_lt(open("/dev/tty", O_RDWR | O_CLOEXEC), 0);
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(slave, 0);
    shm_ring_refused(slave, 1, "sealed");
    ck_assert_int_lt(open("/dev/tty", O_RDWR | O_CLOEXEC), 0);
    _exit(0);
}
END_TEST

/* To open it for writing would break the lease. */
START_TEST(a_file_is_refused_without_being_opened)
{
    char path[] = "/tmp/psd-test-share.XXXXXX";
    int made = mkstemp(path), fd;

    ck_assert_int_ge(made, 0);
    close(made);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert(signal(SIGIO, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_RDLCK), 0);
    shm_ring_refused(fd, 1, "sealed");
    ck_assert_int_eq(fcntl(fd, F_GETLEASE), F_RDLCK);
    close(fd);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    char path[] = "/tmp/psd-test-share.XXXXXX", fifo[64];
    int pair[2], fds[6];

    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fds[0] = open(fifo, O_PATH | O_CLOEXEC);
    fds[1] = open("/dev/null", O_PATH | O_CLOEXEC);
    fds[2] = open(path, O_PATH | O_CLOEXEC);
    fds[3] = eventfd(0, EFD_CLOEXEC);
    fds[4] = pair[0];
    fds[5] = pair[1];
    for (unsigned i = 0; i < ARRAY_LEN(fds); i++) {
        ck_assert_int_ge(fds[i], 0);
        shm_ring_refused(fds[i], 1, "sealed");
        close(fds[i]);
    }
    unlink(fifo);
    rmdir(path);
}
END_TEST

/* Like a real one in all but its size. */
START_TEST(a_size_that_makes_no_sense_is_not_taken)
{
    static const uint64_t sizes[] = {0, 1, SHM_RING_MIN - 1, SHM_RING_MIN + 8, 2 * SHM_RING_MIN, UINT64_MAX};
    struct ps_error e;

    ck_assert(shm_ring_make(&a, SHM_RING_MIN, &e) == PS_OK);
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
        ((uint64_t *)a.page)[2] = sizes[i]; /* as PROTOCOL.md has it */
        shm_ring_refused(a.fd, a.token, "size");
    }
    shm_ring_finish(&a);
}
END_TEST

/* The other side writes there while this one looks: the value that was checked must be the one that is used. */
START_TEST(a_size_that_changes_meanwhile_is_read_once)
{
    unsigned taken = 0, refused_len = 0;
    volatile uint64_t *size;
    struct ps_error e;
    pid_t other;

    ck_assert(shm_ring_make(&a, SHM_RING_MIN, &e) == PS_OK);
    size = (volatile uint64_t *)a.page + 2;
    if ((other = fork()) == 0)
        for (prctl(PR_SET_PDEATHSIG, SIGKILL);;) {
            *size = 64 * SHM_RING_MIN;
            *size = SHM_RING_MIN;
        }
    ck_assert_int_gt(other, 0);
    while (taken < 50 || refused_len < 50) {
        if (shm_ring_find(&b, getpid(), a.fd, a.token, &e) == PS_OK) {
            ck_assert_uint_eq(b.ring_bytes, SHM_RING_MIN);
            taken++;
        } else {
            ck_assert_msg(strstr(e.text, "size") != NULL, "%s", e.text);
            refused_len++;
        }
        shm_ring_finish(&b);
    }
    kill(other, SIGKILL);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
    shm_ring_finish(&a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("share");
    TCase *t = tcase_create("share");

    tcase_add_loop_test(t, what_is_put_comes_out_wherever_the_ring_ends, 0, 2);
    tcase_add_test(t, who_sleeps_is_rung_once_and_only_for_what_it_wants);
    tcase_add_test(t, a_position_that_cannot_be_is_noticed);
    tcase_add_test(t, what_is_not_the_others_memory_is_not_taken);
    tcase_add_test(t, a_terminal_is_refused_and_is_nobodys_controlling_one);
    tcase_add_test(t, a_file_is_refused_without_being_opened);
    tcase_add_test(t, what_is_no_file_is_refused);
    tcase_add_test(t, a_size_that_makes_no_sense_is_not_taken);
    tcase_add_test(t, a_size_that_changes_meanwhile_is_read_once);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
