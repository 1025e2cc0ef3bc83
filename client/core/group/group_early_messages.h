/* What another rank sent before this one could use it: small messages, kept as copies until the step that takes them
 * is ready, and whole operations that this rank has not started. Lists, oldest first; zeroed ones are empty. How much
 * may lie in them is for the owner to say (GROUP_AHEAD_BYTES, GROUP_AHEAD_WORKS). Pure.
 *
 *     if (!group_kept_add(&held, payload, bytes)) ...       // no memory
 *     use held.first->data, then group_kept_remove(&held)
 *
 *     early = group_early_add(&list, id, &signature, ready);
 *     ... group_kept_add(&early->kept, ...) ...
 *     early = group_early_take(&list, id);                  // it is started here: what was kept goes into its work
 *     free(early) */
#ifndef CLIENT_CORE_GROUP_GROUP_EARLY_MESSAGES_H
#define CLIENT_CORE_GROUP_GROUP_EARLY_MESSAGES_H

#include "client/core/group/group_wire.h"
#include "common/core/base/base.h"

/* A small message. */
struct group_message {
    struct group_message *next;
    uint32_t bytes;
    _Alignas(16) uint8_t data[];
};

struct group_kept {
    struct group_message *first, *last;
    uint32_t len;
};

/* A peer's announcement of an operation that this rank has not started. */
struct group_early {
    struct group_early *next;
    uint64_t id; /* as this rank names it */
    struct group_signature signature;
    uint32_t ready;
    struct group_kept kept;
};

struct group_early_list {
    struct group_early *first, *last;
    uint32_t len;
};

bool group_kept_add(struct group_kept *h, const void *payload, uint64_t bytes); /* false: no memory */
void group_kept_remove(struct group_kept *h);                                   /* the first, of one that has any */
void group_kept_clear(struct group_kept *h);

/* NULL: there is no such. */
struct group_early *group_early_find(const struct group_early_list *list, uint64_t id);

/* NULL: no memory. */
struct group_early *group_early_add(struct group_early_list *list, uint64_t id, const struct group_signature *s,
                                    uint32_t ready);

/* No longer in the list: the caller's, with what it holds. NULL: there is no such. */
struct group_early *group_early_take(struct group_early_list *list, uint64_t id);

void group_early_clear(struct group_early_list *list);

#endif
