/* Ledgers and power loss: shards with durable directories are killed with signal 9, their memory is removed, and they
 * start again from the disk. Pushes that were acknowledged as durable must be there, once; of those acknowledged as
 * applied, the number missing must be the number reported to the workers. Saves run all the while.
 *
 * PSD_TEST_LOSSES says how many times (24), PSD_TEST_SEED where and when. */
#include "common/core/base/base.h"
#include "tests/system/fire_jobs.h"

enum { SHARDS = 2, LOSSES = 24, LOSSES_A_ROUND = 12, APART_MS = 400 };

static struct test_rng rng;
static struct shards shards;
static struct fire fire;

/* A power loss, or only a crash, of one shard or of both. */
static void
power_lose(void)
{
    uint32_t first = (uint32_t)test_below(&fire.rng, SHARDS), n = test_below(&fire.rng, 4) == 0 ? SHARDS : 1;
    bool crash = test_below(&fire.rng, 4) == 0;

    for (uint32_t i = 0; i < n; i++)
        if (crash)
            shards_kill(&shards, (first + i) % SHARDS);
        else
            shards_lose_power(&shards, (first + i) % SHARDS);
    for (uint32_t i = 0; i < n; i++)
        shards_restart(&shards, (first + i) % SHARDS);
}

static void
play_round(uint32_t number, uint32_t n)
{
    static const char *const more[] = {"--grace", "10m", "--save-interval", "300ms", "--save-pause", "10ms", NULL};
    const char *tmp = getenv("TMPDIR");
    bool on_disk = number % 2 == 1;
    struct shards_options options = {
        .where = on_disk ? (tmp != NULL ? tmp : "/tmp") : NULL, .more = more, .durable = true};

    shards_start_with(&shards, SHARDS, &options);
    fire = (struct fire){.shards = &shards, .ps = shards.addresses, .durable = true, .rng = {test_rand(&rng)}};
    fire_start(&fire);
    for (uint32_t i = 0; i < n; i++) {
        fire_pause_ms(test_below(&fire.rng, APART_MS));
        power_lose();
        fire_look(&fire);
        fire_await_pushes(fire_any(&fire));
    }
    fire_end(&fire);
    shards_stop(&shards);
    fprintf(stderr, "# round %u on %s: %u losses, %llu pushes, %llu rolled back and told so\n", number,
            on_disk ? "disk" : "tmpfs", n, (unsigned long long)fire.pushes, (unsigned long long)fire.rolled_back);
}

START_TEST(what_is_durable_is_there_after_power_loss_and_what_is_not_is_told)
{
    rng.state = test_seed();
    fire_rounds(fire_times("PSD_TEST_LOSSES", LOSSES), LOSSES_A_ROUND, play_round);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("power");
    TCase *tc = tcase_create("power");

    tcase_set_timeout(tc, 300 + 5 * fire_times("PSD_TEST_LOSSES", 0));
    tcase_add_test(tc, what_is_durable_is_there_after_power_loss_and_what_is_not_is_told);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
