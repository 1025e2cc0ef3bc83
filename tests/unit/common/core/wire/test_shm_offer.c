/* The two frames by which a connection agrees to share memory. */
#include "common/core/wire/shm_offer.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

static uint8_t frame[SHM_OFFER_FRAME_MAX];
static struct frame_head head;
static struct ps_error error;

static const uint8_t *
shm_offer_decoded(size_t len)
{
    ck_assert_int_eq(frame_head_decode(frame, &head, &error), PS_OK);
    ck_assert_uint_eq(len, FRAME_HEAD_SIZE + head.meta_len);
    return frame + FRAME_HEAD_SIZE;
}

START_TEST(offers_come_as_they_were_sent)
{
    struct shm_offer in = {.pid = 0x01020304, .fd = 7, .token = 0x1122334455667788}, out;
    static const uint8_t bytes[] = {4, 3, 2, 1, 7, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    const uint8_t *meta = shm_offer_decoded(shm_offer_encode(&in, frame));

    ck_assert_uint_eq(head.type, MSG_SHARE);
    ck_assert_mem_eq(meta, bytes, sizeof bytes);
    ck_assert_int_eq(shm_offer_decode(&head, meta, &out, &error), PS_OK);
    ck_assert(out.pid == in.pid && out.fd == in.fd && out.token == in.token);
}
END_TEST

START_TEST(answers_are_yes_or_no)
{
    for (int yes = 0; yes < 2; yes++) {
        const uint8_t *meta = shm_offer_decoded(shm_answer_encode(yes, frame));
        bool is = !yes;

        ck_assert_uint_eq(head.type, MSG_SHARED);
        ck_assert_int_eq(shm_answer_decode(&head, meta, &is, &error), PS_OK);
        ck_assert_int_eq(is, yes);
    }
    frame[FRAME_HEAD_SIZE] = 2;
    ck_assert_int_eq(shm_answer_decode(&head, frame + FRAME_HEAD_SIZE, &(bool){0}, &error), PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    static const struct shm_offer wrong[] = {{UINT32_MAX, 3, 1}, {3, UINT32_MAX, 1}, {3, 3, 0}};
    struct shm_offer out;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        const uint8_t *meta = shm_offer_decoded(shm_offer_encode(&wrong[i], frame));

        ck_assert_int_eq(shm_offer_decode(&head, meta, &out, &error), PS_ERR_PROTOCOL);
    }
    (void)shm_offer_decoded(shm_offer_encode(&(struct shm_offer){3, 3, 1}, frame));
    head.meta_len = 8;
    ck_assert_int_eq(shm_offer_decode(&head, frame + FRAME_HEAD_SIZE, &out, &error), PS_ERR_PROTOCOL);
    head.meta_len = 16;
    head.payload_len = 4;
    ck_assert_int_eq(shm_offer_decode(&head, frame + FRAME_HEAD_SIZE, &out, &error), PS_ERR_PROTOCOL);
    head.payload_len = 0;
    ck_assert_int_eq(shm_answer_decode(&head, frame + FRAME_HEAD_SIZE, &(bool){0}, &error), PS_ERR_PROTOCOL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("share_wire");
    TCase *t = tcase_create("share_wire");

    tcase_add_test(t, offers_come_as_they_were_sent);
    tcase_add_test(t, answers_are_yes_or_no);
    tcase_add_test(t, what_makes_no_sense_is_refused);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
