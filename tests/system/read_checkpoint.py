#!/usr/bin/env python3
"""Read a checkpoint with nothing but Python's own library and PROTOCOL.md, section 10, as an independent reader.

read_checkpoint.py DIR            check all that the section promises; print "NAME SHAPE SUM" of every variable
read_checkpoint.py DIR --package  the weights through the safetensors package; exit 77 where it is not installed
"""
import array
import hashlib
import json
import math
import pathlib
import struct
import sys

MASK = (1 << 64) - 1


def psd_hash(data):
    x = 0xCBF29CE484222325
    for byte in data:
        x = ((x ^ byte) * 0x100000001B3) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def read_manifest(path):
    data = (path / "manifest.json").read_bytes()
    end = len(',\n "check": "') + 16 + len('"\n}\n')
    assert data[-end:] == b',\n "check": "%016x"\n}\n' % psd_hash(data[:-end]), "the check is wrong"
    return json.loads(data)


def read_tensors(path):
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    assert (8 + n) % 64 == 0, "values are not aligned"
    at, tensors = 0, {}
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        values = array.array({"F32": "f", "I64": "q"}[t["dtype"]], data[8 + n + begin : 8 + n + end])
        assert begin == at and len(values) == math.prod(t["shape"]), f"{name} lies where it should not"
        tensors[name] = (t["shape"], values)
        at = end
    assert 8 + n + at == len(data), "there is something behind the tensors"
    return tensors


def check(path):
    manifest = read_manifest(path)
    for file in manifest["files"]:
        data = (path / file["name"]).read_bytes()
        assert len(data) == file["bytes"] and hashlib.sha256(data).hexdigest() == file["sha256"], file["name"]
    weights, slots = (read_tensors(path / file["name"]) for file in manifest["files"])
    for v in manifest["variables"]:
        shape, values = weights.pop(v["name"])
        assert shape == v["shape"] and all(math.isfinite(x) for x in values), v["name"]
        for slot in range(v["slots"]):
            assert slots.pop(f"{v['name']}#{slot}")[0] == shape
        for what in ("version", "clock"):
            assert slots.pop(f"{v['name']}#{what}")[0] == [v["blocks"]]
        print(v["name"], "x".join(map(str, shape)), "%.9g" % math.fsum(values))
    assert not weights and not slots, "tensors of no variable"
    assert sum(s["blocks"] for s in manifest["shards"]) == sum(v["blocks"] for v in manifest["variables"])


def through_package(path):
    try:
        from safetensors.numpy import load_file
    except ImportError:
        sys.exit(77)
    for name, values in sorted(load_file(path / "weights.safetensors").items()):
        print(name, "x".join(map(str, values.shape)), "%.9g" % math.fsum(values.ravel().tolist()))


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1])
    through_package(directory) if sys.argv[2:] == ["--package"] else check(directory)
