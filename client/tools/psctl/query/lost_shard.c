#include "client/tools/psctl/query/lost_shard.h"

#include <stdio.h>
#include <string.h>

#include "common/core/base/units.h"
#include "common/system/now.h"
#include "common/system/thread.h"

/* Until the shards are back, the command has ended, or the time is up. */
static void *
lost_shard_wait(void *arg)
{
    struct lost_shard *l = arg;

    pthread_mutex_lock(&l->mutex);
    while (!l->ended && !l->gave_up) {
        uint64_t now = monotonic_ms();
        struct timespec until;

        if (l->lost_len == 0) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        if (now >= l->until_ms) {
            l->gave_up = true;
            ps_client_interrupt(l->client);
            break;
        }
        until = monotonic_in(l->until_ms - now);
        (void)pthread_cond_timedwait(&l->changed, &l->mutex, &until);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static void
lost_shard_add(struct lost_shard *l, const struct ps_error *event)
{
    if (l->lost_len == LOST_SHARDS_MAX || l->client == NULL)
        return;
    if (l->lost_len == 0)
        l->until_ms = monotonic_ms() + l->patience_ms;
    l->lost[l->lost_len++] = *event;
    if (!l->waits)
        l->waits = thread_start(&l->thread, lost_shard_wait, l) == 0;
}

static void
lost_shard_remove(struct lost_shard *l, const struct ps_error *event)
{
    size_t n = 0;

    for (size_t i = 0; i < l->lost_len; i++)
        if (strcmp(l->lost[i].peer, event->peer) != 0)
            l->lost[n++] = l->lost[i];
    l->lost_len = n;
}

static void
lost_shard_event(void *arg, const struct ps_error *event)
{
    struct lost_shard *l = arg;

    pthread_mutex_lock(&l->mutex);
    if (event->code == PS_ERR_CLOSED)
        lost_shard_add(l, event);
    else if (event->code == PS_OK)
        lost_shard_remove(l, event);
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

enum ps_err
lost_shard_open(struct lost_shard *l, const ps_cluster *cluster, struct ps_client_options *options,
                uint64_t patience_ms, ps_client **client, struct ps_error *e)
{
    enum ps_err err;

    *l = (struct lost_shard){.patience_ms = patience_ms};
    pthread_mutex_init(&l->mutex, NULL);
    monotonic_cond_init(&l->changed);
    options->on_event = lost_shard_event;
    options->on_event_arg = l;
    if ((err = ps_client_open(cluster, options, client, e)) != PS_OK)
        return err;
    pthread_mutex_lock(&l->mutex);
    l->client = *client;
    pthread_mutex_unlock(&l->mutex);
    return PS_OK;
}

enum ps_err
lost_shard_end(struct lost_shard *l, enum ps_err err, struct ps_error *e)
{
    const char *cause, *state;
    char text[PS_ERROR_TEXT_MAX];
    struct units time;

    pthread_mutex_lock(&l->mutex);
    l->ended = true;
    l->client = NULL; /* what happens from now on is no matter of ours */
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    if (l->waits)
        pthread_join(l->thread, NULL);
    if (err != PS_ERR_CANCELLED || !l->gave_up)
        return err;
    cause = l->lost[0].text;
    state = strstr(e->text, "; "); /* of a restore: what has changed */
    snprintf(text, sizeof text, "%s", state != NULL ? state : "");
    return ps_fail(e, PS_ERR_UNREACHABLE, "%s: %.*s; it was not back within %s%.200s", l->lost[0].peer,
                   (int)strcspn(cause, ";"), cause, units_duration(l->patience_ms, &time), text);
}
