#include "common/core/auth/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

bool
mac_make(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[MAC_BYTES])
{
    unsigned out_len = 0;

    return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &out_len) != NULL && out_len == MAC_BYTES;
}

bool
mac_equal(const uint8_t *a, const uint8_t *b)
{
    return CRYPTO_memcmp(a, b, MAC_BYTES) == 0;
}
