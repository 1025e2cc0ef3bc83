/* Threads that no signal interrupts. Signals are for the program, and its own threads receive them: a handler that ran
 * on a thread of the library could interrupt it anywhere, and a thread that waits could be woken for nothing. Only
 * signals that an instruction of the thread itself raises (SIGBUS, SIGSEGV ...) are delivered to it. */
#ifndef COMMON_SYSTEM_THREAD_H
#define COMMON_SYSTEM_THREAD_H

#include <pthread.h>

/* pthread_create() with the usual attributes, and its error. To be joined or detached as any other. */
int thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg);

#endif
