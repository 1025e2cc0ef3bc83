#include "client/tools/psrun/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

/* ---- orders ---- */

static void
make_order(struct remote_order *o)
{
    char all[256];

    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    *o = (struct remote_order){.dir = strlist_need(strdup("/home/ada lovelace")),
                               .remove_dir = strlist_need(strdup("")),
                               .shard = true,
                               .silence_ms = 60000,
                               .memory_shards = 3,
                               .workers = 4};
    strlist_add(&o->dirs, "/dev/shm/x");
    strlist_add(&o->env, "ALL=%s", all);
    strlist_add(&o->env, "EMPTY=");
    strlist_add(&o->argv, "%s", "");
    strlist_add(&o->argv, "--name=%s", all);
    strlist_add(&o->argv, "%s", "");
}

static void
same_words(const struct strlist *a, const struct strlist *b)
{
    ck_assert_uint_eq(a->len, b->len);
    for (size_t i = 0; i < a->len; i++)
        ck_assert_str_eq(a->text[i], b->text[i]);
}

START_TEST(an_order_arrives_as_it_was_sent)
{
    struct remote_order sent, got;
    size_t len, used;
    char *bytes;

    make_order(&sent);
    bytes = remote_order_pack(&sent, &len);
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(remote_order_unpack(bytes, n, &got, &used, NULL), PS_OK);
        ck_assert_uint_eq(used, 0);
    }
    bytes = strlist_alloc(bytes, len + 1, 1);
    bytes[len] = REMOTE_STOP; /* the bytes after it are not part of the order */
    ck_assert_int_eq(remote_order_unpack(bytes, len + 1, &got, &used, NULL), PS_OK);
    ck_assert_uint_eq(used, len);
    ck_assert_str_eq(got.dir, sent.dir);
    ck_assert_str_eq(got.remove_dir, sent.remove_dir);
    ck_assert(got.shard && !got.hold);
    ck_assert_uint_eq(got.silence_ms, 60000);
    ck_assert_uint_eq(got.memory_shards, 3);
    ck_assert_uint_eq(got.workers, 4);
    same_words(&got.dirs, &sent.dirs);
    same_words(&got.env, &sent.env);
    same_words(&got.argv, &sent.argv);
    remote_order_finish(&got);
    remote_order_finish(&sent);
    free(bytes);
}
END_TEST

/* Bytes that are no order, with their length before them. */
static const struct {
    const char *bytes;
    size_t len;
} wrong_orders[] = {
#define BYTES(text)                                                                                                    \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }
    BYTES(""),
    BYTES("/"),
    BYTES("/\0\0"),
    BYTES("/\0\0what\0"),
    BYTES("/\0\0"
          "0 0 1 0 0 0 0 0\0"), /* no argv */
    BYTES("/\0\0"
          "0 0 1 0 0 0 0 2\0true\0"), /* one too few */
    BYTES("/\0\0"
          "0 0 1 0 0 0 0 1\0true\0more\0"), /* one too many */
    BYTES("/\0\0"
          "0 0 1 0 0 4294967295 0 1\0true\0"), /* more than there are */
    BYTES("/\0\0"
          "0 0 1 0 0 0 0 1\0true"), /* without its end */
};

START_TEST(what_is_no_order_is_refused)
{
    char bytes[128] = {(char)wrong_orders[_i].len};
    struct remote_order got;
    size_t used;

    memcpy(bytes + 4, wrong_orders[_i].bytes, wrong_orders[_i].len);
    ck_assert_int_eq(remote_order_unpack(bytes, wrong_orders[_i].len + 4, &got, &used, NULL), PS_ERR_PROTOCOL);
    remote_order_finish(&got);
}
END_TEST

START_TEST(an_order_that_is_too_large_is_refused)
{
    struct remote_order got;
    size_t used;

    ck_assert_int_eq(remote_order_unpack("\1\0\0\1", 4, &got, &used, NULL), PS_ERR_PROTOCOL);
    remote_order_finish(&got);
}
END_TEST

/* ---- frames ---- */

/* All output of a reader, as text. */
struct remote_heard {
    struct remote_reader reader;
    char text[1024];
};

static void
hear_frame(void *arg, const struct remote_header *h, const char *body)
{
    struct remote_heard *heard = arg;
    size_t at = strlen(heard->text);

    ck_assert_uint_eq(strlen(body), h->len);
    snprintf(heard->text + at, sizeof heard->text - at, "[%c%u%u %s]", (char)h->kind, h->a, h->b, body);
}

static void
hear_noise(void *arg, const char *bytes, size_t len)
{
    struct remote_heard *heard = arg;
    size_t at = strlen(heard->text);

    snprintf(heard->text + at, sizeof heard->text - at, "%.*s", (int)len, bytes);
}

static void
listen_to(struct remote_heard *heard)
{
    *heard = (struct remote_heard){.reader = {.frame = hear_frame, .noise = hear_noise, .arg = heard}};
}

static size_t
add_frame(char *out, enum remote_kind kind, uint8_t a, uint8_t b, const char *body)
{
    struct remote_header h = {.kind = kind, .a = a, .b = b, .len = (uint32_t)strlen(body)};

    remote_header_pack(&h, (uint8_t *)out);
    memcpy(out + REMOTE_HEADER_SIZE, body, h.len);
    return REMOTE_HEADER_SIZE + h.len;
}

/* A login shell's greeting, half a hello, the hello, and frames. */
static size_t
say_all(char *out)
{
    size_t len = (size_t)sprintf(out, "welcome\n\001psrun" REMOTE_HELLO);

    len += add_frame(out + len, REMOTE_OUTPUT, 1, 0, "a line");
    len += add_frame(out + len, REMOTE_OUTPUT, 0, 1, "");
    return len + add_frame(out + len, REMOTE_READY, 0, 0, "127.0.0.1:7420");
}

START_TEST(frames_are_heard_however_they_are_cut)
{
    char bytes[256];
    size_t len = say_all(bytes);

    for (size_t step = 1; step <= len; step++) {
        struct remote_heard heard;

        listen_to(&heard);
        for (size_t at = 0; at < len; at += step)
            ck_assert_int_eq(remote_read(&heard.reader, bytes + at, MIN(step, len - at), NULL), PS_OK);
        ck_assert_str_eq(heard.text, "welcome\n\001psrun[o10 a line][o01 ][r00 127.0.0.1:7420]");
        ck_assert(heard.reader.hello);
        remote_reader_finish(&heard.reader);
    }
}
END_TEST

START_TEST(an_agent_that_talks_nonsense_is_not_listened_to)
{
    static const char *const nonsense[] = {"xxxxxxxx", "o\0\0\0\1\0\x10\0", "\0\0\0\0\0\0\0\0"};
    struct remote_heard heard;

    listen_to(&heard);
    ck_assert_int_eq(remote_read(&heard.reader, REMOTE_HELLO, strlen(REMOTE_HELLO), NULL), PS_OK);
    ck_assert_int_eq(remote_read(&heard.reader, nonsense[_i], 8, NULL), PS_ERR_PROTOCOL);
    ck_assert_str_eq(heard.text, "");
    remote_reader_finish(&heard.reader);
}
END_TEST

START_TEST(an_end_arrives_as_it_was_sent)
{
    struct remote_end sent = {.pid = 4711, .status = 139 | 0x80, .failure = -2}, got;
    uint8_t body[REMOTE_END_SIZE];

    remote_end_pack(&sent, body);
    ck_assert_int_eq(remote_end_unpack((char *)body, sizeof body, &got, NULL), PS_OK);
    ck_assert_int_eq(got.pid, sent.pid);
    ck_assert_int_eq(got.status, sent.status);
    ck_assert_int_eq(got.failure, sent.failure);
    ck_assert_int_eq(remote_end_unpack((char *)body, sizeof body - 1, &got, NULL), PS_ERR_PROTOCOL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("remote");
    TCase *t = tcase_create("remote");

    tcase_add_test(t, an_order_arrives_as_it_was_sent);
    tcase_add_loop_test(t, what_is_no_order_is_refused, 0, ARRAY_LEN(wrong_orders));
    tcase_add_test(t, an_order_that_is_too_large_is_refused);
    tcase_add_test(t, frames_are_heard_however_they_are_cut);
    tcase_add_loop_test(t, an_agent_that_talks_nonsense_is_not_listened_to, 0, 3);
    tcase_add_test(t, an_end_arrives_as_it_was_sent);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
