/* The group's side of meeting: the group's options become a rendezvous, and the loop runs until that is over. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/api/notice.h"
#include "client/group/group_state.h"
#include "client/group/rendezvous/rendezvous.h"

struct group_form {
    struct rendezvous *rendezvous;
};

/* ---- Which machine this is ---- */

static bool
read_boot(char *out, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

/* A boot of a machine, and the network that its processes see: those of two containers may have nothing in common. Code
 * that shares memory tries whether it really can. Without /proc the host is like no other. */
void
form_host(char out[GROUP_HOST_MAX])
{
    char boot[48], net[48];
    ssize_t n = readlink("/proc/self/ns/net", net, sizeof net - 1);

    net[n > 0 ? n : 0] = '\0';
    out[0] = '\0';
    if (read_boot(boot, sizeof boot) && n > 0)
        snprintf(out, GROUP_HOST_MAX, "%s %s", boot, net);
}

/* ---- Meeting ---- */

static uint64_t
random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = uv_hrtime() ^ (uint64_t)getpid() << 32;
    return seed;
}

static enum ps_err
form_prepare(ps_group *g, struct ps_error *e)
{
    struct rendezvous_config config = {.pool = &g->pool,
                                       .acceptor = &g->acceptor,
                                       .cluster = g->cluster,
                                       .credentials = &g->credentials,
                                       .name = g->options.name,
                                       .listen = g->options.listen,
                                       .congestion = g->options.congestion,
                                       .incarnation = g->options.incarnation,
                                       .seed = random_seed()};

    enum ps_err err;

    if (g->form != NULL)
        return PS_OK;
    if ((g->form = calloc(1, sizeof *g->form)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    form_host(config.host);
    if ((err = rendezvous_new(&config, &g->form->rendezvous, e)) == PS_OK)
        return PS_OK;
    free(g->form);
    g->form = NULL;
    return err;
}

static bool
has_failed(const ps_group *g)
{
    return g->core != NULL && group_core_state(g->core, NULL) != PS_OK;
}

static bool
is_over(void *arg)
{
    const ps_group *g = arg;

    return rendezvous_over(g->form->rendezvous) || has_failed(g) || group_is_interrupted(g);
}

/* The rendezvous ends itself, by the deadline. */
static void
form_wait(ps_group *g)
{
    struct notice_wait part;
    struct ps_error so_far;

    uv_update_time(&g->loop);
    notice_wait_begin(&part, uv_now(&g->loop), UINT64_MAX / 2);
    while (!group_run_until(g, is_over, g, notice_wait_until(&part)) && notice_wait_goes_on(&part, uv_now(&g->loop))) {
        if (g->options.quiet)
            continue;
        ps_error_set(&so_far, PS_ERR_TIMEOUT, "waited %llu ms for the other workers of this group",
                     (unsigned long long)(uv_now(&g->loop) - part.begun_ms));
        notice_print_wait(g->options.name, ps_cluster_task(g->cluster), &so_far);
    }
}

enum ps_err
form_meet(ps_group *g, const struct rendezvous_ask *ask, struct group_membership *out, struct ps_error *e)
{
    struct rendezvous *r;
    enum ps_err err;

    if ((err = form_prepare(g, e)) != PS_OK)
        return err;
    r = g->form->rendezvous;
    rendezvous_start(r, ask);
    form_wait(g);
    if (rendezvous_over(r) && !has_failed(g))
        return rendezvous_take(r, out, e);
    rendezvous_give_up(r);
    if (rendezvous_take(r, out, NULL) == PS_OK)
        group_membership_finish(out);
    return has_failed(g) ? group_core_state(g->core, e)
                         : ps_fail(e, PS_ERR_CANCELLED, "interrupted while it waited for the other workers");
}

static bool
is_closed(void *arg)
{
    return rendezvous_closed(arg);
}

void
form_finish(ps_group *g)
{
    if (g->form == NULL)
        return;
    rendezvous_close(g->form->rendezvous);
    (void)group_run_until(g, is_closed, g->form->rendezvous, UINT64_MAX);
    rendezvous_free(g->form->rendezvous);
    free(g->form);
    g->form = NULL;
}
