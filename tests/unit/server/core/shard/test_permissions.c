/* The permissions of roles: the table, and the shard's use of it. */
#include "server/core/shard/permissions.h"

#include <string.h>

#include "server/core/shard_state.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/shard_fixture.h"

/* A copy of message_list.h's table, on purpose: an unintended change there shows here. */
static const struct {
    enum msg_type type;
    enum role least;
} table[] = {
    {MSG_HELLO, ROLE_READ},     {MSG_WELCOME, ROLE_NONE},      {MSG_DECLARE, ROLE_TRAIN},
    {MSG_DECLARED, ROLE_NONE},  {MSG_PULL, ROLE_READ},         {MSG_DATA, ROLE_NONE},
    {MSG_PUSH, ROLE_TRAIN},     {MSG_ACK, ROLE_NONE},          {MSG_TICK, ROLE_TRAIN},
    {MSG_BARRIER, ROLE_TRAIN},  {MSG_SKIP, ROLE_TRAIN},        {MSG_CANCEL, ROLE_READ},
    {MSG_QUERY, ROLE_READ},     {MSG_REPORT, ROLE_NONE},       {MSG_PING, ROLE_READ},
    {MSG_PONG, ROLE_NONE},      {MSG_ERROR, ROLE_NONE},        {MSG_EVENT, ROLE_NONE},
    {MSG_GOODBYE, ROLE_READ},   {MSG_SET, ROLE_ADMIN},         {MSG_SET_DONE, ROLE_NONE},
    {MSG_DRAIN, ROLE_ADMIN},    {MSG_ATTACH, ROLE_READ},       {MSG_SAVE, ROLE_TRAIN},
    {MSG_SAVE_DONE, ROLE_NONE}, {MSG_CHECKPOINT, ROLE_TRAIN},  {MSG_CHECKPOINT_DONE, ROLE_NONE},
    {MSG_RESTORE, ROLE_ADMIN},  {MSG_RESTORE_DONE, ROLE_NONE}, {MSG_MEET, ROLE_TRAIN},
    {MSG_MEETING, ROLE_NONE},   {MSG_MET, ROLE_NONE},          {MSG_EVICT, ROLE_ADMIN},
    {MSG_EVICTED, ROLE_NONE},   {MSG_DEFINE, ROLE_TRAIN},      {MSG_DEFINED, ROLE_NONE},
    {MSG_DROP, ROLE_ADMIN},     {MSG_DROPPED, ROLE_NONE},      {MSG_ASSIGN, ROLE_TRAIN},
    {MSG_ASSIGNED, ROLE_NONE},
};

static_assert(ARRAY_LEN(table) == MESSAGES, "a row for each message");

START_TEST(every_message_is_decided)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        ck_assert_msg(permissions_of(table[i].type) == table[i].least, "type %d", table[i].type);
    ck_assert_int_eq(permissions_of(MSG_NONE), ROLE_NONE);
    ck_assert_int_eq(permissions_of(MSG_GROUP_HELLO), ROLE_NONE);
    ck_assert_int_eq(permissions_of(UINT16_MAX), ROLE_NONE);
}
END_TEST

START_TEST(who_may_read_asks_and_changes_nothing)
{
    Psd__Query query = PSD__QUERY__INIT;
    Psd__Set set = PSD__SET__INIT;
    struct kit_answer *a;

    kit_observe(&k, 1);
    k.role = ROLE_READ;
    kit_frame(&k, 1, MSG_QUERY, 5, &query.base, NULL, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_REPORT));
    set.job = (char *)"j";
    kit_frame(&k, 1, MSG_SET, 6, &set.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_DENIED);
    ck_assert_uint_eq(a->msg.request, 6);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "a set takes role admin, and this connection has role read"));
    kit_answer_free(a);
    ck_assert(!k.closed[1]);
    ck_assert_uint_eq(k.shard->stats.denied, 1);
}
END_TEST

START_TEST(a_drain_without_the_right_ends_the_connection_and_nothing_else)
{
    Psd__Drain drain = PSD__DRAIN__INIT;

    kit_observe(&k, 1);
    k.role = ROLE_TRAIN;
    kit_frame(&k, 1, MSG_DRAIN, 0, &drain.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_DENIED);
    ck_assert(!k.draining && !k.stopped);
}
END_TEST

START_TEST(who_may_only_read_is_no_worker)
{
    Psd__Job *job = kit_job("j", PSD__MODE__ASYNC, 1);

    k.role = ROLE_READ;
    kit_hello(&k, 1, &(struct kit_hello){.job = job});
    kit_expect_closed(&k, 1, PS_ERR_DENIED);
    ck_assert_uint_eq(k.shard->jobs_len, 0);
}
END_TEST

START_TEST(a_role_that_is_too_low_is_said_where_another_client_would_send_such_a_message)
{
    Psd__Declare declare = PSD__DECLARE__INIT;
    Psd__Evict evict = PSD__EVICT__INIT;
    struct kit_answer *a;

    kit_observe(&k, 1);
    k.role = ROLE_READ;
    kit_frame(&k, 1, MSG_DECLARE, 5, &declare.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_DENIED);
    ck_assert_uint_eq(a->msg.request, 5);
    kit_answer_free(a);
    k.role = ROLE_TRAIN;
    kit_hello(&k, 2, &(struct kit_hello){.job = kit_job("j", PSD__MODE__ASYNC, 1)});
    kit_answer_free(kit_expect(&k, 2, MSG_WELCOME));
    evict.job = (char *)"j";
    kit_frame(&k, 2, MSG_EVICT, 6, &evict.base, NULL, 0);
    a = kit_expect(&k, 2, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_DENIED);
    ck_assert_uint_eq(a->msg.request, 6);
    kit_answer_free(a);
    ck_assert(!k.closed[1] && !k.closed[2]);
}
END_TEST

START_TEST(a_push_of_an_observer_without_the_right_ends_its_connection_with_denied)
{
    Psd__Push push = PSD__PUSH__INIT;

    kit_observe(&k, 1);
    k.role = ROLE_READ;
    kit_frame(&k, 1, MSG_PUSH, 5, &push.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_DENIED);
}
END_TEST

START_TEST(a_message_of_workers_from_an_observer_with_the_right_breaks_the_protocol)
{
    Psd__Declare declare = PSD__DECLARE__INIT;

    kit_observe(&k, 1);
    kit_frame(&k, 1, MSG_DECLARE, 5, &declare.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(before_the_hello_no_role_counts)
{
    Psd__Set set = PSD__SET__INIT;

    kit_open(&k, 1);
    k.role = ROLE_READ;
    kit_frame(&k, 1, MSG_SET, 5, &set.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(who_has_no_role_may_do_nothing)
{
    Psd__Hello hello = PSD__HELLO__INIT;

    kit_open(&k, 1);
    hello.role = PSD__ROLE__OBSERVER;
    k.role = ROLE_NONE;
    kit_frame(&k, 1, MSG_HELLO, 1, &hello.base, NULL, 0);
    kit_expect_closed(&k, 1, PS_ERR_DENIED);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("rights");
    TCase *t = tcase_create("rights");

    tcase_add_checked_fixture(t, shard_setup_durable, shard_teardown);
    tcase_add_test(t, every_message_is_decided);
    tcase_add_test(t, who_may_read_asks_and_changes_nothing);
    tcase_add_test(t, a_drain_without_the_right_ends_the_connection_and_nothing_else);
    tcase_add_test(t, who_may_only_read_is_no_worker);
    tcase_add_test(t, a_role_that_is_too_low_is_said_where_another_client_would_send_such_a_message);
    tcase_add_test(t, a_push_of_an_observer_without_the_right_ends_its_connection_with_denied);
    tcase_add_test(t, a_message_of_workers_from_an_observer_with_the_right_breaks_the_protocol);
    tcase_add_test(t, before_the_hello_no_role_counts);
    tcase_add_test(t, who_has_no_role_may_do_nothing);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
