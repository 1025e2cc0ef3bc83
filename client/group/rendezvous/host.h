/* A worker that holds meetings where there are no shards: common/core/cluster/rendezvous_core.h over connections that
 * its door hands on. Glue.
 *
 *     host_init(&h, &config);
 *     door_for(door, MSG_MEET, host_guest, &h);
 *     host_come(&h, &own);                     // this worker is in its own meeting; config.met() or .failed() tells it
 *     host_send_away(&h);                      // there is a lower one: all ask there, from now on
 *     host_stay(&h);                           // guests may come again
 *     host_close(&h);                          // then the loop runs until host_closed(&h)
 *
 * Guests may come at any time, also while this worker is not in: they wait for it. */
#ifndef CLIENT_GROUP_HOST_H
#define CLIENT_GROUP_HOST_H

#include "common/core/cluster/rendezvous_core.h"
#include "common/core/wire/wire.h"
#include "common/net/conn.h"

struct host_guest;

struct host_config {
    struct conn_pool *pool;
    const char *cluster, *name; /* of the group; borrowed until host_closed() */
    uint32_t task, workers;     /* of this one */
    uint64_t seed;
    void (*met)(void *arg, const struct rendezvous_table *t); /* this worker's answer; t: valid during the call */
    void (*failed)(void *arg, const struct ps_error *why);    /* the same */
    void *arg;
};

struct host {
    struct host_config config;
    char where[64]; /* "worker 0" */
    struct rendezvous_core meet;
    struct arena arena;
    struct host_guest *guests; /* by number */
    uint64_t next_guest;
    uv_timer_t timer;
    uint32_t handles; /* that libuv still has */
    bool away;        /* guests are sent away */
    bool in;          /* this worker is in its meeting */
    bool telling;     /* answers are being handed out, further up on the stack */
};

void host_init(struct host *h, const struct host_config *config);

/* door_take for MEET; arg is the host. */
void host_guest(void *arg, struct conn *c, const struct frame_head *head, const void *meta);

/* own->conn_id is not looked at. Errors as rendezvous_core_join(). met() may come from within. */
enum ps_err host_come(struct host *h, const struct rendezvous_request *own, struct ps_error *e) PS_MUST_USE;
void host_leave(struct host *h); /* this worker; nothing when it is not in */

void host_send_away(struct host *h);
void host_stay(struct host *h);

/* Those below were asked again, and are not there: meetings that have settled begin. */
void host_begin_settled(struct host *h);

void host_close(struct host *h);
bool host_closed(const struct host *h);

#endif
