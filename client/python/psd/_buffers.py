"""Memory of other libraries as C calls want it: a pointer to contiguous elements of this machine's byte order, without a
copy.

Taken is whatever has Python's buffer protocol (numpy's arrays, array.array, memoryview, ctypes' arrays) and, of those that
have __dlpack__ (torch, jax, tensorflow, cupy), what lies in the memory of the CPU. Where only a copy could help, a TypeError
says how to make it.
"""

import ctypes
import math
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from ._errors import ShapeError
from ._library import ffi, lib

_LITTLE = sys.byteorder == "little"
_OTHER = ">!" if _LITTLE else "<"  # prefixes of the order that this machine does not have

_NAMES = {"e": "float16", "f": "float32", "d": "float64", "g": "longdouble", "b": "int8", "B": "uint8", "c": "bytes", "?": "bool",
          "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64",
          "n": "int64", "N": "uint64"}
DTYPES = {"float32": lib.PS_F32, "float64": lib.PS_F64, "float16": lib.PS_F16, "bfloat16": lib.PS_BF16, "int32": lib.PS_I32,
          "int64": lib.PS_I64}
SIZES = {name: lib.ps_dtype_size(number) for name, number in DTYPES.items()}
_ADDRESS, _BYTES = ffi.typeof("uintptr_t"), ffi.typeof("char[]")


class Buffer(NamedTuple):
    """A pointer, the number of elements behind it, their type and shape, and what keeps all that alive."""

    pointer: Any
    elements: int
    dtype: str
    shape: Tuple[int, ...]
    keep: Any


def type_name(format: str, itemsize: int) -> str:
    """What struct's format says of an element.

    >>> type_name("f", 4), type_name("l", 8), type_name("l", 4), type_name("Zf", 8)
    ('float32', 'int64', 'int32', 'Zf')
    """
    code = format.lstrip("@=<>!")
    if code in "lL" and itemsize == 4:
        return {"l": "int32", "L": "uint32"}[code]
    return _NAMES.get(code, code or "uint8")


def _of_view(what: str, obj: Any, view: memoryview, writable: bool) -> Buffer:
    dtype = "float32" if view.format == "f" else type_name(view.format, view.itemsize)
    if view.format[0] in _OTHER:
        raise TypeError("%s: its bytes are in the order of another machine; give a.astype(%r), a copy" % (what, dtype))
    if not view.c_contiguous:
        raise TypeError("%s: its elements do not lie one behind the other; give numpy.ascontiguousarray(a), a copy, "
                        "or let psd write to a contiguous array" % what)
    if writable and view.readonly:
        raise TypeError("%s: it may not be written to; give a.copy(), or an array of your own" % what)
    shape = tuple(view.shape or ())
    pointer = ffi.from_buffer(_BYTES, view, require_writable=writable) if view.nbytes else ffi.new("char[16]")
    return Buffer(pointer, view.nbytes // view.itemsize, dtype, shape, (obj, pointer))


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_DL_CPU = 1
_DL_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


def _dl_contiguous(t: _DLTensor) -> bool:
    expected = 1
    if not t.strides or 0 in t.shape[0:t.ndim]:
        return True
    for i in reversed(range(t.ndim)):
        if t.shape[i] != 1 and t.strides[i] != expected:
            return False
        expected *= t.shape[i]
    return True


def _of_dlpack(what: str, obj: Any, writable: bool) -> Buffer:
    device = obj.__dlpack_device__()
    if device[0] != _DL_CPU:
        raise TypeError("%s: it is in the memory of a device; give a.cpu(), a copy" % what)
    try:
        capsule = obj.__dlpack__()
    except (BufferError, RuntimeError) as e:  # torch: a tensor that requires grad
        raise TypeError("%s: %s" % (what, e)) from None
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(read(capsule, b"dltensor"))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    dtype = "bool" if t.code == 6 else "%s%d" % (_DL_TYPES.get(t.code, "type %d of " % t.code), t.bits)
    if not _dl_contiguous(t):
        raise TypeError("%s: its elements do not lie one behind the other; give a.contiguous(), a copy" % what)
    count = math.prod(shape)
    pointer = ffi.cast("char *", (t.data or 0) + t.byte_offset) if count else ffi.new("char[16]")
    return Buffer(pointer, count, dtype, shape, (obj, capsule, pointer))


def buffer(what: str, obj: Any, writable: bool = False) -> Buffer:
    """The memory of an object. what is its name, for what is raised: TypeError where only a copy would do."""
    try:
        view = memoryview(obj)
    except (TypeError, ValueError, BufferError):
        if not hasattr(obj, "__dlpack_device__"):
            raise TypeError("%s: expected an array (buffer protocol or DLPack), got %s" % (what, type(obj).__name__)) from None
        view = None
    found = _of_dlpack(what, obj, writable) if view is None else _of_view(what, obj, view, writable)
    size = SIZES.get(found.dtype)
    if size and int(ffi.cast(_ADDRESS, found.pointer)) % size:
        raise TypeError("%s: its address is not a multiple of its elements' %d bytes; give a.copy()" % (what, size))
    return found


def floats(what: str, obj: Any, shape: Tuple[int, ...], writable: bool = False) -> Buffer:
    """A buffer of float32 of a variable's shape, or flat with as many elements."""
    found = buffer(what, obj, writable)
    if found.dtype != "float32":
        raise TypeError("%s: its elements are %s, and variables are float32; give a.astype('float32'), a copy" % (what, found.dtype))
    if found.shape != shape and found.shape != (math.prod(shape),):
        raise ShapeError("%s: its shape is %s, and the variable's %s" % (what, found.shape, tuple(shape)))
    return found


_FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


def empty(shape: Sequence[int], dtype: str = "float32") -> Any:
    """New elements: a numpy array where numpy is installed, else a memoryview of that shape."""
    numpy = _numpy()
    if numpy is not None and dtype != "bfloat16":
        return numpy.empty(shape, dtype=dtype)
    if dtype not in _FORMATS:
        raise TypeError("a new array of %s cannot be made here: give out" % dtype)
    count = math.prod(shape)
    flat: Any = memoryview(bytearray(SIZES[dtype] * count))
    return flat.cast(_FORMATS[dtype], list(shape)) if count else flat.cast(_FORMATS[dtype])


def elements_of(what: str, obj: Any, writable: bool = False) -> Buffer:
    """A buffer of a type that groups know."""
    found = buffer(what, obj, writable)
    if found.dtype not in DTYPES:
        raise TypeError("%s: its elements are %s, and groups know %s" % (what, found.dtype, ", ".join(DTYPES)))
    return found


_numpy_module: Optional[Any] = None
_numpy_asked = False


def _numpy() -> Any:
    global _numpy_module, _numpy_asked
    if not _numpy_asked:
        try:
            import numpy
            _numpy_module = numpy
        except ImportError:
            pass
        _numpy_asked = True
    return _numpy_module
