/* A team (team.h) of MPI's ranks: a comparison for libpsclient's collectives.
 *
 *     mpirun ... mpi_team DIR        each rank finds its orders in DIR/order.RANK; rank 0 answers in DIR/answer */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/team.h"

static int
open_fifo(const char *dir, const char *what, int rank, int flags)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, rank >= 0 ? "%s/%s.%d" : "%s/%s", dir, what, rank);
    if ((fd = open(path, flags | O_CLOEXEC)) < 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return fd;
}

static void
all_reduce(void *state, float *values, uint64_t count)
{
    (void)state;
    if (MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        exit(1);
}

int
main(int argc, char **argv)
{
    static const struct team_kind kind = {.all_reduce = all_reduce};
    int rank, ranks, orders, answers = -1;

    if (argc != 2 || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    orders = open_fifo(argv[1], "order", rank, O_RDONLY);
    if (rank == 0)
        answers = open_fifo(argv[1], "answer", -1, O_WRONLY);
    team_serve(&kind, NULL, (uint32_t)rank, (uint32_t)ranks, orders, answers);
    MPI_Finalize();
    return 0;
}
