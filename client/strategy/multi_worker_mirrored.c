/* multi_worker_mirrored: every worker has a copy of the variables for each of its replicas, and all make the same
 * update of the same sum of gradients, which they all-reduce (ps_group.h) while it is computed (ps_reducer.h).
 *
 *     open:   meet the other workers
 *
 *     start:  agree: the same variables and options everywhere; whoever is behind, or new, is given variables, slots
 * and step by the lowest rank that is furthest
 *
 *     step:   compute; buckets of gradients go as they become ready; behind them goes a note: metrics, and what is to
 * be known of this step on every rank. When all of it has come: update every copy, the step is completed
 *
 * A step is completed whole or not at all: nothing is changed before everything has come. So when a worker is lost in
 * the middle, the others are at its beginning or at its end, each with the state that belongs to that. They meet again,
 * without the one that was lost or with its replacement, agree as at the start, and go on from the highest step that
 * one of them has completed; nobody starts anew, and every row still counts once in the epoch, since a step that was
 * not completed is dealt out again, whole, among those who are there.
 *
 * Where gradients travel compressed, what their encodings leave out follows the same rule: it changes with the steps
 * that were completed. A worker that was lost on the way from a step's end to its beginning learns when all agree
 * whether the step has counted with its gradient in it: somebody has completed it, in the same forming of the group.
 *
 * To go on without a worker, all the others must come; should more be lost, each time-out lets one more be missing. A
 * group that lacks workers looks now and then whether one has come back (ps_group_admit()). Where that comes to
 * nothing, because nobody is there or the place to meet is away, the group goes on as it is, and looks again later. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/ps_group.h"
#include "client/ps_reducer.h"
#include "client/strategy/strategy.h"
#include "common/placement.h"

#define SETTLE_MS     250   /* for a replacement to come along, once the survivors are there */
#define LOOK_FIRST_MS 2000  /* after a worker was lost: when it is first looked for again; then twice as long ... */
#define LOOK_LAST_MS  32000 /* ... up to this, but no more than a part of the time is spent on looking: */
#define LOOK_PART     8
#define LOOK_MEET_MS  10000 /* for one look, and no more than half of an exchange's time: others wait for it in one */
#define FORM_TRIES    4     /* of forming a group whose members are lost while they connect */

/* What goes behind the gradients: the sum over all ranks. */
enum note { NOTE_ROWS, NOTE_STEP, NOTE_FAILED, NOTE_LOOK, NOTE_METRICS };
#define NOTE_MAX (NOTE_METRICS + PS_STRATEGY_METRICS_MAX)

struct all_reduced {
    ps_group *group;
    ps_reducer *reducer;
    bool *ready; /* [vars]: said in this step */
    bool stepping;
    double note[NOTE_MAX];
    uint32_t all;        /* workers of the cluster */
    double look_at_ms;   /* for workers that are missing */
    double look_wait_ms; /* until then */
    int timeout_ms;      /* of the group */
    bool agreed;         /* once: it is no newcomer any more */
    uint32_t fitting;    /* workers that go on without those that were started otherwise; 0: there are none of these */
    bool tried;          /* step s->next: gradients were exchanged, and whether that counts is not known; */
    uint64_t epoch;      /* in this forming of the group */
    uint64_t done_epoch; /* the same of the last step that was completed */
    bool torn;           /* the variables of step torn_at were being given to this worker, and not all have come */
    int64_t torn_at;
};

static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- Agreeing ---- */

/* What each rank says of itself. */
struct standing {
    int64_t next; /* step; or one of: */
    int64_t replicas;
    int64_t definition; /* a hash of all that must be the same */
    int64_t epoch;      /* of the group in which it has completed the step before */
};
#define STANDING_NEW   (-1) /* it has just come */
#define STANDING_TORN  (-2) /* it has some variables of a later step than the first, and not all of them */
#define STANDING_WORDS (sizeof(struct standing) / sizeof(int64_t))

static uint64_t
hash_bytes(const void *data, size_t len, uint64_t before)
{
    return placement_hash(data, len, before);
}

/* Variables in their order, how batches are cut, and what gradients travel as. */
static int64_t
definition_of(const ps_strategy *s)
{
    const struct ps_compress *how = &s->options.client.compress;
    const uint64_t cut[] = {s->vars_len, s->options.rows, s->options.batch, s->options.metrics, (uint64_t)how->kind};
    const double fraction = how->kind != PS_COMPRESS_TOP_K ? 0
                            : how->fraction > 0            ? how->fraction
                                                           : PS_COMPRESS_FRACTION;
    uint64_t hash = hash_bytes(&fraction, sizeof fraction, hash_bytes(cut, sizeof cut, 0));

    for (size_t i = 0; i < s->vars_len; i++) {
        const struct ps_var_spec *spec = &s->vars[i]->spec;
        const double numbers[] = {(double)spec->init.kind, spec->init.a, spec->init.b};
        char optimizer[PS_OPTIMIZER_TEXT_MAX];

        ps_optimizer_describe(&spec->optimizer, optimizer, sizeof optimizer);
        hash = hash_bytes(s->vars[i]->name, strlen(s->vars[i]->name) + 1, hash);
        hash = hash_bytes(spec->dims, spec->rank * sizeof spec->dims[0], hash);
        hash = hash_bytes(numbers, sizeof numbers, hash);
        hash = hash_bytes(&spec->init.seed, sizeof spec->init.seed, hash);
        hash = hash_bytes(optimizer, strlen(optimizer), hash);
    }
    return (int64_t)hash;
}

/* The lowest rank that is furthest; and whether anybody is behind it, or new. */
static uint32_t
find_furthest(const struct standing *all, uint32_t ranks, bool *behind)
{
    uint32_t furthest = 0;

    *behind = false;
    for (uint32_t r = 1; r < ranks; r++)
        if (all[r].next > all[furthest].next)
            furthest = r;
    for (uint32_t r = 0; r < ranks; r++)
        *behind |= all[r].next < all[furthest].next || all[r].next < 0;
    return furthest;
}

/* All must have the definition of the one that is furthest. Who has another is turned away; those that fit are counted,
 * to form the group without it, once the training has begun. Nobody leaves before all have seen that. */
static enum ps_err
compare_definitions(ps_strategy *s, const struct standing *all, uint32_t ranks, uint32_t furthest, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint32_t count = 0, other = furthest;

    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].definition == all[furthest].definition)
            count++;
        else
            other = r;
    if (count == ranks)
        return PS_OK;
    if (all[ps_group_rank(a->group)].definition == all[furthest].definition && all[furthest].next >= 0)
        a->fitting = count;
    (void)!ps_group_barrier(a->group, NULL, NULL);
    return ps_fail(e, PS_ERR_MISMATCH,
                   "worker %u has other variables, optimizers, batches or compression than worker %u: all must be "
                   "started with the same",
                   ps_group_task(a->group, other), ps_group_task(a->group, furthest));
}

/* Numbers of replicas over all ranks, in their order. */
static enum ps_err
take_standings(ps_strategy *s, const struct standing *all, uint32_t ranks, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    uint32_t rank = ps_group_rank(a->group), count = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        if (all[r].replicas < 1 || all[r].replicas > PS_STRATEGY_REPLICAS_MAX)
            return ps_fail(e, PS_ERR_PROTOCOL, "worker %u says that it has %" PRId64 " replicas",
                           ps_group_task(a->group, r), all[r].replicas);
        if (r == rank)
            s->index = count;
        count += (uint32_t)all[r].replicas;
    }
    s->count = count;
    s->divisor = (float)count;
    s->workers = ranks;
    s->chief = rank == 0;
    return PS_OK;
}

/* Variables, slots, versions and what was counted from one rank to all others, who need not all need them. */
static enum ps_err
hand_over(ps_strategy *s, uint32_t from, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    struct strategy_copy *c = &s->copy[0];
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++) {
        struct local_optimizer *l = c->optimizer[i];
        size_t elements = (size_t)s->vars[i]->elements;
        int64_t version = (int64_t)l->version;

        err = ps_group_broadcast(a->group, c->values[i], elements, PS_F32, from, NULL, e);
        for (uint32_t k = 0; err == PS_OK && k < l->slots; k++)
            err = ps_group_broadcast(a->group, l->slot[k], elements, PS_F32, from, NULL, e);
        if (err == PS_OK)
            err = ps_group_broadcast(a->group, &version, 1, PS_I64, from, NULL, e);
        if (err == PS_OK)
            l->version = (uint64_t)version;
    }
    if (err == PS_OK)
        err = ps_group_broadcast(a->group, s->counted, strategy_totals_len(s), PS_F64, from, NULL, e);
    return err;
}

/* What this worker can give to others. */
static int64_t
step_of(const ps_strategy *s)
{
    const struct all_reduced *a = s->own;

    if (a->torn)
        return a->torn_at > 0 ? STANDING_TORN : STANDING_NEW;
    return a->agreed ? (int64_t)s->next : STANDING_NEW;
}

/* Nobody has all variables of any step. That is the beginning, unless somebody has a part of what was lost: all ranks
 * see that, and none of them starts anew in silence. */
static enum ps_err
begin_all(ps_strategy *s, const struct standing *all, uint32_t ranks, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].next == STANDING_TORN)
            return ps_fail(e, PS_ERR_STEP_FAILED,
                           "who gave its variables to worker %u was lost meanwhile, and nobody else has all of them: "
                           "restore a checkpoint",
                           ps_group_task(a->group, r));
    if (!a->torn)
        return PS_OK;
    strategy_count_none(s);
    return strategy_initialize(s, e);
}

/* What was left out of the gradients that were exchanged last, now that all agree where to go on. */
static void
settle(ps_strategy *s, bool counted)
{
    struct all_reduced *a = s->own;

    if (a->tried)
        ps_reducer_settle(a->reducer, counted);
    a->tried = false;
}

/* Take them from a rank, or give them; a worker that is behind has nothing whole until all have come. */
static enum ps_err
catch_up(ps_strategy *s, const struct standing *all, uint32_t from, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    int64_t to = all[from].next;
    bool behind = step_of(s) < to;
    enum ps_err err;

    if (behind) {
        a->torn = true;
        a->torn_at = MAX(a->torn_at, to);
    }
    if ((err = hand_over(s, from, e)) != PS_OK)
        return err;
    a->torn = false;
    a->torn_at = 0;
    s->stats.received += behind;
    s->next = (uint64_t)MAX(to, 0);
    return strategy_spread(s, e);
}

/* Who is furthest, and that the others are as far. */
static enum ps_err
agree(ps_strategy *s, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    uint32_t ranks = ps_group_ranks(a->group), furthest;
    struct standing me = {.next = step_of(s),
                          .replicas = s->replicas,
                          .definition = definition_of(s),
                          .epoch = (int64_t)a->done_epoch},
                    *all;
    int64_t tried = (int64_t)s->next;
    enum ps_err err;
    bool behind;

    if ((all = calloc(ranks, sizeof *all)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for %u workers", ranks);
    a->fitting = 0;
    err = ps_group_all_gather(a->group, &me, all, ranks * STANDING_WORDS, PS_I64, NULL, e);
    furthest = find_furthest(all, ranks, &behind);
    if (err == PS_OK)
        err = compare_definitions(s, all, ranks, furthest, e);
    if (err == PS_OK)
        err = take_standings(s, all, ranks, e);
    if (err == PS_OK && all[furthest].next < 0)
        err = begin_all(s, all, ranks, e);
    if (err == PS_OK && behind)
        err = catch_up(s, all, furthest, e);
    if (err == PS_OK)
        settle(s, all[furthest].next == tried + 1 && all[furthest].epoch == (int64_t)a->epoch);
    if (err == PS_OK && behind)
        a->done_epoch = (uint64_t)all[furthest].epoch;
    a->agreed |= err == PS_OK;
    free(all);
    return err;
}

/* ---- Who was lost ---- */

/* What the group says of a rank, as a worker: the rank may have another number in the next forming. */
static enum ps_err
say_who(const ps_strategy *s, const struct ps_error *why, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    uint32_t rank, task = UINT32_MAX;

    if (sscanf(why->peer, "rank %" SCNu32, &rank) == 1)
        task = ps_group_task(a->group, rank);
    if (e == NULL)
        return PS_ERR_STEP_FAILED;
    if (task != UINT32_MAX)
        ps_error_set(e, PS_ERR_STEP_FAILED, "worker %u was lost in step %" PRIu64 ": %s: %.350s", task, s->next,
                     ps_err_name(why->code), why->text);
    else
        ps_error_set(e, PS_ERR_STEP_FAILED, "a worker was lost in step %" PRIu64 ": %s: %.350s", s->next,
                     ps_err_name(why->code), why->text);
    memcpy(e->peer, why->peer, sizeof e->peer);
    return PS_ERR_STEP_FAILED;
}

/* Whether meeting again may help; what all ranks would do again in the same way is no reason. */
static bool
may_recover(enum ps_err err)
{
    return err == PS_ERR_CLOSED || err == PS_ERR_TIMEOUT || err == PS_ERR_PROTOCOL || err == PS_ERR_UNREACHABLE ||
           err == PS_ERR_IO || err == PS_ERR_CANCELLED || err == PS_ERR_STEP_FAILED;
}

/* Whether the group is to be formed again after what agreeing ended with. */
static bool
may_go_on(const ps_strategy *s, enum ps_err err)
{
    const struct all_reduced *a = s->own;

    return a->fitting > 0 || (may_recover(err) && ps_group_state(a->group, NULL) != PS_OK);
}

/* ---- Meeting again ---- */

/* When a worker that is missing is looked for. took_ms: what it took to find nobody; 0: somebody was found, or lost. */
static void
plan_look(ps_strategy *s, double took_ms)
{
    struct all_reduced *a = s->own;

    a->look_wait_ms = took_ms > 0 ? MIN(2 * a->look_wait_ms, LOOK_LAST_MS) : LOOK_FIRST_MS;
    a->look_at_ms = s->workers < a->all ? now_ms() + MAX(a->look_wait_ms, LOOK_PART * took_ms) : 0;
}

/* Whether it failed because of a member that met, but was gone or elsewhere when the others connected to it. A meeting
 * that cannot be reached takes all its time to say so, and is no such case. */
static bool
lost_on_the_way(const struct all_reduced *a, enum ps_err err, double began_ms)
{
    return err != PS_ERR_TIMEOUT && (may_recover(err) || err == PS_ERR_CLUSTER) && now_ms() < began_ms + a->timeout_ms;
}

/* All of `ranks_min` or more are there; each time-out asks for one less. */
static enum ps_err
form_again(ps_strategy *s, uint32_t ranks_min, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    enum ps_err err;
    double began;

    for (int tries = 1;;) {
        began = now_ms();
        if ((err = ps_group_reform(a->group, MAX(ranks_min, 1), -1, e)) == PS_ERR_TIMEOUT && ranks_min > 1)
            ranks_min--;
        else if (!lost_on_the_way(a, err, began) || tries++ == FORM_TRIES)
            break;
    }
    s->stats.reforms += err == PS_OK;
    return err;
}

/* Form the group of those that come, unless it is formed, and agree; again as long as the group is what fails, which
 * another loss may do. */
static enum ps_err
recover(ps_strategy *s, bool formed, uint32_t ranks_min, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    enum ps_err err;

    do {
        if (!formed && (err = form_again(s, ranks_min, e)) != PS_OK)
            return err;
        formed = false;
        err = agree(s, e);
        ranks_min = a->fitting > 0 ? a->fitting : MAX(ps_group_ranks(a->group), 1) - 1;
    } while (err != PS_OK && may_go_on(s, err));
    plan_look(s, 0);
    return err;
}

/* Something of the exchange failed: by the lapse option that is the end, or the beginning of another group. */
static enum ps_err
lost(ps_strategy *s, const struct ps_error *why, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    if (a->fitting > 0)
        return recover(s, false, a->fitting, e);
    if (ps_group_state(a->group, NULL) == PS_OK || !may_recover(why->code)) {
        if (e != NULL)
            *e = *why;
        return why->code;
    }
    if (s->options.client.lapse == PS_LAPSE_FAIL)
        return say_who(s, why, e);
    /* Silence is not death: of two, the other one gets a time-out to come before this one goes on alone. */
    return recover(s, false, s->workers == 2 && why->code == PS_ERR_TIMEOUT ? 2 : s->workers - 1, e);
}

/* ---- Opening, starting ---- */

static enum ps_err
open_group(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    struct ps_group_options options = {0};
    struct all_reduced *a;
    enum ps_err err;
    double began;
    int tries = 1;

    if (cluster == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s is for the workers of a cluster, and none was given", s->name);
    if ((a = s->own = calloc(1, sizeof *a)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a strategy");
    if (s->options.group != NULL)
        options = *s->options.group;
    if (options.name == NULL)
        options.name = s->options.client.job;
    if (options.timeout_ms == 0)
        options.timeout_ms = s->options.client.timeout_ms;
    if (options.settle_ms == 0)
        options.settle_ms = SETTLE_MS;
    a->all = s->workers;
    a->timeout_ms = options.timeout_ms;
    began = now_ms();
    do
        err = ps_group_open(cluster, &options, &a->group, e);
    while (lost_on_the_way(a, err, began) && tries++ < FORM_TRIES);
    return err;
}

static enum ps_err
make_reducer(ps_strategy *s, struct ps_error *e)
{
    struct ps_reducer_options options = {.sum = 1, .compress = s->options.client.compress};
    struct all_reduced *a = s->own;
    uint64_t *sizes = calloc(s->vars_len, sizeof *sizes);
    enum ps_err err = PS_ERR_NOMEM;

    a->ready = calloc(s->vars_len, sizeof *a->ready);
    if (sizes != NULL && a->ready != NULL) {
        for (size_t i = 0; i < s->vars_len; i++)
            sizes[i] = s->vars[i]->elements;
        err = ps_reducer_new(a->group, s->vars_len, sizes, &options, &a->reducer, e);
    } else {
        (void)ps_fail(e, err, "no memory for a list of %zu variables", s->vars_len);
    }
    free(sizes);
    if (err == PS_OK)
        strategy_place_gradients(s, ps_reducer_buffers(a->reducer));
    return err;
}

static enum ps_err
start_group(ps_strategy *s, struct ps_error *e)
{
    struct ps_error why = {0};
    enum ps_err err;

    if ((err = make_reducer(s, e)) != PS_OK)
        return err;
    if ((err = agree(s, &why)) != PS_OK && (err = lost(s, &why, e)) != PS_OK)
        return err;
    plan_look(s, 0);
    return PS_OK;
}

static void
close_group(ps_strategy *s, bool goodbye)
{
    struct all_reduced *a = s->own;

    (void)goodbye;
    if (a == NULL)
        return;
    ps_reducer_free(a->reducer);
    ps_group_close(a->group);
    free(a->ready);
    free(a);
}

/* ---- A step ---- */

static void
gradient_ready(ps_strategy *s, size_t i)
{
    struct all_reduced *a = s->own;

    if (!a->stepping || a->ready[i])
        return;
    a->ready[i] = true;
    ps_reducer_ready(a->reducer, i);
}

static void
write_note(ps_strategy *s, bool failed)
{
    struct all_reduced *a = s->own;

    memset(a->note, 0, sizeof a->note);
    a->note[NOTE_STEP] = (double)s->next;
    a->note[NOTE_FAILED] = failed;
    a->note[NOTE_LOOK] = s->chief && a->look_at_ms > 0 && now_ms() >= a->look_at_ms;
    if (failed)
        return;
    a->note[NOTE_ROWS] = (double)s->done.rows;
    memcpy(a->note + NOTE_METRICS, s->metrics, s->options.metrics * sizeof a->note[0]);
}

/* Wait for the note and free it; what failed before counts. A wait that ends while the work goes on is begun again:
 * the work has a deadline of its own, which fails the group. */
static enum ps_err
finish_note(ps_work *note, enum ps_err before, struct ps_error *e)
{
    enum ps_err err = before;

    if (before == PS_OK) {
        while ((err = ps_work_wait(note, -1, e)) == PS_ERR_TIMEOUT && !ps_work_test(note))
            continue;
        if (err == PS_ERR_TIMEOUT) /* of the wait, or of the work, which has ended by now */
            err = ps_work_wait(note, 0, e);
    }
    ps_work_free(note);
    return err;
}

/* All gradients and the note are on their way; wait for the sums. A replica that failed left what it left, perhaps what
 * cannot be compressed: the note says so to everybody. */
static enum ps_err
exchange(ps_strategy *s, bool failed, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    ps_work *note = NULL;
    struct ps_error why;
    enum ps_err err, end;

    for (size_t i = 0; i < s->vars_len; i++)
        gradient_ready(s, i);
    a->stepping = false;
    write_note(s, failed);
    err = ps_group_all_reduce(a->group, a->note, a->note, NOTE_METRICS + s->options.metrics, PS_F64, PS_SUM, &note, e);
    end = ps_reducer_finish(a->reducer, &why);
    ps_reducer_bytes(a->reducer, &s->stats.gradient_sent, &s->stats.gradient_plain);
    if (end != PS_OK && end != PS_ERR_NONFINITE) {
        *e = why;
        return finish_note(note, end, NULL);
    }
    /* The group goes on after a gradient that is not finite, and the note says whether it was meant so. */
    if ((err = finish_note(note, err, e)) != PS_OK || end == PS_OK || a->note[NOTE_FAILED] != 0)
        return err;
    *e = why;
    return end;
}

/* What the note says about the step: whether it is to be completed. */
static enum ps_err
read_note(ps_strategy *s, bool *complete, struct ps_error *e)
{
    const struct all_reduced *a = s->own;

    if (a->note[NOTE_STEP] != (double)s->next * s->workers)
        return ps_fail(e, PS_ERR_MISMATCH, "not all workers are at step %" PRIu64 ": one began elsewhere", s->next);
    *complete = a->note[NOTE_FAILED] == 0;
    s->done.rows = (uint64_t)a->note[NOTE_ROWS];
    memcpy(s->metrics, a->note + NOTE_METRICS, s->options.metrics * sizeof s->metrics[0]);
    return PS_OK;
}

/* Somebody is missing, and it is time to see whether it is back. All ranks do so behind the same step. Where nobody is
 * found, or the others could not be met, the group is what it was. */
static enum ps_err
look_for_missing(ps_strategy *s, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    struct ps_error why = {0};
    double began = now_ms();
    enum ps_err err;
    int formed;

    if (a->note[NOTE_LOOK] == 0)
        return PS_OK;
    err = ps_group_admit(a->group, MIN(a->timeout_ms / 2, LOOK_MEET_MS), &formed, &why);
    if (formed) {
        s->stats.reforms += err == PS_OK;
        return recover(s, err == PS_OK, s->workers, e);
    }
    if (err != PS_OK && ps_group_state(a->group, NULL) != PS_OK)
        return lost(s, &why, e);
    plan_look(s, now_ms() - began);
    return PS_OK;
}

static enum ps_err
reduced_step(ps_strategy *s, bool *done, struct ps_error *e)
{
    struct all_reduced *a = s->own;
    struct ps_error mine = {0}, why = {0};
    enum ps_err computed, err;

    memset(a->ready, 0, s->vars_len * sizeof *a->ready);
    if (ps_reducer_begin(a->reducer, &why) != PS_OK)
        return lost(s, &why, e);
    a->stepping = a->tried = true;
    a->epoch = ps_group_epoch(a->group);
    computed = strategy_compute(s, &mine);
    err = exchange(s, computed != PS_OK, &why);
    if (computed != PS_OK) {
        settle(s, false);
        if (e != NULL)
            *e = mine;
        return computed;
    }
    if (err != PS_OK)
        return lost(s, &why, e);
    if ((err = read_note(s, done, e)) == PS_OK && *done)
        err = strategy_update(s, 1 / s->divisor, e);
    settle(s, err == PS_OK && *done);
    if (err != PS_OK || !*done)
        return err;
    strategy_count_step(s);
    s->next++;
    a->done_epoch = a->epoch;
    return look_for_missing(s, e);
}

/* ---- The end ---- */

static enum ps_err
meet_group(ps_strategy *s, struct ps_error *e)
{
    const struct all_reduced *a = s->own;
    struct ps_error why = {0};
    enum ps_err err;

    while ((err = ps_group_barrier(a->group, NULL, &why)) != PS_OK)
        if ((err = lost(s, &why, e)) != PS_OK)
            return err;
    return err;
}

static void
describe_group(const ps_strategy *s, char *text, size_t size)
{
    snprintf(text, size, ", %u worker%s, %u replica%s", s->workers, s->workers == 1 ? "" : "s", s->count,
             s->count == 1 ? "" : "s");
}

const struct strategy_ops strategy_multi_worker_mirrored = {
    .traits = STRATEGY_THREADS | STRATEGY_COPIES | STRATEGY_SLOTS | STRATEGY_WORKERS,
    .open = open_group,
    .start = start_group,
    .ready = gradient_ready,
    .step = reduced_step,
    .meet = meet_group,
    .describe = describe_group,
    .close = close_group,
};
