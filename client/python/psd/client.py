"""A worker's session with all shards: variables, pulls, pushes, ticks, barriers, metrics."""

import atexit
import warnings
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _buffers, _waits
from ._errors import Error, check
from ._events import Events, callback
from ._handle import Handle
from ._library import ffi, lib
from ._text import Strings, constant, milliseconds, parameters
from .cluster import Cluster, cluster_of
from .started import Operation
from .variable import Variable, fill_init

Variables = Union[Variable, Sequence[Variable]]
_VARIABLES, _FLOATS, _FLOAT = ffi.typeof("ps_var *[]"), ffi.typeof("float *[]"), ffi.typeof("float *")
_open: "weakref.WeakSet[Client]" = weakref.WeakSet()


class Cursor(NamedTuple):
    """A place in a worker's data: all examples of epoch before position, and all earlier epochs."""

    epoch: int
    position: int


def connect(shards: Union[None, str, Sequence[str], Mapping[str, Any], Cluster] = None, *, workers: int = 1, task: int = 0,
            cluster: Optional[str] = None, **options: Any) -> "Client":
    """Connect to all shards and take this worker's index.

    shards: None for the environment, as psrun sets it (TF_CONFIG, or PSD_SHARDS, PSD_WORKERS and PSD_TASK); addresses, as a list
    or with commas between them, with workers and task; a dict as TF_CONFIG has it; or a psd.Cluster.
    cluster: its name, "psd" unless the environment says another.
    options: those of psd.Client.

    Raises psd.ConfigError (ValueError), psd.Unreachable (ConnectionError), psd.Timeout (TimeoutError), psd.TaskTaken,
    psd.Mismatch, psd.Denied (PermissionError) and others, each with a sentence that names the peer.

        with psd.connect() as c:
            w = c.variable("w", (64, 10), init="glorot_uniform", optimizer="adam:learning_rate=3e-4")
            while c.clock < 500:
                weights = w.pull()
                w.push(gradient_of(weights))
                c.tick()
    """
    return Client(cluster_of(shards, workers, task, cluster), **options)


class Client:
    """A worker's connections to all shards; an observer's with observer=True.

    job: name of the job; jobs on one cluster do not see each other.
    mode: "async", "ssp" (with bound: steps that nobody is ahead of the slowest by more than) or "sync" (with quorum: k of the
    job's workers, 0 for all). lapse: "shrink" goes on without a worker that is lost, "fail" raises psd.StepFailed.
    age: how a gradient counts by its age: "none", "inverse", "exponential:BASE" or "cutoff:AGE".
    timeout: seconds that a call waits when it is given none. lease: seconds that this worker may be silent.
    durable: every push is acknowledged when it is on the shards' disks. compress: "float16", "bfloat16", "int8" or
    "top_k:fraction=0.01", how gradients travel.
    progress_thread: a hidden thread drives the network, so that communication goes on while Python computes, and any number of
    threads may use the client at once. Without it they take turns.
    observer: only look: no index is taken. any_cluster: with observer, of a cluster of any name.
    transport: "auto" or "tcp". metrics: names of what set_metrics() sets.
    on_event: called with a psd.Error for each event that no call reports; without it they are lines of the logger "psd". It must
    not use the client.
    tls_ca, tls_cert, tls_key, tls_name, token: as PSD_TLS_CA and so on, which they come from where they are not given.
    quiet: no lines on stderr about long waits.

    A context manager: it is closed at the end, with a goodbye, so that others do not wait for this worker.
    """

    def __init__(self, cluster: Cluster, *, job: str = "train", mode: str = "async", bound: int = 0, quorum: int = 0,
                 lapse: str = "shrink", age: str = "none", timeout: float = 60.0, lease: float = 300.0, durable: bool = False,
                 compress: Optional[str] = None, progress_thread: bool = False, observer: bool = False,
                 any_cluster: bool = False, transport: Optional[str] = None, metrics: Sequence[str] = (),
                 on_event: Optional[Callable[[Error], None]] = None, tls_ca: Optional[str] = None,
                 tls_cert: Optional[str] = None, tls_key: Optional[str] = None, tls_name: Optional[str] = None,
                 token: Optional[str] = None, quiet: bool = False) -> None:
        self.cluster = cluster
        self.job = job
        self.mode = mode
        self.observer = observer or cluster.role == "evaluator"
        self.metric_names: Tuple[str, ...] = tuple(metrics)
        self._variables: Dict[str, Variable] = {}
        self._timeout_ms = milliseconds("timeout", timeout, 0)
        who = "observer" if self.observer else "worker %d of %d" % (cluster.task, cluster.workers)
        self._what = "%s, job %r (%s)" % (who, job, "ssp, bound %d" % bound if mode == "ssp" else mode)
        self._handle = Handle("psd.Client of " + self._what, progress_thread)
        self._events = Events(self._what, on_event)
        self._handle.events = self._events.raised
        strings = Strings()
        o = ffi.new("struct ps_client_options *")
        o.job = strings(job, "job")
        o.mode, o.bound, o.quorum = constant("mode", mode), bound, quorum
        o.lapse, o.timeout_ms, o.lease_ms = constant("lapse", lapse), self._timeout_ms, milliseconds("lease", lease, 0)
        _fill_age(o, age)
        o.durable, o.progress_thread, o.observer, o.any_cluster, o.quiet = durable, progress_thread, observer, any_cluster, quiet
        _fill_compress(ffi.addressof(o, "compress"), compress)
        o.transport = constant("transport", transport or "auto")
        o.on_event, o.on_event_arg = callback(), self._events.handle
        o.tls_ca, o.tls_cert, o.tls_key = strings(tls_ca), strings(tls_cert), strings(tls_key)
        o.tls_name, o.token = strings(tls_name), strings(token)
        names = strings.keep(ffi.new("char *[]", [strings(name, "metrics") for name in metrics]))
        o.metric_names, o.metrics_named = names, len(metrics)
        self._connect(o)

    def _connect(self, options: Any) -> None:
        out, error = ffi.new("ps_client **"), ffi.new("struct ps_error *")
        pointer = self.cluster._pointer
        try:
            check(_waits.apart(lambda: lib.ps_client_open(pointer, options, out, error)), error)
            self._handle.pointer = out[0]
        except BaseException:
            if out[0] != ffi.NULL and self._handle.pointer is None:
                lib.ps_client_close(out[0])
            raise
        _open.add(self)

    # ---- variables ----

    def variable(self, name: str, shape: Sequence[int] = (), *, optimizer: str, init: str = "zeros", seed: int = 0,
                 allow_nonfinite: bool = False, timeout: Optional[float] = None) -> Variable:
        """Declare a variable, and wait until it is there. Declaring the same again, by any worker, is fine.

        shape: of float32; () is a scalar.
        optimizer: "adam:learning_rate=3e-4,schedule=cosine,warmup=500,steps=20000,floor=1e-5,clip=block_norm,limit=1", of which
        everything but the name may be left out: sgd, momentum, nesterov, adagrad, adam, rmsprop, adamw, adadelta, nadam, ftrl.
        init: first values: zeros, ones, "constant:3", "uniform:low=-0.05,high=0.05", "normal:mean=0,stddev=0.05",
        truncated_normal, glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal. They depend on
        seed and the element's index alone.
        allow_nonfinite: gradients with NaN or Inf are applied instead of refused.

        Raises psd.Mismatch (ValueError) when another worker has declared it otherwise, psd.Invalid (ValueError), psd.Full
        (MemoryError), psd.Timeout (TimeoutError).
        """
        spec = ffi.new("struct ps_var_spec *")
        strings = Strings()
        spec.name = strings(name, "name")
        shape = tuple(int(extent) for extent in shape)
        if len(shape) > lib.PS_RANK_MAX:
            raise ValueError("%s: a variable has at most %d dimensions, not %d" % (name, lib.PS_RANK_MAX, len(shape)))
        spec.rank = len(shape)
        spec.dims[0:len(shape)] = shape
        fill_init(ffi.addressof(spec, "init"), init, seed)
        error = ffi.new("struct ps_error *")
        check(lib.ps_optimizer_parse(strings(optimizer, "optimizer"), ffi.addressof(spec, "optimizer"), error), error)
        spec.allow_nonfinite = allow_nonfinite
        out = ffi.new("ps_var **")
        operation: Operation[Variable] = Operation(self, "declaration of " + name, (strings, spec, out),
                                                   lambda _: self._known(out[0]))
        return operation._run(timeout, lib.ps_client_declare_start, spec, out)

    def attach(self, name: str) -> Variable:
        """A variable that some worker has declared. psd.NotFound (LookupError) where nobody has."""
        out, error, text = ffi.new("ps_var **"), ffi.new("struct ps_error *"), Strings()(name, "name")
        self._handle.call(lambda client: lib.ps_client_attach(client, text, out, error), error)
        return self._known(out[0])

    def _known(self, pointer: Any) -> Variable:
        variable = Variable(self, pointer)
        return self._variables.setdefault(variable.name, variable)

    # ---- a step ----

    def pull(self, variables: Variables, out: Any = None, *, newer_than: int = 0, only_changed: bool = False, now: bool = False,
             timeout: Optional[float] = None) -> Any:
        """The values of a variable, or of a list of them, at this worker's clock.

        out: an array of float32 of the variable's shape (or flat), or a list of such: filled, without a copy, and returned. None:
        new arrays, of numpy where that is installed, else memoryviews.
        newer_than: only blocks of a greater version are transferred; only_changed: only those that changed since the last pull.
        Both leave the rest of out, which must be given, as it is. now: do not wait for the mode's condition.
        timeout: seconds; psd.Timeout (TimeoutError) names the shard and the workers that were waited for; nothing has changed.
        Raises TypeError for an array that would have to be copied, psd.StepFailed, and what ends a session (psd.Fenced,
        psd.LeaseLapsed).
        """
        operation, arguments = self._pull(variables, out, newer_than, only_changed, now)
        return operation._run(timeout, lib.ps_client_pull_start, *arguments)

    def pull_start(self, variables: Variables, out: Any = None, *, newer_than: int = 0, only_changed: bool = False,
                   now: bool = False) -> Operation[Any]:
        """Start a pull. The arrays of out are not to be looked at before it is done."""
        operation, arguments = self._pull(variables, out, newer_than, only_changed, now)
        return operation._start(lib.ps_client_pull_start, *arguments)

    def push(self, variables: Variables, gradients: Any, *, durable: bool = False, norm: float = 0.0,
             cursor: Optional[Tuple[int, int]] = None, compress: Optional[str] = None, timeout: Optional[float] = None) -> bool:
        """Apply the gradient of a variable, or a list of gradients, and wait until that is committed.

        gradients: float32 of the variable's shape (or flat), not copied.
        durable: done when it is on the shards' disks. norm: the L2 norm of this worker's whole gradient, for clip=given_norm;
        0: that of this call's. cursor: where this step's data ends (Client.cursor). compress: as of the client.
        Returns False when the job's age policy or quorum has dropped it or a part, as the job asked; else True.
        Raises psd.NonFinite (ValueError) for NaN and Inf, psd.Timeout (it may have been applied, or not: go on with the next
        step), psd.UnknownOutcome, psd.NotDurable, psd.Full, TypeError for an array that would have to be copied.
        """
        operation, arguments = self._push(variables, gradients, durable, norm, cursor, compress, False)
        return operation._run(timeout, lib.ps_client_push_start, *arguments)

    def push_start(self, variables: Variables, gradients: Any, *, durable: bool = False, norm: float = 0.0,
                   cursor: Optional[Tuple[int, int]] = None, compress: Optional[str] = None,
                   copy: bool = False) -> Operation[bool]:
        """Start a push. The gradients must not change before it is done; copy=True copies them at once instead."""
        operation, arguments = self._push(variables, gradients, durable, norm, cursor, compress, copy)
        return operation._start(lib.ps_client_push_start, *arguments)

    def push_pull(self, variables: Variables, gradients: Any, out: Any = None, *, durable: bool = False, norm: float = 0.0,
                  cursor: Optional[Tuple[int, int]] = None, compress: Optional[str] = None,
                  timeout: Optional[float] = None) -> Any:
        """Apply gradients and get the values after them in one round trip: as push() and pull(). psd.Stale and psd.Late are
        raised where a push was dropped."""
        operation, arguments = self._push_pull(variables, gradients, out, durable, norm, cursor, compress)
        return operation._run(timeout, lib.ps_client_push_pull_start, *arguments)

    def push_pull_start(self, variables: Variables, gradients: Any, out: Any = None, *, durable: bool = False,
                        norm: float = 0.0, cursor: Optional[Tuple[int, int]] = None,
                        compress: Optional[str] = None) -> Operation[Any]:
        """Start the same."""
        operation, arguments = self._push_pull(variables, gradients, out, durable, norm, cursor, compress)
        return operation._start(lib.ps_client_push_pull_start, *arguments)

    def tick(self, *, timeout: Optional[float] = None) -> None:
        """This worker finished a step: its clock rises by one. After psd.Timeout it has risen nevertheless: do not call again."""
        Operation(self, "tick", None, lambda _: None)._run(timeout, lib.ps_client_tick_start)

    def tick_start(self) -> Operation[None]:
        """Start a tick: the clock rises at once."""
        return Operation(self, "tick", None, lambda _: None)._start(lib.ps_client_tick_start)

    def barrier(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Wait until every worker of the job that is not lost or finished has come to the barrier of this name. psd.Timeout names
        who has not; a second call enters it again."""
        text = Strings()(name, "name")
        Operation(self, "barrier " + name, text, lambda _: None)._run(timeout, lib.ps_client_barrier_start, text)

    def barrier_start(self, name: str) -> Operation[None]:
        """Enter a barrier."""
        text = Strings()(name, "name")
        return Operation(self, "barrier " + name, text, lambda _: None)._start(lib.ps_client_barrier_start, text)

    def flush(self) -> None:
        """Send what is held: started pushes and pulls of a few bytes, where the program computes for long before it waits."""
        with self._handle.lock:
            pointer = self._handle.use()
            lib.ps_client_flush(pointer)

    def _pull(self, variables: Variables, out: Any, newer_than: int, only_changed: bool, now: bool) -> Tuple[Any, Tuple[Any, ...]]:
        if out is None and (newer_than or only_changed):
            raise ValueError("pull: newer_than and only_changed keep what is not transferred as it is, so they need out")
        variables, n, pointers = self._pointers(variables)
        result, buffers, kept = _outputs(variables, out)
        options = ffi.NULL
        if newer_than or only_changed or now:
            options = ffi.new("struct ps_pull_options *", {"newer_than": newer_than, "only_changed": only_changed, "now": now})
        operation = Operation(self, "pull", (pointers, buffers, kept, options), lambda _: result)
        return operation, (n, pointers, buffers, options)

    def _push(self, variables: Variables, gradients: Any, durable: bool, norm: float, cursor: Optional[Tuple[int, int]],
              compress: Optional[str], copy: bool) -> Tuple[Any, Tuple[Any, ...]]:
        variables, n, pointers = self._pointers(variables)
        buffers, kept = _inputs(variables, gradients)
        options = _push_options(durable, norm, cursor, compress, copy)
        operation = Operation(self, "push", (pointers, buffers, kept, options), lambda counted: counted, may_drop=True)
        return operation, (n, pointers, buffers, options[0])

    def _push_pull(self, variables: Variables, gradients: Any, out: Any, durable: bool, norm: float,
                   cursor: Optional[Tuple[int, int]], compress: Optional[str]) -> Tuple[Any, Tuple[Any, ...]]:
        variables, n, pointers = self._pointers(variables)
        inputs, kept_in = _inputs(variables, gradients)
        result, outputs, kept_out = _outputs(variables, out)
        options = _push_options(durable, norm, cursor, compress, False)
        operation = Operation(self, "push-and-pull", (pointers, inputs, outputs, kept_in, kept_out, options), lambda _: result)
        return operation, (n, pointers, inputs, outputs, options[0])

    def _pointers(self, variables: Variables) -> Tuple[Variables, int, Any]:
        if isinstance(variables, Variable):
            several: Sequence[Variable] = (variables,)
        else:
            several = variables = list(variables)
        for one in several:
            if not isinstance(one, Variable):
                raise TypeError("expected a psd.Variable, got %s" % type(one).__name__)
            if one.client is not self:
                raise ValueError("variable %r is of another client, %r" % (one.name, one.client))
        return variables, len(several), ffi.new(_VARIABLES, [one._pointer for one in several])

    # ---- what it knows, and says ----

    @property
    def clock(self) -> int:
        """Steps that this worker has ticked; a worker that joins late begins where the slowest is."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_client_clock(pointer)

    @property
    def slowest_clock(self) -> int:
        """The slowest live worker's clock, as the shards last said."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_client_slowest_clock(pointer)

    @property
    def cursor(self) -> Cursor:
        """Where this worker's data goes on: the end of the last step that all shards have counted."""
        out = ffi.new("struct ps_cursor *")
        with self._handle.lock:
            pointer = self._handle.use()
            lib.ps_client_cursor(pointer, out)
        return Cursor(out.epoch, out.position)

    @property
    def start_clock(self) -> int:
        """The clock at which the first process of this worker's index joined the round."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_client_start_clock(pointer)

    def start_cursor(self, first: Tuple[int, int]) -> Cursor:
        """Where the data of a worker begins that divides a job's steps with others; first: where one begins that joins at
        start_clock. Before the first push."""
        given, out = ffi.new("struct ps_cursor *", first), ffi.new("struct ps_cursor *")
        with self._handle.lock:
            pointer = self._handle.use()
            lib.ps_client_start_cursor(pointer, given, out)
        return Cursor(out.epoch, out.position)

    def stats(self) -> Dict[str, int]:
        """What the client has counted since it was opened: bytes_pushed, pushes, resent, reconnects, waited_us and so on."""
        out = ffi.new("struct ps_client_stats *")
        with self._handle.lock:
            pointer = self._handle.use()
            lib.ps_client_stats(pointer, out)
        return {name: getattr(out, name) for name, _ in ffi.typeof("struct ps_client_stats").fields}

    def rolled_back(self, shard: int) -> int:
        """Acknowledged pushes that a shard has lost since, which came back from its last save or empty."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_client_rolled_back(pointer, shard)

    def set_metrics(self, values: Union[Sequence[float], Mapping[str, float]]) -> None:
        """What the step under way adds to this worker's metrics, in their order or by the names of the option metrics. They count
        with the step's tick, once, whatever dies."""
        if isinstance(values, Mapping):
            unknown = [name for name in values if name not in self.metric_names]
            if unknown:
                raise ValueError("metrics: %r is none of those that the client was opened with: %s"
                                 % (unknown[0], ", ".join(self.metric_names) or "none"))
            values = [values.get(name, 0.0) for name in self.metric_names]
        array, error = ffi.new("double[]", list(values)), ffi.new("struct ps_error *")
        with self._handle.lock:
            pointer = self._handle.use()
            code = lib.ps_client_set_metrics(pointer, len(array), array, error)
        check(code, error)

    def metrics(self, count: Optional[int] = None, *, timeout: Optional[float] = None) -> Any:
        """The sums over all workers, as settled now: a dict by the names of the option metrics, or a tuple of count numbers."""
        n = len(self.metric_names) if count is None else count
        ms = milliseconds("timeout", timeout, -1)
        sums, error = ffi.new("double[]", max(n, 1)), ffi.new("struct ps_error *")
        self._handle.call(lambda client: lib.ps_client_metrics(client, n, sums, ms, error), error)
        return dict(zip(self.metric_names, sums)) if count is None else tuple(sums[0:n])

    def define(self, *, timeout: Optional[float] = None, **fields: Any) -> None:
        """Say what this worker trains (rows, batch, seed ...), so that one that was started otherwise is found: psd.Mismatch
        (ValueError) says in what. Values are compared as str() writes them."""
        strings, error = Strings(), ffi.new("struct ps_error *")
        array = ffi.new("struct ps_definition[]", [(strings(name), strings(str(value))) for name, value in fields.items()])
        ms = milliseconds("timeout", timeout, -1)
        self._handle.call(lambda client: lib.ps_client_define(client, len(array), array, ms, error), error)

    def rejoin(self, *, timeout: Optional[float] = None) -> None:
        """Join again, at the slowest clock, after psd.LeaseLapsed or psd.Fenced. Variables stay valid."""
        ms, error = milliseconds("timeout", timeout, -1), ffi.new("struct ps_error *")
        self._handle.call(lambda client: lib.ps_client_rejoin(client, ms, error), error)

    def ping(self, shard: int = 0, *, timeout: Optional[float] = None) -> float:
        """Seconds of one round trip to a shard."""
        ms, out, error = milliseconds("timeout", timeout, -1), ffi.new("double *"), ffi.new("struct ps_error *")
        self._handle.call(lambda client: lib.ps_client_ping(client, shard, ms, out, error), error)
        return out[0] / 1e6

    # ---- the end ----

    @property
    def closed(self) -> bool:
        """Whether it is closed, or this process is a child of the one that opened it."""
        return self._handle.pointer is None or self._handle.in_child()

    def close(self) -> None:
        """Say goodbye, close, and free everything. Waits for what is unacknowledged, at most the client's time-out. Twice is the
        same as once. In a child of fork() it only forgets the client."""
        pointer = self._handle.take_away()
        if pointer is not None:
            _open.discard(self)
            self._handle.free_dropped()
            _waits.apart(lambda: lib.ps_client_close(pointer) or 0)

    def abandon(self) -> None:
        """Close without goodbye and without waiting, as a crash would."""
        pointer = self._handle.take_away()
        if pointer is not None:
            _open.discard(self)
            self._handle.free_dropped()
            lib.ps_client_abandon(pointer)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and handle.pointer is not None and not handle.in_child():
            warnings.warn("%s was not closed" % self._what, ResourceWarning, source=self)
            self.close()

    def __repr__(self) -> str:
        if self._handle.in_child():
            end = "of another process"
        elif self._handle.pointer is None:
            end = "closed"
        else:
            shards = self.cluster.shards
            end = "%d shard%s at %s" % (len(shards), "" if len(shards) == 1 else "s", ", ".join(shards))
        return "<psd.Client: %s; %s>" % (self._what, end)


def _fill_age(options: Any, text: str) -> None:
    name, given = parameters("age", text, {"exponential": ("base",), "cutoff": ("age",)})
    options.age = constant("age", name)
    options.age_parameter = next(iter(given.values()), 0.0)


def _fill_compress(compress: Any, text: Optional[str]) -> None:
    if text is not None:
        error = ffi.new("struct ps_error *")
        check(lib.ps_compress_parse(Strings()(text, "compress"), compress, error), error)


def _push_options(durable: bool, norm: float, cursor: Optional[Tuple[int, int]], compress: Optional[str],
                  copy: bool) -> Tuple[Any, ...]:
    if not (durable or norm or cursor or compress or copy):
        return (ffi.NULL,)
    options = ffi.new("struct ps_push_options *", {"norm": norm})
    options.flags = (lib.PS_PUSH_COPY if copy else 0) | (lib.PS_PUSH_DURABLE if durable else 0)
    kept: List[Any] = []
    if cursor is not None:
        kept.append(ffi.new("struct ps_cursor *", tuple(cursor)))
        options.cursor = kept[-1]
    if compress is not None:
        kept.append(ffi.new("struct ps_compress *"))
        _fill_compress(kept[-1], compress)
        options.compress = kept[-1]
    return (options, *kept)


def _inputs(variables: Variables, gradients: Any) -> Tuple[Any, Any]:
    """Pointers to gradients, and what keeps them."""
    if isinstance(variables, Variable):
        kept = [_buffers.floats("gradient of " + variables.name, gradients, variables.shape)]
    else:
        gradients = list(gradients)
        _same_length(variables, gradients, "gradients")
        kept = [_buffers.floats("gradient of " + v.name, g, v.shape) for v, g in zip(variables, gradients)]
    return _pointers_of(kept), kept


def _outputs(variables: Variables, out: Any) -> Tuple[Any, Any, Any]:
    """What a pull returns, pointers to it, and what keeps that."""
    if isinstance(variables, Variable):
        result = _buffers.empty(variables.shape) if out is None else out
        kept = [_buffers.floats("out of " + variables.name, result, variables.shape, writable=True)]
    else:
        result = [_buffers.empty(v.shape) for v in variables] if out is None else list(out)
        _same_length(variables, result, "out")
        kept = [_buffers.floats("out of " + v.name, o, v.shape, writable=True) for v, o in zip(variables, result)]
    return result, _pointers_of(kept), kept


def _pointers_of(buffers: Sequence[_buffers.Buffer]) -> Any:
    return ffi.new(_FLOATS, [ffi.cast(_FLOAT, one.pointer) for one in buffers])


def _same_length(variables: Sequence[Variable], arrays: Sequence[Any], what: str) -> None:
    if len(variables) != len(arrays):
        raise ValueError("%d variables and %d %s" % (len(variables), len(arrays), what))


def _close_all() -> None:
    for client in list(_open):
        client.close()


atexit.register(_close_all)
