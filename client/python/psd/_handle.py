"""A pointer of libpsclient's, and when it may be used: not after close(), not in a child of fork(), and by one thread at a
time, or by several where a progress thread drives the network.

    with handle.lock:
        lib.ps_client_flush(handle.use())

The lock is one of C, so that a signal's handler that raises between two instructions leaves none locked. What is to be freed is
freed by whoever uses the handle next: a finalizer runs at any time and in any thread, also while another one is in a call.
"""

import collections
import os
import threading
from typing import Any, Callable, Deque, Dict, List, Tuple

from . import _waits
from ._errors import Busy, Closed, Forked, check

_process = [object()]  # another one in each child of fork()
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, object()))


class Handle:
    """One pointer. shared: any number of threads at a time may use it, each with a lock of its own."""

    def __init__(self, what: str, shared: bool) -> None:
        self.what = what
        self.pointer: Any = None
        self.events: List[BaseException] = []  # what callbacks raised, for the call that they came in
        self._process = _process[0]
        self._shared = shared
        self._locks: Dict[int, Any] = {}  # by thread, or one under 0
        self._dropped: Deque[Tuple[Callable[[Any], None], Any, Any]] = collections.deque()

    def in_child(self) -> bool:
        return self._process is not _process[0]

    @property
    def lock(self) -> Any:
        """What is held during a call. Raises where there must be none."""
        if self._process is not _process[0]:
            raise Forked("%s was opened before fork(), and may be used by that process alone: open one here" % self.what)
        key = threading.get_ident() if self._shared else 0
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks.setdefault(key, threading.RLock())
        if lock._is_owned():
            raise Busy("%s is in a call of this thread: a signal's handler may not use it" % self.what)
        return lock

    def use(self) -> Any:
        """The pointer, for who holds the lock."""
        if self.pointer is None:
            raise Closed("%s is closed" % self.what)
        if self._dropped:
            self.free_dropped()
        return self.pointer

    def call(self, call: Callable[[Any], int], error: Any) -> None:
        """A call that waits and has no operation."""
        with self.lock:
            pointer = self.use()
            code = _waits.apart(lambda: call(pointer))
        self.after()
        check(code, error)

    def after(self) -> None:
        """Raise what a callback has raised in the call."""
        if self.events:
            raise self.events.pop(0)

    def drop(self, free: Callable[[Any], None], pointer: Any, keep: Any) -> None:
        """Free a pointer later, and keep what it borrows until then."""
        self._dropped.append((free, pointer, keep))

    def free_dropped(self) -> None:
        while self._dropped:
            free, pointer, _ = self._dropped.popleft()
            free(pointer)

    def take_away(self) -> Any:
        """The pointer, for who closes it, once nobody uses it any more; None when it is closed, or another process's."""
        if self.pointer is None or self.in_child():
            self.pointer = None
            return None
        own = self.lock
        with own:
            pointer, self.pointer = self.pointer, None
        for lock in list(self._locks.values()):
            with lock:
                pass
        return pointer
