/* Bad networks: workers reach their shards through a proxy that delays, cuts, resets, throttles and chops what passes,
 * and the ledgers of what was acknowledged must still agree with the blocks, as in test_fire. Where this user may
 * create a network namespace, the kernel's own netem does the same to loopback: delay, reordering, loss, partitions.
 *
 * PSD_TEST_FAULTS says how many faults (48), PSD_TEST_SEED which. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/system/fire_jobs.h"
#include "tests/system/proxy.h"
#include "tests/user_namespace.h"

enum { SHARDS = 2, FAULTS = 48, FAULT_MS = 300 };

static struct shards shards;
static struct proxy proxy;
static struct fire fire;

static void
network_set(_Atomic uint32_t *fault, uint32_t value)
{
    atomic_store(fault, value);
}

/* ---- Through the proxy ---- */

static void
network_delay(struct proxy_faults *f)
{
    network_set(&f->delay_ms, 20);
    network_set(&f->jitter_ms, 20);
}

static void
network_throttle(struct proxy_faults *f)
{
    network_set(&f->bytes_per_ms, 500);
}

static void
network_chop(struct proxy_faults *f)
{
    network_set(&f->bytewise, 1);
}

static void
cut_both(struct proxy_faults *f)
{
    network_set(&f->cut[TO_SHARD], 1);
    network_set(&f->cut[TO_WORKER], 1);
}

/* The shard receives and its answers are lost; or it receives nothing. */
static void
cut_answers(struct proxy_faults *f)
{
    network_set(&f->cut[TO_WORKER], 1);
}

static void
cut_questions(struct proxy_faults *f)
{
    network_set(&f->cut[TO_SHARD], 1);
}

/* The bytes that were cut off never arrive. */
static void
cut_and_reset(struct proxy_faults *f)
{
    network_set(&f->cut[TO_WORKER], 1);
    fire_pause_ms(100);
    proxy_reset(&proxy);
}

static void
network_reset(struct proxy_faults *f)
{
    (void)f;
    proxy_reset(&proxy);
}

static void
half_open(struct proxy_faults *f)
{
    (void)f;
    proxy_half_open(&proxy);
}

/* Connections are lost, and new ones lead nowhere. */
static void
network_deaf(struct proxy_faults *f)
{
    network_set(&f->deaf, 1);
    proxy_reset(&proxy);
}

static const struct fault {
    const char *name;
    void (*begin)(struct proxy_faults *f);
    bool ends_with_reset; /* otherwise the worker never learns of it */
} faults[] = {
    {"delay", network_delay, false},
    {"throttling", network_throttle, false},
    {"bytewise delivery", network_chop, false},
    {"a partition", cut_both, false},
    {"answers cut off", cut_answers, false},
    {"questions cut off", cut_questions, false},
    {"answers lost", cut_and_reset, false},
    {"resets", network_reset, false},
    {"half-open connections", half_open, true},
    {"connections that lead nowhere", network_deaf, true},
};

static void
network_play(const struct fault *fault)
{
    fault->begin(proxy.faults);
    fire_pause_ms(test_below(&fire.rng, FAULT_MS));
    if (test_below(&fire.rng, 4) == 0) { /* a crash in the midst of it */
        uint32_t shard = (uint32_t)test_below(&fire.rng, SHARDS);

        shards_kill(&shards, shard);
        shards_restart(&shards, shard);
    }
    fire_look(&fire);
    proxy_heal(&proxy);
    if (fault->ends_with_reset)
        proxy_reset(&proxy);
    fire_await_pushes(fire_any(&fire));
    fire_look(&fire);
}

static void
network_start(bool through_proxy, uint64_t seed)
{
    shards_start_with(&shards, SHARDS, &(struct shards_options){.more = fire_shard_options});
    if (through_proxy)
        proxy_start(&proxy, &shards);
    fire = (struct fire){.shards = &shards, .ps = through_proxy ? proxy.addresses : shards.addresses, .rng = {seed}};
    fire_start(&fire);
}

START_TEST(what_was_acknowledged_is_there_once_whatever_the_network_did)
{
    uint32_t n = fire_times("PSD_TEST_FAULTS", FAULTS);
    uint32_t played[ARRAY_LEN(faults)] = {0};

    network_start(true, test_seed());
    for (uint32_t i = 0; i < n; i++) {
        size_t which = i < ARRAY_LEN(faults) ? i : (size_t)test_below(&fire.rng, ARRAY_LEN(faults));

        played[which]++;
        network_play(&faults[which]);
    }
    fire_end(&fire);
    fprintf(stderr, "# %llu pushes, %llu connections, %llu chunks\n", (unsigned long long)fire.pushes,
            (unsigned long long)atomic_load(&proxy.faults->connections),
            (unsigned long long)atomic_load(&proxy.faults->chunks));
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        fprintf(stderr, "# %u times %s\n", played[i], faults[i].name);
    proxy_stop(&proxy);
    shards_stop(&shards);
}
END_TEST

/* ---- The kernel's own faults, in a namespace ---- */

static bool
network_command(const char *what)
{
    char line[256];

    snprintf(line, sizeof line, "%s >/dev/null 2>&1", what);
    return system(line) == 0;
}

/* A network of the test's own, which it may configure; false when this user may not create one. */
static bool
enter_namespace(void)
{
    return user_namespace_enter(CLONE_NEWNET) && network_command("ip link set lo up");
}

/* The namespace's loopback, made bad and good again. */
static const struct quality {
    const char *name, *bad, *good;
} qualities[] = {
    {"a partition", "ip link set lo down", "ip link set lo up"},
    {"a slow link", "tc qdisc add dev lo root tbf rate 100mbit burst 128k latency 20ms", "tc qdisc del dev lo root"},
#define NETEM(what)                                                                                                    \
    {                                                                                                                  \
        what, "tc qdisc add dev lo root netem " what, "tc qdisc del dev lo root"                                       \
    }
    NETEM("delay 5ms 5ms 25%"),
    NETEM("loss 3%"),
    NETEM("delay 10ms reorder 25% 50%"),
    NETEM("duplicate 5%"),
    NETEM("corrupt 1%"),
#undef NETEM
};

START_TEST(what_was_acknowledged_is_there_once_whatever_the_kernel_did)
{
    if (!enter_namespace()) {
        fprintf(stderr, "# skipped: no network namespace here\n");
        return;
    }
    network_start(false, test_seed());
    for (size_t i = 0; i < ARRAY_LEN(qualities); i++) {
        if (!network_command(qualities[i].bad)) {
            fprintf(stderr, "# skipped: %s: this kernel has none\n", qualities[i].name);
            continue;
        }
        fire_pause_ms(500);
        ck_assert_msg(network_command(qualities[i].good), "%s", qualities[i].good);
        fire_await_pushes(fire_any(&fire));
        fire_look(&fire);
    }
    fire_end(&fire);
    fprintf(stderr, "# %llu pushes\n", (unsigned long long)fire.pushes);
    shards_stop(&shards);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network");
    TCase *tc = tcase_create("network");

    tcase_set_timeout(tc, 300 + 2 * fire_times("PSD_TEST_FAULTS", 0));
    tcase_add_test(tc, what_was_acknowledged_is_there_once_whatever_the_network_did);
    tcase_add_test(tc, what_was_acknowledged_is_there_once_whatever_the_kernel_did);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
