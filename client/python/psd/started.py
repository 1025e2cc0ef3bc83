"""What was started and is waited for later: a client's pulls, pushes, ticks and barriers, and a group's collectives."""

from typing import Any, Callable, Generator, Generic, Optional, TypeVar

from . import _waits
from ._errors import NOT_COUNTED, check
from ._library import ffi, lib
from ._text import milliseconds

T = TypeVar("T")
S = TypeVar("S", bound="Started[Any]")
_PAUSE_S = 0.001
_ERROR = ffi.typeof("struct ps_error *")


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
        self._cell = ffi.new(self._cell_type)
        self._error = ffi.new(_ERROR)

    def _start(self: S, function: Callable[..., int], *arguments: Any) -> S:
        with self._owner._handle as pointer:
            code = function(pointer, *arguments, self._cell, self._error)
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
        with owner._handle:
            pointer = self._cell[0]
            code = _waits.until(lambda left: wait(pointer, left, error), ms)
        if code and not (self._may_drop and code in NOT_COUNTED):
            check(code, error)
        return self._value(not code)

    def done(self) -> bool:
        """Whether it is done, well or not, after letting the network move without waiting."""
        with self._owner._handle:
            return bool(self._c_test(self._cell[0]))

    def _drop(self) -> None:
        """Free it with the next call of its owner; what it borrows is kept until then."""
        cell, self._cell = self._cell, ffi.new(self._cell_type)
        handle = self._owner._handle
        if cell[0] != ffi.NULL and handle.pointer is not None and not handle.in_child():
            handle.drop(self._c_free, cell[0], self._keep)

    def _run(self, timeout: Optional[float], function: Callable[..., int], *arguments: Any) -> T:
        """Start it, wait for it, and free it: what a call without _start does. Its arrays are free when this returns or raises."""
        owner, wait, error, cell = self._owner, self._c_wait, self._error, self._cell
        ms = owner._timeout_ms if timeout is None else milliseconds("timeout", timeout, 0)
        with owner._handle as pointer:
            over = False
            try:
                code = function(pointer, *arguments, cell, error)
                if not code:
                    started = cell[0]
                    code = _waits.until(lambda left: wait(started, left, error), ms)
                over = not code
            finally:
                started, cell[0] = cell[0], ffi.NULL
                if started:
                    self._end(started, over)
        if code and not (self._may_drop and code in NOT_COUNTED):
            check(code, error)
        return self._value(not code)

    def _end(self, started: Any, over: bool) -> None:
        self._c_free(started)

    def __del__(self) -> None:
        if hasattr(self, "_cell"):
            self._drop()

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
        with self._owner._handle:
            lib.ps_op_cancel(self._cell[0])


class Work(Started[T]):
    """An operation of a group. One that nobody refers to any more still goes on: other ranks are in it."""

    _cell_type: Any = ffi.typeof("ps_work **")
    _c_wait, _c_test, _c_free = lib.ps_work_wait, lib.ps_work_test, lib.ps_work_free

    def _end(self, started: Any, over: bool) -> None:
        """One that is not over is ended by force, with the group on all ranks: its arrays must be free now."""
        if over:
            lib.ps_work_free(started)
        else:
            with _waits.interrupted():
                lib.ps_work_free(started)
