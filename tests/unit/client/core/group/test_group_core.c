/* Cores joined by queues in memory: frames move in a random order, at random times, and whatever the order, every
 * operation has the right result, or every rank the same error. Allocations fail by the linker's --wrap. */
#include "client/core/group/group_core.h"

#include <inttypes.h>
#include <malloc.h>
#include <string.h>

#include "client/core/plan/plan_schedule.h"
#include "tests/unit/kits/check_main.h"

#define RANKS   9
#define TIMEOUT 10000

/* ---- Memory that fails ---- */

static uint64_t allocations, fail_at; /* 0: none */
static bool counting;                 /* within the core */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t n);

static bool
group_core_fails(void)
{
    return counting && ++allocations == fail_at;
}

void *
__wrap_malloc(size_t n)
{
    return group_core_fails() ? NULL : __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return group_core_fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_aligned_alloc(size_t align, size_t n)
{
    return group_core_fails() ? NULL : __real_aligned_alloc(align, n);
}

/* A call of the core. */
#define CORE(call)                                                                                                     \
    do {                                                                                                               \
        counting = fail_at != 0;                                                                                       \
        call;                                                                                                          \
        counting = false;                                                                                              \
    } while (0)

/* ---- A network ---- */

struct packet {
    struct packet *next;
    struct group_send *send; /* of the sender, until it has moved */
    size_t head_len, len;
    uint8_t *bytes; /* head and payload, once it has moved */
};

/* One direction of one link: first what the sender queued, then what is on its way. */
struct group_core_way {
    struct packet *queued, **queued_end, *moving, **moving_end;
    bool ended; /* the sender has gone; reported when all has arrived */
};

struct net {
    uint32_t ranks;
    struct group_core *core[RANKS];
    struct group_core_way way[RANKS][RANKS];
    uint32_t payloads; /* frames with one that have moved */
    bool dead[RANKS];
    uint64_t now;
    struct test_rng rng;
};

static void
core_open(struct net *n, uint32_t r, uint32_t hosts, enum ps_algorithm algorithm, size_t segment)
{
    static const char *const names[] = {"rank 0 at a", "rank 1 at b", "rank 2 at c", "rank 3 at d", "rank 4 at e",
                                        "rank 5 at f", "rank 6 at g", "rank 7 at h", "rank 8 at i"};
    uint32_t host[RANKS];
    struct group_core_config config = {.ranks = n->ranks,
                                       .rank = r,
                                       .host = host,
                                       .names = names,
                                       .timeout_ms = TIMEOUT,
                                       .algorithm = algorithm,
                                       .segment_bytes = segment,
                                       .send_room = 16};

    for (uint32_t k = 0; k < n->ranks; k++)
        host[k] = k % hosts;
    ck_assert_int_eq(group_core_new(&config, &n->core[r], NULL), PS_OK);
}

static void
net_open(struct net *n, uint32_t ranks, uint32_t hosts, enum ps_algorithm algorithm, size_t segment, uint64_t seed)
{
    memset(n, 0, sizeof *n);
    n->ranks = ranks;
    n->rng.state = seed;
    for (uint32_t r = 0; r < ranks; r++) {
        core_open(n, r, hosts, algorithm, segment);
        for (uint32_t k = 0; k < ranks; k++) {
            n->way[r][k].queued_end = &n->way[r][k].queued;
            n->way[r][k].moving_end = &n->way[r][k].moving;
        }
    }
}

static void
packets_free(struct packet *p)
{
    for (struct packet *next; p != NULL; p = next) {
        next = p->next;
        free(p->bytes);
        free(p);
    }
}

static struct packet *
group_core_pop(struct packet **first, struct packet ***end)
{
    struct packet *p = *first;

    *first = p->next;
    if (*first == NULL)
        *end = first;
    p->next = NULL;
    return p;
}

static void
group_core_push(struct packet ***end, struct packet *p)
{
    **end = p;
    *end = &p->next;
}

/* Links drop what has not moved. */
static void
group_core_cut(struct net *n, uint32_t r)
{
    for (uint32_t k = 0; k < n->ranks; k++) {
        struct group_core_way *w = &n->way[r][k];

        while (w->queued != NULL) {
            struct packet *p = group_core_pop(&w->queued, &w->queued_end);

            CORE(group_core_sent(n->core[r], p->send, PS_ERR_CANCELLED));
            packets_free(p);
        }
    }
}

static void
group_core_perform(struct net *n, uint32_t r)
{
    struct group_action a;

    while (group_core_next_action(n->core[r], &a)) {
        struct packet *p;

        if (a.kind == GROUP_CUT) {
            group_core_cut(n, r);
            continue;
        }
        if (n->dead[r] || n->dead[a.send->to]) {
            CORE(group_core_sent(n->core[r], a.send, PS_ERR_CLOSED));
            continue;
        }
        p = calloc(1, sizeof *p);
        p->send = a.send;
        group_core_push(&n->way[r][a.send->to].queued_end, p);
    }
}

static void
net_close(struct net *n)
{
    for (uint32_t r = 0; r < n->ranks; r++) {
        for (uint32_t k = 0; k < n->ranks; k++) {
            struct group_core_way *w = &n->way[r][k];

            while (w->queued != NULL) {
                struct packet *p = group_core_pop(&w->queued, &w->queued_end);

                CORE(group_core_sent(n->core[r], p->send, PS_ERR_CLOSED));
                packets_free(p);
            }
            packets_free(w->moving);
        }
        group_core_free(n->core[r]);
    }
}

/* A frame leaves the sender's memory. */
static void
group_core_move(struct net *n, uint32_t from, struct group_core_way *w)
{
    struct packet *p = group_core_pop(&w->queued, &w->queued_end);
    struct group_send *s = p->send;
    size_t at = s->head_len;

    p->head_len = s->head_len;
    p->len = s->head_len;
    for (size_t i = 0; i < s->parts_len; i++)
        p->len += s->parts[i].len;
    p->bytes = aligned_alloc(64, round_up(p->len, 64));
    memcpy(p->bytes, s->head, s->head_len);
    for (size_t i = 0; i < s->parts_len; at += s->parts[i++].len)
        memcpy(p->bytes + at, s->parts[i].data, s->parts[i].len);
    p->send = NULL;
    n->payloads += s->parts_len > 0;
    group_core_push(&w->moving_end, p);
    CORE(group_core_sent(n->core[from], s, PS_OK));
    group_core_perform(n, from);
}

static void
group_core_arrive(struct net *n, uint32_t from, uint32_t to, struct group_core_way *w)
{
    struct packet *p = group_core_pop(&w->moving, &w->moving_end);
    const struct frame_part *parts;
    const uint8_t *payload = p->bytes + p->head_len;
    struct frame_head head;
    size_t n_parts = 0, at = 0;

    ck_assert_int_eq(frame_head_decode(p->bytes, &head, NULL), PS_OK);
    ck_assert_uint_eq(head.payload_len, p->len - p->head_len);
    if (head.payload_len > 0)
        CORE(group_core_payload_dest(n->core[to], from, &head, &parts, &n_parts));
    for (size_t i = 0; i < n_parts; at += parts[i++].len)
        memcpy(parts[i].data, payload + at, parts[i].len);
    ck_assert(n_parts == 0 || at == head.payload_len);
    CORE(group_core_frame(n->core[to], from, &head, p->bytes + FRAME_HEAD_SIZE,
                          n_parts > 0 || head.payload_len == 0 ? NULL : payload, n->now));
    group_core_perform(n, to);
    packets_free(p);
}

/* One thing that can happen, chosen at random. False: there is none. */
static bool
group_core_happen(struct net *n)
{
    uint64_t ways = (uint64_t)n->ranks * n->ranks, begin = test_below(&n->rng, ways);
    bool first = test_below(&n->rng, 2) == 0;

    for (uint64_t i = 0; i < 2 * ways; i++) {
        uint64_t k = (begin + i) % ways;
        uint32_t from = (uint32_t)(k / n->ranks), to = (uint32_t)(k % n->ranks);
        struct group_core_way *w = &n->way[from][to];

        if (w->queued != NULL && (first || i >= ways)) {
            group_core_move(n, from, w);
            return true;
        }
        if (w->moving != NULL && !n->dead[to] && (!first || i >= ways)) {
            group_core_arrive(n, from, to, w);
            return true;
        }
        if (w->ended && w->moving == NULL && !n->dead[to]) {
            w->ended = false;
            CORE(
                group_core_ended(n->core[to], from, &(struct ps_error){.code = PS_ERR_CLOSED, .text = "gone"}, n->now));
            group_core_perform(n, to);
            return true;
        }
    }
    return false;
}

static void
kill_rank(struct net *n, uint32_t r)
{
    group_core_cut(n, r);
    n->dead[r] = true;
    for (uint32_t k = 0; k < n->ranks; k++)
        n->way[r][k].ended = k != r;
}

/* ---- Operations ---- */

struct
try {
    struct group_request ask;
    int32_t *in, *out;
    struct group_work *work;
    uint32_t ranks, rank;
    size_t merged; /* elements */
};
static uint32_t blamed = PLAN_NONE;      /* by every merge */
static enum ps_reduce reducing = PS_SUM; /* all that is reduced */

static int32_t
group_core_value(uint32_t rank, size_t i, uint64_t salt)
{
    return (int32_t)((i * 2654435761u + rank * 40503u + salt * 97u) >> 7 & 0xffff);
}

/* The sum of all values that have come for this rank's slot. */
static uint32_t
group_core_merge(void *arg, size_t at)
{
    struct try *t = arg;
    size_t slot = t->ask.count / t->ranks, len = MIN(t->ask.piece, slot - at);

    for (uint32_t r = 0; r < t->ranks; r++)
        for (size_t i = 0; i < len && r != t->rank; i++)
            t->in[t->rank * slot + at + i] += t->out[r * slot + at + i];
    t->merged += len;
    return blamed;
}

static void
try_start(struct net *n, uint32_t r, struct try *t, uint8_t op, size_t count, uint32_t root, uint64_t salt)
{
    size_t in;
    size_t at = op == PLAN_ALL_GATHER ? ps_group_part_offset(count, n->ranks, r) : 0;
    enum ps_err err;

    if (op == PLAN_KEY_MERGE)
        count -= count % n->ranks;
    in = op == PLAN_ALL_GATHER ? ps_group_part(count, n->ranks, r) : count;
    t->ranks = n->ranks;
    t->rank = r;
    t->merged = 0;
    t->in = malloc((count + 1) * sizeof *t->in);
    t->out = op == PLAN_BROADCAST ? t->in : malloc((count + 1) * sizeof *t->out);
    for (size_t i = 0; i < in; i++)
        t->in[i] = op == PLAN_BROADCAST && r != root               ? -1
                   : op == PLAN_ALL_GATHER || op == PLAN_BROADCAST ? group_core_value(0, at + i, salt)
                                                                   : group_core_value(r, i, salt);
    t->ask = (struct group_request){
        .op = op, .in = t->in, .out = t->out, .count = count, .dtype = PS_I32, .reduce = reducing, .root = root};
    if (op == PLAN_KEY_MERGE) {
        t->ask.piece = 300 + 8 * salt;
        t->ask.merge = group_core_merge;
        t->ask.merge_arg = t;
    }
    CORE(err = group_core_start(n->core[r], &t->ask, n->now, &t->work, NULL));
    ck_assert(err == PS_OK || fail_at != 0 || group_core_state(n->core[r], NULL) != PS_OK);
    group_core_perform(n, r);
}

static void
try_check(const struct net *n, uint32_t r, const struct try *t, uint64_t salt)
{
    uint8_t op = t->ask.op;
    size_t count = op == PLAN_REDUCE_SCATTER ? ps_group_part(t->ask.count, n->ranks, r) : t->ask.count;
    size_t at = op == PLAN_REDUCE_SCATTER ? ps_group_part_offset(t->ask.count, n->ranks, r) : 0;

    if (op == PLAN_REDUCE && r != t->ask.root)
        return;
    ck_assert(op != PLAN_KEY_MERGE || t->merged == count / n->ranks); /* each piece once */
    for (size_t i = 0; i < count; i++) {
        bool own = op == PLAN_KEY_MERGE && i / (count / n->ranks) == r;
        int32_t want = 0, is = own ? t->in[i] : t->out[i];

        for (uint32_t k = 0; k < n->ranks; k++)
            want += group_core_value(k, at + i, salt);
        if (op == PLAN_ALL_GATHER || op == PLAN_BROADCAST)
            want = group_core_value(0, i, salt);
        if (is != want) /* an assertion for each element would take all the time */
            ck_abort_msg("rank %u, operation %u: element %zu is %d, not %d", r, op, i, is, want);
    }
}

static void
try_free(struct net *n, uint32_t r, struct try *t)
{
    if (t->work != NULL)
        group_work_free(n->core[r], t->work);
    if (t->out != t->in)
        free(t->out);
    free(t->in);
}

/* ---- Tests ---- */

#define FLIGHT 6

/* Ranks start their operations at random times, in the same order; messages of all sizes, asked for and not. */
static void
group_core_fly(uint32_t ranks, enum ps_algorithm algorithm, uint64_t seed)
{
    struct try tries[RANKS][FLIGHT];
    uint32_t started[RANKS] = {0}, left = ranks * FLIGHT;
    struct test_rng plan = {seed};
    uint8_t op[FLIGHT];
    size_t count[FLIGHT];
    struct net n;

    net_open(&n, ranks, 1 + (uint32_t)test_below(&plan, 3), algorithm,
             test_below(&plan, 2) == 0 ? 20000 : 1000 * (1 + test_below(&plan, 8)), seed);
    for (uint32_t i = 0; i < FLIGHT; i++) {
        op[i] = (uint8_t)test_below(&plan, PLAN_BARRIER + 1);
        if (op[i] == PLAN_BARRIER)
            op[i] = PLAN_KEY_MERGE;
        count[i] = test_below(&plan, 6) == 0 ? 10000 + test_below(&plan, 30000) : test_below(&plan, 3000);
    }
    while (left > 0 || group_core_happen(&n)) {
        uint32_t r = (uint32_t)test_below(&n.rng, ranks);

        if (left > 0 && started[r] < FLIGHT && test_below(&n.rng, 4) == 0) {
            uint32_t i = started[r]++;

            try_start(&n, r, &tries[r][i], op[i], count[i], i % ranks, i);
            left--;
        } else {
            (void)group_core_happen(&n);
        }
    }
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < FLIGHT; i++) {
            struct ps_error e = {0};

            ck_assert_msg(group_work_done(tries[r][i].work),
                          "%u ranks, algorithm %d, seed %llu: rank %u waits for ever "
                          "in operation %u (%u of %zu)",
                          ranks, (int)algorithm, (unsigned long long)seed, r, i, op[i], count[i]);
            ck_assert_msg(group_work_result(n.core[r], tries[r][i].work, &e) == PS_OK, "%s (%s)", e.text, e.peer);
            try_check(&n, r, &tries[r][i], i);
        }
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < FLIGHT; i++)
            try_free(&n, r, &tries[r][i]);
    net_close(&n);
}

START_TEST(operations_end_whatever_the_order)
{
    uint64_t seed = test_seed() + (uint64_t)_i * 1000;

    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* pages that come and go cost more than all the rest */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (uint32_t ranks = 1; ranks <= RANKS; ranks++)
        for (int k = 0; k < 2; k++)
            group_core_fly(ranks, (enum ps_algorithm)_i, seed + ranks * 10 + (uint64_t)k);
}
END_TEST

static void
run_all(struct net *n)
{
    while (group_core_happen(n))
        continue;
}

/* All live ranks have failed, with this. */
static void
all_failed(const struct net *n, enum ps_err code, const char *peer)
{
    for (uint32_t r = 0; r < n->ranks; r++) {
        struct ps_error e = {0};

        if (n->dead[r])
            continue;
        ck_assert_msg(group_core_state(n->core[r], &e) == code, "rank %u: %s: %s", r, ps_err_name(e.code), e.text);
        ck_assert_msg(strncmp(e.peer, peer, strlen(peer)) == 0, "rank %u blames %s: %s", r, e.peer, e.text);
    }
}

static void
free_all(struct net *n, struct try *t)
{
    for (uint32_t r = 0; r < n->ranks; r++)
        try_free(n, r, &t[r]);
    net_close(n);
}

START_TEST(who_dies_at_any_moment_is_named_by_all)
{
    uint64_t seed = test_seed();
    char guilty[16];

    for (uint64_t steps = 0; steps < 150; steps++) {
        uint32_t ranks = 2 + (uint32_t)(steps % 5), dies = (uint32_t)(steps * 7 % ranks);
        struct try t[RANKS];
        struct net n;

        net_open(&n, ranks, 2, PS_ALGORITHM_RING, 20000, seed + steps);
        for (uint32_t r = 0; r < ranks; r++)
            try_start(&n, r, &t[r], steps % 2 == 0 ? PLAN_ALL_REDUCE : PLAN_KEY_MERGE, 30000, 0, 0);
        for (uint64_t i = 0; i < steps; i++)
            (void)group_core_happen(&n);
        kill_rank(&n, dies);
        run_all(&n);
        snprintf(guilty, sizeof guilty, "rank %u", dies);
        all_failed(&n, PS_ERR_CLOSED, guilty);
        for (uint32_t r = 0; r < ranks; r++) { /* the dead rank's memory is not looked at */
            if (r != dies)
                ck_assert(group_work_done(t[r].work));
            else if (!group_work_done(t[r].work))
                group_core_blame(n.core[r], r, &(struct ps_error){.code = PS_ERR_CANCELLED});
            group_core_perform(&n, r);
        }
        free_all(&n, t);
    }
}
END_TEST

START_TEST(who_is_odd_is_named_by_all_whatever_the_order)
{
    uint64_t seed = test_seed();
    char guilty[16];

    for (uint64_t k = 0; k < 120; k++) {
        uint32_t ranks = 3 + (uint32_t)(k % 5), odd = (uint32_t)(k * 5 % ranks);
        struct try t[RANKS];
        struct net n;

        net_open(&n, ranks, 3, (enum ps_algorithm)(k % 4), 0, seed + k);
        for (uint32_t r = 0; r < ranks; r++) {
            try_start(&n, r, &t[r], PLAN_ALL_REDUCE, r == odd ? 501 : 500, 0, 0);
            for (uint64_t i = 0; i < k % 7; i++)
                (void)group_core_happen(&n);
        }
        run_all(&n);
        snprintf(guilty, sizeof guilty, "rank %u", odd);
        all_failed(&n, PS_ERR_MISMATCH, guilty);
        free_all(&n, t);
    }
}
END_TEST

START_TEST(who_sent_what_cannot_be_merged_is_named_by_all)
{
    for (uint32_t ranks = 2; ranks <= 5; ranks++) {
        struct try t[RANKS];
        struct net n;

        net_open(&n, ranks, 1, PS_ALGORITHM_AUTO, 0, test_seed() + ranks);
        blamed = 1;
        for (uint32_t r = 0; r < ranks; r++)
            try_start(&n, r, &t[r], PLAN_KEY_MERGE, 6000, 0, 0);
        run_all(&n);
        all_failed(&n, PS_ERR_PROTOCOL, "rank 1");
        blamed = PLAN_NONE;
        free_all(&n, t);
    }
}
END_TEST

START_TEST(ranks_that_merge_otherwise_are_told)
{
    struct group_request bad = {
        .op = PLAN_KEY_MERGE, .count = 7, .piece = 1, .dtype = PS_I32, .merge = group_core_merge};
    struct group_work *work;
    struct try t[RANKS];
    struct net n;

    net_open(&n, 3, 1, PS_ALGORITHM_AUTO, 0, test_seed());
    ck_assert_int_eq(group_core_start(n.core[0], &bad, 0, &work, NULL), PS_ERR_INVALID); /* no multiple of 3 */
    bad.count = 0;
    bad.piece = 0;
    ck_assert_int_eq(group_core_start(n.core[0], &bad, 0, &work, NULL), PS_ERR_INVALID);
    for (uint32_t r = 0; r < 3; r++)
        try_start(&n, r, &t[r], PLAN_KEY_MERGE, 6000, 0, r == 2); /* other pieces */
    run_all(&n);
    all_failed(&n, PS_ERR_MISMATCH, "rank 2");
    free_all(&n, t);
}
END_TEST

/* Let time pass for all but one; pings go round in between. */
static void
group_core_pass(struct net *n, uint32_t but, uint64_t ms)
{
    for (uint64_t end = n->now + ms; n->now < end; n->now += 100) {
        for (uint32_t r = 0; r < n->ranks; r++)
            if (r != but) {
                group_core_time(n->core[r], n->now);
                group_core_perform(n, r);
            }
        run_all(n);
    }
}

START_TEST(who_is_silent_is_named_by_all)
{
    for (uint32_t silent = 0; silent < 4; silent++) {
        struct try t[RANKS];
        struct net n;
        char guilty[16];

        net_open(&n, 4, 4, PS_ALGORITHM_RING, 0, 1 + silent);
        for (uint32_t r = 0; r < 4; r++)
            try_start(&n, r, &t[r], PLAN_ALL_REDUCE, 30000, 0, 0);
        n.dead[silent] = true; /* receives nothing, sends nothing, and its links stay */
        group_core_cut(&n, silent);
        run_all(&n);
        group_core_pass(&n, silent, TIMEOUT - 200);
        for (uint32_t r = 0; r < 4; r++)
            ck_assert_int_eq(group_core_state(n.core[r], NULL), PS_OK);
        group_core_pass(&n, silent, 400);
        snprintf(guilty, sizeof guilty, "rank %u", silent);
        all_failed(&n, PS_ERR_TIMEOUT, guilty);
        group_core_blame(n.core[silent], silent, &(struct ps_error){.code = PS_ERR_CANCELLED});
        group_core_perform(&n, silent);
        free_all(&n, t);
    }
}
END_TEST

START_TEST(who_does_not_start_is_named_by_all)
{
    struct try t[RANKS];
    struct net n;

    net_open(&n, 4, 4, PS_ALGORITHM_RING, 0, 5);
    memset(t, 0, sizeof t);
    for (uint32_t r = 0; r < 4; r++)
        if (r != 2)
            try_start(&n, r, &t[r], PLAN_ALL_REDUCE, 30000, 0, 0);
    group_core_pass(&n, UINT32_MAX, TIMEOUT + 400);
    all_failed(&n, PS_ERR_TIMEOUT, "rank 2");
    free_all(&n, t);
}
END_TEST

/* ---- Ranks that differ ---- */

/* Every collective, of nothing, of less than ranks, of a little and of much. */
static const size_t held_counts[] = {0, 1, 700, 30000};

static void
check_held(uint32_t ranks, enum ps_algorithm algorithm, uint8_t op, size_t count, uint64_t seed)
{
    struct try t[RANKS];
    uint32_t held = (uint32_t)(seed % ranks), root = (uint32_t)(seed / ranks % ranks);
    struct net n;

    net_open(&n, ranks, 2, algorithm, 20000, seed);
    for (uint32_t r = 0; r < ranks; r++)
        if (r != held)
            try_start(&n, r, &t[r], op, count, root, 0);
    run_all(&n);
    for (uint32_t r = 0; r < ranks; r++)
        ck_assert_msg(r == held || !group_work_done(t[r].work),
                      "operation %u of %zu, root %u, %u ranks, algorithm %d: rank %u ended before rank %u began", op,
                      count, root, ranks, (int)algorithm, r, held);
    try_start(&n, held, &t[held], op, count, root, 0);
    run_all(&n);
    for (uint32_t r = 0; r < ranks; r++) {
        ck_assert(group_work_done(t[r].work));
        ck_assert_int_eq(group_work_result(n.core[r], t[r].work, NULL), PS_OK);
        if (op != PLAN_BARRIER)
            try_check(&n, r, &t[r], 0);
    }
    free_all(&n, t);
}

START_TEST(no_rank_ends_before_all_have_started)
{
    static const uint8_t ops[] = {PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BROADCAST,
                                  PLAN_REDUCE,     PLAN_BARRIER,        PLAN_KEY_MERGE};
    uint64_t seed = test_seed();

    for (uint32_t ranks = 2; ranks <= RANKS; ranks++)
        for (size_t k = 0; k < ARRAY_LEN(ops); k++)
            for (size_t i = 0; i < ARRAY_LEN(held_counts); i++)
                check_held(ranks, (enum ps_algorithm)_i, ops[k], ops[k] == PLAN_BARRIER ? 0 : held_counts[i], seed++);
}
END_TEST

enum difference {
    DIFFERS_IN_COUNT,
    DIFFERS_IN_OPERATION,
    DIFFERS_IN_DTYPE,
    DIFFERS_IN_REDUCTION,
    DIFFERS_IN_ROOT,
    DIFFERS_IN_TAG,
    DIFFERS_IN_ALGORITHM,
    DIFFERS_IN_SEGMENTS,
    DIFFERS_IN_ENCODING,
    DIFFERS_IN_ELEMENTS,
    DIFFERENCES
};

static uint8_t differ_memory[2][300000];

/* What all start but the odd one, and what that one does. */
static struct group_request
differ_request(enum difference d, uint32_t ranks, uint64_t k, bool odd)
{
    static const uint8_t reductions[] = {PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_REDUCE};
    static const size_t counts[] = {0, 1, 2, 700, 30000};
    struct group_request a = {.op = (uint8_t)(k % PLAN_BARRIER), .count = counts[k / 7 % 5], .dtype = PS_I32};

    if (d == DIFFERS_IN_ROOT)
        a.op = k % 2 == 0 ? PLAN_BROADCAST : PLAN_REDUCE;
    if (d == DIFFERS_IN_REDUCTION)
        a.op = k % 4 == 3 ? PLAN_KEY_MERGE : reductions[k % 4];
    if (d == DIFFERS_IN_ENCODING || d == DIFFERS_IN_ELEMENTS)
        a.op = PLAN_KEY_MERGE;
    if (odd && d == DIFFERS_IN_COUNT)
        a.count++;
    if (odd && d == DIFFERS_IN_OPERATION)
        a.op = (uint8_t)((a.op + 1 + k / 3 % PLAN_BARRIER) % (PLAN_BARRIER + 1));
    if (odd && d == DIFFERS_IN_DTYPE)
        a.dtype = k % 2 == 0 ? PS_F32 : PS_F16;
    if (odd && d == DIFFERS_IN_REDUCTION)
        a.reduce = a.op == PLAN_KEY_MERGE ? PS_MEAN : PS_MEAN + k / 5 % 4;
    if (odd && d == DIFFERS_IN_ROOT)
        a.root = 1;
    a.tag = odd && d == DIFFERS_IN_TAG ? GROUP_TAG_HASH | 7 : 0;
    a.encoding = odd && d == DIFFERS_IN_ENCODING;
    a.elements = odd && d == DIFFERS_IN_ELEMENTS;
    if (a.op == PLAN_KEY_MERGE) {
        a.count = a.count / ranks * ranks;
        a.piece = 1000;
        a.merge = group_core_merge;
    }
    a.in = differ_memory[0];
    a.out = a.op == PLAN_BROADCAST ? differ_memory[0] : differ_memory[1];
    return a;
}

/* At every moment nobody has been told that it went well; in the end all know who differs. */
static void
check_difference(enum difference d, uint32_t ranks, uint64_t k, uint64_t seed)
{
    static struct try nothing; /* of the merges: never all there */
    struct group_work *work[RANKS] = {NULL};
    uint32_t odd = (uint32_t)(k * 5 % ranks), started = 0;
    struct net n;
    char guilty[16];

    net_open(&n, ranks, 2, d == DIFFERS_IN_ALGORITHM ? PS_ALGORITHM_RING : (enum ps_algorithm)(k % 5), 20000, seed);
    if (d == DIFFERS_IN_ALGORITHM || d == DIFFERS_IN_SEGMENTS) {
        group_core_free(n.core[odd]);
        core_open(&n, odd, 2, d == DIFFERS_IN_ALGORITHM ? PS_ALGORITHM_HALVING : (enum ps_algorithm)(k % 5),
                  d == DIFFERS_IN_SEGMENTS ? 4000 : 20000);
    }
    while (started < ranks || group_core_happen(&n)) {
        uint32_t r = (uint32_t)((started + k) % ranks);

        if (started < ranks && test_below(&n.rng, 3) == 0) {
            struct group_request ask = differ_request(d, ranks, k, r == odd);

            ask.merge_arg = &nothing;
            if (group_core_state(n.core[r], NULL) == PS_OK)
                ck_assert_int_eq(group_core_start(n.core[r], &ask, n.now, &work[r], NULL), PS_OK);
            group_core_perform(&n, r);
            started++;
        }
        (void)group_core_happen(&n);
        for (uint32_t i = 0; i < ranks; i++)
            ck_assert_msg(work[i] == NULL || !group_work_done(work[i]) ||
                              group_work_result(n.core[i], work[i], NULL) == PS_ERR_MISMATCH,
                          "difference %d, case %" PRIu64 ": rank %u of %u is told that it went well; rank %u is odd", d,
                          k, i, ranks, odd);
    }
    snprintf(guilty, sizeof guilty, "rank %u", odd);
    all_failed(&n, PS_ERR_MISMATCH, ranks > 2 ? guilty : "");
    for (uint32_t r = 0; r < ranks; r++) {
        struct ps_error e;

        ck_assert(group_core_guilty(n.core[r]) == (ranks > 2 ? odd : GROUP_ABORT_SEVERAL));
        (void)group_core_state(n.core[r], &e);
        ck_assert_msg(strstr(e.text, guilty) != NULL && strncmp(e.text, "operation 0: rank", 17) == 0, "%s", e.text);
        if (work[r] != NULL)
            group_work_free(n.core[r], work[r]);
    }
    net_close(&n);
}

START_TEST(ranks_that_differ_in_anything_are_told_by_that_operation)
{
    uint64_t seed = test_seed() + (uint64_t)_i * 1000;

    for (uint32_t ranks = 2; ranks <= 5; ranks++)
        for (uint64_t k = 0; k < 36; k++)
            check_difference((enum difference)_i, ranks, k, seed + k);
}
END_TEST

/* Operations of the k-th rank: broadcasts from roots[k]. */
static void
check_sentence(uint32_t ranks, const uint32_t *roots, const char *peer, const char *sentence)
{
    struct try t[RANKS];
    struct net n;

    net_open(&n, ranks, 1, PS_ALGORITHM_AUTO, 0, test_seed());
    for (uint32_t r = 0; r < ranks; r++)
        try_start(&n, r, &t[r], PLAN_BROADCAST, 4, roots[r], 0);
    run_all(&n);
    all_failed(&n, PS_ERR_MISMATCH, peer);
    for (uint32_t r = 0; r < ranks; r++) {
        struct ps_error e;

        (void)group_core_state(n.core[r], &e);
        ck_assert_str_eq(e.text, sentence);
        ck_assert(peer[0] != '\0' || e.peer[0] == '\0');
    }
    free_all(&n, t);
}

START_TEST(without_a_majority_all_are_quoted_and_none_is_accused)
{
    check_sentence(2, (uint32_t[]){0, 1}, "",
                   "operation 0: rank 0 started broadcast of 4 int32 from rank 0, rank 1 started broadcast of 4 int32 "
                   "from rank 1");
    check_sentence(3, (uint32_t[]){0, 1, 2}, "",
                   "operation 0: rank 0 started broadcast of 4 int32 from rank 0, rank 1 started broadcast of 4 int32 "
                   "from rank 1, rank 2 started broadcast of 4 int32 from rank 2");
    check_sentence(4, (uint32_t[]){3, 1, 3, 1}, "",
                   "operation 0: ranks 0 and 2 started broadcast of 4 int32 from rank 3, ranks 1 and 3 started "
                   "broadcast of 4 int32 from rank 1");
    check_sentence(4, (uint32_t[]){0, 1, 2, 3}, "",
                   "operation 0: rank 0 started broadcast of 4 int32 from rank 0, rank 1 started broadcast of 4 int32 "
                   "from rank 1, rank 2 started broadcast of 4 int32 from rank 2, others something else again");
    check_sentence(3, (uint32_t[]){1, 0, 0}, "rank 0 at a",
                   "operation 0: rank 0 started broadcast of 4 int32 from rank 1, ranks 1 and 2 started broadcast of 4 "
                   "int32 from rank 0");
    check_sentence(7, (uint32_t[]){2, 2, 2, 1, 2, 1, 2}, "rank 3 at d",
                   "operation 0: ranks 0 to 2, 4 and 6 started broadcast of 4 int32 from rank 2, ranks 3 and 5 started "
                   "broadcast of 4 int32 from rank 1");
}
END_TEST

/* Two of three differ, and the third starts nothing: it has no vote, and nobody is accused. */
START_TEST(votes_are_not_waited_for_for_ever)
{
    struct try t[RANKS];
    struct net n;

    net_open(&n, 3, 1, PS_ALGORITHM_AUTO, 0, test_seed());
    memset(t, 0, sizeof t);
    try_start(&n, 0, &t[0], PLAN_BROADCAST, 4, 0, 0);
    try_start(&n, 1, &t[1], PLAN_BROADCAST, 4, 1, 0);
    run_all(&n);
    group_core_pass(&n, UINT32_MAX, GROUP_VOTE_MS - 100);
    for (uint32_t r = 0; r < 3; r++)
        ck_assert_int_eq(group_core_state(n.core[r], NULL), PS_OK);
    group_core_pass(&n, UINT32_MAX, 300);
    all_failed(&n, PS_ERR_MISMATCH, "");
    for (uint32_t r = 0; r < 3; r++)
        ck_assert_uint_eq(group_core_guilty(n.core[r]), GROUP_ABORT_SEVERAL);
    free_all(&n, t);
}
END_TEST

static struct group_work *
pair_start(struct net *n, uint32_t r, bool sends, size_t count, enum ps_dtype dtype)
{
    struct group_request ask = {.op = sends ? PLAN_KEY_SEND : PLAN_KEY_RECEIVE,
                                .in = differ_memory[0],
                                .out = differ_memory[1],
                                .count = count,
                                .dtype = dtype,
                                .root = 1 - r};
    struct group_work *w;

    ck_assert_int_eq(group_core_start(n->core[r], &ask, n->now, &w, NULL), PS_OK);
    group_core_perform(n, r);
    return w;
}

START_TEST(a_send_ends_when_its_receive_has_begun)
{
    for (size_t i = 0; i < ARRAY_LEN(held_counts); i++) {
        struct group_work *sent, *received;
        struct net n;

        net_open(&n, 3, 1, PS_ALGORITHM_AUTO, 0, test_seed());
        sent = pair_start(&n, 0, true, held_counts[i], PS_I32);
        run_all(&n);
        ck_assert(!group_work_done(sent));
        received = pair_start(&n, 1, false, held_counts[i], PS_I32);
        run_all(&n);
        ck_assert(group_work_done(sent) && group_work_done(received));
        ck_assert_int_eq(group_work_result(n.core[0], sent, NULL), PS_OK);
        group_work_free(n.core[0], sent);
        group_work_free(n.core[1], received);
        net_close(&n);
    }
}
END_TEST

START_TEST(a_send_and_its_receive_that_differ_are_told_to_all)
{
    for (size_t i = 0; i < 2 * ARRAY_LEN(held_counts); i++) {
        size_t count = held_counts[i / 2], other = count + (i % 2 == 0);
        struct group_work *sent, *received;
        char sentence[200];
        struct ps_error e;
        struct net n;

        net_open(&n, 3, 1, PS_ALGORITHM_AUTO, 0, test_seed());
        sent = pair_start(&n, 0, true, count, PS_I32);
        run_all(&n);
        received = pair_start(&n, 1, false, other, i % 2 == 0 ? PS_I32 : PS_F32);
        run_all(&n);
        ck_assert_int_eq(group_work_result(n.core[0], sent, NULL), PS_ERR_MISMATCH);
        ck_assert_int_eq(group_work_result(n.core[1], received, NULL), PS_ERR_MISMATCH);
        all_failed(&n, PS_ERR_MISMATCH, "");
        snprintf(sentence, sizeof sentence,
                 "message 0 from rank 0 to rank 1: rank 0 sends a message of %zu int32, rank 1 receives a message of "
                 "%zu %s",
                 count, other, i % 2 == 0 ? "int32" : "float32");
        for (uint32_t r = 0; r < 3; r++) {
            (void)group_core_state(n.core[r], &e);
            ck_assert_str_eq(e.text, sentence);
        }
        group_work_free(n.core[0], sent);
        group_work_free(n.core[1], received);
        net_close(&n);
    }
}
END_TEST

/* A root of small broadcasts sends far ahead, as far as it may, and no farther; none ends before the other has begun
 * it. */
START_TEST(who_is_ahead_waits_for_who_is_behind)
{
    struct try t[2][PS_GROUP_WORKS_MAX];
    struct net n;

    net_open(&n, 2, 1, PS_ALGORITHM_AUTO, 0, 6);
    for (uint32_t i = 0; i < PS_GROUP_WORKS_MAX; i++)
        try_start(&n, 0, &t[0][i], PLAN_BROADCAST, 1000, 0, i);
    ck_assert_int_eq(group_core_start(n.core[0], &t[0][0].ask, 0, &(struct group_work *){NULL}, NULL), PS_ERR_LIMIT);
    run_all(&n);
    for (uint32_t i = 0; i < PS_GROUP_WORKS_MAX; i++)
        ck_assert(!group_work_done(t[0][i].work));
    ck_assert_uint_eq(n.payloads, GROUP_AHEAD_BYTES / (4000 + GROUP_MESSAGE_COST));
    for (uint32_t i = 0; i < PS_GROUP_WORKS_MAX; i++) {
        try_start(&n, 1, &t[1][i], PLAN_BROADCAST, 1000, 0, i);
        run_all(&n);
        ck_assert(group_work_done(t[1][i].work));
        try_check(&n, 1, &t[1][i], i);
    }
    for (uint32_t i = 0; i < PS_GROUP_WORKS_MAX; i++) {
        ck_assert(group_work_done(t[0][i].work));
        try_free(&n, 0, &t[0][i]);
        try_free(&n, 1, &t[1][i]);
    }
    net_close(&n);
}
END_TEST

/* Of four ranks that exchange all in two rounds the first sends one frame to the one of its first round, and waits for
 * that one alone; when that one has answered, one frame to the one of its second. */
START_TEST(a_message_that_waits_is_announced_when_it_goes)
{
    struct try t[RANKS];
    struct net n;
    uint32_t near = 2, far = 1;

    net_open(&n, 4, 1, PS_ALGORITHM_HALVING, 0, 11);
    for (uint32_t r = 0; r < 4; r += near)
        try_start(&n, r, &t[r], PLAN_ALL_REDUCE, 1000, 0, 0);
    ck_assert(n.way[0][near].queued != NULL && n.way[0][near].queued->next == NULL);
    ck_assert(n.way[0][far].queued == NULL && n.way[0][3].queued == NULL);
    ck_assert(group_core_awaits(n.core[0], near));
    ck_assert(!group_core_awaits(n.core[0], far) && !group_core_awaits(n.core[0], 3));
    group_core_move(&n, near, &n.way[near][0]);
    group_core_arrive(&n, near, 0, &n.way[near][0]);
    ck_assert(n.way[0][far].queued != NULL && n.way[0][far].queued->next == NULL);
    ck_assert(!group_core_awaits(n.core[0], near) && group_core_awaits(n.core[0], far));
    try_start(&n, 1, &t[1], PLAN_ALL_REDUCE, 1000, 0, 0);
    try_start(&n, 3, &t[3], PLAN_ALL_REDUCE, 1000, 0, 0);
    run_all(&n);
    for (uint32_t r = 0; r < 4; r++) {
        ck_assert(group_work_done(t[r].work));
        ck_assert(!group_core_awaits(n.core[r], (r + 1) % 4));
        try_check(&n, r, &t[r], 0);
    }
    free_all(&n, t);
}
END_TEST

/* A hand-made frame, from rank 1 to rank 0. */
static enum ps_err
group_core_told(const uint8_t *head_bytes, size_t payload_len)
{
    static uint8_t payload[64 * 1024];
    struct frame_head head;
    struct try t[RANKS];
    struct net n;
    enum ps_err err;

    net_open(&n, 3, 1, PS_ALGORITHM_RING, 20000, 7);
    memset(t, 0, sizeof t);
    try_start(&n, 0, &t[0], PLAN_ALL_REDUCE, 30000, 0, 0);
    ck_assert_int_eq(frame_head_decode(head_bytes, &head, NULL), PS_OK);
    ck_assert_uint_eq(head.payload_len, payload_len);
    CORE(group_core_frame(n.core[0], 1, &head, head_bytes + FRAME_HEAD_SIZE, payload, 0));
    err = group_core_state(n.core[0], NULL);
    group_core_perform(&n, 0);
    if (err == PS_OK)
        group_core_blame(n.core[0], 0, &(struct ps_error){.code = PS_ERR_CANCELLED});
    group_core_perform(&n, 0);
    free_all(&n, t);
    return err;
}

START_TEST(what_makes_no_sense_breaks_the_protocol)
{
    struct group_signature s = {.count = 1, .op = PLAN_ALL_REDUCE};
    uint8_t f[FRAME_HEAD_SIZE + GROUP_ABORT_MAX];

    group_data_encode(group_id(GROUP_LANE_ALL, 0), 4, f); /* not announced */
    ck_assert_int_eq(group_core_told(f, 4), PS_ERR_PROTOCOL);
    group_data_encode(group_id(GROUP_LANE_ALL, 77), 4, f); /* not there */
    ck_assert_int_eq(group_core_told(f, 4), PS_ERR_PROTOCOL);
    group_data_encode(group_id((enum group_lane)3, 0), 4, f); /* no such lane */
    ck_assert_int_eq(group_core_told(f, 4), PS_ERR_PROTOCOL);
    group_ready_encode(group_id(GROUP_LANE_ALL, 0), 1, f); /* of what was not announced */
    ck_assert_int_eq(group_core_told(f, 0), PS_ERR_PROTOCOL);
    group_ready_encode(group_id(GROUP_LANE_SEND, 5), 1, f);
    ck_assert_int_eq(group_core_told(f, 0), PS_ERR_PROTOCOL);
    group_work_encode(group_id(GROUP_LANE_ALL, 1), &s, 0, 20000, f); /* too much that was not asked for */
    ck_assert_int_eq(group_core_told(f, 20000), PS_ERR_PROTOCOL);
    group_work_encode(group_id(GROUP_LANE_ALL, 1), &s, 0, 0, f); /* early: no harm */
    ck_assert_int_eq(group_core_told(f, 0), PS_OK);
    group_abort_encode(PS_ERR_CLOSED, 99, "nobody", f); /* blames a rank that does not exist */
    ck_assert_int_eq(group_core_told(f, 0), PS_ERR_PROTOCOL);
    group_abort_encode(PS_ERR_TIMEOUT, 2, "rank 2 sleeps", f);
    ck_assert_int_eq(group_core_told(f, 0), PS_ERR_TIMEOUT);
    frame_head_encode(&(struct frame_head){.version = FRAME_VERSION, .type = MSG_PING}, f);
    ck_assert_int_eq(group_core_told(f, 0), PS_ERR_PROTOCOL);
}
END_TEST

/* Each allocation of a whole run fails once: the rank without memory reports it to all, or refuses the start. */
START_TEST(without_memory_it_fails_and_says_so)
{
    uint64_t nth;

    reducing = _i == 2 ? PS_MEAN : PS_SUM;
    for (nth = 1; nth < 3000; nth++) {
        struct try t[RANKS];
        struct net n;
        bool failed = false;

        net_open(&n, 3, 2, PS_ALGORITHM_AUTO, 0, 11);
        memset(t, 0, sizeof t);
        allocations = 0;
        fail_at = nth;
        for (uint32_t r = 0; r < 3; r++) {
            try_start(&n, r, &t[r], _i == 1 ? PLAN_KEY_MERGE : PLAN_ALL_REDUCE, 3000, 0, 0);
            for (int i = 0; i < 3; i++)
                (void)group_core_happen(&n);
        }
        run_all(&n);
        fail_at = 0;
        for (uint32_t r = 0; r < 3; r++) {
            struct ps_error e = {0};

            failed |= t[r].work == NULL || group_work_done(t[r].work) == false;
            if (group_core_state(n.core[r], &e) != PS_OK) {
                failed = true;
                ck_assert_int_eq(e.code, PS_ERR_NOMEM);
            }
        }
        for (uint32_t r = 0; r < 3; r++) {
            if (t[r].work != NULL && !group_work_done(t[r].work))
                group_core_blame(n.core[r], r, &(struct ps_error){.code = PS_ERR_CANCELLED});
            group_core_perform(&n, r);
        }
        free_all(&n, t);
        if (allocations < nth) {
            ck_assert(!failed);
            break;
        }
    }
    ck_assert_uint_gt(nth, 10);
    ck_assert_uint_lt(nth, 3000);
}
END_TEST

static Suite *
group_core_make(void)
{
    Suite *s = suite_create("group_core");
    TCase *t = tcase_create("core");

    tcase_set_timeout(t, 200);
    tcase_add_loop_test(t, operations_end_whatever_the_order, PS_ALGORITHM_AUTO, PS_ALGORITHM_HIERARCHICAL + 1);
    tcase_add_test(t, who_dies_at_any_moment_is_named_by_all);
    tcase_add_test(t, who_is_odd_is_named_by_all_whatever_the_order);
    tcase_add_test(t, who_sent_what_cannot_be_merged_is_named_by_all);
    tcase_add_test(t, ranks_that_merge_otherwise_are_told);
    tcase_add_test(t, who_is_silent_is_named_by_all);
    tcase_add_test(t, who_does_not_start_is_named_by_all);
    tcase_add_loop_test(t, no_rank_ends_before_all_have_started, PS_ALGORITHM_AUTO, PS_ALGORITHM_HIERARCHICAL + 1);
    tcase_add_loop_test(t, ranks_that_differ_in_anything_are_told_by_that_operation, 0, DIFFERENCES);
    tcase_add_test(t, without_a_majority_all_are_quoted_and_none_is_accused);
    tcase_add_test(t, votes_are_not_waited_for_for_ever);
    tcase_add_test(t, a_send_ends_when_its_receive_has_begun);
    tcase_add_test(t, a_send_and_its_receive_that_differ_are_told_to_all);
    tcase_add_test(t, who_is_ahead_waits_for_who_is_behind);
    tcase_add_test(t, a_message_that_waits_is_announced_when_it_goes);
    tcase_add_test(t, what_makes_no_sense_breaks_the_protocol);
    tcase_add_loop_test(t, without_memory_it_fails_and_says_so, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(group_core_make)
