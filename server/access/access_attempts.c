#include "server/access/access_attempts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct access_attempts_at
access_attempts_at(const struct sockname_host *host, const char *name)
{
    struct access_attempts_at at;

    memset(&at, 0, sizeof at);
    at.host = *host;
    snprintf(at.name, sizeof at.name, "%s", name);
    return at;
}

static struct access_attempt *
access_attempts_find(const struct access_attempts *a, const struct access_attempts_at *at)
{
    struct access_attempt *x;

    HASH_FIND(hh, a->all, at, sizeof *at, x);
    return x;
}

static void
access_attempts_forget(struct access_attempt *x, uint64_t now_ms)
{
    uint64_t n = (now_ms - x->since_ms) / ACCESS_ATTEMPTS_FORGET_MS;

    x->wrong -= (uint32_t)MIN(n, x->wrong);
    x->since_ms += n * ACCESS_ATTEMPTS_FORGET_MS;
}

static void
access_attempts_remove(struct access_attempts *a, struct access_attempt *x)
{
    HASH_DEL(a->all, x);
    free(x);
}

/* One more may be counted: of those that none waits at, the one whose last wrong proof is the oldest goes. */
static void
access_attempts_make_room(struct access_attempts *a)
{
    struct access_attempt *x, *next;

    if (HASH_COUNT(a->all) < ACCESS_ATTEMPTS_MAX)
        return;
    HASH_ITER (hh, a->all, x, next)
        if (x->held == 0) {
            access_attempts_remove(a, x);
            return;
        }
}

/* NULL: there is no memory, and nothing is counted. */
static struct access_attempt *
access_attempts_add(struct access_attempts *a, const struct access_attempts_at *at, uint64_t now_ms)
{
    struct access_attempt *x = calloc(1, sizeof *x);

    if (x == NULL)
        return NULL;
    access_attempts_make_room(a);
    x->at = *at;
    x->since_ms = now_ms;
    HASH_ADD(hh, a->all, at, sizeof x->at, x);
    if (HASH_TOOK(x))
        return x;
    free(x);
    return NULL;
}

static uint32_t
access_attempts_hold_ms(const struct access_attempts *a, uint32_t wrong)
{
    uint32_t past = wrong - MIN(wrong, a->free != 0 ? a->free : ACCESS_ATTEMPTS_FREE);

    return past == 0 ? 0 : MIN(ACCESS_ATTEMPTS_HOLD_MS << MIN(past - 1, 16u), ACCESS_ATTEMPTS_HOLD_MAX_MS);
}

enum ps_err
access_attempts_begin(struct access_attempts *a, const struct access_attempts_at *at, uint64_t now_ms,
                      uint32_t *hold_ms, struct ps_error *e)
{
    struct access_attempt *x = access_attempts_find(a, at);

    *hold_ms = 0;
    if (x == NULL && (x = access_attempts_add(a, at, now_ms)) == NULL)
        return PS_OK;
    access_attempts_forget(x, now_ms);
    *hold_ms = access_attempts_hold_ms(a, x->wrong);
    if (*hold_ms > 0 && x->held == ACCESS_ATTEMPTS_HELD)
        return ps_fail(e, PS_ERR_LIMIT,
                       "of this address %u proofs of token '%s' were wrong lately, and %d others wait to be looked at: "
                       "try again in a while",
                       x->wrong, at->name, ACCESS_ATTEMPTS_HELD);
    x->held++;
    return PS_OK;
}

void
access_attempts_end(struct access_attempts *a, const struct access_attempts_at *at, bool wrong, uint64_t now_ms)
{
    struct access_attempt *x = access_attempts_find(a, at);

    if (x == NULL)
        return;
    x->held -= x->held > 0;
    access_attempts_forget(x, now_ms);
    if (wrong) {
        x->wrong++;
        x->since_ms = now_ms;
        HASH_DEL(a->all, x);
        HASH_ADD(hh, a->all, at, sizeof x->at, x);
        if (!HASH_TOOK(x))
            free(x);
    } else if (x->wrong == 0 && x->held == 0) {
        access_attempts_remove(a, x);
    }
}

void
access_attempts_finish(struct access_attempts *a)
{
    struct access_attempt *x, *next;

    HASH_ITER (hh, a->all, x, next)
        access_attempts_remove(a, x);
}
