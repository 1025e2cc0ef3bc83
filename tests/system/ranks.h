/* The ranks of a group as processes, each forked from the test, with a given table instead of a rendezvous: they listen
 * on ports of the kernel's choice, report them to the test, and get the table of all.
 *
 *     ranks_start(&r, 4, &options, body, arg);      // body(group, arg) runs in each, formed; it ends with its return
 *     ranks_end(&r);                                // all must succeed
 *
 * In a body, need() takes the place of ck_assert(): a failure is printed, and the process ends with 1. */
#ifndef TESTS_SYSTEM_RANKS_H
#define TESTS_SYSTEM_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "client/include/psclient/ps_group.h"

#define RANKS_MAX 8

#define need(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* The call succeeds; else its error is printed. `error` is in scope. */
#define need_ok(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != PS_OK) {                                                                                         \
            fprintf(stderr, "%s:%d: %s: %s: %s (%s)\n", __FILE__, __LINE__, #call, ps_err_name(error.code),            \
                    error.text, error.peer);                                                                           \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef void (*rank_body)(ps_group *g, void *arg);

struct ranks {
    uint32_t n;
    pid_t pid[RANKS_MAX];
    int control[RANKS_MAX]; /* a socket to each */
    char address[RANKS_MAX][64];
    bool over[RANKS_MAX]; /* it was waited for */
};

/* Options may be NULL. hosts: how many machines they pretend to be on, rank r on r % hosts; 0: all on one. Returns when
 * all have received the table; the body runs when a rank is formed. */
void ranks_start(struct ranks *r, uint32_t n, uint32_t hosts, const struct ps_group_options *options, rank_body body,
                 void *arg);

/* The same with options for each rank: [n]. */
void ranks_start_with(struct ranks *r, uint32_t n, uint32_t hosts, const struct ps_group_options *const *options,
                      rank_body body, void *arg);

/* One byte from a rank's body (ranks_tell()), within a minute. */
char ranks_hear(struct ranks *r, uint32_t rank);
void ranks_say(struct ranks *r, uint32_t rank, char what);

/* In a body: one byte to the test, and from it. */
void ranks_tell(char what);
char ranks_listen(void);

/* Wait for one's end, within two minutes: its status as of waitpid(). */
int ranks_wait(struct ranks *r, uint32_t rank);

/* All that were not waited for end with 0. */
void ranks_end(struct ranks *r);

#endif
