#include "client/tools/psrun/server_file.h"

#include <errno.h>
#include <string.h>

#include "client/tools/psrun/program_file.h"
#include "common/core/base/text.h"

#define SERVER_FILE_PLACES 400 /* characters of the places that are named */

/* "--psd /opt/psd: No such file or directory" */
static void
server_file_refuse_one(const char *source, const char *name, int failure, struct ps_error *e)
{
    (void)ps_fail(e, PS_ERR_NOT_FOUND, "%s %.256s: %s%s", source, name, strerror(failure),
                  failure == EACCES ? "; it is a directory, or needs chmod +x" : "");
}

static void
server_file_refuse_all(const struct strlist *candidates, struct ps_error *e)
{
    char places[SERVER_FILE_PLACES];
    struct text t = text_start(places, sizeof places);

    for (size_t i = 0; i < candidates->len; i++)
        text_put(&t, "%s%s", i > 0 ? ", " : "", candidates->text[i]);
    (void)ps_fail(e, PS_ERR_NOT_FOUND, "the server psd is not found; --psd PATH or PSD_BIN names it. Looked for: %s",
                  places);
}

const char *
server_file_find(const struct strlist *candidates, const char *psd, const char *psd_bin, struct ps_error *e)
{
    int failure = ENOENT;

    for (size_t i = 0; i < candidates->len; i++) {
        int found = program_file_check(candidates->text[i], ".", NULL);

        if (found == 0)
            return candidates->text[i];
        failure = found == ENOENT ? failure : found;
    }
    if (psd != NULL && strchr(psd, '/') == NULL)
        (void)ps_fail(e, PS_ERR_NOT_FOUND, "--psd %.256s: there is no such program in PATH", psd);
    else if (psd != NULL)
        server_file_refuse_one("--psd", psd, failure, e);
    else if (psd_bin != NULL && *psd_bin != '\0')
        server_file_refuse_one("PSD_BIN", psd_bin, failure, e);
    else
        server_file_refuse_all(candidates, e);
    return NULL;
}
