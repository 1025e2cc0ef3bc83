#include "client/tools/psctl/checkpoint_diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"

static char dir[64];

static void
diff_setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/psd-difference-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
diff_teardown(void)
{
    remove_tree(dir);
}

struct diff_tensor {
    const char *name;
    enum safetensors_type type;
    uint64_t n;
    const void *values;
};

/* A file of these tensors, ended by one without a name; its path in one of two places. */
static const char *
file_of(int which, const struct diff_tensor *tensors)
{
    static char paths[2][128];
    struct safetensors s = {0};
    struct ps_error e;
    char *head;
    FILE *f;

    snprintf(paths[which], sizeof paths[which], "%s/%d.safetensors", dir, which);
    for (const struct diff_tensor *t = tensors; t->name != NULL; t++)
        ck_assert_int_eq(safetensors_add(&s, t->name, t->type, 1, &t->n, &e), PS_OK);
    ck_assert_int_eq(safetensors_head(&s, "test", &head, &e), PS_OK);
    ck_assert_ptr_nonnull(f = fopen(paths[which], "wb"));
    ck_assert_uint_eq(fwrite(head, 1, s.data, f), s.data);
    for (const struct diff_tensor *t = tensors; t->name != NULL; t++)
        ck_assert_uint_eq(fwrite(t->values, safetensors_type_bytes(t->type), t->n, f), t->n);
    ck_assert_int_eq(fclose(f), 0);
    free(head);
    safetensors_finish(&s);
    return paths[which];
}

/* The differences found, in order. */
static struct checkpoint_diff found[8];
static char names[8][16];
static size_t found_len;

static void
diff_take(void *arg, const struct checkpoint_diff *d)
{
    (void)arg;
    ck_assert_uint_lt(found_len, ARRAY_LEN(found));
    snprintf(names[found_len], sizeof names[0], "%s", d->name);
    found[found_len++] = *d;
}

static void
diff_compare(const struct diff_tensor *before, const struct diff_tensor *after)
{
    struct diff_snapshot a, b;
    struct ps_error e;

    found_len = 0;
    ck_assert_int_eq(snapshot_open(file_of(0, before), false, &a, &e), PS_OK);
    ck_assert_int_eq(snapshot_open(file_of(1, after), false, &b, &e), PS_OK);
    ck_assert_int_eq(checkpoint_diff_all(&a, &b, diff_take, NULL, &e), PS_OK);
    snapshot_close(&a);
    snapshot_close(&b);
}

START_TEST(added_removed_reshaped_changed_and_the_same_are_told_apart)
{
    const float four[] = {1, 2, 3, 4}, other[] = {1, 2, 6, 0}, three[] = {1, 2, 3};

    diff_compare((struct diff_tensor[]){{"gone", SAFETENSORS_F32, 4, four},
                                        {"moved", SAFETENSORS_F32, 4, four},
                                        {"same", SAFETENSORS_F32, 4, four},
                                        {"shape", SAFETENSORS_F32, 4, four},
                                        {0}},
                 (struct diff_tensor[]){{"shape", SAFETENSORS_F32, 3, three},
                                        {"same", SAFETENSORS_F32, 4, four},
                                        {"moved", SAFETENSORS_F32, 4, other},
                                        {"come", SAFETENSORS_F32, 3, three},
                                        {0}});
    ck_assert_uint_eq(found_len, 5);
    ck_assert_str_eq(names[0], "come");
    ck_assert_int_eq(found[0].kind, CHECKPOINT_DIFF_ADDED);
    ck_assert_uint_eq(found[0].elements, 3);
    ck_assert_int_eq(found[1].kind, CHECKPOINT_DIFF_REMOVED);
    ck_assert_str_eq(names[2], "moved");
    ck_assert_int_eq(found[2].kind, CHECKPOINT_DIFF_CHANGED);
    ck_assert_uint_eq(found[2].changed, 2);
    ck_assert(found[2].most == 4 && found[2].l2 == 5 && found[2].l2_before == sqrt(30));
    ck_assert_int_eq(found[3].kind, CHECKPOINT_DIFF_NONE);
    ck_assert_int_eq(found[4].kind, CHECKPOINT_DIFF_RESHAPED);
}
END_TEST

START_TEST(what_is_not_finite_is_counted_beside_the_norms)
{
    const float before[] = {NAN, INFINITY, 1, -0.0f, NAN}, after[] = {NAN, 1, 3, 0.0f, 2};

    diff_compare((struct diff_tensor[]){{"w", SAFETENSORS_F32, 5, before}, {0}},
                 (struct diff_tensor[]){{"w", SAFETENSORS_F32, 5, after}, {0}});
    ck_assert_uint_eq(found[0].changed, 3);
    ck_assert_uint_eq(found[0].nonfinite, 2);
    ck_assert(found[0].most == 2 && found[0].l2 == 2);
}
END_TEST

START_TEST(other_types_are_compared_too)
{
    const uint16_t halves[] = {0x3c00, 0x4000}, more[] = {0x3c00, 0x4200}; /* 1, 2; 1, 3 */
    const int64_t counts[] = {7, 8}, later[] = {9, 8};
    const uint8_t bytes[] = {1, 2}, others[] = {1, 3};

    diff_compare(
        (struct diff_tensor[]){
            {"b", SAFETENSORS_I64, 2, counts}, {"h", SAFETENSORS_F16, 2, halves}, {"u", SAFETENSORS_U8, 2, bytes}, {0}},
        (struct diff_tensor[]){
            {"b", SAFETENSORS_I64, 2, later}, {"h", SAFETENSORS_F16, 2, more}, {"u", SAFETENSORS_U8, 2, others}, {0}});
    ck_assert_uint_eq(found_len, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(found[i].changed, 1);
    ck_assert(found[0].most == 2 && found[1].most == 1 && found[1].l2 == 1 && found[2].most == 0);
}
END_TEST

START_TEST(tensors_longer_than_a_piece_are_read_to_their_end)
{
    enum { N = 3 * SAFETENSORS_PIECE + 5 };
    float *a = calloc(N, sizeof *a), *b = calloc(N, sizeof *b);

    b[0] = b[SAFETENSORS_PIECE] = b[N - 1] = 1;
    diff_compare((struct diff_tensor[]){{"w", SAFETENSORS_F32, N, a}, {0}},
                 (struct diff_tensor[]){{"w", SAFETENSORS_F32, N, b}, {0}});
    ck_assert_uint_eq(found[0].changed, 3);
    ck_assert(found[0].l2 == sqrt(3));
    free(a);
    free(b);
}
END_TEST

START_TEST(what_cannot_be_compared_is_said)
{
    const float one[] = {1};
    const char *path = file_of(0, (struct diff_tensor[]){{"w", SAFETENSORS_F32, 1, one}, {0}});
    struct diff_snapshot s;
    struct ps_error e;

    ck_assert_int_eq(snapshot_open(path, true, &s, &e), PS_ERR_INVALID);
    snapshot_close(&s);
    ck_assert_int_eq(snapshot_open(dir, false, &s, &e), PS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "this is no checkpoint"));
    snapshot_close(&s);
    ck_assert_int_eq(snapshot_open("/nowhere", false, &s, &e), PS_ERR_IO);
    snapshot_close(&s);
    ck_assert_int_eq(truncate(path, 20), 0);
    ck_assert_int_eq(snapshot_open(path, false, &s, &e), PS_ERR_DATA);
    snapshot_close(&s);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("difference");
    TCase *t = tcase_create("difference");

    tcase_add_checked_fixture(t, diff_setup, diff_teardown);
    tcase_add_test(t, added_removed_reshaped_changed_and_the_same_are_told_apart);
    tcase_add_test(t, what_is_not_finite_is_counted_beside_the_norms);
    tcase_add_test(t, other_types_are_compared_too);
    tcase_add_test(t, tensors_longer_than_a_piece_are_read_to_their_end);
    tcase_add_test(t, what_cannot_be_compared_is_said);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
