/* Kinds of variables: a kind's measure of a whole variable is the sum over its blocks, on any number of shards. */
#include "server/core/model/kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "server/core/shard_state.h"
#include "tests/unit/kits/check_main.h"

#define SHARDS_MAX 5

/* A variable that was declared on one of several shards, made by hand. */
struct declared {
    Psd__Job options;
    Psd__Declare declare;
    Psd__Initializer init;
    struct wire_optimizer room;
    uint64_t dims[1];
    struct job job;
    struct shard shard;
    struct variable *v;
};

static const uint64_t sizes[] = {1, 7, 1008, 1009, 16384, 65536 + 16384 + 1008 + 5, 3 * 65536 + 11};
static const char *const optimizers[] = {"sgd", "momentum", "adam"};

static void
declared_on(struct declared *d, uint64_t elements, const char *optimizer, uint32_t shard, uint32_t shards)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_by_name(optimizer, &o, NULL), PS_OK);
    psd__job__init(&d->options);
    d->options.mode = PSD__MODE__SYNC;
    d->options.quorum = d->options.workers = 3;
    d->job = (struct job){.id = 1, .options = &d->options, .name = "job", .slowest = 9};
    d->dims[0] = elements;
    psd__initializer__init(&d->init);
    d->init.kind = PSD__INIT_KIND__CONSTANT;
    d->init.a = 2;
    psd__declare__init(&d->declare);
    d->declare.name = (char *)"w";
    d->declare.n_dims = 1;
    d->declare.dims = d->dims;
    d->declare.init = &d->init;
    d->declare.optimizer = wire_optimizer_message(&o, &d->room);
    d->shard.config.shard = shard;
    d->shard.config.shards = shards;
    d->shard.turn.number = 1;
    d->v = variable_new(&d->shard, &d->job, &d->declare, 1);
    ck_assert_ptr_nonnull(d->v);
    ck_assert(variable_add(&d->shard, d->v));
}

static struct declared *
declared_new(uint64_t elements, const char *optimizer, uint32_t shard, uint32_t shards)
{
    struct declared *d = calloc(1, sizeof *d);

    ck_assert_ptr_nonnull(d);
    declared_on(d, elements, optimizer, shard, shards);
    return d;
}

static void
declared_free(struct declared *d)
{
    HASH_DEL(d->job.variables, d->v);
    variable_free(d->v);
    ck_assert_ptr_null(d->shard.definitions);
    variable_table_finish(&d->shard.variables);
    ordinals_finish(&d->shard.ordinals);
    free(d);
}

/* Of all blocks on one shard: their values are added to *values. */
static void
check_whole(const struct declared *d, uint64_t *values)
{
    struct variable *v = d->v;
    uint64_t bytes = 0, pooled = 0;

    for (uint64_t i = 0; i < v->count; i++) {
        struct block_ref ref = v->kind->nth(&d->shard, v, i);

        ck_assert_uint_eq(v->kind->index(&ref), i);
        ck_assert_uint_lt(ref.number, v->def->numbers);
        ck_assert_uint_eq(placement_shard(v->start, ref.number, d->shard.config.shards), d->shard.config.shard);
        ck_assert_uint_eq(v->kind->key(&ref).block, ref.number);
        bytes += ref.size;
        pooled += pool_size(block_gradient_bytes(&ref));
        *values += ref.values;
    }
    ck_assert_uint_eq(v->bytes, bytes);
    ck_assert_uint_eq(v->kind->pooled_bytes(v, d->shard.config.shard, d->shard.config.shards), pooled);
}

START_TEST(a_whole_is_the_sum_of_its_blocks_on_any_number_of_shards)
{
    uint64_t elements = sizes[_i];

    for (size_t o = 0; o < ARRAY_LEN(optimizers); o++)
        for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++) {
            uint64_t values = 0, blocks = 0, numbers = 0;

            for (uint32_t shard = 0; shard < shards; shard++) {
                struct declared *d = declared_new(elements, optimizers[o], shard, shards);

                check_whole(d, &values);
                blocks += d->v->count;
                numbers = d->v->def->numbers;
                declared_free(d);
            }
            ck_assert_uint_eq(values, elements);
            ck_assert_uint_eq(blocks, numbers);
        }
}
END_TEST

/* Memory for a value, as far into a page as the store has it. */
static uint8_t *
value_new(size_t size)
{
    uint8_t *pages = aligned_alloc(LAYOUT_PAGE, round_up(size + LAYOUT_PAGE_HEAD, LAYOUT_PAGE));

    ck_assert_ptr_nonnull(pages);
    return pages + LAYOUT_PAGE_HEAD;
}

static void
value_free(const uint8_t *value)
{
    free((void *)(uintptr_t)(value - LAYOUT_PAGE_HEAD));
}

/* One block's value, filled, in memory of its own. */
static struct block_ref
kind_filled(struct declared *d, uint64_t index)
{
    struct block_ref ref = d->v->kind->nth(&d->shard, d->v, index);

    ref.place = value_new(ref.size);
    d->v->kind->fill(&ref);
    ref.old = ref.place;
    return ref;
}

START_TEST(a_pull_gets_the_values_that_were_filled_in)
{
    struct declared *d = declared_new(sizes[_i], "adam", 0, 1);
    struct block_ref ref = kind_filled(d, d->v->count - 1);
    struct span part = d->v->kind->pulled((struct span){ref.place, ref.size});
    const float *value = part.data;

    ck_assert_uint_eq(part.len, block_gradient_bytes(&ref));
    for (uint32_t i = 0; i < ref.values; i++)
        ck_assert(value[i] == 2);
    ck_assert_uint_eq(ref.block->version, 0);
    ck_assert_uint_eq(ref.block->clock, 9);
    value_free(ref.place);
    declared_free(d);
}
END_TEST

START_TEST(what_is_filled_in_loads_and_anything_else_is_refused)
{
    struct declared *d = declared_new(sizes[_i], "momentum", 0, 1);
    struct block_ref ref = kind_filled(d, 0);
    struct block_head *head = (struct block_head *)ref.place;
    struct span value = {ref.place, ref.size};
    struct store_key key = d->v->kind->key(&ref);

    head->version = 42;
    head->len++;
    ck_assert(!d->v->kind->load(&d->shard, d->v, &key, value));
    head->len--;
    value.len--;
    ck_assert(!d->v->kind->load(&d->shard, d->v, &key, value));
    value.len++;
    key.block = (uint32_t)d->v->def->numbers;
    ck_assert(!d->v->kind->load(&d->shard, d->v, &key, value));
    key.block = ref.number;
    ck_assert_uint_eq(d->v->ready, 0);
    ck_assert(d->v->kind->load(&d->shard, d->v, &key, value));
    ck_assert(d->v->kind->loaded(d->v));
    ck_assert_uint_eq(d->v->kind->values(d->v), 1);
    ck_assert_uint_eq(ref.block->version, 42);
    value_free(ref.place);
    declared_free(d);
}
END_TEST

START_TEST(a_block_that_was_not_made_in_order_is_not_loaded)
{
    struct declared *d = declared_new(3 * 65536, "sgd", 0, 1);
    struct block_ref ref = kind_filled(d, 1);
    struct store_key key = d->v->kind->key(&ref);

    ck_assert(d->v->kind->load(&d->shard, d->v, &key, (struct span){ref.place, ref.size}));
    ck_assert(!d->v->kind->loaded(d->v));
    value_free(ref.place);
    declared_free(d);
}
END_TEST

START_TEST(an_update_in_place_takes_no_room_and_does_not_check)
{
    struct declared *d = declared_new(100, "sgd", 0, 1);
    struct block_ref ref = d->v->kind->nth(&d->shard, d->v, 0);

    ck_assert_uint_eq(d->v->kind->room(&d->shard, &ref), ref.size);
    ck_assert(d->v->kind->apply_checks(&d->shard, &ref));
    ref.block->turn = d->shard.turn.number;
    ck_assert_uint_eq(d->v->kind->room(&d->shard, &ref), 0);
    ck_assert(!d->v->kind->apply_checks(&d->shard, &ref));
    declared_free(d);
}
END_TEST

START_TEST(an_update_writes_the_head_of_the_new_value_and_leaves_the_old_one)
{
    struct declared *d = declared_new(100, "sgd", 0, 1);
    struct block_ref ref = kind_filled(d, 0);
    struct gradient gradient = {.values = (const float *)(const void *)(ref.old + sizeof(struct block_head))};
    struct kind_update u = {.scale = 1, .when = {.version = 8}, .clock = 10};
    struct block_head *head;

    ref.place = value_new(ref.size);
    ck_assert(d->v->kind->apply(&ref, &gradient, &u));
    head = (struct block_head *)ref.place;
    ck_assert_uint_eq(head->version, 8);
    ck_assert_uint_eq(head->clock, 10);
    ck_assert_uint_eq(((const struct block_head *)ref.old)->version, 0);
    ck_assert(*(const float *)(head + 1) < 2);
    ck_assert(*gradient.values == 2);
    ref.block->version = 8;
    ref.block->clock = 11;
    d->v->kind->carry(&ref);
    ck_assert_uint_eq(head->version, 8);
    ck_assert_uint_eq(head->clock, 11);
    ck_assert(*(const float *)(head + 1) == 2);
    value_free(ref.old);
    value_free(ref.place);
    declared_free(d);
}
END_TEST

START_TEST(what_is_not_finite_is_named_by_its_element_of_the_variable)
{
    struct declared *d = declared_new(65536 + 100, "sgd", 0, 1);
    struct block_ref ref = d->v->kind->nth(&d->shard, d->v, 1);
    static float values[65536];
    static uint16_t halves[65536];
    struct ps_error e;

    values[5] = INFINITY;
    halves[6] = 0x7c00;
    ck_assert(d->v->kind->magnitude(&ref, values) == OPTIMIZER_NONFINITE);
    ck_assert_int_eq(d->v->kind->nonfinite(&ref, &(struct gradient){.values = values}, &e), PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(e.text, "'w' is inf at element 65541"));
    ck_assert_int_eq(d->v->kind->nonfinite(&ref, &(struct gradient){.halves = halves}, &e), PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(e.text, "'w' is inf at element 65542"));
    declared_free(d);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("kind");
    TCase *t = tcase_create("dense");

    tcase_add_loop_test(t, a_whole_is_the_sum_of_its_blocks_on_any_number_of_shards, 0, ARRAY_LEN(sizes));
    tcase_add_loop_test(t, a_pull_gets_the_values_that_were_filled_in, 0, ARRAY_LEN(sizes));
    tcase_add_loop_test(t, what_is_filled_in_loads_and_anything_else_is_refused, 0, ARRAY_LEN(sizes) - 4);
    tcase_add_test(t, a_block_that_was_not_made_in_order_is_not_loaded);
    tcase_add_test(t, an_update_in_place_takes_no_room_and_does_not_check);
    tcase_add_test(t, an_update_writes_the_head_of_the_new_value_and_leaves_the_old_one);
    tcase_add_test(t, what_is_not_finite_is_named_by_its_element_of_the_variable);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
