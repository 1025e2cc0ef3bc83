"""What psd promises, through Python: kill -9, exactly once, Ctrl-C, fork."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy
import psd
import pytest
from conftest import CLUSTER, SGD

STEPS = 150

TRAINS = """
import sys
import numpy, psd
with psd.connect(sys.argv[1:], cluster=%r, workers=1, timeout=30, quiet=True, on_event=lambda event: None) as c:
    several = [c.variable("v%%d" %% i, (5000 * i + 1,), optimizer="sgd:learning_rate=1") for i in range(4)]
    while c.clock < %d:
        c.push(several, [numpy.ones(v.shape, "f") for v in several], cursor=(0, c.clock + 1))
        c.tick()
        print(c.clock, flush=True)
""" % (CLUSTER, STEPS)


def python(text, *arguments, **options):
    return subprocess.Popen([sys.executable, "-W", "error", "-c", text, *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True, **options)


def line_after(process, number):
    for line in process.stdout:
        if int(line) >= number:
            return
    raise AssertionError("it ended before")


def values_of(shards):
    with psd.connect(shards.address, cluster=CLUSTER, observer=True, timeout=20) as observer:
        return [sorted(set(observer.attach("v%d" % i).pull().tolist())) for i in range(4)]


def test_a_shard_that_is_killed_while_a_worker_trains_loses_and_repeats_nothing(two_shards):
    with python(TRAINS, *two_shards.address) as worker:
        for shard, step in ((0, 20), (1, 50), (0, 51), (1, 90)):
            line_after(worker, step)
            two_shards.kill(shard)
            two_shards.start(shard)
        worker.stdout.read()
        assert worker.wait() == 0
    assert values_of(two_shards) == [[-float(STEPS)]] * 4


def test_a_worker_that_is_killed_counts_each_step_once(one_shard):
    for step in (30, 60, 100):
        with python(TRAINS.replace("c.clock + 1)", "c.cursor.position + 1)"), *one_shard.address) as worker:
            line_after(worker, step)
            worker.kill()
            worker.stdout.read()
    with python(TRAINS.replace("c.clock + 1)", "c.cursor.position + 1)"), *one_shard.address) as worker:
        worker.stdout.read()
        assert worker.wait() == 0
    assert values_of(one_shard) == [[-float(STEPS)]] * 4


class Interrupted(Exception):
    pass


@pytest.fixture
def alarm():
    """alarm(seconds, handler): as Ctrl-C would, a signal comes while a call waits; its handler runs in Python."""
    def set_alarm(seconds, handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.getsignal(signal.SIGALRM)
    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupts(*_):
    raise Interrupted


def waits_for_nobody(client):
    client.barrier("there is nobody else", timeout=20)


def test_a_handler_that_raises_ends_a_wait_at_once(one_shard, connected, alarm):
    client = connected(one_shard, workers=2, task=0)
    w = client.variable("w", (3,), init="ones", optimizer=SGD)
    for seconds in (0.01, 0.2):  # in the first part of a wait, and in the second
        began = time.monotonic()
        with pytest.raises(Interrupted):
            alarm(seconds, interrupts)
            waits_for_nobody(client)
        assert time.monotonic() - began < 10
    assert w.push(numpy.ones(3, "f")) and w.pull().tolist() == [0, 0, 0]  # it goes on as if nothing had been


def test_a_handler_that_returns_ends_nothing(one_shard, connected, alarm):
    first, second = (connected(one_shard, workers=2, task=i) for i in range(2))
    seen = []
    alarm(0.1, lambda *_: seen.append(second.barrier_start("b")))
    first.barrier("b")
    seen[0].wait()


def test_a_handler_may_not_use_the_client_that_waits(one_shard, connected, alarm):
    client = connected(one_shard, workers=2, task=0)

    def handler(*_):
        client.stats()
        alarm(0.1, handler)  # it did not wait yet

    with pytest.raises(psd.Busy, match="a signal's handler may not use it"):
        alarm(0.1, handler)
        waits_for_nobody(client)
    assert client.stats()["pushes"] == 0


def test_an_interrupt_ends_opening_and_nothing_of_other_threads(one_shard, connected, alarm):
    first = connected(one_shard, job="threads", workers=2, task=0)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(first.barrier("b", timeout=20)))
    thread.start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        alarm(0.1, interrupts)
        psd.connect("127.0.0.1:1", cluster=CLUSTER, timeout=30, quiet=True)
    assert time.monotonic() - began < 10 and ended == []
    second = connected(one_shard, job="threads", workers=2, task=1)
    second.barrier("b")
    thread.join()
    assert ended == [None]


def test_interrupts_at_any_moment_of_steps_leave_the_client_whole(one_shard, connected, alarm):
    client = connected(one_shard)
    w = client.variable("w", (5000,), optimizer=SGD)
    pushed = unknown = 0
    for i in range(150):
        with pytest.raises(Interrupted):
            alarm(0.0001 + i % 50 * 0.00003, interrupts)
            while True:
                unknown += 1
                w.push(numpy.ones(5000, "f"))
                pushed, unknown = pushed + 1, unknown - 1
    values = set(w.pull().tolist())
    assert pushed > 0 and len(values) == 1
    assert pushed <= -values.pop() <= pushed + unknown


def test_interrupts_of_a_client_leave_a_group_of_other_threads_alone(one_shard, alarm):
    """A group's ranks are threads; a client's waits in the main thread are interrupted again and again meanwhile."""
    results = []

    def steady(task):
        with psd.Group(one_shard.address, cluster=CLUSTER, workers=2, task=task, name="steady", timeout=20, quiet=True) as g:
            a = numpy.ones(1000, "f")
            for _ in range(200):
                g.all_reduce(a, reduce="mean")
            results.append(float(a.sum()))

    threads = [threading.Thread(target=steady, args=(task,)) for task in range(2)]
    for t in threads:
        t.start()
    client = psd.connect(one_shard.address, cluster=CLUSTER, job="waits", workers=2, quiet=True)
    for _ in range(5):
        with pytest.raises(Interrupted):
            alarm(0.06, interrupts)
            waits_for_nobody(client)
    client.close()
    for t in threads:
        t.join()
    assert results == [1000.0] * 2


CTRL_C = """
import sys
import psd
with psd.connect(sys.argv[1:], cluster=%r, workers=2, quiet=True) as c:
    try:
        print(1, flush=True)
        c.barrier("there is nobody else")
    except KeyboardInterrupt:
        print(c.clock, "interrupted", flush=True)
""" % CLUSTER


def test_ctrl_c_is_a_keyboard_interrupt_and_the_client_can_still_be_closed(one_shard):
    with python(CTRL_C, *one_shard.address, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as worker:
        worker.stdout.readline()
        time.sleep(0.1)  # in the barrier, or before: either way it is interrupted
        worker.send_signal(signal.SIGINT)
        assert worker.stdout.read() == "0 interrupted\n"
        assert worker.wait() == 0


def in_child(work):
    """What a child of fork() says of itself."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, work().encode())
        except BaseException as e:
            os.write(write, ("%s: %s" % (type(e).__name__, e)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as f:
        said = f.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.parametrize("progress_thread", [False, True])
def test_a_child_of_fork_may_only_close(one_shard, connected, progress_thread):
    client = connected(one_shard, progress_thread=progress_thread)
    w = client.variable("w", (3,), optimizer=SGD)
    pending = w.push_start(numpy.ones(3, "f"))
    calls = [w.pull, lambda: w.push(numpy.ones(3, "f")), client.tick, lambda: client.clock, client.stats, client.ping, pending.wait,
             pending.done, lambda: client.attach("w"), lambda: client.variable("v", (3,), optimizer=SGD), lambda: w.versions]

    def child():
        for call in calls:
            with pytest.raises(psd.Forked, match="opened before fork"):
                call()
        assert client.closed and "of another process" in repr(client)
        client.close()
        return "closed"

    assert in_child(child) == "closed"
    assert pending.wait() and w.pull().tolist() == [-1] * 3


def test_a_child_of_fork_may_open_its_own(one_shard, connected):
    client = connected(one_shard, workers=2, task=0)
    w = client.variable("w", (3,), init="ones", optimizer=SGD)

    def child():
        with psd.connect(one_shard.address, cluster=CLUSTER, workers=2, task=1) as own:
            own.attach("w").push(numpy.ones(3, "f"))
        return "pushed"

    assert in_child(child) == "pushed"
    assert w.pull().tolist() == [0, 0, 0]


def test_a_child_that_ends_as_python_does_leaves_its_parent_alone(one_shard, connected):
    client = connected(one_shard)
    w = client.variable("w", (3,), optimizer=SGD)
    pid = os.fork()
    if pid == 0:
        del client, w
        os.execv(sys.executable, [sys.executable, "-c", "pass"])
    os.waitpid(pid, 0)
    assert w.push(numpy.ones(3, "f"))


def square(x):
    return x * x


def test_a_pool_of_forked_processes_works_beside_a_client_that_trains(one_shard, connected):
    """As torch's DataLoader has its workers."""
    client = connected(one_shard)
    w = client.variable("w", (1000,), optimizer=SGD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for i in range(20):
                batch = pool.apply_async(square, (i,))
                w.push(numpy.ones(1000, "f"))
                assert batch.get() == i * i
            pool.close()
            pool.join()
    assert set(w.pull().tolist()) == {-20.0}
