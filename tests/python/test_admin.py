"""Questions and changes of a cluster; the doctor; whole clusters for a function."""

import json
import os
import signal
import struct
import subprocess
import sys
import time

import numpy
import psd
import pytest
from conftest import CLUSTER, SGD
from psd import admin, doctor


@pytest.fixture
def training(two_shards, connected):
    """A worker that has made three steps with two variables, and an admin of its cluster."""
    client = connected(two_shards, job="digits", mode="ssp", bound=2, metrics=("loss", "rows"))
    w = client.variable("w", (640, 100), init="ones", optimizer="adam:learning_rate=0.5")
    client.variable("b", (10,), optimizer=SGD)
    for _ in range(3):
        w.push(numpy.ones((640, 100), "f"))
        client.set_metrics({"loss": 0.5, "rows": 10})
        client.tick()
    with admin.Admin(two_shards.address, timeout=20) as a:
        yield client, a


def test_status_is_of_every_shard(training, two_shards):
    _, a = training
    found = a.status()
    assert [(s.shard, s.address, s.reached, s.cluster, s.version) for s in found] == \
        [(i, two_shards.address[i], True, CLUSTER, psd.__version__) for i in range(2)]
    assert [s.pid for s in found] == [p.pid for p in two_shards.process] and sum(s.blocks for s in found) > 2


def test_a_shard_that_is_gone_is_in_the_status_with_the_reason(two_shards):
    two_shards.kill(1)
    with admin.Admin(two_shards.address, timeout=20, quiet=True) as a:
        first, second = a.status()
    assert first.reached and not second.reached and "shard 1" in second.error


def test_jobs_variables_and_workers_are_over_all_shards(training):
    client, a = training
    job, = a.jobs()
    assert (job.name, job.workers, job.live, job.slowest_clock, job.variables) == ("digits", 1, 1, 3, 2)
    assert job.metrics == {"loss": 1.5, "rows": 30.0} and "ssp(bound 2)" in job.options
    w = {v.name: v for v in a.variables("digits")}["w"]
    assert (w.shape, w.version_min, w.version_max, w.learning_rate) == ((640, 100), 3, 3, 0.5)
    assert w.pushes == 3 * w.blocks == 3 * client.attach("w").blocks
    worker, = a.workers()
    assert (worker.job, worker.task, worker.connected, worker.clock, worker.metrics) == ("digits", 0, True, 3, (1.5, 30.0))
    assert worker.agent.endswith(":%d" % os.getpid())
    assert a.variables("none such") == [] and a.blocked() == []


def test_who_waits_for_whom_is_shown(two_shards, connected):
    first = connected(two_shards, workers=2, task=0)
    waits = first.barrier_start("b")
    waits.done()
    with admin.Admin(two_shards.address) as a:
        end = time.monotonic() + 20
        while not a.blocked() and time.monotonic() < end:
            waits.done()
        one = a.blocked()[0]
    assert (one.job, one.task, one.what, one.on_task) == ("train", 0, "barrier b", (1,))


def test_settings_change_a_running_job(training):
    client, a = training
    assert a.set(job="digits", variables="w", learning_rate=0.125) == 1
    assert {v.name: v.learning_rate for v in a.variables()} == {"w": 0.125, "b": 1.0}
    assert a.set(job="digits", schedule="cosine:steps=1000,warmup=50", clip="block_norm:1") == 2
    assert all("cosine" in v.optimizer and "block_norm" in v.optimizer for v in a.variables())
    a.set(job="digits", bound=7)
    assert "bound 7" in a.jobs()[0].options
    a.set(job="digits", age="inverse")
    assert "age inverse" in a.jobs()[0].options
    with pytest.raises(LookupError):
        a.set(job="digits", variables="x*", learning_rate=1)
    with pytest.raises(ValueError, match="no_such"):
        a.set(job="digits", no_such=1)
    with pytest.raises(ValueError):
        a.set(job="digits", schedule="cosinus:steps=3")


def values(path):
    """The float32 tensors of a safetensors file."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    return {name: numpy.frombuffer(data[one["data_offsets"][0]:one["data_offsets"][1]], "f").reshape(one["shape"])
            for name, one in header.items() if name != "__metadata__"}


def test_a_checkpoint_is_written_and_restored(training, two_shards, connected, tmp_path):
    client, a = training
    w = client.attach("w")
    before = w.pull()
    path = a.checkpoint(str(tmp_path), job="digits", name="three")
    assert path == str(tmp_path / "three")
    assert numpy.array_equal(values(os.path.join(path, "weights.safetensors"))["w"], before)
    w.push(numpy.ones((640, 100), "f"))
    client.close()
    a.restore(str(tmp_path / "latest"))
    assert numpy.array_equal(connected(two_shards, job="digits", observer=True).attach("w").pull(), before)
    with pytest.raises(psd.Error, match="none"):
        a.restore(str(tmp_path / "none"))


def test_weights_are_exported(training, tmp_path):
    client, a = training
    a.export(str(tmp_path / "w.safetensors"), job="digits")
    found = values(str(tmp_path / "w.safetensors"))
    assert set(found) == {"w", "b"} and numpy.array_equal(found["w"], client.attach("w").pull())
    with pytest.raises(psd.NotFound, match="other"):
        a.export(str(tmp_path / "x.safetensors"), job="other")


def test_a_worker_is_evicted_and_joins_again(training):
    client, a = training
    assert a.evict(0, job="digits") is True
    with pytest.raises(psd.Fenced):
        client.attach("w").pull()
    client.rejoin()
    assert client.attach("w").pull().shape == (640, 100)
    assert a.evict(7, job="digits") is False


def test_a_job_is_dropped(training):
    client, a = training
    with pytest.raises(psd.Busy):
        a.drop("digits")
    client.close()
    would = a.drop("digits", check=True)
    assert would > 640 * 100 * 4 and len(a.jobs()) == 1
    assert a.drop("digits") == would and a.jobs() == []


def test_a_shard_is_drained(training, two_shards):
    _, a = training
    a.drain(1)
    assert two_shards.process[1].wait() == 0


def test_a_save_needs_a_disk(training):
    with pytest.raises(psd.Unsupported):
        training[1].save()


# ---- the doctor ----

def test_the_doctor_finds_what_is_there(training, two_shards, monkeypatch):
    found = {what: (well, text) for well, what, text in doctor.findings(",".join(two_shards.address))}
    assert found["shard 1"][0] and "variables: 1, workers: 1" in found["shard 1"][1]
    assert all(found[name][0] for name in ("psrun", "psctl", "numpy", "cffi"))
    monkeypatch.setenv("PSD_TOKEN", "name:a-secret-that-is-not-shown")
    assert (True, "PSD_TOKEN", "set") in doctor.findings()


def test_the_doctor_is_a_program(two_shards):
    two_shards.kill(1)
    words = [sys.executable, "-m", "psd.doctor", ",".join(two_shards.address)]
    done = subprocess.run(words, text=True, capture_output=True)
    assert done.returncode == 1 and done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines() if "shard " in line] == ["ok", "BAD"]
    assert subprocess.run([sys.executable, "-m", "psd.doctor", "--nonsense"], capture_output=True).returncode == 2


# ---- launch ----

def test_a_function_is_called_in_every_worker_with_its_shards():
    scale = 2

    def train(steps):
        with psd.connect() as c:
            w = c.variable("w", (1000,), optimizer=SGD)
            for _ in range(steps):
                w.push(numpy.full(1000, scale, "f"))
                c.tick()
            c.barrier("end")
            return c.cluster.task, len(c.cluster.shards), w.pull()[0]

    results = psd.launch(train, 5, workers=3, shards=2, timeout=60)
    assert results == [(task, 2, -30.0) for task in range(3)]


def test_a_function_may_be_a_group():
    def sums():
        with psd.Group() as g:
            return g.all_reduce(numpy.full(3, g.rank, "f")).tolist()

    assert psd.launch(sums, workers=2, timeout=60) == [[1.0] * 3] * 2


def children():
    with open("/proc/self/task/%d/children" % os.getpid(), encoding="ascii") as f:
        return f.read().split()


def test_a_worker_that_raises_ends_the_others_and_is_named():
    def fails():
        with psd.connect() as c:
            if c.cluster.task == 1:
                raise KeyError("broken")
            c.barrier("nobody comes", timeout=60)

    with pytest.raises(psd.WorkerFailed, match="(?s)worker 1 raised .*KeyError: 'broken'") as caught:
        psd.launch(fails, workers=2, timeout=60)
    assert caught.value.task == 1 and isinstance(caught.value.__cause__, KeyError)
    assert children() == []


def test_a_worker_that_is_killed_is_named():
    with pytest.raises(psd.WorkerFailed, match="worker 0 was killed by signal 9") as caught:
        psd.launch(lambda: os.kill(os.getpid(), signal.SIGKILL), timeout=60)
    assert isinstance(caught.value, RuntimeError)


def test_a_launch_ends_in_time():
    with pytest.raises(TimeoutError, match="no result of worker 0"):
        psd.launch(lambda: time.sleep(100), timeout=0.2)
    assert children() == []


LAUNCHES = """
import os, time
import psd
def waits():
    with psd.connect() as c:
        print(os.getpid(), *[s.pid for s in psd.admin.Admin().status()], flush=True)
        time.sleep(100)
psd.launch(waits)
"""


def is_there(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_left_of_a_launch_that_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LAUNCHES], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "TMPDIR": str(tmp_path)}) as launcher:
        processes = launcher.stdout.readline().split()
        assert len(processes) == 2 and all(is_there(pid) for pid in processes)
        launcher.kill()
    end = time.monotonic() + 60
    while (any(is_there(pid) for pid in processes) or os.listdir(tmp_path)) and time.monotonic() < end:
        time.sleep(0.01)
    assert [pid for pid in processes if is_there(pid)] == [] and os.listdir(tmp_path) == []


def test_what_cannot_be_launched_is_said():
    with pytest.raises(ValueError, match="at least one worker"):
        psd.launch(print, workers=0)
    with pytest.raises(psd.Error, match="no-such-option"):
        psd.launch(print, psd_options=["--no-such-option"], timeout=60)
