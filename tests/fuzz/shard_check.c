/* The conditions that a shard must meet between turns. It looks inside the shard: shard_state.h has its whole state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/model/initializer.h"
#include "server/core/durability/drop_erase.h"
#include "tests/fuzz/shard_world.h"

/* ---- Waiting requests ---- */

static bool
is_asked(const struct shard_world_request *a, uint64_t number)
{
    for (size_t i = 0; i < a->len; i++)
        if (a->number[i] == number)
            return true;
    return false;
}

/* Pushes and barriers of this connection that wait. */
static uint32_t
check_pending(const struct world_conn *at, const struct connection *c)
{
    const struct pending *p;
    uint32_t n = 0;

    if (c->session == NULL)
        return 0;
    DL_FOREACH (c->session->pending, p) {
        if (p->connection != c->id)
            continue;
        n++;
        ps_assert(at->wild || is_asked(&at->seqs, p->seq));
    }
    return n;
}

/* Answers with blocks that are not yet made are owed as well. */
static void
count_owed(const struct shard_world *w, uint64_t conn, uint32_t *requests, uint32_t *seqs)
{
    for (const struct world_data *d = w->data; d != NULL; d = d->next) {
        *requests += d->conn == conn && d->data->seq == 0;
        *seqs += d->conn == conn && d->data->seq > 0;
    }
}

static uint32_t
saves_asked(const struct shard_world *w, const struct connection *c)
{
    const struct save *save = &w->shard->save;
    const struct save_request *r;
    uint32_t n = 0;

    DL_FOREACH (save->waiting, r)
        n += r->connection == c;
    DL_FOREACH (save->answering, r)
        n += r->connection == c;
    return n;
}

struct drops_asked {
    const struct connection *c;
    uint32_t n;
};

static bool
count_drop(void *arg, const struct connection *c, uint64_t since_ms)
{
    struct drops_asked *asked = arg;

    (void)since_ms;
    asked->n += asked->c == c;
    return true;
}

static uint32_t
drops_asked(const struct shard_world *w, const struct connection *c)
{
    struct drops_asked asked = {.c = c};

    drop_erase_each(w->shard, count_drop, &asked);
    return asked.n;
}

static void
check_conn(const struct shard_world *w, const struct world_conn *at)
{
    const struct connection *c = connection_find(w->shard, at->id);
    uint32_t requests, seqs;
    const struct pull *p;

    ps_assert(c != NULL && c->acks_first == 0 && (c->state == CONN_CLOSING) == at->ended);
    ps_assert((c->state == CONN_WORKER) == (c->session != NULL));
    ps_assert(c->session == NULL || c->session->connection == c);
    ps_assert(!at->ended || (c->parked_len == 0 && c->declares_len == 0 && c->assigns_len == 0));
    ps_assert(!at->ended || c->rendezvous_request == 0);
    requests = c->parked_len + c->declares_len + c->assigns_len + saves_asked(w, c) + drops_asked(w, c) +
               (c->rendezvous_request != 0);
    DL_FOREACH2 (c->parked, p, parked_next)
        ps_assert(at->wild || is_asked(&at->requests, p->request));
    seqs = check_pending(at, c) + c->durable_acks_len;
    count_owed(w, at->id, &requests, &seqs);
    if (at->ended || at->wild)
        return;
    ps_assert(at->requests.len >= requests && at->requests.len <= requests + c->durable_acks_len);
    /* A message that was sent twice may be held twice. */
    ps_assert(at->seqs.len <= seqs && (w->data != NULL || c->durable_acks_len > 0 || at->seqs.len == seqs));
}

static void
check_conns(const struct shard_world *w)
{
    uint64_t open = 0, guests = 0;

    for (int i = 0; i < WORLD_CONNS; i++)
        if (w->conn[i].id != 0) {
            check_conn(w, &w->conn[i]);
            open++;
            guests += connection_find(w->shard, w->conn[i].id)->rendezvous_request != 0;
        }
    ps_assert(w->shard->connections_len == open);
    ps_assert(w->shard->rendezvous.requests_len == guests);
}

/* ---- Sessions and jobs ---- */

static void
check_sequences(const struct session *x)
{
    const struct pending *p;
    uint64_t before = x->last_seq;
    uint32_t n = 0;

    ps_assert(x->last_seq < x->next_seq && x->acked_through <= x->last_seq && x->outcomes_len <= SHARD_OUTCOMES_MAX);
    DL_FOREACH (x->pending, p) {
        ps_assert(p->session == x && p->seq > before && p->seq < x->next_seq && p->left >= (p->barrier == NULL));
        ps_assert(sequence_pending(x, p->seq) == p);
        before = p->seq;
        n++;
    }
    ps_assert(n == x->pending_len && (n == 0) == (x->last_seq + 1 == x->next_seq));
    ps_assert(n == 0 || x->pending->seq == x->last_seq + 1);
    for (uint32_t i = 1; i < x->outcomes_len; i++)
        ps_assert(x->outcomes[i - 1].seq < x->outcomes[i].seq);
}

static void
check_session(const struct job *job, const struct session *x)
{
    ps_assert(x->job == job && !x->marked);
    ps_assert(x->connection == NULL || (x->state == SESSION_LIVE && x->connection->session == x));
    ps_assert(x->state == SESSION_LIVE || (x->pending_len == 0 && x->connection == NULL));
    ps_assert(x->state != SESSION_LIVE || x->held_clock >= job->slowest);
    check_sequences(x);
}

static void
check_sync_steps(const struct job *job)
{
    const struct sync_step *g;

    DL_FOREACH (job->sync_steps, g) {
        const struct block *b = &g->variable->blocks[0];

        ps_assert(g->variable->job == job && job_is_sync(job) && g->len >= 1 && g->len <= g->room);
        for (uint32_t i = 1; i < g->len; i++)
            ps_assert(g->entries[i - 1].task < g->entries[i].task);
        for (uint64_t i = 0; i < g->variable->count && b->sync_step != g; i++)
            b = &g->variable->blocks[i];
        ps_assert(b->sync_step == g);
    }
}

static uint64_t
check_job(struct job *job)
{
    uint32_t count[SESSION_STATES] = {0};
    const struct barrier *b, *next;
    uint64_t barriers = 0;

    for (uint32_t task = 0; task < job->room; task++) {
        const struct session *x = job->sessions[task];

        if (x == NULL)
            continue;
        ps_assert(x->round <= job->round);
        count[x->state] += session_counts(x);
        check_session(job, x);
    }
    ps_assert(job->live == count[SESSION_LIVE] && job->lapsed == count[SESSION_LAPSED] &&
              job->finished == count[SESSION_FINISHED] && !job->marked && !job->sweep);
    check_sync_steps(job);
    HASH_ITER (hh, job->barriers, b, next) {
        ps_assert(b->arrived_len >= 1 && b->arrived_len < job_active(job));
        barriers++;
    }
    return barriers;
}

/* Each use of a definition is a variable's, of so many. */
static void
check_definitions(const struct shard *s, uint64_t variables)
{
    const struct variable_definition *d;
    uint64_t uses = 0;

    for (d = s->definitions; d != NULL; d = d->hh.next) {
        ps_assert(d->uses > 0 && d->table == &s->definitions && d->numbers > 0);
        uses += d->uses;
    }
    ps_assert(uses == variables);
}

static void
check_counts(const struct shard *s, const struct job *job)
{
    const struct variable *v;
    const struct pull *p;
    uint64_t firsts = 0, pulls = 0, blocks = 0;

    for (v = job->variables; v != NULL; v = v->hh.next) {
        firsts += placement_shard(v->start, 0, s->config.shards) == s->config.shard;
        blocks += v->ready;
    }
    DL_FOREACH (job->pulls, p)
        pulls++;
    ps_assert(job->firsts == firsts && job->pulls_len == pulls && job->blocks == blocks);
}

static void
check_variables(const struct shard *s)
{
    uint64_t ready = 0, gather_bytes = 0, variables = 0, dropped = 0;
    const struct variable *v;

    for (v = variable_table_from(&s->variables, 1); v != NULL; v = variable_table_from(&s->variables, v->id + 1)) {
        ps_assert(v->ready <= v->count && !v->marked && v->id < s->variables.next);
        ready += v->ready;
        gather_bytes += v->dropped ? 0 : variable_gather_bytes(s, v);
        variables += !v->dropped;
        dropped += v->dropped;
    }
    ps_assert(s->blocks == ready && s->gather_bytes == gather_bytes && s->variables_len == variables);
    check_definitions(s, variables + dropped);
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (s->jobs_by_id[id] != NULL)
            check_counts(s, s->jobs_by_id[id]);
}

void
check_turn(struct shard_world *w)
{
    struct shard *s = w->shard;
    uint64_t barriers = 0;

    ps_assert(!shard_dirty(s) && !s->broken);
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        barriers += s->jobs_by_id[id] != NULL ? check_job(s->jobs_by_id[id]) : 0;
    ps_assert(s->barriers_len == barriers);
    check_variables(s);
    check_conns(w);
}

void
check_empty(struct shard_world *w)
{
    const struct shard *s = w->shard;

    ps_assert(s->connections_len == 0 && (s->draining || s->barriers_len == 0)); /* a draining shard ends no lease */
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct job *job = s->jobs_by_id[id];

        ps_assert(job == NULL || (job->pulls == NULL && (s->draining || job->live == 0)));
    }
    ps_assert(s->draining || shard_next_time(s) == UINT64_MAX);
}

/* ---- What is committed ---- */

/* Floats whose elements all went the same way. */
static void
check_equal(const float *x, size_t n)
{
    if (memcmp(x, x + 1, (n - 1) * sizeof *x) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        ps_assert(isnan(x[i])); /* of any sign */
}

static void
check_block(struct shard_world *w, const struct variable *v, uint64_t index, struct store_snapshot *snap)
{
    uint32_t number = (uint32_t)placement_nth(v->start, w->config.shard, w->config.shards, index);
    struct store_key key = {.var = v->id, .block = number, .generation = v->blocks[index].generation};
    struct layout_block cut = layout_block(&v->def->layout, number);
    const struct block_head *head;
    struct span value;

    ps_assert(w->store->ops->snapshot_get(w->store, snap, &key, &value) == PS_OK);
    head = value.data;
    ps_assert(value.len == layout_value_size(cut.size_class) && head->var == v->id && head->block == number);
    ps_assert(head->len == cut.len && head->slots == v->def->layout.slots && head->format == LAYOUT_FORMAT);
    ps_assert(head->version == v->blocks[index].version && head->clock == v->blocks[index].clock);
    if (v->def->initializer.kind <= INIT_CONSTANT)
        for (uint32_t i = 0; i <= head->slots; i++)
            check_equal((const void *)((const char *)value.data + layout_array(cut.stride, i)), cut.len);
    if (v->id <= WORLD_VARS && index < WORLD_BLOCKS) {
        ps_assert(head->version >= w->version[v->id][index]);
        w->version[v->id][index] = head->version;
    }
}

static bool
same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void
compare_session(const struct session *a, const struct session *b, uint64_t boot)
{
    ps_assert((a == NULL) == (b == NULL));
    if (a == NULL)
        return;
    ps_assert(a->round == b->round && a->late == b->late);
    ps_assert(a->state == b->state && a->incarnation == b->incarnation && a->lease_ms == b->lease_ms);
    ps_assert(same_text(a->agent, b->agent) && a->joined_past == b->joined_past);
    /* The clock of a session that has lapsed since a power loss does not matter: it rejoins at the slowest clock. */
    ps_assert(a->clock == b->clock || (a->state != SESSION_LIVE && a->boot != boot));
    ps_assert(a->last_seq == b->last_seq && a->last_tick == b->last_tick && a->last_barrier == b->last_barrier);
    ps_assert(a->acked_through >= b->acked_through && a->outcomes_lost_to == b->outcomes_lost_to);
    for (uint64_t seq = a->last_seq + 1; seq <= a->last_seq + 8ull * WIRE_SURVIVED_MAX; seq++)
        ps_assert(resolved_set_has(&a->resolved_ahead, seq) == resolved_set_has(&b->resolved_ahead, seq));
    ps_assert(a->metrics.len == b->metrics.len && a->metrics.at.position == b->metrics.at.position);
    ps_assert(memcmp(a->metrics.value, b->metrics.value, a->metrics.len * sizeof a->metrics.value[0]) == 0);
    ps_assert(a->outcomes_len == b->outcomes_len &&
              memcmp(a->outcomes, b->outcomes, a->outcomes_len * sizeof a->outcomes[0]) == 0);
}

/* A job that was loaded has room for no more tasks than it knows of. */
static const struct session *
shard_check_session(const struct job *job, uint32_t task)
{
    return task < job->room ? job->sessions[task] : NULL;
}

static void
compare_assigns(const struct assigns *a, const struct assigns *b)
{
    ps_assert(a->assigned == b->assigned && a->begun == b->begun && a->clock == b->clock && a->attempt == b->attempt);
    ps_assert(MAX(a->given_up, a->giving_up) == MAX(b->given_up, b->giving_up));
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        const struct assign_slot *x = &a->slot[i], *y = &b->slot[i];

        ps_assert(x->state == y->state || (x->state == ASSIGN_OVER && y->state == ASSIGN_FREE && x->blocks == 0));
        ps_assert(x->blocks == y->blocks);
        ps_assert(x->state != ASSIGN_COMMITTED || (x->left == y->left && x->clock == y->clock));
        ps_assert(y->state == ASSIGN_FREE || x->number == y->number);
    }
}

static void
compare_job(const struct job *a, const struct job *b, uint64_t boot)
{
    ps_assert(same_text(a->name, b->name) && wire_job_equal(a->options, b->options) && a->bound == b->bound);
    ps_assert(wire_age_equal(&a->age, &b->age) && a->round == b->round && a->live == b->live);
    ps_assert(a->lapsed == b->lapsed && a->finished == b->finished);
    ps_assert(a->barrier_opened.any == b->barrier_opened.any && a->barrier_opened.len == b->barrier_opened.len);
    ps_assert(a->barrier_opened.place.at.position == b->barrier_opened.place.at.position &&
              a->barrier_opened.place.again == b->barrier_opened.place.again);
    ps_assert(memcmp(a->barrier_opened.sum, b->barrier_opened.sum,
                     a->barrier_opened.len * sizeof a->barrier_opened.sum[0]) == 0);
    ps_assert(a->workers == b->workers && a->quorum == b->quorum);
    compare_assigns(&a->assigns, &b->assigns);
    for (uint32_t task = 0; task < MAX(a->room, b->room); task++)
        compare_session(shard_check_session(a, task), shard_check_session(b, task), boot);
}

static void
compare_variable(const struct variable *a, const struct variable *b)
{
    ps_assert(b != NULL && a->dropped == b->dropped && a->first == b->first);
    ps_assert(same_text(a->name, b->name) && same_text(a->job->name, b->job->name));
    ps_assert(wire_declare_equal(a->def->declare, b->def->declare) && a->start == b->start && a->bytes == b->bytes);
    ps_assert(optimizer_equal(&a->def->optimizer, &b->def->optimizer) && a->def->key_len == b->def->key_len);
    ps_assert(memcmp(a->def->key, b->def->key, a->def->key_len) == 0);
    ps_assert(a->count == b->count && a->ready == b->ready);
    ps_assert(a->dropped || a->ready < a->count || a->awaits == b->awaits);
    for (uint64_t i = 0; i < a->ready; i++) {
        const struct block *x = &a->blocks[i], *y = &b->blocks[i];

        ps_assert(x->version == y->version && x->clock == y->clock);
        ps_assert(x->staged == y->staged && x->assign == y->assign && x->given == y->given);
    }
}

static void
shard_check_compare(const struct shard *a, const struct shard *b)
{
    const struct variable *v;

    ps_assert(a->boot == b->boot && a->jobs_len >= b->jobs_len && a->variables_len == b->variables_len);
    ps_assert(a->variables.next >= b->variables.next && a->ordinals.end == b->ordinals.end);
    ps_assert(a->blocks == b->blocks && a->data_bytes == b->data_bytes && a->promised_bytes == b->promised_bytes);
    ps_assert(a->gather_bytes == b->gather_bytes && a->sessions_len == b->sessions_len);
    for (uint32_t id = 1; id <= a->jobs_len; id++) {
        ps_assert((a->jobs_by_id[id] == NULL) == (id > b->jobs_len || b->jobs_by_id[id] == NULL));
        if (a->jobs_by_id[id] != NULL)
            compare_job(a->jobs_by_id[id], b->jobs_by_id[id], a->boot);
    }
    for (v = variable_table_from(&a->variables, 1); v != NULL; v = variable_table_from(&a->variables, v->id + 1))
        compare_variable(v, variable_table_get(&b->variables, v->id));
}

/* Between turns: a second shard only reads. */
void
check_store(struct shard_world *w)
{
    const struct variable *v;
    struct shard *twin;
    struct store_snapshot *snap;
    struct ps_error e;

    w->commits = 0;
    ps_assert(!shard_dirty(w->shard));
    ps_assert(shard_new(&w->config, w->store, w->now_ms, &twin, &e) == PS_OK);
    shard_check_compare(w->shard, twin);
    shard_free(twin);
    ps_assert(w->store->ops->snapshot_ref(w->store, &snap) == PS_OK);
    for (v = variable_table_from(&w->shard->variables, 1); v != NULL;
         v = variable_table_from(&w->shard->variables, v->id + 1))
        for (uint64_t i = 0; i < v->ready; i++)
            check_block(w, v, i, snap);
    w->store->ops->snapshot_unref(w->store, snap);
}
