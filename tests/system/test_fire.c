/* Shards under constant kills: real shards, real workers under psrun and under full load, and kill -9 of any of them at
 * any moment. After every kill an observer pulls and compares the values with the workers' ledgers; at the end of a
 * round, when all is quiet, every block must hold each acknowledged push once and each of unknown outcome at most once.
 *
 * PSD_TEST_KILLS says how many kills (200), PSD_TEST_SEED where and when. A round has KILLS_A_ROUND of them, in a new
 * cluster: on tmpfs or on disk, over TCP or Unix sockets. */
#include "common/core/base/base.h"
#include "tests/system/fire_jobs.h"

enum { SHARDS = 2, KILLS = 200, KILLS_A_ROUND = 25, APART_MS = 200 };

enum kill_kind { KILL_SHARD, KILL_SHARDS, KILL_WORKER, KILL_PSRUN, KILL_KINDS };
static const char *const kill_names[KILL_KINDS] = {"one shard", "all shards at once", "a worker", "a psrun"};

static struct test_rng rng;
static struct shards shards;
static struct fire fire;
static uint32_t kills[KILL_KINDS];

static void
kill_shards(enum kill_kind kind)
{
    uint32_t first = (uint32_t)test_below(&fire.rng, SHARDS);

    shards_kill(&shards, first);
    if (kind == KILL_SHARDS)
        shards_kill(&shards, 1 - first);
    shards_restart(&shards, first);
    if (kind == KILL_SHARDS)
        shards_restart(&shards, 1 - first);
}

static void
kill_one(void)
{
    static const enum kill_kind kinds[] = {KILL_SHARD,  KILL_SHARD,  KILL_SHARD,  KILL_SHARD,  KILL_SHARDS,
                                           KILL_WORKER, KILL_WORKER, KILL_WORKER, KILL_WORKER, KILL_PSRUN};
    enum kill_kind kind = kinds[test_below(&fire.rng, ARRAY_LEN(kinds))];

    kills[kind]++;
    if (kind == KILL_WORKER)
        fire_kill_worker(&fire, fire_any(&fire));
    else if (kind == KILL_PSRUN)
        fire_kill_psrun(&fire, fire_any(&fire));
    else
        kill_shards(kind);
}

static void
kill_at_random(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fire_pause_ms(test_below(&fire.rng, APART_MS));
        kill_one();
        fire_look(&fire);
        if (i % 5 == 0)
            fire_await_pushes(fire_any(&fire));
    }
}

static void
play_round(uint32_t number, uint32_t n)
{
    const char *tmp = getenv("TMPDIR");
    bool on_disk = number % 4 == 3, over_unix = number % 2 == 1;
    struct shards_options options = {.where = on_disk ? (tmp != NULL ? tmp : "/tmp") : NULL,
                                     .more = fire_shard_options};

    shards_start_with(&shards, SHARDS, &options);
    fire =
        (struct fire){.shards = &shards, .ps = over_unix ? shards.sockets : shards.addresses, .rng = {test_rand(&rng)}};
    fire_start(&fire);
    kill_at_random(n);
    fire_end(&fire);
    shards_stop(&shards);
    fprintf(stderr, "# round %u on %s over %s: %u kills, %llu pushes, %llu lives of %d workers\n", number,
            on_disk ? "disk" : "tmpfs", over_unix ? "Unix sockets" : "TCP", n, (unsigned long long)fire.pushes,
            (unsigned long long)fire.lives, FIRE_JOBS * FIRE_WORKERS);
}

START_TEST(what_was_acknowledged_is_there_once_whatever_was_killed)
{
    rng.state = test_seed();
    fire_rounds(fire_times("PSD_TEST_KILLS", KILLS), KILLS_A_ROUND, play_round);
    for (int i = 0; i < KILL_KINDS; i++)
        fprintf(stderr, "# killed %u times: %s\n", kills[i], kill_names[i]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("fire");
    TCase *tc = tcase_create("fire");

    /* some 0.3 s for a kill; sanitizers and busy machines are slow */
    tcase_set_timeout(tc, 300 + 2 * fire_times("PSD_TEST_KILLS", 0));
    tcase_add_test(tc, what_was_acknowledged_is_there_once_whatever_was_killed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
