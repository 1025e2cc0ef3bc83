/* The HTTP server's state, for its files: http.c (start and end), http_listener.c (connections and their deadlines),
 * http_places.c (which of them makes way for a new one), http_held.c (tokens that wait to be looked at), http_pages.c
 * (the pages of other shards), http_tls.c (its certificate), http_figures.c (figures of the loop), http_answer.c
 * (routes and answers), http_trace.c (what the loop did). */
#ifndef SERVER_HTTP_HTTP_INTERNAL_H
#define SERVER_HTTP_HTTP_INTERNAL_H

#include <limits.h>

#include <microhttpd.h>
#include <pthread.h>

#include "common/core/base/base.h"
#include "common/core/cluster/address.h"
#include "common/net/sockname.h"
#include "common/net/tls.h"
#include "server/access/access_attempts.h"
#include "server/access/certificate.h"
#include "server/access/http_tokens.h"
#include "server/core/metrics/history.h"
#include "server/http/http.h"
#include "server/http/http_pages.h"

struct http_route;

/* A connection, for its deadline and its place. */
struct http_conn {
    int fd;
    struct sockname_host host;
    uint64_t since_ms;
    bool asked;   /* its request is whole */
    bool waits;   /* for figures */
    bool hung_up; /* nothing more will come */
    bool ended;   /* by us */
    struct http_conn *prev, *next;
};

/* An instance of libmicrohttpd, plain or with a certificate, and its connections. It keeps the certificate that it was
 * started with, so another one is started for a new certificate. The newest takes new connections; one that was
 * replaced ends with its last connection, so that no answer under way is cut off. */
struct http_listener {
    struct http *http;
    struct MHD_Daemon *daemon;
    int epoll_fd; /* libmicrohttpd's */
    unsigned conns_len;
    struct tls_pem pem; /* empty: it is plain */
    char complaint[200];
    struct http_listener *prev, *next;
};

enum http_outcome {
    HTTP_HELD,      /* its token waits to be looked at */
    HTTP_HELD_OVER, /* it may be */
    HTTP_WAITING,   /* for figures */
    HTTP_GIVEN,     /* they are there */
    HTTP_LATE,      /* they did not come in time */
    HTTP_ALONE      /* the loop gives none: it has not begun, or has ended */
};

/* A request that needs figures, or whose token is looked at. */
struct http_request {
    struct MHD_Connection *connection;
    const struct http_route *route;
    enum http_outcome outcome;
    bool uses; /* the figures that were given, from now until it is answered */
    uint64_t since_us;
    uint64_t due_ms; /* HTTP_HELD: until then */
    bool attempts;   /* its token is counted in: */
    struct access_attempts_at attempt;
    struct http_request *prev, *next; /* while it waits */
};

struct http {
    char address[ADDRESS_MAX];
    bool local; /* no other machine reaches it */
    const char *version;
    struct http_pages pages;
    pthread_t thread;
    uv_mutex_t lock;
    int wake_fd; /* eventfd: something under the lock has changed */

    /* Under the lock. */
    bool stopping;
    bool attached, detached; /* the loop gives figures; it did, and does no more */
    bool asked;              /* the loop is to fill the figures in: they are its own until it has */
    bool given;              /* the loop has, or will not any more */
    uint64_t beat_ms;
    struct http_tokens tokens;
    char durable_file[PATH_MAX];     /* "": there is none */
    const struct timeline *timeline; /* while attached */
    uint32_t shard;                  /* the same */
    struct http_listener *fresh;     /* to be the newest */

    /* The loop's. */
    uv_async_t async;
    http_measure measure;
    void *arg;
    struct certificate certificate; /* of the newest listener */

    /* The HTTP thread's; the figures while they are not asked for. */
    struct metrics *figures;
    struct history *history;
    struct metrics_http counts;
    double start_seconds;
    bool asking;
    bool attends; /* the loop, when it was last looked at */
    uint64_t asked_us, may_ask_us;
    struct http_listener *listeners; /* newest last */
    int listen_fd;
    uint64_t accept_ms;          /* no connection is accepted before this: there were no descriptors */
    struct sockname_host newest; /* whose connection is being taken */
    struct http_conn *conns;
    unsigned conns_len;
    struct http_request *waiting; /* in order of arrival: */
    unsigned waiting_len;         /* so many */
    struct access_attempts attempts;
    struct http_request *held; /* whose tokens wait to be looked at: */
    unsigned held_len;         /* so many */
    unsigned uses;             /* requests that use the figures: the loop is not asked for others meanwhile */
};

double http_unix_seconds(void);

/* The lock is held, and released here; the HTTP thread looks at what has changed. */
void http_tell(struct http *h);

/* ---- http_listener.c ---- */

/* Any thread. tls: the certificate to present; NULL: plain. PS_ERR_UNSUPPORTED: libmicrohttpd has no TLS;
 * PS_ERR_CONFIG: it does not take this certificate; PS_ERR_NOMEM. */
enum ps_err http_listener_new(struct http *h, const struct tls *tls, struct http_listener **out,
                              struct ps_error *e) PS_MUST_USE;
void http_listener_free(struct http_listener *listener); /* accepts NULL */

/* The functions below run on the HTTP thread. A fresh listener takes new connections from now on; empty ones are
 * freed. */
void http_listeners_change(struct http *h);
void http_listeners_accept(struct http *h);
void http_listeners_run(struct http *h);
void http_listeners_close_overdue(struct http *h); /* those past their deadline */
void http_listeners_close(struct http *h);

/* ---- http_places.c ---- */

/* Room for one more connection: of all, and of this host. Where there is none, one that has not sent its request, or
 * does not fetch its answer, is closed. False: there is none, since all wait for figures; the first only says whether
 * the others would free one. */
bool http_places_may_free(const struct http *h);
bool http_places_free(struct http *h);
bool http_places_free_of(struct http *h, const struct sockname_host *host);

/* ---- http_held.c ---- */

enum http_hold { HTTP_HOLD_NONE /* the token may be looked at */, HTTP_HOLD_SUSPENDED, HTTP_HOLD_REFUSED };

/* A request with a token has come from this host. Suspended: the caller suspends its connection, and finds it to be
 * HTTP_HELD_OVER when the handler is called again. */
enum http_hold http_held_begin(struct http *h, struct http_request *r, const struct sockname_host *host);

/* Its token was looked at, or the request is gone. */
void http_held_end(struct http *h, struct http_request *r, bool wrong);
void http_held_forget(struct http *h, struct http_request *r); /* it no longer waits */

/* Those that are due go on, or all; and when the next one is. */
void http_held_go_on(struct http *h, bool all);
uint64_t http_held_due(const struct http *h);

/* ---- http_tls.c ---- */

/* A listener with certificate and key of these files, NULL: plain. Any thread. shown: its certificate. */
enum ps_err http_tls_listener(struct http *h, const struct tls_files *files, struct http_listener **out,
                              struct certificate *shown, struct ps_error *e) PS_MUST_USE;

/* ---- http_figures.c, on the HTTP thread ---- */

/* Ask for figures if a request waits and the interval allows it; end the waits that are over. */
void http_figures_go_on(struct http *h);

/* All requests that wait are answered that there are none. */
void http_figures_end(struct http *h);

/* This request is answered, or its connection closed. */
void http_figures_used(struct http *h, struct http_request *r);

/* When http_figures_go_on() must be called again at the latest; UINT64_MAX: when the thread is woken. */
uint64_t http_figures_due(const struct http *h);

/* Whether the loop gives figures; else *state says why not. */
bool http_figures_come(struct http *h, enum metrics_state *state);

/* For how long the loop has not run; 0: it runs, or gives no figures. */
uint64_t http_figures_stuck_ms(struct http *h);

/* ---- http_answer.c: libmicrohttpd's callbacks ---- */

enum MHD_Result http_answer(void *http, struct MHD_Connection *connection, const char *url, const char *method,
                            const char *version, const char *body, size_t *body_len, void **request);
void http_answered(void *http, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode how);

/* ---- http_trace.c ---- */

/* What the loop did lately, in Chrome's trace format; empty where there is no loop. Heap; NULL: no memory. */
char *http_trace_text(struct http *h);

/* ---- http_process.c ---- */

void http_process_read(struct metrics_process *p);

#endif
