"""A client of a shard: connections, and a worker's session with all that section 5 of proto/PROTOCOL.md asks of it."""

import collections
import os
import socket

from wire import messages, prove
from wire.frame import Reader, frame
from wire.shards import CLUSTER
from wire.specification import CODES, NAMES, TYPES

WAIT_S = 60
ERROR_CODES = {number: name for name, number in CODES.items()}

Message = collections.namedtuple("Message", "type request fields payload")


class Ended(Exception):
    """The connection has ended: with the code of its last ERROR, None where there was none."""

    def __init__(self, code, text):
        super().__init__("%s: %s" % (code, text))
        self.code, self.text = code, text


class Refused(Exception):
    """ERROR about a request; the connection goes on."""

    def __init__(self, code, text):
        super().__init__("%s: %s" % (code, text))
        self.code, self.text = code, text


def message_of(name):
    """SET_DONE's metadata is a SetDone; PONG's is the Ping."""
    return "Ping" if name == "PONG" else "".join(word.title() for word in name.split("_"))


class Connection:
    """One, before its hello. proof: of a token."""

    def __init__(self, address, proof=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader, self.requests, self.kept, self.last_error = Reader(), 0, collections.deque(), (None, "")
        if proof is not None:
            self.role = self.prove(proof)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def prove(self, proof):
        self.write(frame(prove.KNOCK, 0, proof.knock()))
        proof.challenged(self.raw(prove.CHALLENGE))
        self.write(frame(prove.PROVE, 0, proof.prove()))
        return proof.proven(self.raw(prove.PROVEN))

    def raw(self, number):
        got, _, meta, _ = self.next_frame()
        if got == TYPES["ERROR"].number:
            error = messages.unpack("Error", meta)
            raise Ended(ERROR_CODES[error.code], error.text)
        if got != number:
            raise ValueError("type %d in place of %d" % (got, number))
        return meta

    def write(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # why it has ended can be read

    def send(self, name, payload=b"", request=None, /, **fields):
        """The request's number, which is chosen unless it is given."""
        if request is None:
            self.requests += 1
            request = self.requests
        self.write(frame(TYPES[name].number, request, messages.pack(message_of(name), **fields), payload))
        return request

    def next_frame(self):
        while True:
            found = self.reader.next()
            if found is not None:
                return found
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended(*self.last_error)
            self.reader.feed(data)

    def receive(self):
        """The next message; an ERROR with request 0 is what the end says."""
        while True:
            number, request, meta, payload = self.next_frame()
            name = NAMES[number]
            fields = messages.unpack(message_of(name), meta)
            if name == "ERROR" and request == 0:
                self.last_error = ERROR_CODES[fields.code], fields.text
                continue
            return Message(name, request, fields, payload)

    def answer(self, request):
        """What answers this request; the messages before it are kept."""
        while True:
            found = next((m for m in self.kept if m.request == request), None)
            if found is None:
                self.kept.append(self.receive())
                continue
            self.kept.remove(found)
            if found.type == "ERROR":
                raise Refused(ERROR_CODES[found.fields.code], found.fields.text)
            return found

    def ask(self, name, /, **fields):
        return self.answer(self.send(name, **fields)).fields

    def next_of(self, name):
        """The next message of this type; those of others are kept."""
        found = next((m for m in self.kept if m.type == name), None)
        while found is None:
            self.kept.append(self.receive())
            found = self.kept[-1] if self.kept[-1].type == name else None
        self.kept.remove(found)
        return found

    def observe(self, shard=0, shards=1, **fields):
        return self.ask("HELLO", **{"cluster": CLUSTER, "shard": shard, "shards": shards, "role": "OBSERVER", **fields})

    def end(self):
        """Reads up to the connection's end: the code that it ended with."""
        try:
            while True:
                self.receive()
        except Ended as e:
            return e.code


def incarnation():
    return int.from_bytes(os.urandom(8), "little") | 1


class Session:
    """A worker's at one shard, over any number of connections.

        s = Session(address, job={"name": "j", "workers": 1})
        seq = s.push(var, [0], gradients)
        s.outcome(seq) == "OK"
    """

    def __init__(self, address, job, task=0, shard=0, shards=1, proof=None, join=True, **hello):
        self.address, self.proof = address, proof
        self.hello = {"cluster": CLUSTER, "shard": shard, "shards": shards, "job": job, "task": task,
                      "incarnation": incarnation(), "agent": "second wire", **hello}
        self.last, self.acked_through, self.sent, self.outcomes, self.values = 0, 0, {}, {}, {}
        self.blocks, self.errors, self.resent, self.connection, self.welcome = {}, {}, 0, None, None
        if join:
            self.connect(False)

    def connect(self, resume, **more):
        """Says hello and sends again what has no outcome: messages up to last_seq as well."""
        self.connection = Connection(self.address, self.proof() if self.proof else None)
        boot = self.welcome.boot if resume and self.welcome else 0
        before = self.welcome
        self.welcome = self.connection.ask("HELLO", **{**self.hello, "resume": resume, "boot": boot, "codes": max(CODES.values()),
                                                       "acked_through": self.acked_through, **more})
        if before is not None and before.boot != self.welcome.boot:
            return self.welcome
        for seq in sorted(self.sent):
            self.resent += 1
            self.transmit(seq)
        return self.welcome

    def cut(self):
        self.connection.socket.close()

    def frame_of(self, seq):
        name, payload, fields = self.sent[seq]
        self.connection.requests += 1
        meta = messages.pack(message_of(name), seq=seq, acked_through=min(self.acked_through, seq - 1), **fields)
        return frame(TYPES[name].number, self.connection.requests, meta, payload)

    def transmit(self, seq):
        self.connection.write(self.frame_of(seq))

    def sequenced(self, name, payload=b"", transmit=True, /, **fields):
        self.last += 1
        self.sent[self.last] = (name, payload, fields)
        if transmit:
            self.transmit(self.last)
        return self.last

    def push(self, var, block, payload, clock=0, **fields):
        return self.sequenced("PUSH", payload, var=[var] * len(block), block=block, clock=clock, **fields)

    def tick(self, clock, **fields):
        return self.sequenced("TICK", clock=clock, **fields)

    def barrier(self, name, **fields):
        return self.sequenced("BARRIER", name=name, **fields)

    def settle(self, seq, code):
        if seq in self.outcomes and self.outcomes[seq] != code:
            raise ValueError("sequence %d had the outcome %s, and has %s" % (seq, self.outcomes[seq], code))
        self.outcomes[seq] = code
        self.sent.pop(seq, None)
        while self.acked_through + 1 in self.outcomes:
            self.acked_through += 1

    def take(self, message):
        """Whether it was the outcome of something."""
        if message.type == "ACK":
            codes = message.fields.code or [0] * len(message.fields.seq)
            self.blocks.update((b.seq, [ERROR_CODES[c] for c in b.code]) for b in message.fields.blocks)
            self.errors.update((e.seq, e.text) for e in message.fields.error)
            for seq, code in zip(message.fields.seq, codes, strict=True):
                self.settle(seq, ERROR_CODES[code])
        elif message.type == "DATA" and message.fields.seq:
            self.values[message.fields.seq] = message
            self.settle(message.fields.seq, ERROR_CODES[next((c for c in message.fields.code if c), 0)])
        else:
            return False
        return True

    def outcome(self, seq):
        """The code of a sequenced message; waits for it."""
        for message in [m for m in self.connection.kept if self.take(m)]:
            self.connection.kept.remove(message)
        while seq not in self.outcomes:
            message = self.connection.receive()
            if not self.take(message):
                self.connection.kept.append(message)
        return self.outcomes[seq]

    def declare(self, name, dims, **fields):
        return self.connection.ask("DECLARE", name=name, dims=dims, **fields)

    def pull(self, var, block, **fields):
        """Versions, and the payload."""
        found = self.connection.answer(self.connection.send("PULL", var=[var] * len(block), block=block, **fields))
        return found.fields.version, found.payload
