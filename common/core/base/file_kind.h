/* What a file is, by its first bytes, where text or another format was expected: other programs compress, archive and
 * encode. Pure. */
#ifndef COMMON_CORE_BASE_FILE_KIND_H
#define COMMON_CORE_BASE_FILE_KIND_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define FILE_KIND_BYTES 16 /* the first so many decide */

/* Both complete a sentence that begins with the file's name. */
struct file_kind {
    const char *what;   /* "is compressed with bzip2" */
    const char *remedy; /* "unpack it (bunzip2)" */
    bool is_gzip;
};

/* NULL: none that is known; it may be text. */
const struct file_kind *file_kind_find(const void *bytes, size_t n);

/* Bytes of the byte order mark that text in UTF-8 begins with: 3, or 0 when it has none. */
size_t file_kind_mark(const void *bytes, size_t n);

/* Refuse what cannot be text: code, with "FILE is ...: what to do". PS_OK for everything else. */
enum ps_err file_kind_check_text(const char *file, const void *bytes, size_t n, enum ps_err code,
                                 struct ps_error *e) PS_MUST_USE;

#endif
