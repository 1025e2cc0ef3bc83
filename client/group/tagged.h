/* Operations of a group that say what they are for (client/core/group/group_tag.h): as those of ps_group.h, and a
 * MISMATCH with one that looks the same and has another tag. */
#ifndef CLIENT_GROUP_TAGGED_H
#define CLIENT_GROUP_TAGGED_H

#include "client/core/group/group_tag.h"
#include "client/include/psclient/ps_group.h"

enum ps_err group_tagged_all_reduce(ps_group *g, uint64_t tag, const void *in, void *out, size_t count,
                                    enum ps_dtype dtype, enum ps_reduce reduce, ps_work **work,
                                    struct ps_error *e) PS_MUST_USE;
enum ps_err group_tagged_all_gather(ps_group *g, uint64_t tag, const void *in, void *out, size_t count,
                                    enum ps_dtype dtype, ps_work **work, struct ps_error *e) PS_MUST_USE;

#endif
