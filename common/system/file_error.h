/* The system's error of a file: a disk or a quota that is full is PS_ERR_FULL, everything else PS_ERR_IO. Glue. */
#ifndef COMMON_SYSTEM_FILE_ERROR_H
#define COMMON_SYSTEM_FILE_ERROR_H

#include <errno.h>
#include <string.h>

#include "common/include/psclient/ps_err.h"

static inline enum ps_err
file_error_code(int error)
{
    return error == ENOSPC || error == EDQUOT ? PS_ERR_FULL : PS_ERR_IO;
}

/* "cannot write /var/lib/x: No space left on device", by errno. */
static inline enum ps_err
file_failed(struct ps_error *e, const char *what, const char *path)
{
    return ps_fail(e, file_error_code(errno), "cannot %s %.300s: %s", what, path, strerror(errno));
}

#endif
