/* Frames through shared memory, with both sides of it here: which bytes are looked at and when, and the positions that
 * each side publishes. */
#include "common/net/frame_ring.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

#define RING   SHM_RING_MIN
#define EIGHTH (RING / 8)

static struct frame_ring a, b;
static struct frame_reader reader; /* b's */
static struct conn_queue queue;    /* a's */
static uv_loop_t loop;

static void
frame_ring_setup(void)
{
    struct shm_ring s, t;
    struct ps_error e;

    ck_assert_msg(shm_ring_make(&s, RING, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(shm_ring_find(&t, getpid(), s.fd, s.token, &e) == PS_OK, "%s", e.text);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    frame_ring_init(&a, &s);
    frame_ring_init(&b, &t);
    ck_assert(s.page == NULL && t.page == NULL); /* taken over */
    frame_reader_init(&reader);
    queue = (struct conn_queue){0};
}

static void
frame_ring_teardown(void)
{
    conn_queue_drop(&queue);
    frame_reader_finish(&reader);
    frame_ring_finish(&a);
    frame_ring_finish(&b);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void
queued_done(struct conn_out *out, enum ps_err result)
{
    (void)out;
    (void)result;
}

static uint8_t head[FRAME_HEAD_SIZE], payload[2 * RING];
static struct span part;
static struct conn_out out;

/* Into a's queue; returns its length in the stream. */
static size_t
queue_frame(size_t payload_len)
{
    frame_head_encode(
        &(struct frame_head){.version = FRAME_VERSION, .type = MSG_PING, .payload_len = (uint32_t)payload_len}, head);
    for (size_t i = 0; i < payload_len; i++)
        payload[i] = (uint8_t)(i * 7 + (i >> 8));
    part = (struct span){payload, payload_len};
    out = (struct conn_out){
        .done = queued_done, .head = head, .head_len = sizeof head, .parts = &part, .parts_len = payload_len > 0};
    conn_queue_append(&queue, &out);
    return sizeof head + payload_len + frame_pad(payload_len);
}

/* At most n bytes of the queue, into the ring. */
static size_t
frame_ring_fill_bytes(size_t n)
{
    size_t bytes;

    conn_queue_prepare(&queue, &loop);
    bytes = frame_ring_fill(&a, &queue, MIN(n, frame_ring_room(&a, 1)), NULL, NULL);
    conn_queue_take(&queue, bytes);
    return bytes;
}

START_TEST(a_frame_that_fits_half_a_ring_is_there_whole_or_not_at_all)
{
    static const size_t lengths[] = {4, 1000, RING / 2 - FRAME_HEAD_SIZE};
    size_t len = queue_frame(lengths[_i]);
    struct frame_ripe ripe;

    ck_assert_uint_eq(frame_ring_next(&b, &reader, &ripe), 0);
    ck_assert_uint_eq(frame_ring_fill_bytes(FRAME_HEAD_SIZE - 1), FRAME_HEAD_SIZE - 1);
    ck_assert_uint_eq(frame_ring_next(&b, &reader, &ripe), 0);
    ck_assert_uint_eq(frame_ring_fill_bytes(len - FRAME_HEAD_SIZE), len - FRAME_HEAD_SIZE);
    ck_assert_uint_eq(frame_ring_next(&b, &reader, &ripe), 0);
    ck_assert(frame_ring_sleep(&b, &reader, SHM_RING_DATA)); /* the last byte wakes it */
    ck_assert_uint_eq(frame_ring_fill_bytes(SIZE_MAX), 1);
    ck_assert(shm_ring_notify(&a.shm, SHM_RING_DATA));
    ck_assert(!frame_ring_sleep(&b, &reader, SHM_RING_DATA));
    ck_assert_uint_eq(frame_ring_next(&b, &reader, &ripe), len);
    ck_assert(ripe.whole && ripe.head.type == MSG_PING && ripe.head.payload_len == lengths[_i]);
    ck_assert_mem_eq(shm_ring_out(&b.shm) + FRAME_HEAD_SIZE, payload, lengths[_i]);
}
END_TEST

START_TEST(a_larger_frame_comes_in_pieces)
{
    size_t len = queue_frame(RING + 1004), done = 0;
    enum frame_event event = FRAME_MORE;

    while (done < len) {
        struct frame_ripe ripe;
        size_t n, used;

        (void)frame_ring_fill_bytes(SIZE_MAX);
        n = frame_ring_next(&b, &reader, &ripe);
        ck_assert(n > 0 && n <= RING && !ripe.whole);
        for (size_t fed = 0; fed < n; fed += used)
            event = frame_feed(&reader, shm_ring_out(&b.shm) + fed, n - fed, &used);
        (void)!frame_ring_taken(&b, n);
        done += n;
    }
    ck_assert_uint_eq(done, len);
    ck_assert_int_eq(event, FRAME_WHOLE);
    ck_assert_mem_eq(reader.payload, payload, RING + 1004);
}
END_TEST

START_TEST(a_head_that_is_wrong_is_the_readers_to_name)
{
    struct frame_ripe ripe;
    size_t used;

    memset(shm_ring_in(&a.shm), 'x', 1000);
    ck_assert_uint_ge(frame_ring_room(&a, 1000), 1000);
    frame_ring_put(&a, 1000);
    ck_assert_uint_eq(frame_ring_next(&b, &reader, &ripe), FRAME_HEAD_SIZE);
    ck_assert(!ripe.whole);
    ck_assert_int_eq(frame_feed(&reader, shm_ring_out(&b.shm), FRAME_HEAD_SIZE, &used), FRAME_BAD);
}
END_TEST

START_TEST(room_is_looked_for_when_what_is_known_is_too_little)
{
    ck_assert_uint_eq(frame_ring_room(&a, 1), RING);
    frame_ring_put(&a, RING - 100);
    ck_assert(frame_ring_drop(&b)); /* all is free again */
    ck_assert(!frame_ring_drop(&b));
    ck_assert_uint_eq(frame_ring_room(&a, 100), 100);
    ck_assert_uint_eq(frame_ring_room(&a, 101), RING);
}
END_TEST

START_TEST(what_was_read_is_told_by_eighths)
{
    ck_assert_uint_eq(frame_ring_room(&a, 1), RING);
    frame_ring_put(&a, RING);
    ck_assert(!frame_ring_taken(&b, EIGHTH - 8));
    ck_assert_uint_eq(frame_ring_room(&a, 1), 0);
    ck_assert(frame_ring_taken(&b, 8));
    ck_assert_uint_eq(frame_ring_room(&a, 1), EIGHTH);
    ck_assert(!frame_ring_taken(&b, 8));
    ck_assert(frame_ring_drop(&b)); /* the 8, and the rest */
    ck_assert_uint_eq(frame_ring_room(&a, RING), RING);
}
END_TEST

START_TEST(positions_that_cannot_be_are_noticed_by_both)
{
    struct frame_ripe ripe;

    shm_ring_put(&a.shm, RING + 1);
    ck_assert(frame_ring_next(&b, &reader, &ripe) == SIZE_MAX);
    ck_assert(!frame_ring_sleep(&b, &reader, SHM_RING_DATA));
    ck_assert(!frame_ring_drop(&b));
    ck_assert(frame_ring_room(&a, 1) == SIZE_MAX);
    ck_assert_uint_eq(a.room, 0);
}
END_TEST

static void
copy_counted(void *arg, void *to, const void *from, size_t n)
{
    size_t *calls = arg;

    ++*calls;
    memcpy(to, from, n);
}

START_TEST(the_owner_may_copy_by_itself)
{
    size_t len = queue_frame(1000), calls = 0;

    conn_queue_prepare(&queue, &loop);
    ck_assert_uint_eq(frame_ring_fill(&a, &queue, frame_ring_room(&a, RING), copy_counted, &calls), len);
    conn_queue_take(&queue, len);
    ck_assert_uint_eq(calls, 2); /* head and payload */
    ck_assert_mem_eq(shm_ring_out(&b.shm), head, sizeof head);
    ck_assert_mem_eq(shm_ring_out(&b.shm) + sizeof head, payload, 1000);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("frame_ring");
    TCase *t = tcase_create("frame_ring");

    tcase_add_checked_fixture(t, frame_ring_setup, frame_ring_teardown);
    tcase_add_loop_test(t, a_frame_that_fits_half_a_ring_is_there_whole_or_not_at_all, 0, 3);
    tcase_add_test(t, a_larger_frame_comes_in_pieces);
    tcase_add_test(t, a_head_that_is_wrong_is_the_readers_to_name);
    tcase_add_test(t, room_is_looked_for_when_what_is_known_is_too_little);
    tcase_add_test(t, what_was_read_is_told_by_eighths);
    tcase_add_test(t, positions_that_cannot_be_are_noticed_by_both);
    tcase_add_test(t, the_owner_may_copy_by_itself);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
