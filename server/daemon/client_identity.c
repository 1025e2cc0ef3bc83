#include "server/daemon/client_identity.h"

#include <stdlib.h>
#include <string.h>

static struct client_identity *
client_identity_new(struct client_identity **all, const char *name, size_t len)
{
    struct client_identity *i = calloc(1, sizeof *i + len + 1);

    if (i == NULL)
        return NULL;
    i->share.eighths = CLIENT_IDENTITY_EIGHTHS;
    memcpy(i->name, name, len);
    HASH_ADD_KEYPTR(hh, *all, i->name, len, i);
    if (HASH_TOOK(i))
        return i;
    free(i);
    return NULL;
}

struct client_identity *
client_identity_take(struct client_identity **all, const char *name)
{
    size_t len = strlen(name);
    struct client_identity *i;

    HASH_FIND(hh, *all, name, len, i);
    if (i == NULL && (i = client_identity_new(all, name, len)) == NULL)
        return NULL;
    i->connections++;
    return i;
}

void
client_identity_give(struct client_identity **all, struct client_identity *i)
{
    if (i == NULL || --i->connections > 0)
        return;
    ps_assert(i->share.bytes == 0 && i->waiting.parked_bytes == 0);
    HASH_DEL(*all, i);
    free(i);
}
