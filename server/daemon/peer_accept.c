/* New connections: which are admitted, and with which congestion control they are answered. One that is refused is sent
 * the reason. With TLS the shard is notified of it when the handshake is done (peer_secured()). */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/core/wire/wire.h"
#include "common/net/conn_auth.h"
#include "common/net/sockname.h"
#include "server/access/access_policy.h"
#include "server/daemon/peer.h"
#include "server/process/log.h"

#define DESCRIPTORS_KEPT 8

/* Loopback has no congestion and no losses to learn from; an algorithm for long paths (bbr paces) halves its rate. */
static const char *
congestion_for(struct peer *p, bool is_unix)
{
    const char *wanted = p->daemon->options->tcp_congestion;
    struct sockaddr_storage address;
    int len = sizeof address;

    if (is_unix)
        return NULL;
    if (strcmp(wanted, "auto") != 0)
        return strcmp(wanted, "system") == 0 ? NULL : wanted;
    if (uv_tcp_getpeername(&p->conn.u.tcp, (struct sockaddr *)&address, &len) != 0)
        return NULL;
    return sockname_is_loopback((struct sockaddr *)&address) ? "reno" : NULL;
}

/* This descriptor is one of the last few. When none is left libuv closes new connections by itself, without an answer:
 * so these are kept to send the reason. */
static bool
peer_accept_is_last(const struct peer *p)
{
    struct rlimit limit;
    uv_os_fd_t fd;

    return uv_fileno(&p->conn.u.handle, &fd) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY && (rlim_t)fd + DESCRIPTORS_KEPT >= limit.rlim_cur;
}

/* Why the new connection is refused, or NULL; how many there may be is the shard's to say. */
static const char *
why_refuse(const struct peer *p)
{
    struct daemon *d = p->daemon;

    if (!peer_accept_is_last(p))
        return NULL;
    peers_end_lingering(d, DESCRIPTORS_KEPT / 2); /* there is room for the next ones */
    d->refused[REFUSAL_DESCRIPTORS]++;
    return "this shard has used up its file descriptors (ulimit -n)";
}

static void
send_error(struct peer *p, enum ps_err code, const char *text)
{
    Psd__Error message = PSD__ERROR__INIT;
    uint8_t *bytes;
    size_t len;

    message.code = (uint32_t)code;
    message.text = (char *)(uintptr_t)text;
    bytes = wire_encode_new(MSG_ERROR, 0, &message.base, 0, &len);
    if (bytes != NULL)
        peer_send(p, bytes, len);
}

/* Sends the reason, and closes. */
static void
peer_accept_refuse(struct peer *p, enum ps_err code, const char *text)
{
    struct daemon *d = p->daemon;

    if (code != PS_ERR_TLS && daemon_may_log(d, &d->refused_log_ms))
        log_line(LOG_LEVEL_WARNING, "refused a connection: %s peer=%s", text, p->conn.peer);
    send_error(p, code, text);
    peer_close(p);
    peers_flush(d, 0, 0);
}

/* ---- Authentication ---- */

void
peer_proven(struct peer *p)
{
    struct access_policy *g = p->daemon->policy;

    if (!p->unproven)
        return;
    p->unproven = false;
    g->unproven_len--;
    DL_DELETE2(g->unproven, p, unproven_prev, unproven_next);
}

/* The oldest of those whose proof does not wait: how many do is limited by itself. */
static struct peer *
peer_accept_oldest(const struct access_policy *g)
{
    struct peer *p;

    DL_FOREACH2 (g->unproven, p, unproven_next)
        if (!p->proves)
            return p;
    return g->unproven;
}

/* Connections that have proven nothing cannot take all places: the oldest of them is closed. */
static void
await_proof(struct peer *p)
{
    struct access_policy *g = p->daemon->policy;

    if (g->unproven_len == ACCESS_UNPROVEN_MAX) {
        struct peer *oldest = peer_accept_oldest(g);

        g->denied[DENIAL_SILENCE]++;
        peer_proven(oldest);
        conn_close(&oldest->conn, peer_closed);
    }
    p->unproven = true;
    g->unproven_len++;
    DL_APPEND2(g->unproven, p, unproven_prev, unproven_next);
}

/* Whether it may take a place that is kept for who administers the shard: one identity at most half of them, since
 * which process of this machine it is a TCP connection does not say. */
static bool
peer_accept_reserved(const struct peer *p)
{
    uint32_t most = connection_reserved((uint32_t)p->daemon->options->connections_max) / 2;

    return p->identity != NULL && p->identity->reserved < most &&
           (p->conn.u.handle.type == UV_NAMED_PIPE || p->conn.local || (p->token[0] != '\0' && p->role == ROLE_ADMIN));
}

/* Announces it to the shard: from now on its frames are handled. */
static void
peer_accept_introduce(struct peer *p)
{
    struct shard_event event = peer_event(p, SHARD_OPENED);
    struct daemon *d = p->daemon;

    p->opened = true;
    d->opened_len++;
    if (d->opened_len > d->options->connections_max + DAEMON_LINGERING_MAX && d->lingering_len > 0)
        peers_end_lingering(d, d->lingering_len - 1);
    event.peer = p->conn.peer;
    event.reserved = peer_accept_reserved(p);
    p->reserved =
        event.reserved && d->opened_len - d->lingering_len >
                              d->options->connections_max - connection_reserved((uint32_t)d->options->connections_max);
    if (p->reserved)
        p->identity->reserved++;
    daemon_step(d, &event);
}

/* Its token has more connections than its quota allows; text, [PS_ERROR_TEXT_MAX], says so. */
static bool
peer_accept_is_over_quota(const struct peer *p, char *text)
{
    const struct token_quotas *q = &p->daemon->policy->quotas;
    const struct quota_row *row = quota_find(q->rows, q->len, p->token);

    if (row == NULL || p->identity == NULL || p->identity->connections <= row->most[QUOTA_CONNECTIONS])
        return false;
    snprintf(text, PS_ERROR_TEXT_MAX, "token '%s' has %u connections, and its quota is %llu (psd's --quota)", p->token,
             p->identity->connections - 1, (unsigned long long)row->most[QUOTA_CONNECTIONS]);
    return true;
}

/* One that had been let in already, and proved a token later, is the shard's to end. */
static void
peer_accept_over_quota(struct peer *p, const char *text)
{
    struct shard_event event = peer_event(p, SHARD_BROKEN);
    struct ps_error e;

    p->daemon->refused[REFUSAL_QUOTA]++;
    if (!p->opened) {
        peer_accept_refuse(p, PS_ERR_LIMIT, text);
        return;
    }
    ps_error_set(&e, PS_ERR_LIMIT, "%s", text);
    event.error = &e;
    daemon_step(p->daemon, &event);
}

void
peer_admitted(struct conn *c, enum role role, const char *token)
{
    char name[KEYRING_NAME_MAX + 8], text[PS_ERROR_TEXT_MAX];
    struct peer *p = c->arg;

    peer_looked_at(p, false);
    peer_proven(p);
    p->role = role;
    snprintf(p->token, sizeof p->token, "%s", token);
    snprintf(name, sizeof name, "token %s", token);
    peer_identify(p, name);
    if (peer_accept_is_over_quota(p, text)) {
        peer_accept_over_quota(p, text);
        return;
    }
    log_line(LOG_LEVEL_DEBUG, "admitted token=%s role=%s peer=%s", token, role_name(role), c->peer);
    if (!p->opened)
        peer_accept_introduce(p);
}

void
peer_denied(struct peer *p, const struct ps_error *why)
{
    struct daemon *d = p->daemon;
    enum denial reason = why->code == PS_ERR_DENIED    ? DENIAL_TOKEN
                         : why->code == PS_ERR_LIMIT   ? DENIAL_ATTEMPTS
                         : why->code == PS_ERR_TIMEOUT ? DENIAL_SILENCE
                                                       : DENIAL_GARBAGE;

    peer_looked_at(p, why->code == PS_ERR_DENIED);
    peer_proven(p);
    d->policy->denied[reason]++;
    if (daemon_may_log(d, &d->denied_log_ms))
        log_line(LOG_LEVEL_WARNING, "denied a connection: %s peer=%s", why->text, p->conn.peer);
}

void
peers_without_token(struct daemon *d, const char *name)
{
    struct peer *p, *next;

    HASH_ITER (hh, d->peers, p, next) {
        if (strcmp(p->token, name) != 0)
            continue;
        log_line(LOG_LEVEL_INFO, "closed: its token is gone token=%s peer=%s", name, p->conn.peer);
        send_error(p, PS_ERR_DENIED, "the token of this connection is not known here any more");
        peer_close(p);
    }
    peers_flush(d, 0, 0);
}

/* Over a Unix socket the kernel says which user connects. */
static bool
peer_accept_user(const struct peer *p, struct ucred *who)
{
    socklen_t len = sizeof *who;

    *who = (struct ucred){.uid = (uid_t)-1};
    if (p->conn.u.handle.type != UV_NAMED_PIPE)
        return false;
    if (getsockopt(p->conn.fd, SOL_SOCKET, SO_PEERCRED, who, &len) != 0)
        who->uid = (uid_t)-1;
    return true;
}

/* ---- Proofs ---- */

/* Whose attempts are counted together: an address, or a user of a Unix socket. */
static struct sockname_host
peer_accept_host(struct peer *p)
{
    struct sockaddr_storage address = {0};
    struct sockname_host host = {{0}};
    int len = sizeof address;
    struct ucred who;

    if (peer_accept_user(p, &who))
        memcpy(host.bytes, &who.uid, sizeof who.uid);
    else if (uv_tcp_getpeername(&p->conn.u.tcp, (struct sockaddr *)&address, &len) == 0)
        host = sockname_host((struct sockaddr *)&address);
    return host;
}

static enum ps_err
peer_accept_hold(struct conn *c, const char *name, uint32_t *ms, struct ps_error *why)
{
    struct peer *p = c->arg;
    struct access_policy *g = p->daemon->policy;
    struct sockname_host host = peer_accept_host(p);
    enum ps_err err;

    p->attempt = access_attempts_at(&host, keyring_find(&g->ring, name) != NULL ? name : "");
    err = access_attempts_begin(&g->attempts, &p->attempt, uv_now(&p->daemon->loop), ms, why);
    p->proves = err == PS_OK;
    return err;
}

void
peer_looked_at(struct peer *p, bool wrong)
{
    struct daemon *d = p->daemon;

    if (p->proves)
        access_attempts_end(&d->policy->attempts, &p->attempt, wrong, uv_now(&d->loop));
    p->proves = false;
}

/* A connection that cannot be authenticated for lack of memory is not admitted. */
static bool
set_guard(struct peer *p, bool optional)
{
    struct daemon *d = p->daemon;
    struct conn_auth_terms terms = {.cluster = d->options->cluster,
                                    .timeout_ms = (uint32_t)d->options->hello_ms,
                                    .ring = &d->policy->ring,
                                    .hold = peer_accept_hold,
                                    .optional = optional};
    enum ps_err err = conn_auth_listen(&p->conn, &terms);

    if (err == PS_OK)
        return true;
    d->refused[REFUSAL_MEMORY]++;
    log_line(LOG_LEVEL_ERROR, "cannot guard a connection: %s", ps_strerror(err));
    conn_close(&p->conn, peer_closed);
    return false;
}

/* It needs no proof: it is its user's, or its host's (who: NULL). */
static void
peer_accept_pass(struct peer *p, const struct ucred *who)
{
    char name[PS_ERROR_PEER_MAX + 8];
    const char *port = strrchr(p->conn.peer, ':');

    if (who != NULL)
        snprintf(name, sizeof name, "user %u", (unsigned)who->uid);
    else
        snprintf(name, sizeof name, "host %.*s", (int)(port != NULL ? port - p->conn.peer : 0), p->conn.peer);
    peer_identify(p, name);
    peer_accept_introduce(p);
}

static void
let_in(struct peer *p)
{
    struct daemon *d = p->daemon;
    const struct ucred *who;
    enum access_decision way;
    struct ucred user;
    const char *why;

    if ((why = why_refuse(p)) != NULL) {
        peer_accept_refuse(p, PS_ERR_LIMIT, why);
        return;
    }
    who = peer_accept_user(p, &user) ? &user : NULL;
    if ((way = access_policy_decide(d->policy, who, &p->role)) == ACCESS_REFUSE) {
        d->policy->denied[DENIAL_USER]++;
        peer_accept_refuse(p, PS_ERR_DENIED,
                           "this user may not use this socket: psd's --unix-users names those who may");
        return;
    }
    if (!set_guard(p, way == ACCESS_PASS))
        return;
    if (way == ACCESS_PASS)
        peer_accept_pass(p, who);
    else
        await_proof(p);
}

void
peer_secured(struct conn *c)
{
    tls_listener_leave(c->arg);
    let_in(c->arg);
}

/* A client that speaks without TLS is sent that as an error, and nothing else. */
void
peer_not_secured(struct peer *p, const struct ps_error *why)
{
    tls_listener_leave(p);
    tls_listener_failed(p, why);
    if (why->code == PS_ERR_TLS && conn_tells(&p->conn))
        peer_accept_refuse(p, PS_ERR_TLS, CONN_TLS_WANTED);
    else
        conn_close(&p->conn, peer_closed);
}

static void
peer_accept_begin(struct peer *p, bool is_unix)
{
    bool secure = !is_unix && p->daemon->tls.tls != NULL;
    enum ps_err err = !secure || tls_listener_begin(p) ? PS_OK : PS_ERR_NOMEM;

    if (err != PS_OK || (err = conn_start(&p->conn, congestion_for(p, is_unix))) != PS_OK) {
        p->daemon->refused[REFUSAL_MEMORY] += err == PS_ERR_NOMEM;
        log_line(LOG_LEVEL_WARNING, "cannot read from a connection: %s", ps_strerror(err));
        conn_close(&p->conn, peer_closed);
    } else if (!secure) {
        let_in(p);
    }
}

static struct peer *
peer_new(struct daemon *d, bool is_unix)
{
    struct peer *p = calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    p->daemon = d;
    p->id = ++d->next_id;
    HASH_ADD(hh, d->peers, id, sizeof p->id, p);
    if (HASH_TOOK(p) && conn_init(&p->conn, &d->pool, is_unix, &peer_events, p) == PS_OK)
        return p;
    if (HASH_TOOK(p))
        HASH_DEL(d->peers, p);
    free(p);
    return NULL;
}

bool
peer_accept(struct daemon *d, uv_stream_t *listening, bool is_unix)
{
    struct peer *p = peer_new(d, is_unix);
    int status;

    if (p == NULL) {
        if (daemon_may_log(d, &d->accept_log_ms))
            log_line(LOG_LEVEL_ERROR, "cannot accept connections: out of memory");
        return false;
    }
    if ((status = uv_accept(listening, &p->conn.u.stream)) != 0) {
        if (daemon_may_log(d, &d->accept_log_ms))
            log_line(LOG_LEVEL_WARNING, "cannot accept a connection: %s", uv_strerror(status));
        conn_close(&p->conn, peer_closed);
        return true;
    }
    peer_accept_begin(p, is_unix);
    return true;
}
