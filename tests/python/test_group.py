"""Collectives between ranks, each a process of its own or a thread."""

import asyncio
import os
import signal
import threading

import numpy
import psd
import pytest
from conftest import CLUSTER
from psd._library import lib
from wire.shards import Shards


@pytest.fixture
def ranks(one_shard):
    """ranks(n, work): what work(group) returns on each of n ranks, which are threads."""
    def run(n, work, **options):
        results = [None] * n

        def one(task):
            try:
                with psd.Group(one_shard.address, cluster=CLUSTER, workers=n, task=task, quiet=True, **{"timeout": 20, **options}) as g:
                    results[task] = work(g)
            except BaseException as e:
                results[task] = e

        threads = [threading.Thread(target=one, args=(task,)) for task in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for result in results:
            if isinstance(result, AssertionError):
                raise result
        return results

    return run


def test_an_all_reduce_is_in_place_or_elsewhere(ranks):
    def work(g):
        a = numpy.full((3, 5), g.rank + 1, "f")
        assert g.all_reduce(a) is a
        out = numpy.zeros(15, "f")
        assert g.all_reduce(a, out, reduce="mean") is out
        return a.tolist(), out.tolist()

    assert ranks(3, work) == [([[6.0] * 5] * 3, [6.0] * 15)] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
@pytest.mark.parametrize("reduce, result", [("sum", 5), ("mean", 2.5), ("min", 1), ("max", 4), ("product", 4)])
def test_every_type_is_reduced_in_every_way(ranks, dtype, reduce, result):
    def work(g):
        a = numpy.full(70, (1, 4)[g.rank], dtype)
        g.all_reduce(a, reduce=reduce)
        return set(a.tolist())

    whole = int(result) if dtype.startswith("int") else result
    assert ranks(2, work) == [{whole}] * 2


def test_parts_are_scattered_and_gathered(ranks):
    def work(g):
        a = numpy.arange(10, dtype="f")
        part = g.part(10)
        mine = g.reduce_scatter(a)
        assert mine.tolist() == (3 * a[part]).tolist()
        out = numpy.zeros(10, "f")
        out[part] = mine
        assert g.all_gather(out[part], out) is out
        rows = g.all_gather(numpy.full((2, 2), g.rank, "int64"))
        return out.tolist(), rows[:, 0, 0].tolist(), rows.shape

    assert ranks(3, work) == [([3.0 * i for i in range(10)], [0, 1, 2], (3, 2, 2))] * 3


def test_a_root_gives_and_takes(ranks):
    def work(g):
        a = numpy.full(4, g.rank, "f")
        if g.rank == 1:
            a.flags.writeable = False  # it is only read here
        g.broadcast(a, root=1)
        b = numpy.full(4, g.rank + 1, "f")
        g.reduce(b, root=0)
        g.barrier()
        return a.tolist(), b.tolist()

    assert ranks(2, work) == [([1.0] * 4, [3.0] * 4), ([1.0] * 4, [2.0] * 4)]


def test_one_rank_sends_to_another(ranks):
    def work(g):
        a, b = numpy.full(100, g.rank, "f"), numpy.zeros(100, "f")
        other = 1 - g.rank
        sent = g.send_start(a, other)
        g.receive(b, other)
        sent.wait()
        return b[99]

    assert ranks(2, work) == [1, 0]


def test_works_are_waited_for_in_any_order_and_in_coroutines(ranks):
    def work(g):
        several = [numpy.full(1000, i, "f") for i in range(20)]
        works = [g.all_reduce_start(a) for a in several]
        for w in reversed(works):
            w.wait()
        assert [a[0] for a in several] == [2 * i for i in range(20)]

        async def step():
            one, two = await asyncio.gather(g.all_reduce_start(numpy.ones(3, "f")), g.barrier_start())
            return one.tolist(), two

        return asyncio.run(step())

    assert ranks(2, work) == [([2.0] * 3, None)] * 2


def test_a_work_that_is_dropped_goes_on_with_its_array(ranks):
    def work(g):
        a = numpy.full(100000, 1, "f")
        g.all_reduce_start(a)
        del a
        b = numpy.full(100000, 2, "f")
        g.all_reduce(b)
        return b[-1]

    assert ranks(2, work) == [4, 4]


def test_nothing_and_much_are_reduced(ranks):
    def work(g):
        g.all_reduce(numpy.zeros(0, "f"))
        g.broadcast(numpy.zeros((3, 0), "f"))
        assert g.reduce_scatter(numpy.zeros(1, "f")).size == (1, 0)[g.rank]
        a = numpy.ones(3_000_001, "f")
        g.all_reduce(a)
        return a.min(), a.max()

    assert ranks(2, work) == [(2, 2)] * 2


def test_an_array_that_does_not_fit_is_refused_before_it_is_sent(ranks):
    def work(g):
        for wrong, error in ((numpy.zeros((4, 4), "f").T, TypeError), (numpy.zeros(4, "complex64"), TypeError),
                             (numpy.zeros(4, ">f4"), TypeError), ([1.0], TypeError), (numpy.zeros(3, "uint8"), TypeError)):
            with pytest.raises(error):
                g.all_reduce(wrong)
        with pytest.raises(psd.ShapeError, match="expected 4 elements of float32, got 3 of float32"):
            g.all_reduce(numpy.zeros(4, "f"), numpy.zeros(3, "f"))
        with pytest.raises(psd.ShapeError, match="this rank's part of out is"):
            g.all_gather(numpy.zeros(4, "f"), numpy.zeros(4, "f"))
        with pytest.raises(ValueError, match="there is no 'avg'; there are sum, mean"):
            g.all_reduce(numpy.zeros(4, "f"), reduce="avg")
        with pytest.raises(psd.Invalid, match="rank"):
            g.send(numpy.zeros(4, "f"), 7)
        a = numpy.full(4, numpy.nan, "f")
        g.all_reduce(a)
        return numpy.isnan(a).all()

    assert ranks(2, work) == [True, True]


def test_ranks_that_differ_get_a_mismatch_that_says_in_what(ranks):
    def work(g):
        with pytest.raises(psd.Mismatch, match="rank 0.*rank 1|rank 1.*rank 0"):
            g.all_reduce(numpy.zeros(4 + g.rank, "f"))
        with pytest.raises(psd.Mismatch):
            g.state()
        g.reform()
        a = numpy.ones(4, "f")
        g.all_reduce(a)
        return a[0], g.epoch

    (first, epoch), (second, same) = ranks(2, work)
    assert first == second == 2 and epoch == same > 1


def test_a_rank_that_left_is_named(ranks):
    def work(g):
        if g.rank == 1:
            return "left"
        with pytest.raises(ConnectionError, match="rank 1") as caught:
            g.all_reduce(numpy.zeros(4, "f"))
        return caught.value.code

    assert ranks(2, work) == ["CLOSED", "left"]


def test_with_a_progress_thread_a_group_works_by_itself(ranks):
    def work(g):
        a = numpy.ones(1000, "f")
        w = g.all_reduce_start(a)
        w.wait()
        return a[0], g.size, g.transport(1 - g.rank) in ("shm", "tcp")

    assert ranks(2, work, progress_thread=True) == [(2, 2, True)] * 2


def test_a_group_says_who_it_is(ranks):
    def work(g):
        text = repr(g)
        assert [g.task(r) for r in range(2)] == [0, 1]
        with pytest.raises(IndexError):
            g.task(2)
        g.close()
        assert g.closed and repr(g) == "<psd.Group 'group': closed>"
        with pytest.raises(psd.Closed):
            g.barrier()
        return text

    assert ranks(2, work) == ["<psd.Group 'group': rank %d of 2, epoch 1>" % r for r in range(2)]


def test_one_worker_alone_is_a_group():
    with psd.Group({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}) as g:
        a = numpy.ones(3, "f")
        g.all_reduce(a)
        assert (a.tolist(), g.rank, g.size) == ([1, 1, 1], 0, 1)


class Interrupted(Exception):
    pass


def interrupts(*_):
    raise Interrupted


def test_a_handler_that_raises_ends_a_collective_and_the_group_of_all(ranks):
    """The rank of the main thread is interrupted; the other gets an error that names it."""
    ended = []
    entered = threading.Event()

    def other(address):
        with psd.Group(address, cluster=CLUSTER, workers=2, task=1, timeout=20, quiet=True) as g:
            entered.wait()
            with pytest.raises(psd.Error) as caught:
                for _ in range(2):  # the first had all of the other rank's elements already
                    g.all_reduce(numpy.ones(4, "f"))
            ended.append(caught.value)

    with Shards(1) as shards:
        thread = threading.Thread(target=other, args=(shards.address,))
        thread.start()
        with psd.Group(shards.address, cluster=CLUSTER, workers=2, task=0, timeout=20, quiet=True) as g:
            a = numpy.ones(4, "f")

            def handler(*_):
                try:
                    g.state()
                except psd.Busy:  # it waits
                    raise Interrupted from None
                signal.setitimer(signal.ITIMER_REAL, 0.1)

            before = signal.signal(signal.SIGALRM, handler)
            with pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                g.all_reduce(a)
            a.resize(8)  # nobody has it any more
            with pytest.raises(psd.Cancelled, match="rank 0"):
                g.state()
            entered.set()
            thread.join()
        signal.signal(signal.SIGALRM, before)
    assert ended[0].code == "CANCELLED" and "rank 0" in str(ended[0])


def test_forming_is_interrupted():
    before = signal.signal(signal.SIGALRM, interrupts)
    with pytest.raises(Interrupted):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        psd.Group("127.0.0.1:1", workers=2, timeout=20, quiet=True)
    signal.signal(signal.SIGALRM, before)


def test_a_child_of_fork_may_only_close(ranks):
    def work(g):
        if g.rank == 1:
            g.barrier()
            return None
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = []
            for call in (g.barrier, lambda: g.rank, g.state, lambda: g.all_reduce(numpy.ones(3, "f")), g.reform):
                try:
                    call()
                except psd.Forked:
                    said.append("F")
            g.close()
            os.write(write, ("".join(said) + repr(g)).encode())
            os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as f:
            said = f.read()
        os.waitpid(pid, 0)
        g.barrier()
        return said

    assert ranks(2, work) == ["FFFFF<psd.Group 'group': of another process>", None]


def test_the_limits_of_groups_are_those_of_the_header():
    assert lib.PS_GROUP_RANKS_MAX == 256
