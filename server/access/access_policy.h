/* The access policy: which newcomer has to prove what, and whether psd may listen at an address at all. Glue.
 *
 *     listener                    tokens there are         no tokens
 *     TCP                         a proof                  everybody, as admin
 *     Unix, with --unix-users     who is listed, with the role there; else a proof, else nobody
 *     Unix, without               root and psd's own       everybody who may open the socket,
 *                                 user as admin; else a    as admin
 *                                 proof
 *
 * HTTP has tokens of its own (http_tokens.h), or is open to whoever may connect.
 *
 * Who may come without a proof may knock all the same, and has the role of the token then. What listens beyond this
 * machine demands a proof, or HTTP's token, unless --insecure says that it need not. */
#ifndef SERVER_ACCESS_POLICY_H
#define SERVER_ACCESS_POLICY_H

#include <sys/socket.h>
#include <sys/types.h>

#include "common/core/auth/keyring.h"
#include "server/access/http_tokens.h"
#include "server/core/turn/stats.h"
#include "server/process/options.h"

#define ACCESS_USERS_MAX    64  /* in --unix-users */
#define ACCESS_UNPROVEN_MAX 256 /* connections that have proven nothing; the oldest goes for a new one */

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
    bool insecure, client_ca; /* client_ca: TLS lets in only who has a certificate (tls_listener.h) */
    uint64_t denied[DENIALS]; /* but for DENIAL_ROLE */
    struct peer *unproven;    /* oldest first: peer_accept.c */
    uint32_t unproven_len;
};

/* What the options say. PS_ERR_CONFIG with one sentence; access_policy_finish() is owed all the same. */
enum ps_err access_policy_open(struct access_policy *g, const struct options *o, struct ps_error *e) PS_MUST_USE;
void access_policy_finish(struct access_policy *g); /* accepts zeroed ones */

/* The same again, for SIGHUP. When it fails all stays as it was. visit() hears of each token that is not any more what
 * it was. */
typedef void (*access_policy_visit)(void *arg, const struct key *gone);
enum ps_err access_policy_reload(struct access_policy *g, const struct options *o, access_policy_visit visit, void *arg,
                                 struct ps_error *e) PS_MUST_USE;

/* Who comes over TCP has to prove something. */
bool access_policy_authenticates(const struct access_policy *g);

/* May psd listen there? text: the address for people. PS_ERR_CONFIG: no, and what to do. */
enum ps_err access_policy_check_address(const struct access_policy *g, const struct sockaddr_storage *address,
                                        const char *text, struct ps_error *e) PS_MUST_USE;

/* The same of --http. */
enum ps_err access_policy_check_http(const struct access_policy *g, const struct sockaddr_storage *address,
                                     const char *text, struct ps_error *e) PS_MUST_USE;

enum access_decision { ACCESS_PASS, ACCESS_DEMAND, ACCESS_REFUSE };

/* A newcomer. who: of a Unix socket; NULL: over TCP. *role: ACCESS_PASS. */
enum access_decision access_policy_decide(const struct access_policy *g, const struct ucred *who, enum role *role);

#endif
