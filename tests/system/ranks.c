#include "tests/system/ranks.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/group/group_state.h"
#include "tests/now.h"

#define WAIT_MS 120000

static int control = -1; /* in a rank's process */

static bool
get_all(int fd, void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&p, 1, WAIT_MS) != 1 || (got = read(fd, (char *)to + at, n - at)) <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static bool
put_all(int fd, const void *from, size_t n)
{
    return send(fd, from, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* ---- In a rank ---- */

void
ranks_tell(char what)
{
    need(put_all(control, &what, 1));
}

char
ranks_listen(void)
{
    char what = 0;

    need(get_all(control, &what, 1));
    return what;
}

static void
fill_table(struct group_membership *t, uint32_t rank, uint32_t hosts, char (*address)[64])
{
    t->id = 4711;
    t->epoch = 1;
    t->rank = rank;
    for (uint32_t k = 0; k < t->ranks; k++) {
        struct group_member *m = &t->members[k];

        m->task = k;
        m->incarnation = 1000 + k;
        snprintf(m->host, sizeof m->host, "machine %u", hosts == 0 ? 0 : k % hosts);
        snprintf(m->address, sizeof m->address, "%s", address[k]);
    }
}

static _Noreturn void
rank_main(uint32_t rank, uint32_t n, uint32_t hosts, const struct ps_group_options *options, rank_body body, void *arg)
{
    struct ps_error error = {0};
    char address[RANKS_MAX][64];
    struct group_membership table;
    ps_group *g;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    need_ok(group_new("test", options, &g, &error));
    need_ok(group_listen(g, "127.0.0.1:0", &error));
    need(put_all(control, g->acceptor.address, sizeof g->acceptor.address));
    need(get_all(control, address, sizeof address));
    need_ok(group_membership_init(&table, n, &error));
    fill_table(&table, rank, hosts, address);
    need_ok(group_form(g, &table, uv_now(&g->loop) + WAIT_MS, &error));
    body(g, arg);
    ps_group_close(g);
    _exit(0);
}

/* ---- In the test ---- */

void
ranks_start_with(struct ranks *r, uint32_t n, uint32_t hosts, const struct ps_group_options *const *options,
                 rank_body body, void *arg)
{
    static_assert(sizeof r->address[0] == GROUP_ADDRESS_MAX, "an address as the acceptor has it");
    *r = (struct ranks){.n = n};
    fflush(NULL);
    for (uint32_t k = 0; k < n; k++) {
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        r->pid[k] = fork();
        ck_assert_int_ge(r->pid[k], 0);
        if (r->pid[k] == 0) {
            for (uint32_t j = 0; j < k; j++)
                close(r->control[j]);
            close(pair[0]);
            control = pair[1];
            rank_main(k, n, hosts, options[k], body, arg);
        }
        close(pair[1]);
        r->control[k] = pair[0];
    }
    for (uint32_t k = 0; k < n; k++)
        ck_assert(get_all(r->control[k], r->address[k], sizeof r->address[k]));
    for (uint32_t k = 0; k < n; k++)
        ck_assert(put_all(r->control[k], r->address, sizeof r->address));
}

void
ranks_start(struct ranks *r, uint32_t n, uint32_t hosts, const struct ps_group_options *options, rank_body body,
            void *arg)
{
    const struct ps_group_options *all[RANKS_MAX];

    for (uint32_t k = 0; k < n; k++)
        all[k] = options;
    ranks_start_with(r, n, hosts, all, body, arg);
}

char
ranks_hear(struct ranks *r, uint32_t rank)
{
    char what = 0;

    ck_assert_msg(get_all(r->control[rank], &what, 1), "rank %u says nothing", rank);
    return what;
}

void
ranks_say(struct ranks *r, uint32_t rank, char what)
{
    ck_assert(put_all(r->control[rank], &what, 1));
}

int
ranks_wait(struct ranks *r, uint32_t rank)
{
    uint64_t end = now_ms() + WAIT_MS;
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(r->pid[rank], &status, WNOHANG)) == 0 && now_ms() < end) {
        struct pollfd p = {.fd = r->control[rank], .events = 0};

        if (poll(&p, 1, 1000) > 0) /* its end of the socket has closed: it ends now */
            usleep(1000);
    }
    if (pid == 0) {
        kill(r->pid[rank], SIGKILL);
        waitpid(r->pid[rank], &status, 0);
        ck_abort_msg("rank %u does not end", rank);
    }
    ck_assert_int_eq(pid, r->pid[rank]);
    r->over[rank] = true;
    close(r->control[rank]);
    return status;
}

void
ranks_end(struct ranks *r)
{
    for (uint32_t k = 0; k < r->n; k++) {
        int status;

        if (r->over[k])
            continue;
        status = ranks_wait(r, k);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %u ended with status %#x", k, status);
    }
}
