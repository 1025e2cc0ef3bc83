/* What the ranks started, where that is not the same: who said what, in one sentence. Ranks that started the same are
 * named together. */
#include "client/core/group/group_internal.h"
#include "common/core/base/text.h"

#define VOTE_KINDS_MAX 3 /* different operations that the sentence names */

/* Whether two differ in nothing but how they are cut into messages. */
static bool
vote_text_same_but_cut(const struct group_signature *a, const struct group_signature *b)
{
    struct group_signature c = *b;

    c.algorithm = a->algorithm;
    c.segment_bytes = a->segment_bytes;
    return group_signature_equal(a, &c) && !group_signature_equal(a, b);
}

static bool
vote_text_cut_matters(const struct group_vote *votes, uint32_t ranks)
{
    for (uint32_t a = 0; a < ranks; a++)
        for (uint32_t b = a + 1; votes[a].known && b < ranks; b++)
            if (votes[b].known && vote_text_same_but_cut(&votes[a].signature, &votes[b].signature))
                return true;
    return false;
}

static bool
vote_text_is_like(const struct group_vote *votes, uint32_t a, uint32_t b)
{
    return votes[a].known && votes[b].known && group_signature_equal(&votes[a].signature, &votes[b].signature);
}

/* The next rank from `from` on that started what `first` did; ranks: none. */
static uint32_t
vote_text_next_like(const struct group_vote *votes, uint32_t ranks, uint32_t first, uint32_t from)
{
    while (from < ranks && !vote_text_is_like(votes, first, from))
        from++;
    return from;
}

/* "rank 3", "ranks 0, 2 and 4 to 7": all that started what `first`, the lowest of them, did. */
static void
vote_text_put_ranks(struct text *t, const struct group_vote *votes, uint32_t ranks, uint32_t first)
{
    bool one = vote_text_next_like(votes, ranks, first, first + 1) == ranks;
    uint32_t next, end;

    text_put(t, one ? "rank " : "ranks ");
    for (uint32_t r = first; r < ranks; r = next) {
        for (end = r; end + 1 < ranks && vote_text_is_like(votes, first, end + 1); end++)
            continue;
        if (end < r + 2) /* two in a row are no row */
            end = r;
        next = vote_text_next_like(votes, ranks, first, end + 1);
        text_put(t, "%s%u", r == first ? "" : next == ranks ? " and " : ", ", r);
        if (end > r)
            text_put(t, " to %u", end);
    }
}

static bool
vote_text_is_first(const struct group_vote *votes, uint32_t r)
{
    return votes[r].known && vote_text_next_like(votes, r, r, 0) == r;
}

void
group_vote_text(const struct group_vote *votes, uint32_t ranks, uint64_t id, char *out, size_t size)
{
    bool cut = vote_text_cut_matters(votes, ranks);
    struct text t = text_start(out, size);
    uint32_t kinds = 0;

    text_put(&t, "operation %llu: ", (unsigned long long)(id & GROUP_NUMBER_MAX));
    for (uint32_t r = 0; r < ranks; r++) {
        char what[160];

        if (!vote_text_is_first(votes, r))
            continue;
        if (++kinds > VOTE_KINDS_MAX) {
            text_put(&t, ", others something else again");
            return;
        }
        text_put(&t, kinds > 1 ? ", " : "");
        vote_text_put_ranks(&t, votes, ranks, r);
        group_signature_text(&votes[r].signature, what, sizeof what);
        text_put(&t, " started %s", what);
        group_signature_cut_text(&votes[r].signature, what, sizeof what);
        if (cut && what[0] != '\0')
            text_put(&t, ", %s", what);
    }
}

void
group_vote_pair_text(uint32_t from, const struct group_signature *sent, uint32_t to,
                     const struct group_signature *received, uint64_t id, char *out, size_t size)
{
    struct text t = text_start(out, size);
    char is[160], was[160];

    group_signature_text(sent, is, sizeof is);
    group_signature_text(received, was, sizeof was);
    text_put(&t, "message %llu from rank %u to rank %u: rank %u sends a %s, rank %u receives a %s",
             (unsigned long long)(id & GROUP_NUMBER_MAX), from, to, from, is, to, was);
}
