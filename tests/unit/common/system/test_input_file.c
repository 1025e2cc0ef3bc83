/* Files that people name: directories, pipes, and text that is none. */
#include "common/system/input_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

static char dir[64], path[96];
static struct ps_error e;

static void
dir_make(void)
{
    snprintf(dir, sizeof dir, "/tmp/psd-test-input-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
}

static void
dir_remove(void)
{
    unlink(path);
    rmdir(dir);
}

static void
write_bytes(const void *bytes, size_t len)
{
    FILE *f = fopen(path, "w");

    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

#define SAYS(fragment) ck_assert_msg(strstr(e.text, fragment) != NULL, "\"%s\" does not say \"%s\"", e.text, fragment)

START_TEST(a_directory_and_nothing_are_refused_by_name)
{
    int fd;

    ck_assert_int_eq(input_file_open(dir, 0, &fd, &e), PS_ERR_IO);
    SAYS(dir);
    SAYS("Is a directory");
    ck_assert_int_eq(input_file_open(path, 0, &fd, &e), PS_ERR_IO);
    SAYS("f: No such file");
}
END_TEST

START_TEST(a_pipe_that_nothing_writes_to_is_not_waited_for_without_end)
{
    int fd;

    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(input_file_open(path, 1, &fd, &e), PS_ERR_IO);
    SAYS("f: it is a pipe, and nothing was written to it for 1 ms");
}
END_TEST

START_TEST(a_pipe_with_bytes_is_a_file)
{
    char *text, shown[64];
    int ends[2];
    size_t len;

    ck_assert_int_eq(pipe(ends), 0);
    snprintf(shown, sizeof shown, "/dev/fd/%d", ends[0]); /* what a shell makes of <(...) */
    ck_assert_int_eq(write(ends[1], "a = 1\n", 6), 6);
    close(ends[1]);
    ck_assert_msg(input_file_text(shown, 100, PS_ERR_CONFIG, &text, &len, &e) == PS_OK, "%s", e.text);
    ck_assert_str_eq(text, "a = 1\n");
    ck_assert_uint_eq(len, 6);
    free(text);
    close(ends[0]);
}
END_TEST

START_TEST(all_of_a_text_is_read_up_to_its_limit)
{
    enum { BYTES = 100000 };
    char *many = malloc(BYTES), *text;
    size_t len;

    memset(many, 'x', BYTES);
    write_bytes(many, BYTES);
    ck_assert_int_eq(input_file_text(path, BYTES, PS_ERR_CONFIG, &text, &len, &e), PS_OK);
    ck_assert(len == BYTES && memcmp(text, many, BYTES) == 0 && text[BYTES] == '\0');
    free(text);
    ck_assert_int_eq(input_file_text(path, BYTES - 1, PS_ERR_CONFIG, &text, &len, &e), PS_ERR_CONFIG);
    SAYS("f: it has more than 99999 bytes");
    free(many);
}
END_TEST

START_TEST(what_is_no_text_is_refused)
{
    char *text;
    size_t len;

    write_bytes("\xff\xfe"
                "a\0",
                4);
    ck_assert_int_eq(input_file_text(path, 100, PS_ERR_CONFIG, &text, &len, &e), PS_ERR_CONFIG);
    SAYS("f is text in UTF-16: save it as UTF-8");
    write_bytes("\x1f\x8b\x08\0", 4);
    ck_assert_int_eq(input_file_text(path, 100, PS_ERR_CONFIG, &text, &len, &e), PS_ERR_CONFIG);
    SAYS("f is compressed with gzip");
    write_bytes("a\r\nb\0c\n", 7);
    ck_assert_int_eq(input_file_text(path, 100, PS_ERR_DATA, &text, &len, &e), PS_ERR_DATA);
    SAYS("f:2: the line holds a zero byte");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("input_file");
    TCase *t = tcase_create("input_file");

    tcase_add_checked_fixture(t, dir_make, dir_remove);
    tcase_add_test(t, a_directory_and_nothing_are_refused_by_name);
    tcase_add_test(t, a_pipe_that_nothing_writes_to_is_not_waited_for_without_end);
    tcase_add_test(t, a_pipe_with_bytes_is_a_file);
    tcase_add_test(t, all_of_a_text_is_read_up_to_its_limit);
    tcase_add_test(t, what_is_no_text_is_refused);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
