/* One psd for programs that are no Check tests (benches, soak): started on a free port with a live directory of its
 * own, killed, started again, removed. A failure ends the program with a sentence.
 *
 *     struct lone_psd psd;
 *     lone_psd_start(&psd, (const char *const[]){"--memory", "64MiB", NULL});   // psd.address, psd.pid, psd.live
 *     lone_psd_kill(&psd);  lone_psd_again(&psd);                               // at the same address
 *     lone_psd_stop(&psd);
 *
 * PSD_BIN names the executable. It dies with the program. */
#ifndef TESTS_SYSTEM_LONE_PSD_H
#define TESTS_SYSTEM_LONE_PSD_H

#include <sys/types.h>

#define LONE_CLUSTER "lone"

struct lone_psd {
    pid_t pid;
    const char *const *more; /* options, borrowed */
    char dir[64], live[80], address[64];
};

void lone_psd_start(struct lone_psd *p, const char *const *more);
void lone_psd_kill(struct lone_psd *p);
void lone_psd_again(struct lone_psd *p);
void lone_psd_stop(struct lone_psd *p);

/* The program's name and a sentence, and exit 1. */
_Noreturn void lone_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
