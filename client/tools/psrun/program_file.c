#include "client/tools/psrun/program_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* len bytes of dir, a slash, and the name. */
static int
program_file_at(const char *dir, size_t len, const char *name)
{
    char file[PATH_MAX];
    struct stat st;
    int used = name[0] == '/' ? snprintf(file, sizeof file, "%s", name)
                              : snprintf(file, sizeof file, "%.*s/%s", (int)len, dir, name);

    if (used < 0 || used >= (int)sizeof file || stat(file, &st) != 0)
        return ENOENT;
    return S_ISREG(st.st_mode) && access(file, X_OK) == 0 ? 0 : EACCES;
}

/* As execvp(): what is no program hides none that comes later, but is the reason when there is none. */
int
program_file_check(const char *program, const char *dir, const char *path)
{
    int failure = ENOENT;

    if (strchr(program, '/') != NULL)
        return program_file_at(dir, strlen(dir), program);
    if (path == NULL)
        return 0;
    for (size_t len; failure != 0 && *path != '\0'; path += len + (path[len] == ':')) {
        int found;

        len = strcspn(path, ":");
        found = len > 0 ? program_file_at(path, len, program) : program_file_at(dir, strlen(dir), program);
        failure = found == ENOENT ? failure : found;
    }
    return failure;
}

const char *
program_file_remedy(const char *program, const char *dir, int failure, char *out, size_t size)
{
    int here = program_file_at(dir, strlen(dir), program);

    out[0] = '\0';
    if (failure == ENOENT && strcmp(program, "help") == 0)
        snprintf(out, size, "; psrun --help says what psrun takes");
    else if (failure == ENOENT && here == 0)
        snprintf(out, size, "; did you mean ./%s?", program);
    else if (failure == ENOENT && here == EACCES && strchr(program, '/') == NULL)
        snprintf(out, size, "; %s in the workers' directory is no program", program);
    else if (failure == EACCES)
        snprintf(out, size, "; it is a directory, or needs chmod +x");
    return out;
}
