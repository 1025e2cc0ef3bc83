#include "server/daemon/tls_listener.h"

#include <string.h>

#include "common/net/tls.h"
#include "server/daemon/peer.h"
#include "server/process/log.h"

enum { LOG_FAILED, LOG_ROOM };

static struct tls_files
files_of(const struct options *o)
{
    return (struct tls_files){.cert = o->tls_cert, .key = o->tls_key, .ca = o->tls_client_ca};
}

static void
tls_listener_log_loaded(struct tls_listener *s, const char *what)
{
    certificate_read(&s->certificate, s->tls);
    log_line(LOG_LEVEL_INFO, "%s certificate=\"%s\" clients=%s", what, s->certificate.shows,
             tls_authenticates(s->tls) ? "with_certificate" : "any");
    certificate_watch(&s->certificate, "TCP");
}

enum ps_err
tls_listener_open(struct tls_listener *s, const struct options *o, struct ps_error *e)
{
    struct tls_files files = files_of(o);
    enum ps_err err;

    if (o->tls_cert == NULL)
        return PS_OK;
    if ((err = tls_new(TLS_SERVER, &files, &s->tls, e)) == PS_OK)
        tls_listener_log_loaded(s, "TCP connections are encrypted");
    return err;
}

void
tls_listener_reload(struct tls_listener *s, const struct options *o)
{
    struct tls_files files = files_of(o);
    struct ps_error e;

    if (s->tls == NULL)
        return;
    if (tls_reload(s->tls, &files, &e) == PS_OK) {
        tls_listener_log_loaded(s, "certificate, key and CA were read again, for new connections");
        return;
    }
    log_line(LOG_LEVEL_ERROR, "certificate, key and CA stay as they are: %s", e.text);
    certificate_watch(&s->certificate, "TCP");
}

void
tls_listener_finish(struct tls_listener *s)
{
    tls_free(s->tls);
    *s = (struct tls_listener){0};
}

/* ---- Handshakes ---- */

/* Past the limit a new handshake closes the oldest one, so that silent connections cannot block others. */
static void
make_room(struct daemon *d)
{
    struct peer *oldest = d->tls.first;

    if (d->tls.len < TLS_LISTENER_HANDSHAKES_MAX)
        return;
    if (daemon_may_log(d, &d->tls.log_ms[LOG_ROOM]))
        log_line(LOG_LEVEL_WARNING, "too many TLS handshakes at once: the oldest ends max=%d peer=%s",
                 TLS_LISTENER_HANDSHAKES_MAX, oldest->conn.peer);
    d->tls.failed[HANDSHAKE_ROOM]++;
    tls_listener_leave(oldest);
    conn_close(&oldest->conn, peer_closed);
}

bool
tls_listener_begin(struct peer *p)
{
    struct daemon *d = p->daemon;
    struct tls_listener *s = &d->tls;
    struct ps_error e;

    if (conn_tls(&p->conn, s->tls, NULL, (uint32_t)d->options->hello_ms, &e) != PS_OK)
        return false;
    make_room(d);
    p->shaking = true;
    p->shake_prev = s->last;
    p->shake_next = NULL;
    *(s->last != NULL ? &s->last->shake_next : &s->first) = p;
    s->last = p;
    s->len++;
    return true;
}

void
tls_listener_leave(struct peer *p)
{
    struct tls_listener *s = &p->daemon->tls;

    if (!p->shaking)
        return;
    p->shaking = false;
    *(p->shake_prev != NULL ? &p->shake_prev->shake_next : &s->first) = p->shake_next;
    *(p->shake_next != NULL ? &p->shake_next->shake_prev : &s->last) = p->shake_prev;
    s->len--;
}

static enum handshake
reason_of(const struct conn *c, const struct ps_error *why)
{
    static const enum handshake blamed[] = {[TLS_BLAMES_OTHER] = HANDSHAKE_OTHER,
                                            [TLS_BLAMES_STRANGER] = HANDSHAKE_PLAIN,
                                            [TLS_BLAMES_CERTIFICATE] = HANDSHAKE_CERTIFICATE};

    switch (why->code) {
    case PS_ERR_CLOSED:
        return HANDSHAKE_GONE;
    case PS_ERR_TIMEOUT:
        return HANDSHAKE_SILENCE;
    case PS_ERR_TLS:
        return blamed[c->tls_blame];
    default:
        return HANDSHAKE_OTHER;
    }
}

/* A connection that is opened and closed without a byte is a probe. */
void
tls_listener_failed(struct peer *p, const struct ps_error *why)
{
    struct daemon *d = p->daemon;
    enum log_level level = why->code == PS_ERR_CLOSED ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING;

    d->tls.failed[reason_of(&p->conn, why)]++;
    if (level == LOG_LEVEL_DEBUG || daemon_may_log(d, &d->tls.log_ms[LOG_FAILED]))
        log_line(level, "no TLS with a newcomer: %s peer=%s", why->text, p->conn.peer);
}
