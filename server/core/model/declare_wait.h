/* Declares and attaches that wait for the blocks of their variable (declare.h). */
#ifndef SERVER_CORE_MODEL_DECLARE_WAIT_H
#define SERVER_CORE_MODEL_DECLARE_WAIT_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;
struct connection;
struct variable;

/* In two lists: its variable's and its connection's, so that neither end of it walks over all variables. */
struct declare_waiter {
    struct connection *connection;
    struct variable *variable;
    uint64_t request;
    bool created;
    bool attach; /* wants the definition, too */
    bool gives;  /* has first values, and does not wait for them */
    uint64_t since_ms;
    struct declare_waiter *prev, *next;           /* of the variable */
    struct declare_waiter *conn_prev, *conn_next; /* of the connection */
};

/* Send DECLARED, for one that need not wait, or waits no longer. */
void declare_send(struct shard *s, const struct variable *v, const struct declare_waiter *to);

/* It waits from now on; or it is refused, when too many of its connection do. */
void declare_wait(struct shard *s, struct variable *v, const struct declare_waiter *who);

/* All blocks are there, or have got their first values, or some cannot be made: answer those that wait for no more. */
void declare_answer(struct shard *s, struct variable *v);
void declare_refuse(struct shard *s, struct variable *v, enum ps_err err);

/* All that wait for it end with this error. */
void declare_end(struct shard *s, struct variable *v, enum ps_err err, const char *text);

/* Forget declares of a connection that wait. With an error they are answered; request 0: all of them. True when there
 * was one. */
bool declare_forget(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer);

/* When the variable itself goes. */
void declare_free_waiters(struct variable *v);

#endif
