/* The pages that a transaction of the durable environment takes for its trees. Each operation is counted at its worst
 * before it is done: a leaf, all branches above it, a split. What was not taken is given back after it: otherwise a
 * save that writes a hundred thousand rows in one transaction would back the file for 2.7 GB of pages, and take 16 MB.
 * A transaction copies a page of a tree once, and then writes into the copy, so whatever it does there takes no more
 * than
 *
 *     the pages that the tree had      each copied
 *   + those that it has grown by       also what it grew by after it had shrunk
 *   + the pages of values outside      long rows', and all blocks'
 *
 * In the live mode little is written at a time, and a page too few would be SIGBUS: nothing is given back. */
#include "server/lmdb/store_lmdb_env.h"

static uint64_t
tree_pages(const struct store_lmdb *s, int t)
{
    MDB_stat stat = {0};

    (void)mdb_stat(s->txn, t == STORE_LMDB_BLOCKS ? s->blocks : s->tables[t], &stat);
    return stat.ms_branch_pages + stat.ms_leaf_pages;
}

static uint64_t
store_lmdb_tree_pages(const struct store_tree *tree)
{
    return MIN(tree->at_worst, tree->had + tree->grown) + tree->values;
}

void
store_lmdb_tree_touch(struct store_lmdb *s, int t)
{
    struct store_tree *tree = &s->trees[t];

    if (tree->touched || !s->durable)
        return;
    tree->touched = true;
    tree->had = tree->has = tree_pages(s, t);
}

void
store_lmdb_tree_give_back(struct store_lmdb *s, int t, uint64_t counted, uint64_t value, bool outside)
{
    struct store_tree *tree = &s->trees[t];
    uint64_t before = store_lmdb_tree_pages(tree), now, took;

    if (!s->durable)
        return;
    now = tree_pages(s, t);
    tree->grown += now > tree->has ? now - tree->has : 0;
    tree->has = now;
    tree->at_worst += counted;
    tree->values += outside ? value : 0;
    took = store_lmdb_tree_pages(tree) - before;
    store_room_give_back(&s->room, counted + value - MIN(took, counted + value));
}
