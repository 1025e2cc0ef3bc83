#include "client/core/plan/plan_schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---- Making one ---- */

static bool
is_send(const struct plan_step *s)
{
    return s->kind == PLAN_SEND;
}

static bool
is_receive(const struct plan_step *s)
{
    return s->kind == PLAN_RECEIVE || s->kind == PLAN_RECEIVE_REDUCE;
}

/* A message from one rank to another, in segments; each by itself. */
static enum ps_err
pair_plan(const struct plan_key *key, struct plan_plan *p, struct ps_error *e)
{
    size_t segment = PLAN_PAIR_SEGMENT / key->size;
    size_t steps = key->count == 0 ? 1 : (key->count + segment - 1) / segment;

    if (steps > PLAN_STEPS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "a message of %llu elements", (unsigned long long)key->count);
    *p = (struct plan_plan){
        .algorithm = PS_ALGORITHM_DIRECT, .segment_bytes = PLAN_PAIR_SEGMENT, .steps = (uint32_t)steps};
    p->step = calloc(steps, sizeof *p->step);
    if (p->step == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a message's schedule");
    for (size_t i = 0; i < steps; i++)
        p->step[i] = (struct plan_step){
            .kind = key->op == PLAN_KEY_SEND ? PLAN_SEND : PLAN_RECEIVE,
            .peer = key->root,
            .buffer = key->op == PLAN_KEY_SEND ? PLAN_IN : PLAN_OUT,
            .offset = i * segment,
            .len = MIN(segment, key->count - i * segment),
            .needs = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
        };
    return PS_OK;
}

static enum ps_err
make_plan(const struct plan_group *g, const struct plan_key *key, struct plan_plan *p, struct ps_error *e)
{
    struct plan_request ask = {
        .op = (enum plan_op)key->op,
        .ranks = g->ranks,
        .rank = g->rank,
        .root = key->root,
        .host = g->host,
        .count = key->count,
        .size = key->size,
        .in_place = (key->flags & PLAN_KEY_IN_PLACE) != 0,
        .mean = (key->flags & PLAN_KEY_MEAN) != 0,
        .algorithm = (enum ps_algorithm)key->algorithm,
        .segment_bytes = key->segment_bytes,
        .shared_memory = g->shared_memory,
    };
    enum ps_err err;

    if (key->op == PLAN_KEY_MERGE)
        err = plan_merge(g->ranks, g->rank, key->count / g->ranks, key->segment_bytes / key->size, key->size, p, e);
    else
        err = key->op >= PLAN_KEY_SEND ? pair_plan(key, p, e) : plan_make(&ask, p, e);
    if (err != PS_OK)
        return err;
    for (uint32_t i = 0; i < p->steps; i++)
        if (p->step[i].peer != PLAN_NONE && p->step[i].len * key->size > FRAME_PAYLOAD_MAX) {
            err = ps_fail(e, PS_ERR_LIMIT, "a message of %zu bytes; the largest has %llu", p->step[i].len * key->size,
                          (unsigned long long)FRAME_PAYLOAD_MAX);
            plan_finish(p);
            return err;
        }
    return PS_OK;
}

/* Pieces of one allocation; the first pass, without memory, adds up. */
struct schedule_carver {
    uint8_t *memory;
    size_t used;
};

static void *
schedule_carve(struct schedule_carver *c, size_t bytes)
{
    size_t at = c->used;

    c->used += round_up(bytes, sizeof(uint64_t));
    return c->memory != NULL ? c->memory + at : NULL;
}

struct schedule_counts {
    uint32_t peers, needs, local;
};

static struct schedule_counts
schedule_count(const struct plan_plan *p, uint32_t ranks)
{
    bool seen[PS_GROUP_RANKS_MAX] = {false};
    struct schedule_counts n = {0};

    for (uint32_t i = 0; i < p->steps; i++) {
        const struct plan_step *s = &p->step[i];
        uint32_t needs = 0;

        for (uint32_t k = 0; k < PLAN_NEEDS_MAX; k++)
            needs += s->needs[k] != PLAN_NONE;
        n.needs += needs;
        n.local += s->peer == PLAN_NONE && needs == 0;
        if (s->peer == PLAN_NONE)
            continue;
        ps_assert(s->peer < ranks);
        n.peers += !seen[s->peer];
        seen[s->peer] = true;
    }
    return n;
}

static void
carve_all(struct plan_schedule *a, uint32_t ranks, const struct schedule_counts *n, uint32_t **lists,
          struct schedule_carver *c)
{
    uint32_t steps = a->plan.steps;

    a->peers = schedule_carve(c, n->peers * sizeof *a->peers);
    a->peer_of = schedule_carve(c, ranks * sizeof *a->peer_of);
    a->step_peer = schedule_carve(c, steps * sizeof *a->step_peer);
    a->needs = schedule_carve(c, steps * sizeof *a->needs);
    a->next_at = schedule_carve(c, (steps + 1) * sizeof *a->next_at);
    a->next = schedule_carve(c, n->needs * sizeof *a->next);
    a->local = schedule_carve(c, n->local * sizeof *a->local);
    *lists = schedule_carve(c, steps * sizeof **lists);
}

/* Peers in the order in which the plan first speaks of them. */
static void
list_peers(struct plan_schedule *a, uint32_t ranks, uint32_t *lists)
{
    for (uint32_t r = 0; r < ranks; r++)
        a->peer_of[r] = PLAN_NO_PEER;
    for (uint32_t i = 0; i < a->plan.steps; i++) {
        const struct plan_step *s = &a->plan.step[i];
        struct plan_peer *p;

        a->step_peer[i] = PLAN_NO_PEER;
        if (s->peer == PLAN_NONE)
            continue;
        if (a->peer_of[s->peer] == PLAN_NO_PEER) {
            a->peer_of[s->peer] = (uint16_t)a->peers_len;
            a->peers[a->peers_len++] = (struct plan_peer){.rank = s->peer};
        }
        a->step_peer[i] = a->peer_of[s->peer];
        p = &a->peers[a->step_peer[i]];
        p->sends += is_send(s);
        p->receives += is_receive(s);
    }
    for (uint32_t k = 0; k < a->peers_len; k++) {
        struct plan_peer *p = &a->peers[k];

        p->send = lists;
        p->receive = lists + p->sends;
        lists += p->sends + p->receives;
        p->sends = p->receives = 0;
    }
    for (uint32_t i = 0; i < a->plan.steps; i++) {
        struct plan_peer *p;

        if (a->step_peer[i] == PLAN_NO_PEER)
            continue;
        p = &a->peers[a->step_peer[i]];
        if (is_send(&a->plan.step[i]))
            ((uint32_t *)p->send)[p->sends++] = i;
        else
            ((uint32_t *)p->receive)[p->receives++] = i;
    }
}

/* The needs the other way round: which steps wait for each step. */
static void
list_next(struct plan_schedule *a)
{
    uint32_t steps = a->plan.steps;

    memset(a->next_at, 0, (steps + 1) * sizeof *a->next_at);
    for (uint32_t i = 0; i < steps; i++) {
        a->needs[i] = 0;
        for (uint32_t k = 0; k < PLAN_NEEDS_MAX; k++) {
            uint32_t need = a->plan.step[i].needs[k];

            if (need == PLAN_NONE)
                continue;
            ps_assert(need < i);
            a->needs[i]++;
            a->next_at[need + 1]++;
        }
        if (a->needs[i] == 0 && a->plan.step[i].peer == PLAN_NONE)
            a->local[a->local_len++] = i;
    }
    for (uint32_t i = 0; i < steps; i++)
        a->next_at[i + 1] += a->next_at[i];
    for (uint32_t i = steps; i-- > 0;) /* next_at[need + 1] goes down to where need's begin, which is next_at[need] */
        for (uint32_t k = 0; k < PLAN_NEEDS_MAX; k++)
            if (a->plan.step[i].needs[k] != PLAN_NONE)
                a->next[--a->next_at[a->plan.step[i].needs[k] + 1]] = i;
    memmove(a->next_at, a->next_at + 1, steps * sizeof *a->next_at);
    a->next_at[steps] = 0;
    for (uint32_t i = 0; i < steps; i++)
        a->next_at[steps] += a->needs[i];
    for (uint32_t k = 0; k < a->peers_len; k++) {
        struct plan_peer *p = &a->peers[k];

        while (p->ready < p->receives && a->needs[p->receive[p->ready]] == 0)
            p->ready++;
    }
}

static void
agenda_free(struct plan_cache *c, struct plan_schedule *a)
{
    if (a->spare_scratch != NULL)
        c->spare_bytes -= (uint64_t)a->plan.scratch * a->key.size;
    plan_finish(&a->plan);
    free(a->memory);
    free(a->spare);
    free(a->spare_scratch);
    free(a);
}

static enum ps_err
agenda_make(struct plan_cache *c, const struct plan_key *key, struct plan_schedule **out, struct ps_error *e)
{
    const struct plan_group *g = &c->group;
    struct plan_schedule *a = calloc(1, sizeof *a);
    struct schedule_carver carver = {0};
    struct schedule_counts n;
    uint32_t *lists;
    enum ps_err err;

    if (a == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the schedule of an operation");
    a->key = *key;
    if ((err = make_plan(g, key, &a->plan, e)) != PS_OK) {
        free(a);
        return err;
    }
    n = schedule_count(&a->plan, g->ranks);
    carve_all(a, g->ranks, &n, &lists, &carver);
    a->memory = malloc(MAX(carver.used, 1));
    if (a->memory == NULL) {
        agenda_free(c, a);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the schedule of an operation");
    }
    carver = (struct schedule_carver){.memory = a->memory};
    carve_all(a, g->ranks, &n, &lists, &carver);
    list_peers(a, g->ranks, lists);
    list_next(a);
    *out = a;
    return PS_OK;
}

/* ---- Keeping them ---- */

void
plan_cache_init(struct plan_cache *c, const struct plan_group *group)
{
    *c = (struct plan_cache){.group = *group};
}

static void
unlink_one(struct plan_cache *c, struct plan_schedule *a)
{
    *(a->newer != NULL ? &a->newer->older : &c->newest) = a->older;
    *(a->older != NULL ? &a->older->newer : &c->oldest) = a->newer;
    a->newer = a->older = NULL;
    c->len--;
    c->steps -= a->plan.steps;
}

static void
link_newest(struct plan_cache *c, struct plan_schedule *a)
{
    a->newer = NULL;
    a->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = a;
    c->newest = a;
    c->len++;
    c->steps += a->plan.steps;
}

void
plan_cache_finish(struct plan_cache *c)
{
    while (c->newest != NULL) {
        struct plan_schedule *a = c->newest;

        ps_assert(a->refs == 0);
        unlink_one(c, a);
        agenda_free(c, a);
    }
}

/* Those in use stay, however many they are. */
static void
plan_cache_trim(struct plan_cache *c)
{
    for (struct plan_schedule *a = c->oldest, *newer;
         a != NULL && (c->len > PLAN_CACHE_MAX || c->steps > PLAN_CACHE_STEPS_MAX); a = newer) {
        newer = a->newer;
        if (a->refs > 0)
            continue;
        unlink_one(c, a);
        agenda_free(c, a);
    }
}

static bool
key_equal(const struct plan_key *a, const struct plan_key *b)
{
    return a->count == b->count && a->segment_bytes == b->segment_bytes && a->root == b->root && a->op == b->op &&
           a->size == b->size && a->algorithm == b->algorithm && a->flags == b->flags;
}

enum ps_err
plan_schedule_get(struct plan_cache *c, const struct plan_key *key, struct plan_schedule **out, struct ps_error *e)
{
    struct plan_schedule *a = c->newest;
    enum ps_err err;

    while (a != NULL && !key_equal(&a->key, key))
        a = a->older;
    if (a == NULL) {
        if ((err = agenda_make(c, key, &a, e)) != PS_OK)
            return err;
        link_newest(c, a);
    } else if (a != c->newest) {
        unlink_one(c, a);
        link_newest(c, a);
    }
    a->refs++;
    *out = a;
    return PS_OK;
}

void
plan_schedule_put(struct plan_cache *c, struct plan_schedule *a)
{
    ps_assert(a->refs > 0);
    a->refs--;
    if (c->len > PLAN_CACHE_MAX || c->steps > PLAN_CACHE_STEPS_MAX)
        plan_cache_trim(c);
}
