/* Threads that receive no signals: their masks, that a signal goes to the thread that started them, and signals that
 * they raise themselves. */
#include "common/system/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

static atomic_uint heard_by_starter, heard_by_other;
static pthread_t starter;

static void
on_signal(int number)
{
    (void)number;
    if (pthread_equal(pthread_self(), starter))
        heard_by_starter++;
    else
        heard_by_other++;
}

static void *
read_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return NULL;
}

START_TEST(signals_are_blocked_but_those_of_its_own_making)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    static const int others[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE};
    sigset_t mask, before, after;
    pthread_t thread;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ck_assert_int_eq(thread_start(&thread, read_mask, &mask), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        ck_assert_int_eq(sigismember(&mask, own[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        ck_assert_int_eq(sigismember(&mask, others[i]), 1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < SIGRTMAX; i++)
        ck_assert_int_eq(sigismember(&after, i), sigismember(&before, i));
}
END_TEST

static void *
read_all(void *fd)
{
    char byte;

    while (read(*(int *)fd, &byte, 1) > 0)
        ;
    raise(SIGSEGV);
    return NULL;
}

/* The kernel prefers the main thread, so this one waits for nothing else while the other could be chosen. */
START_TEST(a_signal_of_the_process_is_its_starters)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t term, before;
    pthread_t thread;
    int ends[2];

    starter = pthread_self();
    ck_assert_int_eq(sigaction(SIGTERM, &action, NULL), 0);
    ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(thread_start(&thread, read_all, &ends[0]), 0);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    for (unsigned i = 1; i <= 20; i++) {
        ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
        sigsuspend(&before);
        ck_assert_uint_eq(heard_by_starter, i);
    }
    ck_assert_uint_eq(heard_by_other, 0);
    close(ends[1]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(heard_by_other, 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("thread");
    TCase *t = tcase_create("thread");

    tcase_add_test(t, signals_are_blocked_but_those_of_its_own_making);
    tcase_add_test(t, a_signal_of_the_process_is_its_starters);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
