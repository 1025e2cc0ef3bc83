/* Threads that no signal interrupts. Signals are the program's business, and its own threads get them: a handler that
 * ran on one of ours could meet it anywhere, and one that is waiting for something else may be woken for nothing. Only
 * what an instruction of the thread itself raises (SIGBUS, SIGSEGV ...) is delivered to it. */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

/* pthread_create() with the usual attributes, and its error. To be joined or detached as any other. */
int thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg);

#endif
