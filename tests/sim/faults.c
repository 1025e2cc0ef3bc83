/* One timer; each time one fault is drawn and done. */
#include "tests/sim/faults.h"

#include <inttypes.h>

#define BURST_US         (100 * SIM_MS)
#define FOLLOW_SALT      0x666f6c6c6f77u
#define FOLLOW_PER_MILLE 250 /* runs in which power loss follows on kills */
#define FOLLOW_TRIPS_MAX 12
#define AT_ONCE_US       (20 * SIM_MS)
#define ADAPTIVE_SPIN_US (5 * SIM_SECOND) /* six of seven records that come at all come sooner */

/* ---- What a level is ---- */

bool
faults_may_lapse(enum sim_faults level)
{
    return level >= FAULTS_CUTS;
}

bool
faults_fail_stores(enum sim_faults level)
{
    return level >= FAULTS_CRASHES;
}

void
faults_net_profile(enum sim_faults level, struct sim *s, struct net_profile *out)
{
    static const uint64_t latency_us[] = {500, 5 * SIM_MS, 40 * SIM_MS, 300 * SIM_MS};

    *out =
        (struct net_profile){.latency_min_us = 50, .latency_max_us = 200, .chunk_max = 2 * MIB, .window_max = 4 * MIB};
    if (level == FAULTS_NONE)
        return;
    out->latency_max_us = latency_us[sim_below(s, ARRAY_LEN(latency_us))];
    out->chunk_max = (size_t)1 << sim_between(s, 9, 20);
    out->window_max = (size_t)1 << sim_between(s, 13, 22);
}

void
faults_shard_profile(enum sim_faults level, struct sim *s, struct node_shard_profile *out)
{
    *out = (struct node_shard_profile){.store_bytes_max = GIB};
    out->turn_events_max = (uint32_t)sim_between(s, 1, 16);
    out->turn_us_max = level == FAULTS_NONE ? 50 : sim_below(s, sim_chance(s, 300) ? 50 * SIM_MS : 3 * SIM_MS);
    out->grace_ms = (uint32_t)sim_between(s, 50, 5000);
    if (!faults_may_lapse(level))
        out->grace_ms = 5000; /* a push that is given up half way takes its connection along */
    out->durable = sim_chance(s, 800);
    out->saver = (struct node_saver_profile){
        .chunk = (size_t)1 << sim_between(s, 12, 22),
        .read_us_max = sim_below(s, sim_chance(s, 300) ? 20 * SIM_MS : SIM_MS),
        .sync_us_max = sim_below(s, sim_chance(s, 300) ? 500 * SIM_MS : 20 * SIM_MS),
        .every_us = sim_chance(s, 800) ? sim_between(s, 20 * SIM_MS, 3 * SIM_SECOND) : 0,
        .passed_at_once = sim_chance(s, 500),
    };
}

void
faults_worker_profile(enum sim_faults level, struct sim *s, struct worker_profile *out)
{
    *out = (struct worker_profile){
        .barriers_end = faults_may_lapse(level),
        .may_lapse = faults_may_lapse(level),
        .store_fails = faults_fail_stores(level),
    };
    out->compute_us_max = sim_below(s, 50 * SIM_MS);
    out->hasty_per_mille = sim_chance(s, 300) ? (uint32_t)sim_below(s, 800) : 0;
    out->pass_per_mille = sim_chance(s, 500) ? (uint32_t)sim_below(s, 1000) : 0;
    out->lease_ms = faults_may_lapse(level) ? (uint32_t)sim_between(s, 500, 20000) : 300000;
    out->cancel_per_mille = sim_chance(s, 500) ? (uint32_t)sim_below(s, 150) : 0;
    out->broken_per_mille = sim_chance(s, 500) ? (uint32_t)sim_below(s, 60) : 0;
    out->durable_per_mille = sim_chance(s, 300) ? 0 : sim_chance(s, 500) ? (uint32_t)sim_below(s, 1000) : 1000;
    out->cursors = sim_chance(s, 500);
}

/* ---- Faults ---- */

/* How long a process is down: some are back at once, in the middle of what the others were doing. */
static uint64_t
draw_down(struct faults *f, uint64_t most_us)
{
    return sim_below(f->sim, sim_chance(f->sim, 400) ? BURST_US : most_us);
}

static struct node_shard *
draw_shard(struct faults *f)
{
    return &f->shards[sim_below(f->sim, f->shards_len)];
}

static struct node_worker *
draw_worker(struct faults *f)
{
    return &f->workers[sim_below(f->sim, f->workers_len)];
}

static void
fault_cut(struct faults *f)
{
    size_t n = net_open_conns(f->net);
    struct sim_net_conn *c;

    if (n == 0)
        return;
    c = net_open_conn(f->net, sim_below(f->sim, n));
    sim_trace(f->sim, "cut connection %" PRIu64, net_conn_number(c));
    net_cut(c);
}

static void
fault_silence(struct faults *f)
{
    unsigned directions = (unsigned)sim_between(f->sim, 1, 3);
    size_t n = net_open_conns(f->net);
    struct sim_net_conn *c;

    if (n == 0)
        return;
    c = net_open_conn(f->net, sim_below(f->sim, n));
    sim_trace(f->sim, "connection %" PRIu64 " falls silent (%u)", net_conn_number(c), directions);
    net_silence(c, directions);
}

/* The shard cannot be reached for a while: open connections are cut, dials are not answered. */
static void
fault_hide(struct faults *f)
{
    struct node_shard *s = draw_shard(f);
    uint64_t for_us = sim_below(f->sim, 8 * SIM_SECOND);

    sim_trace(f->sim, "s%u cannot be reached for %" PRIu64 " ms", s->index, for_us / SIM_MS);
    s->listener.hidden_us = f->sim->now_us + for_us;
    for (int i = 0; i < 3; i++)
        fault_cut(f);
}

static void
fault_hold(struct faults *f)
{
    struct node_worker *w = draw_worker(f);

    node_worker_hold(w, sim_below(f->sim, 2 * (uint64_t)w->profile.lease_ms * SIM_MS));
}

/* Otherwise nothing is ever logged. */
static bool
any_durable(const struct faults *f)
{
    for (uint32_t i = 0; i < f->workers_len; i++)
        if (f->workers[i].profile.durable_per_mille > 0)
            return true;
    return false;
}

/* A process dies after logging records that its disk does not have. The next one starts at once, workers send
 * unanswered messages again, and then the machine's power fails: the disk syncs nothing until then. */
static void
kill_then_power(struct faults *f, struct node_shard *s, enum node_shard_kill when, uint64_t down_us)
{
    struct faults_follow *follow = &f->follow[s->index];
    uint64_t follow_us = sim_mix_below(&f->random, BURST_US + FOLLOW_TRIPS_MAX * f->net->profile.latency_max_us);
    bool waits = s->profile.durable && any_durable(f);

    if (!node_shard_kill(s, waits ? KILL_WHEN_LOGGED : when, LOSS_NONE, down_us % AT_ONCE_US))
        return;
    node_shard_follow(s, &follow->timer, follow_us);
    if (!waits)
        return;
    follow->otherwise = when;
    sim_in(f->sim, &follow->patience, ADAPTIVE_SPIN_US);
}

/* The workers that push durably may have left, or use other shards; and only one kill is planned at a time. */
static void
patience_ends(struct sim_timer *t)
{
    const struct faults_follow *follow = CONTAINER_OF(t, struct faults_follow, patience);

    node_shard_kill_anyway(follow->shard, follow->otherwise);
}

static void
fault_kill(struct faults *f)
{
    struct node_shard *s = draw_shard(f);
    enum node_shard_kill when = (enum node_shard_kill)sim_below(f->sim, KILL_KINDS);
    uint64_t down_us = draw_down(f, 3 * SIM_SECOND);

    if (f->follows && sim_mix_below(&f->random, 4) != 0)
        kill_then_power(f, s, when, down_us);
    else
        node_shard_kill(s, when, LOSS_NONE, f->follows ? down_us % AT_ONCE_US : down_us);
}

/* The others would wait for ever for a worker that has left and is not known to the disk. */
static bool
anybody_forgotten(const struct faults *f, const struct node_shard *s, bool disk)
{
    for (uint32_t i = 0; i < f->workers_len; i++) {
        const struct node_worker *w = &f->workers[i];
        bool leaves = w->phase == WORKER_GONE || w->phase == WORKER_LEAVING;

        if (leaves && (disk || ledger_may_forget(s->ledger, s->index, i)))
            return true;
    }
    return false;
}

/* The machine's power fails, seldom together with its disk. */
static void
fault_power(struct faults *f)
{
    struct node_shard *s = draw_shard(f);
    enum node_shard_kill when = (enum node_shard_kill)sim_below(f->sim, KILL_KINDS);
    enum node_shard_loss loss = sim_chance(f->sim, 150) ? LOSS_ALL : LOSS_LIVE;
    uint64_t down_us = draw_down(f, 3 * SIM_SECOND);

    if (anybody_forgotten(f, s, loss == LOSS_ALL || s->saver.remaking))
        return;
    f->powers += s->profile.durable;
    node_shard_kill(s, when, loss, down_us);
}

static void
fault_disk(struct faults *f)
{
    struct node_shard *s = draw_shard(f);
    uint64_t for_us = sim_below(f->sim, 4 * SIM_SECOND), nth = sim_between(f->sim, 1, 4);

    if (!s->profile.durable)
        return;
    if (sim_chance(f->sim, 500))
        node_saver_fill(&s->saver, for_us);
    else
        node_saver_fail_sync(&s->saver, nth);
}

static void
fault_drain(struct faults *f)
{
    struct node_shard *s = draw_shard(f);

    node_shard_drain(s, draw_down(f, 3 * SIM_SECOND));
}

static void
fault_store(struct faults *f)
{
    struct node_shard *s = draw_shard(f);
    enum store_mem_fail what = (enum store_mem_fail)sim_below(f->sim, STORE_MEM_FAILS);

    node_shard_fail_store(s, what, sim_between(f->sim, 1, 6));
}

static void
fault_crash(struct faults *f)
{
    struct node_worker *w = draw_worker(f);
    bool silent = sim_chance(f->sim, 300);
    bool stays = w->joined_before && f->powers == 0 && f->lost_workers + 1 < f->workers_len && sim_chance(f->sim, 100);

    if (w->core == NULL)
        return; /* all others wait for a worker that never joined, so it comes back */
    f->lost_workers += stays;
    node_worker_crash(w, silent, stays ? UINT64_MAX : draw_down(f, 10 * SIM_SECOND));
}

static void
follow_comes(struct sim_timer *t)
{
    struct faults_follow *follow = CONTAINER_OF(t, struct faults_follow, timer);
    struct faults *f = follow->faults;
    struct node_shard *s = follow->shard;

    if (anybody_forgotten(f, s, s->saver.remaking))
        return;
    f->powers += s->profile.durable;
    node_shard_kill(s, KILL_NOW, LOSS_LIVE, sim_mix_below(&f->random, BURST_US));
}

typedef void (*fault)(struct faults *f);

static const fault cuts[] = {fault_cut, fault_cut, fault_cut, fault_silence, fault_hide, fault_hold};
static const fault crashes[] = {fault_kill,  fault_kill,  fault_kill,  fault_crash, fault_crash, fault_store,
                                fault_drain, fault_power, fault_power, fault_power, fault_disk};

static void
fault_comes(struct sim_timer *t)
{
    struct faults *f = CONTAINER_OF(t, struct faults, timer);
    uint64_t next_us;
    bool crash = f->level == FAULTS_CRASHES || (f->level == FAULTS_ALL && sim_chance(f->sim, 500));

    if (crash)
        crashes[sim_below(f->sim, ARRAY_LEN(crashes))](f);
    else
        cuts[sim_below(f->sim, ARRAY_LEN(cuts))](f);
    f->came++;
    /* Also behind the last: fewer faults change nothing before. Some follow at once, while the effects of the one
     * before are still there. */
    next_us = sim_below(f->sim, sim_chance(f->sim, f->burst_per_mille) ? BURST_US : 2 * f->every_us);
    if (--f->left > 0)
        sim_in(f->sim, t, next_us);
}

void
faults_start(struct faults *f, uint64_t seed)
{
    f->timer.run = fault_comes;
    for (uint32_t i = 0; i < f->shards_len; i++)
        f->follow[i] = (struct faults_follow){
            .timer.run = follow_comes, .patience.run = patience_ends, .faults = f, .shard = &f->shards[i]};
    for (uint32_t i = 0; i < f->shards_len; i++)
        node_rot_init(&f->shards[i].rot, seed, i);
    f->random = seed ^ FOLLOW_SALT;
    f->follows = sim_mix_below(&f->random, 1000) < FOLLOW_PER_MILLE;
    if (f->level < FAULTS_CUTS)
        return;
    f->left = (uint32_t)sim_between(f->sim, 1, 15);
    f->left = f->most != 0 ? MIN(f->most, f->left) : f->left;
    f->every_us = sim_between(f->sim, 20 * SIM_MS, 1500 * SIM_MS);
    f->burst_per_mille = sim_chance(f->sim, 300) ? 500 : 0;
    sim_in(f->sim, &f->timer, sim_below(f->sim, 2 * f->every_us));
}

void
faults_stop(struct faults *f)
{
    sim_cancel(f->sim, &f->timer);
    for (uint32_t i = 0; i < f->shards_len; i++) {
        sim_cancel(f->sim, &f->follow[i].timer);
        sim_cancel(f->sim, &f->follow[i].patience);
    }
}
