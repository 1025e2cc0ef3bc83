/* Files for the tests of the data readers: a directory of its own per test, filled by bytes, plain or gzipped. */
#ifndef TESTS_UNIT_CLIENT_DATA_DATA_FILES_H
#define TESTS_UNIT_CLIENT_DATA_DATA_FILES_H

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "tests/unit/kits/check_main.h"

static char data_dir[64];

static inline void
data_dir_make(void)
{
    snprintf(data_dir, sizeof data_dir, "%s", "/tmp/psd-test-data-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(data_dir));
}

static inline void
data_dir_remove(void)
{
    DIR *dir = opendir(data_dir);
    struct dirent *entry;
    char path[512];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", data_dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(data_dir);
}

/* The path is overwritten by the second next call. */
static inline const char *
data_path(const char *name)
{
    static char paths[2][256];
    static int turn;

    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", data_dir, name);
    return paths[turn];
}

static inline const char *
write_plain(const char *name, const void *bytes, size_t len)
{
    const char *path = data_path(name);
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static inline const char *
write_gzip(const char *name, const void *bytes, size_t len)
{
    const char *path = data_path(name);
    gzFile file = gzopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)len), (int)len);
    ck_assert_int_eq(gzclose(file), Z_OK);
    return path;
}

/* Keep only the first len bytes. */
static inline void
cut_file(const char *path, long len)
{
    ck_assert_int_eq(truncate(path, len), 0);
}

#define assert_error(error, wanted_code, text_part)                                                                    \
    do {                                                                                                               \
        ck_assert_msg((error).code == (wanted_code), "%s: %s", ps_err_name((error).code), (error).text);               \
        ck_assert_msg(strstr((error).text, (text_part)) != NULL, "\"%s\" lacks \"%s\"", (error).text, (text_part));    \
    } while (0)

#endif
