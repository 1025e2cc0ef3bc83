/* What an operation is for, beside what it does: ranks that differ in it differ in the operation. Pure. */
#ifndef CLIENT_CORE_GROUP_GROUP_TAG_H
#define CLIENT_CORE_GROUP_GROUP_TAG_H

#include <stdint.h>

/* The library's own operations, which may look like one that the program has started. */
enum group_tag {
    GROUP_TAG_NONE = 0, /* the program's */
    GROUP_TAG_ADMIT = 1,
    GROUP_TAG_DEVICES = 2,
    GROUP_TAGS
};

/* A tag with this bit is a hash of what lies where in the elements. */
#define GROUP_TAG_HASH (UINT64_C(1) << 63)

#endif
