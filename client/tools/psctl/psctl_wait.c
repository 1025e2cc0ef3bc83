/* psctl wait: return when every shard answers. Scripts wait with it for shards that start: it says what it waits for,
 * it ends at its deadline, and it ends at once when a shard refuses, since no time mends that. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/report_fields.h"
#include "common/core/base/units.h"
#include "common/system/environment.h"
#include "common/system/now.h"

#define WAIT_ROUND_MS  250   /* from the end of one round of questions to the next */
#define WAIT_ANSWER_MS 5000  /* for an answer, in one round */
#define WAIT_REPEAT_MS 30000 /* a shard that is still missing is named again */

/* What was printed of a shard that is missing. */
struct psctl_wait_line {
    enum ps_err code; /* PS_OK: nothing yet */
    uint64_t ms;
};

struct psctl_wait {
    const struct psctl *psctl;
    struct psctl_wait_line *lines; /* [shards] */
    uint32_t shards;
    uint64_t until_ms;
};

/* May the shard answer later? Other errors are answers, which stay the same. */
static bool
psctl_wait_helps(enum ps_err code)
{
    switch (code) {
    case PS_ERR_UNREACHABLE:
    case PS_ERR_TIMEOUT:
    case PS_ERR_CLOSED:
    case PS_ERR_IO:
    case PS_ERR_DRAINING:
    case PS_ERR_LIMIT:
        return true;
    default:
        return false;
    }
}

/* The shard of another place, or of another cluster, may have the address: workers would be refused. A shard that
 * drains still answers, and is about to go. */
static enum ps_err
psctl_wait_check(const struct psctl_wait *w, struct shard_answer *a)
{
    const json_t *status = json_object_get(a->report, "status");
    uint64_t shard = field_number(status, "shard"), shards = field_number(status, "shards");
    const char *cluster = field_text(status, "cluster");

    if (shard != a->shard || shards != w->shards)
        return ps_fail(&a->error, PS_ERR_CLUSTER,
                       "it says that it is shard %" PRIu64 " of %" PRIu64 ", but is listed as shard %u of %u", shard,
                       shards, a->shard, w->shards);
    if (environment_has("PSD_CLUSTER") && !environment_is("PSD_CLUSTER", cluster))
        return ps_fail(&a->error, PS_ERR_CLUSTER, "it belongs to cluster \"%s\", PSD_CLUSTER names \"%s\"", cluster,
                       getenv("PSD_CLUSTER"));
    if (field_flag(status, "draining"))
        return ps_fail(&a->error, PS_ERR_DRAINING, "it drains");
    return PS_OK;
}

static void
psctl_wait_print(struct psctl_wait_line *line, const struct shard_answer *a)
{
    uint64_t now_ms = monotonic_ms();

    if (line->code == a->error.code && now_ms - line->ms < WAIT_REPEAT_MS)
        return;
    *line = (struct psctl_wait_line){a->error.code, now_ms};
    fprintf(stderr, "psctl: waiting for shard %u at %s: %s\n", a->shard, a->address, a->error.text);
}

/* Why the wait ends without this shard; returns the exit status. */
static int
psctl_wait_failed(const struct psctl_wait *w, const struct shard_answer *a)
{
    struct ps_error e;
    struct units units;

    if (!psctl_wait_helps(a->error.code))
        (void)ps_fail(&e, a->error.code, "shard %u at %s: %s", a->shard, a->address, a->error.text);
    else
        (void)ps_fail(&e, PS_ERR_TIMEOUT, "shard %u at %s does not answer after %s (--timeout): %s", a->shard,
                      a->address, units_exact((uint64_t)w->psctl->work_ms, units_of_ms, &units), a->error.text);
    return psctl_failed(&e);
}

/* Does a shard refuse? */
static bool
psctl_wait_refused(const struct psctl_wait *w, const struct shard_answer *answers)
{
    for (uint32_t i = 0; i < w->shards; i++)
        if (!answers[i].reached && !psctl_wait_helps(answers[i].error.code))
            return true;
    return false;
}

/* Whether the round was the last one, and with which exit status: all shards answer, one refuses, or the time is up.
 * The shards that end the wait have a sentence each. */
static bool
psctl_wait_over(struct psctl_wait *w, const struct shard_answer *answers, int *status)
{
    bool refused = psctl_wait_refused(w, answers), over = refused || monotonic_ms() >= w->until_ms;

    *status = EXIT_SUCCESS;
    for (uint32_t i = 0; i < w->shards; i++) {
        if (answers[i].reached)
            continue;
        if (!over)
            psctl_wait_print(&w->lines[i], &answers[i]);
        else if (!refused || !psctl_wait_helps(answers[i].error.code))
            *status = psctl_wait_failed(w, &answers[i]);
    }
    return over || answers_reached(answers, w->shards) == w->shards;
}

/* One round: asks all shards at once. Returns whether it was the last one. */
static bool
psctl_wait_round(struct psctl_wait *w, int *status)
{
    uint64_t now_ms = monotonic_ms(), left_ms = w->until_ms > now_ms ? w->until_ms - now_ms : 1;
    struct shard_question question = {.queries = QUERY_BIT(PS_QUERY_STATUS),
                                      .timeout_ms = (int)MIN(left_ms, (uint64_t)WAIT_ANSWER_MS)};
    struct shard_answer *answers;
    struct ps_error e;
    bool over;

    if (query_all_shards(w->psctl->cluster, 0, w->shards, &question, &answers, &e) != PS_OK) {
        *status = psctl_failed(&e);
        return true;
    }
    for (uint32_t i = 0; i < w->shards; i++)
        answers[i].reached = answers[i].reached && psctl_wait_check(w, &answers[i]) == PS_OK;
    over = psctl_wait_over(w, answers, status);
    answers_free(answers, w->shards);
    return over;
}

static void
psctl_wait_pause(void)
{
    struct timespec pause = {.tv_nsec = WAIT_ROUND_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
}

int
psctl_wait(struct psctl *p)
{
    struct psctl_wait wait = {
        .psctl = p, .shards = ps_cluster_shards(p->cluster), .until_ms = monotonic_ms() + (uint64_t)p->work_ms};
    struct ps_error e;
    int status;

    if ((wait.lines = calloc(wait.shards, sizeof *wait.lines)) == NULL) {
        (void)ps_fail(&e, PS_ERR_NOMEM, "out of memory");
        return psctl_failed(&e);
    }
    while (!psctl_wait_round(&wait, &status))
        psctl_wait_pause();
    if (status == EXIT_SUCCESS)
        printf("%u shard%s\n", wait.shards, wait.shards == 1 ? " answers" : "s answer");
    free(wait.lines);
    return status;
}
