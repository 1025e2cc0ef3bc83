/* The command stands at the end, whatever the names' lengths: what differs is cut to the room that is left. */
#include "server/core/turn/mismatch.h"

#include <stdio.h>
#include <string.h>

enum ps_err
mismatch_refuse(struct ps_error *e, const char *job, const char *variable, const char *had, const char *differences)
{
    char what[96], command[192];
    size_t taken;

    snprintf(what, sizeof what, "%s '%.64s'", variable != NULL ? "variable" : "job", variable != NULL ? variable : job);
    if (variable != NULL)
        snprintf(command, sizeof command, "psctl drop --job %.64s --variables '%.64s'", job, variable);
    else
        snprintf(command, sizeof command, "psctl drop --job %.64s", job);
    taken = strlen(what) + strlen(had) + strlen(command) + sizeof "  ; to begin anew: ";
    return ps_fail(e, PS_ERR_MISMATCH, "%s %s %.*s; to begin anew: %s", what, had, (int)(PS_ERROR_TEXT_MAX - taken),
                   differences, command);
}
