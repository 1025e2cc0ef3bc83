/* How the saver's thread copies a live value: nothing is held meanwhile, and concurrent changes are noticed. */
#include <stdlib.h>
#include <string.h>

#include "server/saver/saver_state.h"
#include "tests/unit/kits/check_main.h"

enum { PLACES = 2 };

/* A store of one key, whose value lies in one of two places. */
static struct live {
    struct store base;
    uint8_t *place[PLACES];
    size_t len;
    int at; /* PLACES: the key is gone */
    bool held;
    int looks;
    void (*when_done)(void); /* the first time */
} live;

static struct saver *saver;
static const struct store_key key = {.var = 1};

/* ---- The store ---- */

static enum ps_err
saver_read_get(struct store_reader *r, const struct store_key *wanted, struct span *value)
{
    (void)r;
    ck_assert(wanted->var == key.var && !live.held);
    live.looks++;
    if (live.at == PLACES)
        return PS_ERR_NOT_FOUND;
    live.held = true;
    *value = (struct span){live.place[live.at], live.len};
    return PS_OK;
}

static void
saver_read_done(struct store_reader *r)
{
    void (*now)(void) = live.held ? live.when_done : NULL;

    (void)r;
    live.held = false;
    if (now == NULL)
        return;
    live.when_done = NULL;
    now();
}

static const struct store_ops ops = {.reader_get = saver_read_get, .reader_done = saver_read_done};

static void
saver_read_fill(int place, uint64_t version, uint8_t byte)
{
    struct block_head head = {.version = version, .var = 1};

    memset(live.place[place], byte, live.len);
    memcpy(live.place[place], &head, sizeof head);
}

static void
saver_read_begin(int size_class)
{
    live = (struct live){.base.ops = &ops, .len = layout_value_size(size_class)};
    for (int i = 0; i < PLACES; i++)
        ck_assert_ptr_nonnull(live.place[i] = malloc(live.len));
    saver_read_fill(0, 1, 0x11);
    saver_read_fill(1, 7, 0x77);
    ck_assert_ptr_nonnull(saver = calloc(1, sizeof *saver));
    saver->config.live = &live.base;
}

static void
saver_read_end(void)
{
    ck_assert(!live.held);
    for (int i = 0; i < PLACES; i++)
        free(live.place[i]);
    free(saver);
}

static void
saver_read_equals(struct span value, uint64_t version, uint8_t byte)
{
    const struct block_head *head = value.data;
    const uint8_t *bytes = value.data;

    ck_assert_ptr_eq(value.data, saver->value);
    ck_assert_uint_eq(value.len, live.len);
    ck_assert_uint_eq(head->version, version);
    ck_assert_uint_eq(bytes[sizeof *head], byte);
    ck_assert_int_eq(memcmp(bytes + sizeof *head, bytes + sizeof *head + 1, value.len - sizeof *head - 1), 0); /* all */
}

/* ---- What becomes of it ---- */

/* So a test notices when the rest was copied: values do not change during a real save. */
static void
other_bytes(void)
{
    memset(live.place[0] + sizeof(struct block_head), 0x22, live.len - sizeof(struct block_head));
}

static void
saver_read_moved(void)
{
    live.at = 1;
    saver_read_fill(0, 9, 0x99);
}

static void
newer_in_the_same_place(void)
{
    saver_read_fill(0, 3, 0x33);
}

static void
saver_read_gone(void)
{
    live.at = PLACES;
    saver_read_fill(0, 9, 0x99);
}

static enum ps_err
read_when(int size_class, void (*when_done)(void), struct span *value)
{
    saver_read_begin(size_class);
    live.when_done = when_done;
    return saver_read(saver, &key, value);
}

START_TEST(nothing_is_held_while_a_large_value_is_copied)
{
    struct span value;

    ck_assert_int_eq(read_when(_i, other_bytes, &value), PS_OK);
    saver_read_equals(value, 1, 0x22);
    ck_assert_int_eq(live.looks, 2);
    saver_read_end();
}
END_TEST

START_TEST(a_page_is_copied_in_one_look)
{
    struct span value;

    ck_assert_int_eq(read_when(0, other_bytes, &value), PS_OK);
    saver_read_equals(value, 1, 0x11);
    ck_assert_int_eq(live.looks, 1);
    saver_read_end();
}
END_TEST

START_TEST(a_value_that_moved_meanwhile_is_copied_anew)
{
    struct span value;

    ck_assert_int_eq(read_when(_i, saver_read_moved, &value), PS_OK);
    saver_read_equals(value, 7, 0x77);
    saver_read_end();
}
END_TEST

START_TEST(a_newer_value_in_the_same_place_is_copied_anew)
{
    struct span value;

    ck_assert_int_eq(read_when(_i, newer_in_the_same_place, &value), PS_OK);
    saver_read_equals(value, 3, 0x33);
    saver_read_end();
}
END_TEST

START_TEST(a_value_that_went_meanwhile_is_not_found)
{
    struct span value;

    ck_assert_int_eq(read_when(_i, saver_read_gone, &value), PS_ERR_NOT_FOUND);
    saver_read_end();
}
END_TEST

START_TEST(a_head_is_read_without_the_rest)
{
    struct span value;

    saver_read_begin(_i);
    saver->value[sizeof(struct block_head)] = 0x55;
    ck_assert_int_eq(saver_read_head(saver, &key, &value), PS_OK);
    ck_assert_uint_eq(value.len, live.len);
    ck_assert_uint_eq(((const struct block_head *)value.data)->version, 1);
    ck_assert_uint_eq(saver->value[sizeof(struct block_head)], 0x55);
    live.at = PLACES;
    ck_assert_int_eq(saver_read_head(saver, &key, &value), PS_ERR_NOT_FOUND);
    saver_read_end();
}
END_TEST

static Suite *
saver_read_suite(void)
{
    Suite *suite = suite_create("saver_read");
    TCase *tc = tcase_create("saver_read");

    tcase_add_loop_test(tc, nothing_is_held_while_a_large_value_is_copied, 1, LAYOUT_CLASSES);
    tcase_add_test(tc, a_page_is_copied_in_one_look);
    tcase_add_loop_test(tc, a_value_that_moved_meanwhile_is_copied_anew, 1, LAYOUT_CLASSES);
    tcase_add_loop_test(tc, a_newer_value_in_the_same_place_is_copied_anew, 1, LAYOUT_CLASSES);
    tcase_add_loop_test(tc, a_value_that_went_meanwhile_is_not_found, 1, LAYOUT_CLASSES);
    tcase_add_loop_test(tc, a_head_is_read_without_the_rest, 0, LAYOUT_CLASSES);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(saver_read_suite)
