#include "common/system/thread.h"

#include <signal.h>

#include "common/core/base/base.h"

int
thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t others, before;
    int rc;

    sigfillset(&others);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before); /* which it inherits */
    rc = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
