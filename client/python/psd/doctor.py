"""What psd finds on this machine, for people and for reports of errors.

    python -m psd.doctor [HOST:PORT,...]

prints versions, the library and the programs, shared memory, and of each shard (of the list, or the environment's) whether it
is reached. The status is 1 when something is missing.
"""

import importlib.util
import os
import platform
import shutil
import sys
from importlib import metadata
from typing import List, Optional, Sequence, Tuple

from . import __version__, _library, admin
from ._errors import Error

Finding = Tuple[bool, str, str]  # whether it is well, what it is, what was found
SHM = "/dev/shm"
SHM_BYTES_MIN = 64 << 20


def _versions() -> List[Finding]:
    found = [(True, "package", "%s, %s" % (__version__, _library.path)), (True, "Python", "%s, %s" % (platform.python_version(), sys.executable))]
    for name in ("cffi", "numpy", "torch", "jax"):
        if importlib.util.find_spec(name) is not None:
            try:
                found.append((True, name, metadata.version(name)))
            except metadata.PackageNotFoundError:
                found.append((True, name, "of unknown version"))
    return found


def _programs() -> List[Finding]:
    return [(path is not None, name, path or "not found beside Python, in PATH, or where %s_BIN says" % name.upper())
            for name, path in ((name, _library.program(name)) for name in ("psd", "psrun", "psctl"))]


def _shared_memory() -> Finding:
    if not os.access(SHM, os.W_OK):
        return False, SHM, "this user may not write there: shards need a live directory elsewhere, and TCP is used"
    free = shutil.disk_usage(SHM).free
    return free >= SHM_BYTES_MIN, SHM, "%d MiB free" % (free >> 20)


def _environment() -> List[Finding]:
    return [(True, name, "set" if "TOKEN" in name else os.environ[name]) for name in sorted(os.environ)
            if name == "TF_CONFIG" or name.startswith("PSD_")]


def _shards(addresses: Optional[str]) -> List[Finding]:
    if addresses is None and not os.environ.get("TF_CONFIG") and not os.environ.get("PSD_SHARDS"):
        return [(True, "shards", "none are named, by an argument, TF_CONFIG or PSD_SHARDS")]
    try:
        with admin.Admin(addresses, quiet=True) as a:
            return [(s.reached, "shard %d" % s.shard, "%s: %s" % (s.address, "psd %s, cluster %r, variables: %d, workers: %d" % (
                s.version, s.cluster, s.variables, s.workers) if s.reached else s.error)) for s in a.status()]
    except Error as e:
        return [(False, "shards", str(e))]


def findings(addresses: Optional[str] = None) -> List[Finding]:
    """All that is found."""
    return [*_versions(), *_programs(), _shared_memory(), *_environment(), *_shards(addresses)]


def main(arguments: Sequence[str]) -> int:
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__.strip(), file=sys.stdout if arguments[0] in ("-h", "--help") else sys.stderr)
        return 0 if arguments[0] in ("-h", "--help") else 2
    found = findings(*arguments)
    for well, what, text in found:
        print("%-4s %-12s %s" % ("ok" if well else "BAD", what, text))
    return 0 if all(well for well, _, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
