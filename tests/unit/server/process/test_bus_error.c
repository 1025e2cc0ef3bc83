#include "server/process/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

static char said[4096];

START_TEST(the_sentence_knows_live_data_durable_data_and_other_files)
{
    bus_error_say(said, sizeof said, "/run/psd/live/data.mdb", 4096, true);
    ck_assert_ptr_nonnull(
        strstr(said, "byte 4096 of /run/psd/live/data.mdb is no longer there: the memory of the live"));
    bus_error_say(said, sizeof said, "/run/psd/live/data.mdb (deleted)", 1, true);
    ck_assert_ptr_nonnull(strstr(said, "the memory of the live"));
    bus_error_say(said, sizeof said, "/lib/psd/durable/data.mdb", 18446744073709551615u, false);
    ck_assert_ptr_nonnull(strstr(said, "byte 18446744073709551615 of /lib/psd/durable/data.mdb cannot be read"));
    ck_assert_ptr_nonnull(strstr(said, "Move that file away and start psd again"));
    bus_error_say(said, sizeof said, "/lib/libc.so", 0, false);
    ck_assert_ptr_nonnull(strstr(said, "byte 0 of /lib/libc.so, which psd has mapped, cannot be read"));
    bus_error_say(said, 10, "/lib/libc.so", 0, false);
    ck_assert_str_eq(said, "byte 0 of");
}
END_TEST

/* The stderr output of a child that reads a byte of a file behind its end; returns how the child ended. */
static int
touch_behind_the_end(const char *path, int protection, size_t at)
{
    int out[2], status, fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pipe(out), 0);
    if ((pid = fork()) == 0) {
        const volatile char *map = mmap(NULL, 8 * 4096, protection, MAP_SHARED, fd, 0);

        dup2(out[1], STDERR_FILENO);
        bus_error_listen();
        _exit(map[at] != 0 ? 1 : 0);
    }
    close(out[1]);
    while ((n = read(out[0], said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)n;
    said[len] = '\0';
    close(out[0]);
    close(fd);
    unlink(path);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

START_TEST(a_page_that_cannot_be_had_ends_the_process_with_a_sentence)
{
    char path[64], want[128];

    snprintf(path, sizeof path, "/var/tmp/psd-bus-error-%ld", (long)getpid());
    ck_assert_int_eq(touch_behind_the_end(path, PROT_READ, 4096 + 77), EXIT_LOST);
    snprintf(want, sizeof want, "psd: byte 4173 of %s, which psd has mapped, cannot be read", path);
    ck_assert_msg(strncmp(said, want, strlen(want)) == 0, "%s", said);
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
}
END_TEST

/* A signal that has nothing to do with a file is a defect, and ends as usual: with a core. */
START_TEST(what_is_no_files_page_ends_by_the_signal)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        bus_error_listen();
        raise(SIGBUS);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("bus_error");
    TCase *tc = tcase_create("bus_error");

    tcase_add_test(tc, the_sentence_knows_live_data_durable_data_and_other_files);
    tcase_add_test(tc, a_page_that_cannot_be_had_ends_the_process_with_a_sentence);
    tcase_add_test(tc, what_is_no_files_page_ends_by_the_signal);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
