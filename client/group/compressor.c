/* All-reduce of compressed gradients, waited for: one encoded sum (encoded_sum.h), one operation of the group. */
#include <stdlib.h>

#include "client/core/reduce/encoded_sum.h"
#include "client/group/merge.h"
#include "client/include/psclient/ps_compressor.h"
#include "common/core/base/base.h"

struct ps_compressor {
    ps_group *group;
    struct encoded_sum sum;
    uint64_t sent, plain; /* bytes */
};

enum ps_err
ps_compressor_new(ps_group *group, size_t count, const struct ps_compress *how, ps_compressor **out, struct ps_error *e)
{
    struct ps_compressor *c;
    enum ps_err err;

    if (group == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a compressor needs a group");
    if ((c = calloc(1, sizeof *c)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a compressor");
    c->group = group;
    if ((err = encoded_sum_init(&c->sum, count, how, e)) != PS_OK) {
        free(c);
        return err;
    }
    *out = c;
    return PS_OK;
}

void
ps_compressor_free(ps_compressor *c)
{
    if (c == NULL)
        return;
    encoded_sum_finish(&c->sum);
    free(c);
}

/* Wait for it. A wait that ends while the work goes on is begun again: the work has a deadline of its own, which fails
 * the group. */
static enum ps_err
end_work(ps_work *work, struct ps_error *e)
{
    enum ps_err err;

    while ((err = ps_work_wait(work, -1, e)) == PS_ERR_TIMEOUT && !ps_work_test(work))
        continue;
    if (err == PS_ERR_TIMEOUT) /* of the wait, or of the work, which has ended by now */
        err = ps_work_wait(work, 0, e);
    ps_work_free(work);
    return err;
}

static enum ps_err
reduce_with_others(struct ps_compressor *c, const float *in, float *out, enum ps_reduce reduce, struct ps_error *e)
{
    struct encoded_sum *s = &c->sum;
    struct group_merge merge;
    ps_work *work;
    enum ps_err err;

    if ((err = encoded_sum_slots(s, ps_group_ranks(c->group), ps_group_rank(c->group), e)) != PS_OK)
        return err;
    encoded_sum_begin(s, in, reduce);
    merge = (struct group_merge){.in = s->out,
                                 .out = s->in,
                                 .slot = s->slot,
                                 .piece = s->piece,
                                 .elements = s->count,
                                 .reduce = reduce,
                                 .encoding = s->how.kind,
                                 .merge = encoded_sum_merge,
                                 .arg = s};
    if ((err = group_merge_start(c->group, &merge, &work, e)) != PS_OK || (err = end_work(work, e)) != PS_OK)
        return err;
    c->sent += encoded_sum_bytes(s);
    c->plain += encoded_sum_plain_bytes(s);
    return encoded_sum_end(s, out, e);
}

enum ps_err
ps_compressor_all_reduce(ps_compressor *c, const float *in, float *out, enum ps_reduce reduce, struct ps_error *e)
{
    enum ps_err err;

    if (reduce != PS_SUM && reduce != PS_MEAN)
        return ps_fail(e, PS_ERR_INVALID, "compressed gradients have a sum and a mean, no reduction %d", (int)reduce);
    if ((err = ps_group_state(c->group, e)) != PS_OK)
        return err;
    if (ps_group_ranks(c->group) == 1)
        err = encoded_sum_alone(&c->sum, in, out, e);
    else
        err = reduce_with_others(c, in, out, reduce, e);
    encoded_sum_settle(&c->sum, err == PS_OK);
    return err;
}

void
ps_compressor_bytes(const ps_compressor *c, uint64_t *sent, uint64_t *plain)
{
    *sent = c->sent;
    *plain = c->plain;
}
