/* Whole histories of a shard: an input is a script of what connections send, of connections that are lost, of time, of
 * commits that fail, of kill -9, of saves and of power loss, turn by turn. shard_world.h says what is checked after
 * every turn.
 *
 * The first bytes choose the shard (its size, which of how many it is), then each step is a byte and its own choices.
 * Most of what is sent makes sense: the next sequence number, a block that exists, a payload of its length. Some does
 * not, and one step in thirty is a frame of bytes. */
#include "tests/fuzz/shard_script.h"

#define STEPS_MAX 600

static void
open_conn(struct shard_script *s)
{
    world_open(&s->world, script_conn(s));
}

static void
fuzz_shard_lose(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);

    if (c->id != 0)
        world_lose(&s->world, c);
}

static void
fuzz_shard_broken(struct shard_script *s)
{
    struct world_conn *c = script_conn(s);
    struct ps_error e;

    if (c->id == 0)
        return;
    ps_fail(&e, PS_ERR_PROTOCOL, "these bytes are no frame");
    world_event(&s->world, &(struct shard_event){.kind = SHARD_BROKEN, .conn = c->id, .error = &e});
}

static void
fuzz_shard_pass(struct shard_script *s)
{
    static const uint64_t ms[] = {1, 50, 2500, 6000, 301000};

    world_pass(&s->world, ms[bytes_below(&s->in, ARRAY_LEN(ms))]);
}

static void
fuzz_shard_work(struct shard_script *s)
{
    if (bytes_below(&s->in, 4) == 0)
        world_event(&s->world, &(struct shard_event){.kind = SHARD_WORK});
    else
        world_work(&s->world);
}

static void
fail_soon(struct shard_script *s)
{
    uint8_t how = bytes_one(&s->in);

    store_mem_fail_at(s->world.store, (enum store_mem_fail)(how % STORE_MEM_FAILS), 1 + how / 16);
}

static void
fuzz_shard_crash(struct shard_script *s)
{
    world_crash(&s->world);
}

/* An operator ends a worker, a job or the shard; or a worker says what it trains, or gives values. */
static void
end_something(struct shard_script *s)
{
    Psd__Drain m = PSD__DRAIN__INIT;
    uint8_t how = bytes_one(&s->in);

    if (how < 40)
        script_drop(s);
    else if (how < 64)
        script_assign(s);
    else if (how >= 64 && how < 128)
        script_define(s);
    if (how < 128)
        return;
    if (how < 200) /* a drain is seldom: little happens after it */
        script_evict(s);
    else if (how % 2 == 0)
        script_send(s, script_conn(s), (struct world_frame){.type = MSG_DRAIN}, &m.base);
    else
        world_event(&s->world, &(struct shard_event){.kind = SHARD_DRAIN});
}

static void
fuzz_shard_late(struct shard_script *s)
{
    s->world.late_data = !s->world.late_data;
    world_deliver(&s->world);
}

static void
fuzz_shard_grace(struct shard_script *s)
{
    shard_set_grace(s->world.shard, 1000 * bytes_below(&s->in, 10));
    world_event(&s->world, &(struct shard_event){.kind = SHARD_TIME});
}

/* Its saver works, or its power fails. */
static void
fuzz_shard_disk(struct shard_script *s)
{
    uint8_t how = bytes_one(&s->in);

    if (how >= 232)
        world_power(&s->world);
    else
        disk_step(&s->world, how);
}

static void
end_turn(struct shard_script *s)
{
    world_turn(&s->world);
}

static void (*const steps[])(struct shard_script *) = {
    script_push,       script_push,    script_pull,      script_pull,      script_hello,    script_declare,
    script_tick,       script_meet,    fuzz_shard_work,  script_skip,      script_barrier,  end_turn,
    fuzz_shard_lose,   script_cancel,  open_conn,        script_set,       script_query,    script_ping,
    fuzz_shard_pass,   script_observe, fail_soon,        fuzz_shard_crash, fuzz_shard_late, script_goodbye,
    fuzz_shard_broken, end_something,  script_raw_frame, fuzz_shard_grace, script_attach,   script_round,
    fuzz_shard_disk,   script_save,
};

/* A step's upper half says whether the turn goes on after it. */
static void
fuzz_shard_step(struct shard_script *s)
{
    uint8_t byte = bytes_one(&s->in);

    steps[byte % ARRAY_LEN(steps)](s);
    if (byte < 128)
        world_turn(&s->world);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[] = {64 * MIB, 3 * MIB, 1200 * KIB};
    struct shard_script s = {.in = {data, size}};
    struct shard_config config = {.cluster = "fuzz", .boot = 7, .version = "0", .live_dir = "/live"};
    uint8_t how = bytes_one(&s.in);

    config.shards = how & 1 ? 2 : 1;
    config.shard = how & 2 ? config.shards - 1 : 0;
    config.connections_max = how & 4 ? 4 : 0;
    config.observer_ms = how & 4 ? 1000 : 0;
    config.gather_bytes_max = how & 8 ? 64 * KIB : 0;
    config.save_looks = how & 16 ? 1 : 0;
    world_start(&s.world, &config, sizes[how / 16 % ARRAY_LEN(sizes)], how >= 64);
    for (int i = 0; i < STEPS_MAX && s.in.left > 0; i++)
        fuzz_shard_step(&s);
    world_end(&s.world);
    return 0;
}
