/* A round is announced by its number: a member that has seen `round` rise does the work of it, and the last one that is
 * done wakes the caller. */
#include "client/strategy/replica_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/thread.h"

struct replica_thread {
    struct replica_threads *threads;
    uint32_t number;
    pthread_t thread;
};

struct replica_threads {
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    pthread_barrier_t barrier;
    uint64_t round;
    uint32_t working; /* members, besides the caller, that are not done with the round */
    bool over;
    void (*work)(void *arg, uint32_t member);
    void *arg;
    uint32_t members, threads; /* with the caller; that were started */
    struct replica_thread member[];
};

static void *
replica_thread_main(void *arg)
{
    struct replica_thread *m = arg;
    struct replica_threads *c = m->threads;

    pthread_mutex_lock(&c->lock);
    for (uint64_t seen = 0;; seen++) {
        while (c->round == seen && !c->over)
            pthread_cond_wait(&c->begin, &c->lock);
        if (c->over)
            break;
        pthread_mutex_unlock(&c->lock);
        c->work(c->arg, m->number);
        pthread_mutex_lock(&c->lock);
        if (--c->working == 0)
            pthread_cond_signal(&c->end);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static int
start_replica_threads(struct replica_threads *c)
{
    int err = 0;

    for (uint32_t i = 1; i < c->members && err == 0; i++) {
        c->member[i] = (struct replica_thread){.threads = c, .number = i};
        if ((err = thread_start(&c->member[i].thread, replica_thread_main, &c->member[i])) == 0)
            c->threads++;
    }
    return err;
}

enum ps_err
replica_threads_new(uint32_t members, struct replica_threads **out, struct ps_error *e)
{
    struct replica_threads *c = calloc(1, sizeof *c + members * sizeof c->member[0]);
    int err;

    *out = NULL;
    ps_assert(members >= 1);
    if (c == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for %u threads of replicas", members);
    c->members = members;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begin, NULL);
    pthread_cond_init(&c->end, NULL);
    pthread_barrier_init(&c->barrier, NULL, members);
    if ((err = start_replica_threads(c)) != 0) {
        replica_threads_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "%u threads cannot be started: %s", members - 1, strerror(err));
    }
    *out = c;
    return PS_OK;
}

void
replica_threads_free(struct replica_threads *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 1; i <= c->threads; i++)
        pthread_join(c->member[i].thread, NULL);
    pthread_barrier_destroy(&c->barrier);
    pthread_cond_destroy(&c->end);
    pthread_cond_destroy(&c->begin);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void
replica_threads_run(struct replica_threads *c, void (*work)(void *arg, uint32_t member), void *arg)
{
    pthread_mutex_lock(&c->lock);
    c->work = work;
    c->arg = arg;
    c->working = c->threads;
    c->round++;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    work(arg, 0);
    pthread_mutex_lock(&c->lock);
    while (c->working > 0)
        pthread_cond_wait(&c->end, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void
replica_threads_barrier(struct replica_threads *c)
{
    if (c->members > 1)
        pthread_barrier_wait(&c->barrier);
}
