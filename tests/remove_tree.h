/* A directory and all in it, removed: what tests leave. */
#ifndef TESTS_REMOVE_TREE_H
#define TESTS_REMOVE_TREE_H

#include <ftw.h>
#include <stdio.h>

static inline int
remove_tree_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* 0, or -1: something is still there. */
static inline int
remove_tree(const char *dir)
{
    return nftw(dir, remove_tree_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
