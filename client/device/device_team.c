#include "client/device/device_team.h"

#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "common/core/base/base.h"

struct device_team {
    const struct device_team_kind *kind;
    void *state; /* the kind's */
    uint32_t ranks;
    bool idle; /* nothing was begun that is not done */
};

bool
device_team_is_known(const ps_device *d)
{
    return d->ops->team != NULL;
}

static enum ps_err
check_known(const ps_device *d, struct ps_error *e)
{
    if (d->ops->team == NULL)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "device %s has no way of its own to those of other processes", d->name);
    return PS_OK;
}

void
device_team_identity(ps_device *d, unsigned char identity[DEVICE_TEAM_IDENTITY])
{
    memset(identity, 0, DEVICE_TEAM_IDENTITY);
    if (d->ops->team != NULL)
        d->ops->team->identity(d, identity);
}

enum ps_err
device_team_id(ps_device *d, unsigned char id[DEVICE_TEAM_ID], struct ps_error *e)
{
    enum ps_err err = check_known(d, e);

    return err == PS_OK ? d->ops->team->id(d, id, e) : err;
}

enum ps_err
device_team_open(ps_device *d, const unsigned char id[DEVICE_TEAM_ID], uint32_t ranks, uint32_t rank,
                 struct device_team **out, struct ps_error *e)
{
    enum ps_err err = check_known(d, e);
    struct device_team *t;

    ps_assert(rank < ranks);
    if (err != PS_OK)
        return err;
    if ((t = calloc(1, sizeof *t)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "a team of %u devices: out of memory", ranks);
    t->kind = d->ops->team;
    t->ranks = ranks;
    if ((err = t->kind->open(d, id, ranks, rank, &t->state, e)) != PS_OK) {
        free(t);
        return err;
    }
    *out = t;
    return PS_OK;
}

void
device_team_close(struct device_team *team)
{
    if (team == NULL)
        return;
    team->kind->close(team->state);
    free(team);
}

enum ps_err
device_team_all_reduce(struct device_team *team, float *tensor, size_t elements, enum device_gang_op op,
                       struct ps_error *e)
{
    ps_assert(team->idle && elements > 0);
    team->idle = false;
    return team->kind->all_reduce(team->state, tensor, elements, op == DEVICE_GANG_MEAN ? (float)team->ranks : 1, e);
}

enum ps_err
device_team_broadcast(struct device_team *team, float *tensor, size_t elements, uint32_t root, struct ps_error *e)
{
    ps_assert(team->idle && elements > 0 && root < team->ranks);
    team->idle = false;
    return team->kind->broadcast(team->state, tensor, elements, root, e);
}

enum ps_err
device_team_poll(struct device_team *team, bool *done, struct ps_error *e)
{
    enum ps_err err = team->kind->poll(team->state, &team->idle, e);

    *done = err == PS_OK && team->idle;
    return err;
}
