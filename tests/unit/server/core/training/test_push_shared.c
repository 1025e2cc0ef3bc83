/* Gradients in memory that the peer can write while they are looked at (shared memory): what was checked is what is
 * used. A thread writes all the time, to the same bytes as a peer would.
 *
 * Whatever it writes when: an update that was acknowledged is finite, and a block norm is no larger than the limit. */
#include "tests/unit/kits/shard_kit.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ELEMENTS = 60000, SGD_LEN = 16384, ADAM_LEN = 21840, PUSHES = 500 }; /* _LEN: of block 0 */

static struct kit k;

/* ---- The peer ---- */

static struct push_shared_peer {
    pthread_t thread;
    atomic_bool stop;
    volatile float *gradient; /* [ELEMENTS] */
    float good, bad;
} peer;

/* Good values, some bad ones, good ones again: a check finds the first as often as a use the second. */
static void *
push_shared_write(void *arg)
{
    (void)arg;
    while (!atomic_load(&peer.stop))
        for (int bad = 0; bad < 2; bad++)
            for (size_t i = 0; i < ELEMENTS; i += 50)
                peer.gradient[i] = bad ? peer.bad : peer.good;
    return NULL;
}

static float *
push_shared_begin(float good, float bad)
{
    float *gradient = aligned_alloc(64, ELEMENTS * sizeof *gradient);

    ck_assert_ptr_nonnull(gradient);
    for (size_t i = 0; i < ELEMENTS; i++)
        gradient[i] = good;
    peer.gradient = gradient;
    peer.good = good;
    peer.bad = bad;
    atomic_store(&peer.stop, false);
    ck_assert_int_eq(pthread_create(&peer.thread, NULL, push_shared_write, NULL), 0);
    return gradient;
}

static void
push_shared_end(float *gradient)
{
    atomic_store(&peer.stop, true);
    pthread_join(peer.thread, NULL);
    free(gradient);
}

/* ---- What it may not do ---- */

static const struct {
    const char *optimizer;
    Psd__Mode mode;
    size_t len;
} shared_ways[] = {
    {"sgd:learning_rate=1", PSD__MODE__ASYNC, SGD_LEN},
    {"adam:learning_rate=1", PSD__MODE__ASYNC, ADAM_LEN},
    {"sgd:learning_rate=1,clip=value,limit=1", PSD__MODE__ASYNC, SGD_LEN},
    {"sgd:learning_rate=1,clip=block_norm,limit=1", PSD__MODE__ASYNC, SGD_LEN},
    {"sgd:learning_rate=1", PSD__MODE__SYNC, SGD_LEN},
    {"adam:learning_rate=1,clip=block_norm,limit=1", PSD__MODE__SYNC, ADAM_LEN},
};

static uint32_t
push_shared_declare(const char *text)
{
    struct ps_optimizer optimizer;
    struct ps_error e;

    ck_assert_msg(ps_optimizer_parse(text, &optimizer, &e) == PS_OK, "%s", e.text);
    return kit_declare_with(&k, 1, "w", ELEMENTS, &optimizer);
}

START_TEST(no_nan_that_was_written_meanwhile_is_in_weights)
{
    static float out[ELEMENTS];
    float *gradient;
    size_t len = shared_ways[_i].len;
    uint32_t var;

    kit_init(&k, NULL);
    k.unstable = true;
    kit_join(&k, 1, kit_job("j", shared_ways[_i].mode, 1), 0);
    var = push_shared_declare(shared_ways[_i].optimizer);
    gradient = push_shared_begin(1e-3f, NAN);
    for (uint64_t seq = 1, clock = 0; seq < 2 * PUSHES; seq += 2, clock++) {
        size_t finite = 0;

        kit_push(&k, 1, &(struct kit_push){.seq = seq, .clock = clock, .var = var, .gradient = gradient, .len = len});
        kit_tick(&k, 1, seq + 1, clock + 1);
        kit_drop_answers(&k, 1);
        kit_read(&k, 1, var, 0, out, len);
        for (size_t i = 0; i < len; i++)
            finite += isfinite(out[i]) != 0;
        ck_assert_msg(finite == len, "%s: %zu of %zu weights are finite", shared_ways[_i].optimizer, finite, len);
    }
    push_shared_end(gradient);
    kit_finish(&k);
}
END_TEST

/* The norm is taken first, and the gradient scaled by it. */
START_TEST(a_block_norm_is_of_what_is_applied)
{
    static float before[ELEMENTS], after[ELEMENTS];
    float *gradient;
    uint32_t var;

    kit_init(&k, NULL);
    k.unstable = true;
    kit_join(&k, 1, kit_job("j", PSD__MODE__ASYNC, 1), 0);
    var = push_shared_declare("sgd:learning_rate=1,clip=block_norm,limit=1");
    gradient = push_shared_begin(1e-6f, 1e3f);
    for (uint64_t seq = 1; seq < PUSHES; seq++) {
        double sum = 0;

        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = gradient, .len = SGD_LEN});
        kit_ack(&k, 1, seq, PS_OK);
        kit_read(&k, 1, var, 0, after, SGD_LEN);
        for (size_t i = 0; i < SGD_LEN; i++)
            sum += pow((double)after[i] - (double)before[i], 2);
        ck_assert_msg(sqrt(sum) < 1.01, "an update of norm %g", sqrt(sum));
        memcpy(before, after, sizeof before);
    }
    push_shared_end(gradient);
    kit_finish(&k);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("push_shared");
    TCase *tc = tcase_create("push_shared");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, no_nan_that_was_written_meanwhile_is_in_weights, 0, (int)ARRAY_LEN(shared_ways));
    tcase_add_test(tc, a_block_norm_is_of_what_is_applied);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
