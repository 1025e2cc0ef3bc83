#include "tests/unit/client/core/plan/plan_kit.h"

#include <math.h>
#include <string.h>

#define FENCE      8
#define FENCE_BITS 0x7eadbeefu

#define fail_in(m, ...)                                                                                                \
    do {                                                                                                               \
        char why[200];                                                                                                 \
        snprintf(why, sizeof why, __VA_ARGS__);                                                                        \
        ck_abort_msg("%s: %s", (m)->what, why);                                                                        \
    } while (0)

/* ---- Memory ---- */

static uint32_t *
plan_kit_fenced(size_t len, uint32_t **memory)
{
    *memory = malloc((len + 2 * FENCE) * sizeof **memory);
    ck_assert_ptr_nonnull(*memory);
    for (size_t i = 0; i < len + 2 * FENCE; i++)
        (*memory)[i] = FENCE_BITS;
    return *memory + FENCE;
}

static size_t
plan_kit_part(const struct plan_request *a, uint32_t rank)
{
    return ps_group_part(a->count, a->ranks, rank);
}

static size_t
part_offset(const struct plan_request *a, uint32_t rank)
{
    return ps_group_part_offset(a->count, a->ranks, rank);
}

static bool
has_out(const struct plan_request *a)
{
    return a->op != PLAN_REDUCE || a->rank == a->root;
}

static uint32_t
random_bits(enum ps_dtype dtype, struct test_rng *r)
{
    uint32_t bits = (uint32_t)test_rand(r);
    float x = ldexpf(test_float(r), (int)test_below(r, 12));

    if (dtype == PS_F32)
        memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void
rank_init(struct machine *m, uint32_t k, struct test_rng *r)
{
    struct machine_rank *x = &m->rank[k];
    struct plan_request *a = &x->ask;
    struct ps_error e = {0};

    *a = m->ask;
    a->rank = k;
    a->in_place = test_below(r, 2) == 0;
    ck_assert_msg(plan_make(a, &x->plan, &e) == PS_OK, "%s: %s", m->what, e.text);
    x->in_len = a->op == PLAN_BARRIER || a->op == PLAN_BROADCAST ? 0
                : a->op == PLAN_ALL_GATHER                       ? plan_kit_part(a, k)
                                                                 : a->count;
    x->out_len = a->op == PLAN_BARRIER          ? 0
                 : a->op == PLAN_REDUCE_SCATTER ? plan_kit_part(a, k)
                 : has_out(a)                   ? a->count
                                                : 0;
    if (a->in_place && a->op != PLAN_BROADCAST && has_out(a)) {
        uint32_t *whole = plan_kit_fenced(MAX(x->in_len, x->out_len), &x->memory[0]);

        x->in = whole + (a->op == PLAN_ALL_GATHER ? part_offset(a, k) : 0);
        x->out = whole + (a->op == PLAN_REDUCE_SCATTER ? part_offset(a, k) : 0);
    } else {
        x->in = plan_kit_fenced(x->in_len, &x->memory[0]);
        x->out = plan_kit_fenced(x->out_len, &x->memory[1]);
    }
    x->scratch = plan_kit_fenced(x->plan.scratch, &x->memory[2]);
    x->given = malloc((MAX(x->in_len, x->out_len) + 1) * sizeof *x->given);
    for (size_t i = 0; i < (a->op == PLAN_BROADCAST ? a->count : x->in_len); i++)
        x->given[i] = random_bits(m->dtype, r);
    if (a->op == PLAN_BROADCAST && k == a->root)
        memcpy(x->out, x->given, a->count * sizeof *x->given);
    memcpy(x->in, x->given, x->in_len * sizeof *x->given);
}

static const char *const op_names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "barrier"};
static const char *const algorithm_names[] = {"auto", "direct", "ring", "halving", "hierarchical"};

void
machine_init(struct machine *m, const struct plan_request *ask, enum ps_dtype dtype, enum ps_reduce reduce,
             struct test_rng *r)
{
    *m = (struct machine){.ask = *ask, .reduce = reduce, .dtype = dtype, .n = ask->ranks, .held = PLAN_NONE};
    m->ask.size = MACHINE_SIZE;
    m->ask.mean = reduce == PS_MEAN && dtype == PS_F32 && !reduce_mean_is_kept(dtype, ask->ranks);
    snprintf(m->what, sizeof m->what, "%s %s of %zu %s, operation %d, %u ranks, root %u, segments %zu, seed %" PRIu64,
             algorithm_names[ask->algorithm], op_names[ask->op], ask->count, ps_dtype_name(dtype), reduce, ask->ranks,
             ask->root, ask->segment_bytes, r->state);
    m->rank = calloc(m->n, sizeof *m->rank);
    for (uint32_t k = 0; k < m->n; k++)
        rank_init(m, k, r);
}

void
machine_finish(struct machine *m)
{
    for (uint32_t k = 0; k < m->n; k++) {
        struct machine_rank *x = &m->rank[k];

        for (int i = 0; i < 3; i++)
            free(x->memory[i]);
        free(x->given);
        plan_finish(&x->plan);
    }
    free(m->rank);
}

static uint32_t *
buffer_of(const struct machine_rank *x, enum plan_buffer b, size_t *len)
{
    switch (b) {
    case PLAN_IN:
        *len = x->in_len;
        return x->in;
    case PLAN_OUT:
        *len = x->out_len;
        return x->out;
    case PLAN_SCRATCH:
        *len = x->plan.scratch;
        return x->scratch;
    }
    *len = 0;
    return NULL;
}

/* ---- What a plan must be ---- */

static bool
plan_kit_sends(const struct plan_step *s)
{
    return s->kind == PLAN_SEND;
}

static bool
plan_kit_receives(const struct plan_step *s)
{
    return s->kind == PLAN_RECEIVE || s->kind == PLAN_RECEIVE_REDUCE;
}

/* The memory that a step reads (0: not at all) or writes, as [*from, *to). */
static bool
plan_kit_reads(const struct machine_rank *x, const struct plan_step *s, int i, uint32_t **from, uint32_t **to)
{
    bool first = s->kind == PLAN_SEND || s->kind == PLAN_REDUCE_LOCAL || s->kind == PLAN_SCALE;
    bool second = s->kind == PLAN_RECEIVE_REDUCE || s->kind == PLAN_COPY || s->kind == PLAN_REDUCE_LOCAL;
    size_t len;

    if (!(i == 0 ? first : second))
        return false;
    *from = buffer_of(x, i == 0 ? s->buffer : s->source, &len) + (i == 0 ? s->offset : s->source_offset);
    *to = *from + s->len;
    return s->len > 0;
}

static bool
plan_kit_writes(const struct machine_rank *x, const struct plan_step *s, uint32_t **from, uint32_t **to)
{
    size_t len;

    if (s->kind == PLAN_SEND)
        return false;
    *from = buffer_of(x, s->buffer, &len) + s->offset;
    *to = *from + s->len;
    return s->len > 0;
}

/* An empty message, of an operation whose data goes some ways alone. */
static bool
may_signal(const struct machine *m, const struct plan_step *s)
{
    bool message = plan_kit_sends(s) || plan_kit_receives(s),
         rooted = m->ask.op == PLAN_BROADCAST || m->ask.op == PLAN_REDUCE;

    return message && (rooted || m->ask.count < (m->ask.op == PLAN_ALL_REDUCE ? 1 : m->n));
}

static void
check_step(const struct machine *m, const struct machine_rank *x, uint32_t i)
{
    const struct plan_step *s = &x->plan.step[i];
    bool message = plan_kit_sends(s) || plan_kit_receives(s), join = s->kind == PLAN_COPY && s->len == 0;
    bool two = s->kind == PLAN_RECEIVE_REDUCE || s->kind == PLAN_COPY || s->kind == PLAN_REDUCE_LOCAL;
    size_t len;

    for (int k = 0; k < PLAN_NEEDS_MAX; k++)
        if (s->needs[k] != PLAN_NONE && s->needs[k] >= i)
            fail_in(m, "rank %u: step %u needs %u", x->ask.rank, i, s->needs[k]);
    if (message ? s->peer >= m->n || s->peer == x->ask.rank : s->peer != PLAN_NONE)
        fail_in(m, "rank %u: step %u has peer %u", x->ask.rank, i, s->peer);
    if (m->ask.op == PLAN_BARRIER ? !message || s->len != 0 : s->len == 0 && !join && !may_signal(m, s))
        fail_in(m, "rank %u: step %u is empty, or not", x->ask.rank, i);
    if (message && s->len * MACHINE_SIZE > x->plan.segment_bytes && s->len > 1)
        fail_in(m, "rank %u: step %u is longer than a segment", x->ask.rank, i);
    buffer_of(x, s->buffer, &len);
    if (s->offset > len || s->len > len - s->offset)
        fail_in(m, "rank %u: step %u is outside its buffer of %zu", x->ask.rank, i, len);
    buffer_of(x, s->source, &len);
    if (two && (s->source_offset > len || s->len > len - s->source_offset))
        fail_in(m, "rank %u: step %u reads outside its buffer of %zu", x->ask.rank, i, len);
    if (s->kind == PLAN_SCALE && !m->ask.mean)
        fail_in(m, "rank %u: step %u divides", x->ask.rank, i);
}

/* The k-th message between each two has one length on both sides, and there are as many. */
static void
check_matching(const struct machine *m)
{
    size_t links = (size_t)m->n * m->n, *end = calloc(links + 1, sizeof *end), *received, *length, all = 0;

    for (uint32_t a = 0; a < m->n; a++)
        for (uint32_t i = 0; i < m->rank[a].plan.steps; i++)
            if (plan_kit_sends(&m->rank[a].plan.step[i]))
                end[a * m->n + m->rank[a].plan.step[i].peer]++;
    for (size_t l = 0; l < links; l++) { /* from counts to where each link's lengths begin */
        size_t count = end[l];

        end[l] = all;
        all += count;
    }
    received = malloc((links + 1) * sizeof *received);
    memcpy(received, end, links * sizeof *received);
    length = malloc((all + 1) * sizeof *length);
    for (uint32_t a = 0; a < m->n; a++)
        for (uint32_t i = 0; i < m->rank[a].plan.steps; i++) {
            const struct plan_step *s = &m->rank[a].plan.step[i];

            if (plan_kit_sends(s))
                length[end[a * m->n + s->peer]++] = s->len;
        }
    for (uint32_t b = 0; b < m->n; b++)
        for (uint32_t i = 0; i < m->rank[b].plan.steps; i++) {
            const struct plan_step *s = &m->rank[b].plan.step[i];
            size_t l = s->peer * m->n + b;

            if (plan_kit_receives(s) && (received[l] == end[l] || length[received[l]++] != s->len))
                fail_in(m, "step %u of %u: no message like it comes from %u", i, b, s->peer);
        }
    if (memcmp(received, end, links * sizeof *end) != 0)
        fail_in(m, "a message is not received");
    free(end);
    free(received);
    free(length);
}

static bool
plan_kit_overlap(const uint32_t *a, const uint32_t *a_end, const uint32_t *b, const uint32_t *b_end)
{
    return a < b_end && b < a_end;
}

static bool
plan_kit_conflict(const struct machine_rank *x, const struct plan_step *s, const struct plan_step *t)
{
    uint32_t *a, *ae, *b, *be;

    if (plan_kit_writes(x, s, &a, &ae)) {
        if (plan_kit_writes(x, t, &b, &be) && plan_kit_overlap(a, ae, b, be))
            return true;
        for (int i = 0; i < 2; i++)
            if (plan_kit_reads(x, t, i, &b, &be) && plan_kit_overlap(a, ae, b, be))
                return true;
    }
    for (int i = 0; i < 2; i++)
        if (plan_kit_reads(x, s, i, &a, &ae) && plan_kit_writes(x, t, &b, &be) && plan_kit_overlap(a, ae, b, be))
            return true;
    return false;
}

/* Every two steps that conflict: the later needs the earlier, perhaps by way of others. before: a set of bits for each
 * step, of those that must have ended before it begins. */
static void
check_order(const struct machine *m, const struct machine_rank *x)
{
    size_t words = (x->plan.steps + 63) / 64;
    uint64_t *before = calloc(words * x->plan.steps + 1, sizeof *before);

    for (uint32_t i = 0; i < x->plan.steps; i++) {
        const struct plan_step *s = &x->plan.step[i];
        uint64_t *own = before + i * words;

        for (int k = 0; k < PLAN_NEEDS_MAX; k++)
            if (s->needs[k] != PLAN_NONE) {
                for (size_t w = 0; w < words; w++)
                    own[w] |= before[s->needs[k] * words + w];
                own[s->needs[k] / 64] |= 1ull << s->needs[k] % 64;
            }
        for (uint32_t j = 0; j < i; j++)
            if ((own[j / 64] >> j % 64 & 1) == 0 && plan_kit_conflict(x, &x->plan.step[j], s))
                fail_in(m, "rank %u: steps %u and %u conflict, and neither waits for the other", x->ask.rank, j, i);
    }
    free(before);
}

#define ORDER_STEPS_MAX 300 /* it grows with the square */

void
machine_check_plans(const struct machine *m)
{
    for (uint32_t k = 0; k < m->n; k++) {
        for (uint32_t i = 0; i < m->rank[k].plan.steps; i++)
            check_step(m, &m->rank[k], i);
        if (m->rank[k].plan.steps <= ORDER_STEPS_MAX)
            check_order(m, &m->rank[k]);
    }
    check_matching(m);
}

/* ---- Carrying them out ---- */

static float
as_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t
as_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t
plan_kit_add(const struct machine *m, uint32_t a, uint32_t b)
{
    if (m->dtype == PS_F32)
        return m->reduce == PS_MAX ? as_bits(fmaxf(as_float(a), as_float(b))) : as_bits(as_float(a) + as_float(b));
    return m->reduce == PS_MAX ? (uint32_t)MAX((int32_t)a, (int32_t)b) : a + b;
}

/* As a step says, of so many elements each; what reduce.h keeps of a mean of float32. */
static uint32_t
plan_kit_step_add(const struct machine *m, const struct plan_step *s, uint32_t a, uint32_t b)
{
    uint32_t bits;

    if (m->reduce != PS_MEAN || m->dtype != PS_F32)
        return plan_kit_add(m, a, b);
    reduce_mean(PS_F32, 1, &bits, &a, &b, s->counts);
    return bits;
}

enum state { WAITING, DONE };

/* Of a link from one rank to another: its SENDs and RECEIVEs in order, and how far each side is. */
struct machine_link {
    uint32_t *send, *receive;
    uint32_t messages, sent, received;
    uint32_t **message; /* eager: sent and not yet received */
};

struct running {
    struct machine *m;
    enum state **state; /* [n][steps] */
    uint32_t *left;     /* [n] */
    struct machine_link *link;
};

static struct machine_link *
link_at(const struct running *run, uint32_t from, uint32_t to)
{
    return &run->link[from * run->m->n + to];
}

static bool
plan_kit_step_ready(const struct running *run, uint32_t rank, uint32_t i)
{
    const struct plan_step *s = &run->m->rank[rank].plan.step[i];

    if (run->state[rank][i] != WAITING)
        return false;
    for (int k = 0; k < PLAN_NEEDS_MAX; k++)
        if (s->needs[k] != PLAN_NONE && run->state[rank][s->needs[k]] != DONE)
            return false;
    return true;
}

static void
plan_kit_step_done(struct running *run, uint32_t rank, uint32_t i)
{
    run->state[rank][i] = DONE;
    run->left[rank]--;
}

static void
take_in(struct running *run, uint32_t rank, uint32_t i, const uint32_t *received)
{
    const struct machine_rank *x = &run->m->rank[rank];
    const struct plan_step *s = &x->plan.step[i];
    size_t len;
    uint32_t *to = buffer_of(x, s->buffer, &len) + s->offset;
    const uint32_t *source = buffer_of(x, s->source, &len) + s->source_offset;

    for (size_t k = 0; k < s->len; k++)
        to[k] = s->kind == PLAN_RECEIVE ? received[k] : plan_kit_step_add(run->m, s, source[k], received[k]);
    plan_kit_step_done(run, rank, i);
}

static void
do_local(struct running *run, uint32_t rank, uint32_t i)
{
    const struct machine_rank *x = &run->m->rank[rank];
    const struct plan_step *s = &x->plan.step[i];
    size_t len;
    uint32_t *to = buffer_of(x, s->buffer, &len) + s->offset;
    const uint32_t *source = buffer_of(x, s->source, &len) + s->source_offset;

    for (size_t k = 0; k < s->len; k++)
        if (s->kind == PLAN_SCALE)
            reduce_mean_end(PS_F32, 1, &to[k], run->m->n);
        else
            to[k] = s->kind == PLAN_COPY ? source[k] : plan_kit_step_add(run->m, s, to[k], source[k]);
    plan_kit_step_done(run, rank, i);
}

/* The next message of a link, if both sides are so far. */
static bool
plan_kit_deliver(struct running *run, uint32_t from, uint32_t to)
{
    struct machine_link *l = link_at(run, from, to);
    const struct machine_rank *x = &run->m->rank[from];
    size_t len;

    if (to == run->m->held || from == run->m->held || l->received == l->messages ||
        !plan_kit_step_ready(run, to, l->receive[l->received]))
        return false;
    if (l->received < l->sent) { /* eager */
        take_in(run, to, l->receive[l->received], l->message[l->received]);
        free(l->message[l->received++]);
        return true;
    }
    if (!plan_kit_step_ready(run, from, l->send[l->sent]))
        return false;
    {
        const struct plan_step *s = &x->plan.step[l->send[l->sent]];

        take_in(run, to, l->receive[l->received++], buffer_of(x, s->buffer, &len) + s->offset);
        plan_kit_step_done(run, from, l->send[l->sent++]);
    }
    return true;
}

static bool
plan_kit_post(struct running *run, uint32_t from, uint32_t to)
{
    struct machine_link *l = link_at(run, from, to);
    const struct machine_rank *x = &run->m->rank[from];
    const struct plan_step *s;
    size_t len;

    if (from == run->m->held || l->sent == l->messages || !plan_kit_step_ready(run, from, l->send[l->sent]))
        return false;
    s = &x->plan.step[l->send[l->sent]];
    l->message[l->sent] = malloc((s->len + 1) * sizeof **l->message);
    memcpy(l->message[l->sent], buffer_of(x, s->buffer, &len) + s->offset, s->len * sizeof **l->message);
    plan_kit_step_done(run, from, l->send[l->sent++]);
    return true;
}

static void
run_begin(struct running *run, struct machine *m)
{
    *run = (struct running){.m = m,
                            .state = calloc(m->n, sizeof *run->state),
                            .left = calloc(m->n, sizeof *run->left),
                            .link = calloc((size_t)m->n * m->n, sizeof *run->link)};
    for (uint32_t k = 0; k < m->n; k++) {
        const struct plan_plan *p = &m->rank[k].plan;

        run->state[k] = calloc(p->steps + 1, sizeof **run->state);
        run->left[k] = p->steps;
        for (uint32_t i = 0; i < p->steps; i++)
            if (plan_kit_sends(&p->step[i]))
                link_at(run, k, p->step[i].peer)->messages++;
    }
    for (uint32_t i = 0; i < m->n * m->n; i++) {
        struct machine_link *l = &run->link[i];

        if (l->messages == 0)
            continue;
        l->send = malloc(l->messages * sizeof *l->send);
        l->receive = malloc(l->messages * sizeof *l->receive);
        l->message = calloc(l->messages, sizeof *l->message);
    }
    for (uint32_t k = 0; k < m->n; k++)
        for (uint32_t i = 0; i < m->rank[k].plan.steps; i++) {
            const struct plan_step *s = &m->rank[k].plan.step[i];

            if (plan_kit_sends(s))
                link_at(run, k, s->peer)->send[link_at(run, k, s->peer)->sent++] = i;
            else if (plan_kit_receives(s))
                link_at(run, s->peer, k)->receive[link_at(run, s->peer, k)->received++] = i;
        }
    for (uint32_t i = 0; i < m->n * m->n; i++)
        run->link[i].sent = run->link[i].received = 0;
}

static void
run_end(struct running *run)
{
    for (uint32_t k = 0; k < run->m->n; k++)
        free(run->state[k]);
    for (uint32_t i = 0; i < run->m->n * run->m->n; i++) {
        struct machine_link *l = &run->link[i];

        for (uint32_t k = l->received; k < l->sent; k++)
            free(l->message[k]);
        free(run->link[i].send);
        free(run->link[i].receive);
        free(run->link[i].message);
    }
    free(run->state);
    free(run->left);
    free(run->link);
}

/* The steps that one rank can do without others, of the first few that are left, in random order. */
static bool
rank_turn(struct running *run, uint32_t rank, uint32_t *begin)
{
    const struct plan_plan *p = &run->m->rank[rank].plan;
    bool moved = false;

    while (*begin < p->steps && run->state[rank][*begin] == DONE)
        ++*begin;
    for (uint32_t i = *begin; i < p->steps; i++)
        if (!plan_kit_sends(&p->step[i]) && !plan_kit_receives(&p->step[i]) && plan_kit_step_ready(run, rank, i)) {
            do_local(run, rank, i);
            moved = true;
        }
    return moved;
}

/* A turn of all ranks: links in random order, each a random number of messages. */
static bool
plan_kit_turn(struct running *run, uint32_t *order, uint32_t links, uint32_t *begin, bool eager, struct test_rng *r)
{
    uint32_t n = run->m->n;
    bool moved = false;

    for (uint32_t k = 0; k < n; k++)
        if (k != run->m->held)
            moved |= rank_turn(run, k, &begin[k]);
    for (uint32_t i = links; i-- > 0;) {
        uint32_t at = (uint32_t)test_below(r, i + 1), link = order[at], from = link / n, to = link % n;

        order[at] = order[i];
        order[i] = link;
        while (eager && test_below(r, 3) != 0 && plan_kit_post(run, from, to))
            moved = true;
        while (plan_kit_deliver(run, from, to)) {
            moved = true;
            if (test_below(r, 3) == 0)
                break;
        }
    }
    for (uint32_t i = 0; eager && !moved && i < links; i++)
        moved = plan_kit_post(run, order[i] / n, order[i] % n);
    return moved;
}

static void
run_all(struct machine *m, bool eager, struct test_rng *r, uint32_t *left)
{
    struct running run;
    uint32_t links = 0, *order = malloc((m->n * m->n + 1) * sizeof *order), *begin = calloc(m->n, sizeof *begin);

    run_begin(&run, m);
    for (uint32_t i = 0; i < m->n * m->n; i++)
        if (run.link[i].messages > 0)
            order[links++] = i;
    while (plan_kit_turn(&run, order, links, begin, eager, r))
        ;
    memcpy(left, run.left, m->n * sizeof *left);
    run_end(&run);
    free(order);
    free(begin);
}

void
machine_run(struct machine *m, bool eager, struct test_rng *r)
{
    uint32_t *left = malloc(m->n * sizeof *left);

    run_all(m, eager, r, left);
    for (uint32_t k = 0; k < m->n; k++)
        if (left[k] > 0)
            fail_in(m, "rank %u has %u steps left, and nobody can go on", k, left[k]);
    free(left);
}

void
machine_run_held(struct machine *m, struct test_rng *r, uint32_t *left)
{
    run_all(m, true, r, left);
}

/* ---- Results ---- */

/* Element i of the sum over ranks first, first + 1, ... (mod n). */
static uint32_t
sum_from(const struct machine *m, size_t i, uint32_t first)
{
    uint32_t sum = m->rank[first % m->n].given[i];

    for (uint32_t k = 1; k < m->n; k++)
        sum = plan_kit_add(m, sum, m->rank[(first + k) % m->n].given[i]);
    return sum;
}

static uint32_t
piece_of(const struct machine *m, size_t i)
{
    uint32_t p = 0;

    while (ps_group_part_offset(m->ask.count, m->n, p + 1) <= i)
        p++;
    return p;
}

/* Sums of the m of halving's tree: size of them, at `v`, `v + stride`, ... */
static uint32_t
tree_sum(const struct machine *m, size_t i, uint32_t count, uint32_t v, uint32_t stride)
{
    uint32_t pairs = m->n - count, first = v < pairs ? 2 * v : v + pairs;

    if (stride < count)
        return plan_kit_add(m, tree_sum(m, i, count, v, 2 * stride), tree_sum(m, i, count, v + stride, 2 * stride));
    return v < pairs ? plan_kit_add(m, m->rank[first].given[i], m->rank[first + 1].given[i]) : m->rank[first].given[i];
}

/* The binomial tree's sum of the members from `v` (counted from the root) on, as many as `span`. */
static uint32_t
binomial_sum(const struct machine *m, size_t i, uint32_t v, uint32_t span)
{
    uint32_t sum = m->rank[(m->ask.root + v) % m->n].given[i];

    for (uint32_t bit = 1; bit < span && v + bit < m->n; bit *= 2)
        sum = plan_kit_add(m, sum, binomial_sum(m, i, v + bit, bit));
    return sum;
}

/* Element i of the sum, in the order that plan.h says. HIERARCHICAL: in no particular one, so only where the order does
 * not matter. */
static uint32_t
sum_by_the_book(const struct machine *m, size_t i)
{
    uint32_t m2 = 1;

    while (m2 <= m->n / 2)
        m2 *= 2;
    switch (m->rank[0].plan.algorithm) {
    case PS_ALGORITHM_RING:
        if (m->ask.op == PLAN_REDUCE) { /* root-1, root-2, ..., root */
            uint32_t sum = m->rank[(m->ask.root + m->n - 1) % m->n].given[i];

            for (uint32_t k = 2; k <= m->n; k++)
                sum = plan_kit_add(m, sum, m->rank[(m->ask.root + 2 * m->n - k) % m->n].given[i]);
            return sum;
        }
        return sum_from(m, i, piece_of(m, i) + 1);
    case PS_ALGORITHM_HALVING:
        return m->ask.op == PLAN_REDUCE ? binomial_sum(m, i, 0, m->n) : tree_sum(m, i, m2, 0, 1);
    default:
        return sum_from(m, i, 0);
    }
}

static uint32_t
result_by_the_book(const struct machine *m, size_t i)
{
    uint32_t p, sum;

    if (m->ask.op == PLAN_BROADCAST)
        return m->rank[m->ask.root].given[i];
    if (m->ask.op == PLAN_ALL_GATHER) {
        p = piece_of(m, i);
        return m->rank[p].given[i - part_offset(&m->ask, p)];
    }
    sum = sum_by_the_book(m, i);
    return m->reduce == PS_MEAN && m->dtype == PS_F32 && m->n > 1 ? as_bits(as_float(sum) / (float)m->n) : sum;
}

/* In HIERARCHICAL's order the last bits are not known, but the same everywhere. */
static bool
close_enough(const struct machine *m, uint32_t is, uint32_t want)
{
    bool exact = m->dtype == PS_I32 || m->reduce == PS_MAX || m->rank[0].plan.algorithm != PS_ALGORITHM_HIERARCHICAL ||
                 m->ask.op == PLAN_BROADCAST || m->ask.op == PLAN_ALL_GATHER;

    return is == want || (!exact && fabsf(as_float(is) - as_float(want)) <= 0x1p11f * 0x1p-24f * 2 * (float)m->n);
}

static void
check_rank(const struct machine *m, const uint32_t *want, uint32_t *first_seen, bool *seen, uint32_t k)
{
    const struct machine_rank *x = &m->rank[k];
    size_t offset = m->ask.op == PLAN_REDUCE_SCATTER ? part_offset(&m->ask, k) : 0;

    for (size_t i = 0; i < x->out_len; i++) {
        if (!close_enough(m, x->out[i], want[offset + i]))
            fail_in(m, "rank %u: element %zu is %x, not %x", k, i, x->out[i], want[offset + i]);
        if (seen[offset + i] && first_seen[offset + i] != x->out[i])
            fail_in(m, "rank %u: element %zu is %x, elsewhere %x", k, i, x->out[i], first_seen[offset + i]);
        seen[offset + i] = true;
        first_seen[offset + i] = x->out[i];
    }
    if (x->memory[1] != NULL && x->ask.op != PLAN_BROADCAST &&
        memcmp(x->in, x->given, x->in_len * sizeof *x->in) != 0 && !(x->ask.in_place && has_out(&x->ask)))
        fail_in(m, "rank %u: in was written", k);
}

static void
check_fence(const struct machine *m, const uint32_t *memory, size_t len)
{
    if (memory == NULL)
        return;
    for (size_t i = 0; i < FENCE; i++)
        if (memory[i] != FENCE_BITS || memory[FENCE + len + i] != FENCE_BITS)
            fail_in(m, "something was written outside a buffer of %zu", len);
}

void
machine_check_results(const struct machine *m)
{
    size_t count = m->ask.op == PLAN_BARRIER ? 0 : m->ask.count;
    uint32_t *want = malloc((count + 1) * sizeof *want), *first_seen = malloc((count + 1) * sizeof *first_seen);
    bool *seen = calloc(count + 1, sizeof *seen);

    for (size_t i = 0; i < count; i++)
        want[i] = result_by_the_book(m, i);
    for (uint32_t k = 0; k < m->n; k++) {
        const struct machine_rank *x = &m->rank[k];

        check_rank(m, want, first_seen, seen, k);
        check_fence(m, x->memory[0], x->memory[1] != NULL ? x->in_len : MAX(x->in_len, x->out_len));
        check_fence(m, x->memory[1], x->out_len);
        check_fence(m, x->memory[2], x->plan.scratch);
    }
    free(want);
    free(first_seen);
    free(seen);
}
