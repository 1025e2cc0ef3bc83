/* A worker of test_fire: fire_worker LEDGER JOB, under psrun. It pushes as fast as it can, with several steps under way
 * at once, and writes down each push before it starts and when it is acknowledged (fire_ledger.h). It compares its
 * pulls with the ledger: nothing that was acknowledged before may be missing.
 *
 * It ends with 0 at the ledger's last clock, and with 2, which psrun does not start again, when a promise was broken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/fire_ledger.h"

enum { DEPTH = 4, LARGE_EVERY = 4, TICK = FIRE_VARS, PULL, OPS };

/* A step that is under way. */
struct step {
    bool used;
    ps_op *ops[OPS];
    uint32_t push[FIRE_VARS];
    float *gradients[FIRE_VARS], *pulled;
    enum fire_var var; /* that is pulled */
    struct fire_bounds bounds;
};

struct fire_worker_worker {
    struct fire_ledger *ledger;
    struct fire_worker *own;
    uint32_t task;
    float scale;
    ps_client *client;
    ps_var *vars[FIRE_VARS];
    struct step steps[DEPTH];
    float *answer; /* of push-pulls */
};

/* A promise was broken: e says which, or the ledger's text does already. */
static bool
fire_worker_broken(struct fire_worker_worker *w, const struct ps_error *e)
{
    if (e != NULL)
        ps_error_format(e, w->own->text, sizeof w->own->text);
    atomic_store(&w->own->failed, 1);
    return false;
}

/* ---- Steps ---- */

/* In sync every block waits for every worker in every step. */
static bool
is_pushed(const struct fire_worker_worker *w, enum fire_var var, uint64_t clock)
{
    return var != FIRE_LARGE || w->ledger->mode == PS_SYNC || clock % LARGE_EVERY == 0;
}

/* In sync a push is known by its step: a process that repeats the step of one that was killed finds that process's
 * gradient there, or pushes the same. */
static uint32_t
next_push(const struct fire_worker_worker *w, const struct fire_pushes *p)
{
    return w->ledger->mode == PS_SYNC ? (uint32_t)ps_client_clock(w->client) : atomic_load(&p->begun);
}

/* Some go compressed. Ordinals up to here, twice them in sync, and all other elements of a gradient are exact as
 * float16, so that nothing is left out, and the ledger reads them as usual. */
enum { HALF_ORDINALS = 2048 };
static const struct ps_compress half = {.kind = PS_COMPRESS_FLOAT16};

static bool
start_push(struct fire_worker_worker *w, struct step *s, enum fire_var var, struct ps_error *e)
{
    struct fire_pushes *p = &w->own->pushes[var];
    uint32_t n = next_push(w, p);
    const float *gradients[] = {s->gradients[var]};
    struct ps_push_options o = {.flags = w->ledger->durable && var != FIRE_OTHER ? PS_PUSH_DURABLE : 0};
    enum ps_err err;

    if (n % 3 == 1 && n / FIRE_SLOTS < HALF_ORDINALS)
        o.compress = &half;
    fire_gradient_mark(var, w->task, n, w->scale, true, s->gradients[var]);
    s->push[var] = n;
    if (atomic_load(&p->state[n]) == FIRE_NOT)
        atomic_store(&p->state[n], FIRE_BEGUN);
    atomic_store(&p->begun, MAX(n + 1, atomic_load(&p->begun)));
    if (var == FIRE_OTHER)
        err = ps_client_push_pull_start(w->client, 1, &w->vars[var], gradients, &w->answer, &o, &s->ops[var], e);
    else
        err = ps_client_push_start(w->client, 1, &w->vars[var], gradients, &o, &s->ops[var], e);
    return err == PS_OK || fire_worker_broken(w, e);
}

static bool
start_step(struct fire_worker_worker *w, struct step *s)
{
    uint64_t clock = ps_client_clock(w->client);
    struct ps_error e;

    s->used = true;
    for (int var = 0; var < FIRE_VARS; var++)
        if (is_pushed(w, (enum fire_var)var, clock) && !start_push(w, s, (enum fire_var)var, &e))
            return false;
    if (ps_client_tick_start(w->client, &s->ops[TICK], &e) != PS_OK)
        return fire_worker_broken(w, &e);
    s->var = (enum fire_var)(clock / LARGE_EVERY % FIRE_VARS);
    fire_bounds_before(w->ledger, s->var, &s->bounds);
    if (ps_client_pull_start(w->client, 1, &w->vars[s->var], &s->pulled, NULL, &s->ops[PULL], &e) != PS_OK)
        return fire_worker_broken(w, &e);
    return true;
}

/* A worker that comes back in the midst of a step of sync may find it closed for some blocks (LATE), and when the shard
 * was killed as well, its outcome may be unknown (UNKNOWN_OUTCOME). The ledger leaves both open. */
static bool
is_open(const struct fire_worker_worker *w, enum ps_err err)
{
    return w->ledger->mode == PS_SYNC && (err == PS_ERR_LATE || err == PS_ERR_UNKNOWN_OUTCOME);
}

static bool
end_push(struct fire_worker_worker *w, struct step *s, enum fire_var var)
{
    struct ps_error e = {0};
    enum ps_err err = ps_op_wait(s->ops[var], -1, &e);

    if (err == PS_OK)
        atomic_store(&w->own->pushes[var].state[s->push[var]], FIRE_ACKED);
    else if (!is_open(w, err))
        return fire_worker_broken(w, &e);
    fire_gradient_mark(var, w->task, s->push[var], w->scale, false, s->gradients[var]);
    return true;
}

static bool
end_pull(struct fire_worker_worker *w, struct step *s)
{
    struct ps_error e = {0};

    if (ps_op_wait(s->ops[PULL], -1, &e) != PS_OK)
        return fire_worker_broken(w, &e);
    if (w->ledger->durable && s->var == FIRE_OTHER) /* what was acknowledged may be gone */
        return true;
    fire_bounds_after(w->ledger, s->var, &s->bounds);
    return fire_check_bounds(&s->bounds, s->var, s->pulled, w->own->text, sizeof w->own->text) ||
           fire_worker_broken(w, NULL);
}

static void
tell_rolled_back(struct fire_worker_worker *w)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < ps_client_shards(w->client); i++)
        n += ps_client_rolled_back(w->client, i);
    atomic_store(&w->own->rolled_back, n);
}

static bool
end_step(struct fire_worker_worker *w, struct step *s)
{
    struct ps_error e = {0};

    if (!s->used)
        return true;
    for (int var = 0; var < FIRE_VARS; var++)
        if (s->ops[var] != NULL && !end_push(w, s, (enum fire_var)var))
            return false;
    if (ps_op_wait(s->ops[TICK], -1, &e) != PS_OK)
        return fire_worker_broken(w, &e);
    if (!end_pull(w, s))
        return false;
    for (int i = 0; i < OPS; i++) {
        ps_op_free(s->ops[i]);
        s->ops[i] = NULL;
    }
    s->used = false;
    atomic_store(&w->own->clock, ps_client_clock(w->client));
    tell_rolled_back(w);
    return true;
}

/* The ledger has no room for more: only on a machine much faster than any. */
static bool
is_full(const struct fire_worker_worker *w)
{
    return fire_begun(&w->own->pushes[FIRE_SMALL]) >= FIRE_PUSHES_MAX;
}

/* As training loops do: in sync, a worker that joins in the midst of a step waits for its end. */
static bool
pull_all(struct fire_worker_worker *w)
{
    struct ps_error e = {0};

    for (int var = 0; var < FIRE_VARS; var++)
        if (ps_client_pull(w->client, 1, &w->vars[var], &w->steps[0].pulled, NULL, &e) != PS_OK)
            return fire_worker_broken(w, &e);
    return true;
}

/* In sync no worker pushes ahead of a step that is not done. */
static bool
fire_worker_run(struct fire_worker_worker *w)
{
    uint32_t at = 0, depth = w->ledger->mode == PS_SYNC ? 1 : DEPTH;

    while (ps_client_clock(w->client) < atomic_load(&w->ledger->last_clock)) {
        if (is_full(w)) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            if (atomic_load(&w->ledger->last_clock) != UINT64_MAX)
                break;
            continue;
        }
        if (!end_step(w, &w->steps[at]) || !start_step(w, &w->steps[at]))
            return false;
        at = (at + 1) % depth;
    }
    for (uint32_t i = 0; i < depth; i++, at = (at + 1) % depth)
        if (!end_step(w, &w->steps[at]))
            return false;
    return true;
}

/* ---- Life ---- */

static float *
fire_worker_floats(uint64_t n)
{
    float *f = calloc(n, sizeof *f);

    if (f == NULL)
        exit(1);
    return f;
}

static void
make_buffers(struct fire_worker_worker *w)
{
    w->answer = fire_worker_floats(fire_var_elements[FIRE_OTHER]);
    for (uint32_t i = 0; i < DEPTH; i++) {
        w->steps[i].pulled = fire_worker_floats(fire_var_elements[FIRE_LARGE]);
        for (int var = 0; var < FIRE_VARS; var++) {
            w->steps[i].gradients[var] = fire_worker_floats(fire_var_elements[var]);
            fire_gradient_fill((enum fire_var)var, w->scale, w->steps[i].gradients[var]);
        }
    }
}

static bool
fire_worker_join(struct fire_worker_worker *w, const ps_cluster *cluster, const char *job)
{
    struct ps_client_options options = {.job = job, .mode = w->ledger->mode, .bound = w->ledger->bound};
    struct ps_error e = {0};

    if (ps_client_open(cluster, &options, &w->client, &e) != PS_OK)
        return fire_worker_broken(w, &e);
    for (int i = 0; i < FIRE_VARS; i++) {
        struct ps_var_spec spec = {
            .name = fire_var_names[i], .rank = 1, .dims = {fire_var_elements[i]}, .optimizer = {.learning_rate = 1}};

        if (ps_client_declare(w->client, &spec, &w->vars[i], &e) != PS_OK)
            return fire_worker_broken(w, &e);
    }
    return true;
}

int
main(int argc, char **argv)
{
    static struct fire_worker_worker worker; /* its buffers are kept to the end */
    struct fire_worker_worker *w = &worker;
    struct ps_error e = {0};
    ps_cluster *cluster;
    int fd;

    if (argc != 3 || (w->ledger = fire_ledger_open(argv[1], &fd)) == NULL ||
        ps_cluster_from_env(&cluster, &e) != PS_OK || ps_cluster_workers(cluster) != FIRE_WORKERS) {
        fprintf(stderr, "usage: psrun ... --workers %d -- fire_worker LEDGER JOB\n", FIRE_WORKERS);
        return 2;
    }
    w->task = ps_cluster_task(cluster);
    w->own = &w->ledger->worker[w->task];
    w->scale = w->ledger->mode == PS_SYNC ? FIRE_WORKERS : 1;
    if (!fire_hold(fd, w->task))
        return 2;
    atomic_store(&w->own->pid, getpid());
    atomic_fetch_add(&w->own->lives, 1);
    make_buffers(w);
    if (!fire_worker_join(w, cluster, argv[2]) || !pull_all(w) || !fire_worker_run(w))
        return 2;
    ps_client_close(w->client);
    ps_cluster_free(cluster);
    return 0;
}
