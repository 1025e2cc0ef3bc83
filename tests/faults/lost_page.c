/* A sector that cannot be read, for any program that maps a file:
 *
 *     LD_PRELOAD=<build>/tests/faults/liblost_page.so LOST_PAGE=/path/control
 *
 * When the control file holds a number, the page at that byte of whatever .../data.mdb is mapped to read (as the
 * durable environment is) cannot be had: a touch is SIGBUS, as if the disk had failed. It lies over another file that
 * has no page there. */
#undef _FILE_OFFSET_BITS /* both names of mmap are defined here: off_t has 64 bits anyway */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define PAGE   4096

typedef void *(*mmap_call)(void *, size_t, int, int, int, off_t);

/* -1: nothing is lost. */
static long
lost_at(void)
{
    const char *control = getenv("LOST_PAGE");
    int fd = control != NULL ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    char text[32] = "";

    if (fd < 0)
        return -1;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return *text != '\0' ? strtol(text, NULL, 10) : -1;
}

static int
is_data(int fd)
{
    static const char end[] = "/data.mdb";
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    return n >= (ssize_t)(sizeof end - 1) && memcmp(path + n - (sizeof end - 1), end, sizeof end - 1) == 0;
}

void PUBLIC *
mmap(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
    mmap_call next = (mmap_call)dlsym(RTLD_NEXT, "mmap");
    char *map = next(address, len, protection, flags, fd, offset);
    long at;
    int hole;

    if (map == MAP_FAILED || protection != PROT_READ || fd < 0 || !is_data(fd) || (at = lost_at()) < offset ||
        (uint64_t)(at - offset) >= len)
        return map;
    hole = memfd_create("hole", MFD_CLOEXEC);
    next(map + (at - offset), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, hole, 0);
    close(hole);
    return map;
}

void PUBLIC *
mmap64(void *address, size_t len, int protection, int flags, int fd, off_t offset)
{
    return mmap(address, len, protection, flags, fd, offset);
}
