/* Virtual time, the queue, random numbers, trace and verdict. */
#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_LINE_MAX 1024

void
sim_init(struct sim *s, uint64_t seed, bool trace)
{
    *s = (struct sim){.now_us = SIM_START, .random = seed, .trace = trace, .hash = 0xcbf29ce484222325u};
    (void)sim_rand(s); /* neighbouring seeds part at once */
}

void
sim_finish(struct sim *s)
{
    for (size_t i = 0; i < s->queue_len; i++)
        s->queue[i]->place = 0;
    free(s->queue);
    s->queue = NULL;
    s->queue_len = s->queue_room = 0;
}

/* ---- The queue ---- */

static bool
sim_timer_before(const struct sim_timer *a, const struct sim_timer *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void
sim_put(struct sim *s, size_t i, struct sim_timer *t)
{
    s->queue[i] = t;
    t->place = i + 1;
}

static void
sift_up(struct sim *s, size_t i)
{
    struct sim_timer *t = s->queue[i];

    for (; i > 0 && sim_timer_before(t, s->queue[(i - 1) / 2]); i = (i - 1) / 2)
        sim_put(s, i, s->queue[(i - 1) / 2]);
    sim_put(s, i, t);
}

static void
sift_down(struct sim *s, size_t i)
{
    struct sim_timer *t = s->queue[i];
    size_t child;

    while ((child = 2 * i + 1) < s->queue_len) {
        if (child + 1 < s->queue_len && sim_timer_before(s->queue[child + 1], s->queue[child]))
            child++;
        if (!sim_timer_before(s->queue[child], t))
            break;
        sim_put(s, i, s->queue[child]);
        i = child;
    }
    sim_put(s, i, t);
}

void
sim_cancel(struct sim *s, struct sim_timer *t)
{
    struct sim_timer *last;
    size_t i;

    if (t->place == 0)
        return;
    i = t->place - 1;
    ps_assert(s->queue[i] == t);
    t->place = 0;
    last = s->queue[--s->queue_len];
    if (last == t)
        return;
    sim_put(s, i, last);
    sift_up(s, i);
    sift_down(s, last->place - 1);
}

void
sim_at(struct sim *s, struct sim_timer *t, uint64_t at_us)
{
    ps_assert(t->run != NULL);
    sim_cancel(s, t);
    t->at_us = MAX(at_us, s->now_us);
    t->order = s->order++;
    s->queue = sim_grow(s->queue, &s->queue_room, s->queue_len, sizeof *s->queue);
    s->queue[s->queue_len++] = t;
    sift_up(s, s->queue_len - 1);
}

void
sim_in(struct sim *s, struct sim_timer *t, uint64_t delay_us)
{
    sim_at(s, t, s->now_us + delay_us);
}

bool
sim_step(struct sim *s)
{
    struct sim_timer *t;

    if (s->failed || s->queue_len == 0)
        return false;
    t = s->queue[0];
    sim_cancel(s, t);
    s->now_us = t->at_us;
    t->run(t);
    return !s->failed;
}

/* ---- Random numbers: splitmix64 (Steele, Lea and Flood, OOPSLA 2014) ---- */

uint64_t
sim_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t
sim_rand(struct sim *s)
{
    return sim_mix(&s->random);
}

uint64_t
sim_mix_below(uint64_t *state, uint64_t n)
{
    ps_assert(n >= 1);
    return sim_mix(state) % n;
}

uint64_t
sim_below(struct sim *s, uint64_t n)
{
    return sim_mix_below(&s->random, n);
}

uint64_t
sim_between(struct sim *s, uint64_t low, uint64_t high)
{
    ps_assert(low <= high);
    return low + sim_below(s, high - low + 1);
}

bool
sim_chance(struct sim *s, uint32_t per_mille)
{
    return per_mille > 0 && sim_below(s, 1000) < per_mille;
}

bool
sim_has(uint64_t seed, uint64_t salt, uint32_t per_mille)
{
    uint64_t state = seed ^ salt;

    return sim_mix_below(&state, 1000) < per_mille;
}

/* ---- Trace and verdict ---- */

static void
hash_line(struct sim *s, const char *line)
{
    for (; *line != 0; line++)
        s->hash = (s->hash ^ (uint8_t)*line) * 0x100000001b3u;
    s->lines++;
}

static void
trace_line(struct sim *s, const char *format, va_list arguments)
{
    char line[TRACE_LINE_MAX];
    int n = snprintf(line, sizeof line, "[%6" PRIu64 "] ", s->now_us / SIM_MS);

    vsnprintf(line + n, sizeof line - (size_t)n, format, arguments);
    hash_line(s, line);
    if (s->trace)
        printf("%s\n", line);
}

void
sim_trace(struct sim *s, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    trace_line(s, format, arguments);
    va_end(arguments);
}

void
sim_fail(struct sim *s, const char *format, ...)
{
    va_list arguments;
    int n;

    if (s->failed)
        return;
    s->failed = true;
    n = snprintf(s->failure, sizeof s->failure, "at %" PRIu64 " ms: ", s->now_us / SIM_MS);
    va_start(arguments, format);
    vsnprintf(s->failure + n, sizeof s->failure - (size_t)n, format, arguments);
    va_end(arguments);
    sim_trace(s, "FAILED %s", s->failure);
}

/* ---- Memory ---- */

void *
sim_alloc(size_t size)
{
    void *memory = calloc(1, MAX(size, 1));

    ps_assert(memory != NULL);
    return memory;
}

void *
sim_grow(void *array, size_t *room, size_t len, size_t item)
{
    size_t more = *room == 0 ? 16 : *room * 2;

    if (len < *room)
        return array;
    array = realloc(array, more * item);
    ps_assert(array != NULL);
    *room = more;
    return array;
}
