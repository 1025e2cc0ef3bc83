"""psd from Python: train on a parameter server, or all-reduce between workers.

    import psd

    with psd.connect() as c:                                   # psrun sets the environment; or psd.connect("host:port,host:port")
        w = c.variable("w", (64, 10), init="glorot_uniform", optimizer="adam:learning_rate=3e-4")
        while c.clock < 500:
            weights = w.pull()                                 # numpy, float32
            w.push(gradient_of(weights))
            c.tick()

Arrays are passed without a copy: whatever has the buffer protocol or DLPack in the CPU's memory, contiguous float32. Errors are
psd.Error by their codes, and TimeoutError, ConnectionError, ValueError and others where these fit. Ctrl-C ends every wait.
After fork() a child opens its own: what its parent opened raises psd.Forked there.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _errors
from ._errors import *  # noqa: F401,F403: its __all__
from ._library import VERSION as __version__
from .client import Client, Cursor, connect
from .cluster import Cluster
from .group import Group
from .started import Operation, Work
from .variable import Variable

if TYPE_CHECKING:
    from ._launch import WorkerFailed, launch

__all__ = ["Client", "Cluster", "Cursor", "Group", "Operation", "Variable", "Work", "WorkerFailed", "__version__", "connect", "launch", *_errors.__all__]


def __getattr__(name: str) -> Any:
    """What is imported when it is asked for: psd.admin, psd.doctor, and what starts processes."""
    if name in ("admin", "doctor"):
        return importlib.import_module("." + name, __name__)
    if name in ("WorkerFailed", "launch"):
        return getattr(importlib.import_module("._launch", __name__), name)
    raise AttributeError("module 'psd' has no attribute %r" % name)
