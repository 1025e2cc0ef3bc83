"""A pointer of libpsclient's, and when it may be used: not after close(), not in a child of fork(), and by one thread at a
time, or by several where a progress thread drives the network.

    with handle as pointer:
        lib.ps_client_flush(pointer)

What is to be freed is freed by whoever uses the handle next: a finalizer runs at any time and in any thread, also while
another one is in a call.
"""

import collections
import os
import threading
from typing import Any, Callable, Deque, List, Tuple

from ._errors import Busy, Closed, Forked

_process = [object()]  # another one in each child of fork()
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, object()))


class Handle:
    """One pointer. shared: any number of threads at a time may use it."""

    def __init__(self, what: str, shared: bool) -> None:
        self.what = what
        self.pointer: Any = None
        self.events: List[BaseException] = []  # what callbacks raised, for the call that they came in
        self._process = _process[0]
        self._shared = shared
        self._owner = 0
        self._users = 0
        self._lock = threading.Lock()
        self._unused = threading.Condition()
        self._dropped: Deque[Tuple[Callable[[Any], None], Any, Any]] = collections.deque()

    def in_child(self) -> bool:
        return self._process is not _process[0]

    def _check(self) -> None:
        if self._process is not _process[0]:
            raise Forked("%s was opened before fork(), and may be used by that process alone: open one here" % self.what)
        if self.pointer is None:
            raise Closed("%s is closed" % self.what)

    def __enter__(self) -> Any:
        self._check()
        if self._shared:
            with self._unused:
                self._users += 1
        else:
            self._take()
        if self.pointer is None:  # closed meanwhile
            self._give()
            self._check()
        if self._dropped:
            self.free_dropped()
        return self.pointer

    def __exit__(self, *_: Any) -> None:
        self._give()
        if self.events:
            raise self.events.pop(0)

    def _take(self) -> None:
        if not self._lock.acquire(False):
            if self._owner == threading.get_ident():
                raise Busy("%s is in a call of this thread: a signal's handler may not use it" % self.what)
            self._lock.acquire()
        self._owner = threading.get_ident()

    def _give(self) -> None:
        if self._shared:
            with self._unused:
                self._users -= 1
                self._unused.notify_all()
        else:
            self._owner = 0
            self._lock.release()

    def drop(self, free: Callable[[Any], None], pointer: Any, keep: Any) -> None:
        """Free a pointer later, and keep what it borrows until then."""
        self._dropped.append((free, pointer, keep))

    def free_dropped(self) -> None:
        while self._dropped:
            free, pointer, _ = self._dropped.popleft()
            free(pointer)

    def take_away(self) -> Any:
        """The pointer, for who closes it, once nobody uses it any more; None when it is closed, or another process's."""
        if self.in_child() or self.pointer is None:
            self.pointer = None
            return None
        if not self._shared:
            self._take()
        pointer, self.pointer = self.pointer, None
        if not self._shared:
            self._give()
        with self._unused:
            self._unused.wait_for(lambda: self._users == 0)
        return pointer
