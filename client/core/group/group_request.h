/* What is asked of a group: an operation, with its buffers and numbers; whether that makes sense, and what the other
 * ranks are told of it. Pure. */
#ifndef CLIENT_CORE_GROUP_GROUP_REQUEST_H
#define CLIENT_CORE_GROUP_GROUP_REQUEST_H

#include "client/core/group/group_wire.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

struct plan_plan;

struct group_request {
    uint8_t op; /* enum plan_op, or PLAN_KEY_MERGE, PLAN_KEY_SEND, PLAN_KEY_RECEIVE (plan_schedule.h) */
    const void *in;
    void *out;
    size_t count; /* elements */
    enum ps_dtype dtype;
    enum ps_reduce reduce;
    uint32_t root; /* or the other rank of a pair */
    uint64_t tag;  /* group_signature */

    /* PLAN_KEY_MERGE (plan_merge()): count is a multiple of the ranks, slots lie one behind the other. */
    size_t piece;      /* elements */
    uint8_t encoding;  /* of the parts: enum ps_compress_kind */
    uint64_t elements; /* of the gradient */
    /* Make the piece at `at` of this rank's slot of in, of what the others have there in out. Within the core's calls,
     * in whatever thread makes them: it calls nothing of the group. Returns the rank that sent nonsense, by which the
     * group fails with PROTOCOL, or PLAN_NONE. */
    uint32_t (*merge)(void *arg, size_t at);
    void *merge_arg;
};

/* Of one rank: element type and numbers are known and in range, buffers are there, aligned to their elements, and
 * either apart or in place (*in_place). PS_OK, or PS_ERR_INVALID with what is wrong. */
enum ps_err group_request_check(const struct group_request *ask, uint32_t ranks, uint32_t rank, bool *in_place,
                                struct ps_error *e) PS_MUST_USE;

/* What must be the same on all ranks. plan: by which it is carried out. */
struct group_signature group_request_signature(const struct group_request *ask, const struct plan_plan *plan);

#endif
