/* psd as a process that is measured: started, found, ended. Whatever fails ends the program with a sentence. */
#ifndef TESTS_BENCH_SERVER_H
#define TESTS_BENCH_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct ps_error;

struct bench_server {
    pid_t pid;
    char address[256];
};

/* argv: psd's path and options, ended by NULL, without --ready-fd. Returns when it listens. is_unix: the address wanted
 * of those that it says. */
void bench_server_start(struct bench_server *s, const char *const *argv, bool is_unix);

/* signal: SIGTERM, SIGKILL. Waits. */
void bench_server_end(struct bench_server *s, int signal);

/* A flat directory. */
void bench_remove_dir(const char *path);

_Noreturn void bench_die(const char *what, const struct ps_error *e);

#endif
