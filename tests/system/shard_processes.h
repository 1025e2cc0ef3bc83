/* Real psd processes for a system test: started on free ports of the loopback interface, each with a live directory of
 * its own in memory, and gone when the test is.
 *
 *     struct shards s;
 *     shards_start(&s, 2);             // s.addresses: "127.0.0.1:4001,127.0.0.1:4002"
 *     ...
 *     shards_kill(&s, 1);              // as a crash would
 *     shards_restart(&s, 1);           // at the same address, over the same live directory
 *     shards_stop(&s);
 *
 * PSD_BIN names the executable; without it, build/server/psd. */
#ifndef TESTS_SYSTEM_SHARD_PROCESSES_H
#define TESTS_SYSTEM_SHARD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARDS_MAX     8
#define SHARDS_CLUSTER "test"

struct shards_options {
    const char *where;       /* the directory that theirs are made in; NULL: one in memory */
    const char *const *more; /* more of psd's options, which go before those given here: {"--grace", "60s", NULL} */
    bool durable;            /* each has a durable directory "N.disk" beside its live one, which is "N" */
    bool log;                /* each one's log goes to a file: shards_log() */

    /* Listening sockets, handed to each shard as systemd does. */
    const int *handed;
    int handed_len;
    const char *handed_names; /* LISTEN_FDNAMES, or NULL */
};

struct shards {
    uint32_t count;
    struct shards_options options;
    pid_t pids[SHARDS_MAX];          /* 0: killed, or ended */
    char directory[128];             /* holds the live directories */
    char addresses[SHARDS_MAX * 64]; /* separated by commas */
    char address[SHARDS_MAX][64];    /* of each */
    char sockets[SHARDS_MAX * 160];  /* the same shards as "unix:/path,..." */
};

/* Processes that are started from now on load the library that this variable names first; AddressSanitizer, which
 * checks that it is loaded first, is told to accept that. */
void shards_preload(const char *variable);

/* Fails the running Check test when a shard does not start. */
void shards_start(struct shards *s, uint32_t count);

/* The same with options; what they point to is borrowed until shards_stop(). */
void shards_start_with(struct shards *s, uint32_t count, const struct shards_options *options);

/* Has a shell run this command line (printf's); its exit status, -1 when a signal ended it. For programs beside shards.
 */
__attribute__((format(printf, 1, 2))) int shards_shell(const char *format, ...);

/* KILL and wait. */
void shards_kill(struct shards *s, uint32_t shard);

/* The same, and its memory is gone: the live directory with all in it. */
void shards_lose_power(struct shards *s, uint32_t shard);

/* It ends by itself: wait, and assert that it exited with 0. */
void shards_wait(struct shards *s, uint32_t shard);

/* Start one that was killed, or has ended, again. */
void shards_restart(struct shards *s, uint32_t shard);

/* The same for one that ends before it listens: its exit status, -N for signal N. */
int shards_refused(struct shards *s, uint32_t shard);

/* Start one that may end before it listens: 0, or its exit status, -N for signal N. */
int shards_try(struct shards *s, uint32_t shard);

/* A shard's log, over all its lives; valid until the next call. */
const char *shards_log(const struct shards *s, uint32_t shard);
bool shards_said(const struct shards *s, uint32_t shard, const char *text);

/* Mappings of memory that this process shares with shards. */
int shards_maps(void);

/* HUP, and wait until this is in the shard's log, even from before. */
void shards_hang_up(const struct shards *s, uint32_t shard, const char *text);

/* Options for shards_options.more: both lists, which end with NULL, copied one behind the other. Valid until the next
 * call. */
const char *const *shards_words(const char *const *first, const char *const *then);

/* TERM, wait, and assert that each that runs exited with 0; remove the directories. Accepts zeroed ones, and those that
 * were stopped. */
void shards_stop(struct shards *s);

#endif
