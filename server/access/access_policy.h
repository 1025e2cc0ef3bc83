/* The access policy: what a new connection has to prove, and whether psd may listen at an address at all. Glue.
 *
 *     listener                    tokens there are         no tokens
 *     TCP                         a proof                  every client, as admin
 *     Unix, with --unix-users     a listed user, with the role there; else a proof, else refused
 *     Unix, without               root and psd's own       every user who may open the socket,
 *                                 user as admin; else a    as admin
 *                                 proof
 *
 * HTTP has tokens of its own (http_tokens.h), or is open to every client that can connect.
 *
 * A client that needs no proof may still present a token, and then has the token's role. A socket that other machines
 * can reach demands a proof, or HTTP's token, unless --insecure is given. */
#ifndef SERVER_ACCESS_ACCESS_POLICY_H
#define SERVER_ACCESS_ACCESS_POLICY_H

#include <sys/socket.h>
#include <sys/types.h>

#include "common/core/auth/keyring.h"
#include "server/access/access_attempts.h"
#include "server/access/http_tokens.h"
#include "server/access/token_quotas.h"
#include "server/core/turn/stats.h"
#include "server/process/options.h"

#define ACCESS_USERS_MAX    64  /* in --unix-users */
#define ACCESS_UNPROVEN_MAX 256 /* connections that have proven nothing; a new one past that closes the oldest */

struct peer;

struct access_policy_user {
    uid_t uid;
    enum role role;
};

struct access_policy {
    struct keyring ring;
    struct http_tokens http;
    struct access_policy_user users[ACCESS_USERS_MAX];
    size_t users_len;         /* 0: --unix-users was not given */
    bool insecure, client_ca; /* client_ca: TLS admits only clients with a certificate (tls_listener.h) */
    uint64_t denied[DENIALS]; /* but for DENIAL_ROLE */
    struct access_attempts attempts;
    struct token_quotas quotas;
    struct peer *unproven; /* oldest first: peer_accept.c */
    uint32_t unproven_len;
};

/* The policy of these options. PS_ERR_CONFIG with one sentence; access_policy_finish() is owed also then. */
enum ps_err access_policy_open(struct access_policy *g, const struct options *o, struct ps_error *e) PS_MUST_USE;
void access_policy_finish(struct access_policy *g); /* accepts zeroed ones */

/* Reads the options again, for SIGHUP. When it fails all stays as it was. visit() is called for each token that was
 * removed or changed. */
typedef void (*access_policy_visit)(void *arg, const struct key *gone);
enum ps_err access_policy_reload(struct access_policy *g, const struct options *o, access_policy_visit visit, void *arg,
                                 struct ps_error *e) PS_MUST_USE;

/* A TCP client has to prove something. */
bool access_policy_authenticates(const struct access_policy *g);

/* May psd listen there? text: the address for people. PS_ERR_CONFIG: no, and what to do. */
enum ps_err access_policy_check_address(const struct access_policy *g, const struct sockaddr_storage *address,
                                        const char *text, struct ps_error *e) PS_MUST_USE;

/* The same of --http. */
enum ps_err access_policy_check_http(const struct access_policy *g, const struct sockaddr_storage *address,
                                     const char *text, struct ps_error *e) PS_MUST_USE;

enum access_decision { ACCESS_PASS, ACCESS_DEMAND, ACCESS_REFUSE };

/* Decides about a new connection. who: the peer of a Unix socket; NULL: over TCP. *role: set with ACCESS_PASS. */
enum access_decision access_policy_decide(const struct access_policy *g, const struct ucred *who, enum role *role);

#endif
