/* The meeting: what psd's shard 0 does for its cluster. It never fails here; words to and from it take their time. */
#include <stdlib.h>

#include "tests/sim/group/world.h"

/* A word on its way: to the meeting, or an answer from it. */
struct word {
    struct sim_timer timer;
    struct word *prev, *next;
    struct meeting_place *place;
    struct member *member;
    uint64_t incarnation, guest, attempt;
    bool leaves;
    struct meet_answer answer; /* with a copy of the table */
    struct meet_table table;
    struct meet_member members[WORLD_MEMBERS_MAX];
};

static uint64_t
now_ms(const struct meeting_place *p)
{
    return p->world->sim.now_us / SIM_MS;
}

static uint64_t
latency(const struct meeting_place *p)
{
    return sim_between(&p->world->sim, 100, 20 * SIM_MS);
}

static struct word *
word_new(struct meeting_place *p, struct member *m, void (*run)(struct sim_timer *t), uint64_t delay_us)
{
    struct word *x = sim_alloc(sizeof *x);

    *x = (struct word){.timer = {.run = run}, .next = p->words, .place = p, .member = m, .incarnation = m->incarnation};
    if (x->next != NULL)
        x->next->prev = x;
    p->words = x;
    sim_in(&p->world->sim, &x->timer, delay_us);
    return x;
}

static void
word_free(struct word *x)
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
    struct word *a = CONTAINER_OF(t, struct word, timer);
    struct member *m = a->member;

    if (m->held_us > m->world->sim.now_us) {
        sim_at(&m->world->sim, t, m->held_us);
        return;
    }
    if (m->incarnation == a->incarnation && m->guest == a->guest)
        member_told(m, &a->answer);
    word_free(a);
}

/* The guest's number says whose it is. */
static void
answer(struct meeting_place *p, const struct meet_answer *from)
{
    struct member *m = &p->world->member[from->guest % WORLD_MEMBERS_MAX];
    struct word *a = word_new(p, m, answer_comes, latency(p));

    a->guest = from->guest;
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
meet_turn(struct meeting_place *p)
{
    struct meet_answer a;
    uint64_t next;

    while (meet_next(&p->meet, now_ms(p), &a))
        answer(p, &a);
    if ((next = meet_next_time(&p->meet)) != UINT64_MAX)
        sim_at(&p->world->sim, &p->time, next * SIM_MS);
}

static void
time_comes(struct sim_timer *t)
{
    meet_turn(CONTAINER_OF(t, struct meeting_place, time));
}

static void
word_comes(struct sim_timer *t)
{
    struct word *x = CONTAINER_OF(t, struct word, timer);
    struct meeting_place *p = x->place;
    struct world *w = p->world;
    struct meet_guest g = {.guest = x->guest,
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
    struct meet_answer refusal = {.guest = x->guest};

    if (x->leaves)
        (void)meet_leave(&p->meet, x->guest);
    else if (x->member->incarnation == x->incarnation && meet_come(&p->meet, &g, now_ms(p), &refusal.error) != PS_OK)
        answer(p, &refusal);
    meet_turn(p);
    word_free(x);
}

static void
send_word(struct member *m, bool leaves)
{
    struct meeting_place *p = &m->world->meeting;
    uint64_t after = leaves ? 20 * SIM_MS : 0; /* after what it said before */
    struct word *x = word_new(p, m, word_comes, after + latency(p));

    x->guest = m->guest;
    x->attempt = m->attempt;
    x->leaves = leaves;
}

void
meeting_come(struct member *m)
{
    m->guest = ++m->world->meeting.guests * WORLD_MEMBERS_MAX + m->task;
    m->attempt++;
    send_word(m, false);
}

void
meeting_gone(struct member *m)
{
    if (m->state == MEMBER_WAITS)
        send_word(m, true);
}

bool
meeting_waits(struct meeting_place *p)
{
    return meet_present(&p->meet, "group") > 0;
}

void
meeting_init(struct meeting_place *p, struct world *w, uint64_t seed)
{
    *p = (struct meeting_place){.world = w};
    p->time.run = time_comes;
    meet_init(&p->meet, "shard 0", MEET_NO_HOST, seed);
}

void
meeting_finish(struct meeting_place *p)
{
    while (p->words != NULL) {
        sim_cancel(&p->world->sim, &p->words->timer);
        word_free(p->words);
    }
    meet_finish(&p->meet);
}
