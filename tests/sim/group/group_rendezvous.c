/* The rendezvous: what psd's shard 0 does for its cluster. It never fails here; messages to and from it are delayed. */
#include <stdlib.h>

#include "tests/sim/group/world.h"

/* A message on its way: to the rendezvous, or an answer from it. */
struct rendezvous_post {
    struct sim_timer timer;
    struct rendezvous_post *prev, *next;
    struct group_rendezvous *place;
    struct world_member *member;
    uint64_t incarnation, conn_id, attempt;
    bool leaves;
    struct rendezvous_answer answer; /* with a copy of the table */
    struct rendezvous_table table;
    struct rendezvous_member members[WORLD_MEMBERS_MAX];
};

static uint64_t
now_ms(const struct group_rendezvous *p)
{
    return p->world->sim.now_us / SIM_MS;
}

static uint64_t
group_rendezvous_latency(const struct group_rendezvous *p)
{
    return sim_between(&p->world->sim, 100, 20 * SIM_MS);
}

static struct rendezvous_post *
word_new(struct group_rendezvous *p, struct world_member *m, void (*run)(struct sim_timer *t), uint64_t delay_us)
{
    struct rendezvous_post *x = sim_alloc(sizeof *x);

    *x = (struct rendezvous_post){
        .timer = {.run = run}, .next = p->words, .place = p, .member = m, .incarnation = m->incarnation};
    if (x->next != NULL)
        x->next->prev = x;
    p->words = x;
    sim_in(&p->world->sim, &x->timer, delay_us);
    return x;
}

static void
word_free(struct rendezvous_post *x)
{
    if (x->prev != NULL)
        x->prev->next = x->next;
    else
        x->place->words = x->next;
    if (x->next != NULL)
        x->next->prev = x->prev;
    free(x);
}

static void
answer_comes(struct sim_timer *t)
{
    struct rendezvous_post *a = CONTAINER_OF(t, struct rendezvous_post, timer);
    struct world_member *m = a->member;

    if (m->held_us > m->world->sim.now_us) {
        sim_at(&m->world->sim, t, m->held_us);
        return;
    }
    if (m->incarnation == a->incarnation && m->conn_id == a->conn_id)
        group_member_answered(m, &a->answer);
    word_free(a);
}

/* The connection's number says which member it belongs to. */
static void
group_rendezvous_answer(struct group_rendezvous *p, const struct rendezvous_answer *from)
{
    struct world_member *m = &p->world->member[from->conn_id % WORLD_MEMBERS_MAX];
    struct rendezvous_post *a = word_new(p, m, answer_comes, group_rendezvous_latency(p));

    a->conn_id = from->conn_id;
    a->answer = *from;
    if (from->table != NULL) {
        a->table = *from->table;
        for (uint32_t r = 0; r < from->table->ranks; r++)
            a->members[r] = from->table->members[r];
        a->table.members = a->members;
        a->answer.table = &a->table;
    }
}

static void
group_rendezvous_turn(struct group_rendezvous *p)
{
    struct rendezvous_answer a;
    uint64_t next;

    while (rendezvous_core_next(&p->meet, now_ms(p), &a))
        group_rendezvous_answer(p, &a);
    if ((next = rendezvous_core_next_time(&p->meet)) != UINT64_MAX)
        sim_at(&p->world->sim, &p->time, next * SIM_MS);
}

static void
time_comes(struct sim_timer *t)
{
    group_rendezvous_turn(CONTAINER_OF(t, struct group_rendezvous, time));
}

static void
word_comes(struct sim_timer *t)
{
    struct rendezvous_post *x = CONTAINER_OF(t, struct rendezvous_post, timer);
    struct group_rendezvous *p = x->place;
    struct group_world *w = p->world;
    struct rendezvous_request g = {.conn_id = x->conn_id,
                                   .name = "group",
                                   .workers = w->members,
                                   .task = x->member->task,
                                   .ranks_min = w->ranks_min,
                                   .settle_ms = w->settle_ms,
                                   .timeout_ms = 30000,
                                   .incarnation = x->incarnation,
                                   .attempt = x->attempt,
                                   .epoch = x->member->epoch_seen,
                                   .address = "here",
                                   .host = "host"};
    struct rendezvous_answer refusal = {.conn_id = x->conn_id};

    if (x->leaves)
        (void)rendezvous_core_leave(&p->meet, x->conn_id);
    else if (x->member->incarnation == x->incarnation &&
             rendezvous_core_join(&p->meet, &g, now_ms(p), &refusal.error) != PS_OK)
        group_rendezvous_answer(p, &refusal);
    group_rendezvous_turn(p);
    word_free(x);
}

static void
send_word(struct world_member *m, bool leaves)
{
    struct group_rendezvous *p = &m->world->rendezvous;
    uint64_t after = leaves ? 20 * SIM_MS : 0; /* after its earlier messages */
    struct rendezvous_post *x = word_new(p, m, word_comes, after + group_rendezvous_latency(p));

    x->conn_id = m->conn_id;
    x->attempt = m->attempt;
    x->leaves = leaves;
}

void
group_rendezvous_come(struct world_member *m)
{
    m->conn_id = ++m->world->rendezvous.incoming * WORLD_MEMBERS_MAX + m->task;
    m->attempt++;
    send_word(m, false);
}

void
group_rendezvous_gone(struct world_member *m)
{
    if (m->state == MEMBER_WAITS)
        send_word(m, true);
}

bool
group_rendezvous_waits(struct group_rendezvous *p)
{
    return rendezvous_core_present(&p->meet, "group") > 0;
}

void
group_rendezvous_init(struct group_rendezvous *p, struct group_world *w, uint64_t seed)
{
    *p = (struct group_rendezvous){.world = w};
    p->time.run = time_comes;
    rendezvous_core_init(&p->meet, "shard 0", RENDEZVOUS_NO_COORDINATOR, seed);
}

void
group_rendezvous_finish(struct group_rendezvous *p)
{
    while (p->words != NULL) {
        sim_cancel(&p->world->sim, &p->words->timer);
        word_free(p->words);
    }
    rendezvous_core_finish(&p->meet);
}
