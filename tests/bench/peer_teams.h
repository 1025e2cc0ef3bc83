/* Others' all-reduces as teams (team.h): programs that are built where their library is installed. Each call makes a
 * directory of its own below dir for the team's FIFOs, and ends the bench when it cannot. */
#ifndef TESTS_BENCH_PEER_TEAMS_H
#define TESTS_BENCH_PEER_TEAMS_H

#include <stdbool.h>

#include "tests/bench/team.h"

/* Open MPI with one transport, ranks wherever the kernel puts them, as for the others. program: mpi_team. */
void peer_team_start_mpi(struct bench_team *t, const char *name, uint32_t ranks, const char *dir, const char *program,
                         bool shared_memory);

/* program: gloo_team, whose head lists the ways. */
void peer_team_start_gloo(struct bench_team *t, const char *name, uint32_t ranks, const char *dir, const char *program,
                          const char *way);

#endif
