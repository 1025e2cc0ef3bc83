/* Steps go through kit_frame(), as all frames of the kit do. */
#include "tests/unit/kits/assign_kit.h"

#include "common/core/cluster/placement.h"

const struct shard_config assign_kit_other = {.cluster = "test", .shard = 1, .shards = 2, .boot = 77};

static Psd__Assign
assign_message(Psd__AssignStep step, const struct kit_assign *a)
{
    Psd__Assign m = PSD__ASSIGN__INIT;

    m.step = step;
    m.attempt = a->attempt;
    m.number = a->number;
    m.clock = a->clock;
    m.reset_slots = a->reset_slots;
    m.durable = a->durable;
    m.first = a->first;
    m.nonfinite = a->nonfinite;
    return m;
}

uint64_t
assign_send(struct kit *k, uint64_t conn, Psd__AssignStep step, const struct kit_assign *a, uint64_t blocks)
{
    Psd__Assign m = assign_message(step, a);

    if (step == PSD__ASSIGN_STEP__OPEN)
        m.committed = a->committed;
    m.blocks = blocks;
    kit_frame(k, conn, MSG_ASSIGN, k->next_request, &m.base, NULL, 0);
    return k->next_request++;
}

uint64_t
assign_send_stage(struct kit *k, uint64_t conn, const struct kit_assign *a, uint32_t var, uint32_t block,
                  const float *values, size_t n)
{
    Psd__Assign m = assign_message(PSD__ASSIGN_STEP__STAGE, a);

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    kit_frame(k, conn, MSG_ASSIGN, k->next_request, &m.base, values, n * sizeof *values);
    return k->next_request++;
}

Psd__Assigned
assign_expect(struct kit *k, uint64_t conn, uint64_t request)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_ASSIGNED);
    Psd__Assigned m = *a->msg.u.assigned;

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert(!m.again);
    kit_answer_free(a);
    return m;
}

uint64_t
assign_expect_again(struct kit *k, uint64_t conn, uint64_t request)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_ASSIGNED);
    uint64_t newest = a->msg.u.assigned->newest;

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert(a->msg.u.assigned->again);
    kit_answer_free(a);
    return newest;
}

void
assign_begin_ok(struct kit *k, uint64_t conn, struct kit_assign *a)
{
    Psd__Assigned m = assign_expect(k, conn, assign_send(k, conn, PSD__ASSIGN_STEP__BEGIN, a, 0));

    a->number = m.number;
    a->committed = m.committed;
    a->clock = m.clock;
}

void
assign_open_ok(struct kit *k, uint64_t conn, const struct kit_assign *a)
{
    Psd__Assigned m = assign_expect(k, conn, assign_send(k, conn, PSD__ASSIGN_STEP__OPEN, a, 0));

    ck_assert_uint_eq(m.number, a->number);
}

void
assign_stage_four(struct kit *k, uint64_t conn, const struct kit_assign *a, uint32_t var, float value)
{
    const float values[4] = {value, value, value, value};

    (void)assign_expect(k, conn, assign_send_stage(k, conn, a, var, 0, values, 4));
}

void
assign_prepare_ok(struct kit *k, uint64_t conn, const struct kit_assign *a, uint64_t blocks)
{
    (void)assign_expect(k, conn, assign_send(k, conn, PSD__ASSIGN_STEP__PREPARE, a, blocks));
}

void
assign_commit_ok(struct kit *k, uint64_t conn, const struct kit_assign *a, uint64_t blocks)
{
    Psd__Assigned m = assign_expect(k, conn, assign_send(k, conn, PSD__ASSIGN_STEP__COMMIT, a, blocks));

    ck_assert_uint_eq(m.number, a->number);
}

uint64_t
assign_four(struct kit *k, uint64_t conn, uint64_t attempt, uint32_t var, float value)
{
    struct kit_assign a = {.attempt = attempt};

    assign_begin_ok(k, conn, &a);
    assign_stage_four(k, conn, &a, var, value);
    assign_commit_ok(k, conn, &a, 1);
    kit_work(k);
    return a.number;
}

void
assign_tick(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint64_t assigned, uint64_t given_up)
{
    Psd__Tick m = PSD__TICK__INIT;

    m.seq = seq;
    m.clock = clock;
    m.assigned = assigned;
    m.given_up = given_up;
    kit_frame(k, conn, MSG_TICK, k->next_request++, &m.base, NULL, 0);
    kit_ack(k, conn, seq, PS_OK);
}

uint64_t
assign_pull(struct kit *k, uint64_t conn, uint32_t var, uint64_t clock, uint64_t assigned, uint64_t with_assign)
{
    Psd__Pull m = PSD__PULL__INIT;
    uint32_t block = 0;

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.clock = clock;
    m.assigned = assigned;
    m.with_assign = with_assign;
    kit_frame(k, conn, MSG_PULL, k->next_request, &m.base, NULL, 0);
    return k->next_request++;
}

struct assign_data
assign_expect_data(struct kit *k, uint64_t conn, uint64_t request)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_DATA);
    const Psd__Data *m = a->msg.u.data;
    struct assign_data d = {.assigned = m->assigned, .newest = m->newest_assign};

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert_uint_eq(a->payload_len, 4);
    for (int i = 1; i < 4; i++)
        ck_assert(a->payload[i] == a->payload[0]);
    d.value = a->payload[0];
    d.version = m->version[0];
    kit_answer_free(a);
    return d;
}

static bool
assign_kit_count(void *arg, const struct store_key *key, struct span value)
{
    uint64_t *n = arg;

    (void)value;
    *n += key->generation >= STORE_GENERATION_STAGED;
    return true;
}

uint64_t
assign_kit_staged(struct kit *k)
{
    struct store_key from = {.generation = STORE_GENERATION_STAGED};
    uint64_t n = 0;

    kit_turn(k);
    ck_assert_int_eq(k->store->ops->each_block_from(k->store, &from, assign_kit_count, &n), PS_OK);
    return n;
}

void
assign_declare(struct kit *k, uint64_t conn, uint64_t request, const char *name, bool gives)
{
    struct ps_optimizer o = kit_optimizer(PS_SGD);
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct wire_optimizer room;
    uint64_t dims = 4;

    init.kind = PSD__INIT_KIND__GIVEN;
    m.name = (char *)name;
    m.dims = &dims;
    m.n_dims = 1;
    m.init = &init;
    m.optimizer = wire_optimizer_message(&o, &room);
    m.gives = gives;
    kit_frame(k, conn, MSG_DECLARE, request, &m.base, NULL, 0);
    kit_work(k);
}

uint32_t
assign_declared(struct kit *k, uint64_t conn, uint64_t request, bool *awaits)
{
    struct kit_answer *a = kit_expect(k, conn, MSG_DECLARED);
    uint32_t var = a->msg.u.declared->var;

    ck_assert_uint_eq(a->msg.request, request);
    if (awaits != NULL)
        *awaits = a->msg.u.declared->awaits;
    kit_answer_free(a);
    return var;
}

const char *
assign_kit_name_there(void)
{
    static char name[2] = "a";

    while (placement_shard(placement_start("train", name, 2), 0, 2) != 1)
        name[0]++;
    return name;
}
