"""libpsclient: where it is, loaded; and where the programs are that belong to it.

Looked for, in this order: what PSD_LIBRARY names; beside this package, as a wheel has it; the build folder, where this
package was built; where the system's loader looks.
"""

import glob
import os
import shutil
import sys
from typing import Any, Iterator, Optional, Tuple

from . import _definitions

ffi: Any = _definitions.ffi
PS_COMPRESS_FRACTION: float = _definitions.PS_COMPRESS_FRACTION
VERSION: str = _definitions.VERSION

__all__ = ["PS_COMPRESS_FRACTION", "VERSION", "ffi", "lib", "path", "program"]

NAME = "libpsclient.so.0"
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.dirname(os.path.dirname(HERE))  # of a build, the folder "client"


def _candidates() -> Iterator[str]:
    named = os.environ.get("PSD_LIBRARY")
    if named:
        yield named
        return
    site = os.path.dirname(HERE)
    for folder in (".psd_*.mesonpy.libs", "psd_*.libs"):  # as the wheel is built, and as auditwheel repairs it
        for path in sorted(glob.glob(os.path.join(glob.escape(site), folder, "libpsclient*.so*"))):
            if not os.path.basename(path).startswith("libpsclient-cuda."):  # which libpsclient loads by itself
                yield path
    if os.path.exists(os.path.join(BUILD, NAME)):
        yield os.path.join(BUILD, NAME)
    yield NAME


def _load() -> Tuple[str, Any]:
    tried = []
    for candidate in _candidates():
        try:
            return candidate, ffi.dlopen(candidate)
        except OSError as e:
            tried.append(str(e))
    raise ImportError("libpsclient cannot be loaded: %s. Install psd, or let PSD_LIBRARY name the file" % "; ".join(tried))


path, lib = _load()
_loaded = ffi.string(lib.ps_version()).decode()
if _loaded != VERSION:
    raise ImportError("%s is of version %s, and this package of %s: both must be of one version" % (path, _loaded, VERSION))


def program(name: str) -> Optional[str]:
    """The path of psd, psctl or psrun: what PSD_BIN, PSCTL_BIN or PSRUN_BIN names, else beside this Python, in the build
    folder, or in PATH; None where it is not."""
    named = os.environ.get(name.upper() + "_BIN")
    root = os.path.dirname(BUILD)
    places = [named] if named else [os.path.join(os.path.dirname(sys.executable), name)]
    if not named and os.path.exists(os.path.join(BUILD, NAME)):
        places += [os.path.join(root, "server", name), os.path.join(BUILD, "tools", name)]
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    return None if named else shutil.which(name)
