"""Questions to a cluster and changes of it, as psctl has them, as plain values.

    from psd import admin

    with admin.Admin("127.0.0.1:7420,127.0.0.1:7421") as a:      # or the environment's shards
        for job in a.jobs():
            print(job.name, job.slowest_clock, job.metrics)
        a.set(learning_rate=1e-4)
        a.checkpoint("/srv/models")
"""

import dataclasses
import json
import os
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _errors
from ._errors import Error, Unsupported, check
from ._library import ffi, lib, program
from ._text import Strings, constant, milliseconds, parameters
from .client import Client
from .cluster import Cluster, cluster_of

T = TypeVar("T")
_PATIENCE_S = 600.0  # of what writes or reads disks


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard. Where reached is False error says why, and the rest is 0."""

    shard: int
    address: str
    reached: bool = True
    error: str = ""
    cluster: str = ""
    version: str = ""
    pid: int = 0
    uptime_ms: int = 0
    connections: int = 0
    workers: int = 0
    variables: int = 0
    blocks: int = 0
    data_bytes: int = 0
    store_bytes: int = 0
    store_bytes_max: int = 0
    draining: bool = False
    live_dir: str = ""
    save: Optional[Mapping[str, Any]] = None


@dataclasses.dataclass(frozen=True)
class Job:
    """A job, over all shards. options: "ssp(bound 4), 3 workers, lapse shrink, age none". metrics: sums over the workers of its
    newest round, by name where they have names, else by "0", "1" ..."""

    name: str
    options: str
    workers: int
    live: int
    lapsed: int
    finished: int
    slowest_clock: int
    fastest_clock: int
    variables: int
    pulls_parked: int
    metrics: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class VariableStatus:
    """A variable, over all shards. bytes: weights and slots. learning_rate: of the next update. Counts are those of blocks."""

    job: str
    name: str
    shape: Tuple[int, ...]
    optimizer: str
    initializer: str
    learning_rate: float
    blocks: int
    bytes: int
    version_min: int
    version_max: int
    pushes: int
    pulls: int
    pushed_bytes: int
    pulled_bytes: int
    refused: int
    dropped: int


@dataclasses.dataclass(frozen=True)
class Worker:
    """A worker's session, as shard 0 has it. agent: host and process."""

    job: str
    task: int
    agent: str
    connected: bool
    lapsed: bool
    finished: bool
    evicted: bool
    clock: int
    silent_ms: int
    lease_ms: int
    metrics: Tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Blocked:
    """Somebody who waits: for whom (on_task, or on, in words), until which clock, since when."""

    shard: int
    job: str
    task: int
    what: str
    variable: str
    clock: int
    waited_ms: int
    on_task: Tuple[int, ...]
    on_clock: int
    who: str
    on: str


class Admin:
    """An observer of a whole cluster: it holds nobody back. shards: as of psd.connect(). options: those of psd.Client, such as
    token and tls_ca. A context manager."""

    def __init__(self, shards: Union[None, str, Sequence[str], Mapping[str, Any], Cluster] = None, *, timeout: float = 5.0,
                 **options: Any) -> None:
        named = {"token": "PSD_TOKEN", "tls_ca": "PSD_TLS_CA", "tls_cert": "PSD_TLS_CERT", "tls_key": "PSD_TLS_KEY",
                 "tls_name": "PSD_TLS_NAME"}
        self._environment = {named[option]: value for option, value in options.items() if option in named and value is not None}
        self._cluster = cluster_of(shards, 1, 0, None)
        self._options = {"observer": True, "any_cluster": True, "timeout": timeout, **options}
        self._opened: Optional[Client] = None

    @property
    def _client(self) -> Client:
        """A client of all shards, which must all be there then."""
        if self._opened is None:
            self._opened = Client(self._cluster, **self._options)
        return self._opened

    @property
    def addresses(self) -> Tuple[str, ...]:
        """Where the shards are asked."""
        return self._cluster.shards

    # ---- questions ----

    def query(self, shard: int, what: str, job: Optional[str] = None) -> Dict[str, Any]:
        """What a shard answers, with the members of psd.proto's Report: "status", "variables", "stats", "workers", "blocked", "jobs"
        or "timeline"."""
        return _query(self._client, shard, what, job)

    def _rows(self, what: str, member: str, job: Optional[str] = None) -> List[Tuple[int, Dict[str, Any]]]:
        return [(shard, row) for shard in range(len(self.addresses)) for row in self.query(shard, what, job).get(member, [])]

    def status(self) -> List[Shard]:
        """Every shard, also those that are not reached."""
        return [self._status(shard, address) for shard, address in enumerate(self.addresses)]

    def _status(self, shard: int, address: str) -> Shard:
        try:
            with Client(Cluster.from_list([address]), **self._options) as alone:
                report = _query(alone, 0, "status", None)["status"]
        except (_errors.Timeout, ConnectionError) as e:
            return Shard(shard, address, reached=False, error=str(e).replace("shard 0 at", "shard %d at" % shard))
        return _made(Shard, {**report, "shard": shard, "address": address})

    def jobs(self) -> List[Job]:
        """Every job."""
        found: Dict[str, List[Dict[str, Any]]] = {}
        for _, row in self._rows("jobs", "job"):
            found.setdefault(row["name"], []).append(row)
        return [_job(rows) for rows in found.values()]

    def variables(self, job: Optional[str] = None) -> List[VariableStatus]:
        """Every variable of a job, or of all."""
        found: Dict[Tuple[str, str], List[Dict[str, Any]]] = {}
        for _, row in self._rows("variables", "variable", job):
            found.setdefault((row["job"], row["name"]), []).append(row)
        return [_variable(rows) for rows in found.values()]

    def workers(self, job: Optional[str] = None) -> List[Worker]:
        """Every worker of a job, or of all."""
        return [_made(Worker, {**row, "metrics": tuple(row["metrics"])}) for row in self.query(0, "workers", job)["worker"]]

    def blocked(self, job: Optional[str] = None) -> List[Blocked]:
        """Who waits for whom."""
        return [_made(Blocked, {**row, "shard": shard, "on_task": tuple(row["on_task"])})
                for shard, row in self._rows("blocked", "blocked", job)]

    # ---- changes ----

    def set(self, *, job: str = "train", variables: str = "*", schedule: Optional[str] = None, clip: Optional[str] = None,
            age: Optional[str] = None, bound: Optional[int] = None, workers: int = 0, from_start: bool = False, force: bool = False,
            timeout: Optional[float] = None, **optimizer: float) -> int:
        """Change a running job on all shards. Returns how many variables the pattern named.

        Of the optimizers of its variables whose names fit the pattern: any parameter (learning_rate=0.01, beta1=0.8), schedule
        ("cosine:steps=1000,warmup=50"), clip ("block_norm:1"). Of the job: age ("exponential:0.9"), bound, and, while none of its
        workers is live, how many workers its next round has. Raises psd.Invalid, psd.NotFound, psd.Timeout (call again).
        """
        strings, error, count = Strings(), ffi.new("struct ps_error *"), ffi.new("uint64_t *")
        s = ffi.new("struct ps_setting *")
        s.job = strings(job, "job")
        if optimizer or schedule is not None or clip is not None:
            s.variables = strings(variables, "variables")
        s.parameters = len(optimizer)
        s.parameter = strings.keep(ffi.new("struct ps_parameter[]", [(strings(name), value) for name, value in optimizer.items()]))
        if schedule is not None:
            s.schedule = ffi.addressof(_rule(strings, "schedule", schedule), "schedule")
        if clip is not None:
            s.clip = ffi.addressof(_rule(strings, "clip", clip.replace(":", ":limit=") if "=" not in clip else clip), "clip")
        if age is not None:
            name, given = parameters("age", age, {"exponential": ("base",), "cutoff": ("age",)})
            s.age = strings.keep(ffi.new("struct ps_age_policy *", (constant("age", name), next(iter(given.values()), 0.0))))
        if bound is not None:
            s.bound = strings.keep(ffi.new("uint32_t *", bound))
        s.workers, s.from_start, s.force = workers, from_start, force
        ms = milliseconds("timeout", timeout, -1)
        self._client._handle.call(lambda c: lib.ps_client_set(c, s, ms, count, error), error)
        return count[0]

    def drain(self, shard: int, *, timeout: Optional[float] = None) -> None:
        """Stop a shard as SIGTERM does; started again it goes on where it was."""
        ms, error = milliseconds("timeout", timeout, -1), ffi.new("struct ps_error *")
        self._client._handle.call(lambda c: lib.ps_client_drain(c, shard, ms, error), error)

    def evict(self, task: int, *, job: str = "train") -> bool:
        """End a worker's session on all shards now, as if its lease had lapsed. Whether any shard knew it."""
        found = False
        for shard in range(len(self.addresses)):
            report, error, name = ffi.new("struct ps_evict_report *"), ffi.new("struct ps_error *"), Strings()(job, "job")
            self._client._handle.call(lambda c: lib.ps_client_evict(c, shard, name, task, -1, report, error), error)  # noqa: B023
            found = found or bool(report.found)
        return found

    def drop(self, job: str, variables: Optional[str] = None, *, force: bool = False, check: bool = False) -> int:
        """Drop a job with all that belongs to it, or those of its variables whose names fit a pattern, on all shards. force: also
        while workers are live. check: change nothing. Returns how many bytes went, or would go."""
        strings = Strings()
        what = ffi.new("struct ps_drop *", (strings(job, "job"), strings(variables, "variables"), force, check))
        total = 0
        for shard in range(len(self.addresses)):
            report, error = ffi.new("struct ps_drop_report *"), ffi.new("struct ps_error *")
            self._client._handle.call(lambda c: lib.ps_client_drop(c, shard, what, -1, report, error), error)  # noqa: B023
            total += report.bytes
        return total

    # ---- disks ----

    def save(self, *, timeout: float = _PATIENCE_S) -> None:
        """Write the state of all shards to their durable directories, and return when it is on disk."""
        ms = milliseconds("timeout", timeout, -1)
        for shard in range(len(self.addresses)):
            error = ffi.new("struct ps_error *")
            self._client._handle.call(lambda c: lib.ps_client_save(c, shard, ms, ffi.NULL, error), error)  # noqa: B023

    def checkpoint(self, folder: str, *, job: str = "train", name: Optional[str] = None, clock: Optional[int] = None, keep: int = 0,
                   timeout: float = _PATIENCE_S) -> str:
        """Write a job's weights and slots to a new directory in folder, which the shards see under the same path: safetensors files.
        clock: wait until all updates up to it are done. keep: remove all but so many of the newest. Returns the directory."""
        strings, error, out = Strings(), ffi.new("struct ps_error *"), ffi.new("char **")
        options = ffi.new("struct ps_checkpoint_options *", (strings(job), strings(name), clock is not None, clock or 0, keep))
        path, ms = strings(os.path.abspath(folder), "folder"), milliseconds("timeout", timeout, -1)
        self._client._handle.call(lambda c: lib.ps_client_checkpoint(c, path, options, ms, out, error), error)
        try:
            return os.path.join(os.path.abspath(folder), ffi.string(out[0]).decode())
        finally:
            lib.ps_free(out[0])

    def restore(self, path: str, *, job: Optional[str] = None, timeout: float = _PATIENCE_S) -> None:
        """Put a checkpoint (a directory of checkpoint(), or folder/latest) into the cluster, which may have another number of
        shards. job: the name that it gets. Workers that come back get psd.Restored."""
        strings, error, ms = Strings(), ffi.new("struct ps_error *"), milliseconds("timeout", timeout, -1)
        where, name = strings(os.path.abspath(path), "path"), strings(job, "job")
        self._client._handle.call(lambda c: lib.ps_client_restore(c, where, name, ms, error), error)

    def export(self, path: str, *, job: str = "train", timeout: float = _PATIENCE_S) -> None:
        """Write a job's weights to a safetensors file, which may be larger than memory; by psctl."""
        psctl = program("psctl")
        if psctl is None:
            raise Unsupported("psctl is not found: beside Python, in PATH, or where PSCTL_BIN says")
        words = [psctl, "export", "--shards", ",".join(self.addresses), "--job", job, os.path.abspath(path)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **self._environment}, timeout=timeout)
        if done.returncode != 0:
            raise _said(done.stderr)

    # ---- the end ----

    def close(self) -> None:
        """Close what was opened."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<psd.admin.Admin of %d shards at %s>" % (len(self.addresses), ", ".join(self.addresses))


def _query(client: Client, shard: int, what: str, job: Optional[str]) -> Dict[str, Any]:
    out, error, strings = ffi.new("char **"), ffi.new("struct ps_error *"), Strings()
    number, name = constant("query", what), strings(job, "job")
    client._handle.call(lambda c: lib.ps_client_query(c, shard, number, name, -1, out, error), error)
    try:
        return json.loads(ffi.string(out[0]))
    finally:
        lib.ps_free(out[0])


def _said(text: str) -> Error:
    """What psctl wrote, as the error that it is of."""
    lines = text.strip().splitlines() or ["psctl said nothing"]
    for line in lines:
        for part in line.split(": "):
            kind = _errors.class_of(part)
            if kind is not None:
                return kind(line.split(part + ": ", 1)[-1])
    return (_errors.NotFound if "has no" in lines[-1] else Error)(lines[-1])


def _made(kind: Type[T], row: Mapping[str, Any]) -> T:
    """A dataclass of what of a row it has."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in row.items() if name in names})


def _rule(strings: Strings, what: str, text: str) -> Any:
    """A struct ps_optimizer with a schedule or a clip of a text, "cosine:steps=1000"."""
    name, _, rest = text.partition(":")
    optimizer, error = strings.keep(ffi.new("struct ps_optimizer *")), ffi.new("struct ps_error *")
    whole = "sgd:learning_rate=1,%s=%s%s" % (what, name, "," + rest if rest else "")
    check(lib.ps_optimizer_parse(strings(whole, what), optimizer, error), error)
    return optimizer


def _job(rows: List[Dict[str, Any]]) -> Job:
    first = rows[0]
    names = first["metric_names"] + [str(i) for i in range(len(first["metric_names"]), len(first["metrics"]))]

    def over(how: Callable[[List[int]], int], member: str) -> int:
        return how([row[member] for row in rows])

    return Job(first["name"], first["options"], first["workers"], over(max, "live"), over(max, "lapsed"), over(min, "finished"),
               over(min, "slowest_clock"), over(max, "fastest_clock"), over(sum, "first"), over(sum, "pulls_parked"),
               dict(zip(names, first["metrics"])))


def _variable(rows: List[Dict[str, Any]]) -> VariableStatus:
    row = {**rows[0], "shape": tuple(rows[0]["dims"])}
    for member in ("blocks", "bytes", "pushes", "pulls", "pushed_bytes", "pulled_bytes", "refused", "dropped"):
        row[member] = sum(one[member] for one in rows)
    row["version_min"] = min(one["version_min"] for one in rows)
    row["version_max"] = max(one["version_max"] for one in rows)
    return _made(VariableStatus, row)
