"""Frames: section 1 of proto/PROTOCOL.md."""

import struct

from wire.specification import LIMITS, VERSION

HEADER = struct.Struct("<4sHHIIQQ")
MAGIC = b"PSD1"


def padded(data):
    return data + bytes(-len(data) % 8)


def frame(number, request=0, meta=b"", payload=b""):
    return HEADER.pack(MAGIC, VERSION, number, len(meta), 0, len(payload), request) + padded(meta) + padded(payload)


class Reader:
    """Frames out of a stream that comes in pieces."""

    def __init__(self):
        self.bytes = bytearray()

    def feed(self, data):
        self.bytes += data

    def next(self):
        """Number of the type, request, metadata, payload; None: it is not whole yet."""
        if len(self.bytes) < HEADER.size:
            return None
        magic, version, number, meta, zero, payload, request = HEADER.unpack_from(self.bytes)
        if magic != MAGIC or version != VERSION or zero or payload % 4 or meta > LIMITS["FRAME_META_MAX"] or \
                payload > LIMITS["FRAME_PAYLOAD_MAX"]:
            raise ValueError("a header that breaks the rules: " + self.bytes[: HEADER.size].hex(" "))
        at = HEADER.size + meta + -meta % 8
        end = at + payload + -payload % 8
        if len(self.bytes) < end:
            return None
        found = number, request, bytes(self.bytes[HEADER.size : HEADER.size + meta]), bytes(self.bytes[at : at + payload])
        del self.bytes[:end]
        return found
