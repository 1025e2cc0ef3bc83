/* HMAC-SHA256 (RFC 2104, FIPS 180-4), by libcrypto. Pure. */
#ifndef COMMON_CORE_AUTH_MAC_H
#define COMMON_CORE_AUTH_MAC_H

#include "common/core/base/base.h"

#define MAC_BYTES 32

/* False: out of memory. */
bool mac_make(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[MAC_BYTES]);

/* In constant time. */
bool mac_equal(const uint8_t *a, const uint8_t *b);

#endif
