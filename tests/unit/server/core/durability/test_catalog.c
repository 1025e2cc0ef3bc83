/* The catalog: declaring, initializing in the background, restart in the middle, budgets, shares of several shards. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/model/initializer.h"

enum { LARGE = 65536 /* elements of the largest block */ };

static Psd__Job *
catalog_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 2);
}

static void
catalog_declare(uint64_t conn, uint64_t request, const char *name, uint64_t elements)
{
    kit_declare_as(&k, conn, request, name, &elements, 1, PS_SGD, PSD__INIT_KIND__UNIFORM);
}

static Psd__Declared
catalog_declared(uint64_t conn, uint64_t request)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_DECLARED);
    Psd__Declared m = *a->msg.u.declared;

    ck_assert_uint_eq(a->msg.request, request);
    kit_answer_free(a);
    return m;
}

START_TEST(declaring_is_idempotent)
{
    kit_join(&k, 1, catalog_job(), 0);
    kit_join(&k, 2, catalog_job(), 1);
    catalog_declare(1, 5, "w", 10);
    catalog_declare(2, 6, "w", 10); /* while it is made: both wait */
    kit_expect_nothing(&k, 1);
    kit_work(&k);
    ck_assert(catalog_declared(1, 5).created);
    ck_assert(!catalog_declared(2, 6).created);
    catalog_declare(2, 7, "w", 10);
    ck_assert_uint_eq(catalog_declared(2, 7).var, 1);
    catalog_declare(2, 8, "v", 10);
    kit_work(&k);
    ck_assert_uint_eq(catalog_declared(2, 8).var, 2);
}
END_TEST

START_TEST(other_declaration_of_a_name_is_refused_with_both)
{
    struct kit_answer *a;

    kit_join(&k, 1, catalog_job(), 0);
    catalog_declare(1, 5, "w", 10);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    catalog_declare(1, 6, "w", 11);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.request, 6);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "[10]"));
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "[11]"));
    kit_answer_free(a);
    kit_crash(&k); /* and after a restart */
    kit_resume(&k, 1, catalog_job(), 0, 0);
    catalog_declare(1, 7, "w", 11);
    kit_expect_error(&k, 1, 7, PS_ERR_MISMATCH);
    catalog_declare(1, 8, "w", 10);
    ck_assert_uint_eq(catalog_declared(1, 8).var, 1);
}
END_TEST

START_TEST(blocks_are_made_in_the_background)
{
    float *out = malloc(LARGE * sizeof *out);
    int events = 0;

    kit_join(&k, 1, catalog_job(), 0);
    catalog_declare(1, 5, "w", 80 * LARGE);
    while (shard_busy(k.shard)) {
        kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
        kit_tick(&k, 1, (uint64_t)events + 1, (uint64_t)events + 1); /* others are served in between */
        events++;
        if (events == 2) {
            kit_drop_answers(&k, 1);
            kit_expect_error(&k, 1, kit_pull(&k, 1, 1, 0, 0), PS_ERR_NOT_FOUND); /* still initializing */
        }
    }
    ck_assert_int_ge(events, 5); /* 20 MiB in pieces of 4 */
    while (k.answers[1] != NULL && k.answers[1]->msg.type == MSG_ACK)
        kit_answer_free(kit_take(&k, 1));
    ck_assert(catalog_declared(1, 5).created);
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, 1, 79, out, LARGE), 0);
    free(out);
}
END_TEST

START_TEST(restart_in_the_middle_goes_on)
{
    static float whole[LARGE], expected[LARGE];
    const uint64_t dims[1] = {40 * LARGE + 5};
    struct initializer init = {.kind = INIT_UNIFORM, .a = 0, .b = 1, .seed = 5};

    kit_join(&k, 1, catalog_job(), 0);
    catalog_declare(1, 5, "w", dims[0]);
    kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
    ck_assert(shard_busy(k.shard));
    kit_crash(&k);
    ck_assert(shard_busy(k.shard)); /* without being asked */
    kit_resume(&k, 1, catalog_job(), 0, 0);
    kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
    catalog_declare(1, 6, "w", dims[0]);
    kit_work(&k);
    ck_assert(!catalog_declared(1, 6).created);
    for (uint32_t block = 0; block < 41; block++) {
        size_t n = block < 40 ? LARGE : 5;

        initializer_fill(&init, dims, 1, block * (uint64_t)LARGE, n, expected);
        ck_assert_uint_eq(kit_read(&k, 1, 1, block, whole, n), 0);
        ck_assert_mem_eq(whole, expected, n * sizeof(float));
    }
}
END_TEST

START_TEST(declare_that_does_not_fit_is_refused_with_numbers)
{
    struct kit_answer *a;

    kit_join(&k, 1, catalog_job(), 0);
    catalog_declare(1, 5, "huge", 1ull << 40);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_FULL);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "of 256 MiB and keeps")); /* the present size */
    kit_answer_free(a);
    catalog_declare(1, 6, "half", 400 * LARGE);
    catalog_declare(1, 7, "other half", 480 * LARGE); /* 220 of 256 MiB: declared variables count */
    kit_expect_error(&k, 1, 7, PS_ERR_FULL);
    kit_work(&k);
    ck_assert(catalog_declared(1, 6).created);
    catalog_declare(1, 8, "small", 10);
    kit_work(&k);
    ck_assert_uint_eq(catalog_declared(1, 8).var, 2);
}
END_TEST

START_TEST(store_that_fills_up_while_blocks_are_made_is_reported)
{
    struct store_key key = {.var = 100000};
    struct store_usage usage;
    void *place;

    kit_join(&k, 1, catalog_job(), 0);
    catalog_declare(1, 5, "w", 160 * LARGE);
    for (;; key.block++) { /* another user takes the memory */
        k.store->ops->usage(k.store, &usage);
        if (usage.used_bytes + 20 * MIB > usage.max_bytes)
            break;
        ck_assert_int_eq(k.store->ops->begin(k.store, layout_value_size(2)), PS_OK);
        ck_assert_int_eq(k.store->ops->reserve(k.store, &key, layout_value_size(2), &place), PS_OK);
        ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    }
    kit_work(&k);
    kit_expect_error(&k, 1, 5, PS_ERR_FULL);
    ck_assert(!shard_busy(k.shard));
    while (key.block-- > 0) {
        ck_assert_int_eq(k.store->ops->begin(k.store, 0), PS_OK);
        ck_assert_int_eq(k.store->ops->erase(k.store, &key), PS_OK);
        ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    }
    catalog_declare(1, 6, "w", 160 * LARGE); /* the next one tries again */
    kit_work(&k);
    catalog_declared(1, 6);
}
END_TEST

START_TEST(waiting_declare_is_cancelled_or_forgotten)
{
    kit_join(&k, 1, catalog_job(), 0);
    kit_join(&k, 2, catalog_job(), 1);
    catalog_declare(1, 5, "w", 10);
    catalog_declare(1, 6, "w", 10);
    catalog_declare(2, 7, "w", 10);
    kit_cancel(&k, 1, 5);
    kit_expect_error(&k, 1, 5, PS_ERR_CANCELLED);
    kit_close(&k, 2);
    kit_work(&k);
    catalog_declared(1, 6);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(every_block_is_on_one_shard_and_has_the_same_bits)
{
    enum { SHARDS = 3, ELEMENTS = 70000 };
    static float whole[ELEMENTS], parts[ELEMENTS];
    const uint64_t dims[2] = {100, 700};
    struct layout l;
    uint64_t found = 0;

    layout_init(&l, ELEMENTS, 0);
    kit_join(&k, 1, catalog_job(), 0);
    kit_declare_as(&k, 1, 5, "w", dims, 2, PS_SGD, PSD__INIT_KIND__GLOROT_NORMAL);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t block = 0; block < l.blocks; block++) {
        struct layout_block b = layout_block(&l, block);

        kit_read(&k, 1, 1, block, whole + b.first, b.len);
    }
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct shard_config config = {.cluster = "test", .shard = shard, .shards = SHARDS, .boot = 1};
        struct kit part;

        kit_init(&part, &config);
        kit_join(&part, 1, catalog_job(), 0);
        kit_declare_as(&part, 1, 5, "w", dims, 2, PS_SGD, PSD__INIT_KIND__GLOROT_NORMAL);
        kit_work(&part);
        kit_drop_answers(&part, 1);
        for (uint32_t block = 0; block < l.blocks; block++) {
            struct layout_block b = layout_block(&l, block);

            if (placement_shard(placement_start("train", "w", SHARDS), block, SHARDS) == shard) {
                kit_read(&part, 1, 1, block, parts + b.first, b.len);
                found++;
            } else {
                kit_expect_error(&part, 1, kit_pull(&part, 1, 1, block, 0), PS_ERR_NOT_FOUND);
            }
        }
        kit_crash(&part);
        ck_assert(!shard_busy(part.shard));
        kit_finish(&part);
    }
    ck_assert_uint_eq(found, l.blocks);
    ck_assert_mem_eq(whole, parts, sizeof whole);
}
END_TEST

START_TEST(variable_without_a_block_here_is_declared_at_once)
{
    struct shard_config config = {.cluster = "test", .shards = 64, .boot = 1};
    struct kit one;

    config.shard = (placement_start("train", "w", 64) + 1) % 64;
    kit_init(&one, &config);
    kit_join(&one, 1, catalog_job(), 0);
    kit_declare_as(&one, 1, 5, "w", (const uint64_t[]){10}, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_answer_free(kit_expect(&one, 1, MSG_DECLARED));
    kit_crash(&one);
    kit_finish(&one);
}
END_TEST

START_TEST(jobs_have_a_limit)
{
    for (int i = 0; i <= SHARD_JOBS; i++) {
        char name[32];

        snprintf(name, sizeof name, "job%d", i);
        kit_hello(&k, 1, &(struct kit_hello){.job = kit_job(name, PSD__MODE__ASYNC, 1)});
        if (i == SHARD_JOBS)
            kit_expect_closed(&k, 1, PS_ERR_LIMIT);
        else
            kit_close(&k, 1);
    }
    kit_crash(&k);
    kit_join(&k, 1, kit_job("job7", PSD__MODE__ASYNC, 1), 0);
}
END_TEST

START_TEST(names_may_be_long_and_of_any_language)
{
    char name[WIRE_NAME_MAX + 1];
    Psd__Job *j;

    memset(name, 'n', WIRE_NAME_MAX);
    name[WIRE_NAME_MAX] = '\0';
    memcpy(name, "\xe5\xb1\xa4", 3);
    j = kit_job(name, PSD__MODE__ASYNC, 1);
    kit_join(&k, 1, j, 0);
    kit_declare(&k, 1, name, 10, PS_SGD);
    kit_crash(&k);
    kit_resume(&k, 1, j, 0, 0);
    ck_assert_uint_eq(kit_declare(&k, 1, name, 10, PS_SGD), 1);
}
END_TEST

static bool
put_garbage(enum store_table table, const char *key, size_t key_len)
{
    ck_assert_int_eq(k.store->ops->begin(k.store, 4096), PS_OK);
    ck_assert_int_eq(k.store->ops->row_put(k.store, table, (struct span){key, key_len}, (struct span){"\xff\xff", 2}),
                     PS_OK);
    return k.store->ops->commit(k.store) == PS_OK;
}

START_TEST(damaged_rows_are_reported_at_start)
{
    static const struct {
        enum store_table table;
        const char *key;
        size_t key_len;
    } rows[] = {{STORE_JOBS, "\0\0\0\2", 4},
                {STORE_VARS, "\0\0\0\2", 4},
                {STORE_SESSIONS, "\0\0\0\1\0\0\0\1", 8},
                {STORE_SESSIONS, "\0\0\0\1", 4},
                {STORE_JOBS, "\xff\xff\xff\xff", 4}};
    struct ps_error e;
    struct shard *s;

    kit_join(&k, 1, catalog_job(), 0);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span key = {rows[i].key, rows[i].key_len};

        ck_assert(put_garbage(rows[i].table, rows[i].key, rows[i].key_len));
        ck_assert_int_eq(shard_new(&k.config, k.store, 0, &s, &e), PS_ERR_IO);
        ck_assert(e.text[0] != '\0');
        ck_assert_int_eq(k.store->ops->begin(k.store, 4096), PS_OK);
        ck_assert_int_eq(k.store->ops->row_erase(k.store, rows[i].table, key), PS_OK);
        ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    }
    ck_assert_int_eq(shard_new(&k.config, k.store, 0, &s, &e), PS_OK);
    shard_free(s);
}
END_TEST

START_TEST(damaged_blocks_are_reported_at_start)
{
    struct store_key key = {.var = 1, .block = 7};
    struct ps_error e;
    struct shard *s;
    void *place;

    kit_join(&k, 1, catalog_job(), 0);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    ck_assert_int_eq(k.store->ops->begin(k.store, MIB), PS_OK);
    ck_assert_int_eq(k.store->ops->reserve(k.store, &key, layout_value_size(0), &place), PS_OK);
    memset(place, 0, layout_value_size(0));
    ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    ck_assert_int_eq(shard_new(&k.config, k.store, 0, &s, &e), PS_ERR_IO);
    ck_assert_int_eq(k.store->ops->begin(k.store, MIB), PS_OK);
    ck_assert_int_eq(k.store->ops->erase(k.store, &key), PS_OK);
    ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
}
END_TEST

/* A newer client may send fields that this version does not know, and a bad one as many as a frame holds: a hello and a
 * declare that carry them are kept, but not these. */
START_TEST(fields_that_are_not_known_are_not_kept)
{
    enum { MANY = 60000 };
    static uint8_t bytes[3 + MANY] = {(MANY & 0x7f) | 0x80, (MANY >> 7 & 0x7f) | 0x80, MANY >> 14};
    ProtobufCMessageUnknownField field = {1000, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sizeof bytes, bytes};
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Optimizer optimizer = PSD__OPTIMIZER__INIT;
    Psd__Job *newer = catalog_job();

    newer->base.n_unknown_fields = newer->age->base.n_unknown_fields = 1;
    newer->base.unknown_fields = newer->age->base.unknown_fields = &field;
    kit_join(&k, 1, newer, 0);
    newer->base.n_unknown_fields = newer->age->base.n_unknown_fields = 0;
    m.name = (char *)"w";
    m.optimizer = &optimizer;
    m.base.n_unknown_fields = optimizer.base.n_unknown_fields = 1;
    m.base.unknown_fields = optimizer.base.unknown_fields = &field;
    kit_frame(&k, 1, MSG_DECLARE, 5, &m.base, NULL, 0);
    kit_work(&k);
    ck_assert(catalog_declared(1, 5).created);
    kit_crash(&k);
    kit_resume(&k, 2, catalog_job(), 0, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("catalog");
    TCase *tc = tcase_create("catalog");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, declaring_is_idempotent);
    tcase_add_test(tc, other_declaration_of_a_name_is_refused_with_both);
    tcase_add_test(tc, blocks_are_made_in_the_background);
    tcase_add_test(tc, restart_in_the_middle_goes_on);
    tcase_add_test(tc, declare_that_does_not_fit_is_refused_with_numbers);
    tcase_add_test(tc, store_that_fills_up_while_blocks_are_made_is_reported);
    tcase_add_test(tc, waiting_declare_is_cancelled_or_forgotten);
    tcase_add_test(tc, every_block_is_on_one_shard_and_has_the_same_bits);
    tcase_add_test(tc, variable_without_a_block_here_is_declared_at_once);
    tcase_add_test(tc, jobs_have_a_limit);
    tcase_add_test(tc, names_may_be_long_and_of_any_language);
    tcase_add_test(tc, fields_that_are_not_known_are_not_kept);
    tcase_add_test(tc, damaged_rows_are_reported_at_start);
    tcase_add_test(tc, damaged_blocks_are_reported_at_start);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
