"""News that no call reports, as lines of the logger "psd" or calls of a function: a connection lost or there again, a worker
that lapsed, a shard that drains, came back older or was restored."""

import logging
from typing import Any, Callable, List, Optional

from ._errors import Error, error_of
from ._library import ffi

logger = logging.getLogger("psd")


class Events:
    """Where the events of one client go. What the function raises is raised by the call that the event came in."""

    def __init__(self, name: str, function: Optional[Callable[[Error], None]]) -> None:
        self.raised: List[BaseException] = []
        self.handle = ffi.new_handle(self)
        self._name = name
        self._function = function

    def take(self, event: Error) -> None:
        if self._function is not None:
            self._function(event)
        else:
            logger.log(logging.INFO if event.code == "OK" else logging.WARNING, "%s: %s", self._name, event)


def _on_event(arg: Any, event: Any) -> None:
    events = ffi.from_handle(arg)
    try:
        events.take(error_of(event))
    except BaseException as e:  # a KeyboardInterrupt, too, would be lost in C
        events.raised.append(e)


_callback: Any = None


def callback() -> Any:
    """The function that libpsclient calls, made when it is first needed, for all clients."""
    global _callback
    if _callback is None:
        _callback = ffi.callback("void(void *, const struct ps_error *)", _on_event)
    return _callback
