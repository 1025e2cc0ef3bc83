"""Waiting in C so that Ctrl-C ends it at once.

Python runs the handlers of signals in the main thread, between two instructions; so while that thread waits in a C
function a KeyboardInterrupt waits, too. A wait that takes longer than BRIEF_MS therefore goes on in a thread of its own,
while the main thread waits for that one, which signals interrupt. When a handler raises, ps_interrupt() ends the wait; when
it does not, the wait goes on, as Python's own do (PEP 475). Other threads, which get no signals, wait in C.
"""

import _thread
import contextlib
import os
import threading
import time
from typing import Callable, Iterator, List, Optional

from ._library import lib

BRIEF_MS = 50  # so long a KeyboardInterrupt may wait; most waits end before, and cost no thread
_LOOK_S = 0.05
_TIMEOUT = lib.PS_ERR_TIMEOUT
_CANCELLED = lib.PS_ERR_CANCELLED
_interrupts = 0  # how often the waits of this process were ended
_interrupting = threading.RLock()  # held while they are; again, by a handler that waits for something itself
_main_thread: Optional[int] = threading.main_thread().ident


def _begin_in_child() -> None:
    """What other threads did when the process forked is nothing to the child."""
    global _interrupting, _main_thread
    _interrupting = threading.RLock()
    _main_thread = threading.main_thread().ident
    lib.ps_interrupt_clear()


os.register_at_fork(after_in_child=_begin_in_child)


def in_main_thread() -> bool:
    return _thread.get_ident() == _main_thread


def _apart(call: Callable[[], int]) -> int:
    """The value of a C call, made in a thread of its own while the main thread waits."""
    values: List[int] = []
    failures: List[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            values.append(call())
        except BaseException as e:  # raised again by the main thread
            failures.append(e)
        done.release()

    try:
        _thread.start_new_thread(run, ())
        done.acquire()
    except BaseException as e:
        if isinstance(e, RuntimeError) and "new thread" in str(e):
            return call()  # without a thread it cannot be interrupted, but it is done
        _end(values, failures)
        raise
    if failures:
        raise failures[0]
    return values[0]


def _end(values: List[int], failures: List[BaseException]) -> None:
    """End the other thread's wait, and do not return before: it writes to what the caller owns."""
    while not values and not failures:
        try:
            _interrupt_until(lambda: bool(values or failures))
        except BaseException:  # one Ctrl-C more
            pass


def _interrupt_until(ended: Callable[[], bool]) -> None:
    never = _thread.allocate_lock()
    never.acquire()
    with interrupted():
        while not ended():
            lib.ps_interrupt()  # again, where a handler has waited for something itself
            never.acquire(True, _LOOK_S)


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """While nothing waits in this process. Waits of other threads begin again when it is over."""
    global _interrupts
    with _interrupting:
        lib.ps_interrupt()
        try:
            yield
        finally:
            lib.ps_interrupt_clear()
            _interrupts += 1


def _again(call: Callable[[], int]) -> int:
    """The value of a call, which is made again when it was cancelled because ps_interrupt() was meant for another one: that ends
    the waits of all threads."""
    while True:
        before = _interrupts
        code = call()
        if code != _CANCELLED:
            return code
        with _interrupting:
            if before == _interrupts:
                return code


def apart(call: Callable[[], int]) -> int:
    """The value of a C call that takes long, interruptible."""
    return _again(lambda: _apart(call) if in_main_thread() else call())


def until(call: Callable[[int], int], timeout_ms: int) -> int:
    """The value of a C call that waits for so many milliseconds and can be called again after PS_ERR_TIMEOUT."""
    main = _thread.get_ident() == _main_thread
    begin = time.monotonic()
    code = call(BRIEF_MS if main and timeout_ms > BRIEF_MS else timeout_ms)
    if code == _CANCELLED or (code == _TIMEOUT and main and timeout_ms > BRIEF_MS):
        code = apart(lambda: call(max(0, timeout_ms - int((time.monotonic() - begin) * 1000))))
    return code
