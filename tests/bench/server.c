#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/ps_err.h"

#define WORDS_MAX 48

_Noreturn void
bench_die(const char *what, const struct ps_error *e)
{
    fprintf(stderr, "bench: %s: %s\n", what, e != NULL ? e->text : strerror(errno));
    exit(1);
}

static _Noreturn void
become(const char *const *argv, int ready)
{
    const char *words[WORDS_MAX];
    char option[32];
    int n = 0;

    while (argv[n] != NULL && n < WORDS_MAX - 2) {
        words[n] = argv[n];
        n++;
    }
    snprintf(option, sizeof option, "--ready-fd=%d", ready);
    words[n++] = option;
    words[n] = NULL;
    execv(argv[0], (char *const *)(uintptr_t)words);
    perror(argv[0]);
    _exit(127);
}

/* The last line that is of the wanted transport. */
static void
find_address(struct bench_server *s, int fd, bool is_unix)
{
    FILE *f = fdopen(fd, "r");
    char line[256];

    s->address[0] = '\0';
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if ((strncmp(line, "unix:", 5) == 0) == is_unix && line[0] != '\0')
            snprintf(s->address, sizeof s->address, "%s", line);
    }
    if (f != NULL)
        fclose(f);
    if (s->address[0] == '\0')
        bench_die("psd did not become ready", NULL);
}

void
bench_server_start(struct bench_server *s, const char *const *argv, bool is_unix)
{
    int fd[2];

    if (pipe2(fd, 0) < 0 || (s->pid = fork()) < 0)
        bench_die("fork", NULL);
    if (s->pid == 0) {
        close(fd[0]);
        become(argv, fd[1]);
    }
    close(fd[1]);
    find_address(s, fd[0], is_unix);
}

void
bench_server_end(struct bench_server *s, int signal)
{
    kill(s->pid, signal);
    waitpid(s->pid, NULL, 0);
}

void
bench_remove_dir(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            (void)unlinkat(dirfd(d), entry->d_name, 0);
    if (d != NULL)
        closedir(d);
    if (rmdir(path) < 0 && errno != ENOENT)
        fprintf(stderr, "bench: could not remove %s: %s\n", path, strerror(errno));
}
