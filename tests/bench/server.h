/* psd as a process that is measured: started, found, killed, ended. A failure ends the program with a sentence, and
 * with it all that it has started and made. */
#ifndef TESTS_BENCH_SERVER_H
#define TESTS_BENCH_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/bench/bench_options.h"

struct ps_error;

#define BENCH_CLUSTER  "bench"
#define BENCH_PATH_MAX 512

struct bench_server {
    pid_t pid;
    const struct bench_options *settings;
    const char *const *more;   /* options, borrowed */
    char live[BENCH_PATH_MAX]; /* the live directory */
    char address[256], unix_address[256];
};

/* On a free port and a Unix socket, with a live directory of its own; more: options, ended by NULL. Returns when it
 * listens. */
void bench_server_start(struct bench_server *s, const struct bench_options *settings, const char *const *more);

/* The same again in the same directories, at other addresses; after bench_server_end(). */
void bench_server_again(struct bench_server *s);

/* signal: SIGTERM, SIGKILL. Waits. */
void bench_server_end(struct bench_server *s, int signal);

/* SIGTERM, and its live directory goes. */
void bench_server_stop(struct bench_server *s);

/* Bytes that a process has in memory. */
double bench_resident(pid_t pid);

/* The same without what it maps of files and of memory that others share: its heap. */
double bench_heap(pid_t pid);

/* Seconds of processor time that it has taken. */
double bench_cpu(pid_t pid);

/* A new path below one of the two directories of this run, in memory (/dev/shm) or on the disk; nothing is there yet.
 */
void bench_path(char out[BENCH_PATH_MAX], bool memory, const char *name);
void bench_remove(const char *path);

/* First of all: make the two directories. They go when the program ends, however it does: the rest of the program runs
 * in a child of this process, which waits for it, removes them and ends with its status. */
void bench_keep_clean(const char *disk);

_Noreturn void bench_die(const char *what, const struct ps_error *e);

#endif
