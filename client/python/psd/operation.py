"""What was started and is waited for later: pulls, pushes, ticks, barriers."""

import asyncio
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, Optional, TypeVar

from . import _waits
from ._errors import NOT_COUNTED, check
from ._library import ffi, lib
from ._text import milliseconds

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
_PAUSE_S = 0.001


class Operation(Generic[T]):
    """An operation of a client that was started.

    wait() returns what the call without _start returns. The arrays stay borrowed until the operation is done: a gradient must
    not change before, and what a pull's destination holds until then is not defined. An operation that nobody refers to any
    more is cancelled. In a coroutine: `weights = await client.pull_start(w)`.
    """

    def __init__(self, client: "Client", what: str, keep: Any, value: Callable[[bool], T],
                 may_drop: bool = False) -> None:
        self._client = client
        self._what = what
        self._keep = keep
        self._value = value
        self._may_drop = may_drop
        self._cell = ffi.new("ps_op **")
        self._error = ffi.new("struct ps_error *")

    def _start(self, function: Callable[..., int], *arguments: Any) -> "Operation[T]":
        with self._client._handle as pointer:
            code = function(pointer, *arguments, self._cell, self._error)
        if code:
            check(code, self._error)
        return self

    def wait(self, timeout: Optional[float] = None) -> T:
        """Wait until it is done.

        timeout: seconds; None: the client's. psd.Timeout (a TimeoutError) ends the wait alone: the operation goes on, and may be
        waited for again. Other errors are the operation's result: those of the call without _start.
        """
        client = self._client
        ms = milliseconds("timeout", timeout, client._timeout_ms)
        with client._handle:
            op = self._cell[0]
            code = _waits.until(lambda left: lib.ps_op_wait(op, left, self._error), ms)
        return self._result(code)

    def _result(self, code: int) -> T:
        if code and not (self._may_drop and code in NOT_COUNTED):
            check(code, self._error)
        return self._value(not code)

    def done(self) -> bool:
        """Whether it is done, well or not, after letting the network move without waiting."""
        with self._client._handle:
            return bool(lib.ps_op_test(self._cell[0]))

    def cancel(self) -> None:
        """Give it up: its arrays are free when this returns. wait() then raises psd.Cancelled, or psd.UnknownOutcome for what was
        sent and not answered. Nothing happens to one that is done."""
        with self._client._handle:
            lib.ps_op_cancel(self._cell[0])

    def free(self) -> None:
        """Free it, cancelled when it is not done. A blocking call does so; otherwise it is done by itself."""
        cell, self._cell = self._cell, ffi.new("ps_op **")
        if cell[0] != ffi.NULL and self._client._handle.pointer is not None and not self._client._handle.in_child():
            self._client._handle.drop(lib.ps_op_free, cell[0], self._keep)

    def free_now(self) -> None:
        """The same, and what it borrows is free when this returns."""
        self.free()
        handle = self._client._handle
        if handle.pointer is not None and not handle.in_child():
            with handle:
                handle.free_dropped()

    def __del__(self) -> None:
        if hasattr(self, "_cell"):
            self.free()

    def __await__(self) -> Generator[Any, None, T]:
        return self._poll().__await__()

    async def _poll(self) -> T:
        pause = 0.0
        while not self.done():
            await asyncio.sleep(pause)
            pause = _PAUSE_S
        return self.wait(0)

    def __repr__(self) -> str:
        return "<psd.Operation: %s of %r>" % (self._what, self._client)
