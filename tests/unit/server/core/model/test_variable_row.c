/* A variable's row, read without being unpacked: the same as unpacked, or left to that. */
#include "server/core/model/variable_row.h"

#include <string.h>

#include "common/core/wire/wire.h"
#include "proto/store.pb-c.h"
#include "tests/unit/kits/check_main.h"

static uint8_t bytes[1024];
static size_t len;
static uint64_t ordinal;

/* The row of a variable as psd writes it. */
static void
row_pack(const char *name, uint64_t elements)
{
    struct ps_optimizer adam;
    struct wire_optimizer declared, now;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Declare declare = PSD__DECLARE__INIT;
    Psd__VariableRow row = PSD__VARIABLE_ROW__INIT;

    ck_assert_int_eq(ps_optimizer_by_name("adam", &adam, NULL), PS_OK);
    init.kind = PSD__INIT_KIND__NORMAL;
    init.b = 0.5;
    declare.name = (char *)name;
    declare.n_dims = 1;
    declare.dims = &elements;
    declare.init = &init;
    declare.optimizer = wire_optimizer_message(&adam, &declared);
    adam.learning_rate = 0.125;
    row.job = 3;
    row.declare = &declare;
    row.optimizer = wire_optimizer_message(&adam, &now);
    row.ordinal = ordinal;
    len = psd__variable_row__pack(&row, bytes);
}

static void
check_packed(const ProtobufCMessage *m, struct span is)
{
    uint8_t packed[sizeof bytes];

    ck_assert_uint_eq(protobuf_c_message_get_packed_size(m), is.len);
    protobuf_c_message_pack(m, packed);
    ck_assert(memcmp(packed, is.data, is.len) == 0);
}

static bool
lies_within(struct span part, struct span whole)
{
    const uint8_t *at = part.data, *from = whole.data;

    return at >= from && at + part.len <= from + whole.len;
}

/* Whatever the bytes are: what it reads is what they mean. Returns whether it does. */
static bool
check_row(size_t n)
{
    struct span row = {bytes, n};
    struct variable_row is;
    Psd__VariableRow *m;

    if (!variable_row_read(row, &is))
        return false;
    ck_assert(lies_within(is.name, row) && lies_within(is.declare, row) && lies_within(is.optimizer, row));
    if ((m = psd__variable_row__unpack(NULL, n, bytes)) == NULL)
        return true; /* it looks no further than it has to: such a definition is that of no variable */
    ck_assert_uint_eq((uint32_t)is.job, m->job);
    ck_assert(m->declare != NULL && m->optimizer != NULL && is.ordinal == m->ordinal && !m->dropped);
    psd__variable_row__free_unpacked(m, NULL);
    return true;
}

START_TEST(row_is_read_as_it_was_packed)
{
    char longest[WIRE_NAME_MAX + 1];
    const char *const names[] = {"w", "layer/weights/123456", longest};

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct variable_row is;
        Psd__VariableRow *m;
        char *name;

        ordinal = i * 1000; /* 0: a row of before there were any */
        row_pack(names[i], 16);
        ck_assert(variable_row_read((struct span){bytes, len}, &is));
        ck_assert_uint_eq(is.job, 3);
        ck_assert_uint_eq(is.ordinal, ordinal);
        ck_assert_uint_eq(is.name.len, strlen(names[i]));
        ck_assert(memcmp(is.name.data, names[i], is.name.len) == 0);
        m = psd__variable_row__unpack(NULL, len, bytes);
        ck_assert_ptr_nonnull(m);
        check_packed(&m->optimizer->base, is.optimizer);
        name = m->declare->name;
        m->declare->name = (char *)protobuf_c_empty_string;
        check_packed(&m->declare->base, is.declare);
        m->declare->name = name;
        psd__variable_row__free_unpacked(m, NULL);
    }
}
END_TEST

START_TEST(row_that_ends_early_is_left_to_others)
{
    ordinal = 0;
    row_pack("w", 16);
    for (size_t n = 0; n < len; n++)
        ck_assert_msg(!check_row(n), "%zu of %zu bytes", n, len);
}
END_TEST

START_TEST(row_of_a_dropped_variable_is_left_to_others)
{
    ordinal = 9;
    row_pack("w", 16);
    bytes[len++] = 5 << 3;
    bytes[len++] = 1;
    ck_assert(!check_row(len));
}
END_TEST

START_TEST(row_with_a_field_that_is_not_known_is_left_to_others)
{
    row_pack("w", 16);
    bytes[len++] = 15 << 3; /* a later version's */
    bytes[len++] = 1;
    ck_assert(!check_row(len));
}
END_TEST

START_TEST(damaged_rows_are_read_as_they_are_or_left_to_others)
{
    struct test_rng rng = {test_seed()};
    unsigned read = 0;

    for (unsigned i = 0; i < 20000; i++) {
        ordinal = test_below(&rng, 1 << 20);
        row_pack("layer/weights/7", 1 + test_below(&rng, 1 << 20));
        for (uint64_t n = 1 + test_below(&rng, 3); n > 0; n--)
            bytes[test_below(&rng, len)] = (uint8_t)test_below(&rng, 256);
        read += check_row(len);
    }
    ck_assert_uint_gt(read, 1000);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("variable_row");
    TCase *t = tcase_create("variable_row");

    tcase_add_test(t, row_is_read_as_it_was_packed);
    tcase_add_test(t, row_that_ends_early_is_left_to_others);
    tcase_add_test(t, row_of_a_dropped_variable_is_left_to_others);
    tcase_add_test(t, row_with_a_field_that_is_not_known_is_left_to_others);
    tcase_add_test(t, damaged_rows_are_read_as_they_are_or_left_to_others);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
