/* Metadata rows: damage is reported, and never taken for an absent row. */
#include "server/core/store/metadata_rows.h"

#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "server/core/store/store_mem.h"
#include "server/recovery/env_pair.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/counted_memory.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static struct store *store;

static void
metadata_rows_setup(void)
{
    store = store_mem_new(MIB);
}

static void
metadata_rows_teardown(void)
{
    store->ops->close(store);
}

static void
metadata_put_ok(const char *name, const char *dir)
{
    Psd__RestoringRow row = PSD__RESTORING_ROW__INIT;

    row.dir = (char *)dir;
    row.job = (char *)"train";
    OK(store->ops->begin(store, STORE_ROW_ROOM));
    OK(metadata_rows_put(store, name, &row.base));
    OK(store->ops->commit(store));
}

static void
put_bytes(const char *name, const void *bytes, size_t len)
{
    OK(store->ops->begin(store, STORE_ROW_ROOM));
    OK(store->ops->row_put(store, STORE_SHARD, (struct span){name, strlen(name)}, (struct span){bytes, len}));
    OK(store->ops->commit(store));
}

static enum ps_err
metadata_get_ok(const char *name, ProtobufCMessage **m)
{
    return metadata_rows_get(store, name, &psd__restoring_row__descriptor, m);
}

static void
metadata_check(const char *name, const char *dir)
{
    ProtobufCMessage *m;

    OK(metadata_get_ok(name, &m));
    ck_assert_int_eq(m != NULL, dir != NULL);
    if (m != NULL)
        ck_assert_str_eq(((Psd__RestoringRow *)m)->dir, dir);
    protobuf_c_message_free_unpacked(m, NULL);
}

START_TEST(each_name_has_what_it_was_given_last)
{
    bool any;

    OK(metadata_rows_any(store, &any));
    ck_assert(!any);
    metadata_check("one", NULL);
    metadata_put_ok("one", "/a");
    metadata_put_ok("on", "/b");
    metadata_put_ok("one", "/c");
    metadata_check("one", "/c");
    metadata_check("on", "/b");
    metadata_check("o", NULL);
    OK(metadata_rows_any(store, &any));
    ck_assert(any);
}
END_TEST

START_TEST(what_is_erased_is_gone_and_what_is_not_there_may_be_erased)
{
    metadata_put_ok("one", "/a");
    metadata_put_ok("two", "/b");
    OK(store->ops->begin(store, STORE_ROW_ROOM));
    OK(metadata_rows_erase(store, "one"));
    OK(metadata_rows_erase(store, "three"));
    OK(store->ops->commit(store));
    metadata_check("one", NULL);
    metadata_check("two", "/b");
}
END_TEST

START_TEST(damage_is_an_error)
{
    ProtobufCMessage *m;
    Psd__ShardRow *row;
    struct env_pair pair;

    put_bytes("one", "\xff\xff", 2);
    ck_assert_int_eq(metadata_get_ok("one", &m), PS_ERR_IO);
    ck_assert_ptr_null(m);
    put_bytes(identity_live, "\xff", 1);
    ck_assert_int_eq(identity_get(store, identity_live, &row), PS_ERR_IO);
    ck_assert_ptr_null(row);
    put_bytes("pair", "\xff", 1);
    ck_assert_int_eq(env_pair_read(store, &pair), PS_ERR_IO);
    put_bytes("pair", "", 0); /* neither id nor life */
    ck_assert_int_eq(env_pair_read(store, &pair), PS_ERR_IO);
    ck_assert_uint_eq(pair.id, 0);
}
END_TEST

START_TEST(store_that_cannot_be_read_is_an_error)
{
    ProtobufCMessage *m;
    bool any;

    metadata_put_ok("one", "/a");
    store_mem_fail_at(store, STORE_MEM_FAIL_EACH, 1);
    ck_assert_int_eq(metadata_get_ok("one", &m), PS_ERR_IO);
    ck_assert_ptr_null(m);
    store_mem_fail_at(store, STORE_MEM_FAIL_EACH, 1);
    ck_assert_int_eq(metadata_rows_any(store, &any), PS_ERR_IO);
}
END_TEST

/* Each allocation in turn: a message and its two texts. */
START_TEST(no_memory_is_not_damage)
{
    ProtobufCMessage *m;
    size_t n = 0;
    enum ps_err err;

    metadata_put_ok("one", "/a");
    do {
        fail_in = ++n;
        err = metadata_get_ok("one", &m);
        fail_in = 0;
        ck_assert_int_eq(err, m != NULL ? PS_OK : PS_ERR_NOMEM);
    } while (m == NULL);
    protobuf_c_message_free_unpacked(m, NULL);
#ifndef SANITIZED
    ck_assert_uint_eq(n, 4);
#endif
}
END_TEST

START_TEST(pair_is_read_as_it_was_written)
{
    struct env_pair wrote = {.id = 7, .life = UINT64_MAX, .behind = true}, read;

    OK(env_pair_read(store, &read));
    ck_assert(read.id == 0 && read.life == 0 && !read.behind);
    OK(env_pair_write(store, &wrote));
    OK(env_pair_read(store, &read));
    ck_assert(read.id == wrote.id && read.life == wrote.life && read.behind);
    store_mem_fail_at(store, STORE_MEM_FAIL_ROW_PUT, 1);
    wrote.life = 8;
    ck_assert_int_ne(env_pair_write(store, &wrote), PS_OK);
    OK(env_pair_read(store, &read));
    ck_assert_uint_eq(read.life, UINT64_MAX);
}
END_TEST

static Suite *
metadata_suite(void)
{
    Suite *s = suite_create("fact");
    TCase *t = tcase_create("facts");

    tcase_add_checked_fixture(t, metadata_rows_setup, metadata_rows_teardown);
    tcase_add_test(t, each_name_has_what_it_was_given_last);
    tcase_add_test(t, what_is_erased_is_gone_and_what_is_not_there_may_be_erased);
    tcase_add_test(t, damage_is_an_error);
    tcase_add_test(t, store_that_cannot_be_read_is_an_error);
    tcase_add_test(t, no_memory_is_not_damage);
    tcase_add_test(t, pair_is_read_as_it_was_written);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(metadata_suite)
