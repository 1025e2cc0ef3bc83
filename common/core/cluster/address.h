/* "host:port", "[v6]:port", "unix:/path": an address as psd, TF_CONFIG and people write it, taken apart. Pure: names
 * are not looked up here. */
#ifndef COMMON_CORE_CLUSTER_ADDRESS_H
#define COMMON_CORE_CLUSTER_ADDRESS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define ADDRESS_MAX 512 /* bytes of the text, with its end */

struct address {
    bool is_unix;
    char host[256]; /* name or number, without brackets; "" for unix */
    char path[108]; /* unix */
    uint16_t port;  /* 0: any free one, where one may listen */
};

/* PS_ERR_INVALID with a sentence that quotes the text and says what is wrong with it. */
enum ps_err address_parse(const char *text, struct address *out, struct ps_error *e) PS_MUST_USE;

/* Whether a host is a number, "127.0.0.1" or "fe80::1", as inet_pton(3) takes it. */
bool address_is_number(const char *host);

#endif
