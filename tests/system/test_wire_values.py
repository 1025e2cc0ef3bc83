#!/usr/bin/env python3
"""Bytes and numbers: the examples of proto/PROTOCOL.md, and what a real psd makes of blocks, first values, optimizers,
schedules, clips, ages and encodings, beside a second implementation of the formulas (wire/). Prints TAP. PSD_BIN names psd."""

import math
import re
import struct

from tap import finish, ok
from wire.blocks import fans, hash_of, layout, place, uniform
from wire.client import Connection, Refused, Session
from wire.frame import Reader, frame
from wire.messages import pack, unpack
from wire.prove import Proof
from wire.rules import Weight, f32, rate_of, sgd
from wire.shards import Shards
from wire.specification import TYPES, example, rows, section

JOB = {"name": "train", "workers": 1}
CLOSE = 1e-6  # of formulas that are computed here in double, there in float32


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def values(payload):
    return list(struct.unpack("<%df" % (len(payload) // 4), payload))


class Model:
    """A worker's variables."""

    def __init__(self, shards, job):
        self.s = Session(shards.address[0], job)

    def declare(self, name, dims, **fields):
        return self.s.declare(name, dims, **fields).var

    def pull(self, var, block=0):
        return values(self.s.pull(var, [block], now=True)[1])

    def push(self, var, *gradient, data=None, **fields):
        return self.s.outcome(self.s.push(var, [0], floats(*gradient) if data is None else data, **fields))


def try_examples():
    ping = frame(TYPES["PING"].number, 5, pack("Ping", token=0x1122334455667788))
    ok(ping == example("PING with request 5"), "the PING of the specification is the one that is written", ping.hex(" "))
    reader, found = Reader(), []
    for byte in ping + frame(TYPES["DATA"].number, 6, b"\x0a\x01\x07", floats(1.0, 2.0, 3.0)):
        reader.feed(bytes([byte]))
        found.append(reader.next())
    found = [f for f in found if f]
    ok(len(found) == 2 and unpack("Ping", found[0][2]).token == 0x1122334455667788 and
       unpack("Data", found[1][2]).version == [7] and
       values(found[1][3]) == [1.0, 2.0, 3.0], "frames that come byte by byte are read", found)
    proof = Proof("a", "0123456789abcdef", "train", "psd", bytes(range(32)))
    proof.challenged(struct.pack("<H6x", 7) + bytes(range(32, 64)))
    ok(proof.prove() == example("With token `a`"), "so is the PROVE", proof.prove().hex(" "))
    text = section(8)
    said = [int(h, 16) for h in re.findall(r"= ([0-9a-f]{16})\b", text)]
    ok(said == [hash_of(b"", 0), hash_of(b"train", 0), hash_of(b"w", hash_of(b"train", 0))],
       "the hashes are those that are printed", said)
    ok([place("train", "w", b, 3) for b in range(4)] == [2, 0, 1, 2], "the blocks lie on the shards that are printed")
    ok(layout(300000) == [65536] * 4 + [16384] * 2 + [1008] * 5 + [48], "300,000 elements have the blocks that are printed")
    sizes = [[int(c.replace(",", "")) for c in row] for row in rows(text) if row[0].isdigit()]
    capacity = [[s] + [size // (4 * (1 + s)) // 16 * 16 for size in (262144, 65536, 4032)] for s in range(4)]
    ok(sizes == capacity and all(layout(c, s) == [c] for s, *row in sizes for c in row),
       "the table of capacities is the formula's", sizes)


def try_blocks(shards):
    """Over three shards: each has the blocks that it should, with the lengths that they should have."""
    sessions = [Session(shards.address[i], JOB, 0, i, 3) for i in range(3)]
    wrong = []
    for name, kind, slots in (("w", 0, 0), ("m", 1, 1), ("a", 4, 2)):
        elements = 40000
        optimizer = {"kind": kind, "learning_rate": 1.0, "epsilon": 1e-7}
        lengths = layout(elements, slots)
        holders = [place("train", name, b, 3) for b in range(len(lengths))]
        var = {i: sessions[i].declare(name, [200, 200], optimizer=optimizer).var for i in sorted(set(holders))}
        for block, length in enumerate(lengths):
            for i, v in var.items():
                try:
                    found = len(sessions[i].pull(v, [block], now=True)[1])
                except Refused as e:
                    found = e.code
                if found != (4 * length if holders[block] == i else "NOT_FOUND"):
                    wrong.append((name, block, i, found, length, holders[block]))
        try:
            sessions[holders[0]].pull(var[holders[0]], [len(lengths)], now=True)
            wrong.append(name + " has a block more")
        except Refused as e:
            wrong += [e] * (e.code != "NOT_FOUND")
    ok(not wrong, "blocks lie where they should and are as long as they should be, with 0, 1 and 2 slots", *wrong)


def try_first_values(m):
    seed, n = 0x0123456789ABCDEF, 41
    optimizer = {"learning_rate": 1.0}

    def first(name, dims, **init):
        return m.pull(m.declare(name, dims, optimizer=optimizer, init={"seed": seed, **init}))

    ok(first("zeros", [n], kind="ZEROS") == [0.0] * n and first("ones", [n], kind="ONES") == [1.0] * n and
       first("constant", [n], kind="CONSTANT", a=0.1) == [f32(0.1)] * n, "ZEROS, ONES and CONSTANT are that")
    found = first("uniform", [n], kind="UNIFORM", a=-0.25, b=0.75)
    ok(found == [f32(uniform(seed, i, -0.25, 0.75)) for i in range(n)], "UNIFORM has the bits of the formula", found)
    dims, wrong = [2, 3, 4], []
    there, out = fans(dims)
    for kind, limit in (("GLOROT_UNIFORM", math.sqrt(6 / (there + out))), ("HE_UNIFORM", math.sqrt(6 / there)),
                        ("LECUN_UNIFORM", math.sqrt(3 / there))):
        found = first(kind, dims, kind=kind)
        if found != [f32(uniform(seed, i, -limit, limit)) for i in range(24)]:
            wrong.append((kind, found))
    ok(not wrong, "GLOROT_UNIFORM, HE_UNIFORM and LECUN_UNIFORM, too", *wrong)
    printed = re.sub(r"\s+", " ", section(9)).replace("−", "-")
    printed = printed[printed.index("elements 0 to 3") :]
    wrong = []
    for kind, more in (("UNIFORM", {"b": 1.0}), ("NORMAL", {"b": 1.0}), ("GLOROT_UNIFORM", {})):
        said = re.search(kind + r"(?:\(0, 1\))? ((?:-?\d\.\d+ ?){4})", printed).group(1).split()
        found = m.pull(m.declare("printed " + kind, [3, 4], optimizer=optimizer, init={"kind": kind, "seed": 7, **more}))[:4]
        if any(abs(float(s) - f) > 1e-8 * abs(f) for s, f in zip(said, found)):
            wrong.append((kind, said, found))
    ok(not wrong, "the elements that are printed are those that a shard makes", *wrong)


def try_optimizers(m):
    gradients = [0.5, -1.25, 0.75, 2.0, -0.125]
    var, w = m.declare("sgd", [1], optimizer={"learning_rate": 0.1}, init={"kind": "CONSTANT", "a": 0.3}), f32(0.3)
    for g in gradients:
        m.push(var, f32(g / 3))
        w = sgd(w, f32(g / 3), 0.1)
    ok(m.pull(var) == [w], "SGD is the formula to the last bit", m.pull(var), w)
    adam = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-7}
    decays = {"l2": 0.01, "weight_decay": 0.02}
    trials = [(1, {"momentum": 0.9, **decays}), (2, {"momentum": 0.9, **decays}),
              (3, {"initial_accumulator": 0.1, "epsilon": 1e-7, **decays}), (4, {**adam, **decays}),
              (5, {"rho": 0.9, "epsilon": 1e-7, **decays}),
              (5, {"rho": 0.9, "epsilon": 1e-7, "momentum": 0.5, **decays}), (6, {**adam, **decays}),
              (7, {"rho": 0.9, "epsilon": 1e-6, **decays}),
              (8, {**adam, **decays}),
              (9, {"learning_rate_power": -0.5, "initial_accumulator": 0.1, "l1": 0.05, "l2": 0.01, "beta": 0.5}),
              (0, decays)]
    wrong = []
    for number, (kind, parameters) in enumerate(trials):
        parameters = {"learning_rate": 0.05, **parameters}
        var = m.declare("rule %d" % number, [1], optimizer={"kind": kind, **parameters}, init={"kind": "CONSTANT", "a": 0.5})
        weight = Weight(kind, parameters, 0.5)
        for step, g in enumerate(gradients):
            outcome = m.push(var, g)
            found, wanted = m.pull(var)[0], weight.update(g)
            if outcome != "OK" or abs(found - wanted) > CLOSE * max(1.0, abs(wanted)):
                wrong.append("kind %d, %s, update %d: %r in place of %r" % (kind, parameters, step + 1, found, wanted))
    ok(not wrong, "each optimizer's updates are those of its formula", *wrong)


def try_schedules(m):
    wrong = []
    for number, schedule in enumerate((
            {"kind": "SCHEDULE_STEP", "steps": 2, "factor": 0.5, "floor": 0.05},
            {"kind": "SCHEDULE_EXPONENTIAL", "steps": 3, "factor": 0.5},
            {"kind": "SCHEDULE_COSINE", "steps": 4, "floor": 0.01, "warmup_steps": 2},
            {"kind": "SCHEDULE_LINEAR", "steps": 3, "floor": 0.1},
            {"warmup_steps": 3}, {"kind": "SCHEDULE_LINEAR", "steps": 3, "begin": 2})):
        var, w = m.declare("schedule %d" % number, [1], optimizer={"learning_rate": 0.4, "schedule": schedule}), 0.0
        for version in range(8):
            m.push(var, 1.0)
            w -= rate_of(schedule, 0.4, max(0, version - schedule.get("begin", 0)))
            if abs(m.pull(var)[0] - w) > CLOSE:
                wrong.append("%s, update %d: %r in place of %r" % (schedule, version + 1, m.pull(var)[0], w))
    ok(not wrong, "learning rates over time are those of the formulas", *wrong)


def try_clips(m):
    def trial(kind, limit, *gradient, **fields):
        var = m.declare("%s %g" % (kind, limit), [len(gradient)],
                        optimizer={"learning_rate": 1.0, "clip": {"kind": kind, "limit": limit}})
        m.push(var, *gradient, **fields)
        return m.pull(var)

    ok(trial("CLIP_VALUE", 0.5, 1.0, -2.0, 0.25) == [-0.5, 0.5, -0.25], "CLIP_VALUE cuts each element off")
    found = trial("CLIP_BLOCK_NORM", 1.0, 3.0, 4.0)
    ok(all(abs(f - w) < CLOSE for f, w in zip(found, (-0.6, -0.8))), "CLIP_BLOCK_NORM shortens a block's gradient", found)
    ok(trial("CLIP_BLOCK_NORM", 6.0, 3.0, 4.0) == [-3.0, -4.0], "which is left alone within the limit")
    ok(trial("CLIP_GIVEN_NORM", 1.0, 3.0, 4.0, norm={"l2": 8.0}) == [-0.375, -0.5], "CLIP_GIVEN_NORM goes by the push's own")


def try_ages(shards):
    def trial(kind, parameter):
        m = Model(shards, {"name": kind, "workers": 1, "age": {"kind": kind, "parameter": parameter}})
        var = m.declare("w", [1], optimizer={"learning_rate": 1.0})
        for version in range(3):
            m.push(var, 1.0, from_version=[version])
        code = m.push(var, 1.0, from_version=[1])
        return code, m.pull(var), m

    ok(trial("AGE_NONE", 0.0)[:2] == ("OK", [-4.0]), "AGE_NONE: a gradient of age 2 counts in full")
    code, found, _ = trial("AGE_INVERSE", 0.0)
    ok(code == "OK" and abs(found[0] + 3 + 1 / 3) < CLOSE, "AGE_INVERSE: as a third", found)
    ok(trial("AGE_EXPONENTIAL", 0.5)[:2] == ("OK", [-3.25]), "AGE_EXPONENTIAL: as a quarter")
    code, found, m = trial("AGE_CUTOFF", 1.0)
    ok((code, found) == ("STALE", [-3.0]), "AGE_CUTOFF: it is STALE, and left out", code, found)
    var = m.declare("two", [1008 + 5], optimizer={"learning_rate": 1.0})
    for _ in range(2):
        m.s.outcome(m.s.push(var, [0], floats(*[1.0] * 1008)))
    seq = m.s.push(var, [0, 1], floats(*[1.0] * 1013), from_version=[0, 0])
    ok(m.s.outcome(seq) == "STALE" and m.s.blocks[seq] == ["STALE", "OK"],
       "and each block has its code, where they differ", m.s.blocks)


def try_encodings(m):
    """Section 12: five elements, so that what fills up is there."""
    def trial(encoding, data):
        var = m.declare("encoding %d" % encoding, [5], optimizer={"learning_rate": 1.0})
        return m.push(var, data=data, encoding=encoding), [-w for w in m.pull(var)]

    numbers = [1.5, -0.25, 3.0, 0.0, -7.0]
    ok(trial(0, floats(*numbers)) == ("OK", numbers), "float32 is as it is")
    ok(trial(1, struct.pack("<5e2x", *numbers)) == ("OK", numbers), "float16 is binary16")
    ok(trial(2, b"".join(floats(x)[2:] for x in numbers) + b"\xff\xff") == ("OK", numbers),
       "bfloat16 is the upper half of float32")
    ok(trial(3, struct.pack("<f5b3x", 0.5, 3, -1, 6, 0, -14)) == ("OK", [1.5, -0.5, 3.0, 0.0, -7.0]),
       "int8 has a scale for each run")
    ok(trial(4, struct.pack("<3I2f", 2, 1, 4, -0.25, -7.0)) == ("OK", [0.0, -0.25, 0.0, 0.0, -7.0]),
       "top-k has indices and values")


def try_pulls(m):
    """Only what is newer has a payload."""
    var = m.declare("pulled", [2 * 1008], optimizer={"learning_rate": 1.0})
    m.s.outcome(m.s.push(var, [1], floats(*[2.0] * 1008)))
    version, payload = m.s.pull(var, [0, 1], newer_than=[0, 0])
    ok(version == [0, 1] and values(payload) == [-2.0] * 1008, "a pull gets the blocks that are newer than what it has", version)
    version, payload = m.s.pull(var, [1, 0, 1])
    ok(version == [1, 0, 1] and values(payload) == [-2.0] * 1008 + [0.0] * 1008 + [-2.0] * 1008,
       "without that all of them, in the order in which they were asked for", version)
    version, payload = m.s.pull(var, [0, 1], newer_than=[(1 << 64) - 1] * 2)
    ok(version == [0, 1] and payload == b"", "and versions alone where nothing can be newer", version)


def try_messages(shards):
    """What is written here is what a shard reads, and the other way around."""
    m = Model(shards, {"name": "said", "workers": 2, "mode": "SSP", "bound": 3, "lapse": "FAIL",
                       "age": {"kind": "AGE_CUTOFF", "parameter": 2.5}})
    job = m.s.welcome.job
    ok((job.name, job.mode, job.bound, job.workers, job.lapse, job.age.kind, job.age.parameter) == ("said", 1, 3, 2, 1, 3, 2.5),
       "a welcome has the job as its hello said", job)
    declared = {"name": "wé", "dims": [2, 3], "nonfinite": "ALLOW",
                "init": {"kind": "NORMAL", "a": 0.5, "b": 2.0, "seed": 1 << 63},
                "optimizer": {"kind": 4, "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7,
                              "clip": {"kind": 1, "limit": 3.0},
                              "schedule": {"kind": "SCHEDULE_COSINE", "steps": 1 << 40, "warmup_steps": 7}}}
    m.s.declare(**declared)
    with Connection(shards.address[0]) as c:
        c.observe()
        found = c.ask("ATTACH", job="said", name="wé").declare
        ok(pack("Declare", **declared) == pack("Declare", **as_fields(found)),
           "an observer attaches to the definition that was declared", found)
        rows_ = c.ask("QUERY", kind="DEFINITIONS", job="said").definition
        ok([as_fields(r.declared) for r in rows_] == [as_fields(found)], "so do definitions say", rows_)


def as_fields(message):
    """A message that was read, as it is written."""
    there = {name: value for name, value in vars(message).items() if value is not None}
    return {name: as_fields(value) if hasattr(value, "__dict__") else value for name, value in there.items()}


try_examples()
with Shards(3) as three:
    try_blocks(three)
with Shards(1) as one:
    try_messages(one)
    model = Model(one, JOB)
    for part in (try_first_values, try_optimizers, try_schedules, try_clips, try_encodings, try_pulls):
        part(model)
    try_ages(one)
finish()
