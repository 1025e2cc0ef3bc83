/* See cipher.h. A thread each; both at once, since cores share a machine's power. */
#include "tests/bench/cipher.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "common/net/tls_stream.h"
#include "tests/bench/load.h"
#include "tests/now.h"

#define TAG  16
#define LOOK (64 * KIB) /* between two looks at the clock */

struct record {
    uint8_t tag[TAG], bytes[TLS_RECORD_MAX];
};

/* One of the two. */
struct cipher_side {
    bool seals;
    size_t bytes; /* of a message */
    double seconds, per_message;
};

static void
cipher_need(bool good)
{
    if (good)
        return;
    fprintf(stderr, "bench: the cipher fails\n");
    exit(1);
}

static EVP_CIPHER_CTX *
cipher_new(bool seals)
{
    static const uint8_t key[16] = "a key of a bench";
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();

    cipher_need(c != NULL && EVP_CipherInit_ex(c, EVP_aes_128_gcm(), NULL, key, NULL, seals) == 1);
    return c;
}

/* Each record has a nonce of its own. */
static void
cipher_begin(EVP_CIPHER_CTX *c, uint64_t number)
{
    uint8_t nonce[12] = {0};

    memcpy(nonce, &number, sizeof number);
    cipher_need(EVP_CipherInit_ex(c, NULL, NULL, NULL, nonce, -1) == 1);
}

static void
seal_record(EVP_CIPHER_CTX *c, struct record *r, uint64_t number, const uint8_t *from, size_t n)
{
    int len;

    cipher_begin(c, number);
    cipher_need(EVP_EncryptUpdate(c, r->bytes, &len, from, (int)n) == 1 &&
                EVP_EncryptFinal_ex(c, r->bytes + len, &len) == 1 &&
                EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, r->tag) == 1);
}

/* Only what was not touched opens. */
static void
open_record(EVP_CIPHER_CTX *c, struct record *r, uint64_t number, uint8_t *to, size_t n)
{
    int len;

    cipher_begin(c, number);
    cipher_need(EVP_DecryptUpdate(c, to, &len, r->bytes, (int)n) == 1 &&
                EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, r->tag) == 1 &&
                EVP_DecryptFinal_ex(c, to + len, &len) == 1);
}

/* A message, always the same: so what was sealed once opens each time. */
static void
cipher_work(const struct cipher_side *s, EVP_CIPHER_CTX *c, struct record *records, uint8_t *plain)
{
    for (size_t from = 0, n, at = 0; from < s->bytes; from += n, at++) {
        n = MIN(s->bytes - from, TLS_RECORD_MAX);
        if (s->seals)
            seal_record(c, &records[at], at, load_gradients() + from, n);
        else
            open_record(c, &records[at], at, plain, n);
    }
}

/* The sealed records that the opening side reads. */
static void
cipher_prepare(const struct cipher_side *s, struct record *records)
{
    EVP_CIPHER_CTX *c = cipher_new(true);

    cipher_work(&(struct cipher_side){.seals = true, .bytes = s->bytes}, c, records, NULL);
    EVP_CIPHER_CTX_free(c);
}

static void *
side_main(void *arg)
{
    struct cipher_side *s = arg;
    struct record *records = load_memory((s->bytes / TLS_RECORD_MAX + 1) * sizeof *records);
    uint8_t *plain = load_memory(TLS_RECORD_MAX);
    EVP_CIPHER_CTX *c = cipher_new(s->seals);
    uint64_t messages = 0;
    double start, now;

    cipher_prepare(s, records);
    start = now_s();
    do {
        for (size_t done = 0; done < LOOK; done += s->bytes, messages++)
            cipher_work(s, c, records, plain);
        now = now_s();
    } while (now - start < s->seconds);
    s->per_message = (now - start) / (double)messages;
    EVP_CIPHER_CTX_free(c);
    free(plain);
    free(records);
    return NULL;
}

double
cipher_run(size_t bytes, double seconds)
{
    struct cipher_side seals = {.seals = true, .bytes = bytes, .seconds = seconds};
    struct cipher_side opens = {.bytes = bytes, .seconds = seconds};
    pthread_t thread;

    ps_assert(bytes > 0 && bytes <= LOAD_BYTES_MAX);
    (void)load_gradients(); /* made by one thread alone */
    cipher_need(pthread_create(&thread, NULL, side_main, &opens) == 0);
    side_main(&seals);
    pthread_join(thread, NULL);
    return MAX(seals.per_message, opens.per_message);
}
