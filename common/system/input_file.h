/* Opening a file that a person named, for reading: what is there may be a directory, or a pipe that nothing writes to.
 * Glue. */
#ifndef COMMON_SYSTEM_INPUT_FILE_H
#define COMMON_SYSTEM_INPUT_FILE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define INPUT_FILE_WAIT_MS 10000 /* for the first bytes of a pipe */

/* *fd: open, its reads block, closed by the caller. A pipe has wait_ms for its first byte, or its end. PS_ERR_IO, with
 * a sentence that begins with the path. */
enum ps_err input_file_open(const char *path, int wait_ms, int *fd, struct ps_error *e) PS_MUST_USE;

/* All of a text file, at most max bytes, into heap memory, *len bytes and one '\0' after them, freed by the caller; the
 * mark that text in UTF-8 may begin with is there still (text_lines.h passes over it). Errors have the code `code` and
 * begin with the path: it cannot be opened or read, has more bytes, is compressed or in UTF-16 (file_kind.h), or holds
 * a zero byte, whose line is named. Also PS_ERR_NOMEM. */
enum ps_err input_file_text(const char *path, size_t max, enum ps_err code, char **out, size_t *len,
                            struct ps_error *e) PS_MUST_USE;

/* The same from a descriptor; path names it in sentences. */
enum ps_err input_file_text_of(int fd, const char *path, size_t max, enum ps_err code, char **out, size_t *len,
                               struct ps_error *e) PS_MUST_USE;

#endif
