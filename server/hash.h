/* uthash and utlist, with our own last words: a hash table that cannot grow stops the process. */
#ifndef SERVER_HASH_H
#define SERVER_HASH_H

#include "common/base.h"

#define uthash_fatal(text) ps_assert(!text) /* before uthash.h */

#include <uthash.h>
#include <utlist.h>

#endif
