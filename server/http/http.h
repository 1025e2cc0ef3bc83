/* Metrics, health and a live page over HTTP, for operators: a thread of its own, which owns the sockets and all of
 * libmicrohttpd, and sees of the shard only copies.
 *
 *     the loop's thread                                     the HTTP thread
 *     http_start()  ──────────────────────────────────────► listens; all is "starting"
 *     http_attach() ──────────────────────────────────────► asks when a client asks it
 *     measure() fills in figures ◄──── uv_async ─────────── clients wait, HTTP_LOOP_MS at most
 *          └──────────────── figures ─────────────────────► a page, for all that wait
 *     http_detach() ──────────────────────────────────────► all is "stopping"
 *     http_stop()   ──────────────────────────────────────► ends
 *
 * The loop never waits for this thread: a lock is held for a few assignments alone. However often it is asked, it asks
 * the loop ten times a second (HTTP_FIGURES_MS).
 *
 *     /metrics    the figures, metrics.h; before there is a shard those of the process alone
 *     /healthz    200 while the process is alive; 503 when its loop has not turned for HTTP_STUCK_MS
 *     /readyz     200 while workers are served, else 503 with the reason
 *     /           a page that shows the figures, with what it needs (page.h)
 *     /api/live   the figures as JSON (metrics_json.h)
 *     /api/trace  what the loop did lately, as psctl trace writes it: read from its timeline, without the loop's help
 *     /api/cluster    where the pages of all shards are (http_pages.h); these may ask here from a browser
 *     /api/history    the last half hour of some (history.h): the loop is asked for it, with or without clients
 *
 * With tokens (http_tokens.h) every route with figures or names in its answer needs one: all but /healthz, /readyz and
 * the page's files, which are the same for everybody. The page asks for it.
 *
 * The page requests /api/live once a second: a client that watches holds no connection, let alone a thread.
 *
 * GET and HEAD, one request for each connection, no bodies. A client that breaks a limit loses its connection, no other
 * client does. A connection has its place for as long as no other wants it: of those that hold one, and have sent no
 * whole request or do not fetch their answer, the oldest makes way for a new one, so that who asks at once, as health
 * checks do, is answered whatever others hold.
 *
 * With --http-tls it speaks TLS 1.3 and nothing else: a handshake counts in a connection's time. */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <uv.h>

#include "common/include/psclient/ps_err.h"
#include "server/core/metrics/metrics.h"

#define HTTP_CONNECTIONS_MAX 32         /* at once; one more closes the oldest whose request has not come */
#define HTTP_HOST_MAX        16         /* the same of one address; of IPv6: of a network of 64 bits */
#define HTTP_WAITING_MAX     28         /* of them that wait for figures; more are answered 503 */
#define HTTP_HELD_MAX        12         /* of them whose token waits to be looked at; more are answered 429 */
#define HTTP_WRONG_FREE      64         /* wrong tokens from an address, past which its tokens wait */
#define HTTP_REQUEST_MAX     (16 * KIB) /* bytes of a request's line and headers, and of what is kept to answer it */
#define HTTP_TRACE_MAX       4096       /* spans of /api/trace: the newest */
#define HTTP_LIFE_MS         10000      /* of a connection, from its beginning to the last byte of the answer */
#define HTTP_LOOP_MS         2000       /* the loop's time to give figures; past it requests are answered 503 */
#define HTTP_FIGURES_MS      100        /* between two requests to the loop */
#define HTTP_STUCK_MS        30000      /* without a turn of the loop psd is no longer alive */

struct http;

struct certificate;
struct access_policy;
struct options;
struct tls_files;

struct http_endpoint {
    const char *address;         /* "host:port" */
    int fd;                      /* a socket that listens there already, which is taken in any case; -1: open one */
    const struct tls_files *tls; /* certificate and key; NULL: HTTP is plain. No CA: clients have tokens */
    const char *pages;           /* "host:port,...": where all shards of the cluster serve HTTP; NULL: not known */
    uint32_t shard;              /* which of them this is */
};

/* Listen and start the thread. version is borrowed. guard: whether it may listen there, and which clients it admits.
 * PS_ERR_CONFIG: no, or the files of TLS are not what they should be; PS_ERR_UNSUPPORTED: there is no TLS here;
 * PS_ERR_BUSY, PS_ERR_IO, PS_ERR_NOMEM; with a sentence. */
enum ps_err http_start(const struct http_endpoint *at, const char *version, const struct access_policy *guard,
                       struct http **out, struct ps_error *e) PS_MUST_USE;

/* The loop has ended, and http_detach() was called if http_attach() was. Accepts NULL. */
void http_stop(struct http *h);

/* Where it listens: "127.0.0.1:41234"; and whether only this machine can reach it. */
const char *http_address(const struct http *h);
bool http_is_local(const struct http *h);

/* The certificate that it presents; an empty one: HTTP is plain. On the loop's thread, or before there is one. */
const struct certificate *http_certificate(const struct http *h);

/* The files that --http-tls means; false: it was not given. They are those of HTTP alone, or those of psd's other
 * sockets. */
bool http_tls_files(const struct options *o, struct tls_files *files);

/* ---- On the loop's thread; all accept NULL ---- */

/* From now on the loop gives figures. durable_file: the file whose size is reported, or NULL. timeline: of this shard,
 * read by the HTTP thread until http_detach(). */
struct timeline;
typedef void (*http_measure)(void *arg, struct metrics *m);
void http_attach(struct http *h, uv_loop_t *loop, const char *durable_file, const struct timeline *timeline,
                 uint32_t shard, http_measure measure, void *arg);

/* The loop gives no more figures; it must run once more, for a handle to close. Calling it again is allowed. */
void http_detach(struct http *h);

/* The loop runs: called about once a second. */
void http_beat(struct http *h);

/* Replaces the tokens. */
struct http_tokens;
void http_set_tokens(struct http *h, const struct http_tokens *tokens);

/* Certificate and key are read again, for new connections; existing ones continue. Bad files change nothing. Either is
 * logged. */
void http_reload_tls(struct http *h, const struct options *o);

#endif
