#include "client/api/trace_recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/system/environment.h"
#include "common/system/now.h"
#include "common/system/trace_file.h"

struct trace_recorder {
    struct timeline timeline;
    uint32_t task;                             /* TIMELINE_NOBODY: as the process */
    bool ended;                                /* its thread has ended */
    bool begun, held;                          /* there is a step; a strategy says where it ends */
    uint64_t step_ns;                          /* when it began */
    uint64_t waited_ns[PS_TIMES];              /* in it */
    struct ps_time_spent spent;                /* in those before */
    char slots[] __attribute__((aligned(64))); /* of the timeline */
};

#define TIMELINE_VARIABLE    "PSD_TIMELINE"
#define TRACE_RECORDER_BYTES (sizeof(struct trace_recorder) + PS_TIMELINE_SPANS * sizeof(struct timeline_span))

/* Of the process. Threads come and go within the mutex; what they add, they add without it. */
static struct {
    pthread_mutex_t mutex;
    struct trace_recorder *thread[PS_TIMELINE_THREADS];
    uint32_t threads;
    uint32_t open; /* clients, groups and strategies */
    uint32_t task; /* of the first that was opened */
    bool named;
    struct trace_origin origin;
    char *file; /* PSD_TRACE_FILE; NULL: none */
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Atomic bool records = true;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static _Thread_local struct trace_recorder *own_recorder;
static _Thread_local bool without; /* no recorder could be made */

static const char *const time_names[PS_TIMES] = {
    [PS_TIME_COMPUTE] = "compute", [PS_TIME_PULL] = "pull",       [PS_TIME_PUSH] = "push",
    [PS_TIME_BOUND] = "bound",     [PS_TIME_BARRIER] = "barrier", [PS_TIME_ALL_REDUCE] = "all-reduce",
    [PS_TIME_OTHER] = "other"};

const char *
ps_time_name(enum ps_time kind)
{
    return (unsigned)kind < PS_TIMES ? time_names[kind] : "";
}

enum ps_err
trace_recorder_check(struct ps_error *e)
{
    if (!environment_has(TIMELINE_VARIABLE) || environment_is(TIMELINE_VARIABLE, "on") ||
        environment_is(TIMELINE_VARIABLE, "off"))
        return PS_OK;
    return ps_fail(e, PS_ERR_CONFIG, TIMELINE_VARIABLE " is '%.40s'; it may be on or off", getenv(TIMELINE_VARIABLE));
}

/* ---- A thread's ---- */

static void
thread_ended(void *arg)
{
    struct trace_recorder *r = arg;

    pthread_mutex_lock(&all.mutex);
    r->ended = true;
    pthread_mutex_unlock(&all.mutex);
}

static void
begin_process(void)
{
    if (environment_is(TIMELINE_VARIABLE, "off"))
        atomic_store(&records, false);
    if (environment_read("PSD_TRACE_FILE", &all.file, NULL) != PS_OK)
        all.file = NULL; /* no memory: no trace */
    trace_origin_here(&all.origin);
    if (pthread_key_create(&at_thread_end, thread_ended) != 0)
        atomic_store(&records, false);
}

/* The recorder of a thread that has ended, when there are as many as may be. */
static struct trace_recorder *
take_over(void)
{
    for (uint32_t i = 0; i < all.threads; i++)
        if (all.thread[i]->ended)
            return all.thread[i];
    return NULL;
}

/* Pages of the kernel's own, which are there when they are written to: most threads wait for little. */
static struct trace_recorder *
make_new(void)
{
    void *r;

    if (all.threads == PS_TIMELINE_THREADS)
        return take_over();
    r = mmap(NULL, TRACE_RECORDER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == MAP_FAILED)
        return take_over();
    return all.thread[all.threads++] = r;
}

/* This thread's; NULL: it keeps none. */
static struct trace_recorder *
thread_recorder(void)
{
    struct trace_recorder *r = own_recorder;

    if (r != NULL || without)
        return r;
    pthread_once(&once, begin_process);
    pthread_mutex_lock(&all.mutex);
    if ((r = make_new()) != NULL) {
        r->task = TIMELINE_NOBODY;
        r->ended = r->begun = r->held = false;
        memset(r->waited_ns, 0, sizeof r->waited_ns);
        r->spent = (struct ps_time_spent){0};
        timeline_init(&r->timeline, r->slots, PS_TIMELINE_SPANS);
        (void)pthread_setspecific(at_thread_end, r);
    }
    pthread_mutex_unlock(&all.mutex);
    without = r == NULL;
    return own_recorder = r;
}

bool
trace_recorder_records(void)
{
    return atomic_load_explicit(&records, memory_order_relaxed);
}

void
ps_timeline_keep(int keep)
{
    pthread_once(&once, begin_process);
    atomic_store(&records, keep != 0);
}

/* ---- Recording ---- */

static const enum ps_time times[] = {[TIMELINE_PULL] = PS_TIME_PULL,       [TIMELINE_PUSH] = PS_TIME_PUSH,
                                     [TIMELINE_BOUND] = PS_TIME_BOUND,     [TIMELINE_ALL_REDUCE] = PS_TIME_ALL_REDUCE,
                                     [TIMELINE_BARRIER] = PS_TIME_BARRIER, [TIMELINE_OTHER] = PS_TIME_OTHER};

static void
trace_recorder_add(struct trace_recorder *r, enum timeline_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t step,
                   uint64_t bytes)
{
    timeline_add(&r->timeline, &(struct timeline_span){.start_ns = start_ns,
                                                       .end_ns = end_ns,
                                                       .step = step,
                                                       .bytes = bytes,
                                                       .kind = kind,
                                                       .task = TIMELINE_NOBODY});
}

static void
add_wait(struct trace_recorder *r, enum timeline_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
    r->waited_ns[times[kind]] += end_ns - start_ns;
    trace_recorder_add(r, kind, start_ns, end_ns, 0, bytes);
}

void
trace_recorder_wait(enum timeline_kind kind, uint64_t start_ns, uint64_t end_ns, uint64_t held_ns, uint64_t bytes)
{
    struct trace_recorder *r;

    if (!trace_recorder_records() || (r = thread_recorder()) == NULL)
        return;
    held_ns = MIN(held_ns, end_ns - start_ns);
    if (held_ns > 0)
        add_wait(r, TIMELINE_BOUND, start_ns, start_ns + held_ns, 0);
    if (start_ns + held_ns < end_ns)
        add_wait(r, kind, start_ns + held_ns, end_ns, bytes);
}

static void
begin_step(struct trace_recorder *r, uint64_t now_ns)
{
    r->begun = true;
    r->step_ns = now_ns;
    memset(r->waited_ns, 0, sizeof r->waited_ns);
}

static void
end_step(struct trace_recorder *r, uint64_t step, uint64_t now_ns)
{
    uint64_t waited_ns = 0, took_ns = now_ns - r->step_ns;

    for (int i = 0; i < PS_TIMES; i++) {
        waited_ns += r->waited_ns[i];
        r->spent.ns[i] += r->waited_ns[i];
    }
    r->spent.ns[PS_TIME_COMPUTE] += took_ns - MIN(waited_ns, took_ns);
    r->spent.steps++;
    trace_recorder_add(r, TIMELINE_STEP, r->step_ns, now_ns, step, 0);
}

void
trace_recorder_step(uint64_t step)
{
    struct trace_recorder *r;
    uint64_t now_ns;

    if (!trace_recorder_records() || (r = thread_recorder()) == NULL)
        return;
    now_ns = monotonic_ns();
    if (r->begun)
        end_step(r, step, now_ns);
    begin_step(r, now_ns);
}

void
trace_recorder_tick(uint64_t step)
{
    if (own_recorder == NULL || !own_recorder->held)
        trace_recorder_step(step);
}

void
trace_recorder_begin(void)
{
    struct trace_recorder *r;

    if (trace_recorder_records() && (r = thread_recorder()) != NULL)
        begin_step(r, monotonic_ns());
}

void
trace_recorder_hold(bool hold)
{
    struct trace_recorder *r = thread_recorder();

    if (r != NULL)
        r->held = hold;
}

void
ps_timeline_step(uint64_t step)
{
    trace_recorder_step(step);
}

void
ps_timeline_spent(struct ps_time_spent *out)
{
    struct trace_recorder *r = thread_recorder();

    *out = r != NULL ? r->spent : (struct ps_time_spent){0};
}

/* ---- The file ---- */

static void
add_thread(struct trace *t, const struct trace_recorder *r, uint32_t tid, struct timeline_span *room)
{
    uint64_t from = 0, added = timeline_added(&r->timeline);
    size_t n = timeline_read(&r->timeline, &from, room, PS_TIMELINE_SPANS);
    uint32_t task = r->task != TIMELINE_NOBODY ? r->task : all.task;
    char text[64];

    if (n == 0)
        return;
    snprintf(text, sizeof text, "thread %u of worker %u", tid, task);
    trace_name_thread(t, TRACE_WORKER_PID + task, tid, text);
    if (task != all.task) {
        snprintf(text, sizeof text, "worker %u", task);
        trace_name_process(t, TRACE_WORKER_PID + task, text);
    }
    trace_worker(t, TRACE_WORKER_PID + task, tid, room, n, added > n);
}

/* Within the mutex. */
static enum ps_err
write_all(const char *path, struct ps_error *e)
{
    struct timeline_span *room = malloc(PS_TIMELINE_SPANS * sizeof *room);
    struct trace t = {0};
    char text[64];
    enum ps_err err;

    snprintf(text, sizeof text, "worker %u", all.task);
    if (room == NULL || trace_init(&t, &all.origin) != PS_OK) {
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a trace");
    } else {
        trace_name_process(&t, TRACE_WORKER_PID + all.task, text);
        for (uint32_t i = 0; i < all.threads; i++)
            add_thread(&t, all.thread[i], i + 1, room);
        err = trace_write(&t, path, e);
    }
    trace_finish(&t);
    free(room);
    return err;
}

enum ps_err
ps_timeline_write(const char *path, struct ps_error *error)
{
    enum ps_err err;

    if (path == NULL)
        return ps_fail(error, PS_ERR_INVALID, "where the trace goes is NULL");
    pthread_once(&once, begin_process);
    pthread_mutex_lock(&all.mutex);
    err = write_all(path, error);
    pthread_mutex_unlock(&all.mutex);
    return err;
}

void
trace_recorder_open(uint32_t task)
{
    struct trace_recorder *r = thread_recorder();

    pthread_once(&once, begin_process);
    pthread_mutex_lock(&all.mutex);
    if (!all.named)
        all.task = task;
    all.named = true;
    all.open++;
    if (r != NULL)
        r->task = task;
    pthread_mutex_unlock(&all.mutex);
    if (r != NULL && !r->begun)
        trace_recorder_begin();
}

bool
trace_recorder_writes(void)
{
    return all.file != NULL && trace_recorder_records();
}

void
trace_recorder_knows(const struct trace_clock *clock)
{
    pthread_mutex_lock(&all.mutex);
    all.origin.clock = *clock;
    pthread_mutex_unlock(&all.mutex);
}

/* A file that cannot be written is reported, but fails nothing: training went well. */
void
trace_recorder_close(void)
{
    struct ps_error e;

    pthread_mutex_lock(&all.mutex);
    ps_assert(all.open > 0);
    if (--all.open == 0 && all.file != NULL && trace_recorder_records() && write_all(all.file, &e) != PS_OK)
        fprintf(stderr, "PSD_TRACE_FILE: %s\n", e.text);
    pthread_mutex_unlock(&all.mutex);
}
