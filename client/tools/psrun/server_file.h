/* The psd that psrun and psctl run: the first of launch_plan_psd_candidates() that is a program. Glue. */
#ifndef CLIENT_TOOLS_PSRUN_SERVER_FILE_H
#define CLIENT_TOOLS_PSRUN_SERVER_FILE_H

#include "client/tools/shared/strlist.h"
#include "common/include/psclient/ps_err.h"

/* Borrowed from the candidates. psd and psd_bin: what --psd and PSD_BIN say, NULL: nothing. NULL with PS_ERR_NOT_FOUND:
 * the sentence names the one that was said and why it cannot be run, or all places that were looked at. */
const char *server_file_find(const struct strlist *candidates, const char *psd, const char *psd_bin,
                             struct ps_error *e);

#endif
