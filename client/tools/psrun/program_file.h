/* Whether the workers' program can be started, before anything else is. */
#ifndef CLIENT_TOOLS_PSRUN_PROGRAM_FILE_H
#define CLIENT_TOOLS_PSRUN_PROGRAM_FILE_H

#include <stddef.h>

/* 0, or the errno that execvp() would have: ENOENT, or EACCES for what is no program. A name without a slash is looked
 * for in path, "DIR:DIR" (NULL: not looked for, 0); another is relative to dir. */
int program_file_check(const char *program, const char *dir, const char *path);

/* What to do about that failure, as the end of a sentence: "; did you mean ./train?", or "". Returns out. */
const char *program_file_remedy(const char *program, const char *dir, int failure, char *out, size_t size);

#endif
