/* Ask the shards again and again and show each round: on a terminal in place, elsewhere one block after the other.
 * Glue.
 *
 *     asking (a thread) ──answers──► draw ──► wait for the interval, a key, a signal ──► asking ...
 *
 * Shards that do not answer delay the next round, never the keys: quitting does not wait for them. */
#ifndef CLIENT_TOOLS_PSCTL_WATCH_H
#define CLIENT_TOOLS_PSCTL_WATCH_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/shared/printer.h"

struct watch {
    const ps_cluster *cluster;
    const struct shard_question *question;
    int interval_ms; /* from one round's start to the next's; one that takes longer is not hurried */
    bool in_place;   /* standard output is a terminal that can be drawn on */
    bool colour;
    bool bare;         /* no time above each block, and nothing between them */
    const char *title; /* above what is drawn in place */
    unsigned rounds;   /* how many, 0: until it is asked to end */

    /* Print to the page. before: the round before this one, NULL: none. rows: lines that fit, 0: any number. */
    void (*draw)(void *arg, const struct answer_sample *before, const struct answer_sample *now, size_t rows,
                 const struct printer *page);
    void (*key)(void *arg, char key); /* may be NULL */
    void *arg;
};

/* Until q, Ctrl-C, TERM or HUP, or until the rounds are over; PS_OK then. *last: the last round's answers, the caller's
 * to free, NULL when there was none. PS_ERR_CLOSED: standard output cannot be written to. */
enum ps_err watch_run(const struct watch *w, struct answer_sample *last, struct ps_error *e) PS_MUST_USE;

#endif
