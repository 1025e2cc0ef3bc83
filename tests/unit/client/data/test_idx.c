/* IDX files: every element type, plain and gzip; errors name file and byte. */
#include "client/data/idx.h"

#include <math.h>

#include "common/core/base/base.h"
#include "tests/unit/client/data/data_files.h"

static struct ps_error error;

static enum ps_err
read_bytes(const void *bytes, size_t len, struct ps_idx *out)
{
    return ps_idx_read(write_plain("a.idx", bytes, len), out, &error);
}

#define READ(out, ...)                                                                                                 \
    read_bytes((const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}), out)

START_TEST(every_type_is_read_in_this_machines_order)
{
    static const unsigned char file[][32] = {
        {0, 0, 0x08, 1, 0, 0, 0, 2, 200, 3},
        {0, 0, 0x09, 1, 0, 0, 0, 2, 0xfe, 3},
        {0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 2},
        {0, 0, 0x0c, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4},
        {0, 0, 0x0d, 1, 0, 0, 0, 2, 0xc0, 0x20, 0, 0, 0x3f, 0x80, 0, 0},
        {0, 0, 0x0e, 1, 0, 0, 0, 2, 0xc0, 4, 0, 0, 0, 0, 0, 0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0},
    };
    static const size_t len[] = {10, 10, 12, 16, 16, 24};
    static const double want[][2] = {{200, 3}, {-2, 3}, {-2, 258}, {-2, 16909060}, {-2.5, 1}, {-2.5, 1}};
    static const char *const names[] = {"u8", "i8", "i16", "i32", "f32", "f64"};
    struct ps_idx idx;

    for (size_t i = 0; i < ARRAY_LEN(file); i++) {
        ck_assert_int_eq(read_bytes(file[i], len[i], &idx), PS_OK);
        ck_assert_uint_eq(idx.rank, 1);
        ck_assert_uint_eq(idx.elements, 2);
        ck_assert_str_eq(ps_idx_type_name(idx.type), names[i]);
        ck_assert(ps_idx_value(&idx, 0) == want[i][0]);
        ck_assert(ps_idx_value(&idx, 1) == want[i][1]);
        ps_idx_free(&idx);
        ps_idx_free(&idx); /* freed ones are accepted */
    }
    ck_assert_ptr_null(ps_idx_type_name(0x0a));
    ck_assert_ptr_null(ps_idx_type_name(-1));
}
END_TEST

START_TEST(any_rank_is_read)
{
    unsigned char deep[4 + 4 * 255 + 1] = {0, 0, 8, 255};
    struct ps_idx idx;

    ck_assert_int_eq(READ(&idx, 0, 0, 8, 0, 42), PS_OK);
    ck_assert_uint_eq(idx.rank, 0);
    ck_assert_uint_eq(idx.elements, 1);
    ck_assert(ps_idx_value(&idx, 0) == 42);
    ps_idx_free(&idx);

    ck_assert_int_eq(READ(&idx, 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6), PS_OK);
    ck_assert_uint_eq(idx.rank, 3);
    ck_assert(idx.dims[0] == 1 && idx.dims[1] == 2 && idx.dims[2] == 3);
    ck_assert(ps_idx_value(&idx, 5) == 6);
    ps_idx_free(&idx);

    for (size_t i = 0; i < 255; i++)
        deep[4 + 4 * i + 3] = 1;
    deep[4 + 4 * 255] = 7;
    ck_assert_int_eq(read_bytes(deep, sizeof deep, &idx), PS_OK);
    ck_assert_uint_eq(idx.rank, 255);
    ck_assert(ps_idx_value(&idx, 0) == 7);
    ps_idx_free(&idx);

    ck_assert_int_eq(READ(&idx, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9), PS_OK);
    ck_assert_uint_eq(idx.elements, 0);
    ps_idx_free(&idx);
}
END_TEST

START_TEST(gzip_gives_what_plain_gives)
{
    enum { N = 300000 };
    unsigned char *file = calloc(1, N + 8);
    struct test_rng rng = {test_seed()};
    struct ps_idx plain, packed;

    memcpy(file, (unsigned char[]){0, 0, 8, 1, N >> 24, N >> 16 & 255, N >> 8 & 255, N & 255}, 8);
    for (size_t i = 0; i < N; i++)
        file[8 + i] = (unsigned char)test_below(&rng, 20);
    ck_assert_int_eq(ps_idx_read(write_plain("a", file, N + 8), &plain, &error), PS_OK);
    ck_assert_int_eq(ps_idx_read(write_gzip("a.gz", file, N + 8), &packed, &error), PS_OK);
    ck_assert_uint_eq(packed.elements, N);
    ck_assert_int_eq(memcmp(plain.data, packed.data, N), 0);
    ck_assert_int_eq(memcmp(plain.data, file + 8, N), 0);
    ps_idx_free(&plain);
    ps_idx_free(&packed);
    free(file);
}
END_TEST

START_TEST(a_bad_header_is_named_with_its_byte)
{
    struct ps_idx idx;

    ck_assert_int_ne(READ(&idx, 'P', 'K', 3, 4, 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "a.idx: byte 0: not an IDX file");
    assert_error(error, PS_ERR_DATA, "it is a zip archive");
    ck_assert_int_ne(READ(&idx, 'B', 'Z', 'h', '9', 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 0: not an IDX file: it is compressed with bzip2: unpack it (bunzip2)");
    ck_assert_int_ne(READ(&idx, 0, 1, 8, 1, 0, 0, 0, 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 0");
    ck_assert_int_ne(READ(&idx, 0, 0, 0x0a, 1, 0, 0, 0, 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 2: 0a is not an IDX element type");
    ck_assert_int_ne(READ(&idx, 0, 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 2: the file ends within the 4-byte IDX header");
    ck_assert_int_ne(read_bytes("", 0, &idx), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 0: the file ends");
    ck_assert_int_ne(READ(&idx, 0, 0, 8, 3, 0, 0, 0, 1, 0, 0), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 10: the file ends within its header: rank 3 needs 16 bytes");
}
END_TEST

START_TEST(the_header_must_describe_the_bytes_that_follow)
{
    struct ps_idx idx;

    ck_assert_int_ne(READ(&idx, 0, 0, 8, 1, 0, 0, 0, 3, 1, 2), PS_OK);
    assert_error(error, PS_ERR_DATA, "byte 8: the header says 3 of u8 = 3 bytes, but 2 follow");
    ck_assert_int_ne(READ(&idx, 0, 0, 8, 1, 0, 0, 0, 1, 1, 2), PS_OK);
    assert_error(error, PS_ERR_DATA, "but 2 follow");
    ck_assert_int_ne(READ(&idx, 0, 0, 0x0d, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7), PS_OK);
    assert_error(error, PS_ERR_DATA, "1x2 of f32 = 8 bytes, but 7 follow");
}
END_TEST

START_TEST(huge_dimensions_neither_overflow_nor_allocate)
{
    struct ps_idx idx;

    ck_assert_int_ne(READ(&idx, 0, 0, 8, 1, 255, 255, 255, 255, 1), PS_OK);
    assert_error(error, PS_ERR_DATA, "4294967295 bytes, but 1 follow");
    ck_assert_int_ne(READ(&idx, 0, 0, 0x0e, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1), PS_OK);
    assert_error(error, PS_ERR_DATA, "more than 2^64 bytes");
    /* 2^32 x 2^32 would be 0 in 64 bits */
    ck_assert_int_ne(READ(&idx, 0, 0, 8, 3, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 4), PS_OK);
    assert_error(error, PS_ERR_DATA, "more than 2^64 bytes");
}
END_TEST

START_TEST(damaged_gzip_is_found_wherever_it_is_cut)
{
    unsigned char file[8 + 200] = {0, 0, 8, 1, 0, 0, 0, 200};
    struct test_rng rng = {test_seed()};
    struct ps_idx idx;
    const char *path;
    long size;
    FILE *f;

    for (size_t i = 8; i < sizeof file; i++)
        file[i] = (unsigned char)test_rand(&rng);
    path = write_gzip("cut.gz", file, sizeof file);
    f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    fclose(f);
    for (long keep = size - 1; keep >= 3; keep -= 7) {
        cut_file(path, keep);
        ck_assert_int_ne(ps_idx_read(path, &idx, &error), PS_OK);
        assert_error(error, PS_ERR_DATA, "cut.gz");
    }
    path = write_gzip("crc.gz", file, sizeof file);
    f = fopen(path, "r+b");
    fseek(f, -6, SEEK_END);
    fputc(0x5a, f);
    fclose(f);
    ck_assert_int_ne(ps_idx_read(path, &idx, &error), PS_OK);
    assert_error(error, PS_ERR_DATA, "damaged");
}
END_TEST

START_TEST(what_cannot_be_read_says_why)
{
    struct ps_idx idx;

    ck_assert_int_ne(ps_idx_read(data_path("none"), &idx, &error), PS_OK);
    assert_error(error, PS_ERR_IO, "none: No such file");
    ck_assert_int_ne(ps_idx_read(data_dir, &idx, &error), PS_OK);
    assert_error(error, PS_ERR_IO, "directory");
}
END_TEST

/* Whatever the bytes are: an error, or an array that fills them. */
START_TEST(random_bytes_never_break_the_reader)
{
    static const unsigned char types[] = {8, 9, 0xb, 0xc, 0xd, 0xe, 0xa};
    struct test_rng rng = {test_seed()};
    unsigned char *bytes;
    struct ps_idx idx;
    size_t len, accepted = 0;

    for (int i = 0; i < 20000; i++) {
        len = test_below(&rng, 40);
        bytes = calloc(1, len + 1);
        for (size_t k = 0; k < len; k++)
            bytes[k] = test_below(&rng, 3) == 0 ? (unsigned char)test_below(&rng, 6) : 0;
        if (len > 3 && test_below(&rng, 4) > 0)
            memcpy(bytes, (unsigned char[]){0, 0, types[test_below(&rng, 7)], (unsigned char)test_below(&rng, 3)}, 4);
        if (idx_parse("random", bytes, len, &idx, &error) != PS_OK)
            continue;
        accepted++;
        for (uint64_t k = 0; k < idx.elements; k++)
            (void)ps_idx_value(&idx, k);
        ps_idx_free(&idx);
    }
    ck_assert_uint_gt(accepted, 10);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("idx");
    TCase *tc = tcase_create("idx");

    tcase_add_checked_fixture(tc, data_dir_make, data_dir_remove);
    tcase_add_test(tc, every_type_is_read_in_this_machines_order);
    tcase_add_test(tc, any_rank_is_read);
    tcase_add_test(tc, gzip_gives_what_plain_gives);
    tcase_add_test(tc, a_bad_header_is_named_with_its_byte);
    tcase_add_test(tc, the_header_must_describe_the_bytes_that_follow);
    tcase_add_test(tc, huge_dimensions_neither_overflow_nor_allocate);
    tcase_add_test(tc, damaged_gzip_is_found_wherever_it_is_cut);
    tcase_add_test(tc, what_cannot_be_read_says_why);
    tcase_add_test(tc, random_bytes_never_break_the_reader);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
