#include "client/tools/shared/heed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/core/base/base.h"

static const int heeded[] = {SIGINT, SIGTERM, SIGHUP};
static ps_client *volatile at_work;
static volatile sig_atomic_t ended_by;

static void
heed_interrupt(int sig)
{
    ended_by = sig;
    ps_client_interrupt(at_work);
}

void
heed_with(void (*on_signal)(int sig), int flags)
{
    struct sigaction was, handler = {.sa_handler = on_signal, .sa_flags = flags};

    for (size_t i = 0; i < ARRAY_LEN(heeded); i++)
        if (sigaction(heeded[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(heeded[i], &handler, NULL);
}

void
heed_signals(ps_client *client)
{
    at_work = client != NULL ? client : at_work;
    /* SA_RESTART: a file's call is not at fault. */
    heed_with(client != NULL ? heed_interrupt : SIG_DFL, (int)(SA_RESETHAND | SA_RESTART));
}

void
heed_end(const char *what, const char *where)
{
    fprintf(stderr, "psctl: given up; %s%s\n", what, where);
    (void)raise(ended_by);
}

void
heed_reader(void)
{
    if (errno != EPIPE)
        return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}
