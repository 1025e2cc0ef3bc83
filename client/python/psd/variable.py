"""Variables: named tensors of float32 that live on the shards."""

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._library import ffi, lib
from ._text import constant, parameters

if TYPE_CHECKING:
    from .client import Client
    from .started import Operation

_PARAMETERS: Dict[str, Tuple[str, ...]] = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev"),
}
_DEFAULTS = {"value": 0.0, "low": -0.05, "high": 0.05, "mean": 0.0, "stddev": 0.05}


def fill_init(init: Any, text: str, seed: int) -> None:
    """A struct ps_init of a text: a name of ps_variable.h's in small letters, and its numbers.

    >>> from psd._library import ffi
    >>> init = ffi.new("struct ps_init *")
    >>> fill_init(init, "uniform:low=-0.5", 7)
    >>> init.a, init.b, init.seed
    (-0.5, 0.05, 7)
    """
    name, given = parameters("init", text, _PARAMETERS)
    init.kind = constant("init", name)
    values = [given.get(key, _DEFAULTS[key]) for key in _PARAMETERS.get(name, ())] + [0.0, 0.0]
    init.a, init.b = values[:2]
    init.seed = seed


class Variable:
    """A variable of a client: name, shape, size (elements). It is good until its client is closed.

    pull(), push() and push_pull() are those of the client, for this variable.
    """

    def __init__(self, client: "Client", pointer: Any) -> None:
        self.client = client
        self._pointer = pointer
        self.name: str = ffi.string(lib.ps_var_name(pointer)).decode()
        self.shape: Tuple[int, ...] = tuple(lib.ps_var_dim(pointer, i) for i in range(lib.ps_var_rank(pointer)))
        self.size: int = lib.ps_var_elements(pointer)
        self.blocks: int = lib.ps_var_blocks(pointer)

    @property
    def versions(self) -> Tuple[int, int]:
        """The lowest and the highest version (updates) among its blocks, as last pulled or answered."""
        lowest, highest = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        with self.client._handle.lock:
            self.client._handle.use()
            lib.ps_var_versions(self._pointer, lowest, highest)
        return lowest[0], highest[0]

    def pull(self, out: Any = None, **options: Any) -> Any:
        """Its values, shape and float32, in out or in a new array: Client.pull()."""
        return self.client.pull(self, out, **options)

    def push(self, gradient: Any, **options: Any) -> bool:
        """Apply a gradient of its shape: Client.push()."""
        return self.client.push(self, gradient, **options)

    def push_pull(self, gradient: Any, out: Any = None, **options: Any) -> Any:
        """Apply a gradient, and the values after it: Client.push_pull()."""
        return self.client.push_pull(self, gradient, out, **options)

    def pull_start(self, out: Any = None, **options: Any) -> "Operation[Any]":
        """Start a pull: Client.pull_start()."""
        return self.client.pull_start(self, out, **options)

    def push_start(self, gradient: Any, **options: Any) -> "Operation[bool]":
        """Start a push: Client.push_start()."""
        return self.client.push_start(self, gradient, **options)

    def __repr__(self) -> str:
        return "<psd.Variable %r, shape %s, of %r>" % (self.name, self.shape, self.client)
