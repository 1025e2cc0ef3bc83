"""A worker on real shards: what each call does and raises."""

import array
import asyncio
import gc
import logging
import threading
import warnings

import numpy
import psd
import pytest
from conftest import CLUSTER, SGD
from wire.shards import Shards


def test_a_push_is_applied_and_pulled(worker):
    w = worker.variable("w", (64, 10), init="glorot_uniform", optimizer="sgd:learning_rate=0.5")
    before = w.pull()
    assert before.shape == (64, 10) and before.dtype == "float32" and before.std() > 0
    assert w.push(numpy.ones((64, 10), "f")) is True
    assert numpy.array_equal(w.pull(), before - numpy.float32(0.5))
    assert w.versions == (1, 1)


def test_lists_of_variables_go_in_one_call(worker):
    several = [worker.variable("v%d" % i, (i + 1,), init="constant:%d" % i, optimizer=SGD) for i in range(4)]
    worker.push(several, [numpy.full(i + 1, 0.5, "f") for i in range(4)])
    values = worker.pull(several)
    assert [v.tolist() for v in values] == [[i - 0.5] * (i + 1) for i in range(4)]
    out = [numpy.zeros(i + 1, "f") for i in range(4)]
    assert worker.pull(several, out)[3] is out[3] and out[3][0] == 2.5
    with pytest.raises(ValueError, match="4 variables and 3 gradients"):
        worker.push(several, out[:3])
    with pytest.raises(ValueError):
        worker.pull([])


def test_values_come_into_the_array_that_is_given(worker):
    w = worker.variable("w", (2, 3), init="ones", optimizer=SGD)
    out = numpy.zeros((5, 3), "f")
    part = out[1:3]
    assert w.pull(part) is part
    assert out.tolist() == [[0] * 3, [1] * 3, [1] * 3, [0] * 3, [0] * 3]
    flat = array.array("f", [0] * 6)
    assert w.push_pull(numpy.full((2, 3), 0.25, "f"), flat) is flat
    assert flat.tolist() == [0.75] * 6


def test_a_scalar_is_a_variable(worker):
    s = worker.variable("s", init="constant:2.5", optimizer=SGD)
    assert (s.shape, s.size) == ((), 1)
    assert s.pull().shape == () and s.pull() == 2.5
    s.push(numpy.array(1, "f"))
    assert s.pull() == 1.5


@pytest.mark.parametrize("init, low, high", [("zeros", 0, 0), ("ones", 1, 1), ("constant:-3", -3, -3), ("uniform", -0.05, 0.05),
                                             ("uniform:low=2,high=3", 2, 3), ("uniform:2,3", 2, 3),
                                             ("truncated_normal:mean=10,stddev=0.5", 9, 11)])
def test_first_values_are_those_of_the_initializer(worker, init, low, high):
    values = worker.variable("w", (1000,), init=init, optimizer=SGD).pull()
    assert low <= values.min() and values.max() <= high and (low == high or values.std() > 0)


@pytest.mark.parametrize("options, says", [({"init": "glorot"}, "init: there is no 'glorot'; there are zeros"),
                                           ({"init": "uniform:top=3"}, "'top=3' is none of its parameters, which are: low, high"),
                                           ({"init": "constant:x"}, "'x' is no number"),
                                           ({"optimizer": "adamm"}, "adamm"),
                                           ({"shape": (1,) * 9}, "at most 8 dimensions, not 9"),
                                           ({"shape": (0, 3)}, "w"),
                                           ({"name": "w\0"}, "zero byte"),
                                           ({"name": ""}, "name")])
def test_a_declaration_that_is_not_valid_is_a_value_error(worker, options, says):
    with pytest.raises(ValueError, match=says):
        worker.variable(**{"name": "w", "shape": (3,), "optimizer": SGD, **options})


def test_another_declaration_is_a_mismatch(worker):
    first = worker.variable("w", (3,), optimizer=SGD)
    assert worker.variable("w", (3,), optimizer=SGD) is first
    with pytest.raises(psd.Mismatch, match="w"):
        worker.variable("w", (4,), optimizer=SGD)


def test_an_observer_attaches_and_may_not_push(worker, one_shard, connected):
    worker.variable("w", (3,), init="ones", optimizer=SGD)
    observer = connected(one_shard, observer=True)
    w = observer.attach("w")
    assert (w.shape, w.pull().tolist()) == ((3,), [1, 1, 1])
    with pytest.raises(psd.Invalid, match="observer"):
        w.push(numpy.ones(3, "f"))
    with pytest.raises(LookupError, match="no-such"):
        observer.attach("no-such")


def test_nan_is_refused_and_changes_nothing(worker):
    w = worker.variable("w", (3,), init="ones", optimizer=SGD)
    for bad in (numpy.nan, numpy.inf):
        with pytest.raises(psd.NonFinite, match="w") as caught:
            w.push(numpy.array([0, bad, 0], "f"))
        assert isinstance(caught.value, ValueError) and "shard 0" in caught.value.peer
    assert w.pull().tolist() == [1, 1, 1]


def test_a_wrong_array_is_refused_before_anything_is_pushed(worker):
    w = worker.variable("w", (4, 4), optimizer=SGD)
    for wrong in (numpy.ones((4, 4)), numpy.ones((4, 8), "f")[:, ::2], numpy.ones((4, 4), ">f4"), [[1.0] * 4] * 4):
        with pytest.raises(TypeError, match="gradient of w"):
            w.push(wrong)
    frozen = numpy.zeros((4, 4), "f")
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="out of w: it may not be written to"):
        w.pull(frozen)
    w.push(frozen)
    assert w.pull().sum() == 0 and worker.stats()["pushes"] == 1


def test_a_variable_of_another_client_is_refused(worker, one_shard, connected):
    other = connected(one_shard, job="other")
    w = other.variable("w", (3,), optimizer=SGD)
    with pytest.raises(ValueError, match="another client"):
        worker.pull(w)
    with pytest.raises(TypeError, match="expected a psd.Variable, got str"):
        worker.pull("w")


def test_a_large_variable_goes_whole(two_shards, connected):
    client = connected(two_shards)
    w = client.variable("w", (3000, 1001), optimizer=SGD)
    gradient = numpy.arange(3000 * 1001, dtype="f").reshape(3000, 1001)
    w.push(gradient)
    assert w.blocks > 10 and numpy.array_equal(w.pull(), -gradient)


def test_started_operations_are_waited_for_later(worker):
    w = worker.variable("w", (100,), optimizer=SGD)
    pushes = [w.push_start(numpy.full(100, i, "f")) for i in range(10)]
    tick, pull = worker.tick_start(), w.pull_start()
    assert worker.clock == 1
    assert [push.wait() for push in pushes] == [True] * 10
    tick.wait()
    assert pull.wait(5)[0] in (0, -45) or pull.done()
    assert w.pull()[99] == -45
    assert "push of <psd.Client: worker 0 of 1" in repr(pushes[0])


def test_an_array_that_nobody_else_has_any_more_is_still_pushed(worker):
    w = worker.variable("w", (300000,), optimizer=SGD)
    pushes = []
    for i in range(8):
        gradient = numpy.full(300000, i, "f")
        pushes.append(w.push_start(gradient))
        del gradient
        gc.collect()
        numpy.full(300000, 1e9, "f")  # what takes the memory where it is free
    assert all(push.wait() for push in pushes)
    assert set(w.pull().tolist()) == {-28.0}


def test_an_operation_that_is_dropped_is_cancelled_and_frees_its_array(worker):
    w = worker.variable("w", (100,), optimizer=SGD)
    out = bytearray(400)
    pull = w.pull_start(memoryview(out).cast("f"))
    with pytest.raises(BufferError):
        out.append(1)  # it is borrowed
    del pull
    gc.collect()
    assert w.pull().sum() == 0  # the next call frees what was dropped
    gc.collect()
    out.append(1)


def test_a_cancelled_operation_says_so(worker, one_shard, connected):
    late = connected(one_shard, job="two", mode="sync", workers=2)
    w = late.variable("w", (3,), optimizer=SGD)
    pull = late.barrier_start("there is nobody else")
    assert not pull.done()
    pull.cancel()
    with pytest.raises(psd.Cancelled):
        pull.wait()
    assert w.shape == (3,)


def test_coroutines_wait_for_operations(worker):
    w = worker.variable("w", (10,), init="ones", optimizer=SGD)

    async def steps():
        first, second = await asyncio.gather(w.pull_start(), w.push_start(numpy.full(10, 2, "f")))
        await worker.tick_start()
        return first, second, await w.pull_start()

    _, pushed, last = asyncio.run(steps())
    assert pushed is True and last.tolist() == [-1.0] * 10 and worker.clock == 1


def test_a_deadline_is_a_timeout_error_that_names_who_is_missing(worker, one_shard, connected):
    first = connected(one_shard, job="pair", mode="ssp", bound=0, workers=2, task=0)
    with pytest.raises(TimeoutError, match="worker 1") as caught:
        first.barrier("start", timeout=0.8)
    assert caught.value.code == "TIMEOUT"
    second = connected(one_shard, job="pair", mode="ssp", bound=0, workers=2, task=1)
    entered = second.barrier_start("start")
    first.barrier("start")
    entered.wait()
    for wrong in (-1, 1e10, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            first.barrier("start", timeout=wrong)


def test_a_push_that_the_age_policy_drops_is_false(worker, one_shard, connected):
    first = connected(one_shard, job="aged", age="cutoff:0", workers=2, task=0)
    second = connected(one_shard, job="aged", age="cutoff:0", workers=2, task=1)
    one, two = (c.variable("w", (3,), optimizer=SGD) for c in (first, second))
    one.pull(), two.pull()
    assert one.push(numpy.ones(3, "f")) is True
    assert two.push(numpy.ones(3, "f")) is False
    assert two.pull().tolist() == [-1, -1, -1]


def test_metrics_are_summed_by_name(one_shard, connected):
    workers = [connected(one_shard, workers=2, task=i, metrics=("loss", "rows")) for i in range(2)]
    for i, one in enumerate(workers):
        one.set_metrics({"loss": 0.5 + i, "rows": 10})
        one.tick()
    assert workers[0].metrics() == {"loss": 2.0, "rows": 20.0}
    assert workers[1].metrics(3) == (2.0, 20.0, 0.0)
    with pytest.raises(ValueError, match="'lost' is none of those .* loss, rows"):
        workers[0].set_metrics({"lost": 1})


def test_workers_that_were_started_differently_are_found(one_shard, connected):
    workers = [connected(one_shard, workers=2, task=i) for i in range(2)]
    workers[0].define(batch=96, seed=1)
    workers[1].define(batch=96)
    with pytest.raises(psd.Mismatch, match="seed"):
        workers[1].define(seed=2)


def test_the_cursor_is_where_the_last_step_ended(worker):
    w = worker.variable("w", (3,), optimizer=SGD)
    assert worker.cursor == (0, 0)
    w.push(numpy.ones(3, "f"), cursor=(0, 96))
    worker.tick()
    assert worker.cursor == psd.Cursor(0, 96)
    assert worker.start_clock == 0


def test_compressed_pushes_take_fewer_bytes(worker):
    w = worker.variable("w", (10000,), optimizer=SGD)
    w.push(numpy.ones(10000, "f"), compress="float16")
    stats = worker.stats()
    assert stats["bytes_pushed"] < 0.6 * stats["gradient_bytes"] and w.pull()[0] == -1
    with pytest.raises(ValueError):
        w.push(numpy.ones(10000, "f"), compress="flote16")


def test_a_durable_push_needs_a_disk(worker):
    w = worker.variable("w", (3,), optimizer=SGD)
    with pytest.raises(NotImplementedError, match="durable"):
        w.push(numpy.ones(3, "f"), durable=True)
    assert w.pull().sum() == 0


def test_a_client_says_who_and_where_it_is(one_shard, connected):
    client = connected(one_shard, job="digits", mode="ssp", bound=2, workers=3, task=1)
    assert repr(client) == "<psd.Client: worker 1 of 3, job 'digits' (ssp, bound 2); 1 shard at %s>" % one_shard.address[0]
    w = client.variable("w", (3,), optimizer=SGD)
    assert repr(w).startswith("<psd.Variable 'w', shape (3,), of <psd.Client: worker 1 of 3")
    client.close()
    assert client.closed and "closed" in repr(client)


def test_after_close_every_call_says_so(worker):
    w = worker.variable("w", (3,), optimizer=SGD)
    pull = w.pull_start()
    worker.close()
    worker.close()
    for call in (w.pull, pull.wait, pull.done, lambda: worker.clock, worker.tick, worker.stats, worker.ping):
        with pytest.raises(psd.Closed, match="closed"):
            call()
    del pull


def test_a_client_that_is_forgotten_is_closed_with_a_warning(one_shard):
    client = psd.connect(one_shard.address, cluster=CLUSTER)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del client
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    with psd.connect(one_shard.address, cluster=CLUSTER, timeout=5):  # the index is free at once
        pass


@pytest.mark.parametrize("options, says", [({"mode": "bsp"}, "mode: there is no 'bsp'; there are async, ssp, sync"),
                                           ({"age": "exponential:base=2"}, "age"), ({"compress": "zip"}, "zip"),
                                           ({"timeout": -1}, "timeout"), ({"metrics": ("a", "a")}, "a"),
                                           ({"transport": "udp"}, "udp"), ({"workers": 2, "task": 2}, "2")])
def test_an_option_that_is_not_valid_is_a_value_error(one_shard, connected, options, says):
    with pytest.raises(ValueError, match=says):
        connected(one_shard, **options)


def test_nobody_there_is_a_connection_or_timeout_error():
    with pytest.raises((ConnectionError, TimeoutError), match="shard 0"):
        psd.connect("127.0.0.1:1", timeout=0.3, quiet=True)


def test_without_an_environment_a_sentence_says_what_is_missing(monkeypatch):
    for name in ("TF_CONFIG", "PSD_SHARDS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(psd.ConfigError, match="TF_CONFIG"):
        psd.connect()


def test_the_environment_says_where_the_cluster_is(one_shard, monkeypatch):
    monkeypatch.setenv("PSD_SHARDS", one_shard.address[0])
    monkeypatch.setenv("PSD_CLUSTER", CLUSTER)
    monkeypatch.setenv("PSD_WORKERS", "2")
    monkeypatch.setenv("PSD_TASK", "1")
    with psd.connect() as client:
        assert (client.cluster.task, client.cluster.workers, client.cluster.is_chief) == (1, 2, False)
        assert 0 < client.ping() < 20


def test_tf_config_is_taken_as_a_dict(one_shard):
    config = {"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": one_shard.address}, "task": {"type": "worker", "index": 1}}
    with psd.connect(config, cluster=CLUSTER) as client:
        assert "worker 1 of 2" in repr(client)


def test_events_are_lines_of_a_logger_or_go_to_a_function(one_shard, connected, caplog):
    events = []
    first = connected(one_shard, on_event=events.append, job="one")
    second = connected(one_shard, job="two")
    with caplog.at_level(logging.INFO, "psd"):
        one_shard.kill(0)
        one_shard.start(0)
        assert first.ping() > 0 and second.ping() > 0
    assert [e.code for e in events] == ["CLOSED", "OK"] and "shard 0" in events[0].peer
    levels = [(r.levelname, "job 'two'" in r.getMessage()) for r in caplog.records]
    assert levels == [("WARNING", True), ("INFO", True)]


def test_what_a_function_for_events_raises_is_raised_by_the_call(one_shard, connected):
    def refuse(event):
        raise KeyError(event.code)

    client = connected(one_shard, on_event=refuse)
    one_shard.kill(0)
    one_shard.start(0)
    with pytest.raises(KeyError, match="CLOSED"):
        for _ in range(2):
            client.ping()
    with pytest.raises(KeyError, match="OK"):
        client.ping()
    assert client.ping() > 0


@pytest.mark.parametrize("progress_thread", [False, True])
def test_threads_may_share_a_client(one_shard, connected, progress_thread):
    client = connected(one_shard, progress_thread=progress_thread)
    w = client.variable("w", (1000,), optimizer=SGD)
    failed = []

    def work():
        try:
            for _ in range(100):
                w.push(numpy.ones(1000, "f"))
                values = w.pull()
                assert values.min() == values.max()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == [] and set(w.pull().tolist()) == {-400.0}


def test_with_a_progress_thread_a_wait_keeps_nobody_else_out(one_shard, connected):
    client = connected(one_shard, progress_thread=True, workers=2, task=0)
    w = client.variable("w", (3,), optimizer=SGD)
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(client.barrier("b", timeout=20)))
    waiting.start()
    for _ in range(50):
        w.push(numpy.ones(3, "f"))
    assert w.pull()[0] == -50 and not ended
    other = connected(one_shard, workers=2, task=1)
    other.barrier("b")
    waiting.join()
    assert ended == [None]


def test_a_token_is_proven_or_permission_is_denied():
    with Shards(1, tokens=("alice:train:0123456789abcdef0123456789abcdef",)) as shards:
        with psd.connect(shards.address, cluster=CLUSTER, token="alice:0123456789abcdef0123456789abcdef") as client:
            assert client.variable("w", (3,), optimizer=SGD).pull().tolist() == [0, 0, 0]
        with pytest.raises(PermissionError) as caught:
            psd.connect(shards.address, cluster=CLUSTER, token="", timeout=5, quiet=True)
        assert caught.value.code == "DENIED" and "0123456789" not in str(caught.value)
