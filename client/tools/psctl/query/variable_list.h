/* The variables of a shard, as it has reported them. There may be a million: as JSON each took 2.5 KB, as a row it
 * takes 250 bytes. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_VARIABLE_LIST_H
#define CLIENT_TOOLS_PSCTL_QUERY_VARIABLE_LIST_H

#include <jansson.h>
#include <stddef.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* psd.proto's VariableReport. Texts and dims are the list's, and rows share those that are alike. */
struct variable_report {
    const char *job, *name, *optimizer, *declared;
    const uint64_t *dims; /* [rank] */
    uint32_t rank;
    uint64_t blocks, bytes, version_min, version_max, pushes, pushed_bytes, pulls, pulled_bytes, refused, dropped, ages;
    double learning_rate;
    const char *json; /* the report itself; NULL: it is not kept */
};

/* A counter of a row, by its place: variable_figure(row, offsetof(struct variable_report, pushes)). */
static inline uint64_t
variable_figure(const struct variable_report *row, size_t figure)
{
    return *(const uint64_t *)(const void *)((const char *)row + figure);
}

struct variable_chunk;

struct variable_list {
    struct variable_report *rows; /* [len] */
    size_t len, room;
    bool keeps_json;
    struct variable_chunk *chunks; /* what rows point to */
};

/* Takes a page's list of variables. False: no memory. */
bool variable_list_add(struct variable_list *list, const json_t *variables) PS_MUST_USE;

/* By job and name; after the last page. */
void variable_list_sort(struct variable_list *list);

void variable_list_free(struct variable_list *list); /* accepts NULL; the list is heap, too */

/* A row, and the shard whose it is. */
struct variable_entry {
    const struct variable_report *v;
    uint32_t shard;
};

/* The same variable, on another shard perhaps. */
bool variable_entry_same(const struct variable_entry *a, const struct variable_entry *b);

struct shard_answer;

/* All of all shards, sorted by job, name and shard; the caller frees it. NULL when out of memory, which reads as none.
 */
struct variable_entry *variable_entries(const struct shard_answer *answers, uint32_t n, size_t *len);

/* The entry of the same variable on the same shard; NULL when there is none. */
const struct variable_entry *variable_entries_find(const struct variable_entry *entries, size_t len,
                                                   const struct variable_entry *like);

#endif
