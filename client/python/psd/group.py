"""Collectives between workers, without shards in the data's path: all-reduce and its relatives."""

import atexit
import warnings
import weakref
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from . import _buffers, _waits
from ._errors import ShapeError, check
from ._handle import Handle
from ._library import ffi, lib
from ._text import Strings, constant, milliseconds
from .cluster import Cluster, cluster_of
from .started import Work

_open: "weakref.WeakSet[Group]" = weakref.WeakSet()


class Group:
    """A group of ranks, as one of them has it. Opening it waits for all workers of the cluster.

    shards, workers, task, cluster: as of psd.connect(): workers meet at shard 0, or, where a TF_CONFIG has none, at its lowest
    worker.
    name: groups of different names do not see each other. timeout: seconds of forming and of each operation.
    ranks_min: go on without those that have not come when so many are there and settle seconds have passed; 0: wait for all.
    listen: "host:port" where this rank listens. algorithm: "auto", "direct", "ring", "halving" or "hierarchical".
    transport: "auto" (shared memory within a host) or "tcp". progress_thread: communication goes on while Python computes, and any
    number of threads may use the group.

    Arrays are float32, float64, float16, bfloat16 (by DLPack), int32 or int64, contiguous, passed without a copy. Every rank calls the
    same operations in the same order, with as many elements; where they differ, all ranks get psd.Mismatch. When a rank is lost, all
    others get psd.Closed or psd.Timeout, which names it, from then on, until reform(). Ctrl-C in an operation that is waited for,
    or a timeout that is shorter than the group's, ends the group on all ranks (psd.Cancelled, which names this rank): its arrays
    are free then. Where that must not be, start the operation and wait for it as long as it takes.

        with psd.Group() as group:
            group.all_reduce(gradient, reduce="mean")
    """

    def __init__(self, shards: Union[None, str, Sequence[str], Mapping[str, Any], Cluster] = None, *, workers: int = 1,
                 task: int = 0, cluster: Optional[str] = None, name: str = "group", timeout: float = 60.0, ranks_min: int = 0,
                 settle: float = 1.0, listen: Optional[str] = None, algorithm: str = "auto", segment_bytes: int = 0,
                 transport: Optional[str] = None, progress_thread: bool = False, tls_ca: Optional[str] = None,
                 tls_cert: Optional[str] = None, tls_key: Optional[str] = None, tls_name: Optional[str] = None,
                 token: Optional[str] = None, quiet: bool = False) -> None:
        self.cluster = cluster_of(shards, workers, task, cluster)
        self.name = name
        self._timeout_ms = milliseconds("timeout", timeout, 0)
        self._handle = Handle("psd.Group %r" % name, progress_thread)
        strings = Strings()
        o = ffi.new("struct ps_group_options *")
        o.name, o.timeout_ms = strings(name, "name"), self._timeout_ms
        o.ranks_min, o.settle_ms, o.listen = ranks_min, milliseconds("settle", settle, 0), strings(listen, "listen")
        o.algorithm, o.segment_bytes = constant("algorithm", algorithm), segment_bytes
        o.transport, o.progress_thread, o.quiet = constant("transport", transport or "auto"), progress_thread, quiet
        o.tls_ca, o.tls_cert, o.tls_key = strings(tls_ca), strings(tls_cert), strings(tls_key)
        o.tls_name, o.token = strings(tls_name), strings(token)
        self._form(o)

    def _form(self, options: Any) -> None:
        out, error, pointer = ffi.new("ps_group **"), ffi.new("struct ps_error *"), self.cluster._pointer
        try:
            check(_waits.apart(lambda: lib.ps_group_open(pointer, options, out, error)), error)
            self._handle.pointer = out[0]
        except BaseException:
            if out[0] != ffi.NULL and self._handle.pointer is None:
                lib.ps_group_close(out[0])
            raise
        _open.add(self)

    # ---- what it is ----

    @property
    def rank(self) -> int:
        """This process's rank."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_group_rank(pointer)

    @property
    def size(self) -> int:
        """The number of ranks."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_group_ranks(pointer)

    @property
    def epoch(self) -> int:
        """The same on all ranks, greater after each forming."""
        with self._handle.lock:
            pointer = self._handle.use()
            return lib.ps_group_epoch(pointer)

    def task(self, rank: int) -> int:
        """The worker index of a rank."""
        with self._handle.lock:
            pointer = self._handle.use()
            if not 0 <= rank < lib.ps_group_ranks(pointer):
                raise IndexError("there is no rank %d" % rank)
            return lib.ps_group_task(pointer, rank)

    def transport(self, rank: int) -> str:
        """How frames travel to a rank: "tcp", "shm", "self"; "" past the last."""
        with self._handle.lock:
            pointer = self._handle.use()
            return ffi.string(lib.ps_group_transport(pointer, rank)).decode()

    def state(self) -> None:
        """Raise why the group failed, if it did."""
        error = ffi.new("struct ps_error *")
        with self._handle.lock:
            pointer = self._handle.use()
            code = lib.ps_group_state(pointer, error)
        check(code, error)

    def part(self, count: int, rank: Optional[int] = None) -> slice:
        """Which of count elements are a rank's part in reduce_scatter() and all_gather(); None: this rank's."""
        size, rank = self.size, self.rank if rank is None else rank
        begin = lib.ps_group_part_offset(count, size, rank)
        return slice(begin, begin + lib.ps_group_part(count, size, rank))

    # ---- operations ----

    def all_reduce(self, array: Any, out: Any = None, *, reduce: str = "sum", timeout: Optional[float] = None) -> Any:
        """Reduce every rank's elements, to all ranks: "sum", "mean", "min", "max" or "product". In place where out is None. The same
        bits on every rank. Returns out, or array."""
        return self._finish(self._all_reduce(array, out, reduce), timeout)

    def all_reduce_start(self, array: Any, out: Any = None, *, reduce: str = "sum") -> Work[Any]:
        """Start the same."""
        return self._begin(self._all_reduce(array, out, reduce))

    def reduce_scatter(self, array: Any, out: Any = None, *, reduce: str = "sum", timeout: Optional[float] = None) -> Any:
        """Reduce every rank's elements, part(array.size) of the result to each rank: to out, or to a new flat array."""
        return self._finish(self._reduce_scatter(array, out, reduce), timeout)

    def reduce_scatter_start(self, array: Any, out: Any = None, *, reduce: str = "sum") -> Work[Any]:
        """Start the same."""
        return self._begin(self._reduce_scatter(array, out, reduce))

    def all_gather(self, array: Any, out: Any = None, *, timeout: Optional[float] = None) -> Any:
        """Bring every rank's part to all ranks. out: all elements, of which array is part(out.size); None: a new array of one
        row, of array's shape, for each rank, which must all be of one size."""
        return self._finish(self._all_gather(array, out), timeout)

    def all_gather_start(self, array: Any, out: Any = None) -> Work[Any]:
        """Start the same."""
        return self._begin(self._all_gather(array, out))

    def broadcast(self, array: Any, root: int = 0, *, timeout: Optional[float] = None) -> Any:
        """Bring root's elements to all ranks, in place. Returns array."""
        return self._finish(self._broadcast(array, root), timeout)

    def broadcast_start(self, array: Any, root: int = 0) -> Work[Any]:
        """Start the same."""
        return self._begin(self._broadcast(array, root))

    def reduce(self, array: Any, out: Any = None, root: int = 0, *, reduce: str = "sum", timeout: Optional[float] = None) -> Any:
        """Reduce every rank's elements, to root: into out, or in place where that is None; other ranks' out is left alone."""
        return self._finish(self._reduce(array, out, root, reduce), timeout)

    def reduce_start(self, array: Any, out: Any = None, root: int = 0, *, reduce: str = "sum") -> Work[Any]:
        """Start the same."""
        return self._begin(self._reduce(array, out, root, reduce))

    def send(self, array: Any, to: int, *, timeout: Optional[float] = None) -> None:
        """Send elements to a rank, which receives them. Done when that has started to: of two ranks that send to each other first,
        one must use send_start()."""
        self._finish(self._send(array, to), timeout)

    def send_start(self, array: Any, to: int) -> Work[None]:
        """Start the same."""
        return self._begin(self._send(array, to))

    def receive(self, array: Any, source: int, *, timeout: Optional[float] = None) -> Any:
        """Receive elements from a rank into an array of as many. Returns array."""
        return self._finish(self._receive(array, source), timeout)

    def receive_start(self, array: Any, source: int) -> Work[Any]:
        """Start the same."""
        return self._begin(self._receive(array, source))

    def barrier(self, *, timeout: Optional[float] = None) -> None:
        """Wait until every rank has come."""
        self._finish(self._barrier(), timeout)

    def barrier_start(self) -> Work[None]:
        """Start the same."""
        return self._begin(self._barrier())

    # Each of these is a work that is not started, the function that starts it, and its arguments.

    def _all_reduce(self, array: Any, out: Any, reduce: str) -> Tuple[Any, ...]:
        of, to = self._pair(array, out)
        return (Work(self, "all-reduce", (of, to), lambda _: array if out is None else out), lib.ps_group_all_reduce, of.pointer,
                to.pointer, of.elements, _buffers.DTYPES[of.dtype], constant("reduce", reduce))

    def _reduce_scatter(self, array: Any, out: Any, reduce: str) -> Tuple[Any, ...]:
        of = _buffers.elements_of("array", array)
        part = self.part(of.elements)
        result = _buffers.empty((part.stop - part.start,), of.dtype) if out is None else out
        to = _like("out", result, of.dtype, part.stop - part.start, writable=True)
        return (Work(self, "reduce-scatter", (of, to), lambda _: result), lib.ps_group_reduce_scatter, of.pointer, to.pointer,
                of.elements, _buffers.DTYPES[of.dtype], constant("reduce", reduce))

    def _all_gather(self, array: Any, out: Any) -> Tuple[Any, ...]:
        of = _buffers.elements_of("array", array)
        result = _buffers.empty((self.size, *of.shape), of.dtype) if out is None else out
        to = _buffers.elements_of("out", result, writable=True)
        part = self.part(to.elements)
        if (of.dtype, of.elements) != (to.dtype, part.stop - part.start):
            raise ShapeError("all-gather: array has %d elements of %s, and this rank's part of out is %d of %s"
                             % (of.elements, of.dtype, part.stop - part.start, to.dtype))
        return (Work(self, "all-gather", (of, to), lambda _: result), lib.ps_group_all_gather, of.pointer, to.pointer, to.elements,
                _buffers.DTYPES[of.dtype])

    def _broadcast(self, array: Any, root: int) -> Tuple[Any, ...]:
        of = _buffers.elements_of("array", array, writable=self.rank != root)
        return (Work(self, "broadcast", of, lambda _: array), lib.ps_group_broadcast, of.pointer, of.elements,
                _buffers.DTYPES[of.dtype], root)

    def _reduce(self, array: Any, out: Any, root: int, reduce: str) -> Tuple[Any, ...]:
        if self.rank == root:
            of, to = self._pair(array, out)
        else:
            of = to = _buffers.elements_of("array", array)
        pointer = to.pointer if self.rank == root else ffi.NULL
        return (Work(self, "reduce", (of, to), lambda _: array if out is None else out), lib.ps_group_reduce, of.pointer, pointer,
                of.elements, _buffers.DTYPES[of.dtype], constant("reduce", reduce), root)

    def _send(self, array: Any, to: int) -> Tuple[Any, ...]:
        of = _buffers.elements_of("array", array)
        return Work(self, "send", of, lambda _: None), lib.ps_group_send, of.pointer, of.elements, _buffers.DTYPES[of.dtype], to

    def _receive(self, array: Any, source: int) -> Tuple[Any, ...]:
        of = _buffers.elements_of("array", array, writable=True)
        return (Work(self, "receive", of, lambda _: array), lib.ps_group_receive, of.pointer, of.elements, _buffers.DTYPES[of.dtype],
                source)

    def _barrier(self) -> Tuple[Any, ...]:
        return Work(self, "barrier", None, lambda _: None), lib.ps_group_barrier

    def _pair(self, array: Any, out: Any) -> Tuple[_buffers.Buffer, _buffers.Buffer]:
        """array, and out or array again."""
        if out is None:
            of = _buffers.elements_of("array", array, writable=True)
            return of, of
        of = _buffers.elements_of("array", array)
        return of, _like("out", out, of.dtype, of.elements, writable=True)

    def _begin(self, work: Tuple[Any, ...]) -> Any:
        started, function, *arguments = work
        return started._start(function, *arguments)

    def _finish(self, work: Tuple[Any, ...], timeout: Optional[float]) -> Any:
        started, function, *arguments = work
        return started._run(timeout, function, *arguments)

    # ---- forming again, and the end ----

    def reform(self, ranks_min: int = 0, *, timeout: Optional[float] = None) -> None:
        """Meet again, with whoever comes: the survivors, and who replaces the lost one. Ranks and their number may change."""
        ms, error = milliseconds("timeout", timeout, -1), ffi.new("struct ps_error *")
        self._handle.call(lambda group: lib.ps_group_reform(group, ranks_min, ms, error), error)

    def admit(self, *, timeout: Optional[float] = None) -> bool:
        """Let in a worker that waits where workers meet; called by all ranks. Whether the group was formed again."""
        ms, formed, error = milliseconds("timeout", timeout, -1), ffi.new("int *"), ffi.new("struct ps_error *")
        self._handle.call(lambda group: lib.ps_group_admit(group, ms, formed, error), error)
        return bool(formed[0])

    @property
    def closed(self) -> bool:
        """Whether it is closed, or this process is a child of the one that opened it."""
        return self._handle.pointer is None or self._handle.in_child()

    def close(self) -> None:
        """Say goodbye, and free the group. Works that are in flight are waited for. Twice is the same as once; in a child of fork()
        it only forgets the group."""
        if not self.closed:
            with self._handle.lock:
                self._handle.use()  # frees what was dropped
        pointer = self._handle.take_away()
        if pointer is not None:
            _open.discard(self)
            _waits.apart(lambda: lib.ps_group_close(pointer) or 0)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and handle.pointer is not None and not handle.in_child():
            warnings.warn("%s was not closed" % handle.what, ResourceWarning, source=self)
            self.close()

    def __repr__(self) -> str:
        if self._handle.in_child():
            return "<psd.Group %r: of another process>" % self.name
        if self._handle.pointer is None:
            return "<psd.Group %r: closed>" % self.name
        return "<psd.Group %r: rank %d of %d, epoch %d>" % (self.name, self.rank, self.size, self.epoch)


def _like(what: str, obj: Any, dtype: str, count: int, writable: bool) -> _buffers.Buffer:
    found = _buffers.elements_of(what, obj, writable)
    if (found.dtype, found.elements) != (dtype, count):
        raise ShapeError("%s: expected %d elements of %s, got %d of %s" % (what, count, dtype, found.elements, found.dtype))
    return found


def _close_all() -> None:
    for group in list(_open):
        group.close()


atexit.register(_close_all)
