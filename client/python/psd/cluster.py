"""Who is where: the shards of a cluster, its workers, and which of them this process is."""

import json
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from ._errors import check
from ._library import ffi, lib
from ._text import Strings, word


class Cluster:
    """A cluster, as from_env(), from_list() and from_tf_config() read it. It does not change.

    >>> cluster = Cluster.from_list(["127.0.0.1:7420", "127.0.0.1:7421"], workers=3, task=1)
    >>> cluster
    <psd.Cluster 'psd': worker 1 of 3, 2 shards at 127.0.0.1:7420, 127.0.0.1:7421>
    >>> cluster.is_chief
    False
    """

    def __init__(self, make: Any, name: Optional[str] = None) -> None:
        self._pointer = ffi.NULL
        out, error = ffi.new("ps_cluster **"), ffi.new("struct ps_error *")
        check(make(out, error), error)
        self._pointer = ffi.gc(out[0], lib.ps_cluster_free)
        if name is not None:
            check(lib.ps_cluster_set_name(self._pointer, Strings()(name, "cluster"), error), error)

    @classmethod
    def from_env(cls, *, name: Optional[str] = None) -> "Cluster":
        """TF_CONFIG, else PSD_SHARDS with PSD_WORKERS and PSD_TASK. psd.ConfigError where neither is set, or one is wrong."""
        return cls(lib.ps_cluster_from_env, name)

    @classmethod
    def from_list(cls, shards: Union[str, Sequence[str]], *, workers: int = 1, task: int = 0,
                  name: Optional[str] = None) -> "Cluster":
        """Addresses of shards, "host:port" or "unix:/path", as a list or with commas between them."""
        text = Strings()(shards if isinstance(shards, str) else ",".join(shards), "shards")
        return cls(lambda out, error: lib.ps_cluster_from_list(text, workers, task, out, error), name)

    @classmethod
    def from_tf_config(cls, config: Union[str, Mapping[str, Any]], *, name: Optional[str] = None) -> "Cluster":
        """What TF_CONFIG would hold, as text or as the dict that it is the JSON of."""
        text = Strings()(config if isinstance(config, str) else json.dumps(config), "TF_CONFIG")
        return cls(lambda out, error: lib.ps_cluster_from_json(text, out, error), name)

    @property
    def name(self) -> str:
        """By which shards know their own clients; "psd" unless it was given."""
        return ffi.string(lib.ps_cluster_name(self._pointer)).decode()

    @property
    def role(self) -> str:
        """"chief", "worker", "ps" or "evaluator"."""
        return word("role", lib.ps_cluster_role(self._pointer))

    @property
    def task(self) -> int:
        """This process's index among chief and workers; 0 for other roles."""
        return lib.ps_cluster_task(self._pointer)

    @property
    def workers(self) -> int:
        """How many workers there are, the chief counted."""
        return lib.ps_cluster_workers(self._pointer)

    @property
    def shards(self) -> Tuple[str, ...]:
        """The addresses of the shards."""
        count = lib.ps_cluster_shards(self._pointer)
        return tuple(ffi.string(lib.ps_cluster_shard_address(self._pointer, i)).decode() for i in range(count))

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief, or worker 0 where there is none."""
        return bool(lib.ps_cluster_is_chief(self._pointer))

    def __repr__(self) -> str:
        shards = self.shards
        what = "worker %d of %d" % (self.task, self.workers) if self.role in ("chief", "worker") else self.role
        where = "%d shard%s at %s" % (len(shards), "" if len(shards) == 1 else "s", ", ".join(shards)) if shards else "no shards"
        return "<psd.Cluster %r: %s, %s>" % (self.name, what, where)


def cluster_of(where: Union[None, str, Sequence[str], Mapping[str, Any], Cluster], workers: int, task: int,
               name: Optional[str]) -> Cluster:
    """What connect() and Group() take for a cluster."""
    if isinstance(where, Cluster):
        return where
    if where is None:
        return Cluster.from_env(name=name)
    if isinstance(where, Mapping):
        return Cluster.from_tf_config(where, name=name)
    return Cluster.from_list(where, workers=workers, task=task, name=name)
