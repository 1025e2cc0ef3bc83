"""The proof of who connects: section 14 of proto/PROTOCOL.md."""

import hashlib
import hmac
import os
import struct

from wire.specification import VERSION

KNOCK, CHALLENGE, PROVE, PROVEN = range(82, 86)
ROLES = {"any": 0, "read": 1, "train": 2, "admin": 3}


class Proof:
    """Of one connection, on a stream that is not encrypted. cluster None: any."""

    def __init__(self, name, secret, role="any", cluster=None, nonce=None):
        self.name, self.secret, self.role = name.encode().ljust(64, b"\0"), secret.encode(), ROLES[role]
        self.any, self.cluster = cluster is None, (cluster or "").encode()
        self.nonce = nonce or os.urandom(32)

    def knock(self):
        return struct.pack("<HHIII", VERSION, VERSION, self.role, self.any, 0) + self.nonce + self.name

    def challenged(self, meta):
        (self.version,) = struct.unpack("<H6x", meta[:8])
        self.other_nonce = meta[8:]

    def mac(self, label, granted):
        said = (b"psd prelude: " + label).ljust(24, b"\0")
        said += struct.pack("<HHHHIIII", VERSION, VERSION, self.version, self.any, self.role, granted, len(self.cluster), 0)
        return hmac.digest(self.secret, said + self.nonce + self.other_nonce + self.name + self.cluster, hashlib.sha256)

    def prove(self):
        return self.mac(b"connects", 0)

    def proven(self, meta):
        """The role that was granted; fails when the other side does not know the secret."""
        granted, _ = struct.unpack("<II", meta[:8])
        if not hmac.compare_digest(meta[8:], self.mac(b"listens", granted)):
            raise ValueError("the shard has not proven that it knows the secret")
        return granted
