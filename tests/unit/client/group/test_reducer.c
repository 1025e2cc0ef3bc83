/* A reducer over a simulated group: which operations it starts, in which order, its use of their memory, and failures.
 * The group has one other rank, which lives in this test. */
#include "client/group/reducer.c"

#include <math.h>

#include "client/include/psclient/ps_network.h"
#include "tests/unit/kits/check_main.h"

/* ---- The group ---- */

enum { STARTS_MAX = 512, FLOATS_MAX = 20000 };

struct ps_work {
    size_t number, len;
    float *at;
    enum ps_reduce reduce;
    struct group_merge merge; /* of one that is compressed */
    float *sent;              /* the contents at the start: nothing may write there until the end */
    int tests;                /* that it takes to be done */
    bool done;
    enum ps_err result;
};

static struct {
    uint32_t ranks;
    struct ps_error failed;  /* of the group */
    float other[FLOATS_MAX]; /* the other rank's buffers, one after the other as ours lie */
    size_t starts, in_flight, in_flight_max, tests, waits;
    size_t len[STARTS_MAX]; /* of each */
    const float *base;      /* where the first one began */
    size_t offset[STARTS_MAX];
    int tests_to_do;              /* of each work; -1: only a wait ends it */
    size_t fail_start, fail_work; /* counted from 1; 0: none */
    enum ps_err fail_with;
    size_t short_waits; /* so many waits end with TIMEOUT alone */
    size_t works_max;
    struct encoded_sum sum[STARTS_MAX]; /* the other rank's, by bucket */
    bool merges_first;                  /* a work that fails has been merged by all before */
} fake;

static ps_group *const group = (ps_group *)&fake;
static ps_reducer *r;

static enum ps_err
fake_fail(enum ps_err err, struct ps_error *e)
{
    ps_error_set(&fake.failed, err, "rank 1 is gone");
    snprintf(fake.failed.peer, sizeof fake.failed.peer, "rank 1 at 127.0.0.1:7");
    if (e != NULL)
        *e = fake.failed;
    return err;
}

enum ps_err
ps_group_state(const ps_group *g, struct ps_error *error)
{
    ck_assert_ptr_eq(g, group);
    if (fake.failed.code != PS_OK && error != NULL)
        *error = fake.failed;
    return fake.failed.code;
}

uint32_t
ps_group_ranks(const ps_group *g)
{
    ck_assert_ptr_eq(g, group);
    return fake.ranks;
}

uint32_t
ps_group_rank(const ps_group *g)
{
    ck_assert_ptr_eq(g, group);
    return 0;
}

/* May another one start? */
static enum ps_err
fake_start(size_t offset, size_t len, struct ps_error *error)
{
    ck_assert_uint_lt(fake.starts, STARTS_MAX);
    if (fake.in_flight == fake.works_max)
        return ps_fail(error, PS_ERR_LIMIT, "works");
    if (fake.failed.code != PS_OK)
        return ps_group_state(group, error);
    if (fake.starts + 1 == fake.fail_start)
        return fake_fail(fake.fail_with, error);
    fake.offset[fake.starts] = offset;
    fake.len[fake.starts] = len;
    return PS_OK;
}

static ps_work *
fake_work(float *at, size_t len)
{
    struct ps_work *w = calloc(1, sizeof *w);

    ck_assert_ptr_nonnull(w);
    *w = (struct ps_work){.number = ++fake.starts, .len = len, .at = at, .tests = fake.tests_to_do};
    w->sent = malloc(len * sizeof *w->sent + 1);
    ck_assert_ptr_nonnull(w->sent);
    memcpy(w->sent, at, len * sizeof *w->sent);
    fake.in_flight++;
    fake.in_flight_max = MAX(fake.in_flight, fake.in_flight_max);
    return w;
}

enum ps_err
group_tagged_all_reduce(ps_group *g, uint64_t tag, const void *in, void *out, size_t count, enum ps_dtype dtype,
                        enum ps_reduce reduce, ps_work **work, struct ps_error *error)
{
    enum ps_err err;

    ck_assert((tag & GROUP_TAG_HASH) != 0);
    ck_assert(g == group && in == out && dtype == PS_F32 && work != NULL && *work == NULL && fake.ranks > 1);
    if (fake.starts == 0)
        fake.base = in;
    if ((err = fake_start((size_t)((const float *)in - fake.base), count, error)) != PS_OK)
        return err;
    *work = fake_work(out, count);
    (*work)->reduce = reduce;
    return PS_OK;
}

/* The caller's buffers are those of an encoded sum, whose gradient is borrowed. */
enum ps_err
group_merge_start(ps_group *g, const struct group_merge *m, ps_work **work, struct ps_error *error)
{
    const struct encoded_sum *s = m->arg;
    enum ps_err err;

    ck_assert(g == group && m->in == s->out && m->out == s->in && m->slot == s->slot && m->piece == s->piece);
    ck_assert(work != NULL && *work == NULL && fake.ranks == 2 && m->encoding == s->how.kind);
    ck_assert(m->elements == s->count && m->reduce == r->reduce && (m->tag & GROUP_TAG_HASH) != 0);
    if (fake.starts == 0)
        fake.base = s->gradient;
    if ((err = fake_start((size_t)(s->gradient - fake.base), s->count, error)) != PS_OK)
        return err;
    *work = fake_work((float *)s->gradient, s->count);
    (*work)->merge = *m;
    return PS_OK;
}

/* The other rank's sum for the bucket that lies there. */
static struct encoded_sum *
other_sum(const struct ps_work *w)
{
    const struct encoded_sum *mine = w->merge.arg;
    size_t k = 0;

    while (k < r->plan.buckets && r->fused + r->plan.bucket[k].offset != w->at)
        k++;
    ck_assert_uint_lt(k, r->plan.buckets);
    if (fake.sum[k].kept == NULL)
        ck_assert_int_eq(encoded_sum_init(&fake.sum[k], mine->count, &mine->how, NULL), PS_OK);
    ck_assert_int_eq(encoded_sum_slots(&fake.sum[k], 2, 1, NULL), PS_OK);
    return &fake.sum[k];
}

/* The group's merge of both ranks' slots. */
static void
end_merge(struct ps_work *w)
{
    const struct group_merge *m = &w->merge;
    struct encoded_sum *s = other_sum(w);
    size_t bytes = m->slot * sizeof(uint32_t);

    encoded_sum_begin(s, fake.other + (w->at - r->fused), r->reduce);
    memcpy(s->in, m->in + m->slot, bytes);
    memcpy(m->out + m->slot, s->out, bytes);
    for (size_t at = 0; at < m->slot; at += m->piece) {
        ck_assert_uint_eq(m->merge(m->arg, at), UINT32_MAX);
        ck_assert_uint_eq(encoded_sum_merge(s, at), UINT32_MAX);
    }
    memcpy(s->in, m->in, bytes);
    memcpy(m->out + m->slot, s->out + m->slot, bytes);
}

/* In place, as the sum with what the other rank has at the same place. */
static void
reducer_end(struct ps_work *w)
{
    const float *other = fake.other + (w->at - fake.base);

    ck_assert_msg(memcmp(w->at, w->sent, w->len * sizeof *w->sent) == 0, "bucket %zu was written to while borrowed",
                  w->number);
    w->done = true;
    if (w->number == fake.fail_work)
        (void)fake_fail(fake.fail_with, NULL);
    w->result = fake.failed.code;
    if (w->merge.merge != NULL) {
        if (w->result == PS_OK || fake.merges_first)
            end_merge(w);
        return;
    }
    for (size_t i = 0; i < w->len; i++) /* not defined after a failure */
        w->at[i] = w->result != PS_OK ? -1 : (w->at[i] + other[i]) * (w->reduce == PS_MEAN ? 0.5f : 1);
}

int
ps_work_test(ps_work *w)
{
    fake.tests++;
    if (!w->done && (fake.failed.code != PS_OK || w->tests == 0))
        reducer_end(w);
    if (w->tests > 0)
        w->tests--;
    return w->done;
}

enum ps_err
ps_work_wait(ps_work *w, int timeout_ms, struct ps_error *error)
{
    fake.waits++;
    if (!w->done && fake.short_waits > 0) {
        fake.short_waits--;
        return ps_fail(error, PS_ERR_TIMEOUT, "the wait alone");
    }
    if (!w->done && timeout_ms != 0)
        reducer_end(w);
    ck_assert(w->done);
    if (w->result != PS_OK && error != NULL)
        *error = fake.failed;
    return w->result;
}

void
ps_work_free(ps_work *w)
{
    if (w == NULL)
        return;
    if (!w->done)
        reducer_end(w);
    fake.in_flight--;
    free(w->sent);
    free(w);
}

/* ---- Steps ---- */

static const uint64_t sizes[] = {1000, 10, 2500, 50, 50, 5}; /* buckets: 5 4 | 3 2 | 1 0 */

static void
reducer_setup(void)
{
    struct test_rng rng = {7};

    memset(&fake, 0, sizeof fake);
    fake.ranks = 2;
    fake.tests_to_do = -1;
    fake.works_max = PS_GROUP_WORKS_MAX;
    for (size_t i = 0; i < FLOATS_MAX; i++)
        fake.other[i] = test_float(&rng);
    r = NULL;
}

static void
reducer_teardown(void)
{
    ps_reducer_free(r);
    ck_assert_uint_eq(fake.in_flight, 0);
    for (size_t k = 0; k < STARTS_MAX; k++)
        encoded_sum_finish(&fake.sum[k]);
}

static void
reducer_make(size_t n, const uint64_t *elements, size_t first_bytes, size_t bytes)
{
    struct ps_reducer_options options = {.bucket_bytes = bytes, .first_bucket_bytes = first_bytes};

    ck_assert_int_eq(ps_reducer_new(group, n, elements, &options, &r, NULL), PS_OK);
}

static void
reducer_begin(void)
{
    ck_assert_int_eq(ps_reducer_begin(r, NULL), PS_OK);
}

/* Gradient i, and that it is there. */
static void
write_gradient(size_t i)
{
    for (size_t k = 0; k < sizes[i]; k++)
        ps_reducer_buffers(r)[i][k] = (float)(i + 1) * 100 + (float)k;
    ps_reducer_ready(r, i);
}

static void
check_mean(size_t i, bool was_zero)
{
    const float *got = ps_reducer_buffers(r)[i], *other = fake.other + (got - ps_reducer_buffers(r)[5]);

    for (size_t k = 0; k < sizes[i]; k++) {
        float mine = was_zero ? 0 : (float)(i + 1) * 100 + (float)k;

        ck_assert_float_eq(got[k], (mine + other[k]) * 0.5f);
    }
}

START_TEST(buckets_go_while_other_gradients_are_still_to_come)
{
    static const size_t started[] = {0, 1, 1, 2, 2, 3}; /* after each parameter from the last on */

    reducer_make(6, sizes, 256, 8192);
    ck_assert_uint_eq(ps_reducer_buckets(r), 3);
    for (int step = 0; step < 3; step++) {
        reducer_begin();
        fake.starts = 0;
        for (size_t i = 0; i < 6; i++) {
            write_gradient(5 - i);
            ck_assert_uint_eq(fake.starts, started[i]);
        }
        ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
        ck_assert_uint_eq(fake.starts, 3);
        for (size_t i = 0; i < 6; i++)
            check_mean(i, false);
        ck_assert(fake.offset[1] == fake.len[0] && fake.offset[2] == fake.len[0] + fake.len[1]);
    }
}
END_TEST

START_TEST(buckets_go_in_their_order_whatever_is_ready_first)
{
    reducer_make(6, sizes, 256, 8192);
    reducer_begin();
    for (size_t i = 0; i < 5; i++)
        write_gradient(i);
    ck_assert_uint_eq(fake.starts, 0);
    write_gradient(5);
    ck_assert_uint_eq(fake.starts, 3);
    ck_assert(fake.offset[0] == 0 && fake.offset[1] < fake.offset[2]);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    for (size_t i = 0; i < 6; i++)
        check_mean(i, false);
}
END_TEST

START_TEST(a_gradient_that_never_came_counts_as_zero)
{
    reducer_make(6, sizes, 256, 8192);
    for (int step = 0; step < 2; step++) { /* the second finds the first one's mean there */
        reducer_begin();
        write_gradient(3);
        write_gradient(0);
        ck_assert_uint_eq(fake.in_flight, 0);
        ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
        for (size_t i = 0; i < 6; i++)
            check_mean(i, i != 3 && i != 0);
    }
}
END_TEST

START_TEST(the_network_moves_with_every_gradient)
{
    reducer_make(6, sizes, 256, 8192);
    fake.tests_to_do = 2; /* done at the third */
    reducer_begin();
    write_gradient(5);
    ck_assert_uint_eq(fake.tests, 0);
    for (size_t i = 0; i < 3; i++) {
        write_gradient(4 - i);
        ck_assert_uint_eq(fake.in_flight, i < 2 ? 1 : 1);
    }
    ck_assert_uint_eq(fake.starts, 2); /* the first has ended, and the second is under way */
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
}
END_TEST

START_TEST(the_sum_can_be_had)
{
    struct ps_reducer_options options = {.sum = 1};
    static const uint64_t one[] = {3};

    ck_assert_int_eq(ps_reducer_new(group, 1, one, &options, &r, NULL), PS_OK);
    reducer_begin();
    ps_reducer_buffers(r)[0][1] = 5;
    ps_reducer_ready(r, 0);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_float_eq(ps_reducer_buffers(r)[0][1], 5 + fake.other[1]);
}
END_TEST

/* ---- Alone ---- */

START_TEST(one_rank_sends_nothing_and_keeps_its_gradients)
{
    ps_group *none = _i == 0 ? NULL : group;

    fake.ranks = 1;
    ck_assert_int_eq(ps_reducer_new(none, 6, sizes, NULL, &r, NULL), PS_OK);
    reducer_begin();
    for (size_t i = 6; i-- > 1;)
        write_gradient(i);
    ps_reducer_buffers(r)[0][999] = 5; /* never ready */
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_uint_eq(fake.starts, 0);
    ck_assert_float_eq(ps_reducer_buffers(r)[2][7], 307);
    ck_assert_float_eq(ps_reducer_buffers(r)[0][999], 0);
}
END_TEST

START_TEST(who_was_alone_has_company_after_the_next_forming)
{
    reducer_make(6, sizes, 256, 8192);
    fake.ranks = 1;
    reducer_begin();
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    fake.ranks = 3;
    reducer_begin();
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_uint_eq(fake.starts, 3);
}
END_TEST

/* ---- Many ---- */

START_TEST(no_more_buckets_than_a_group_should_have_are_in_flight)
{
    uint64_t many[300];
    size_t room = _i == 0 ? IN_FLIGHT_MAX : 10; /* the program has works of its own */

    fake.works_max = _i == 0 ? PS_GROUP_WORKS_MAX : room;
    for (size_t i = 0; i < 300; i++)
        many[i] = 16;
    reducer_make(300, many, 1, 1);
    ck_assert_uint_eq(ps_reducer_buckets(r), 300);
    reducer_begin();
    for (size_t i = 300; i-- > 0;) {
        for (size_t k = 0; k < 16; k++)
            ps_reducer_buffers(r)[i][k] = (float)i;
        ps_reducer_ready(r, i);
    }
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_uint_eq(fake.in_flight_max, room);
    for (size_t i = 0; i < 300; i++)
        ck_assert_float_eq(ps_reducer_buffers(r)[i][3], ((float)i + fake.other[(299 - i) * 16 + 3]) * 0.5f);
}
END_TEST

START_TEST(without_any_room_the_step_fails)
{
    struct ps_error error;

    reducer_make(6, sizes, 256, 8192);
    fake.works_max = 0;
    reducer_begin();
    write_gradient(5);
    write_gradient(4);
    ck_assert_int_eq(ps_reducer_finish(r, &error), PS_ERR_LIMIT);
    fake.works_max = 9;
    reducer_begin();
    ck_assert_int_eq(ps_reducer_finish(r, &error), PS_OK);
}
END_TEST

/* ---- Failures ---- */

/* A step in which start or work n fails. */
static void
check_failing_step(size_t fail_start, size_t fail_work, enum ps_err with)
{
    struct ps_error error;

    fake.fail_start = fail_start > 0 ? fake.starts + fail_start : 0;
    fake.fail_work = fail_work > 0 ? fake.starts + fail_work : 0;
    fake.fail_with = with;
    reducer_begin();
    for (size_t i = 6; i-- > 0;)
        write_gradient(i);
    ck_assert_int_eq(ps_reducer_finish(r, &error), with);
    ck_assert_int_eq(error.code, with);
    ck_assert_str_eq(error.peer, "rank 1 at 127.0.0.1:7");
    ck_assert_uint_eq(fake.in_flight, 0);
    ck_assert_int_eq(ps_reducer_begin(r, &error), with); /* until it is formed again */
    ck_assert_str_eq(error.peer, "rank 1 at 127.0.0.1:7");
    fake.failed.code = PS_OK;
    fake.fail_start = fake.fail_work = 0;
}

START_TEST(a_failure_names_the_rank_and_the_next_step_can_follow)
{
    static const enum ps_err with[] = {PS_ERR_CLOSED, PS_ERR_TIMEOUT, PS_ERR_MISMATCH, PS_ERR_PROTOCOL};

    fake.tests_to_do = _i / (int)ARRAY_LEN(with) == 0 ? -1 : 0; /* found by a wait, by a test */
    reducer_make(6, sizes, 256, 8192);
    for (size_t n = 1; n <= 3; n++) {
        check_failing_step(n, 0, with[_i % (int)ARRAY_LEN(with)]);
        check_failing_step(0, n, with[_i % (int)ARRAY_LEN(with)]);
    }
    reducer_begin();
    fake.base = ps_reducer_buffers(r)[5];
    for (size_t i = 6; i-- > 0;)
        write_gradient(i);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    for (size_t i = 0; i < 6; i++)
        check_mean(i, false);
}
END_TEST

START_TEST(a_wait_that_ends_before_its_work_is_begun_again)
{
    reducer_make(6, sizes, 256, 8192);
    fake.short_waits = 5;
    reducer_begin();
    for (size_t i = 6; i-- > 0;)
        write_gradient(i);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_uint_eq(fake.waits, 8);
    for (size_t i = 0; i < 6; i++)
        check_mean(i, false);
}
END_TEST

START_TEST(who_frees_in_the_middle_of_a_step_waits_for_what_was_started)
{
    reducer_make(6, sizes, 256, 8192);
    reducer_begin();
    for (size_t i = 6; i-- > 3;)
        write_gradient(i);
    ck_assert_uint_eq(fake.in_flight, 1);
    ps_reducer_free(r);
    r = NULL;
    ck_assert_uint_eq(fake.in_flight, 0);
}
END_TEST

/* ---- Misuse ---- */

START_TEST(what_is_ready_twice_or_is_not_there_is_told_and_holds_nobody_up)
{
    struct ps_error error;

    reducer_make(6, sizes, 256, 8192);
    reducer_begin();
    write_gradient(5);
    ps_reducer_ready(r, _i == 0 ? 5 : 6);
    for (size_t i = 5; i-- > 0;)
        write_gradient(i);
    ck_assert_uint_eq(fake.starts, 3);
    ck_assert_int_eq(ps_reducer_finish(r, &error), PS_ERR_INVALID);
    ck_assert_msg(strstr(error.text, _i == 0 ? "parameter 5" : "parameter 6") != NULL, "%s", error.text);
    reducer_begin();
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
}
END_TEST

START_TEST(steps_begin_and_end_in_turn)
{
    struct ps_error error;

    reducer_make(6, sizes, 256, 8192);
    ps_reducer_ready(r, 5); /* outside a step: does nothing */
    ck_assert_int_eq(ps_reducer_finish(r, &error), PS_ERR_INVALID);
    reducer_begin();
    ck_assert_int_eq(ps_reducer_begin(r, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_ERR_INVALID);
    ck_assert_uint_eq(fake.starts, 3);
}
END_TEST

START_TEST(more_than_fits_is_refused)
{
    static const uint64_t large[] = {UINT64_MAX / 2};
    struct ps_error error;

    ck_assert_int_eq(ps_reducer_new(group, 1, large, NULL, &r, &error), PS_ERR_LIMIT);
}
END_TEST

/* ---- Compressed ---- */

static const struct ps_compress codecs[] = {{.kind = PS_COMPRESS_FLOAT16},
                                            {.kind = PS_COMPRESS_BFLOAT16},
                                            {.kind = PS_COMPRESS_INT8},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 0.05}};

static void
make_compressed(const struct ps_compress *how)
{
    struct ps_reducer_options options = {.bucket_bytes = 8192, .first_bucket_bytes = 256, .sum = 1, .compress = *how};

    ck_assert_int_eq(ps_reducer_new(group, 6, sizes, &options, &r, NULL), PS_OK);
}

/* Each rank's gradients in step `step`: numbers that no encoding can hold exactly. */
static void
write_all(int step)
{
    memset(fake.other, 0, sizeof fake.other); /* between parameters it stays so, as everywhere */
    for (size_t i = 6; i-- > 0;) {
        for (size_t k = 0; k < sizes[i]; k++)
            fake.other[r->plan.offset[i] + k] = (float)((i + k * 37 + (size_t)step * 11) % 101) / 7 - 5;
        for (size_t k = 0; k < sizes[i]; k++)
            ps_reducer_buffers(r)[i][k] = (float)((i * 13 + k * 29 + (size_t)step * 5) % 97) / 3 - 11;
        ps_reducer_ready(r, i);
    }
}

/* This rank and the other one have the same bits. */
static void
check_same(void)
{
    static float theirs[FLOATS_MAX];

    for (size_t k = 0; k < r->plan.buckets; k++) {
        const struct bucket *b = &r->plan.bucket[k];

        ck_assert_int_eq(encoded_sum_end(&fake.sum[k], theirs, NULL), PS_OK);
        ck_assert_int_eq(memcmp(theirs, r->fused + b->offset, b->len * sizeof *theirs), 0);
    }
}

static void
settle_other(bool counted)
{
    for (size_t k = 0; k < r->plan.buckets; k++)
        encoded_sum_settle(&fake.sum[k], counted);
}

static void
step_well(int step)
{
    reducer_begin();
    write_all(step);
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    check_same();
    settle_other(true);
}

/* The inputs of both, and the result: the difference is in their residuals. */
START_TEST(compressed_buckets_have_the_same_bits_everywhere_and_nothing_is_lost)
{
    static const double times_less[] = {1.9, 1.9, 3.7, 8.5};
    double given[2500] = {0}, arrived[2500] = {0};
    size_t at;
    uint64_t sent, plain;

    make_compressed(&codecs[_i]);
    ck_assert_uint_eq(ps_reducer_buckets(r), 3);
    at = (size_t)(ps_reducer_buffers(r)[2] - ps_reducer_buffers(r)[5]);
    for (int step = 0; step < 4; step++) {
        fake.starts = 0;
        step_well(step);
        ck_assert_uint_eq(fake.starts, 3);
        for (size_t k = 0; k < 2500; k++) {
            given[k] += (double)((float)((26 + k * 29 + (size_t)step * 5) % 97) / 3 - 11) + (double)fake.other[at + k];
            arrived[k] += (double)ps_reducer_buffers(r)[2][k];
        }
    }
    ps_reducer_settle(r, 1);
    for (size_t k = 0; k < 2500; k++) {
        size_t in = k + at - r->plan.bucket[1].offset;

        given[k] -= (double)r->sums[1].kept[in] + (double)fake.sum[1].kept[in];
        ck_assert_msg(fabs(given[k] - arrived[k]) < 1e-3, "element %zu: %g given, %g arrived", k, given[k], arrived[k]);
    }
    ps_reducer_bytes(r, &sent, &plain);
    ck_assert_uint_eq(plain, 4 * 2 * r->plan.floats * sizeof(float) / 2);
    ck_assert_msg((double)plain / (double)sent > times_less[_i], "%" PRIu64 " bytes of %" PRIu64, sent, plain);
}
END_TEST

/* The sums of steps 0, 1 and 2; and again with steps that fail in between, in all ways. */
START_TEST(a_step_that_failed_leaves_nothing_behind)
{
    static float want[3][FLOATS_MAX];

    for (int run = 0; run < 4; run++) {
        make_compressed(&codecs[_i]);
        for (int step = 0; step < 3; step++) {
            if (run > 0) {
                fake.fail_work = run < 3 ? fake.starts + (size_t)run : 0;
                fake.fail_start = run == 3 ? fake.starts + 2 : 0;
                fake.fail_with = PS_ERR_CLOSED;
                reducer_begin();
                write_all(step + 7);
                ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_ERR_CLOSED);
                fake.failed.code = PS_OK;
                fake.fail_work = fake.fail_start = 0;
                settle_other(false);
                if (step % 2 == 0) /* the next begin does it as well */
                    ps_reducer_settle(r, 0);
            }
            step_well(step);
            if (run == 0)
                memcpy(want[step], r->fused, r->plan.floats * sizeof(float));
            ck_assert_int_eq(memcmp(want[step], r->fused, r->plan.floats * sizeof(float)), 0);
        }
        reducer_teardown();
        reducer_setup();
    }
}
END_TEST

/* The others have all of it, and only this rank does not; or all have it, and it does not count. */
START_TEST(a_program_may_know_better_whether_a_step_has_counted)
{
    static float want[FLOATS_MAX];

    for (int run = 0; run < 2; run++) {
        make_compressed(&codecs[_i]);
        step_well(0);
        if (run == 1) {
            reducer_begin();
            write_all(9);
            ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
            ps_reducer_settle(r, 0);
            settle_other(false);
            fake.merges_first = true;
            fake.fail_work = fake.starts + 3;
            fake.fail_with = PS_ERR_CLOSED;
        }
        reducer_begin();
        write_all(1);
        ck_assert_int_eq(ps_reducer_finish(r, NULL), run == 0 ? PS_OK : PS_ERR_CLOSED);
        fake.failed.code = PS_OK;
        fake.fail_work = 0;
        ps_reducer_settle(r, 1);
        settle_other(true);
        step_well(2);
        if (run == 0)
            memcpy(want, r->fused, r->plan.floats * sizeof(float));
        ck_assert_int_eq(memcmp(want, r->fused, r->plan.floats * sizeof(float)), 0);
        reducer_teardown();
        reducer_setup();
    }
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_ends_the_step_when_all_buckets_have_gone)
{
    struct ps_error error;

    make_compressed(&codecs[2]);
    fake.tests_to_do = 0; /* it is known early */
    for (int mine = 0; mine < 2; mine++) {
        fake.starts = 0;
        reducer_begin();
        if (mine == 1)
            ps_reducer_buffers(r)[4][7] = NAN;
        for (size_t i = 0; i < FLOATS_MAX; i++)
            fake.other[i] = mine == 0 ? INFINITY : 1;
        for (size_t i = 6; i-- > 0;)
            ps_reducer_ready(r, i);
        ck_assert_int_eq(ps_reducer_finish(r, &error), PS_ERR_NONFINITE);
        ck_assert_msg(strncmp(error.text, mine == 1 ? "rank 0 " : "rank 1 ", 7) == 0, "%s", error.text);
        ck_assert_uint_eq(fake.starts, 3); /* as many as everywhere */
        memset(r->fused, 0, r->plan.floats * sizeof(float));
        settle_other(false);
    }
    step_well(1);
}
END_TEST

/* A single rank sends nothing, and gets its own residuals. */
START_TEST(who_is_left_alone_gets_what_it_has_kept)
{
    double kept;

    make_compressed(&codecs[3]);
    step_well(0);
    ps_reducer_settle(r, 1);
    kept = (double)r->sums[1].kept[100];
    ck_assert(kept != 0);
    fake.ranks = 1;
    fake.starts = 0;
    reducer_begin();
    for (size_t i = 6; i-- > 0;) {
        memset(ps_reducer_buffers(r)[i], 0, sizes[i] * sizeof(float));
        ps_reducer_ready(r, i);
    }
    ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
    ck_assert_uint_eq(fake.starts, 0);
    ck_assert(r->fused[r->plan.bucket[1].offset + 100] == (float)kept);
    ps_reducer_settle(r, 1);
    ck_assert_float_eq(r->sums[1].kept[100], 0);
}
END_TEST

START_TEST(compression_that_makes_no_sense_is_refused)
{
    static const struct ps_compress bad[] = {{.kind = PS_COMPRESS_KINDS}, {.kind = PS_COMPRESS_TOP_K, .fraction = 2}};
    struct ps_error error;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_reducer_options options = {.compress = bad[i]};

        ck_assert_int_eq(ps_reducer_new(group, 6, sizes, &options, &r, &error), PS_ERR_INVALID);
        ck_assert_int_eq(ps_reducer_new(NULL, 6, sizes, &options, &r, &error), PS_ERR_INVALID);
        r = NULL;
    }
}
END_TEST

/* ---- With a network ---- */

START_TEST(a_network_computes_into_it_and_buckets_go_during_the_backward_pass)
{
    const struct ps_layer layers[] = {
        {.kind = PS_LAYER_DENSE, .units = 40}, {.kind = PS_LAYER_RELU}, {.kind = PS_LAYER_DENSE, .units = 7}};
    struct ps_network_spec spec = {.rank = 1, .dims = {30}, .layers = 3, .layer = layers, .rows_max = 4};
    const float x[4 * 30] = {1, 2, 3, -4, 5};
    const uint32_t labels[4] = {0, 6, 2, 3};
    struct ps_batch batch = {.rows = 4, .x = x, .labels = labels};
    const uint64_t elements[] = {1200, 40, 280, 7};
    ps_network *network, *alone;
    ps_device *device;

    ck_assert_int_eq(ps_device_open("cpu", NULL, &device, NULL), PS_OK);
    ck_assert_int_eq(ps_network_new(device, &spec, &network, NULL), PS_OK);
    ck_assert_int_eq(ps_network_new(device, &spec, &alone, NULL), PS_OK);
    ps_network_initialize(network);
    ps_network_initialize(alone);
    reducer_make(4, elements, 1, 1);
    ps_network_place(network, NULL, ps_reducer_buffers(r));
    ps_network_on_ready(network, ps_reducer_ready, r);
    for (int step = 0; step < 2; step++) {
        reducer_begin();
        ck_assert_int_eq(ps_network_gradient(network, &batch, 0.25f, 0, NULL, NULL), PS_OK);
        ck_assert_int_eq(bucket_all_taken(&r->plan), 1);
        ck_assert_int_eq(ps_reducer_finish(r, NULL), PS_OK);
        ck_assert_int_eq(ps_network_gradient(alone, &batch, 0.25f, 0, NULL, NULL), PS_OK);
        for (size_t i = 0; i < 4; i++)
            for (size_t k = 0; k < elements[i]; k++)
                ck_assert_float_eq(ps_network_gradients(network)[i][k],
                                   (ps_network_gradients(alone)[i][k] +
                                    fake.other[ps_reducer_buffers(r)[i] + k - ps_reducer_buffers(r)[3]]) *
                                       0.5f);
    }
    ps_network_free(network);
    ps_network_free(alone);
    ps_device_close(device);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("reducer");
    TCase *tc = tcase_create("reducer");

    tcase_add_checked_fixture(tc, reducer_setup, reducer_teardown);
    tcase_add_test(tc, buckets_go_while_other_gradients_are_still_to_come);
    tcase_add_test(tc, buckets_go_in_their_order_whatever_is_ready_first);
    tcase_add_test(tc, a_gradient_that_never_came_counts_as_zero);
    tcase_add_test(tc, the_network_moves_with_every_gradient);
    tcase_add_test(tc, the_sum_can_be_had);
    tcase_add_loop_test(tc, one_rank_sends_nothing_and_keeps_its_gradients, 0, 2);
    tcase_add_test(tc, who_was_alone_has_company_after_the_next_forming);
    tcase_add_loop_test(tc, no_more_buckets_than_a_group_should_have_are_in_flight, 0, 2);
    tcase_add_test(tc, without_any_room_the_step_fails);
    tcase_add_loop_test(tc, a_failure_names_the_rank_and_the_next_step_can_follow, 0, 8);
    tcase_add_test(tc, a_wait_that_ends_before_its_work_is_begun_again);
    tcase_add_test(tc, who_frees_in_the_middle_of_a_step_waits_for_what_was_started);
    tcase_add_loop_test(tc, what_is_ready_twice_or_is_not_there_is_told_and_holds_nobody_up, 0, 2);
    tcase_add_test(tc, steps_begin_and_end_in_turn);
    tcase_add_test(tc, more_than_fits_is_refused);
    tcase_add_loop_test(tc, compressed_buckets_have_the_same_bits_everywhere_and_nothing_is_lost, 0, ARRAY_LEN(codecs));
    tcase_add_loop_test(tc, a_step_that_failed_leaves_nothing_behind, 0, ARRAY_LEN(codecs));
    tcase_add_loop_test(tc, a_program_may_know_better_whether_a_step_has_counted, 0, ARRAY_LEN(codecs));
    tcase_add_test(tc, a_gradient_that_is_not_finite_ends_the_step_when_all_buckets_have_gone);
    tcase_add_test(tc, who_is_left_alone_gets_what_it_has_kept);
    tcase_add_test(tc, compression_that_makes_no_sense_is_refused);
    tcase_add_test(tc, a_network_computes_into_it_and_buckets_go_during_the_backward_pass);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
