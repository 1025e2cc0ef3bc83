/* psctl replay: psd reads the redo log, so psctl becomes psd. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psrun/launch_plan.h"
#include "client/tools/psrun/server_file.h"

#define ARGS_MAX 16

/* The path of this program, for psd beside it; "" when it is not known. */
static const char *
own_path(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    path[MAX(n, 0)] = '\0';
    return path;
}

static void
fill_args(const struct psctl *p, char until[24], const char *args[ARGS_MAX])
{
    size_t n = 0;

    args[n++] = "psd";
    args[n++] = "--replay";
    args[n++] = p->words[0];
    if (p->settings.until != 0) {
        snprintf(until, 24, "%" PRId64, p->settings.until);
        args[n++] = "--until";
        args[n++] = until;
    }
    if (p->settings.live_dir != NULL) {
        args[n++] = "--live-dir";
        args[n++] = p->settings.live_dir;
    }
    if (p->settings.listen != NULL) {
        args[n++] = "--listen";
        args[n++] = p->settings.listen;
    }
    args[n] = NULL;
}

int
psctl_replay(const struct psctl *p)
{
    char exe[PATH_MAX], until[24];
    const char *args[ARGS_MAX];
    struct strlist candidates = {0};
    const char *psd;
    struct ps_error e;

    fill_args(p, until, args);
    launch_plan_psd_candidates(NULL, getenv("PSD_BIN"), own_path(exe), getenv("PATH"), &candidates);
    if ((psd = server_file_find(&candidates, NULL, getenv("PSD_BIN"), &e)) != NULL) {
        execv(psd, (char *const *)(uintptr_t)args);
        (void)ps_fail(&e, PS_ERR_IO, "%.256s cannot be run: %s", psd, strerror(errno));
    }
    strlist_free(&candidates);
    return psctl_usage(&e);
}
