/* The order of effects is part of the shard's behaviour: tests and simulator compare it. */
#include "server/core/shard/upcall_handlers.h"

#include "server/core/durability/drop_erase.h"
#include "server/core/shard_state.h"

/* Waiting requests are forgotten first, so that the session has nothing there any more when it is let go. */
static void
listeners_connection_forgotten(struct shard *s, struct connection *c)
{
    pull_forget(s, c);
    declare_forget(s, c, 0, PS_OK);
    assign_end(s, c, 0, PS_OK);
    save_request_end(s, c, 0, PS_OK);
    drop_erase_end(s, c, 0, PS_OK);
    durable_acks_forget(s, c);
    rendezvous_service_forget(s, c);
    if (c->session != NULL)
        session_detach(s, c->session);
}

static void
listeners_turn_full(struct shard *s)
{
    save_abandon(s, PS_ERR_FULL);
}

const struct upcalls listeners = {
    .store_full = save_make_room,
    .turn_full = listeners_turn_full,
    .connection_forgotten = listeners_connection_forgotten,
};
