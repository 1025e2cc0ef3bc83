/* A team (team.h) of gloo's ranks over loopback TCP: a comparison for libpsclient's collectives.
 *
 *     gloo_team DIR RANKS WAY      each rank finds its orders in DIR/order.RANK; rank 0 answers in DIR/answer
 *
 * WAY: "ring" is gloo::allreduce(), which a thread of gloo's drives; "ring-spin" and "halving-spin" are the algorithms
 * that it had before, AllreduceRingChunked and AllreduceHalvingDoubling, on connections that the caller itself reads
 * and writes without sleeping. */
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "tests/bench/team.h"
}

namespace
{

struct rank_state {
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::string way;
    /* The older algorithms are made for one array. */
    std::unique_ptr<gloo::Algorithm> algorithm;
    float *values = nullptr;
    uint64_t count = 0;
};

std::unique_ptr<gloo::Algorithm>
make_algorithm(const rank_state &s)
{
    std::vector<float *> all = {s.values};

    if (s.way == "ring-spin")
        return std::unique_ptr<gloo::Algorithm>(
            new gloo::AllreduceRingChunked<float>(s.context, all, static_cast<int>(s.count)));
    return std::unique_ptr<gloo::Algorithm>(
        new gloo::AllreduceHalvingDoubling<float>(s.context, all, static_cast<int>(s.count)));
}

void
all_reduce(void *state, float *values, uint64_t count)
{
    rank_state &s = *static_cast<rank_state *>(state);

    if (s.way == "ring") {
        gloo::AllreduceOptions o(s.context);

        o.setOutput(values, count); /* in place */
        o.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(gloo::sum<float>));
        gloo::allreduce(o);
        return;
    }
    if (s.values != values || s.count != count) {
        s.algorithm.reset();
        s.values = values;
        s.count = count;
        s.algorithm = make_algorithm(s);
    }
    s.algorithm->run();
}

void
connect_all(rank_state &s, const std::string &dir, int rank, int ranks)
{
    gloo::transport::tcp::attr attr("127.0.0.1");
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(dir);

    s.context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    s.context->connectFullMesh(store, device);
    for (int r = 0; r < ranks && s.way != "ring"; r++)
        if (r != rank)
            s.context->getPair(r)->setSync(true, true);
}

int
open_fifo(const std::string &path, int flags)
{
    int fd = open(path.c_str(), flags | O_CLOEXEC);

    if (fd < 0) {
        perror(path.c_str());
        exit(1);
    }
    return fd;
}

void
serve(const std::string &dir, const std::string &way, int rank, int ranks)
{
    team_kind kind = {};
    rank_state s;
    int orders, answers = -1;

    kind.all_reduce = all_reduce;
    s.way = way;
    connect_all(s, dir, rank, ranks);
    orders = open_fifo(dir + "/order." + std::to_string(rank), O_RDONLY);
    if (rank == 0)
        answers = open_fifo(dir + "/answer", O_WRONLY);
    team_serve(&kind, &s, static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks), orders, answers);
}

int
run_rank(const std::string &dir, const std::string &way, int rank, int ranks)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
        serve(dir, way, rank, ranks);
    } catch (const std::exception &e) {
        fprintf(stderr, "bench: gloo: rank %d: %s\n", rank, e.what());
        return 1;
    }
    return 0;
}

} // namespace

int
main(int argc, char **argv)
{
    int ranks = argc == 4 ? atoi(argv[2]) : 0, failed = 0;

    if (ranks < 2 || ranks > TEAM_RANKS_MAX)
        return 2;
    for (int r = 0; r < ranks; r++) {
        pid_t pid = fork();

        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0)
            _exit(run_rank(argv[1], argv[3], r, ranks)); /* gloo's threads end with the process */
    }
    for (int r = 0, status; r < ranks; r++)
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    return failed;
}
