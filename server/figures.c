#include "figures.h"

#include <dirent.h>
#include <sys/resource.h>

#include "peer.h"

/* Open files of this process; 0: not known. */
static uint64_t
descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n >= 3 ? n - 3 : 0; /* less ".", ".." and the directory itself */
}

static uint64_t
descriptors_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : 0;
}

void
figures_read(const struct daemon *d, struct shard_figures *out)
{
    const struct peer *p, *next;

    *out = (struct shard_figures){.in_flight_max = d->in_flight.max,
                                  .in_flight_connection_max = d->in_flight.part_max,
                                  .in_flight_waits = d->in_flight.waits,
                                  .in_flight_connection_waits = d->in_flight.part_waits,
                                  .descriptors = descriptors(),
                                  .descriptors_max = descriptors_max(),
                                  .connections_refused = d->connections_refused,
                                  .descriptors_refused = d->descriptors_refused};
    HASH_ITER (hh, d->peers, p, next)
        out->in_flight_connection = MAX(out->in_flight_connection, p->part.incoming + p->part.outgoing);
}
