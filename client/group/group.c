/* A group's life, and what its core wants.
 *
 * What the core wants goes out in group_perform(): frames are given to links, then the links that got any are flushed.
 * It runs after everything that enters the core: a public call, a frame, an end, a turn of the loop; not after a frame
 * that was sent (done() may come in the middle of a link's own work), whose consequences go out at the turn's end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/api/choose_transport.h"
#include "client/api/trace_recorder.h"
#include "client/group/group_state.h"
#include "common/net/conn_credentials.h"
#include "common/system/cgroup.h"

#define TIMEOUT_DEFAULT_MS 60000
#define SETTLE_DEFAULT_MS  1000

/* ---- Frames out ---- */

static void
out_done(struct rank_link_out *out, enum ps_err result)
{
    struct group_send *s = (void *)((uint8_t *)out - round_up(sizeof *s, 16));
    ps_group *g = out->link->arg;

    g->outs--;
    g->activity++;
    group_core_sent(g->core, s, result);
}

static void
group_give_to_link(ps_group *g, struct group_send *s)
{
    uint32_t to = s->to; /* s may be another frame's when send() returns */
    struct rank_link *l = g->links[to];
    struct rank_link_out *out = group_send_user_data(s);

    if (l == NULL) {
        group_core_sent(g->core, s, PS_ERR_CLOSED);
        return;
    }
    out->done = out_done;
    out->link = l;
    out->head = s->head;
    out->head_len = s->head_len;
    out->parts = s->parts;
    out->parts_len = s->parts_len;
    g->outs++;
    l->ops->send(l, out);
    if (!g->flushing[to]) {
        g->flushing[to] = true;
        g->flush[g->flush_len++] = (uint16_t)to;
    }
}

static void
cut_all(ps_group *g)
{
    for (uint32_t r = 0; r < g->table.ranks; r++)
        if (g->links[r] != NULL)
            g->links[r]->ops->cut(g->links[r]);
}

/* True when anything was flushed: that may have given the core something to do. */
static bool
flush_all(ps_group *g)
{
    bool any = g->flush_len > 0;

    while (g->flush_len > 0) {
        uint16_t r = g->flush[--g->flush_len];

        g->flushing[r] = false;
        if (g->links[r] != NULL)
            g->links[r]->ops->flush(g->links[r]);
    }
    return any;
}

void
group_perform(ps_group *g)
{
    struct group_action a;

    if (g->performing || g->core == NULL)
        return;
    g->performing = true;
    do {
        while (group_core_next_action(g->core, &a)) {
            if (a.kind == GROUP_CUT)
                cut_all(g);
            else
                group_give_to_link(g, a.send);
        }
    } while (flush_all(g));
    g->performing = false;
}

/* ---- Links ---- */

static void
link_placed(struct rank_link *l, const struct frame_head *head, const void *meta, struct rank_link_dest *dest)
{
    ps_group *g = l->arg;

    (void)meta;
    group_core_payload_dest(g->core, l->rank, head, &dest->parts, &dest->parts_len);
}

static void
link_frame(struct rank_link *l, const struct frame_head *head, const void *meta, const void *payload)
{
    ps_group *g = l->arg;

    g->activity++;
    group_core_frame(g->core, l->rank, head, meta, payload, uv_now(&g->loop));
    group_perform(g);
}

static void
link_closed(struct rank_link *l)
{
    ps_group *g = l->arg;

    g->activity++;
    group_conn_gone(g);
    l->ops->destroy(l);
}

static void
link_ended(struct rank_link *l, const struct ps_error *why)
{
    ps_group *g = l->arg;

    g->activity++;
    group_core_ended(g->core, l->rank, why, uv_now(&g->loop));
    group_perform(g); /* the last frame to this one as well: it may yet read it */
    g->links[l->rank] = NULL;
    l->ops->finish(l, RANK_LINK_LINGER_MS, link_closed);
}

const struct rank_link_events group_link_events = {.dest = link_placed, .frame = link_frame, .ended = link_ended};

const char *
group_congestion(const ps_group *g, bool loopback)
{
    const char *wanted = g->options.congestion;

    if (wanted != NULL)
        return wanted[0] != '\0' ? wanted : NULL;
    /* A congestion control that paces by measured rates halves what a loopback can carry. */
    return loopback ? "reno" : NULL;
}

/* ---- Calls ---- */

void
group_enter(const ps_group *group)
{
    ps_group *g = (ps_group *)group;

    progress_enter(&g->progress);
    if (!g->progress.runs)
        uv_update_time(&g->loop);
}

void
group_leave(const ps_group *group)
{
    ps_group *g = (ps_group *)group;

    if (g->progress.runs)
        progress_leave(&g->progress, group_progress_status(g));
}

/* ---- Life ---- */

static uint64_t
random_id(void)
{
    uint64_t id = 0;

    while (id == 0)
        if (uv_random(NULL, NULL, &id, sizeof id, 0, NULL) != 0)
            id = uv_hrtime() ^ ((uint64_t)getpid() << 40);
    return id;
}

static bool
copy_text(const char **text)
{
    return *text == NULL || (*text = strdup(*text)) != NULL;
}

static enum ps_err
check_options(const struct ps_group_options *o, struct ps_error *e)
{
    size_t name = o->name != NULL ? strlen(o->name) : 1;

    if (name == 0 || name > GROUP_HELLO_NAME_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a group's name has 1 to %d bytes", GROUP_HELLO_NAME_MAX);
    if (o->timeout_ms < 0)
        return ps_fail(e, PS_ERR_INVALID, "the time-out is %d ms", o->timeout_ms);
    if (o->ranks_min > PS_GROUP_RANKS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "at least %u ranks are wanted; a group has at most %d", o->ranks_min,
                       PS_GROUP_RANKS_MAX);
    if ((int)o->algorithm < PS_ALGORITHM_AUTO || o->algorithm > PS_ALGORITHM_HIERARCHICAL)
        return ps_fail(e, PS_ERR_INVALID, "algorithm %d is not known", (int)o->algorithm);
    if ((int)o->transport < PS_TRANSPORT_AUTO || o->transport > PS_TRANSPORT_TCP)
        return ps_fail(e, PS_ERR_INVALID, "transport %d is not known", (int)o->transport);
    if (o->segment_bytes > FRAME_PAYLOAD_MAX || (o->segment_bytes > 0 && o->segment_bytes < 64))
        return ps_fail(e, PS_ERR_INVALID, "segments of %zu bytes; they have 64 to %llu", o->segment_bytes,
                       (unsigned long long)FRAME_PAYLOAD_MAX);
    return PS_OK;
}

static enum ps_err
take_options(ps_group *g, const char *cluster_name, const struct ps_group_options *options, struct ps_error *e)
{
    struct ps_group_options *o = &g->options;
    struct credentials_wanted wanted;
    enum ps_err err;
    bool copied;

    if (options != NULL)
        *o = *options;
    if (o->name == NULL)
        o->name = "group";
    if (o->timeout_ms == 0)
        o->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (o->settle_ms == 0)
        o->settle_ms = SETTLE_DEFAULT_MS;
    if (o->incarnation == 0)
        o->incarnation = random_id();
    adaptive_spin_init(&g->patience, adaptive_spin_ns(o->adaptive_spin_us, cgroup_cores()));
    wanted = (struct credentials_wanted){.ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key, .name = o->tls_name};
    o->tls_ca = o->tls_cert = o->tls_key = o->tls_name = NULL; /* the caller's */
    copied = copy_text(&o->name);
    copied = copy_text(&o->listen) && copied;
    copied = copy_text(&o->congestion) && copied;
    g->cluster_name = strdup(cluster_name);
    if (!copied || g->cluster_name == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    g->acceptor.credentials = &g->credentials;
    if ((err = choose_transport(&o->transport, e)) != PS_OK)
        return err;
    return credentials_open(&g->credentials, &wanted, true, e);
}

static bool
group_on_activity(void *arg)
{
    const ps_group *g = arg;

    return g->activity != g->known || (g->ready != NULL && g->ready(g->ready_arg));
}

static void
group_interrupted(void *arg)
{
    ps_group *g = arg;

    g->activity++;
    progress_notify(&g->progress);
}

static enum ps_err
make_loop(ps_group *g, struct ps_error *e)
{
    if (uv_loop_init(&g->loop) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    g->looped = true;
    g->loop.data = g;
    loop_timer_init(&g->timer, &g->loop);
    loop_wakeup_init(&g->news, &g->loop, group_on_activity, g);
    if (interrupt_watch_open(&g->interrupt, &g->loop, group_interrupted, g) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    switch (conn_pool_init(&g->pool, &g->loop)) {
    case PS_OK:
        return PS_OK;
    case PS_ERR_NOMEM:
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    default:
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    }
}

enum ps_err
group_new(const char *cluster_name, const struct ps_group_options *options, ps_group **out, struct ps_error *e)
{
    static const struct ps_group_options defaults;
    ps_group *g;
    enum ps_err err;

    *out = NULL;
    if ((err = check_options(options != NULL ? options : &defaults, e)) != PS_OK)
        return err;
    if ((g = calloc(1, sizeof *g)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    ps_error_set(&g->failed, PS_ERR_CLOSED, "the group has not been formed");
    if ((err = take_options(g, cluster_name, options, e)) != PS_OK || (err = make_loop(g, e)) != PS_OK ||
        (err = conn_credentials_take(&g->pool, g->options.token, cluster_name, e)) != PS_OK ||
        (err = mesh_new(g, e)) != PS_OK) {
        group_free(g);
        return err;
    }
    g->options.token = NULL; /* the caller's */
    *out = g;
    return PS_OK;
}

enum ps_err
group_listen(ps_group *g, const char *listen, struct ps_error *e)
{
    return acceptor_open(&g->acceptor, &g->pool, listen, e);
}

/* Equal texts, equal numbers; an unknown host is like no other. */
static void
number_hosts(const struct group_membership *t, uint32_t *host)
{
    for (uint32_t r = 0; r < t->ranks; r++) {
        host[r] = r;
        for (uint32_t k = 0; k < r && host[r] == r && t->members[r].host[0] != '\0'; k++)
            if (strcmp(t->members[k].host, t->members[r].host) == 0)
                host[r] = host[k];
    }
}

static bool
one_host(const uint32_t *host, uint32_t ranks)
{
    for (uint32_t r = 1; r < ranks; r++)
        if (host[r] != host[0])
            return false;
    return true;
}

/* More ranks on this machine than processors: a rank that polls keeps the one that it waits for from running. */
static bool
is_crowded(const uint32_t *host, uint32_t ranks, uint32_t rank)
{
    unsigned beside = 0;

    for (uint32_t r = 0; r < ranks; r++)
        beside += host[r] == host[rank];
    return beside > cgroup_cores();
}

static enum ps_err
make_core(ps_group *g, struct ps_error *e)
{
    char text[PS_GROUP_RANKS_MAX][PS_ERROR_PEER_MAX];
    const char *names[PS_GROUP_RANKS_MAX];
    uint32_t host[PS_GROUP_RANKS_MAX];
    struct group_core_config config = {
        .ranks = g->table.ranks,
        .rank = g->table.rank,
        .host = host,
        .names = names,
        .timeout_ms = (uint32_t)g->options.timeout_ms,
        .algorithm = g->options.algorithm,
        .segment_bytes = g->options.segment_bytes,
        .send_room = sizeof(struct rank_link_out),
    };

    for (uint32_t r = 0; r < g->table.ranks; r++) {
        group_membership_name(&g->table, r, text[r], sizeof text[r]);
        names[r] = text[r];
    }
    number_hosts(&g->table, host);
    g->crowded = is_crowded(host, g->table.ranks, g->table.rank);
    config.shared_memory = one_host(host, g->table.ranks);
    return group_core_new(&config, &g->core, e);
}

enum ps_err
group_form(ps_group *g, struct group_membership *t, uint64_t deadline_ms, struct ps_error *e)
{
    struct ps_error why = {0};
    enum ps_err err;

    ps_assert(g->core == NULL && g->links == NULL);
    group_membership_finish(&g->table);
    g->table = *t;
    *t = (struct group_membership){0};
    if ((err = group_membership_check(&g->table, &why)) != PS_OK)
        goto failed;
    g->epoch = g->table.epoch;
    g->links = calloc(g->table.ranks, sizeof *g->links);
    if (g->links == NULL)
        err = ps_fail(&why, PS_ERR_NOMEM, "no memory for a group");
    if (err == PS_OK && (err = make_core(g, &why)) == PS_OK && g->table.ranks > 1)
        err = mesh_join(g, deadline_ms, &why);
    if (err == PS_OK && !mesh_all_share(g)) /* known once all have greeted */
        group_core_without_memory(g->core);
    if (err == PS_OK && g->options.progress_thread)
        err = group_progress(g, &why);
    if (err == PS_OK)
        return PS_OK;
failed:
    group_unform(g);
    g->failed = why;
    if (e != NULL)
        *e = why;
    return err;
}

static bool
group_links_gone(void *arg)
{
    ps_group *g = arg;

    return g->outs == 0 && g->conns == mesh_waiting(g);
}

/* Works that their owners still hold keep their result, without the core. */
static void
works_outlive(ps_group *g)
{
    struct ps_work *w;

    for (w = g->live_works; w != NULL; w = w->next) {
        if (w->core == NULL)
            continue;
        w->result = group_work_result(g->core, w->core, &w->error);
        group_work_free(g->core, w->core);
        w->core = NULL;
    }
}

/* How long the link to a rank may linger: the rank is owed the end of what it takes part in, and the reason. */
static uint32_t
group_spin_for(const ps_group *g, uint32_t rank)
{
    bool guilty = g->core != NULL && group_core_state(g->core, NULL) != PS_OK && group_core_guilty(g->core) == rank;

    return guilty ? RANK_LINK_PART_MS : RANK_LINK_LINGER_MS;
}

void
group_unform(ps_group *g)
{
    progress_stop(&g->progress);
    if (g->core != NULL) {
        group_core_goodbye(g->core);
        group_perform(g);
    }
    for (uint32_t r = 0; g->links != NULL && r < g->table.ranks; r++) {
        struct rank_link *l = g->links[r];

        g->links[r] = NULL;
        if (l != NULL)
            l->ops->finish(l, group_spin_for(g, r), link_closed);
    }
    if (g->looped)
        (void)group_run_until(g, group_links_gone, g, UINT64_MAX); /* links end by themselves, in RANK_LINK_LINGER_MS */
    if (g->core != NULL) {
        (void)group_core_state(g->core, &g->failed);
        works_outlive(g);
    }
    group_core_free(g->core);
    g->core = NULL;
    free(g->links);
    g->links = NULL;
    group_membership_finish(&g->table);
}

static bool
all_closed(void *arg)
{
    ps_group *g = arg;

    return g->conns == 0 && acceptor_closed(&g->acceptor);
}

static void
close_loop(ps_group *g)
{
    mesh_close(g);
    form_finish(g);
    acceptor_close(&g->acceptor);
    (void)group_run_until(g, all_closed, g, UINT64_MAX);
    mesh_free(g);
    conn_pool_finish(&g->pool);
    interrupt_watch_close(&g->interrupt);
    loop_timer_close(&g->timer);
    loop_wakeup_close(&g->news);
    uv_run(&g->loop, UV_RUN_DEFAULT);
    uv_loop_close(&g->loop);
}

void
group_free(ps_group *g)
{
    struct ps_work *w;

    if (g->looped)
        close_loop(g);
    if (g->recorded)
        trace_recorder_close();
    while ((w = g->free_works) != NULL) {
        g->free_works = w->next;
        free(w);
    }
    while ((w = g->live_works) != NULL) {
        g->live_works = w->next;
        free(w);
    }
    ps_cluster_free(g->cluster);
    free(g->cluster_name);
    free((char *)g->options.name);
    free((char *)g->options.listen);
    free((char *)g->options.congestion);
    credentials_close(&g->credentials);
    free(g);
}

void
ps_group_close(ps_group *g)
{
    if (g == NULL)
        return;
    group_unform(g);
    group_free(g);
}
