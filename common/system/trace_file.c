#include "common/system/trace_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/file_error.h"
#include "common/system/now.h"

void
trace_machine(char out[TRACE_MACHINE_MAX])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    out[0] = '\0';
    if (f == NULL)
        return;
    if (fgets(out, TRACE_MACHINE_MAX, f) == NULL)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

void
trace_origin_here(struct trace_origin *out)
{
    *out = (struct trace_origin){.origin_ns = monotonic_ns(), .wall_ns = (int64_t)unix_ns()};
    trace_machine(out->machine);
}

/* NULL: errno says why. */
static FILE *
open_in_dir(const char *path)
{
    char dir[PATH_MAX];
    FILE *f = fopen(path, "we");
    char *slash;

    if (f != NULL || errno != ENOENT)
        return f;
    snprintf(dir, sizeof dir, "%s", path);
    if ((slash = strrchr(dir, '/')) != NULL && slash != dir) {
        *slash = '\0';
        (void)mkdir(dir, 0777);
    }
    return fopen(path, "we");
}

static enum ps_err
write_text(const char *path, const char *text, struct ps_error *e)
{
    FILE *f = open_in_dir(path);
    enum ps_err err;
    bool well;

    if (f == NULL)
        return file_failed(e, "write", path);
    well = fputs(text, f) >= 0 && fputc('\n', f) != EOF;
    if (fclose(f) == 0 && well)
        return PS_OK;
    err = file_failed(e, "write", path);
    unlink(path);
    return err;
}

enum ps_err
trace_write(const struct trace *t, const char *path, struct ps_error *e)
{
    char beside[PATH_MAX], *text;
    enum ps_err err;

    if (snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid()) >= (int)sizeof beside)
        return ps_fail(e, PS_ERR_INVALID, "the path of the trace is longer than %d bytes", PATH_MAX - 12);
    if ((text = trace_text(t)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a trace");
    if ((err = write_text(beside, text, e)) == PS_OK && rename(beside, path) != 0) {
        err = file_failed(e, "rename", beside);
        unlink(beside);
    }
    free(text);
    return err;
}
