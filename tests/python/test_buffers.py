"""Arrays of other libraries as C calls get them: without a copy, or not at all."""

import array
import ctypes

import numpy
import psd
import pytest
from psd import _buffers
from psd._library import ffi


def address(found):
    return int(ffi.cast("uintptr_t", found.pointer))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4)])
def test_an_array_of_numpy_is_passed_where_it_lies(dtype, shape):
    a = numpy.zeros(shape, dtype)
    found = _buffers.buffer("a", a, writable=True)
    assert (address(found), found.elements, found.dtype, found.shape) == (a.ctypes.data, a.size, dtype, shape)


def test_so_are_those_of_array_ctypes_and_memoryview():
    one = array.array("f", [1, 2, 3])
    two = (ctypes.c_float * 3)(1, 2, 3)
    three = memoryview(bytearray(12)).cast("f")
    assert address(_buffers.buffer("a", one)) == one.buffer_info()[0]
    assert address(_buffers.buffer("a", two)) == ctypes.addressof(two)
    assert [_buffers.buffer("a", each).dtype for each in (one, two, three)] == ["float32"] * 3


class Lent:
    """Only DLPack, as torch's tensors have it."""

    def __init__(self, a, device=(1, 0)):
        self.a, self.device = a, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return self.a.__dlpack__()


def test_so_is_what_has_dlpack_alone():
    a = numpy.arange(12, dtype="float32").reshape(3, 4)
    found = _buffers.buffer("a", Lent(a[1:]))
    assert (address(found), found.elements, found.dtype, found.shape) == (a[1:].ctypes.data, 8, "float32", (2, 4))


def test_dlpack_of_a_device_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"give a\.cpu\(\)"):
        _buffers.buffer("a", Lent(numpy.zeros(3, "f"), (2, 0)))


def test_dlpack_with_strides_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"contiguous\(\)"):
        _buffers.buffer("a", Lent(numpy.zeros((3, 4), "f").T))
    assert _buffers.buffer("a", Lent(numpy.zeros((1, 4), "f").T)).elements == 4  # strides of one element mean nothing


def test_the_memory_of_a_buffer_outlives_the_array():
    a = numpy.full(1000, 7, "f")
    found = _buffers.buffer("a", a)
    del a
    assert ffi.cast("float *", found.pointer)[999] == 7


@pytest.mark.parametrize("a, says", [
    (numpy.zeros((4, 6), "f")[:, ::2], "ascontiguousarray"),
    (numpy.zeros((4, 6), "f").T, "ascontiguousarray"),
    (numpy.zeros((4, 6), "f", order="F"), "ascontiguousarray"),
    (numpy.zeros(3, ">f4"), "bytes are in the order of another machine.*astype"),
    (numpy.frombuffer(bytearray(13), "f", 3, 1), "multiple of its elements' 4 bytes"),
    ([1.0, 2.0], "expected an array .*, got list"),
    (None, "expected an array .*, got NoneType"),
    ("text", "got str"),
])
def test_what_only_a_copy_could_help_is_a_type_error_that_says_which(a, says):
    with pytest.raises(TypeError, match="^w: .*" + says):
        _buffers.buffer("w", a)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool", "complex64", ">f8"])
def test_other_elements_than_float32_are_a_type_error(dtype):
    with pytest.raises(TypeError, match="^w: "):
        _buffers.floats("w", numpy.zeros(3, dtype), (3,))


def test_bytes_are_no_floats():
    with pytest.raises(TypeError, match="uint8"):
        _buffers.floats("w", b"\0" * 12, (3,))


def test_read_only_memory_is_read_and_not_written():
    a = numpy.zeros(3, "f")
    a.flags.writeable = False
    assert _buffers.floats("w", a, (3,)).elements == 3
    with pytest.raises(TypeError, match="may not be written to"):
        _buffers.floats("w", a, (3,), writable=True)


@pytest.mark.parametrize("shape", [(3, 2), (7,), (), (2, 3, 1), (0,)])
def test_another_shape_is_a_shape_error(shape):
    with pytest.raises(psd.ShapeError, match="shape") as caught:
        _buffers.floats("w", numpy.zeros(shape, "f"), (2, 3))
    assert isinstance(caught.value, ValueError)


def test_a_flat_array_of_as_many_elements_is_taken():
    assert _buffers.floats("w", array.array("f", range(6)), (2, 3)).elements == 6


def test_an_empty_array_has_no_elements():
    for empty in (numpy.zeros((0,), "f"), numpy.zeros((3, 0), "f"), Lent(numpy.zeros((0, 2), "f"))):
        assert _buffers.buffer("a", empty).elements == 0


def test_without_numpy_new_values_are_a_memoryview(monkeypatch):
    monkeypatch.setattr(_buffers, "_numpy", lambda: None)
    a = _buffers.empty((2, 3))
    assert isinstance(a, memoryview) and a.shape == (2, 3) and a.format == "f"
    assert _buffers.floats("a", a, (2, 3), writable=True).elements == 6
    assert _buffers.floats("a", _buffers.empty(()), (), writable=True).elements == 1
