#include "tests/bench/peer_teams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer_teams_place {
    char dir[128], ranks[16];
};

static void
make_place(struct peer_teams_place *p, const char *name, uint32_t ranks, const char *dir)
{
    snprintf(p->dir, sizeof p->dir, "%s/%sXXXXXX", dir, name);
    snprintf(p->ranks, sizeof p->ranks, "%u", ranks);
    if (mkdtemp(p->dir) != NULL)
        return;
    fprintf(stderr, "bench: %s: %s\n", p->dir, strerror(errno));
    exit(1);
}

void
peer_team_start_mpi(struct bench_team *t, const char *name, uint32_t ranks, const char *dir, const char *program,
                    bool shared_memory)
{
    const char *btl = shared_memory ? "vader,self" : "tcp,self";
    struct peer_teams_place p;
    const char *argv[] = {"mpirun",
                          "--allow-run-as-root",
                          "--oversubscribe",
                          "--bind-to",
                          "none",
                          "-np",
                          p.ranks,
                          "--mca",
                          "pml",
                          "ob1",
                          "--mca",
                          "btl",
                          btl,
                          "--mca",
                          "btl_tcp_if_include",
                          "lo",
                          program,
                          p.dir,
                          NULL};

    make_place(&p, name, ranks, dir);
    team_start_program(t, name, ranks, argv, p.dir);
}

void
peer_team_start_gloo(struct bench_team *t, const char *name, uint32_t ranks, const char *dir, const char *program,
                     const char *way)
{
    struct peer_teams_place p;
    const char *argv[] = {program, p.dir, p.ranks, way, NULL};

    make_place(&p, name, ranks, dir);
    team_start_program(t, name, ranks, argv, p.dir);
}
