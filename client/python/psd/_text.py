"""Words and numbers as the options of libpsclient have them: constants by their names in the headers, times in
milliseconds, strings that live as long as a call."""

import math
from typing import Any, Dict, List, Optional, Tuple

from ._library import ffi, lib

_KINDS = {
    "mode": ("enum ps_mode", "PS_"),
    "lapse": ("enum ps_lapse", "PS_LAPSE_"),
    "age": ("enum ps_age", "PS_AGE_"),
    "transport": ("enum ps_transport", "PS_TRANSPORT_"),
    "init": ("enum ps_init_kind", "PS_INIT_"),
    "reduce": ("enum ps_reduce", "PS_"),
    "algorithm": ("enum ps_algorithm", "PS_ALGORITHM_"),
    "query": ("enum ps_query", "PS_QUERY_"),
    "role": ("enum ps_role", "PS_ROLE_"),
}


def _words(kind: str) -> Dict[str, int]:
    enum, prefix = _KINDS[kind]
    numbers = ffi.typeof(enum).relements
    return {name[len(prefix):].lower(): number for name, number in sorted(numbers.items(), key=lambda one: one[1])}


WORDS = {kind: _words(kind) for kind in _KINDS}


def constant(kind: str, word: str) -> int:
    """The number of a word, such as of "ssp" among modes.

    >>> constant("mode", "ssp")
    1
    >>> constant("mode", "spp")
    Traceback (most recent call last):
    ...
    ValueError: mode: there is no 'spp'; there are async, ssp, sync
    """
    words = WORDS[kind]
    if word not in words:
        raise ValueError("%s: there is no %r; there are %s" % (kind, word, ", ".join(words)))
    return words[word]


def word(kind: str, number: int) -> str:
    return next((name for name, one in WORDS[kind].items() if one == number), "%d" % number)


def milliseconds(what: str, seconds: Optional[float], otherwise: int) -> int:
    """Seconds as whole milliseconds, upwards; None is another number.

    >>> milliseconds("timeout", 0.0001, -1), milliseconds("timeout", 2, -1), milliseconds("timeout", None, -1)
    (1, 2000, -1)
    """
    if seconds is None:
        return otherwise
    if not 0 <= seconds <= 2147483:
        raise ValueError("%s: expected seconds from 0 to 2147483, got %r" % (what, seconds))
    return math.ceil(seconds * 1000)


def parameters(what: str, text: str, known: Dict[str, Tuple[str, ...]]) -> Tuple[str, Dict[str, float]]:
    """A name and its numbers, "uniform:low=-1,high=1", of which each may go without its name.

    >>> parameters("init", "uniform:-1,high=1", {"uniform": ("low", "high")})
    ('uniform', {'low': -1.0, 'high': 1.0})
    """
    name, _, rest = text.partition(":")
    names = known.get(name, ())
    values: Dict[str, float] = {}
    for index, part in enumerate(rest.split(",") if rest else ()):
        key, equals, number = part.rpartition("=")
        key = key if equals else names[index] if index < len(names) else ""
        if key not in names:
            raise ValueError("%s %r: %r is none of its parameters, which are: %s" % (what, text, part, ", ".join(names) or "none"))
        try:
            values[key] = float(number)
        except ValueError:
            raise ValueError("%s %r: %r is no number" % (what, text, number)) from None
    return name, values


class Strings:
    """C strings, which live as long as this object."""

    def __init__(self) -> None:
        self._kept: List[Any] = []

    def __call__(self, text: Optional[str], what: str = "a text") -> Any:
        if text is None:
            return ffi.NULL
        data = text.encode("utf-8")
        if b"\0" in data:
            raise ValueError("%s: %r has a zero byte in it" % (what, text))
        self._kept.append(ffi.new("char[]", data))
        return self._kept[-1]

    def keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value


def version() -> str:
    """The version of libpsclient, "0.1.0"."""
    return ffi.string(lib.ps_version()).decode()
