/* A message is judged by its head, before the rest of it has come; and what is refused there. */
#include "server/core/shard/message.h"

#include <string.h>

#include "server/core/shard_state.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/shard_fixture.h"

enum { UNKNOWN, NEWCOMER, OBSERVER, WORKER };

static void
message_connect(void)
{
    kit_open(&k, NEWCOMER);
    kit_observe(&k, OBSERVER);
    kit_join(&k, WORKER, kit_job("j", PSD__MODE__ASYNC, 1), 0);
}

static enum ps_err
message_judged(uint64_t conn, enum role role, unsigned type, uint32_t meta_len, uint64_t payload_len,
               struct ps_error *e)
{
    struct frame_head head = {.type = (uint16_t)type, .meta_len = meta_len, .payload_len = payload_len, .request = 1};

    return shard_head(k.shard, conn, &head, role, e);
}

START_TEST(what_may_come_is_let_in)
{
    static const struct {
        uint64_t conn;
        enum role role;
        unsigned type;
        uint32_t meta_len;
        uint64_t payload_len;
    } heads[] = {{NEWCOMER, ROLE_READ, MSG_HELLO, MESSAGE_META_NEW, 0},
                 {OBSERVER, ROLE_READ, MSG_PULL, FRAME_META_MAX, 0},
                 {OBSERVER, ROLE_ADMIN, MSG_SET, FRAME_META_MAX, 0},
                 {WORKER, ROLE_TRAIN, MSG_PUSH, FRAME_META_MAX, FRAME_PAYLOAD_MAX},
                 {WORKER, ROLE_TRAIN, MSG_DECLARE, FRAME_META_MAX, 0},
                 {WORKER, ROLE_TRAIN, MSG_TYPE_MAX, 64, 0}, /* of a later version */
                 {UNKNOWN, ROLE_READ, MSG_PUSH, 8, FRAME_PAYLOAD_MAX} /* it is being closed */};
    struct ps_error e;

    message_connect();
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        ck_assert_msg(message_judged(heads[i].conn, heads[i].role, heads[i].type, heads[i].meta_len,
                                     heads[i].payload_len, &e) == PS_OK,
                      "%zu: %s", i, e.text);
}
END_TEST

START_TEST(what_may_not_is_refused_with_a_sentence)
{
    static const struct {
        uint64_t conn;
        enum role role;
        unsigned type;
        uint32_t meta_len;
        uint64_t payload_len;
        enum ps_err code;
        const char *text;
    } heads[] = {
        {NEWCOMER, ROLE_TRAIN, MSG_PUSH, 8, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "a push is not allowed before"},
        {NEWCOMER, ROLE_TRAIN, MSG_HELLO, MESSAGE_META_NEW + 1, 0, PS_ERR_PROTOCOL, "the limit is 16384"},
        {NEWCOMER, ROLE_TRAIN, MSG_HELLO, 8, 4, PS_ERR_PROTOCOL, "a hello has no payload"},
        {OBSERVER, ROLE_READ, MSG_PUSH, 8, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "not allowed from an observer"},
        {OBSERVER, ROLE_TRAIN, MSG_SET, 8, 0, PS_ERR_DENIED, "a set takes role admin"},
        {OBSERVER, ROLE_TRAIN, MSG_EVICT, 8, 0, PS_ERR_DENIED, "an evict takes role admin"},
        {OBSERVER, ROLE_READ, MSG_PULL, 8, 4, PS_ERR_PROTOCOL,
         "a pull has no payload, and this one would have 4 bytes"},
        {WORKER, ROLE_READ, MSG_PUSH, 8, FRAME_PAYLOAD_MAX, PS_ERR_DENIED, "a push takes role train"},
        {WORKER, ROLE_TRAIN, MSG_WELCOME, 8, 0, PS_ERR_PROTOCOL, "a welcome is not allowed"},
        {WORKER, ROLE_TRAIN, MSG_GROUP_DATA, 8, 4, PS_ERR_PROTOCOL, "is not taken here"},
        {WORKER, ROLE_TRAIN, MSG_TYPE_MAX, MESSAGE_META_NEW + 1, 0, PS_ERR_PROTOCOL, "is not taken here"},
    };
    struct ps_error e;

    message_connect();
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        enum ps_err code =
            message_judged(heads[i].conn, heads[i].role, heads[i].type, heads[i].meta_len, heads[i].payload_len, &e);

        ck_assert_msg(code == heads[i].code, "%zu: %d", i, code);
        ck_assert_msg(strstr(e.text, heads[i].text) != NULL, "%zu: %s", i, e.text);
    }
    kit_expect_nothing(&k, NEWCOMER);
    kit_expect_nothing(&k, OBSERVER);
    kit_expect_nothing(&k, WORKER);
    ck_assert_uint_eq(k.shard->stats.bad_peers, 0);
}
END_TEST

/* A role that is too low, or a share that is used up, breaks no rule of the protocol. */
START_TEST(what_ends_a_connection_is_counted_as_what_it_is)
{
    static const struct {
        enum ps_err code;
        uint64_t denied, bad;
    } ends[] = {{PS_ERR_DENIED, 1, 0}, {PS_ERR_LIMIT, 0, 0}, {PS_ERR_PROTOCOL, 0, 1}};
    struct ps_error e;

    ps_error_set(&e, ends[_i].code, "the reason");
    message_connect();
    kit_event(&k, &(struct shard_event){.kind = SHARD_BROKEN, .conn = WORKER, .error = &e});
    kit_expect_closed(&k, WORKER, ends[_i].code);
    ck_assert_uint_eq(k.shard->stats.denied, ends[_i].denied);
    ck_assert_uint_eq(k.shard->stats.bad_peers, ends[_i].bad);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("message");
    TCase *tc = tcase_create("heads");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, what_may_come_is_let_in);
    tcase_add_test(tc, what_may_not_is_refused_with_a_sentence);
    tcase_add_loop_test(tc, what_ends_a_connection_is_counted_as_what_it_is, 0, 3);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
