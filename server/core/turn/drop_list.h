/* What was dropped and is not erased yet: jobs and variables that no client sees any more, with what is left of them in
 * the store. They are no longer in s->jobs and job->variables; a job keeps its id and a variable its id and its blocks
 * until they are erased, in the background (durability/drop_erase.h). The requests that wait for that are here as well.
 */
#ifndef SERVER_CORE_TURN_DROP_LIST_H
#define SERVER_CORE_TURN_DROP_LIST_H

#include "common/core/base/base.h"

struct variable;
struct job;
struct drop_waiter;

struct drop_list {
    struct variable *variables; /* work_prev, work_next */
    struct job *jobs;           /* dropped_prev, dropped_next */
    struct drop_waiter *waiters;
    uint64_t save;   /* the newest that had begun when something was dropped last, or when the shard started */
    uint64_t erased; /* how often nothing of it was left */
    bool no_room;    /* in the store, to erase: until another turn has written, or a save is asked for */
};

static inline bool
drop_list_left(const struct drop_list *l)
{
    return l->variables != NULL || l->jobs != NULL;
}

#endif
