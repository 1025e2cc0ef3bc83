"""Messages of proto/psd.proto, read from that file and written as proto3 is.

    meta = pack("Ping", token=5)
    unpack("Ping", meta).token

It also writes what a library for protobuf would not: text that is no UTF-8, numbers that no enumeration has.
"""

import os
import re
import struct
import types

from wire.specification import SOURCE

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
SCALARS = {"uint32": VARINT, "uint64": VARINT, "bool": VARINT, "fixed64": FIXED64, "double": FIXED64, "string": LENGTH,
           "bytes": LENGTH}


class Field:
    def __init__(self, repeated, kind, name, number):
        self.repeated, self.kind, self.name, self.number = bool(repeated), kind, name, int(number)
        self.wire = SCALARS.get(kind, VARINT if kind in ENUMS else LENGTH)

    def nothing(self):
        if self.repeated:
            return []
        return {"string": "", "bytes": b"", "bool": False, "double": 0.0}.get(self.kind, None if self.kind in MESSAGES else 0)


def _read(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    blocks = re.findall(r"^(enum|message) (\w+) \{(.*?)^\}", text, re.S | re.M)
    for what, name, body in blocks:
        if what == "enum":
            ENUMS[name] = {member: int(value) for member, value in re.findall(r"(\w+) = (\d+);", body)}
        else:
            MESSAGES[name] = ()
    for what, name, body in blocks:
        if what == "message":
            MESSAGES[name] = [Field(*found) for found in re.findall(r"(repeated )?\b(\w+) (\w+) = (\d+);", body)]


ENUMS, MESSAGES = {}, {}
_read(os.path.join(SOURCE, "proto/psd.proto"))
MEMBERS = {member: value for members in ENUMS.values() for member, value in members.items()}


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _scalar(field, value):
    if field.wire == VARINT:
        return _varint(MEMBERS[value] if isinstance(value, str) else int(value))
    if field.wire == FIXED64:
        return struct.pack("<d" if field.kind == "double" else "<Q", value)
    if field.kind in MESSAGES:
        value = pack(field.kind, **value)
    if isinstance(value, str):
        value = value.encode()
    return _varint(len(value)) + value


def pack(message, /, **values):
    """A value that is None, or that a message without it would have, is left out."""
    out = b""
    for field in MESSAGES[message]:
        value = values.pop(field.name, None)
        if value is None or (value == field.nothing() and field.kind not in MESSAGES):
            continue
        key = _varint(field.number << 3 | field.wire)
        if not field.repeated:
            out += key + _scalar(field, value)
        elif field.wire == LENGTH:
            out += b"".join(key + _scalar(field, one) for one in value)
        else:
            packed = b"".join(_scalar(field, one) for one in value)
            out += _varint(field.number << 3 | LENGTH) + _varint(len(packed)) + packed
    if values:
        raise KeyError("%s has no %s" % (message, ", ".join(values)))
    return out


class _Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("a message ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def scalar(self, wire):
        if wire == VARINT:
            return self.varint()
        if wire == FIXED64:
            return self.take(8)
        if wire == LENGTH:
            return self.take(self.varint())
        if wire == FIXED32:
            return self.take(4)
        raise ValueError("wire type %d" % wire)


def _value(field, raw):
    if field.kind == "double":
        return struct.unpack("<d", raw)[0]
    if field.wire == FIXED64:
        return struct.unpack("<Q", raw)[0]
    if field.kind in MESSAGES:
        return unpack(field.kind, raw)
    if field.kind == "string":
        return raw.decode()
    return bool(raw) if field.kind == "bool" else raw


def unpack(message, data):
    """All fields as attributes; what was not sent has proto3's default, and is None where it is a message."""
    fields = {field.number: field for field in MESSAGES[message]}
    out = types.SimpleNamespace(**{field.name: field.nothing() for field in fields.values()})
    left = _Bytes(data)
    while left.at < len(data):
        key = left.varint()
        raw, field = left.scalar(key & 7), fields.get(key >> 3)
        if field is None:
            continue
        if field.repeated and field.wire != LENGTH and key & 7 == LENGTH:
            packed = _Bytes(raw)
            while packed.at < len(raw):
                getattr(out, field.name).append(_value(field, packed.scalar(field.wire)))
        elif key & 7 != field.wire:
            raise ValueError("%s.%s has wire type %d" % (message, field.name, key & 7))
        elif field.repeated:
            getattr(out, field.name).append(_value(field, raw))
        else:
            setattr(out, field.name, _value(field, raw))
    return out
