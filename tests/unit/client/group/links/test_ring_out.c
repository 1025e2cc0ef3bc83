/* Frames into a ring, with both ends of it here: at once where there is room, in their order where there is not. */
#include "client/group/links/ring_out.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

#define FRAMES 6

static struct frame_ring from;
static struct shm_ring to;
static struct bell bell; /* without a connection: no side sleeps */
static struct copy_policy copying;
static struct ring_out ring;
static uv_loop_t loop;

/* A frame, and its outcome. */
static struct sent {
    struct rank_link_out out;
    struct conn_out queued;
    uint8_t head[FRAME_HEAD_SIZE];
    struct span payload;
    int done;
    enum ps_err result;
} sent[FRAMES];

static uint8_t bytes[FRAMES][SHM_RING_MIN];

static void
ring_out_setup(void)
{
    struct shm_ring made;
    struct ps_error e;

    ck_assert_msg(shm_ring_make(&made, SHM_RING_MIN, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(shm_ring_find(&to, getpid(), made.fd, made.token, &e) == PS_OK, "%s", e.text);
    frame_ring_init(&from, &made);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    bell_init(&bell, &from.shm, NULL);
    ring_out_init(&ring, &from, &bell, &copying, &loop);
    for (int i = 0; i < FRAMES; i++)
        memset(bytes[i], 'a' + i, sizeof bytes[i]);
}

static void
ring_out_teardown(void)
{
    conn_queue_drop(&ring.queue);
    frame_ring_finish(&from);
    shm_ring_finish(&to);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void
queued_done(struct conn_out *o, enum ps_err result)
{
    struct sent *s = CONTAINER_OF(o, struct sent, queued);

    s->done++;
    s->result = result;
}

/* As a link does it. False: it waits. */
static bool
send_frame(int i, size_t len)
{
    struct sent *s = &sent[i];

    *s = (struct sent){.payload = {bytes[i], len}};
    memset(s->head, 'A' + i, sizeof s->head);
    s->out = (struct rank_link_out){.head = s->head, .head_len = sizeof s->head, .parts = &s->payload, .parts_len = 1};
    if (ring_out_at_once(&ring, &s->out))
        return true;
    s->queued = (struct conn_out){
        .done = queued_done, .head = s->head, .head_len = sizeof s->head, .parts = &s->payload, .parts_len = 1};
    conn_queue_append(&ring.queue, &s->queued);
    return false;
}

static size_t
frame_bytes(size_t len)
{
    return FRAME_HEAD_SIZE + len + frame_pad(len);
}

/* The next bytes of the ring are those of this frame, from `at` on; up to n of them. Returns how many there were. */
static size_t
ring_out_take(int i, size_t len, size_t at, size_t n)
{
    size_t filled = MIN(shm_ring_filled(&to), MIN(n, frame_bytes(len) - at));
    const uint8_t *data = shm_ring_out(&to);

    for (size_t k = 0; k < filled; k++) {
        size_t place = at + k;
        int want = place < FRAME_HEAD_SIZE ? 'A' + i : place < FRAME_HEAD_SIZE + len ? 'a' + i : 0;

        ck_assert_int_eq(data[k], want);
    }
    shm_ring_take(&to, filled);
    return filled;
}

START_TEST(a_frame_with_room_is_there_at_once)
{
    const size_t len = (size_t)_i;

    ck_assert(send_frame(0, len));
    ck_assert_uint_eq(shm_ring_filled(&to), frame_bytes(len));
    ck_assert(ring.unrung);
    ring_out_flush(&ring);
    ck_assert(!ring.unrung);
    ck_assert(send_frame(1, len));
    ck_assert_uint_eq(ring_out_take(0, len, 0, SIZE_MAX), frame_bytes(len));
    ck_assert_uint_eq(ring_out_take(1, len, 0, SIZE_MAX), frame_bytes(len));
    ck_assert(!ring_out_write(&ring)); /* nothing waits */
}
END_TEST

/* Each is larger than half the ring, so that none but the first has room; the reader takes a little at a time. */
START_TEST(frames_that_wait_follow_in_their_order)
{
    const size_t len = SHM_RING_MIN / 2 + 1001;

    ck_assert(send_frame(0, len));
    for (int i = 1; i < FRAMES; i++)
        ck_assert(!send_frame(i, len));
    for (int i = 0; i < FRAMES; i++)
        for (size_t at = 0, n; at < frame_bytes(len); at += n) {
            (void)ring_out_write(&ring);
            n = ring_out_take(i, len, at, 7001);
            ck_assert_uint_gt(n, 0);
        }
    ck_assert_uint_eq(shm_ring_filled(&to), 0);
    for (int i = 1; i < FRAMES; i++) {
        ck_assert_int_eq(sent[i].done, 1);
        ck_assert_int_eq(sent[i].result, PS_OK);
    }
}
END_TEST

/* A small one that had room does not pass one that waits. */
START_TEST(nothing_passes_what_waits)
{
    ck_assert(send_frame(0, SHM_RING_MIN / 2));
    ck_assert(!send_frame(1, SHM_RING_MIN / 2));
    ck_assert(!send_frame(2, 8));
    ck_assert_uint_eq(ring_out_take(0, SHM_RING_MIN / 2, 0, SIZE_MAX), frame_bytes(SHM_RING_MIN / 2));
    ck_assert(ring_out_write(&ring));
    ck_assert_uint_eq(ring_out_take(1, SHM_RING_MIN / 2, 0, SIZE_MAX), frame_bytes(SHM_RING_MIN / 2));
    ck_assert_uint_eq(ring_out_take(2, 8, 0, SIZE_MAX), frame_bytes(8));
}
END_TEST

/* So that the stream stays in step, and a last frame can follow. */
START_TEST(cut_leaves_the_rest_of_what_has_begun)
{
    const size_t len = SHM_RING_MIN - 16; /* with its head more than the ring has */
    size_t at;

    ck_assert(!send_frame(0, len));
    ck_assert(!send_frame(1, len));
    ck_assert(ring_out_write(&ring));
    ck_assert_uint_gt(shm_ring_filled(&to), 0);
    ck_assert(ring_out_cut(&ring));
    ck_assert_int_eq(sent[0].result, PS_ERR_CANCELLED);
    ck_assert_int_eq(sent[1].result, PS_ERR_CANCELLED);
    ck_assert(!send_frame(2, 8));
    at = ring_out_take(0, len, 0, SIZE_MAX);
    ck_assert(ring_out_write(&ring));
    at += ring_out_take(0, len, at, SIZE_MAX);
    ck_assert_uint_eq(at, frame_bytes(len));
    ck_assert_uint_eq(ring_out_take(2, 8, 0, SIZE_MAX), frame_bytes(8));
    ck_assert(!ring.mute);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("ring_out");
    TCase *t = tcase_create("ring");

    tcase_add_checked_fixture(t, ring_out_setup, ring_out_teardown);
    tcase_add_loop_test(t, a_frame_with_room_is_there_at_once, 0, 9);
    tcase_add_test(t, frames_that_wait_follow_in_their_order);
    tcase_add_test(t, nothing_passes_what_waits);
    tcase_add_test(t, cut_leaves_the_rest_of_what_has_begun);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
