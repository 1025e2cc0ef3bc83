/* Checksums: known ones, and the same by the instruction as by the table. */
#include "common/core/base/crc32c.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

#define LEN (70 * KIB)

static uint8_t *bytes;

static void
make_bytes(void)
{
    uint64_t x = 0x9e3779b97f4a7c15u;

    ck_assert_ptr_nonnull(bytes = malloc(LEN));
    for (size_t i = 0; i < LEN; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(x >> 56);
    }
}

static void
free_bytes(void)
{
    free(bytes);
}

/* RFC 3720, B.4. */
START_TEST(known_texts_have_their_checksums)
{
    uint8_t text[32];

    ck_assert_uint_eq(crc32c(0, "", 0), 0);
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283u);
    memset(text, 0, sizeof text);
    ck_assert_uint_eq(crc32c(0, text, sizeof text), 0x8a9136aau);
    memset(text, 0xff, sizeof text);
    ck_assert_uint_eq(crc32c(0, text, sizeof text), 0x62a8ab43u);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)i;
    ck_assert_uint_eq(crc32c(0, text, sizeof text), 0x46dd794eu);
    ck_assert_uint_eq(crc32c_by_table(0, text, sizeof text), 0x46dd794eu);
}
END_TEST

START_TEST(instruction_and_table_agree_at_every_length_and_place)
{
    for (size_t len = 0; len < 9000; len += 1 + len / 50)
        for (size_t at = 0; at < 9; at++)
            ck_assert_uint_eq(crc32c(7, bytes + at, len), crc32c_by_table(7, bytes + at, len));
    ck_assert_uint_eq(crc32c(0, bytes, LEN), crc32c_by_table(0, bytes, LEN));
}
END_TEST

START_TEST(parts_give_the_checksum_of_the_whole)
{
    uint32_t whole = crc32c(0, bytes, LEN);

    for (size_t cut = 0; cut < LEN; cut += 1 + cut / 3)
        ck_assert_uint_eq(crc32c(crc32c(0, bytes, cut), bytes + cut, LEN - cut), whole);
}
END_TEST

START_TEST(each_flipped_bit_gives_another)
{
    uint32_t whole = crc32c(0, bytes, LEN);

    for (size_t bit = 0; bit < 8 * LEN; bit += 1 + bit / 40) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_uint_ne(crc32c(0, bytes, LEN), whole);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("crc32c");
    TCase *tc = tcase_create("crc32c");

    tcase_add_checked_fixture(tc, make_bytes, free_bytes);
    tcase_add_test(tc, known_texts_have_their_checksums);
    tcase_add_test(tc, instruction_and_table_agree_at_every_length_and_place);
    tcase_add_test(tc, parts_give_the_checksum_of_the_whole);
    tcase_add_test(tc, each_flipped_bit_gives_another);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
