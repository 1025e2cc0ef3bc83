/* uthash and utlist. Without memory a table does not take a new entry: check HASH_TOOK() after each HASH_ADD...(). */
#ifndef COMMON_CORE_BASE_HASH_H
#define COMMON_CORE_BASE_HASH_H

#define HASH_NONFATAL_OOM 1 /* before uthash.h */

#include <uthash.h>
#include <utlist.h>

#define HASH_TOOK(item) ((item)->hh.tbl != NULL)

#endif
