/* The simulator as a test: some seeds for every mode and level of faults, the same seed twice, lies that the ledger
 * must find, and how its connections end. PSD_TEST_SEED moves the seeds; `sim` itself runs as many as one likes. */
#include "tests/unit/kits/check_main.h"

#include <string.h>

#include "tests/sim/net.h"
#include "tests/sim/run.h"

#define SEEDS     8
#define LIE_SEEDS 60 /* at most */

static const char *const mode_names[] = {"async", "ssp", "sync"};
static const char *const fault_names[] = {"none", "delays", "cuts", "crashes", "all"};

/* One case for each pair of mode and faults. */
START_TEST(nothing_is_lost_doubled_or_torn)
{
    struct run_options o = {.mode = (enum run_mode)(_i / FAULTS_LEVELS),
                            .faults = (enum sim_faults)(_i % FAULTS_LEVELS)};
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < SEEDS; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        ck_assert_msg(!report.failed, "sim --seed %" PRIu64 " --mode %s --faults %s --trace: %s", o.seed,
                      mode_names[o.mode], fault_names[o.faults], report.failure);
        ck_assert_uint_gt(report.ledger.pulls, 0);
        ck_assert_uint_gt(report.observed, 0);
    }
}
END_TEST

/* Seeds that have found something. (What a seed means changes when the simulator draws otherwise: each defect has a
 * unit test, too.) */
static const struct run_options found[] = {
    /* a disk error while blocks are made: the worker's re-declare, and the observer's attach, failed for good */
    {.seed = 720009, .mode = RUN_SSP, .faults = FAULTS_ALL},
    {.seed = 1001578, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* a session ahead of its worker was lost: the worker's next ticks were refused */
    {.seed = 33, .mode = RUN_ASYNC, .faults = FAULTS_CRASHES},
    /* operations that a worker started after that came behind a tick past them */
    {.seed = 4269, .mode = RUN_MIXED, .faults = FAULTS_ALL},
    /* two workers each had an answer of a step that a restore undid, and waited for each other in another part */
    {.seed = 1795306478105, .mode = RUN_SYNC, .faults = FAULTS_CRASHES},
    /* a lapse failed a gate, and the push behind it came too early */
    {.seed = 1795306814950, .mode = RUN_SYNC, .faults = FAULTS_CRASHES},
    /* a push of a worker's earlier life stood for its next one's push, which was of other data */
    {.seed = 1795307989233, .mode = RUN_SYNC, .faults = FAULTS_CUTS},
    /* k of n: a worker that joined at a later step is not waited for in this one; the ledger did not know */
    {.seed = 1795307092109, .mode = RUN_SYNC, .faults = FAULTS_DELAYS},
    /* a goodbye was lost: its worker rejoins the round that it ended, and meets no others, which is correct */
    {.seed = 1795309543443, .mode = RUN_SYNC, .faults = FAULTS_CUTS},
    /* a full disk refused two workers different parts of a step, and each waited for the other's: a defect of the
     * script */
    {.seed = 1795309543410, .mode = RUN_SYNC, .faults = FAULTS_CRASHES},
    /* two steps' pushes, sent under the clock of a session ahead of the worker, were one to the simulator; one of them
     * was lost */
    {.seed = 1795309545055, .mode = RUN_ASYNC, .faults = FAULTS_ALL},
    /* a disk failed between a power loss' planning and its strike, and with it the record of a worker that had left for
     * good: a defect of the simulator */
    {.seed = 501980, .mode = RUN_MIXED, .faults = FAULTS_CRASHES},
    /* a block of one weight had the bits of an older version again, and a restore came before the pull was over: a
     * defect of the ledger */
    {.seed = 1795776072627, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* a worker that was taken along into a new round had its old place in the data there, and new metrics */
    {.seed = 30004388, .mode = RUN_MIXED, .faults = FAULTS_ALL},
    /* a push that was counted unseen, under an assign, was made again: a defect of the ledger */
    {.seed = 526, .mode = RUN_SSP, .faults = FAULTS_ALL},
    /* its version of before a power loss was taken for one of after it: a defect of the ledger */
    {.seed = 2928, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* a step that a block has again after two power losses had its schedule begin anew: a defect of the ledger */
    {.seed = 6702, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* values of an assign waited behind a push that waited for another worker, and that for the assign */
    {.seed = 60005819, .mode = RUN_MIXED, .faults = FAULTS_ALL},
    /* an assign was done, and begun once more when a shard had lost data */
    {.seed = 60000146, .mode = RUN_MIXED, .faults = FAULTS_ALL},
    /* shard 0 had lost its disk, and values were of an earlier clock than those that waited on another shard */
    {.seed = 62002005, .mode = RUN_MIXED, .faults = FAULTS_ALL},
    /* shard 0 had lost its power, and knew of an assign that it was done, but of the one before no more */
    {.seed = 71000151, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* an attempt at an assign that had been begun anew was given up, and the first one stayed */
    {.seed = 91002703, .mode = RUN_SSP, .faults = FAULTS_ALL},
    /* values that were over stayed as saves followed one another, and no assign could begin */
    {.seed = 111002218, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* a part of a push was counted under an assign, and another part was kept: a defect of the ledger */
    {.seed = 121001697, .mode = RUN_SYNC, .faults = FAULTS_ALL},
    /* blocks waited for gradients of data that they had counted */
    {.seed = 90001902, .mode = RUN_MIXED, .faults = FAULTS_ALL},
};

START_TEST(what_was_found_once_stays_mended)
{
    struct run_report report;

    run_one(&found[_i], &report);
    ck_assert_msg(!report.failed, "sim --seed %" PRIu64 " --mode %s --faults %s --trace: %s", found[_i].seed,
                  mode_names[found[_i].mode], fault_names[found[_i].faults], report.failure);
}
END_TEST

/* The runs above do contain faults. */
START_TEST(faults_do_happen)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_ALL};
    uint64_t first = test_seed(), kills = 0, crashes = 0, rejoins = 0, failed_commits = 0, sets = 0, powers = 0,
             saves = 0, lost = 0, restores = 0, flips = 0, refused = 0, mended = 0;

    for (uint64_t i = 0; i < 2 * SEEDS; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        kills += report.kills;
        crashes += report.crashes;
        rejoins += report.rejoins;
        failed_commits += report.failed_commits;
        sets += report.ledger.sets;
        powers += report.power_losses;
        saves += report.ledger.saves;
        lost += report.ledger.lost;
        restores += report.ledger.restores;
        flips += report.flips;
        refused += report.refused;
        mended += report.mended;
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(mended, 0);
    ck_assert_uint_gt(flips, refused + mended); /* some lie where nothing is read */
    ck_assert_uint_gt(restores, 0);
    ck_assert_uint_gt(powers, 0);
    ck_assert_uint_gt(saves, 0);
    ck_assert_uint_gt(lost, 0);
    ck_assert_uint_gt(sets, 0);
    ck_assert_uint_gt(kills, 0);
    ck_assert_uint_gt(crashes, 0);
    ck_assert_uint_gt(rejoins, 0);
    ck_assert_uint_gt(failed_commits, 0);
}
END_TEST

START_TEST(some_are_evicted_and_come_again)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_ALL, .seed = test_seed()};
    uint64_t evictions = 0, fenced = 0;

    for (uint64_t left = 1000; left > 0 && (evictions == 0 || fenced == 0); left--, o.seed++) {
        struct run_report report;

        run_one(&o, &report);
        evictions += report.ledger.evictions;
        fenced += report.ledger.fenced;
    }
    ck_assert_uint_gt(evictions, 0);
    ck_assert_uint_gt(fenced, 0);
}
END_TEST

START_TEST(same_seed_is_the_same_run)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_ALL};
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < SEEDS; i++) {
        struct run_report once, twice;

        o.seed = first + i;
        run_one(&o, &once);
        run_one(&o, &twice);
        ck_assert_uint_eq(once.hash, twice.hash);
        ck_assert_uint_eq(once.lines, twice.lines);
    }
}
END_TEST

START_TEST(other_seed_is_another_run)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_DELAYS, .seed = test_seed()};
    struct run_report one, other;

    run_one(&o, &one);
    o.seed++;
    run_one(&o, &other);
    ck_assert_uint_ne(one.hash, other.hash);
}
END_TEST

/* ---- Lies ---- */

struct sim_lie_case {
    enum sim_lie lie;
    enum run_mode mode;
    const char *found; /* in the failure's sentence */
};

static const struct sim_lie_case lies[] = {
    {LIE_FORGED_ACK, RUN_ASYNC, "a gradient with NaN was accepted"},
    {LIE_TORN_PULL, RUN_ASYNC, "pulled"},
    {LIE_TORN_PULL, RUN_SYNC, "torn block"},
    {LIE_STALE_PULL, RUN_SSP, "older than version"},
    {LIE_APPLY_TWICE, RUN_ASYNC, "2 times"},
    {LIE_APPLY_TWICE, RUN_SYNC, "in one commit"},
    {LIE_LOST_UPDATE, RUN_SSP, "went back"},
    {LIE_AHEAD, RUN_SSP, "lacks push"},
    {LIE_OTHER_RATE, RUN_SYNC, "has v0 at"},
    {LIE_OTHER_NORM, RUN_SYNC, "is the mean of no set of gradients"},
};

START_TEST(lie_is_found)
{
    const struct sim_lie_case *c = &lies[_i];
    struct run_options o = {
        .mode = c->mode, .faults = FAULTS_DELAYS, .workers = 3, .shards = 1, .steps = 20, .lie = c->lie};
    uint64_t first = test_seed();
    bool found = false;

    /* A run may have no occasion for the lie (a block of one element cannot be torn), or another rule notices it first.
     */
    for (uint64_t i = 0; i < LIE_SEEDS && !found; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        found = report.failed && strstr(report.failure, c->found) != NULL;
    }
    ck_assert_msg(found, "lie %d was believed", (int)c->lie);
}
END_TEST

/* ---- How connections end ---- */

#define END_SOON_US (10 * SIM_SECOND) /* before TCP gives up */

/* One connection and the calls that its two ends received. */
struct sim_link {
    struct sim sim;
    struct sim_net net;
    struct net_listener listener;
    struct net_end *dialled, *accepted;
    unsigned opened, closed, gone;
};

static void
link_opened(struct net_end *e)
{
    ((struct sim_link *)e->arg)->opened++;
}

static void
link_bytes(struct net_end *e, const uint8_t *data, size_t n)
{
    (void)e;
    (void)data;
    (void)n;
}

static void
link_closed(struct net_end *e, enum ps_err why, const char *text)
{
    (void)why;
    (void)text;
    ((struct sim_link *)e->arg)->closed++;
}

static void
link_gone(struct net_end *e)
{
    ((struct sim_link *)e->arg)->gone++;
}

static const struct net_user link_user = {
    .opened = link_opened, .bytes = link_bytes, .closed = link_closed, .gone = link_gone};

static void
link_accept(struct net_listener *listener, struct net_end *e)
{
    struct sim_link *l = CONTAINER_OF(listener, struct sim_link, listener);

    l->accepted = e;
    e->user = &link_user;
    e->arg = l;
}

/* Dial, and pass time until the listener has accepted: the dialler does not know yet. */
static void
link_init(struct sim_link *l)
{
    static const struct net_profile profile = {
        .latency_min_us = 1000, .latency_max_us = 2000, .chunk_max = 1000, .window_max = 4000};

    *l = (struct sim_link){.listener = {.up = true, .accept = link_accept}};
    sim_init(&l->sim, test_seed(), false);
    net_init(&l->net, &l->sim, &profile);
    l->dialled = net_dial(&l->net, &l->listener, &link_user, l);
    while (l->accepted == NULL && sim_step(&l->sim)) {
    }
    ck_assert_ptr_nonnull(l->accepted);
    ck_assert_uint_eq(l->opened, 0);
}

static void
link_pass(struct sim_link *l, uint64_t us)
{
    uint64_t until_us = l->sim.now_us + us;

    while (l->sim.queue_len > 0 && l->sim.queue[0]->at_us <= until_us && sim_step(&l->sim)) {
    }
}

static void
link_finish(struct sim_link *l)
{
    net_finish(&l->net);
    sim_finish(&l->sim);
}

static void
frame_done(struct sim_net_out *out, enum ps_err result)
{
    (void)out;
    ck_assert_int_eq(result, PS_ERR_CLOSED);
}

START_TEST(silence_does_not_prolong_lingering)
{
    static const uint8_t bytes[100000];
    struct sim_net_out frame = {.head = bytes, .head_len = sizeof bytes, .done = frame_done};
    struct sim_link l;

    link_init(&l);
    link_pass(&l, SIM_SECOND);
    ck_assert_uint_eq(l.opened, 1);
    net_silence(l.accepted->conn, 3);
    net_send(l.accepted, &frame); /* does not fit into the window */
    net_finish_end(l.accepted);
    net_silence(l.accepted->conn, 3);
    link_pass(&l, END_SOON_US);
    ck_assert_uint_eq(l.gone, 1);
    link_finish(&l);
}
END_TEST

START_TEST(dialler_that_closes_before_it_hears_is_missed)
{
    struct sim_link l;

    link_init(&l);
    net_close(l.dialled);
    link_pass(&l, END_SOON_US);
    ck_assert_uint_eq(l.opened, 0);
    ck_assert_uint_eq(l.closed, 1); /* the listener's end */
    ck_assert_uint_eq(l.gone, 2);
    link_finish(&l);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("sim");
    TCase *tc = tcase_create("seeds");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, nothing_is_lost_doubled_or_torn, 0, RUN_MIXED * FAULTS_LEVELS);
    tcase_add_loop_test(tc, what_was_found_once_stays_mended, 0, (int)ARRAY_LEN(found));
    tcase_add_test(tc, faults_do_happen);
    tcase_add_test(tc, some_are_evicted_and_come_again);
    tcase_add_test(tc, same_seed_is_the_same_run);
    tcase_add_test(tc, other_seed_is_another_run);
    suite_add_tcase(suite, tc);
    tc = tcase_create("lies");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, lie_is_found, 0, (int)ARRAY_LEN(lies));
    suite_add_tcase(suite, tc);
    tc = tcase_create("network");
    tcase_add_test(tc, silence_does_not_prolong_lingering);
    tcase_add_test(tc, dialler_that_closes_before_it_hears_is_missed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
