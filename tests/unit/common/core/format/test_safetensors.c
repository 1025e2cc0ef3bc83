#include "common/core/format/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

static char text[1024];

/* JSON with its length before it. */
static struct span
head_of(const char *json)
{
    uint64_t n = strlen(json);

    memcpy(text, &n, sizeof n); /* the machines that we build for are little-endian */
    memcpy(text + sizeof n, json, n);
    return (struct span){text, sizeof n + n};
}

static enum ps_err
safetensors_parse_text(const char *json, uint64_t values, struct ps_error *e)
{
    struct span head = head_of(json);
    struct safetensors s;
    enum ps_err err = safetensors_parse("w.safetensors", head, head.len + values, &s, e);

    safetensors_finish(&s);
    return err;
}

START_TEST(what_is_written_is_read)
{
    const uint64_t shape[] = {3, 5};
    struct safetensors made = {0}, read;
    const struct safetensors_tensor *t;
    struct ps_error e;
    uint64_t bytes;
    char *head;

    ck_assert_int_eq(safetensors_add(&made, "z \"quoted\" \xc3\xa9", SAFETENSORS_I64, 1, shape, &e), PS_OK);
    ck_assert_int_eq(safetensors_add(&made, "a/w", SAFETENSORS_F32, 2, shape, &e), PS_OK);
    ck_assert_int_eq(safetensors_add(&made, "scalar", SAFETENSORS_F32, 0, NULL, &e), PS_OK);
    ck_assert_int_eq(safetensors_head(&made, "psd 1", &head, &e), PS_OK);
    ck_assert_uint_eq(made.data % SAFETENSORS_ALIGN, 0);
    ck_assert_uint_eq(made.bytes, made.data + 3 * 8 + 15 * 4 + 4);
    ck_assert_int_eq(safetensors_head_bytes("w", (uint8_t *)head, made.bytes, &bytes, &e), PS_OK);
    ck_assert_uint_eq(bytes, made.data);
    ck_assert_int_eq(safetensors_parse("w", (struct span){head, bytes}, made.bytes, &read, &e), PS_OK);
    ck_assert_uint_eq(read.len, 3);
    for (size_t i = 0; i < made.len; i++) {
        t = safetensors_find(&read, made.tensors[i].name);
        ck_assert_ptr_nonnull(t);
        ck_assert_uint_eq(t->begin, made.tensors[i].begin);
        ck_assert_uint_eq(t->bytes, made.tensors[i].bytes);
        ck_assert_uint_eq(t->rank, made.tensors[i].rank);
        ck_assert_int_eq(t->type, made.tensors[i].type);
    }
    ck_assert_uint_eq(safetensors_find(&read, "a/w")->begin, read.data + 24);
    ck_assert_uint_eq(safetensors_find(&read, "a/w")->dims[1], 5);
    ck_assert_ptr_null(safetensors_find(&read, "a"));
    free(head);
    safetensors_finish(&made);
    safetensors_finish(&read);
}
END_TEST

START_TEST(an_empty_file_is_one)
{
    struct safetensors made = {0}, read;
    struct ps_error e;
    char *head;

    ck_assert_int_eq(safetensors_head(&made, "psd 1", &head, &e), PS_OK);
    ck_assert_uint_eq(made.bytes, made.data);
    ck_assert_int_eq(safetensors_parse("w", (struct span){head, made.data}, made.bytes, &read, &e), PS_OK);
    ck_assert_uint_eq(read.len, 0);
    ck_assert_ptr_null(safetensors_find(&read, "w"));
    free(head);
    safetensors_finish(&made);
    safetensors_finish(&read);
}
END_TEST

START_TEST(names_that_have_no_place_are_refused)
{
    const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 30};
    struct safetensors s = {0};
    struct ps_error e;
    char *head;

    ck_assert_int_eq(safetensors_add(&s, "__metadata__", SAFETENSORS_F32, 0, NULL, &e), PS_ERR_INVALID);
    ck_assert_int_eq(safetensors_add(&s, "huge", SAFETENSORS_F32, 2, huge, &e), PS_ERR_LIMIT);
    ck_assert_int_eq(safetensors_add(&s, "w", SAFETENSORS_F32, 0, NULL, &e), PS_OK);
    ck_assert_int_eq(safetensors_add(&s, "w", SAFETENSORS_F32, 0, NULL, &e), PS_OK);
    ck_assert_int_eq(safetensors_head(&s, "psd 1", &head, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "two tensors have the name 'w'");
    free(head);
    safetensors_finish(&s);
}
END_TEST

#define W(rest)      "{\"w\":{" rest "}}"
#define F32(n, a, b) "\"dtype\":\"F32\",\"shape\":[" #n "],\"data_offsets\":[" #a "," #b "]"

/* Header, bytes of values, and what the sentence must say. */
static const struct {
    const char *json;
    uint64_t values;
    const char *says;
} bad[] = {
    {"", 0, "w.safetensors: it is no safetensors file: its header is no valid JSON"},
    {"{\"w\":", 0, "no valid JSON"},
    {"[]", 0, "its header is no JSON object"},
    {W(F32(2, 0, 8)) "x", 8, "no valid JSON"},
    {"{\"w\":{" F32(1, 0, 4) "},\"w\":{" F32(1, 4, 8) "}}", 8, "duplicate object key"},
    {"{\"w\":7}", 0, "tensor 'w': what is said of it is no object"},
    {W("\"shape\":[1],\"data_offsets\":[0,4]"), 4, "tensor 'w': its dtype is missing"},
    {W("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,5]"), 4, "data_offsets [0, 5] lie outside"},
    {W("\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,4]"), 4, "its dtype is missing, or no text"},
    {W("\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, "give it 8 bytes, its shape and dtype 4"},
    {W("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "its shape is missing"},
    {W("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, "9 dimensions; the limit is 8"},
    {W(F32(-1, 0, 4)), 4, "its shape has something else than whole numbers"},
    {W(F32(1.5, 0, 4)), 4, "its shape has something else than whole numbers"},
    {W("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]"), 4, "more than 2^62 bytes"},
    {W("\"dtype\":\"F32\",\"shape\":[1]"), 4, "its data_offsets are missing"},
    {W("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, "its data_offsets are missing, or not two"},
    {W(F32(1, -4, 0)), 4, "data_offsets has something else than whole numbers"},
    {W(F32(1, 4, 0)), 4, "data_offsets [4, 0] lie outside of the file's 4 bytes"},
    {W(F32(2, 0, 8)), 4, "data_offsets [0, 8] lie outside of the file's 4 bytes"},
    {W(F32(1, 0, 9223372036854775807)), 4, "lie outside"},
    {W(F32(1, 0, 8)), 8, "data_offsets give it 8 bytes, its shape and dtype 4"},
    {W(F32(1, 4, 8)), 8, "it begins at 4, after a gap: the values before it end at 0"},
    {"{\"a\":{" F32(2, 0, 8) "},\"b\":{" F32(1, 4, 8) "}}", 8, "tensor 'b': it begins at 4, inside of another"},
    {W(F32(1, 0, 4)), 5, "its tensors end at 4 of 5 bytes"},
    {"{}", 4, "its tensors end at 0 of 4 bytes"},
};

START_TEST(what_is_wrong_is_told_with_its_place)
{
    struct ps_error e;

    ck_assert_msg(safetensors_parse_text(bad[_i].json, bad[_i].values, &e) == PS_ERR_DATA, "%s: taken", bad[_i].json);
    ck_assert_msg(strstr(e.text, bad[_i].says) != NULL, "%s: \"%s\"", bad[_i].json, e.text);
    ck_assert_msg(strncmp(e.text, "w.safetensors: ", 15) == 0, "%s", e.text);
}
END_TEST

START_TEST(a_length_that_lies_is_refused_before_anything_is_read)
{
    static const uint64_t lies[] = {SAFETENSORS_HEAD_MAX + 1, UINT64_MAX, UINT64_MAX - 7, 100};
    struct ps_error e;
    uint64_t bytes;

    for (size_t i = 0; i < ARRAY_LEN(lies); i++)
        ck_assert_int_eq(safetensors_head_bytes("w", (const uint8_t *)&lies[i], 107, &bytes, &e), PS_ERR_DATA);
    ck_assert_int_eq(safetensors_head_bytes("w", (const uint8_t *)&lies[3], 108, &bytes, &e), PS_OK);
    ck_assert_uint_eq(bytes, 108);
    ck_assert_int_eq(safetensors_head_bytes("w", (const uint8_t *)&lies[3], 3, &bytes, &e), PS_ERR_DATA);
}
END_TEST

START_TEST(tensors_without_values_lie_anywhere)
{
    struct ps_error e;

    ck_assert_int_eq(
        safetensors_parse_text("{\"a\":{" F32(1, 0, 4) "},\"b\":{" F32(0, 4, 4) "},\"c\":{" F32(1, 4, 8) "}}", 8, &e),
        PS_OK);
    ck_assert_int_eq(
        safetensors_parse_text("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{" F32(1, 0, 4) "}}   ", 4, &e), PS_OK);
}
END_TEST

/* A type that is not known made all of the file unreadable, also for who wanted other tensors of it. */
START_TEST(a_type_that_is_not_known_is_a_place_with_a_name)
{
    static const char json[] = "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]},"
                               "\"b\":{\"dtype\":\"C64\",\"shape\":[4611686018427387904,8],\"data_offsets\":[2,10]},"
                               "\"c\":{\"dtype\":\"F6_E2M3_of_the_future\",\"shape\":[],\"data_offsets\":[10,10]},"
                               "\"w\":{" F32(1, 10, 14) "}}";
    struct span head = head_of(json);
    const struct safetensors_tensor *t;
    struct safetensors s;
    struct ps_error e;

    ck_assert_msg(safetensors_parse("w", head, head.len + 14, &s, &e) == PS_OK, "%s", e.text);
    ck_assert_uint_eq(s.len, 4);
    t = safetensors_find(&s, "b");
    ck_assert(t->type == SAFETENSORS_OTHER && t->begin == head.len + 2 && t->bytes == 8);
    ck_assert_str_eq(safetensors_dtype(t), "C64");
    ck_assert_str_eq(safetensors_dtype(safetensors_find(&s, "c")), "F6_E2M3_of_the_future");
    ck_assert_str_eq(safetensors_dtype(safetensors_find(&s, "w")), "F32");
    safetensors_finish(&s);
    head = head_of(json);
    ck_assert_int_eq(safetensors_parse("w", head, head.len + 15, &s, &e), PS_ERR_DATA); /* places are checked as ever */
    safetensors_finish(&s);
}
END_TEST

START_TEST(another_kind_of_file_is_said)
{
    static const char *const files[][2] = {
        {"{\"metadata\": {}}", "w: it is JSON and no safetensors file: an index of several files names them"},
        {"PK\3\4......", "w: it is no safetensors file: it is a zip archive"},
        {"\x89HDF\r\n\x1a\n", "w: it is no safetensors file: it is an HDF5 file"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff",
         "w: it is no safetensors file: its first 8 bytes announce a header of 18446744073709551615 bytes"},
        {"name,age\n", "w: it is no safetensors file: it begins with the text 'name,age'"},
        {"\1\0\0\1\0\0\0\0",
         "w: it is cut off, or no safetensors file: its first 8 bytes announce a header of 16777217"},
    };
    struct ps_error e;
    uint64_t bytes;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        ck_assert_int_eq(safetensors_head_bytes("w", (const uint8_t *)files[i][0], 1 << 20, &bytes, &e), PS_ERR_DATA);
        ck_assert_msg(strncmp(e.text, files[i][1], strlen(files[i][1])) == 0, "%s", e.text);
    }
}
END_TEST

static enum ps_err
make_many(struct safetensors *s, size_t n, char **head, struct ps_error *e)
{
    char name[SAFETENSORS_NAME_MAX + 1];
    enum ps_err err = PS_OK;

    memset(name, 'n', SAFETENSORS_NAME_MAX);
    name[SAFETENSORS_NAME_MAX] = '\0';
    for (size_t i = 0; i < n && err == PS_OK; i++) {
        memcpy(name,
               (char[]){(char)('a' + i / 17576), (char)('a' + i / 676 % 26), (char)('a' + i / 26 % 26),
                        (char)('a' + i % 26)},
               4);
        err = safetensors_add(s, name, SAFETENSORS_I64, 0, NULL, e);
    }
    return err == PS_OK ? safetensors_head(s, "psd", head, e) : err;
}

/* The header of a file of many tensors is larger than 32 MiB, as the format allows. */
START_TEST(headers_may_be_as_long_as_the_format_says)
{
    enum { MANY = 95000 };
    struct safetensors made = {0}, read;
    struct ps_error e;
    char *head;

    ck_assert_msg(make_many(&made, MANY, &head, &e) == PS_OK, "%s", e.text);
    ck_assert(made.data > 32 * MIB && made.data < SAFETENSORS_HEAD_MAX);
    ck_assert_msg(safetensors_parse("w", (struct span){head, made.data}, made.bytes, &read, &e) == PS_OK, "%s", e.text);
    ck_assert(read.len == MANY && read.tensors[MANY - 1].begin == made.data + 8 * (MANY - 1));
    free(head);
    safetensors_finish(&made);
    safetensors_finish(&read);
}
END_TEST

START_TEST(a_header_that_would_be_longer_than_may_be_is_not_made)
{
    struct safetensors few = {.head_max = 4096}, some = {.head_max = 4096};
    struct ps_error e;
    char *head;

    ck_assert_int_eq(make_many(&few, 10, &head, &e), PS_OK);
    free(head);
    safetensors_finish(&few);
    ck_assert_int_eq(make_many(&some, 20, &head, &e), PS_ERR_LIMIT);
    ck_assert_str_eq(e.text, "the header of a file with 20 tensors would have more than 4096 bytes");
    ck_assert_ptr_null(head);
    safetensors_finish(&some);
}
END_TEST

START_TEST(halves_become_floats)
{
    const uint16_t halves[] = {0x3c00, 0xc000, 0x7bff}, bfloats[] = {0x3f80, 0xc000, 0x4280};
    const float floats[] = {1, -2, 0.1f};
    float got[3];

    safetensors_to_floats(SAFETENSORS_F16, halves, 3, got);
    ck_assert(got[0] == 1 && got[1] == -2 && got[2] == 65504);
    safetensors_to_floats(SAFETENSORS_BF16, bfloats, 3, got);
    ck_assert(got[0] == 1 && got[1] == -2 && got[2] == 64);
    safetensors_to_floats(SAFETENSORS_F32, floats, 3, got);
    ck_assert_int_eq(memcmp(got, floats, sizeof got), 0);
    ck_assert(safetensors_is_float(SAFETENSORS_BF16) && !safetensors_is_float(SAFETENSORS_F64));
}
END_TEST

START_TEST(metadata_says_what_it_is_told)
{
    const struct safetensors_note notes[] = {{"job", "train \"x\""}, {"clock", "12"}};
    struct safetensors made = {0};
    struct ps_error e;
    char *head;

    ck_assert_int_eq(safetensors_head_notes(&made, "psd 1", notes, 2, &head, &e), PS_OK);
    ck_assert_ptr_nonnull(memmem(head, made.data, "\"made_by\":\"psd 1\",\"job\":\"train \\\"x\\\"\",\"clock\":\"12\"",
                                 strlen("\"made_by\":\"psd 1\",\"job\":\"train \\\"x\\\"\",\"clock\":\"12\"")));
    free(head);
    safetensors_finish(&made);
}
END_TEST

static Suite *
safetensors_make(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *all = tcase_create("safetensors");

    tcase_add_test(all, what_is_written_is_read);
    tcase_add_test(all, an_empty_file_is_one);
    tcase_add_test(all, names_that_have_no_place_are_refused);
    tcase_add_loop_test(all, what_is_wrong_is_told_with_its_place, 0, (int)ARRAY_LEN(bad));
    tcase_add_test(all, a_length_that_lies_is_refused_before_anything_is_read);
    tcase_add_test(all, tensors_without_values_lie_anywhere);
    tcase_add_test(all, a_type_that_is_not_known_is_a_place_with_a_name);
    tcase_add_test(all, another_kind_of_file_is_said);
    tcase_add_test(all, headers_may_be_as_long_as_the_format_says);
    tcase_add_test(all, a_header_that_would_be_longer_than_may_be_is_not_made);
    tcase_add_test(all, halves_become_floats);
    tcase_add_test(all, metadata_says_what_it_is_told);
    suite_add_tcase(suite, all);
    return suite;
}

CHECK_MAIN(safetensors_make)
