/* The grid of a collective: pieces and cells hold every element once, and messages are whole cells. */
#include "client/core/plan/plan_grid.h"

#include "tests/unit/kits/check_main.h"

/* Every run of pieces goes as messages that lie behind each other, each as long as can be. */
static void
check_messages(const struct plan_grid *g, uint32_t from, uint32_t to)
{
    struct grid_run all = plan_grid_run(g, from, to), rest = all, message;
    uint32_t at = all.from;

    while (plan_grid_next(g, &rest, &message)) {
        size_t len = plan_grid_len(g, message);

        ck_assert_uint_eq(message.from, at);
        ck_assert_uint_gt(message.to, message.from);
        ck_assert(len <= g->segment);
        ck_assert(message.to == all.to ||
                  len + plan_grid_len(g, (struct grid_run){message.to, message.to + 1}) > g->segment);
        at = message.to;
    }
    ck_assert_uint_eq(at, all.to);
    ck_assert(!plan_grid_next(g, &rest, &message));
    ck_assert_uint_eq(message.from, message.to);
}

static void
check_grid(size_t count, uint32_t pieces, size_t segment)
{
    struct plan_grid g = {0};
    size_t widest = 0;

    ck_assert_int_eq(plan_grid_make(&g, count, pieces, segment), PS_OK);
    for (uint32_t p = 0; p < pieces; p++)
        ck_assert_uint_eq(plan_grid_len(&g, plan_grid_run(&g, p, p + 1)), ps_group_part(count, pieces, p));
    ck_assert_uint_eq(plan_grid_len(&g, plan_grid_run(&g, 0, pieces)), count);
    for (uint32_t c = 0; c < g.cells; c++) {
        size_t len = plan_grid_len(&g, (struct grid_run){c, c + 1});

        ck_assert(len >= 1 && len <= segment);
        widest = MAX(widest, len);
    }
    ck_assert_uint_eq(plan_grid_widest(&g), widest);
    for (uint32_t from = 0; from < pieces; from++)
        for (uint32_t to = from; to <= pieces; to++)
            check_messages(&g, from, to);
    plan_grid_finish(&g);
    plan_grid_finish(&g);
}

START_TEST(pieces_and_cells_hold_every_element_once)
{
    const size_t counts[] = {0, 1, 3, 7, 8, 64, 1000}, segments[] = {1, 2, 3, 8, 1000};

    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        for (size_t k = 0; k < ARRAY_LEN(segments); k++)
            for (uint32_t pieces = 1; pieces <= 9; pieces++)
                check_grid(counts[i], pieces, segments[k]);
}
END_TEST

/* Small pieces that follow each other share a message. */
START_TEST(a_message_takes_several_small_cells)
{
    struct plan_grid g = {0};
    struct grid_run rest, message;

    ck_assert_int_eq(plan_grid_make(&g, 8, 4, 5), PS_OK);
    rest = plan_grid_run(&g, 0, 4);
    ck_assert(plan_grid_next(&g, &rest, &message));
    ck_assert_uint_eq(plan_grid_len(&g, message), 4);
    ck_assert(plan_grid_next(&g, &rest, &message));
    ck_assert_uint_eq(plan_grid_len(&g, message), 4);
    ck_assert(!plan_grid_next(&g, &rest, &message));
    plan_grid_finish(&g);
}
END_TEST

START_TEST(more_cells_than_steps_are_a_limit)
{
    struct plan_grid g = {0};

    ck_assert_int_eq(plan_grid_make(&g, (size_t)PLAN_STEPS_MAX + 1, 3, 1), PS_ERR_LIMIT);
    ck_assert_uint_eq(g.pieces, 3);
    plan_grid_finish(&g);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("plan_grid");
    TCase *t = tcase_create("grid");

    tcase_add_test(t, pieces_and_cells_hold_every_element_once);
    tcase_add_test(t, a_message_takes_several_small_cells);
    tcase_add_test(t, more_cells_than_steps_are_a_limit);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
