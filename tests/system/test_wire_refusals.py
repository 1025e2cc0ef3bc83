#!/usr/bin/env python3
"""What a real psd refuses, with which code, and whether the connection goes on, as the tables of proto/PROTOCOL.md say for
each type of message; by a second implementation of the wire. Prints TAP. PSD_BIN names psd."""

import math
import struct

from tap import finish, ok
from wire.client import Connection, Ended, Refused, Session, message_of
from wire.frame import HEADER, MAGIC, frame
from wire.messages import pack
from wire.prove import Proof
from wire.shards import CLUSTER, Shards
from wire.specification import CODES, GOES_ON, GOES_ON_BAD_VALUE, LEAST_ROLE, LIMITS, TYPES, VERSION

JOB = {"name": "j", "workers": 1}
SGD = {"learning_rate": 1.0}
ROLES = ["read", "train", "admin"]
SECRET = "0123456789abcdef-%s"
SEQUENCED = ["PUSH", "TICK", "BARRIER", "SKIP"]
SENT = [name for name, t in TYPES.items() if t.answer]
ASKED = [name for name in SENT if name not in ("CANCEL", "GOODBYE", "DRAIN")]
ONES = struct.pack("<5f", *[1.0] * 5)

# A message of each type that a client sends, with nothing wrong in it.
GOOD = {
    "HELLO": {"cluster": CLUSTER, "shards": 1, "job": JOB, "incarnation": 8},
    "DECLARE": {"name": "v", "dims": [5], "optimizer": SGD},
    "PULL": {"var": [1], "block": [0], "now": True},
    "PUSH": {"seq": 1, "var": [1], "block": [0]},
    "TICK": {"seq": 1, "clock": 1},
    "BARRIER": {"seq": 1, "name": "b"},
    "SKIP": {"seq": 1},
    "CANCEL": {"request": 999},
    "QUERY": {"kind": "JOBS", "job": "j"},
    "PING": {"token": 3},
    "GOODBYE": {},
    "SET": {"job": "j", "age": {"kind": "AGE_NONE"}},
    "DRAIN": {},
    "ATTACH": {"job": "j", "name": "w"},
    "SAVE": {},
    "CHECKPOINT": {"job": "j", "dir": "/none"},
    "RESTORE": {"job": "j", "dir": "/none"},
    "MEET": {"cluster": CLUSTER, "group": "g", "workers": 1, "incarnation": 3, "attempt": 1, "timeout_ms": 60000,
             "address": "127.0.0.1:1", "ranks_min": 1},
    "EVICT": {"job": "j", "task": 7},
    "DEFINE": {"field": [{"name": "batch", "value": "96"}]},
    "DROP": {"job": "none"},
    "ASSIGN": {"attempt": 1},
}


def payload(name):
    return ONES if name in TYPES and TYPES[name].has_payload else b""


class Peer:
    """A connection in one of the states that it can be in, and what becomes of what is sent on it."""

    def __init__(self, shards, state, role=None):
        proof = role and Proof(role, SECRET % role, role, CLUSTER)
        self.session, self.last = None, 0
        if state == "worker":
            self.session = Session(shards.address[0], JOB, proof=role and (lambda: proof), join=False)
            self.session.connect(False)
            self.connection = self.session.connection
            if role != "read":
                self.connection.ask("DECLARE", name="w", dims=[5], optimizer=SGD)
        else:
            self.connection = Connection(shards.address[0], proof)
            if state == "observer":
                self.connection.observe()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """A worker's part ends here, and has ended when its connection has, so the task is free for the next."""
        if self.session is not None:
            self.connection.send("GOODBYE", finished=True)
            self.connection.end()
        self.connection.socket.close()

    def becomes(self, request):
        """A code about the request, after which the connection goes on; a code with "end"; None: it goes on."""
        code, c = None, self.connection
        ping = c.send("PING", b"", 1 << 40, token=1)
        try:
            while True:
                m = c.receive()
                if m.type == "ERROR" and m.request == request:
                    code = next(n for n, v in CODES.items() if v == m.fields.code)
                elif m.request == ping:
                    return code
        except Ended as e:
            return "%s, end" % e.code

    def send(self, name, /, **fields):
        return self.becomes(self.connection.send(name, payload(name), 7, **fields))

    def write(self, data, request=7):
        self.connection.write(data)
        return self.becomes(request)

    def outcome(self, name, data=b"", /, **fields):
        """The code in the ACK of a sequenced message, or that of the connection's end."""
        s = self.session
        try:
            return s.outcome(s.sequenced(name, data, **fields))
        except Ended as e:
            return "%s, end" % e.code


def state_of(name):
    senders = TYPES[name].senders
    return "new" if name == "HELLO" else "observer" if "observer" in senders else "worker"


def check(sentence, results):
    """results: of each trial what it was, what became of it, what should."""
    wrong = ["%s: %s in place of %s" % (what, found, wanted) for what, found, wanted in results if found != wanted]
    ok(results and not wrong, sentence, *wrong)


def each(shards, names, state, act):
    for name in names:
        with Peer(shards, state or state_of(name)) as peer:
            yield name, act(peer, name)


def try_places(shards):
    everything = sorted(TYPES)
    check("before its hello a connection may send nothing else", [
        (name, found, "PROTOCOL, end") for name, found in each(
            shards, [n for n in everything if n != "HELLO"], "new", lambda p, n: p.send(n, **GOOD.get(n, {})))])
    for state in ("observer", "worker"):
        others = [n for n in everything if state not in TYPES[n].senders.replace(",", "").split() or n == "MEETING" or n == "MET"]
        if state == "worker":
            others.append("MEET")  # to a worker, not to a shard
        check("what %ss do not send breaks the protocol" % state, [
            (name, found, "PROTOCOL, end") for name, found in each(
                shards, others, state, lambda p, n: p.send(n, **GOOD.get(n, {})))])


def try_frames(shards):
    names = [n for n in SENT if n in GOOD]
    ok(set(names) == set(GOOD) == set(SENT), "every type that a client sends is tried", set(SENT) ^ set(GOOD))
    check("metadata that is no protobuf ends the connection", [
        (name, found, "PROTOCOL, end") for name, found in each(
            shards, names, None, lambda p, n: p.write(frame(TYPES[n].number, 7, b"\xff" * 7, payload(n))))])
    check("so does a payload where the table has none", [
        (name, found, "PROTOCOL, end") for name, found in each(
            shards, [n for n in names if not TYPES[n].has_payload], None,
            lambda p, n: p.write(frame(TYPES[n].number, 7, pack(message_of(n), **GOOD[n]), bytes(4))))])
    check("a request of 0 where there is an answer is INVALID", [
        (name, found, "INVALID, end") for name, found in each(
            shards, ASKED, None, lambda p, n: p.write(frame(TYPES[n].number, 0, pack(message_of(n), **GOOD[n]), payload(n)), 0))])
    check("fields that are not known are passed over", [
        (name, found, None) for name, found in each(
            shards, [n for n in names if n in ("PING", "QUERY", "ATTACH", "DECLARE", "DEFINE", "SET", "EVICT", "DROP")], None,
            lambda p, n: p.write(frame(TYPES[n].number, 7, pack(message_of(n), **GOOD[n]) + b"\xf8\xff\xff\xff\x0f\x07")))])
    headers = {
        "another magic": ("PROTOCOL", b"PSD2", VERSION, 15, 0, 0, 0),
        "HTTP": ("PROTOCOL", b"GET ", VERSION, 15, 0, 0, 0),
        "another version": ("VERSION", MAGIC, VERSION - 1, 15, 0, 0, 0),
        "bytes 12 to 15": ("PROTOCOL", MAGIC, VERSION, 15, 0, 1, 0),
        "metadata past the limit": ("PROTOCOL", MAGIC, VERSION, 15, LIMITS["FRAME_META_MAX"] + 1, 0, 0),
        "payload past the limit": ("PROTOCOL", MAGIC, VERSION, 7, 0, 0, LIMITS["FRAME_PAYLOAD_MAX"] + 4),
        "payload that is no multiple of 4": ("PROTOCOL", MAGIC, VERSION, 7, 0, 0, 6),
        "type 0": ("PROTOCOL", MAGIC, VERSION, 0, 0, 0, 0),
        "type 63": ("PROTOCOL", MAGIC, VERSION, 63, 0, 0, 0),
        "a type of groups": ("PROTOCOL", MAGIC, VERSION, 66, 0, 0, 0),
        "a type of proofs": ("PROTOCOL", MAGIC, VERSION, 82, 0, 0, 0),
    }
    results = []
    for what, (code, *fields) in headers.items():
        with Peer(shards, "observer") as peer:
            results.append((what, peer.write(HEADER.pack(*fields, 7)), code + ", end"))
    check("a header that breaks a rule ends the connection", results)


def texts(value, path=()):
    """The paths to all texts of a message."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(inner, path + (key,))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def try_texts(shards):
    """Section 3."""
    bad = {"a byte 0": b"w\0w", "no UTF-8": b"w\xff", "a control character": b"w\x07", "U+0085": "w\u0085".encode(),
           "a line's end": "w\u2028".encode(), "an embedding to the right": "w\u202e".encode(), "an isolate": "w\u2066w".encode(),
           "a mark": "w\u200f".encode(), "an Arabic mark": "w\u061c".encode()}
    with Peer(shards, "worker"):
        pass  # the job and its variable are there
    results = []
    for name, message in GOOD.items():
        goes_on = name in GOES_ON_BAD_VALUE
        for path in texts(message):
            if path[0] in ("kind", "age") or path[-1] == "kind":
                continue
            for what, text in bad.items():
                with Peer(shards, state_of(name)) as peer:
                    found = peer.send(name, **replaced(message, path, text))
                results.append(("%s %s with %s" % (name, path, what), found, "INVALID" if goes_on else "INVALID, end"))
        if "name" in message:
            with Peer(shards, state_of(name)) as peer:
                found = peer.send(name, **{**message, "name": "x" * (LIMITS["WIRE_NAME_MAX"] + 1)})
            results.append((name + " with a long name", found, "LIMIT" if goes_on else "LIMIT, end"))
    check("text that breaks section 3 is refused in every message, where the tables say so without an end", results)


def try_values(shards):
    """Values that are bad in themselves."""
    def field(n):
        return [{"name": str(i), "value": "x"} for i in range(n)]

    declare, rate = GOOD["DECLARE"], [{"name": "learning_rate", "value": 1.0}]
    bad = [
        ("DECLARE", "INVALID", {**declare, "name": ""}), ("DECLARE", "INVALID", {**declare, "name": "__metadata__"}),
        ("DECLARE", "LIMIT", {**declare, "dims": [1] * (LIMITS["WIRE_RANK_MAX"] + 1)}),
        ("DECLARE", "INVALID", {**declare, "dims": [3, 0]}),
        ("DECLARE", "LIMIT", {**declare, "dims": [LIMITS["WIRE_ELEMENTS_MAX"] + 1]}),
        ("DECLARE", "LIMIT", {**declare, "dims": [1 << 33, 1 << 33]}),
        ("DECLARE", "INVALID", {**declare, "optimizer": {"kind": 77}}),
        ("DECLARE", "INVALID", {**declare, "optimizer": {"learning_rate": -1.0}}),
        ("DECLARE", "INVALID", {**declare, "optimizer": {"learning_rate": math.inf}}),
        ("DECLARE", "INVALID", {**declare, "init": {"kind": 99}}),
        ("DECLARE", "INVALID", {**declare, "init": {"kind": 2, "a": math.nan}}),
        ("DECLARE", "INVALID", {**declare, "nonfinite": 5}),
        ("DECLARE", "INVALID", {**declare, "optimizer": {"clip": {"kind": 1}}}),
        ("DECLARE", "INVALID", {**declare, "optimizer": {"schedule": {"kind": 1, "factor": 0.5}}}),
        ("DECLARE", "MISMATCH", {**declare, "name": "w", "dims": [6]}),
        ("DECLARE", "FULL", {**declare, "name": "full", "dims": [1 << 40]}),
        ("ATTACH", "NOT_FOUND", {"job": "j", "name": "none"}), ("ATTACH", "NOT_FOUND", {"job": "none", "name": "w"}),
        ("PULL", "INVALID", {}), ("PULL", "INVALID", {"var": [1], "block": []}),
        ("PULL", "INVALID", {**GOOD["PULL"], "newer_than": [1, 2]}),
        ("PULL", "LIMIT", {"var": [1] * (LIMITS["WIRE_BLOCKS_MAX"] + 1), "block": [0] * (LIMITS["WIRE_BLOCKS_MAX"] + 1)}),
        ("PULL", "NOT_FOUND", {"var": [77], "block": [0]}), ("PULL", "NOT_FOUND", {**GOOD["PULL"], "block": [1]}),
        ("QUERY", "INVALID", {"kind": 99}), ("QUERY", "NOT_FOUND", {"kind": "VARIABLES", "after": "j/none"}),
        ("SET", "INVALID", {"job": "j"}), ("SET", "NOT_FOUND", {"job": "none", "age": {}}),
        ("SET", "INVALID", {"job": "j", "variables": "*"}),
        ("SET", "INVALID", {"job": "j", "parameter": rate}), ("SET", "INVALID", {"job": "j", "bound": {"clocks": 1}}),
        ("SET", "INVALID", {"job": "j", "variables": "*", "parameter": [{"name": "none", "value": 1.0}]}),
        ("SET", "INVALID", {"job": "j", "variables": "*", "parameter": [{"name": "learning_rate", "value": math.nan}]}),
        ("SET", "LIMIT", {"job": "j", "variables": "*", "parameter": rate * (LIMITS["WIRE_PARAMETERS_MAX"] + 1)}),
        ("SET", "INVALID", {"job": "j", "age": {"kind": 9}}),
        ("SAVE", "UNSUPPORTED", {}), ("CHECKPOINT", "NOT_FOUND", {"job": "none", "dir": "/none"}),
        ("CHECKPOINT", "INVALID", {"job": "j", "dir": "here"}), ("RESTORE", "INVALID", {"job": "j", "dir": "here"}),
        ("MEET", "CLUSTER", {**GOOD["MEET"], "cluster": "other"}),
        ("MEET", "LIMIT", {**GOOD["MEET"], "workers": LIMITS["WIRE_GROUP_MAX"] + 1}),
        ("MEET", "INVALID", {**GOOD["MEET"], "task": 1}), ("MEET", "INVALID", {**GOOD["MEET"], "address": ""}),
        ("EVICT", "INVALID", {"job": ""}), ("EVICT", None, {"job": "none", "task": 3}),
        ("DEFINE", "INVALID", {"field": []}), ("DEFINE", "INVALID", {"field": field(1) * 2}),
        ("DEFINE", "LIMIT", {"field": field(LIMITS["WIRE_FIELDS_MAX"] + 1)}),
        ("DEFINE", "INVALID", {"field": [{"name": "x" * (LIMITS["WIRE_FIELD_NAME_MAX"] + 1), "value": "x"}]}),
        ("DEFINE", "INVALID", {"field": [{"name": "x", "value": "x" * (LIMITS["WIRE_FIELD_VALUE_MAX"] + 1)}]}),
        ("DROP", "INVALID", {"job": ""}), ("DROP", None, {"job": "none"}),
        ("ASSIGN", "INVALID", {"attempt": 0}), ("ASSIGN", "INVALID", GOOD["ASSIGN"]),  # a payload without a STAGE
    ]
    results = []
    for name, code, message in bad:
        with Peer(shards, "worker" if name == "PULL" else state_of(name)) as peer:
            results.append(("%s %s" % (name, str(message)[:200]), peer.send(name, **message), code))
    check("what is bad in a request is said about that, and the connection goes on", results)
    ok({name for name, _, _ in bad} == set(GOES_ON), "each request that the specification lists was tried so",
       {name for name, _, _ in bad} ^ set(GOES_ON))
    with Peer(shards, "worker") as peer:
        ok(peer.send("ATTACH", job="other", name="w") == "INVALID", "a worker attaches to its own job alone")


def try_hellos(shards):
    hello = GOOD["HELLO"]
    sync = {"name": "s", "workers": 2, "mode": "SYNC", "quorum": 2}
    bad = [
        ("CLUSTER", {"cluster": "other"}), ("CLUSTER", {"shards": 2}), ("INVALID", {"shard": 1}), ("INVALID", {"cluster": ""}),
        ("INVALID", {"role": 7}), ("INVALID", {"incarnation": 0}), ("INVALID", {"task": 1}), ("INVALID", {"job": None}),
        ("INVALID", {"job": {"name": "n"}}), ("INVALID", {"job": {**JOB, "mode": 9}}),
        ("INVALID", {"job": {**JOB, "lapse": 9}}),
        ("INVALID", {"job": {**sync, "quorum": 3}}), ("INVALID", {"job": {**sync, "quorum": 0}}),
        ("INVALID", {"job": {**JOB, "age": {"kind": "AGE_EXPONENTIAL", "parameter": 1.5}}}),
        ("LIMIT", {"job": {"name": "n", "workers": LIMITS["WIRE_WORKERS_MAX"] + 1}}),
        ("LIMIT", {"agent": "x" * (LIMITS["WIRE_AGENT_MAX"] + 1)}), ("LIMIT", {"lease_ms": LIMITS["WIRE_LEASE_MS_MAX"] + 1}),
        ("INVALID", {"metric_names": ["a", "a"]}), ("INVALID", {"metric_names": [""]}),
        ("INVALID", {"metric_names": ["x" * (LIMITS["WIRE_METRIC_NAME_MAX"] + 1)]}),
        ("LIMIT", {"metric_names": [str(i) for i in range(LIMITS["WIRE_METRICS_MAX"] + 1)]}),
        ("MISMATCH", {"job": {**JOB, "mode": "SSP", "bound": 1}}), ("MISMATCH", {"job": {**JOB, "lapse": "FAIL"}}),
        ("NOT_FOUND", {"resume": True, "job": {"name": "nobody", "workers": 1}}),
    ]
    results = []
    for code, message in bad:
        with Peer(shards, "new") as peer:
            results.append((str(message)[:200], peer.send("HELLO", **{**hello, **message}), code + ", end"))
    check("every refusal of a hello ends the connection", results)


def try_sequenced(shards):
    """Codes in an ACK, and what ends the connection instead."""
    nan, huge = struct.pack("<5f", 1, 2, 3, 4, math.nan), struct.pack("<5f", *[3e38] * 5)
    with Peer(shards, "worker") as peer:
        var = peer.connection.ask("DECLARE", name="w", dims=[5], optimizer=SGD).var
        clipped = peer.connection.ask("DECLARE", name="c", dims=[5], optimizer={**SGD, "clip": {"kind": 3, "limit": 1.0}}).var
        push = {"var": [var], "block": [0]}
        before = peer.session.pull(var, [0])
        clock = peer.session.welcome.clock
        refused = [
            ("PUSH", "NOT_FOUND", ONES, {"var": [77], "block": [0]}), ("PUSH", "NOT_FOUND", ONES, {"var": [var], "block": [1]}),
            ("PUSH", "SHAPE", ONES[4:], push), ("PUSH", "SHAPE", ONES + bytes(4), push), ("PUSH", "SHAPE", b"", push),
            ("PUSH", "INVALID", ONES, {**push, "from_version": [1 << 40]}),
            ("PUSH", "CLOCK", ONES, {**push, "clock": clock + 1}),
            ("PUSH", "NONFINITE", nan, push), ("PUSH", "INVALID", ONES, {"var": [clipped], "block": [0]}),
            ("PUSH", "UNSUPPORTED", ONES, {**push, "encoding": 99}), ("PUSH", "SHAPE", ONES[:4], {**push, "encoding": 1}),
            ("PUSH", "INVALID", struct.pack("<f8b", -1.0, *range(8)), {**push, "encoding": 3}),
            ("PUSH", "INVALID", struct.pack("<3I2f", 2, 3, 3, 1.0, 1.0), {**push, "encoding": 4}),
            ("PUSH", "INVALID", struct.pack("<2If", 1, 5, 1.0), {**push, "encoding": 4}),
            ("PUSH", "UNSUPPORTED", ONES, {**push, "durable": True}),
            ("TICK", "CLOCK", b"", {"clock": (1 << 62) + 1}), ("TICK", "OK", b"", {"clock": clock}),
        ]
        results = [("%s %s" % (name, message), peer.outcome(name, data, **{"clock": clock, **message}), code)
                   for name, code, data, message in refused]
        check("a sequenced message that cannot be done has a code in an ACK, and the count goes on", results)
        ok(peer.session.pull(var, [0]) == before, "and nothing is changed by any of them")
        both = peer.outcome("PUSH", huge + ONES, clock=clock, var=[var, var], block=[0, 0])
        ok(both == "OK" and peer.session.pull(var, [0])[0] == [before[0][0] + 2],
           "a block that is named twice is updated twice", both)
        last = peer.outcome("PUSH", huge, clock=clock, **push)
        ok(last == "NONFINITE", "what would make weights infinite is NONFINITE", last)
    over = LIMITS["WIRE_BLOCKS_MAX"] + 1
    ends = [
        ("PUSH", "INVALID", {}), ("PUSH", "INVALID", {"var": [1, 1], "block": [0]}),
        ("PUSH", "LIMIT", {"var": [1] * over, "block": [0] * over}),
        ("PUSH", "INVALID", {**GOOD["PUSH"], "from_version": [0, 0]}),
        ("PUSH", "INVALID", {**GOOD["PUSH"], "norm": {"l2": -1.0}}),
        ("PUSH", "INVALID", {**GOOD["PUSH"], "norm": {"l2": math.nan}}),
        ("PUSH", "INVALID", {**GOOD["PUSH"], "cursor": {"position": 5}, "cursor_from": {"position": 5}}),
        ("BARRIER", "INVALID", {"name": ""}),
        ("TICK", "LIMIT", {"clock": 1, "metrics": {"value": [1.0] * (LIMITS["WIRE_METRICS_MAX"] + 1)}}),
        *[(name, "INVALID", {**GOOD[name], "acked_through": 1}) for name in SEQUENCED],
        *[(name, "INVALID", {**GOOD[name], "seq": 0}) for name in SEQUENCED],
        *[(name, "SEQUENCE", {**GOOD[name], "seq": 2}) for name in SEQUENCED],
    ]
    results = []
    for name, code, message in ends:
        with Peer(shards, "worker") as peer:
            results.append(("%s %s" % (name, str(message)[:80]), peer.send(name, **{"seq": 1, **message}), code + ", end"))
            peer.session.connect(True)
            peer.connection = peer.session.connection
            results.append((name + " afterwards", peer.session.welcome.last_seq, 0))
    check("one that no shard could take ends the connection, and uses no number up", results)


def try_roles(shards):
    results, workers = [], []
    for name in SENT:
        least = ROLES.index(LEAST_ROLE["HELLO of a worker" if name == "HELLO" else name])
        wanted = "DENIED" if name in GOES_ON else "DENIED, end"
        for role in ROLES[:least]:
            with Peer(shards, "new" if name == "HELLO" else "observer", role) as peer:
                results.append(("%s of an observer with %s" % (name, role), peer.send(name, **GOOD[name]), wanted))
            if role != "read" and name != "HELLO":
                with Peer(shards, "worker", role) as peer:
                    workers.append(("%s of a worker with %s" % (name, role), peer.send(name, **GOOD[name]), wanted))
    check("a message that takes a higher role is DENIED, with an end where the table says so", results)
    check("also from a worker, whether or not workers send it", workers)


def try_owners(shards):
    """Whose a session is: section 5."""
    def of(name, role, secret=SECRET):
        return lambda: Proof(name, secret % name, role, CLUSTER)

    def end_of(what, *words, **hello):
        try:
            what(*words, **hello)
        except Ended as e:
            return e.code

    job = {"name": "owned", "workers": 2}
    s = Session(shards.address[0], job, proof=of("train", "train"))
    s.cut()
    s.proof = of("admin", "train")
    ok(end_of(s.connect, True) == "DENIED", "a live session is resumed with the token that it began with alone")
    ok(end_of(Session, shards.address[0], job, proof=s.proof) == "TASK_TAKEN", "and its task is not another token's to take")
    s.proof = of("train", "train")
    s.connect(True)
    s.cut()
    ok(end_of(Session, shards.address[0], job, proof=s.proof) is None, "a new incarnation with that token replaces it")
    with Connection(shards.address[0], of("read", "read")()) as c:
        c.observe()
        found = c.ask("QUERY", kind="WORKERS", job="owned").worker
        ok(len(found) == 1 and all("incarnation" not in vars(w) for w in found), "no report has an incarnation", found)


def try_proofs(shards):
    def proven(name="train", secret=SECRET % "train", role="any", cluster=CLUSTER):
        try:
            with Connection(shards.address[0], Proof(name, secret, role, cluster)) as c:
                c.observe()
                return c.role
        except Ended as e:
            return e.code, e.text

    ok(proven() == 2 and proven(role="read") == 1 and proven(cluster=None) == 2,
       "who proves its token has its role, or the lower one that it wants; in any cluster if it likes")
    wrong, nobody, lower = proven(secret=SECRET % "other"), proven(name="none"), proven(role="admin")
    ok(wrong[0] == nobody[0] == "DENIED" and wrong[1].replace("'train'", "'none'") == nobody[1],
       "a wrong secret and a name that is not known are DENIED by one sentence", wrong, nobody)
    ok(proven(cluster="other")[0] == "DENIED", "so is a proof for another cluster")
    ok(lower[0] == "DENIED" and lower != wrong, "who wants more than its token has is DENIED, with that reason", lower)
    with Connection(shards.address[0]) as c:
        try:
            c.observe()
            ok(False, "who has proven nothing is DENIED")
        except (Ended, Refused) as e:
            ok(isinstance(e, Ended) and e.code == "DENIED", "who has proven nothing is DENIED", e)
    with Connection(shards.address[0]) as c:
        c.write(b"GET / HTTP/1.0\r\n\r\n" + bytes(40))
        ok(c.end() is None and not c.reader.bytes, "what does not begin like a frame gets no answer there")


with Shards(1, "--grace", "10m") as one:
    for part in (try_frames, try_places, try_texts, try_values, try_hellos, try_sequenced):
        part(one)
with Shards(1, "--hello-timeout", "100ms") as one, Connection(one.address[0]) as silent:
    ok(silent.end() == "TIMEOUT", "a connection on which no hello comes ends with TIMEOUT")
with Shards(1, "--connections-max", "1") as one, Connection(one.address[0]) as first, Connection(one.address[0]) as second:
    first.observe()
    ok(second.end() == "LIMIT", "one more than a shard takes ends with LIMIT")
with Shards(1, "--grace", "10m", tokens=["%s:%s:%s" % (role, role, SECRET % role) for role in ROLES]) as one:
    for part in (try_roles, try_owners, try_proofs):
        part(one)
finish()
