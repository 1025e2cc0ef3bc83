"""Errors of psd as exceptions: one class for each code of ps_err.h, all of them psd.Error, and where Python has an
exception of that meaning, of that class as well.

    try:
        w.pull(timeout=5)
    except TimeoutError as e:      # psd.Timeout
        print(e.code, e.text, e.peer)

>>> issubclass(Timeout, TimeoutError) and issubclass(Timeout, Error)
True
>>> str(Timeout("waited 500 ms for values", peer="shard 1 at 127.0.0.1:4000"))
'TIMEOUT: waited 500 ms for values (shard 1 at 127.0.0.1:4000)'
"""

from typing import Any, Dict, Optional, Tuple, Type

from ._library import ffi, lib


class Error(Exception):
    """What went wrong: code ("TIMEOUT"), text (a sentence), and peer ("shard 1 at 127.0.0.1:4000", or "")."""

    code: str = "OK"

    def __init__(self, text: str = "", peer: str = "") -> None:
        super().__init__(text, peer)
        self.text = text
        self.peer = peer

    def __str__(self) -> str:
        end = " (%s)" % self.peer if self.peer and self.peer not in self.text else ""
        return self.text + end if self.code == "OK" else "%s: %s%s" % (self.code, self.text, end)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.text, self.peer)


class Invalid(Error, ValueError):
    """An argument is not valid."""

    code = "INVALID"


class NoMemory(Error, MemoryError):
    """This process has no memory."""

    code = "NOMEM"


class Timeout(Error, TimeoutError):
    """The deadline passed. The sentence names what was waited for."""

    code = "TIMEOUT"


class Cancelled(Error):
    """The operation was cancelled."""

    code = "CANCELLED"


class Unreachable(Error, ConnectionError):
    """A peer cannot be reached."""

    code = "UNREACHABLE"


class Closed(Error, ConnectionError):
    """The connection, or the object, was closed."""

    code = "CLOSED"


class ProtocolError(Error, ConnectionError):
    """The peer broke the protocol, or is something else than a shard."""

    code = "PROTOCOL"


class VersionError(Error):
    """The peer speaks a version of the protocol that is not known here."""

    code = "VERSION"


class ClusterError(Error):
    """The peer belongs to another cluster, or is another shard of it."""

    code = "CLUSTER"


class NotFound(Error, LookupError):
    """There is no such variable, block or job."""

    code = "NOT_FOUND"


class Mismatch(Error, ValueError):
    """It was defined before in another way. The sentence says in what."""

    code = "MISMATCH"


class ShapeError(Error, ValueError):
    """The buffer does not have the declared shape."""

    code = "SHAPE"


class NonFinite(Error, ValueError):
    """A gradient holds NaN or Inf, or weights would overflow."""

    code = "NONFINITE"


class Stale(Error):
    """A push was dropped: its age passed the cutoff."""

    code = "STALE"


class Late(Error):
    """A push was dropped: its step already had its gradients."""

    code = "LATE"


class SequenceError(Error):
    """A shard lacks a push that it should have had."""

    code = "SEQUENCE"


class ClockError(Error):
    """A clock may not go back."""

    code = "CLOCK"


class TaskTaken(Error):
    """Another live process holds this worker's index."""

    code = "TASK_TAKEN"


class Fenced(Error):
    """This worker was evicted, or another process has its index: rejoin()."""

    code = "FENCED"


class LeaseLapsed(Error):
    """This worker was silent for its lease: rejoin()."""

    code = "LEASE_LAPSED"


class StepFailed(Error):
    """A worker that the step needs was lost."""

    code = "STEP_FAILED"


class LimitError(Error):
    """A documented limit was exceeded."""

    code = "LIMIT"


class Full(Error, MemoryError):
    """A shard's memory, or a disk, is full."""

    code = "FULL"


class InputOutputError(Error, OSError):
    """The operating system reported an error of input or output."""

    code = "IO"


class Draining(Error, ConnectionError):
    """A shard is shutting down."""

    code = "DRAINING"


class RolledBack(Error):
    """A shard came back older than what it had acknowledged."""

    code = "ROLLED_BACK"


class UnknownOutcome(Error):
    """Given up while it was unanswered: a push may have been applied, or not."""

    code = "UNKNOWN_OUTCOME"


class ConfigError(Error, ValueError):
    """The configuration is not valid: TF_CONFIG, PSD_SHARDS, a token, a certificate."""

    code = "CONFIG"


class DataError(Error, ValueError):
    """A file of data is not valid."""

    code = "DATA"


class Unsupported(Error, NotImplementedError):
    """This build or machine cannot do it."""

    code = "UNSUPPORTED"


class Busy(Error):
    """Another process, or another call, uses it."""

    code = "BUSY"


class InternalError(Error, RuntimeError):
    """An error of psd's own. Please report it."""

    code = "INTERNAL"


class NotDurable(Error):
    """A push was applied, but could not be written to disk."""

    code = "NOT_DURABLE"


class Restored(Error):
    """A shard was restored from a checkpoint."""

    code = "RESTORED"


class TLSError(Error, ConnectionError):
    """The two sides could not agree on TLS."""

    code = "TLS"


class Denied(Error, PermissionError):
    """There is no token, or not one that may do this."""

    code = "DENIED"


class Dropped(Error):
    """The job or variable was dropped."""

    code = "DROPPED"


class Forked(Error, RuntimeError):
    """This process is a child, by fork(), of the one that opened the object: only close() does something here. Open one
    of its own in the child."""

    code = "INVALID"


_CLASSES = (
    Invalid, NoMemory, Timeout, Cancelled, Unreachable, Closed, ProtocolError, VersionError, ClusterError, NotFound,
    Mismatch, ShapeError, NonFinite, Stale, Late, SequenceError, ClockError, TaskTaken, Fenced, LeaseLapsed, StepFailed,
    LimitError, Full, InputOutputError, Draining, RolledBack, UnknownOutcome, ConfigError, DataError, Unsupported, Busy,
    InternalError, NotDurable, Restored, TLSError, Denied, Dropped,
)
__all__ = ["Error", "Forked", *(one.__name__ for one in _CLASSES)]
_BY_CODE: Dict[int, Type[Error]] = {getattr(lib, "PS_ERR_" + one.code): one for one in _CLASSES}
NOT_COUNTED = (lib.PS_ERR_STALE, lib.PS_ERR_LATE)


def error_of(error: Any) -> Error:
    """A struct ps_error * as an exception, which is not raised. An event without an error is psd.Error itself."""
    text, peer = (ffi.string(part).decode("utf-8", "replace") for part in (error.text, error.peer))
    return _BY_CODE.get(error.code, Error)(text, peer)


def check(code: int, error: Any) -> None:
    """Raise what a call ended with, unless that is PS_OK."""
    if code:
        raise error_of(error)


def class_of(code: str) -> Optional[Type[Error]]:
    """The class of a code, such as "TIMEOUT"; None for one that is not known."""
    return next((one for one in _CLASSES if one.code == code), None)
