/* /proc/self/cgroup names the groups of this process, /proc/self/mountinfo where their files are; cgroups(7). */
#include "common/system/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 8192
/* Version 1 writes the largest number of whole pages where there is no limit. */
#define V1_NO_LIMIT ((uint64_t)1 << 62)
#define CORES_MAX   (1 << 20)

/* ---- Files of one group ---- */

/* A line of a file in a group's directory. */
static bool
cgroup_line(const char *dir, const char *name, char line[128])
{
    char path[PATH_MAX + 64];
    FILE *f;
    bool read;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if ((f = fopen(path, "re")) == NULL)
        return false;
    read = fgets(line, 128, f) != NULL;
    fclose(f);
    return read;
}

/* "max" is no number: no limit. */
static bool
cgroup_number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && errno == 0 && *text != '-';
}

static void
cgroup_lower(const char *root, const char *dir, const char *name, uint64_t found, uint64_t *limit, char *file)
{
    if (found >= *limit)
        return;
    *limit = found;
    snprintf(file, CGROUP_FILE_MAX, "%.*s/%s", CGROUP_FILE_MAX - 40, dir + strlen(root), name);
}

static void
cgroup_memory_file(const char *root, const char *dir, const char *name, struct cgroup_limits *out)
{
    char line[128];
    uint64_t bytes;

    if (cgroup_line(dir, name, line) && cgroup_number(line, &bytes) && bytes < V1_NO_LIMIT)
        cgroup_lower(root, dir, name, bytes, &out->memory_bytes, out->memory_file);
}

/* Past memory.high the kernel slows the group down until it has given memory back, which tmpfs never does. */
static void
cgroup_memory(const char *root, const char *dir, struct cgroup_limits *out)
{
    cgroup_memory_file(root, dir, "memory.max", out);
    cgroup_memory_file(root, dir, "memory.high", out);
    cgroup_memory_file(root, dir, "memory.limit_in_bytes", out);
}

static void
cgroup_quota(const char *root, const char *dir, const char *name, uint64_t quota_us, uint64_t period_us,
             struct cgroup_limits *out)
{
    if (period_us == 0 || quota_us > UINT64_MAX / CGROUP_CPU_WHOLE)
        return;
    cgroup_lower(root, dir, name, quota_us * CGROUP_CPU_WHOLE / period_us, &out->cpu_millis, out->cpu_file);
}

static void
cgroup_cpu(const char *root, const char *dir, struct cgroup_limits *out)
{
    char line[128], period[128];
    uint64_t quota_us, period_us;

    if (cgroup_line(dir, "cpu.max", line) && cgroup_number(line, &quota_us) &&
        cgroup_number(line + strcspn(line, " "), &period_us))
        cgroup_quota(root, dir, "cpu.max", quota_us, period_us, out);
    if (cgroup_line(dir, "cpu.cfs_quota_us", line) && cgroup_number(line, &quota_us) &&
        cgroup_line(dir, "cpu.cfs_period_us", period) && cgroup_number(period, &period_us))
        cgroup_quota(root, dir, "cpu.cfs_quota_us", quota_us, period_us, out);
}

/* ---- The way up ---- */

enum { CGROUP_MEMORY = 1, CGROUP_CPU = 2 };

/* From the group's directory up to the mount point, which is the last. */
static void
cgroup_walk(const char *root, char *dir, size_t mount_len, int which, struct cgroup_limits *out)
{
    for (;;) {
        char *slash;

        if ((which & CGROUP_MEMORY) != 0)
            cgroup_memory(root, dir, out);
        if ((which & CGROUP_CPU) != 0)
            cgroup_cpu(root, dir, out);
        slash = strrchr(dir, '/');
        if (slash == NULL || (size_t)(slash - dir) < mount_len)
            return;
        *slash = '\0';
    }
}

/* Whether a list of words with commas between them has this one. */
static bool
cgroup_has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (; *list != '\0'; list += *list == ',') {
        size_t n = strcspn(list, ",\n ");

        if (n == len && strncmp(list, word, len) == 0)
            return true;
        list += n;
        if (*list != ',')
            return false;
    }
    return false;
}

static int
cgroup_controllers(const char *list)
{
    return (cgroup_has_word(list, "memory") ? CGROUP_MEMORY : 0) | (cgroup_has_word(list, "cpu") ? CGROUP_CPU : 0);
}

/* The group's path below the mount's root. "" where the mount shows another part of the tree: its own top then. */
static const char *
cgroup_below(const char *path, const char *mount_root)
{
    size_t len = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

    if (strstr(path, "/..") != NULL || strncmp(path, mount_root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return "";
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

/* The group of this process at a mount: version 2's line is "0::PATH", version 1's "N:CONTROLLERS:PATH". */
static void
cgroup_at_mount(const char *root, const char *mount_root, const char *mount_point, bool v2, int which,
                struct cgroup_limits *out)
{
    char line[LINE_MAX_BYTES], dir[PATH_MAX];
    FILE *f;

    snprintf(dir, sizeof dir, "%s/proc/self/cgroup", root);
    if ((f = fopen(dir, "re")) == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL) {
        char *list = strchr(line, ':'), *path = list != NULL ? strchr(list + 1, ':') : NULL;
        int len;

        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (v2 ? list[1] != '\0' : (cgroup_controllers(list + 1) & which) == 0)
            continue;
        len = snprintf(dir, sizeof dir, "%s%s%s", root, mount_point, cgroup_below(path, mount_root));
        if (len > 0 && (size_t)len < sizeof dir)
            cgroup_walk(root, dir, strlen(root) + strlen(mount_point), which, out);
    }
    fclose(f);
}

/* A line of mountinfo: "ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS...] - TYPE SOURCE SUPER"; see proc(5). */
static void
cgroup_mount(const char *root, char *line, struct cgroup_limits *out)
{
    char mount_root[PATH_MAX], point[PATH_MAX], type[32], super[1024];
    const char *behind = strstr(line, " - ");

    if (behind == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", mount_root, point) != 2 ||
        sscanf(behind, " - %31s %*s %1023s", type, super) != 2)
        return;
    if (strcmp(type, "cgroup2") == 0)
        cgroup_at_mount(root, mount_root, point, true, CGROUP_MEMORY | CGROUP_CPU, out);
    else if (strcmp(type, "cgroup") == 0 && cgroup_controllers(super) != 0)
        cgroup_at_mount(root, mount_root, point, false, cgroup_controllers(super), out);
}

void
cgroup_limits_read(const char *root, struct cgroup_limits *out)
{
    char line[LINE_MAX_BYTES];
    FILE *f;

    *out = (struct cgroup_limits){.memory_bytes = CGROUP_NO_LIMIT, .cpu_millis = CGROUP_NO_LIMIT};
    snprintf(line, sizeof line, "%s/proc/self/mountinfo", root);
    if ((f = fopen(line, "re")) == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL)
        cgroup_mount(root, line, out);
    fclose(f);
}

/* ---- Processors ---- */

/* The kernel refuses a set that has fewer places than it knows processors. */
static unsigned
cgroup_cores_allowed(void)
{
    unsigned found = 0;

    for (int places = CPU_SETSIZE; found == 0 && places <= CORES_MAX; places *= 2) {
        cpu_set_t *set = CPU_ALLOC(places);

        if (set != NULL && sched_getaffinity(0, CPU_ALLOC_SIZE(places), set) == 0)
            found = (unsigned)CPU_COUNT_S(CPU_ALLOC_SIZE(places), set);
        CPU_FREE(set);
    }
    return MAX(found, 1U);
}

unsigned
cgroup_cores(void)
{
    struct cgroup_limits limits;

    cgroup_limits_read("", &limits);
    return (unsigned)MAX(MIN((uint64_t)cgroup_cores_allowed(), limits.cpu_millis / CGROUP_CPU_WHOLE), (uint64_t)1);
}
