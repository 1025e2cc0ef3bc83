/* Files that appear whole or not at all: their modes, the state after a signal, and that no thread's umask is touched.
 * The linker gives the code under test the umask() below. */
#include "client/tools/shared/new_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"

static char dir[] = "/tmp/psd-new-file-XXXXXX";
static char path[sizeof dir + 16];
static unsigned umask_calls;

mode_t __real_umask(mode_t mask);
mode_t __wrap_umask(mode_t mask);

mode_t
__wrap_umask(mode_t mask)
{
    umask_calls++;
    return __real_umask(mask);
}

static void
make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model", dir);
}

static void
drop_dir(void)
{
    remove_tree(dir);
}

/* Files of the directory; the name of one of them, if there are any, in `last`. */
static unsigned
count_files(char last[512])
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        if (entry->d_name[0] != '.') {
            snprintf(last, 512, "%s/%s", dir, entry->d_name);
            n++;
        }
    closedir(d);
    return n;
}

static void
new_file_setup(struct new_file *f)
{
    struct ps_error e = {0};

    ck_assert_msg(new_file_begin(f, path, &e) == PS_OK, "%s", e.text);
    ck_assert_int_eq(write(f->fd, "whole", 5), 5);
}

/* umask() reads the mask by setting it: a file that another thread makes meanwhile would have any mode. */
START_TEST(its_mode_is_any_new_files_without_a_look_at_the_umask)
{
    static const mode_t masks[] = {022, 077, 027, 0};
    struct new_file f;
    struct ps_error e;
    struct stat st;

    __real_umask(masks[_i]);
    new_file_setup(&f);
    ck_assert_int_eq(new_file_end(&f, &e), PS_OK);
    new_file_close(&f);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0666u & ~masks[_i]);
    ck_assert_uint_eq(umask_calls, 0);
    ck_assert_uint_eq(__real_umask(022), masks[_i]);
}
END_TEST

START_TEST(it_appears_at_its_end_in_the_place_of_the_one_before)
{
    char text[8] = "", last[512];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    struct new_file f;
    struct ps_error e;

    ck_assert_int_eq(write(fd, "old", 3), 3);
    close(fd);
    new_file_setup(&f);
    ck_assert_uint_eq(count_files(last), 2);
    ck_assert_int_eq(new_file_end(&f, &e), PS_OK);
    new_file_close(&f);
    ck_assert_uint_eq(count_files(last), 1);
    ck_assert_str_eq(last, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, text, sizeof text), 5);
    ck_assert_str_eq(text, "whole");
    close(fd);
}
END_TEST

START_TEST(what_is_not_ended_leaves_nothing)
{
    struct new_file f;
    char last[512];

    new_file_setup(&f);
    new_file_close(&f);
    ck_assert_uint_eq(count_files(last), 0);
}
END_TEST

/* Two at the same path do not take each other's names. */
START_TEST(its_name_until_then_is_one_that_no_file_has)
{
    struct new_file one, other;
    char last[512];

    new_file_setup(&one);
    new_file_setup(&other);
    ck_assert_str_ne(one.partial, other.partial);
    ck_assert_uint_eq(count_files(last), 2);
    new_file_close(&one);
    new_file_close(&other);
    ck_assert_uint_eq(count_files(last), 0);
}
END_TEST

/* A process begins a file and gets a signal. How it ends. */
static int
end_by(int sig, bool ignored)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct new_file f;

        (void)signal(sig, ignored ? SIG_IGN : SIG_DFL);
        new_file_setup(&f);
        (void)raise(sig);
        new_file_close(&f);
        _exit(7);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(a_signal_removes_it_and_ends_the_process)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int status = end_by(signals[_i], false);
    char last[512];

    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[_i]);
    ck_assert_uint_eq(count_files(last), 0);
}
END_TEST

START_TEST(a_signal_that_is_ignored_stays_so)
{
    int status = end_by(SIGHUP, true);
    char last[512];

    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    ck_assert_uint_eq(count_files(last), 0);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    struct new_file f;
    struct ps_error e = {0};

    ck_assert_int_eq(mkdir(path, 0755), 0);
    ck_assert_int_eq(new_file_begin(&f, path, &e), PS_ERR_INVALID);
    new_file_close(&f);
}
END_TEST

START_TEST(a_directory_that_is_missing_is_said)
{
    struct new_file f;
    struct ps_error e = {0};

    drop_dir();
    ck_assert_int_eq(new_file_begin(&f, path, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "No such file or directory"));
    new_file_close(&f);
}
END_TEST

static Suite *
new_file_suite(void)
{
    Suite *suite = suite_create("new_file");
    TCase *file = tcase_create("file");

    tcase_add_checked_fixture(file, make_dir, drop_dir);
    tcase_add_loop_test(file, its_mode_is_any_new_files_without_a_look_at_the_umask, 0, 4);
    tcase_add_test(file, it_appears_at_its_end_in_the_place_of_the_one_before);
    tcase_add_test(file, what_is_not_ended_leaves_nothing);
    tcase_add_test(file, its_name_until_then_is_one_that_no_file_has);
    tcase_add_loop_test(file, a_signal_removes_it_and_ends_the_process, 0, 3);
    tcase_add_test(file, a_signal_that_is_ignored_stays_so);
    tcase_add_test(file, what_is_no_file_is_refused);
    tcase_add_test(file, a_directory_that_is_missing_is_said);
    suite_add_tcase(suite, file);
    return suite;
}

CHECK_MAIN(new_file_suite)
