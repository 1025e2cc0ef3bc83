#include "client/api/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/thread.h"

struct resolve {
    char *host, port[8];
    pthread_mutex_t mutex; /* guards what follows */
    uv_async_t *wake;      /* NULL: left behind */
    bool done;
    int status; /* of getaddrinfo() */
    struct addrinfo *list;
};

static void
resolve_free(struct resolve *r)
{
    if (r->list != NULL)
        freeaddrinfo(r->list);
    pthread_mutex_destroy(&r->mutex);
    free(r->host);
    free(r);
}

static void *
resolve_main(void *arg)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    struct resolve *r = arg;
    int status = getaddrinfo(r->host, r->port, &hints, &list);
    bool left;

    pthread_mutex_lock(&r->mutex);
    r->status = status;
    r->list = status == 0 ? list : NULL;
    r->done = true;
    left = r->wake == NULL;
    if (!left)
        uv_async_send(r->wake);
    pthread_mutex_unlock(&r->mutex);
    if (left)
        resolve_free(r);
    return NULL;
}

static bool
start_thread(struct resolve *r)
{
    pthread_t thread;

    return thread_start(&thread, resolve_main, r) == 0 && pthread_detach(thread) == 0;
}

struct resolve *
resolve_start(const char *host, uint16_t port, uv_async_t *wake)
{
    struct resolve *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    pthread_mutex_init(&r->mutex, NULL);
    snprintf(r->port, sizeof(r->port), "%u", port);
    r->wake = wake;
    if ((r->host = strdup(host)) != NULL && start_thread(r))
        return r;
    resolve_free(r);
    return NULL;
}

bool
resolve_done(struct resolve *r, struct addrinfo **list, const char **why)
{
    bool done;

    pthread_mutex_lock(&r->mutex);
    done = r->done;
    if (done) {
        *list = r->list;
        *why = r->status != 0 ? gai_strerror(r->status) : "it has no address";
        r->list = NULL;
    }
    pthread_mutex_unlock(&r->mutex);
    return done;
}

void
resolve_leave(struct resolve *r)
{
    bool done;

    if (r == NULL)
        return;
    pthread_mutex_lock(&r->mutex);
    r->wake = NULL;
    done = r->done;
    pthread_mutex_unlock(&r->mutex);
    if (done)
        resolve_free(r);
}
