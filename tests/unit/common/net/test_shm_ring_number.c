/* Memory that two sides share, where its descriptor has a number that was another thread's socket: the thread sanitizer
 * sees no race, for there is none. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/net/shm_ring.h"
#include "tests/unit/kits/check_main.h"

/* Relaxed: nothing that a sanitizer takes for order between the two threads comes after the close. */
static atomic_int number = -1;
static atomic_bool shared;

/* As libuv closes. The thread lives on. */
static void *
close_unseen(void *arg)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char byte;

    (void)arg;
    (void)!read(fd, &byte, 1);
    syscall(SYS_close, fd);
    atomic_store_explicit(&number, fd, memory_order_relaxed);
    while (!atomic_load_explicit(&shared, memory_order_relaxed))
        usleep(100);
    return NULL;
}

START_TEST(a_number_that_was_another_threads_socket_is_memory_now)
{
    struct ps_error e;
    struct shm_ring s;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, close_unseen, NULL), 0);
    while (atomic_load_explicit(&number, memory_order_relaxed) < 0)
        usleep(100);
    ck_assert_msg(shm_ring_make(&s, SHM_RING_MIN, &e) == PS_OK, "%s", e.text);
    shm_ring_offered(&s);
    shm_ring_finish(&s);
    atomic_store_explicit(&shared, true, memory_order_relaxed);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("share_number");
    TCase *t = tcase_create("share_number");

    tcase_add_test(t, a_number_that_was_another_threads_socket_is_memory_now);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
