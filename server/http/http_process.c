/* The kernel's figures of the process, under the names that all Prometheus clients use. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/http/http_internal.h"
#include "server/process/descriptors.h"

static double
http_process_seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void
http_process_read(struct metrics_process *p)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    struct rusage usage;

    *p = (struct metrics_process){.descriptors = descriptors_open(), .descriptors_max = descriptors_max()};
    if (f != NULL && fscanf(f, "%llu %llu", &size, &resident) == 2) {
        p->virtual_bytes = size * page;
        p->resident_bytes = resident * page;
    }
    if (f != NULL)
        fclose(f);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        p->cpu_seconds = http_process_seconds(usage.ru_utime) + http_process_seconds(usage.ru_stime);
}
