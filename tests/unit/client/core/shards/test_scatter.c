/* client/core/shards/scatter.h: walks over the blocks of a shard, stretches for frames, and the lists of pieces. */
#include "client/core/shards/core.h"
#include "client/core/shards/scatter.h"
#include "common/core/cluster/placement.h"
#include "tests/unit/kits/check_main.h"

enum { SHARDS = 3 };

static struct variables table;

static void
scatter_setup(void)
{
    variables_init(&table, "job", SHARDS);
}

static void
scatter_teardown(void)
{
    variables_finish(&table);
}

static struct core_var *
var_of(const char *name, uint64_t n)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 1}};
    struct core_var *v;
    struct ps_error e;

    ck_assert_msg(variables_declare(&table, &spec, &v, &e) == PS_OK, "%s", e.text);
    return v;
}

START_TEST(walks_of_all_shards_meet_every_element_once)
{
    struct test_rng rng = {test_seed()};
    uint64_t sizes[4];
    struct core_var *vars[4];
    uint8_t *met[4];
    struct walk_block b;
    char name[8];
    uint64_t i, j;

    for (i = 0; i < 4; i++) {
        sizes[i] = 1 + test_below(&rng, i == 0 ? 2000000 : 5000);
        snprintf(name, sizeof(name), "v%llu", (unsigned long long)i);
        vars[i] = var_of(name, sizes[i]);
        met[i] = calloc(sizes[i], 1);
    }
    for (i = 0; i < SHARDS; i++) {
        struct block_walk walk = {vars, 4, (uint32_t)i, false};
        struct block_cursor at = {0};

        while (block_cursor_next(&walk, &at, &b)) {
            if (placement_shard(vars[b.var]->start, b.block, SHARDS) != i)
                ck_abort_msg("block %llu is not on this shard", (unsigned long long)b.block);
            for (j = b.first; j < b.first + b.len; j++)
                met[b.var][j]++;
        }
    }
    for (i = 0; i < 4; i++) {
        for (j = 0; j < sizes[i]; j++)
            if (met[i][j] != 1)
                ck_abort_msg("element %llu was met %u times", (unsigned long long)j, met[i][j]);
        free(met[i]);
    }
}
END_TEST

START_TEST(stretches_follow_each_other_and_keep_the_bounds)
{
    struct core_var *vars[3] = {var_of("a", 900000), var_of("b", 1), var_of("c", 150000)};
    struct walk_block b;
    uint64_t blocks = 0, bytes = 0, want = 0;
    uint32_t i;

    for (i = 0; i < SHARDS; i++) {
        struct block_walk walk = {vars, 3, i, false};
        struct block_cursor at = {0};
        struct stretch s = {0};

        while (block_cursor_next(&walk, &at, &b))
            want++;
        for (at = (struct block_cursor){0}; !s.end; at = s.to) {
            scatter_stretch(&walk, at, false, &s);
            ck_assert_uint_ge(s.blocks, 1);
            ck_assert(s.bytes <= REQUEST_BATCH_BYTES || s.blocks == 1);
            blocks += s.blocks;
            bytes += s.bytes;
        }
    }
    ck_assert_uint_eq(blocks, want);
    ck_assert_uint_eq(bytes, (900000 + 1 + 150000) * 4);
}
END_TEST

START_TEST(stretch_ends_where_versions_become_known)
{
    struct core_var *v = var_of("a", 16000); /* sixteen small blocks */
    struct block_walk walk = {&v, 1, 0, false};
    struct stretch s;
    uint64_t second = placement_nth(v->start, 0, SHARDS, 1);

    ck_assert_uint_ge(v->shard[0].blocks, 3);
    var_see(v, second, 0);
    scatter_stretch(&walk, (struct block_cursor){0}, true, &s);
    ck_assert_uint_eq(s.blocks, 1);
    ck_assert(!s.seen);
    scatter_stretch(&walk, s.to, true, &s);
    ck_assert_uint_eq(s.blocks, 1);
    ck_assert(s.seen);
    scatter_stretch(&walk, (struct block_cursor){0}, false, &s);
    ck_assert_uint_eq(s.blocks, v->shard[0].blocks);
}
END_TEST

START_TEST(adjacent_pieces_become_one)
{
    struct spans s = {0};
    struct payload_parts p = {0};
    char buf[100];
    size_t i;

    for (i = 0; i < 10; i++) {
        ck_assert_int_eq(spans_add(&s, buf + i * 4, 4), PS_OK);
        ck_assert_int_eq(payload_parts_add(&p, buf + i * 4, 4), PS_OK);
    }
    ck_assert_uint_eq(s.n, 1);
    ck_assert_uint_eq(s.item[0].len, 40);
    ck_assert_uint_eq(p.n, 1);
    for (i = 0; i < 5; i++)
        ck_assert_int_eq(payload_parts_add(&p, buf + 50 + i * 8, 4), PS_OK);
    ck_assert_uint_eq(p.n, 6);
    spans_finish(&s);
    payload_parts_finish(&p);
}
END_TEST

START_TEST(fill_puts_bytes_in_their_places)
{
    struct payload_parts p = {0};
    char a[4] = "....", b[4] = "....";

    ck_assert_int_eq(payload_parts_add(&p, b, 3), PS_OK);
    ck_assert_int_eq(payload_parts_add(&p, a + 1, 2), PS_OK);
    payload_parts_fill(&p, "12345");
    ck_assert_mem_eq(b, "123.", 4);
    ck_assert_mem_eq(a, ".45.", 4);
    payload_parts_finish(&p);
}
END_TEST

/* ---- The table of variables ---- */

START_TEST(same_declaration_is_the_same_variable)
{
    ck_assert_ptr_eq(var_of("w", 10), var_of("w", 10));
    ck_assert_ptr_ne(var_of("w", 10), var_of("v", 10));
    ck_assert_ptr_eq(variables_find(&table, "v"), var_of("v", 10));
    ck_assert_ptr_null(variables_find(&table, "u"));
}
END_TEST

START_TEST(shares_are_those_of_the_placement)
{
    struct core_var *v = var_of("w", 1000000);
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < SHARDS; i++) {
        ck_assert_uint_eq(v->shard[i].blocks,
                          placement_count(placement_start("job", "w", SHARDS), v->layout.blocks, i, SHARDS));
        sum += v->shard[i].blocks;
    }
    ck_assert_uint_eq(sum, core_var_blocks(v));
}
END_TEST

START_TEST(forgetting_a_shard_leaves_the_others)
{
    struct core_var *v = var_of("w", 1000000);
    uint64_t block, version;
    uint32_t i;

    for (block = 0; block < core_var_blocks(v); block++)
        var_see(v, block, 7);
    for (i = 0; i < SHARDS; i++)
        v->shard[i].known = true;
    variables_forget(&table, 1);
    ck_assert(v->shard[0].known && !v->shard[1].known && v->shard[2].known);
    for (block = 0; block < core_var_blocks(v); block++)
        if (var_seen(v, block, &version) != (placement_shard(v->start, block, SHARDS) != 1))
            ck_abort_msg("block %llu", (unsigned long long)block);
}
END_TEST

static const struct {
    struct ps_var_spec spec;
    enum ps_err err;
    const char *says;
} bad[] = {
    {{.name = NULL}, PS_ERR_INVALID, "name"},
    {{.name = ""}, PS_ERR_INVALID, "name"},
    {{.name = "a\nb"}, PS_ERR_INVALID, "UTF-8"},
    {{.name = "w", .rank = 9}, PS_ERR_INVALID, "rank 9"},
    {{.name = "w", .rank = 1}, PS_ERR_INVALID, "at least 1"},
    {{.name = "w", .rank = 2, .dims = {1ull << 40, 1ull << 40}}, PS_ERR_LIMIT, "elements"},
    {{.name = "w", .init = {(enum ps_init_kind)99, 0, 0, 0}}, PS_ERR_INVALID, ""},
    {{.name = "w", .init = {PS_INIT_UNIFORM, 2, 1, 0}}, PS_ERR_INVALID, ""},
    {{.name = "w", .optimizer = {.kind = (enum ps_optimizer_kind)99}}, PS_ERR_INVALID, ""},
    {{.name = "w", .optimizer = {.learning_rate = -1}}, PS_ERR_INVALID, ""},
};

START_TEST(bad_declaration_says_what_is_wrong)
{
    struct core_var *v;
    struct ps_error e = {0};

    ck_assert_int_eq(variables_declare(&table, &bad[_i].spec, &v, &e), bad[_i].err);
    ck_assert_int_eq(e.code, bad[_i].err);
    ck_assert_msg(strstr(e.text, bad[_i].says) != NULL, "%s", e.text);
    ck_assert_ptr_null(table.first);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("scatter");
    TCase *t = tcase_create("scatter");

    tcase_add_checked_fixture(t, scatter_setup, scatter_teardown);
    tcase_add_test(t, walks_of_all_shards_meet_every_element_once);
    tcase_add_test(t, stretches_follow_each_other_and_keep_the_bounds);
    tcase_add_test(t, stretch_ends_where_versions_become_known);
    tcase_add_test(t, adjacent_pieces_become_one);
    tcase_add_test(t, fill_puts_bytes_in_their_places);
    tcase_add_test(t, same_declaration_is_the_same_variable);
    tcase_add_test(t, shares_are_those_of_the_placement);
    tcase_add_test(t, forgetting_a_shard_leaves_the_others);
    tcase_add_loop_test(t, bad_declaration_says_what_is_wrong, 0, (int)ARRAY_LEN(bad));
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
