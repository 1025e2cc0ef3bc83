/* Both sides of the proof, and attacks between them. */
#include "common/core/auth/token_handshake.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

#define SECRET "0123456789abcdef"

static struct keyring ring;
static struct key key;
static struct token_handshake_own ours, theirs; /* the connecting side; the listening side */
static struct token_handshake client, shard;
static struct {
    uint8_t bytes[TOKEN_HANDSHAKE_BINDING_MAX];
    size_t len;
} bindings[2];
static struct ps_error error;
static uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX], answer[TOKEN_HANDSHAKE_FRAME_MAX];
static size_t len;

static void
token_handshake_setup(void)
{
    static const char text[] = "a:train:" SECRET "\nb:read:" SECRET "\n";

    keyring_finish(&ring);
    memset(bindings, 0, sizeof bindings);
    ck_assert_int_eq(keyring_parse(&ring, "tokens", text, sizeof text - 1, &error), PS_OK);
    key = *keyring_find(&ring, "a");
    ours = (struct token_handshake_own){.cluster = "c", .nonce = {1, 2, 3}};
    theirs = (struct token_handshake_own){.cluster = "c", .nonce = {9, 8, 7}};
}

static void
token_handshake_begin(enum role wanted)
{
    token_handshake_connect(&client, &key, wanted, &ours);
    token_handshake_listen(&shard, &ring, &theirs);
    token_handshake_bind(&client, bindings[0].bytes, bindings[0].len);
    token_handshake_bind(&shard, bindings[1].bytes, bindings[1].len);
    len = token_handshake_knock(&client, frame);
}

/* The frame goes to one side; its answer is the next frame. */
static enum ps_err
token_handshake_give(struct token_handshake *to)
{
    struct frame_head head;
    size_t n;
    enum ps_err err;

    ck_assert_int_eq(frame_head_decode(frame, &head, &error), PS_OK);
    ck_assert_uint_eq(len, FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len));
    err = token_handshake_take(to, &head, frame + FRAME_HEAD_SIZE, answer, &n, &error);
    memcpy(frame, answer, n);
    len = n;
    return err;
}

/* All steps to the end, or to the first that fails. */
static enum ps_err
token_handshake_run(void)
{
    enum ps_err err;

    if ((err = token_handshake_give(&shard)) != PS_OK || (err = token_handshake_give(&client)) != PS_OK ||
        (err = token_handshake_give(&shard)) != PS_OK)
        return err;
    return token_handshake_give(&client);
}

/* The shard refuses with this, and the connecting side receives the same. */
static void
token_handshake_refuses(enum ps_err code, const char *says)
{
    struct ps_error told;

    ck_assert_int_eq(error.code, code);
    ck_assert_msg(strstr(error.text, says) != NULL, "'%s' does not say '%s'", error.text, says);
    ck_assert(!token_handshake_through(&shard) && shard.state == TOKEN_HANDSHAKE_FAILED);
    told = error;
    if (client.state == TOKEN_HANDSHAKE_KNOCKED || client.state == TOKEN_HANDSHAKE_PROVED) {
        ck_assert_int_eq(token_handshake_give(&client), code);
        ck_assert_str_eq(error.text, told.text);
        ck_assert_uint_eq(len, 0);
    }
    ck_assert(!token_handshake_through(&client));
}

START_TEST(who_has_the_token_is_let_in)
{
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_run(), PS_OK);
    ck_assert(token_handshake_through(&client) && token_handshake_through(&shard) && len == 0);
    ck_assert_int_eq(client.granted, ROLE_READ);
    ck_assert_int_eq(shard.granted, ROLE_READ);
    ck_assert_str_eq(shard.name, "a");
}
END_TEST

START_TEST(who_asks_for_no_role_gets_the_tokens)
{
    token_handshake_begin(ROLE_NONE);
    ck_assert_int_eq(token_handshake_run(), PS_OK);
    ck_assert(client.granted == ROLE_TRAIN && shard.granted == ROLE_TRAIN);
}
END_TEST

START_TEST(any_cluster_is_one_that_is_not_named)
{
    ours.cluster = NULL;
    token_handshake_begin(ROLE_NONE);
    ck_assert_int_eq(token_handshake_run(), PS_OK);
    ck_assert(token_handshake_through(&client) && token_handshake_through(&shard));
}
END_TEST

/* Reasons why a proof fails; the sentence is the same for all. */
static void
another_secret(void)
{
    key.secret[3] ^= 1;
}

static void
another_length(void)
{
    key.secret[key.secret_len++] = 'x';
}

static void
unknown_name(void)
{
    strcpy(key.name, "z");
}

static void
name_of_another(void)
{
    strcpy(key.name, "b");
    key.secret[0] ^= 1;
}

static void
another_cluster(void)
{
    ours.cluster = "d";
}

static void
another_channel(void)
{
    bindings[0].len = bindings[1].len = 32;
    bindings[0].bytes[0] = 1;
}

static void
half_a_channel(void)
{
    bindings[1].len = 32;
}

static void (*const wrongs[])(void) = {another_secret,  another_length,  unknown_name,  name_of_another,
                                       another_cluster, another_channel, half_a_channel};

START_TEST(what_is_no_proof_is_denied_in_the_same_words)
{
    wrongs[_i]();
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_run(), PS_ERR_DENIED);
    token_handshake_refuses(PS_ERR_DENIED, "is not accepted: its name, its secret or the cluster's name");
    ck_assert_ptr_null(strstr(error.text, SECRET));
}
END_TEST

START_TEST(the_secret_of_nobody_is_no_way_in)
{
    unknown_name();
    memset(key.secret, 0, sizeof key.secret); /* the secret that stands in for an unknown name */
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_run(), PS_ERR_DENIED);
    token_handshake_refuses(PS_ERR_DENIED, "not accepted");
}
END_TEST

START_TEST(where_there_are_no_tokens_none_is_proven)
{
    keyring_finish(&ring);
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_run(), PS_ERR_DENIED);
    token_handshake_refuses(PS_ERR_DENIED, "no tokens are known here");
}
END_TEST

START_TEST(a_channel_that_is_alike_on_both_sides_is_well)
{
    bindings[0].len = bindings[1].len = 32;
    bindings[0].bytes[31] = bindings[1].bytes[31] = 7;
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_run(), PS_OK);
}
END_TEST

START_TEST(a_role_that_is_too_low_is_denied_after_the_proof)
{
    token_handshake_begin(ROLE_ADMIN);
    ck_assert_int_eq(token_handshake_run(), PS_ERR_DENIED);
    token_handshake_refuses(PS_ERR_DENIED, "token 'a' has role train, and this takes admin");
    key.secret[0] ^= 1;
    token_handshake_begin(ROLE_ADMIN);
    ck_assert_int_eq(token_handshake_run(), PS_ERR_DENIED);
    token_handshake_refuses(PS_ERR_DENIED, "not accepted"); /* the role is not revealed */
}
END_TEST

START_TEST(a_proof_of_before_is_none)
{
    uint8_t knock[TOKEN_HANDSHAKE_FRAME_MAX], proof[TOKEN_HANDSHAKE_FRAME_MAX];
    size_t knock_len, proof_len;

    token_handshake_begin(ROLE_READ);
    memcpy(knock, frame, knock_len = len);
    ck_assert(token_handshake_give(&shard) == PS_OK && token_handshake_give(&client) == PS_OK);
    memcpy(proof, frame, proof_len = len);
    ck_assert_int_eq(token_handshake_give(&shard), PS_OK);

    theirs.nonce[0]++;
    token_handshake_listen(&shard, &ring, &theirs);
    memcpy(frame, knock, len = knock_len);
    ck_assert_int_eq(token_handshake_give(&shard), PS_OK);
    memcpy(frame, proof, len = proof_len);
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_DENIED);
}
END_TEST

START_TEST(a_listener_without_the_token_is_found_out)
{
    struct keyring impostor = {.keys = &key, .len = 1};

    token_handshake_begin(ROLE_READ);
    token_handshake_listen(&shard, &impostor, &theirs);
    ck_assert(token_handshake_give(&shard) == PS_OK && token_handshake_give(&client) == PS_OK);
    /* A shard that lets anyone in, and sends what it can. */
    memset(frame, 0, sizeof frame);
    frame_head_encode(&(struct frame_head){.version = FRAME_VERSION, .type = MSG_PROVEN, .meta_len = 40}, frame);
    frame[FRAME_HEAD_SIZE] = ROLE_READ;
    len = FRAME_HEAD_SIZE + 40;
    ck_assert_int_eq(token_handshake_give(&client), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "does not have token 'a'"));
}
END_TEST

START_TEST(ones_own_proof_sent_back_is_none)
{
    uint8_t mac[TOKEN_HANDSHAKE_MAC];

    token_handshake_begin(ROLE_READ);
    ck_assert(token_handshake_give(&shard) == PS_OK && token_handshake_give(&client) == PS_OK);
    memcpy(mac, frame + FRAME_HEAD_SIZE, sizeof mac);
    memset(frame, 0, sizeof frame);
    frame_head_encode(&(struct frame_head){.version = FRAME_VERSION, .type = MSG_PROVEN, .meta_len = 40}, frame);
    frame[FRAME_HEAD_SIZE] = ROLE_READ;
    memcpy(frame + FRAME_HEAD_SIZE + 8, mac, sizeof mac);
    len = FRAME_HEAD_SIZE + 40;
    ck_assert_int_eq(token_handshake_give(&client), PS_ERR_DENIED);
}
END_TEST

/* Whatever is changed between the two, one of them notices. */
START_TEST(what_is_changed_on_the_way_is_noticed)
{
    for (int step = 0; step < 4; step++)
        for (size_t bit = 0;; bit++) {
            enum ps_err err = PS_OK;

            token_handshake_begin(ROLE_READ);
            for (int i = 0; i < 4 && err == PS_OK; i++) {
                if (i == step && FRAME_HEAD_SIZE + bit / 8 < len)
                    frame[FRAME_HEAD_SIZE + bit / 8] ^= (uint8_t)(1 << bit % 8);
                else if (i == step)
                    bit = SIZE_MAX - 1;
                err = token_handshake_give(i % 2 == 0 ? &shard : &client);
            }
            if (bit == SIZE_MAX - 1)
                break;
            /* in the challenge and the last frame, bytes without meaning may have any value */
            if (err == PS_OK)
                ck_assert_msg((step == 1 && bit >= 16 && bit < 64) || (step == 3 && bit >= 32 && bit < 64),
                              "step %d, bit %zu", step, bit);
        }
}
END_TEST

START_TEST(a_version_that_is_not_spoken_is_refused)
{
    static const uint16_t ranges[][2] = {{1, FRAME_VERSION - 1}, {FRAME_VERSION + 1, 99}, {9, 3}};

    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        token_handshake_begin(ROLE_READ);
        frame[FRAME_HEAD_SIZE] = (uint8_t)ranges[i][0];
        frame[FRAME_HEAD_SIZE + 2] = (uint8_t)ranges[i][1];
        ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_VERSION);
        token_handshake_refuses(PS_ERR_VERSION, "this program speaks version");
    }
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_give(&shard), PS_OK);
    frame[FRAME_HEAD_SIZE]--;
    ck_assert_int_eq(token_handshake_give(&client), PS_ERR_VERSION);
}
END_TEST

START_TEST(who_begins_with_something_else_is_told_what_to_do)
{
    struct frame_head head = {.version = FRAME_VERSION, .request = 1};

    for (unsigned type = 1; type < MSG_END; type++) {
        if (type == MSG_KNOCK)
            continue;
        head.type = (uint16_t)type;
        token_handshake_begin(ROLE_READ);
        ck_assert_int_eq(token_handshake_take(&shard, &head, "", frame, &len, &error), PS_ERR_DENIED);
        ck_assert_ptr_nonnull(strstr(error.text, "PSD_TOKEN_FILE"));
        token_handshake_refuses(PS_ERR_DENIED, "let in here");
    }
}
END_TEST

START_TEST(frames_of_another_shape_are_refused)
{
    static const uint8_t nothing[TOKEN_HANDSHAKE_META_MAX];
    struct frame_head head = {.version = FRAME_VERSION, .type = MSG_KNOCK};

    for (uint32_t n = 0; n < TOKEN_HANDSHAKE_META_MAX; n += 8) {
        token_handshake_begin(ROLE_READ);
        head.meta_len = n;
        ck_assert_int_ne(token_handshake_take(&shard, &head, nothing, frame, &len, &error), PS_OK);
        ck_assert_int_eq(shard.state, TOKEN_HANDSHAKE_FAILED);
    }
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(frame_head_decode(frame, &head, &error), PS_OK);
    head.request = 1;
    ck_assert_int_eq(token_handshake_take(&shard, &head, frame + FRAME_HEAD_SIZE, answer, &len, &error),
                     PS_ERR_PROTOCOL);
    token_handshake_begin(ROLE_READ);
    memset(frame + FRAME_HEAD_SIZE + 48, 'x', 64); /* a name without an end */
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_PROTOCOL);
    token_handshake_begin(ROLE_READ);
    memset(frame + FRAME_HEAD_SIZE + 48, 0, 64);
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_PROTOCOL);
    token_handshake_begin(ROLE_READ);
    frame[FRAME_HEAD_SIZE + 48] = '\n';
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_PROTOCOL);
    token_handshake_begin(ROLE_READ);
    frame[FRAME_HEAD_SIZE + 4] = ROLES;
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(a_proof_comes_in_its_order)
{
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_give(&shard), PS_OK);
    len = token_handshake_knock((token_handshake_connect(&client, &key, ROLE_READ, &ours), &client), frame);
    ck_assert_int_eq(token_handshake_give(&shard), PS_ERR_PROTOCOL);
    token_handshake_begin(ROLE_READ);
    ck_assert_int_eq(token_handshake_give(&client), PS_ERR_PROTOCOL); /* it receives its own first frame */
}
END_TEST

START_TEST(a_long_sentence_fits_its_frame)
{
    struct ps_error why = {.code = PS_ERR_DENIED};
    struct frame_head head;

    memset(why.text, '\xff', sizeof why.text - 1);
    len = token_handshake_refusal(&why, frame);
    ck_assert_uint_le(len, TOKEN_HANDSHAKE_FRAME_MAX);
    ck_assert_int_eq(frame_head_decode(frame, &head, &error), PS_OK);
    token_handshake_begin(ROLE_READ);
    (void)token_handshake_refusal(&why, frame);
    ck_assert_int_eq(token_handshake_take(&client, &head, frame + FRAME_HEAD_SIZE, answer, &len, &error),
                     PS_ERR_DENIED);
    ck_assert_str_ne(error.text, "");
}
END_TEST

/* Fixed values for other implementations: PROTOCOL.md has them, too. */
START_TEST(the_proof_of_the_document_holds)
{
    static const uint8_t proof[] = {0x57, 0x93, 0x23, 0xb2, 0xa2, 0xf1, 0x5e, 0xd5, 0x47, 0x37, 0xa1,
                                    0xdf, 0xc1, 0x2f, 0x8d, 0xc9, 0xe7, 0x88, 0xa4, 0x3f, 0xf5, 0xc2,
                                    0x7f, 0xec, 0x6d, 0x5d, 0x04, 0x25, 0xff, 0x92, 0x08, 0xac};

    for (int i = 0; i < TOKEN_HANDSHAKE_NONCE; i++) {
        ours.nonce[i] = (uint8_t)i;
        theirs.nonce[i] = (uint8_t)(32 + i);
    }
    ours.cluster = theirs.cluster = "psd";
    token_handshake_begin(ROLE_TRAIN);
    ck_assert(token_handshake_give(&shard) == PS_OK && token_handshake_give(&client) == PS_OK);
    ck_assert_mem_eq(frame + FRAME_HEAD_SIZE, proof, sizeof proof);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("prelude");
    TCase *t = tcase_create("prelude");

    tcase_add_checked_fixture(t, token_handshake_setup, NULL);
    tcase_add_test(t, who_has_the_token_is_let_in);
    tcase_add_test(t, who_asks_for_no_role_gets_the_tokens);
    tcase_add_test(t, any_cluster_is_one_that_is_not_named);
    tcase_add_loop_test(t, what_is_no_proof_is_denied_in_the_same_words, 0, ARRAY_LEN(wrongs));
    tcase_add_test(t, the_secret_of_nobody_is_no_way_in);
    tcase_add_test(t, where_there_are_no_tokens_none_is_proven);
    tcase_add_test(t, a_channel_that_is_alike_on_both_sides_is_well);
    tcase_add_test(t, a_role_that_is_too_low_is_denied_after_the_proof);
    tcase_add_test(t, a_proof_of_before_is_none);
    tcase_add_test(t, a_listener_without_the_token_is_found_out);
    tcase_add_test(t, ones_own_proof_sent_back_is_none);
    tcase_add_test(t, what_is_changed_on_the_way_is_noticed);
    tcase_add_test(t, a_version_that_is_not_spoken_is_refused);
    tcase_add_test(t, who_begins_with_something_else_is_told_what_to_do);
    tcase_add_test(t, frames_of_another_shape_are_refused);
    tcase_add_test(t, a_proof_comes_in_its_order);
    tcase_add_test(t, a_long_sentence_fits_its_frame);
    tcase_add_test(t, the_proof_of_the_document_holds);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
