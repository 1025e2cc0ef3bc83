#!/usr/bin/env python3
"""Exactly once, by a second implementation of the wire (wire/): workers count with pushes of ones over two shards, while
their connections are cut at any byte and psd processes are killed; and what is left after a shard's memory was lost. Prints
TAP. PSD_BIN names psd; PSD_TEST_SEED, or the first argument, is the seed of a run, which is printed."""

import os
import random
import shutil
import struct
import sys

from tap import finish, ok
from wire.blocks import layout, place
from wire.client import Connection, Ended, Session
from wire.shards import Shards
from wire.specification import LIMITS

SEED = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PSD_TEST_SEED") or str(random.SystemRandom().randrange(1 << 32))
SHARDS, WORKERS, STEPS, KILLS = 2, 2, 1000, 10
ELEMENTS = 3 * 1008 + 5
LAYOUT = layout(ELEMENTS)
SGD = {"learning_rate": 1.0}


def floats(value, count):
    return struct.pack("<f", value) * count


class Counter:
    """One worker: a session at each shard, each with the blocks that lie there."""

    def __init__(self, shards, task):
        self.shards = shards
        self.sessions = [Session(shards.address[shard], {"name": "count", "workers": WORKERS}, task, shard, SHARDS)
                         for shard in range(SHARDS)]
        self.blocks = [[b for b in range(len(LAYOUT)) if place("count", "w", b, SHARDS) == shard] for shard in range(SHARDS)]
        self.var = [s.declare("w", [ELEMENTS], optimizer=SGD).var for s in self.sessions]
        self.asked = {}  # shard and sequence: the blocks, whether the push is to be refused
        self.pushed = [0] * SHARDS
        self.clock = [0] * SHARDS

    def push(self, shard, dice, transmit):
        session = self.sessions[shard]
        blocks = dice.sample(self.blocks[shard], dice.randint(1, len(self.blocks[shard])))
        spoilt = dice.random() < 0.05
        payload = floats(1.0, sum(LAYOUT[b] for b in blocks))
        if spoilt:
            payload = payload[:-4] + floats(float("nan"), 1)
        seq = session.sequenced("PUSH", payload, transmit, var=[self.var[shard]] * len(blocks), block=blocks,
                                clock=self.clock[shard], want_value=dice.random() < 0.3)
        self.asked[shard, seq] = blocks, spoilt
        self.pushed[shard] += 1

    def tick(self, shard, transmit):
        self.clock[shard] += 1
        self.sessions[shard].sequenced("TICK", b"", transmit, clock=self.clock[shard])

    def resume(self, shard):
        session = self.sessions[shard]
        session.connect(True)
        known = sum(1 for at, seq in self.asked if at == shard and seq in session.outcomes)
        welcome = session.welcome
        if not known <= welcome.pushes <= self.pushed[shard] or not session.acked_through <= welcome.last_seq <= session.last:
            wrong.append("shard %d says %d pushes up to %d; %d of %d have an outcome, up to %d of %d" % (
                shard, welcome.pushes, welcome.last_seq, known, self.pushed[shard], session.acked_through, session.last))

    def settle(self, shard, seqs):
        for seq in seqs:
            self.sessions[shard].outcome(seq)


wrong = []
cuts = 0


def cut(counter, shard, dice):
    """Some messages whose bytes end anywhere."""
    global cuts
    session, first = counter.sessions[shard], counter.sessions[shard].last + 1
    for _ in range(dice.randint(1, 4)):
        if dice.random() < 0.8:
            counter.push(shard, dice, False)
        else:
            counter.tick(shard, False)
    data = b"".join(session.frame_of(seq) for seq in range(first, session.last + 1))
    session.connection.write(data[: dice.randint(0, len(data))])
    if dice.random() < 0.3:
        session.connection.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset in place of an end
    session.cut()
    cuts += 1


def count_under_fire():
    dice = random.Random(SEED)
    kills = sorted(dice.sample(range(STEPS), KILLS))
    with Shards(SHARDS) as shards:
        counters = [Counter(shards, task) for task in range(WORKERS)]
        for step in range(STEPS):
            counter, shard = dice.choice(counters), dice.randrange(SHARDS)
            session, chance = counter.sessions[shard], dice.random()
            if step in kills:
                for one in counters:
                    one.push(shard, dice, True)
                shards.kill(shard)
                shards.start(shard)
                for one in counters:
                    one.sessions[shard].cut()
                    one.resume(shard)
            elif chance < 0.15:
                cut(counter, shard, dice)
                counter.resume(shard)
            elif chance < 0.3:
                counter.settle(shard, list(session.sent)[:3])
            elif chance < 0.4:
                counter.tick(shard, True)
            else:
                counter.push(shard, dice, True)
        for counter in counters:
            for shard in range(SHARDS):
                counter.settle(shard, list(counter.sessions[shard].sent))
        check(counters)


def check(counters):
    wanted = [0] * len(LAYOUT)
    for counter in counters:
        for (shard, seq), (blocks, spoilt) in counter.asked.items():
            outcome = counter.sessions[shard].outcomes[seq]
            if spoilt and outcome == "UNKNOWN_OUTCOME":
                continue  # of more than SHARD_OUTCOMES_MAX
            if outcome != ("NONFINITE" if spoilt else "OK"):
                wrong.append("sequence %d at shard %d: %s" % (seq, shard, outcome))
            for block in blocks:
                wanted[block] += not spoilt
    values, versions = [None] * len(LAYOUT), [None] * len(LAYOUT)
    for shard in range(SHARDS):
        counter = counters[0]
        found, payload = counter.sessions[shard].pull(counter.var[shard], counter.blocks[shard], now=True)
        for block, version in zip(counter.blocks[shard], found):
            here, payload = payload[: 4 * LAYOUT[block]], payload[4 * LAYOUT[block] :]
            values[block], versions[block] = set(struct.unpack("<%df" % LAYOUT[block], here)), version
    total = sum(len(c.asked) for c in counters)
    resent = sum(s.resent for c in counters for s in c.sessions)
    print("# %d pushes, %d cuts, %d kills, %d messages sent again" % (total, cuts, KILLS, resent))
    ok(versions == wanted, "each block has as many versions as pushes that were acknowledged", versions, wanted)
    ok(values == [{-float(n)} for n in wanted], "and each of its elements has counted each of them once", values, wanted)
    ok(not wrong, "outcomes and welcomes say what was sent", *wrong)
    ok(resent > 0, "some of them were sent again, and their outcomes never changed")
    moved = [set(struct.unpack("<%df" % (len(m.payload) // 4), m.payload)) == {-float(v) for v in m.fields.version}
             for c in counters for s in c.sessions for m in s.values.values()]
    ok(moved and all(moved), "every answer with values had the version that belongs to them")


class Stepper:
    """One worker of a sync job, all of whose workers make each step; at each shard it has one variable."""

    def __init__(self, shards, task, names):
        job = {"name": "step", "workers": WORKERS, "mode": "SYNC", "quorum": WORKERS}
        self.sessions = [Session(shards.address[shard], job, task, shard, SHARDS) for shard in range(SHARDS)]
        self.var = [s.declare(names[shard], [1], optimizer=SGD).var for shard, s in enumerate(self.sessions)]
        self.waiting = []

    def push(self, clock, dice):
        self.waiting = []
        for shard, session in enumerate(self.sessions):
            seq = session.sequenced("PUSH", floats(1.0, 1), dice.random() < 0.8, var=[self.var[shard]], block=[0], clock=clock)
            self.waiting.append(seq)
            if session.sent and dice.random() < 0.3:
                session.cut()
                session.connect(True)

    def settle(self, clock):
        codes = []
        for session, seq in zip(self.sessions, self.waiting):
            codes.append(session.outcome(seq))
            session.outcome(session.tick(clock + 1))
        return codes


def step_under_fire():
    """Gradients that wait are in memory alone: a shard that was killed gets them again."""
    dice, wrong_codes = random.Random(SEED), []
    names = [next("v%d" % i for i in range(99) if place("step", "v%d" % i, 0, SHARDS) == shard) for shard in range(SHARDS)]
    steps = 60
    with Shards(SHARDS, "--grace", "10m") as shards:
        workers = [Stepper(shards, task, names) for task in range(WORKERS)]
        for step in range(steps):
            first, last = dice.sample(workers, 2)
            first.push(step, dice)
            if step % 10 == 5:
                shard = dice.randrange(SHARDS)
                shards.kill(shard)
                shards.start(shard)
                for worker in workers:
                    worker.sessions[shard].cut()
                    worker.sessions[shard].connect(True)
            last.push(step, dice)
            for worker in workers:
                for session in worker.sessions:  # what was held back goes as well
                    session.cut()
                    session.connect(True)
            wrong_codes += [code for worker in workers for code in worker.settle(step) if code != "OK"]
        found = [s.pull(v, [0], clock=steps) for s, v in zip(workers[0].sessions, workers[0].var)]
        ok(not wrong_codes, "sync: every gradient is part of its step, through cuts and kills", *wrong_codes)
        ok(found == [([steps], floats(-float(steps), 1))] * SHARDS, "sync: and every step is one update", found)


def count_data_once():
    """Cursors: a new process begins where the last one's data ends."""
    with Shards(1) as shards:
        job = {"name": "data", "workers": 1}

        def push(s, var, blocks, begin, end):
            return s.outcome(s.push(var, blocks, floats(1.0, sum(LAYOUT[b] for b in blocks)), s.welcome.clock,
                                    cursor={"position": end}, cursor_from={"position": begin}))

        s = Session(shards.address[0], job)
        var = s.declare("w", [ELEMENTS], optimizer=SGD).var
        codes = [push(s, var, [0, 1, 2, 3], 0, 10), s.outcome(s.tick(1, cursor={"position": 10}))]
        s.welcome.clock = 1
        codes += [push(s, var, [0, 1], 0, 10), push(s, var, [0, 1], 10, 20)]
        ok(codes == ["OK"] * 4 and s.pull(var, [0, 1, 2, 3])[0] == [2, 2, 1, 1],
           "data before the cursor counts once, however often it is pushed", codes)
        s.cut()
        again = Session(shards.address[0], job)
        ok(again.welcome.cursor.position == 10, "a new incarnation begins where data counts in every block", again.welcome)
        codes = [push(again, var, [0, 1, 2, 3], 10, 20)]
        ok(codes == ["OK"] and again.pull(var, [0, 1, 2, 3])[0] == [2, 2, 2, 2],
           "blocks that count the step that follows are skipped, and the others updated", codes)
        ok(push(again, var, [0], 10, 15) == "INVALID", "a step that is cut elsewhere is INVALID")


def remember_codes():
    """More refusals than a session remembers."""
    kept = LIMITS["SHARD_OUTCOMES_MAX"]
    with Shards(1) as shards:
        s = Session(shards.address[0], {"name": "j", "workers": 1})
        var = s.declare("w", [1], optimizer=SGD).var
        seqs = [s.push(var, [0], floats(float("nan"), 1)) for _ in range(kept + 3)]
        first = [s.outcome(seq) for seq in seqs]
        s.cut()
        again = Session(shards.address[0], {"name": "j", "workers": 1}, join=False)
        again.hello, again.welcome = s.hello, s.welcome
        again.connect(True)
        found = [again.outcome(again.push(var, [0], floats(1.0, 1))) for _ in seqs]
        ok(first == ["NONFINITE"] * len(seqs) and found == ["UNKNOWN_OUTCOME"] * 3 + ["NONFINITE"] * kept,
           "a shard remembers the last %d codes of a worker that acknowledges none, and that it has forgotten older ones" % kept,
           found)


def lose_memory():
    """A shard that starts from its disk alone: section 5, A rollback."""
    with Shards(1, "--durable-dir", "DIRECTORY/disk", "--save-interval", "0", "--save-on-stop", "0") as shards:
        s = Session(shards.address[0], {"name": "j", "workers": 1})
        var = s.declare("w", [1], optimizer=SGD).var
        first = [s.push(var, [0], floats(1.0, 1)) for _ in range(5)]
        ok([s.outcome(seq) for seq in first] == ["OK"] * 5 and s.connection.ask("SAVE").save > 0, "a save holds five pushes")
        durable = [False, True, False, True, False]
        then = [s.push(var, [0], floats(1.0, 1), durable=d) for d in durable]
        ok([s.outcome(seq) for seq in then] == ["OK"] * 5, "five more are acknowledged, two of them durable")
        waits = s.push(var, [0], floats(float("nan"), 1))
        s.outcome(waits)
        shards.kill(0)
        shutil.rmtree(shards.path("live-0"))
        shards.start(0)
        boot = s.welcome.boot
        w = s.connect(True)
        survived = [w.survived_from + 8 * j + i for j, byte in enumerate(w.survived) for i in range(8) if byte >> i & 1]
        ok(w.boot != boot and w.survived_boot == boot, "without its memory a shard has another boot, and names the one before")
        ok(w.last_seq == 5 and w.pushes == 7 and [n for n in survived if n in then] == [7, 9],
           "its welcome has the pushes of the save, and the durable ones behind it by their numbers", w)
        lost = len(first) + len(then) - w.pushes
        s.last, s.acked_through = w.last_seq, w.last_seq
        s.sent, s.outcomes = {}, {}
        var = s.declare("w", [1], optimizer=SGD).var
        version, payload = s.pull(var, [0])
        ok(version == [7] and payload == floats(-7.0, 1), "and the weights count those seven", version, payload.hex())
        again = [s.push(var, [0], floats(1.0, 1)) for _ in range(lost)]
        ok([s.outcome(seq) for seq in again] == ["OK"] * 3 and s.pull(var, [0])[0] == [10],
           "new numbers go on from last_seq, and bring the three others back")
        s.cut()
        w = s.connect(True)
        ok(w.survived == b"" and w.pushes == 10 and w.last_seq == 8, "the survivors are gone with the first of them", w)


def rules_of_sequences():
    with Shards(1) as shards:
        job = {"name": "j", "workers": 1}
        s = Session(shards.address[0], job)
        var = s.declare("w", [2], optimizer=SGD).var
        s.connection.send("PUSH", floats(1.0, 2), 9, seq=2, var=[var], block=[0])
        ok(s.connection.end() == "SEQUENCE", "a gap ends the connection with SEQUENCE")
        s.connect(True)
        seq = s.push(var, [0], floats(1.0, 2))
        ok(s.outcome(seq) == "OK", "which has used no number up")
        s.connection.send("PUSH", floats(5.0, 2), 9, seq=seq, var=[var], block=[0], want_value=True)
        found = s.connection.next_of("DATA")
        ok(found.fields.seq == seq and found.fields.version == [1] and found.payload == floats(-1.0, 2),
           "a sequence that comes again is answered with the values of now, and not applied", found)
        s.cut()
        w = s.connect(False)
        ok(w.last_seq == 1 and w.pushes == 1, "the same incarnation's new hello counts as a resume", w)
        try:
            Connection(shards.address[0]).ask("HELLO", **{**s.hello, "resume": True, "job": {"name": "none", "workers": 1}})
            ok(False, "a resume without a session is NOT_FOUND")
        except Ended as e:
            ok(e.code == "NOT_FOUND", "a resume without a session is NOT_FOUND", e)


print("# seed", SEED)
count_under_fire()
step_under_fire()
count_data_once()
remember_codes()
lose_memory()
rules_of_sequences()
finish()
