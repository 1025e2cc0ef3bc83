/* Routes. libmicrohttpd calls http_answer() when a request's headers are whole, and again when a wait for figures is
 * over; every answer is made here but those to requests that are not HTTP, which libmicrohttpd makes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/core/base/hash.h"
#include "common/core/base/nearest.h"
#include "common/core/base/text.h"
#include "common/core/base/utf8.h"
#include "common/system/now.h"
#include "server/core/metrics/metrics_json.h"
#include "server/http/http_host.h"
#include "server/http/http_internal.h"
#include "server/http/page/page.h"

#define TEXT_TYPE   "text/plain; charset=utf-8"
#define JSON_TYPE   "application/json"
#define PATH_SHOWN  80  /* bytes of a path or a method in a sentence, with its end */
#define TOO_MANY    429 /* its name depends on libmicrohttpd's version */
#define TOO_LARGE   413 /* its name depends on libmicrohttpd's version */
#define MISDIRECTED 421 /* the same */

struct http_route {
    const char *path;
    bool figures; /* waits for figures */
    bool open;    /* takes no token */
    bool inner;   /* for the page's own requests: no sentence offers it */
    enum MHD_Result (*answer)(struct http *h, struct MHD_Connection *c, enum http_outcome outcome);
};

/* ---- Answers ---- */

/* The page of another shard asks (the Fetch standard's CORS protocol): it may read what a client with its token may. */
static void
http_answer_cross(struct http *h, struct MHD_Connection *c, struct MHD_Response *r)
{
    const char *origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);

    if (!http_pages_has(&h->pages, origin))
        return;
    MHD_add_response_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    MHD_add_response_header(r, "Access-Control-Allow-Headers", MHD_HTTP_HEADER_AUTHORIZATION);
    MHD_add_response_header(r, "Access-Control-Max-Age", "600");
}

/* Takes the response. */
static enum MHD_Result
http_answer_queue(struct http *h, struct MHD_Connection *c, unsigned status, const char *type, struct MHD_Response *r)
{
    enum MHD_Result result;

    if (r == NULL)
        return MHD_NO; /* without memory the connection is closed */
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy", h->pages.policy);
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    http_answer_cross(h, c, r);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"psd\"");
    h->counts.answers[status / 100]++;
    result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result http_answer_text(struct http *h, struct MHD_Connection *c, unsigned status, const char *format,
                                        ...) PS_PRINTF(4, 5);

static enum MHD_Result
http_answer_text(struct http *h, struct MHD_Connection *c, unsigned status, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return http_answer_queue(h, c, status, TEXT_TYPE,
                             MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result
say_late(struct http *h, struct MHD_Connection *c)
{
    return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "late: the loop did not give figures within %d ms\n",
                            HTTP_LOOP_MS);
}

/* ---- Routes ---- */

static void
look_at_file(struct http *h)
{
    char path[PATH_MAX];
    struct stat st;

    uv_mutex_lock(&h->lock);
    memcpy(path, h->durable_file, sizeof path);
    uv_mutex_unlock(&h->lock);
    h->counts.durable_file_bytes = *path != '\0' && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* The figures when the loop gives none: the previous ones, if there were any, and the process's own. */
static void
complete_figures(struct http *h, enum http_outcome outcome)
{
    struct metrics *m = h->figures;
    enum metrics_state state;

    if (outcome == HTTP_ALONE && !http_figures_come(h, &state))
        m->state = state;
    look_at_file(h);
    m->http = h->counts;
    http_process_read(&m->process);
    m->process.start_seconds = h->start_seconds;
    m->limit_now[LIMIT_DESCRIPTORS] = m->process.descriptors;
    m->limit_max[LIMIT_DESCRIPTORS] = m->process.descriptors_max;
}

static enum MHD_Result
answer_metrics(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    struct exposition x = {0};
    struct MHD_Response *r;

    if (outcome == HTTP_LATE)
        return say_late(h, c);
    complete_figures(h, outcome);
    metrics_write(h->figures, h->version, &x);
    if (x.failed) {
        exposition_finish(&x);
        return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "there is no memory for the figures\n");
    }
    r = MHD_create_response_from_buffer(x.len, x.text, MHD_RESPMEM_MUST_FREE);
    if (r == NULL)
        exposition_finish(&x);
    return http_answer_queue(h, c, MHD_HTTP_OK, EXPOSITION_TYPE, r);
}

static enum MHD_Result
answer_ready(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    enum metrics_state state;

    if (outcome == HTTP_LATE)
        return say_late(h, c);
    if (outcome == HTTP_GIVEN || http_figures_come(h, &state))
        state = h->figures->state;
    if (state == METRICS_SERVING)
        return http_answer_text(h, c, MHD_HTTP_OK, "%s\n", metrics_state_names[state]);
    return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "%s: %s\n", metrics_state_names[state],
                            metrics_state_texts[state]);
}

static enum MHD_Result
answer_health(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    uint64_t stuck_ms = http_figures_stuck_ms(h);

    (void)outcome;
    if (stuck_ms >= HTTP_STUCK_MS)
        return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE,
                                "stuck: the loop has not turned for %" PRIu64 " s\n", stuck_ms / 1000);
    return http_answer_text(h, c, MHD_HTTP_OK, "alive\n");
}

/* Takes the text; NULL: there was no memory. */
static enum MHD_Result
answer_json(struct http *h, struct MHD_Connection *c, char *text)
{
    struct MHD_Response *r;

    if (text == NULL)
        return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "there is no memory for the figures\n");
    r = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (r == NULL)
        free(text);
    return http_answer_queue(h, c, MHD_HTTP_OK, JSON_TYPE, r);
}

static enum MHD_Result
answer_live(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    if (outcome == HTTP_LATE)
        return say_late(h, c);
    complete_figures(h, outcome);
    return answer_json(h, c, metrics_json_text(h->figures, h->version, http_unix_seconds()));
}

static enum MHD_Result
answer_history(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    (void)outcome;
    return answer_json(h, c, metrics_json_history(h->history));
}

static enum MHD_Result
answer_cluster(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    (void)outcome;
    return http_answer_queue(
        h, c, MHD_HTTP_OK, JSON_TYPE,
        MHD_create_response_from_buffer(strlen(h->pages.json), h->pages.json, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result
answer_trace(struct http *h, struct MHD_Connection *c, enum http_outcome outcome)
{
    (void)outcome;
    return answer_json(h, c, http_trace_text(h));
}

static const struct http_route routes[] = {
    {"/metrics", true, false, false, answer_metrics},      {"/readyz", true, true, false, answer_ready},
    {"/healthz", false, true, false, answer_health},       {"/api/live", true, false, false, answer_live},
    {"/api/history", false, false, false, answer_history}, {"/api/trace", false, false, false, answer_trace},
    {"/api/cluster", false, false, true, answer_cluster}};

/* ---- The page ---- */

static const struct page_file *
find_file(const char *path)
{
    for (size_t i = 0; i < page_files_len; i++)
        if (strcmp(page_files[i].path, path) == 0)
            return &page_files[i];
    return NULL;
}

static enum MHD_Result
answer_file(struct http *h, struct MHD_Connection *c, const struct page_file *file)
{
    void *bytes = (void *)(uintptr_t)file->bytes;

    return http_answer_queue(h, c, MHD_HTTP_OK, file->type,
                             MHD_create_response_from_buffer(file->len, bytes, MHD_RESPMEM_PERSISTENT));
}

static const struct http_route *
http_answer_find(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

/* ---- Requests ---- */

static bool
has_body(struct MHD_Connection *c)
{
    const char *len = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return (len != NULL && strcmp(len, "0") != 0) ||
           MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
}

/* Where no token is asked for it is enough to be on this machine: and a page of another site may not be, in the name of
 * a browser here. */
static bool
is_misdirected(struct http *h, struct MHD_Connection *c, const struct http_route *route)
{
    size_t tokens;

    if (route->open || !h->local)
        return false;
    uv_mutex_lock(&h->lock);
    tokens = h->tokens.len;
    uv_mutex_unlock(&h->lock);
    return tokens == 0 &&
           !http_host_is_known(&h->pages, MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST));
}

/* "there is no /metric; there are /, /healthz, /metrics ...; did you mean /metrics?" */
static enum MHD_Result
http_answer_not_found(struct http *h, struct MHD_Connection *c, const char *path)
{
    char shown[PATH_SHOWN], all[256], meant[NEAREST_TEXT_MAX];
    struct text t = text_start(all, sizeof all);
    struct nearest nearest = nearest_to(path);

    utf8_show(path, shown, sizeof shown);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (routes[i].inner)
            continue;
        text_put(&t, ", %s", routes[i].path);
        nearest_offer(&nearest, routes[i].path);
    }
    return http_answer_text(h, c, MHD_HTTP_NOT_FOUND, "there is no %s; there are /%s%s\n", shown, all,
                            nearest_text(&nearest, "", meant));
}

static enum MHD_Result
http_answer_method(struct http *h, struct MHD_Connection *c, const char *method)
{
    char shown[PATH_SHOWN];

    utf8_show(method, shown, sizeof shown);
    return http_answer_text(h, c, MHD_HTTP_METHOD_NOT_ALLOWED, "%s is not answered; only GET and HEAD are\n", shown);
}

static enum MHD_Result
http_answer_denied(struct http *h, struct MHD_Connection *c, enum http_pass pass)
{
    const char *said = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *why = pass == HTTP_PASS_WRONG ? "the request's token is none of those that this shard knows"
                      : said != NULL          ? "the request's Authorization is no \"Bearer TOKEN\""
                      : MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token") != NULL
                          ? "a token in the address, where logs keep it, is not read"
                          : "the request has no token";

    return http_answer_text(h, c, MHD_HTTP_UNAUTHORIZED,
                            "%s: \"Authorization: Bearer TOKEN\" is needed, with one of psd's --http-tokens or "
                            "PSD_HTTP_TOKEN; /, /healthz and /readyz need none\n",
                            why);
}

/* HTTP_PASS: the client may have this route's answer. */
static enum http_pass
http_answer_look(struct http *h, struct http_request *r)
{
    const char *said = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    enum http_pass pass;

    uv_mutex_lock(&h->lock);
    pass = http_tokens_look(&h->tokens, said);
    uv_mutex_unlock(&h->lock);
    http_held_end(h, r, pass == HTTP_PASS_WRONG);
    h->counts.denied[HTTP_DENIAL_MISSING] += pass == HTTP_PASS_MISSING;
    h->counts.denied[HTTP_DENIAL_WRONG] += pass == HTTP_PASS_WRONG;
    return pass;
}

/* Where a token is asked for, and the request has one. */
static bool
http_answer_is_attempt(struct http *h, const struct http_request *r)
{
    size_t tokens;

    if (r->route->open ||
        MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION) == NULL)
        return false;
    uv_mutex_lock(&h->lock);
    tokens = h->tokens.len;
    uv_mutex_unlock(&h->lock);
    return tokens > 0;
}

static struct http_conn *
http_answer_conn(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

static void
http_answer_note(struct MHD_Connection *c, bool waits)
{
    struct http_conn *g = http_answer_conn(c);

    if (g == NULL)
        return;
    g->asked = true;
    g->waits = waits;
}

static enum MHD_Result
wait_for_figures(struct http *h, struct MHD_Connection *c, struct http_request *r)
{
    if (h->waiting_len == HTTP_WAITING_MAX)
        return http_answer_text(h, c, MHD_HTTP_SERVICE_UNAVAILABLE, "late: %d requests wait for figures\n",
                                HTTP_WAITING_MAX);
    r->outcome = HTTP_WAITING;
    r->since_us = monotonic_us();
    DL_APPEND(h->waiting, r);
    h->waiting_len++;
    http_answer_note(c, true);
    MHD_suspend_connection(c);
    return MHD_YES;
}

/* Its token, where it takes one, may be looked at. */
static enum MHD_Result
http_answer_passed(struct http *h, struct http_request *r)
{
    struct MHD_Connection *c = r->connection;
    enum http_pass pass = r->route->open ? HTTP_PASS : http_answer_look(h, r);
    enum metrics_state state;

    if (pass != HTTP_PASS)
        return http_answer_denied(h, c, pass);
    if (r->route->figures && http_figures_come(h, &state))
        return wait_for_figures(h, c, r);
    return r->route->answer(h, c, HTTP_ALONE);
}

static enum MHD_Result
http_answer_begin(struct http *h, struct MHD_Connection *c, const struct http_route *route, void **request)
{
    const struct http_conn *conn = http_answer_conn(c);
    struct http_request *r = calloc(1, sizeof *r);
    enum http_hold hold = HTTP_HOLD_NONE;

    if (r == NULL)
        return MHD_NO;
    *request = r;
    r->connection = c;
    r->route = route;
    r->outcome = HTTP_HELD_OVER;
    if (conn != NULL && http_answer_is_attempt(h, r))
        hold = http_held_begin(h, r, &conn->host);
    if (hold == HTTP_HOLD_REFUSED)
        return http_answer_text(h, c, TOO_MANY,
                                "many tokens from this address were wrong lately, and others wait to be looked at: ask "
                                "again in some seconds\n");
    if (hold == HTTP_HOLD_NONE)
        return http_answer_passed(h, r);
    http_answer_note(c, true);
    MHD_suspend_connection(c);
    return MHD_YES;
}

enum MHD_Result
http_answer(void *http, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
            const char *body, size_t *body_len, void **request)
{
    struct http_request *r = *request;
    const struct http_route *route;
    const struct page_file *file;
    struct http *h = http;
    enum MHD_Result result;

    (void)version;
    (void)body;
    (void)body_len;
    http_answer_note(connection, false);
    if (r != NULL && r->outcome == HTTP_HELD_OVER)
        return http_answer_passed(h, r);
    if (r != NULL) {
        ps_assert(r->outcome != HTTP_WAITING && r->outcome != HTTP_HELD);
        result = r->route->answer(h, connection, r->outcome);
        http_figures_used(h, r);
        return result;
    }
    if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0 &&
        http_pages_has(&h->pages, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN)))
        return http_answer_text(h, connection, MHD_HTTP_NO_CONTENT, "%s", "");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return http_answer_method(h, connection, method);
    if (has_body(connection))
        return http_answer_text(h, connection, TOO_LARGE,
                                "a request with a body is not answered: GET and HEAD have none\n");
    if ((file = find_file(url)) != NULL)
        return answer_file(h, connection, file);
    if ((route = http_answer_find(url)) == NULL)
        return http_answer_not_found(h, connection, url);
    if (is_misdirected(h, connection, route))
        return http_answer_text(h, connection, MISDIRECTED,
                                "this name is not known here: ask by address, or as localhost, or name it in psd's "
                                "--http-shards, or have psd ask for a token (--http-tokens)\n");
    return http_answer_begin(h, connection, route, request);
}

void
http_answered(void *http, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode how)
{
    struct http_request *r = *request;
    struct http *h = http;

    (void)connection;
    (void)how;
    if (r == NULL)
        return;
    if (r->outcome == HTTP_WAITING) {
        DL_DELETE(h->waiting, r);
        h->waiting_len--;
    }
    http_held_forget(h, r);
    http_held_end(h, r, false);
    http_figures_used(h, r);
    free(r);
    *request = NULL;
}
