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
_interrupting = threading.Lock()  # held while they are


def _find_main_thread() -> None:
    global _main_thread
    _main_thread = threading.main_thread().ident


os.register_at_fork(after_in_child=_find_main_thread)
_main_thread: Optional[int] = None
_find_main_thread()


def in_main_thread() -> bool:
    return _thread.get_ident() == _main_thread


def apart(call: Callable[[], int]) -> int:
    """The value of a C call that takes long, interruptible: for the main thread."""
    if not in_main_thread():
        return call()
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


def _here(call: Callable[[int], int], timeout_ms: int) -> int:
    """The same in this thread. ps_interrupt() ends the waits of all threads; those that it was not for begin again."""
    end = time.monotonic() + timeout_ms / 1000
    while True:
        before = _interrupts
        code = call(timeout_ms)
        if code != _CANCELLED:
            return code
        with _interrupting:
            if before == _interrupts:
                return code
        timeout_ms = max(0, int((end - time.monotonic()) * 1000))


def until(call: Callable[[int], int], timeout_ms: int) -> int:
    """The value of a C call that waits for so many milliseconds and can be called again after PS_ERR_TIMEOUT."""
    if timeout_ms <= BRIEF_MS or not in_main_thread():
        return _here(call, timeout_ms)
    code = call(BRIEF_MS)
    if code != _TIMEOUT:
        return code
    return apart(lambda: call(timeout_ms - BRIEF_MS))
