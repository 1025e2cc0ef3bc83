/* Quotas as --quota gives them: texts that are and are not, and what holds where none is given. */
#include <string.h>

#include "server/access/token_quotas.h"
#include "tests/unit/kits/check_main.h"

static struct token_quotas quotas;
static struct ps_error error;

static enum ps_err
quotas_read(const char *text, size_t trainers)
{
    struct key keys[3] = {{.name = "r", .role = ROLE_READ}};
    struct keyring ring = {.keys = keys, .len = 1 + trainers};
    struct options o = {.quota = text,
                        .jobs_max = 1024,
                        .sessions_max = 1000,
                        .variables_max = 1,
                        .gather_memory = GIB,
                        .connections_max = 4096};

    for (size_t i = 0; i < trainers; i++)
        keys[1 + i].role = ROLE_TRAIN;
    return token_quotas_read(&quotas, &o, &ring, &error);
}

static uint64_t
quotas_most(const char *name, enum quota what)
{
    const struct quota_row *row = quota_find(quotas.rows, quotas.len, name);

    ck_assert_ptr_nonnull(row);
    return row->most[what];
}

START_TEST(a_list_gives_each_token_what_it_says)
{
    ck_assert_msg(quotas_read("alice:jobs=4:bytes=8GiB, bob:connections=2,*:sessions=64:gather=0", 2) == PS_OK, "%s",
                  error.text);
    ck_assert_uint_eq(quotas_most("alice", QUOTA_JOBS), 4);
    ck_assert_uint_eq(quotas_most("alice", QUOTA_BYTES), 8 * GIB);
    ck_assert_uint_eq(quotas_most("alice", QUOTA_SESSIONS), QUOTA_NONE);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_CONNECTIONS), 2);
    ck_assert_uint_eq(quotas_most("carol", QUOTA_SESSIONS), 64);
    ck_assert_uint_eq(quotas_most("carol", QUOTA_GATHER), 0);
    ck_assert_ptr_null(quota_find(quotas.rows, quotas.len, ""));
}
END_TEST

START_TEST(what_is_no_quota_is_refused)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"alice", "is not NAME:KEY=VALUE"},
                {":jobs=1", "is not NAME:KEY=VALUE"},
                {"alice:", "is none of jobs="},
                {"alice:job=1", "'job=1' of token 'alice' is none of"},
                {"alice:jobs", "is none of jobs="},
                {"alice:jobs=many", "is no number"},
                {"alice:jobs=1KiB", "is no number"},
                {"alice:bytes=1x", "is no size"},
                {"alice:jobs=-1", "is no number"},
                {"alice:jobs=1:jobs=2", "jobs is there twice"},
                {"a:jobs=1,a:bytes=1", "'a' is there twice"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ck_assert_msg(quotas_read(rows[i].text, 2) == PS_ERR_CONFIG, "%s", rows[i].text);
        ck_assert_msg(strstr(error.text, rows[i].why) != NULL, "%s: %s", rows[i].text, error.text);
    }
}
END_TEST

START_TEST(two_who_train_leave_room_to_each_other)
{
    ck_assert_int_eq(quotas_read(NULL, 1), PS_OK);
    ck_assert_uint_eq(quotas.len, 0);
    ck_assert_int_eq(quotas_read("alice:jobs=1024", 2), PS_OK);
    ck_assert_uint_eq(quotas_most("alice", QUOTA_JOBS), 1024);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_JOBS), 896);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_SESSIONS), 875);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_VARIABLES), 1);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_GATHER), 896 * MIB);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_CONNECTIONS), 3584);
    ck_assert_uint_eq(quotas_most("bob", QUOTA_BYTES), QUOTA_NONE);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("token_quotas");
    TCase *t = tcase_create("token_quotas");

    tcase_add_test(t, a_list_gives_each_token_what_it_says);
    tcase_add_test(t, what_is_no_quota_is_refused);
    tcase_add_test(t, two_who_train_leave_room_to_each_other);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
