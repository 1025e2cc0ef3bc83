/* A job's weights as one safetensors file: pulled from the shards, or taken out of a checkpoint. Values are pulled into
 * a mapping of the file itself and copied in pieces, so that a model may be larger than memory. The file appears whole
 * or not at all. Glue. */
#ifndef CLIENT_TOOLS_PSCTL_EXPORT_H
#define CLIENT_TOOLS_PSCTL_EXPORT_H

#include <stdbool.h>

#include "client/include/psclient/psclient.h"

struct export_report {
    char job[PS_NAME_MAX + 1];
    uint64_t variables, bytes;
    uint64_t changed; /* blocks that were updated while it was written: they may be of different moments */
    uint64_t clock;   /* of a checkpoint */
    bool one_moment;  /* all of it is of one clock, or nothing changed */
};

/* client: an observer of the job, of which names [n], sorted and each once, are variables. timeout_ms: of each
 * pull, of one large variable or many small ones. When all are there, the shards are asked once more for what has
 * changed. */
enum ps_err export_pull(ps_client *client, const char *job, size_t n, const char *const *names, const char *file,
                        int timeout_ms, struct export_report *report, struct ps_error *e) PS_MUST_USE;

/* path: the checkpoint's directory or DIR/latest, whose weights are first verified by their checksum. pattern: of the
 * variables' names, NULL: all; NOT_FOUND: none matches. */
enum ps_err export_checkpoint(const char *path, const char *pattern, const char *file, struct export_report *report,
                              struct ps_error *e) PS_MUST_USE;

#endif
