"""Errors as exceptions."""

import pickle

import psd
import pytest
from psd import _errors
from psd._library import ffi, lib

CODES = {name[len("PS_ERR_"):]: number for name, number in ffi.typeof("enum ps_err").relements.items()
         if name.startswith("PS_ERR_") and name != "PS_ERR_COUNT"}


def raised(code, text="a sentence", peer=""):
    error = ffi.new("struct ps_error *")
    error.code, error.text, error.peer = code, text.encode(), peer.encode()
    with pytest.raises(psd.Error) as caught:
        _errors.check(code, error)
    return caught.value


def test_every_code_has_a_class_of_its_own():
    classes = {code: type(raised(number)) for code, number in CODES.items()}
    assert len(CODES) == lib.PS_ERR_COUNT - 1
    assert all(one.code == code for code, one in classes.items())
    assert len(set(classes.values())) == len(CODES)
    assert all(getattr(psd, one.__name__) is one for one in classes.values())


@pytest.mark.parametrize("code, base", [("TIMEOUT", TimeoutError), ("UNREACHABLE", ConnectionError), ("CLOSED", ConnectionError),
                                        ("INVALID", ValueError), ("NOMEM", MemoryError), ("NOT_FOUND", LookupError),
                                        ("DENIED", PermissionError), ("IO", OSError), ("CONFIG", ValueError)])
def test_a_class_is_also_the_exception_of_python(code, base):
    assert isinstance(raised(CODES[code]), base)


def test_an_error_has_code_text_and_peer():
    e = raised(CODES["TIMEOUT"], "waited 5 ms for values", "shard 1 at 127.0.0.1:1")
    assert (e.code, e.text, e.peer) == ("TIMEOUT", "waited 5 ms for values", "shard 1 at 127.0.0.1:1")
    assert str(e) == "TIMEOUT: waited 5 ms for values (shard 1 at 127.0.0.1:1)"


def test_the_peer_is_not_said_twice():
    assert str(raised(CODES["CLOSED"], "rank 2 has left", "rank 2")) == "CLOSED: rank 2 has left"


def test_an_error_goes_through_pickle():
    for number in CODES.values():
        e = raised(number, "text", "peer")
        copy = pickle.loads(pickle.dumps(e))
        assert type(copy) is type(e) and str(copy) == str(e) and copy.peer == "peer"


def test_text_that_is_no_utf_8_is_still_an_error():
    error = ffi.new("struct ps_error *", {"code": CODES["IO"], "text": b"\xff!"})
    assert _errors.error_of(error).text == "\ufffd!"
