"""What was started and is waited for later: a client's pulls, pushes, ticks and barriers, and a group's collectives."""

from typing import Any, Callable, Generator, Generic, Optional, TypeVar

from . import _waits
from ._errors import NOT_COUNTED, check
from ._handle import Handle
from ._library import ffi, lib
from ._text import milliseconds

T = TypeVar("T")
S = TypeVar("S", bound="Started[Any]")
_PAUSE_S = 0.001
_ERROR = ffi.typeof("struct ps_error *")


class _Pending:
    """What was started, as C has it: freed by the next call of its handle when nobody refers to it any more. Calls without _start
    have none: an exception that a signal's handler raises in a finalizer is lost."""

    def __init__(self, handle: Handle, cell: Any, free: Callable[[Any], None], keep: Any) -> None:
        self.cell = cell
        self._handle = handle
        self._free = free
        self._keep = keep

    def __del__(self) -> None:
        if self.cell[0] and self._handle.pointer is not None and not self._handle.in_child():
            self._handle.drop(self._free, self.cell[0], self._keep)


class Started(Generic[T]):
    """Something that was started.

    wait() returns what the call without _start returns. The arrays stay borrowed until it is done: what is sent must not change
    before, and what is received is not defined. In a coroutine: `weights = await client.pull_start(w)`.
    """

    _cell_type: Any = ffi.typeof("ps_op **")
    _c_wait, _c_test, _c_free = lib.ps_op_wait, lib.ps_op_test, lib.ps_op_free

    def __init__(self, owner: Any, what: str, keep: Any, value: Callable[[bool], T], may_drop: bool = False) -> None:
        self._owner = owner
        self._what = what
        self._keep = keep
        self._value = value
        self._may_drop = may_drop
        self._error = ffi.new(_ERROR)
        self._pending: Any = None

    def _start(self: S, function: Callable[..., int], *arguments: Any) -> S:
        handle = self._owner._handle
        with handle.lock:
            pointer = handle.use()
            self._pending = _Pending(handle, ffi.new(self._cell_type), self._c_free, self._keep)
            code = function(pointer, *arguments, self._pending.cell, self._error)
        handle.after()
        if code:
            check(code, self._error)
        return self

    def wait(self, timeout: Optional[float] = None) -> T:
        """Wait until it is done.

        timeout: seconds; None: those of the client or group. psd.Timeout (a TimeoutError) ends the wait alone: what was started
        goes on, and may be waited for again. Other errors are its result: those of the call without _start.
        """
        owner, wait, error = self._owner, self._c_wait, self._error
        ms = owner._timeout_ms if timeout is None else milliseconds("timeout", timeout, 0)
        with owner._handle.lock:
            owner._handle.use()
            started = self._pending.cell[0]
            code = _waits.until(lambda left: wait(started, left, error), ms)
        owner._handle.after()
        return self._result(code)

    def _run(self, timeout: Optional[float], function: Callable[..., int], *arguments: Any) -> T:
        """Start it, wait for it, and free it: what a call without _start does. Its arrays are free when this returns or raises."""
        owner, wait, error, cell = self._owner, self._c_wait, self._error, ffi.new(self._cell_type)
        ms = owner._timeout_ms if timeout is None else milliseconds("timeout", timeout, 0)
        with owner._handle.lock:
            pointer = owner._handle.use()
            over = False
            try:
                code = function(pointer, *arguments, cell, error)
                if not code:
                    started = cell[0]
                    code = _waits.until(lambda left: wait(started, left, error), ms)
                over = not code
            finally:
                if cell[0]:
                    self._end(cell[0], over)
        owner._handle.after()
        return self._result(code)

    def _result(self, code: int) -> T:
        if code and not (self._may_drop and code in NOT_COUNTED):
            check(code, self._error)
        return self._value(not code)

    def done(self) -> bool:
        """Whether it is done, well or not, after letting the network move without waiting."""
        handle = self._owner._handle
        with handle.lock:
            handle.use()
            done = bool(self._c_test(self._pending.cell[0]))
        handle.after()
        return done

    def _end(self, started: Any, over: bool) -> None:
        self._c_free(started)

    def __await__(self) -> Generator[Any, None, T]:
        return self._poll().__await__()

    async def _poll(self) -> T:
        import asyncio  # which is there already: a coroutine waits

        pause = 0.0
        while not self.done():
            await asyncio.sleep(pause)
            pause = _PAUSE_S
        return self.wait(0)

    def __repr__(self) -> str:
        return "<psd.%s: %s of %r>" % (type(self).__name__, self._what, self._owner)


class Operation(Started[T]):
    """An operation of a client. One that nobody refers to any more is cancelled."""

    def cancel(self) -> None:
        """Give it up: its arrays are free when this returns. wait() then raises psd.Cancelled, or psd.UnknownOutcome for what was
        sent and not answered. Nothing happens to one that is done."""
        with self._owner._handle.lock:
            self._owner._handle.use()
            lib.ps_op_cancel(self._pending.cell[0])


class Work(Started[T]):
    """An operation of a group. One that nobody refers to any more still goes on: other ranks are in it."""

    _cell_type: Any = ffi.typeof("ps_work **")
    _c_wait, _c_test, _c_free = lib.ps_work_wait, lib.ps_work_test, lib.ps_work_free

    def _end(self, started: Any, over: bool) -> None:
        """One that is not over is ended by force, with the group on all ranks: its arrays must be free now."""
        if over or lib.ps_work_test(started):
            lib.ps_work_free(started)
        else:
            with _waits.interrupted():
                lib.ps_work_free(started)
