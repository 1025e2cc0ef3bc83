#include "client/tools/shared/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/core/base/base.h"

static const int interrupt_watched[] = {SIGINT, SIGTERM, SIGHUP};
static ps_client *volatile interrupt_client;
static volatile sig_atomic_t interrupt_signal;

static void
heed_interrupt(int sig)
{
    interrupt_signal = sig;
    ps_client_interrupt(interrupt_client);
}

void
heed_with(void (*on_signal)(int sig), int flags)
{
    struct sigaction was, handler = {.sa_handler = on_signal, .sa_flags = flags};

    for (size_t i = 0; i < ARRAY_LEN(interrupt_watched); i++)
        if (sigaction(interrupt_watched[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(interrupt_watched[i], &handler, NULL);
}

void
interrupt_signals(ps_client *client)
{
    interrupt_client = client != NULL ? client : interrupt_client;
    /* SA_RESTART: calls on files are not to fail. */
    heed_with(client != NULL ? heed_interrupt : SIG_DFL, (int)(SA_RESETHAND | SA_RESTART));
}

void
interrupt_end(const char *what, const char *where)
{
    fprintf(stderr, "psctl: given up; %s%s\n", what, where);
    (void)raise(interrupt_signal);
}

void
interrupt_reader_gone(void)
{
    if (errno != EPIPE)
        return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}
