"""A whole cluster for a function: shards and workers of this machine, from a notebook or a script."""

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from ._errors import Error, Timeout, Unsupported
from ._library import program
from .cluster import Cluster

_PR_SET_PDEATHSIG = 1
_HOLDS = 'env -0 >"$0/found" && mv "$0/found" "$0/environment" && cat "$0/alive"; rm -rf "$0"'


class WorkerFailed(Error, RuntimeError):
    """A worker of launch() raised, or was killed. task: which; what it raised is the __cause__, where that could be pickled."""

    code = "OK"

    def __init__(self, text: str = "", peer: str = "", task: int = -1) -> None:
        super().__init__(text, peer)
        self.task = task


def launch(function: Callable[..., Any], *args: Any, workers: int = 1, shards: int = 1, timeout: Optional[float] = None,
           env: Mapping[str, str] = {}, psd_options: Sequence[str] = ()) -> List[Any]:
    """Call a function in each of so many workers, with so many shards, and return what they returned, by their index.

    Each worker is a child of this process by fork(), so the function may be one of a notebook, or a lambda, and sees what this
    process has; what it returns is pickled. In it psd.connect() and psd.Group() know the cluster from the environment (psd.Group()
    needs a shard). env: more of the environment. psd_options: for each shard, such as "--grace=2s". The shards, and what they
    hold, are gone when this returns.

    A worker that raises ends all others: psd.WorkerFailed. timeout: seconds; past them all are ended: psd.Timeout.

        def train():
            with psd.connect() as c:
                ...
                return loss

        losses = psd.launch(train, workers=3, shards=2)
    """
    if workers < 1 or shards < 1:
        raise ValueError("launch: expected at least one worker and one shard, got %d and %d" % (workers, shards))
    with _shards(shards, psd_options) as found:
        addresses = Cluster.from_tf_config(found.pop("TF_CONFIG")).shards
        common = {**found, "PSD_SHARDS": ",".join(addresses), "PSD_WORKERS": str(workers), **env}
        return _Workers(function, args, workers, common).results(timeout)


@contextlib.contextmanager
def _shards(count: int, options: Sequence[str]) -> Iterator[Dict[str, str]]:
    """Shards that psrun starts, and ends when this process ends, however it does: what psrun takes for the worker reads from a
    pipe that only this process writes to. The value is the environment that psrun gives a worker: TF_CONFIG, PSD_CLUSTER and,
    where it makes one, a token."""
    psrun = program("psrun")
    if psrun is None:
        raise Unsupported("psrun is not found: beside Python, in PATH, or where PSRUN_BIN says")
    folder = tempfile.mkdtemp(prefix="psd-launch-")
    alive = os.path.join(folder, "alive")
    os.mkfifo(alive)
    words = [psrun, "--shards", str(count), "--workers", "1", "--psd-option=--log-level=warning"]
    words += ["--psd-option=" + option for option in options] + ["--", "sh", "-c", _HOLDS, folder]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_CONFIG")) or k == "PSD_BIN"}
    with open(os.path.join(folder, "log"), "w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean, start_new_session=True)
        holder = -1
        try:
            _wait_for(os.path.join(folder, "environment"), process, log)
            holder = os.open(alive, os.O_WRONLY)
            yield _environment(os.path.join(folder, "environment"))
        finally:
            if holder >= 0:
                os.close(holder)
            else:
                process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _environment(path: str) -> Dict[str, str]:
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        pairs = (entry.split("=", 1) for entry in f.read().split("\0") if entry)
        return {name: value for name, value in pairs if name.startswith(("PSD_", "TF_CONFIG"))}


def _wait_for(path: str, process: "subprocess.Popen[bytes]", log: Any) -> None:
    while not os.path.exists(path):
        if process.poll() is not None:
            log.seek(0)
            raise Error("the shards did not start: " + log.read().strip())
        time.sleep(0.01)


class _Workers:
    def __init__(self, function: Callable[..., Any], args: Sequence[Any], count: int, env: Dict[str, str]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipes: List[Any] = []
        self.processes: List[Any] = []
        sys.stdout.flush()
        sys.stderr.flush()
        for task in range(count):
            ours, theirs = context.Pipe(duplex=False)
            own = {**env, "PSD_TASK": str(task)}
            process = context.Process(target=_work, args=(function, args, own, theirs), name="psd worker %d" % task)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # that other threads run: psd's objects know of forks
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def results(self, timeout: Optional[float]) -> List[Any]:
        end = None if timeout is None else time.monotonic() + timeout
        results: Dict[int, Any] = {}
        try:
            while len(results) < len(self.pipes):
                left = None if end is None else max(0.0, end - time.monotonic())
                waiting = [pipe for task, pipe in enumerate(self.pipes) if task not in results]
                ready = multiprocessing.connection.wait(waiting, left)
                if not ready:
                    late = [task for task in range(len(self.pipes)) if task not in results]
                    raise Timeout("launch: after %g s there is no result of worker %s" % (timeout or 0, ", ".join(map(str, late))))
                for pipe in ready:
                    task = self.pipes.index(pipe)
                    results[task] = self.result(task)
        except BaseException:
            for process in self.processes:
                process.terminate()
            raise
        finally:
            for process, pipe in zip(self.processes, self.pipes):
                process.join()
                pipe.close()
        return [results[task] for task in range(len(self.pipes))]

    def result(self, task: int) -> Any:
        try:
            kind, value, text = self.pipes[task].recv()
        except EOFError:
            self.processes[task].join()
            code = self.processes[task].exitcode
            how = "was killed by signal %d" % -code if code < 0 else "ended with status %d" % code
            raise WorkerFailed("worker %d %s before it returned" % (task, how), task=task) from None
        if kind == "returned":
            return value
        raise WorkerFailed("worker %d raised %s" % (task, text), task=task) from value


def _work(function: Callable[..., Any], args: Sequence[Any], env: Mapping[str, str], pipe: Any) -> None:
    """In the child, which ends with its parent, however that does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.pop("TF_CONFIG", None)
    os.environ.update(env)
    try:
        _send(pipe, "returned", function(*args), "")
    except BaseException as e:
        _send(pipe, "raised", e, "".join(traceback.format_exception(type(e), e, e.__traceback__)).strip())
    pipe.close()


def _send(pipe: Any, kind: str, value: Any, text: str) -> None:
    try:
        pipe.send((kind, value, text))
    except Exception as e:
        if kind == "returned":
            raise TypeError("what the function returned cannot be pickled: %s" % e) from e
        pipe.send((kind, None, text))
