#!/usr/bin/env python3
"""Modes, barriers, leases and rounds (sections 5 and 6 of proto/PROTOCOL.md) at a real psd, by a second implementation of
the wire: which message waits for which worker, and what ends the wait. Prints TAP. PSD_BIN names psd."""

import struct
import time

from tap import finish, ok
from wire.client import WAIT_S, Connection, Ended, Refused, Session
from wire.shards import Shards
from wire.specification import CODES

SGD = {"learning_rate": 1.0}


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


class Job:
    """Its workers, and an observer who asks which of them waits."""

    def __init__(self, shards, name, workers, joined=None, declare=True, **options):
        self.shards, self.job = shards, {"name": name, "workers": workers, **options}
        self.worker = [self.join(task) for task in range(workers if joined is None else joined)]
        self.var = [w.declare("w", [1], optimizer=SGD).var for w in self.worker][0] if declare else None
        self.observer = Connection(shards.address[0])
        self.observer.observe()

    def join(self, task, **hello):
        return Session(self.shards.address[0], self.job, task, **hello)

    def push(self, task, gradient, clock=0, **fields):
        return self.worker[task].push(self.var, [0], floats(gradient), clock, **fields)

    def pull(self, task, **fields):
        """The request's number."""
        return self.worker[task].connection.send("PULL", var=[self.var], block=[0], **fields)

    def pulled(self, task, request):
        found = self.worker[task].connection.answer(request)
        return found.fields.version, list(struct.unpack("<%df" % (len(found.payload) // 4), found.payload))

    def reported(self, kind, holds):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            report = self.observer.ask("QUERY", kind=kind, job=self.job["name"])
            if holds(report):
                return True
        print("#", report)
        return False

    def waits(self, task, what, on):
        """Whether the shard reports that this worker waits so, and for whom; as soon as it does."""
        return self.reported("BLOCKED", lambda report: [row for row in report.blocked if row.task == task and
                                                        row.what == what and row.on_task == on])

    def lapsed(self, task):
        return self.reported("WORKERS", lambda report: [row for row in report.worker if row.task == task and row.lapsed])

    def evict(self, task):
        return self.observer.ask("EVICT", job=self.job["name"], task=task)


def ended(what, **hello):
    """The code that refuses a session's hello."""
    try:
        what(**hello)
    except Ended as e:
        return e.code
    return None


def refused(connection, request):
    try:
        return connection.answer(request)
    except Refused as e:
        return e.code


def try_async(shards):
    job = Job(shards, "async", 2, joined=1)
    ok(job.worker[0].outcome(job.worker[0].tick(9)) == "OK" and job.pulled(0, job.pull(0, clock=9)) == ([0], [0.0]),
       "async: a pull waits for nobody, also for none that never joined")
    ok(job.worker[0].outcome(job.push(0, 2.0, 9)) == "OK" and job.pulled(0, job.pull(0)) == ([1], [-2.0]),
       "async: a push is applied when it arrives")


def try_ssp(shards):
    job = Job(shards, "ssp", 2, mode="SSP", bound=2)
    w0, w1 = job.worker
    w0.outcome(w0.tick(3))
    ok(job.pulled(0, job.pull(0, clock=2))[0] == [0], "ssp: within the bound a pull is answered")
    request = job.pull(0, clock=3)
    ok(job.waits(0, "pull", [1]), "ssp: beyond it a pull waits for the slowest worker")
    ok(job.pulled(0, job.pull(0, clock=3, now=True))[0] == [0], "ssp: but not where it is asked for now")
    push = job.push(0, 1.0, 3)
    ok(w0.outcome(push) == "OK" and w0.connection.kept == type(w0.connection.kept)(),
       "ssp: a push waits for nobody, and the pull still waits", w0.connection.kept)
    w1.tick(1)
    ok(job.pulled(0, request) == ([1], [-1.0]), "ssp: the slowest worker's tick lets it go")
    job = Job(shards, "ssp-absent", 2, joined=1, mode="SSP", bound=0)
    w0 = job.worker[0]
    w0.outcome(w0.tick(1))
    request = job.pull(0, clock=1)
    ok(job.waits(0, "pull", [1]), "ssp: a worker that never joined is waited for")
    w0.connection.send("CANCEL", b"", 0, request=request)
    ok(refused(w0.connection, request) == "CANCELLED", "a pull that waits is taken back with CANCELLED")
    request = job.pull(0, clock=1)
    w1 = job.join(1)
    ok(w1.welcome.clock == 0 and w1.welcome.slowest_clock == 0,
       "ssp: it joins at the slowest clock, which stayed where it was until then", w1.welcome)
    w1.tick(1)
    ok(job.pulled(0, request)[0] == [0], "ssp: and its tick lets the pull go")
    ok(refused(job.observer, job.observer.send("SET", job="ssp-absent", bound={"clocks": 5})).fields.changed,
       "ssp: the bound of a running job is set")


def try_sync(shards):
    job = Job(shards, "sync", 2, mode="SYNC", quorum=2)
    first = job.push(0, 1.0)
    ok(job.waits(0, "push", [1]), "sync: a push waits for the other worker's gradient")
    request = job.pull(0, clock=1)
    second = job.push(1, 3.0)
    ok([job.worker[0].outcome(first), job.worker[1].outcome(second)] == ["OK", "OK"], "sync: the last gradient answers both")
    ok(job.pulled(0, request) == ([1], [-2.0]), "sync: one update is made of their mean, and the pull has it")
    both = [job.push(0, 1e38, 0), job.push(1, 1.0, 0)]
    ok([job.worker[t].outcome(both[t]) for t in (0, 1)] == ["LATE", "LATE"],
       "sync: a push for a block that is past its clock is LATE",
       job.worker[0].outcomes)
    for w in job.worker:
        w.outcome(w.tick(1))
    both = [job.push(0, 3e38, 1), job.push(1, 3e38, 1)]
    ok([job.worker[t].outcome(both[t]) for t in (0, 1)] == ["NONFINITE"] * 2 and
       job.pulled(0, job.pull(0, clock=2)) == ([1], [-2.0]),
       "sync: a sum that is not finite is no update, but a step", job.worker[0].outcomes)
    for w in job.worker:
        w.outcome(w.tick(2))
    waiting = job.push(0, 1.0, 2, want_value=True)
    again = job.worker[0]
    job.waits(0, "push", [1])
    again.cut()
    again.connect(True)
    ok(again.resent == 1 and again.welcome.last_seq == waiting - 1,
       "sync: a push that waits is sent again after a lost connection",
       again.welcome)
    job.push(1, 1.0, 2)
    ok(again.outcome(waiting) == "OK" and again.values[waiting].payload == floats(-3.0),
       "sync: and its outcome comes on the new connection, with the values")


def try_quorum(shards):
    job = Job(shards, "quorum", 3, mode="SYNC", quorum=2)
    pushes = [job.push(0, 1.0), job.push(1, 2.0)]
    ok([job.worker[t].outcome(pushes[t]) for t in (0, 1)] == ["OK"] * 2 and job.pulled(0, job.pull(0, clock=1)) == ([1], [-1.5]),
       "sync, 2 of 3: two gradients are a step")
    ok(job.worker[2].outcome(job.push(2, 9.0)) == "LATE", "sync, 2 of 3: the third is LATE")
    job.worker[0].outcome(job.worker[0].tick(5))
    ok(job.worker[0].outcome(job.push(0, 1.0, 5)) == "CLOCK", "sync: a push for a clock that the block has not is CLOCK")
    for task in (1, 2):
        job.worker[task].outcome(job.worker[task].tick(5))
    ok(job.pulled(0, job.pull(0, clock=5)) == ([1], [-1.5]),
       "sync: where all have ticked on the block goes along without an update")


def try_lapses(shards):
    job = Job(shards, "shrink", 2, mode="SYNC", quorum=2)
    push = job.push(0, 4.0)
    job.waits(0, "push", [1])
    found = job.evict(1)
    ok(found.found and found.live and job.worker[0].outcome(push) == "OK" and job.pulled(0, job.pull(0, clock=1)) == ([1], [-4.0]),
       "SHRINK: without the lapsed worker the gradient that is there is the step")
    event = job.worker[0].connection.next_of("EVENT").fields
    ok(event.kind == 1 and event.task == 1, "the others get EVENT(LEASE_LAPSED)", event)
    ok(job.worker[1].connection.end() == "FENCED", "an evicted worker's connection ends with FENCED")
    ok(ended(job.worker[1].connect, resume=True) == "FENCED", "and so does its resume")
    job.worker[1] = job.join(1)
    event = job.worker[0].connection.next_of("EVENT").fields
    ok(event.kind == 2 and event.task == 1, "a new incarnation comes back: EVENT(REJOINED)", event)
    ok(not job.evict(7).found, "an eviction of a worker that is not known finds none")
    job = Job(shards, "fail", 2, mode="SYNC", quorum=2, lapse="FAIL")
    push, pull = job.push(0, 4.0), job.pull(0, clock=1)
    job.waits(0, "push", [1])
    job.evict(1)
    ok(job.worker[0].outcome(push) == "STEP_FAILED" and "worker 1" in job.worker[0].errors[push],
       "FAIL: the push ends with STEP_FAILED, which names the worker", job.worker[0].errors)
    ok(refused(job.worker[0].connection, pull) == "STEP_FAILED" and job.pulled(0, job.pull(0, now=True)) == ([0], [0.0]),
       "FAIL: so does the pull, and nothing is changed")


def try_leases(shards):
    job = Job(shards, "lease", 3, joined=2)
    w0, w1 = job.worker
    holder = ended(job.join, task=0)
    ok(holder == "TASK_TAKEN", "another incarnation of a task whose connection is open is TASK_TAKEN", holder)
    w1.cut()
    ok(w0.connection.next_of("EVENT").fields.kind == 1 and job.lapsed(1),
       "a session lapses when its connection is lost for the grace")
    code = ended(w1.connect, resume=True)
    ok(code == "LEASE_LAPSED", "its resume is LEASE_LAPSED", code)
    silent = job.join(2, lease_ms=150)
    ok(silent.connection.end() == "LEASE_LAPSED",
       "a session lapses on an open connection, too, which has been silent for its lease")
    old = w0.hello["incarnation"]
    w0.cut()
    new = job.join(0)
    ok(new.welcome.last_seq == 0, "a new incarnation replaces a worker whose connection is closed")
    code = ended(w0.connect, resume=True)
    ok(code == "FENCED" and w0.hello["incarnation"] == old, "the old one's resume is FENCED", code)
    first = new.connection
    new.connect(True)
    ok(first.end() is None, "a resume closes the older connection of its incarnation")


def try_rounds(shards):
    job = Job(shards, "round", 2, mode="SSP", bound=0)
    w0, w1 = job.worker
    w0.outcome(w0.tick(4))
    w1.outcome(w1.tick(3))
    w1.connection.send("GOODBYE", finished=True)
    ok(w1.connection.end() is None and job.pulled(0, job.pull(0, clock=4))[0] == [0],
       "who says GOODBYE(finished) holds nobody back")
    again = job.join(1)
    ok(w0.welcome.round == 0 and again.welcome.round == 1 and again.welcome.clock == 4,
       "its task's next incarnation begins the next round", again.welcome)
    ok(w0.outcome(w0.tick(5, round=1)) == "OK", "a tick of the other says that it knows")
    request = job.pull(0, clock=5)
    ok(job.waits(0, "pull", [1]), "and both wait for each other there")
    again.connection.send("GOODBYE", finished=False)
    ok(again.connection.end() is None and job.lapsed(1) and job.pulled(0, request)[0] == [0],
       "GOODBYE without finished is a lost connection: the worker lapses")


def try_barriers(shards):
    job = Job(shards, "barrier", 2)
    w0, w1 = job.worker
    first = w0.barrier("a")
    ok(job.waits(0, "barrier a", [1]), "a barrier waits for the workers that have not come")
    ok(w0.outcome(w0.barrier("a")) == "INVALID", "the same worker twice at one name is INVALID")
    ok(w0.outcome(w0.tick(1)) == "OK" and first not in w0.outcomes,
       "outcomes come out of order: a tick passes a barrier that waits")
    w1.barrier("a")
    ok(w0.outcome(first) == "OK", "it opens when all have come")
    waiting = w0.barrier("b")
    job.waits(0, "barrier b", [1])
    w0.connection.send("CANCEL", b"", 0, request=w0.connection.requests)
    ok(w0.outcome(waiting) == "CANCELLED", "CANCEL ends one that waits, with a code in an ACK")
    waiting = w0.barrier("c")
    job.waits(0, "barrier c", [1])
    w0.cut()
    del w0.sent[waiting]
    w0.connect(True)
    w0.connection.send("SKIP", seq=waiting)
    ok(w0.outcome(waiting) == "CANCELLED", "SKIP in its place ends one that waits, too")


def try_metrics(shards):
    job = Job(shards, "metrics", 2)
    for task, w in enumerate(job.worker):
        w.cut()
        w.connect(True, metric_names=["loss", "rows"])
        w.outcome(w.tick(1, metrics={"value": [0.5 + task, 10.0], "at": {"position": 10}}))
    ok(job.join(0, incarnation=job.worker[0].hello["incarnation"]).welcome.metrics.value == [0.5, 10.0],
       "a welcome has the metrics that the last tick brought")
    report = job.observer.ask("QUERY", kind="JOBS", job="metrics").job[0]
    ok(list(report.metrics) == [2.0, 20.0] and report.metric_names == ["loss", "rows"], "a report has their sums and names", report)
    job = Job(shards, "places", 2)
    for task, w in enumerate(job.worker):
        w.outcome(w.tick(1, metrics={"value": [1.0 + task], "at": {"position": 10}}))
    both = [w.barrier("e", place={"at": {"position": 10}}) for w in job.worker]
    ok([w.outcome(seq) for w, seq in zip(job.worker, both)] == ["OK", "OK"], "a barrier with a place opens when all are there")
    job.worker[0].outcome(job.worker[0].tick(2, metrics={"value": [9.0], "at": {"position": 20}}))
    opened = job.observer.ask("QUERY", kind="JOBS", job="places").job[0].opened
    ok(opened.place.at.position == 10 and list(opened.sum) == [3.0], "and the job keeps its place and the sums of then", opened)
    late = job.worker[0].barrier("again", place={"at": {"position": 10}})
    ok(job.worker[0].outcome(late) == "OK", "who comes to a place that is not past it is let through at once")


def try_definitions(shards):
    job = Job(shards, "define", 3)
    w0, w1, w2 = (w.connection for w in job.worker)

    def define(connection, **values):
        return refused(connection, connection.send("DEFINE", field=[{"name": n, "value": v} for n, v in values.items()]))

    ok(job.worker[0].welcome.defines and define(w0, batch="96").fields.round == 0, "a worker defines what it trains")
    ok(define(w1, batch="97") == "MISMATCH", "another that was started differently is MISMATCH")
    ok(define(w1, batch="96", rate="1").fields.round == 0 and define(w2, rate="2") == "MISMATCH",
       "one that says more adds that to the job's definition")


def try_resize(shards):
    job = Job(shards, "resize", 2)
    more = {**job.job, "workers": 3}
    ok(refused(job.observer, job.observer.send("SET", job="resize", workers=3)) == "INVALID",
       "a job keeps its number of workers while one of them is live")
    ok(ended(Session, address=shards.address[0], job=more, task=2) == "MISMATCH", "and a hello with another is MISMATCH")
    for w in job.worker:
        w.connection.send("GOODBYE", finished=True)
        w.connection.end()
    third = Session(shards.address[0], more, 2)
    ok(third.welcome.round == 1, "when none is, the first hello with another begins a round with so many", third.welcome)
    ok(ended(job.join, task=0) == "MISMATCH", "to which the number before is MISMATCH")


def try_drain(shards):
    job = Job(shards, "drain", 2, mode="SSP", bound=0)
    job.worker[0].outcome(job.worker[0].tick(1))
    request = job.pull(0, clock=1)
    job.waits(0, "pull", [1])
    barrier = job.worker[0].barrier("b")
    job.waits(0, "barrier b", [1])
    job.observer.send("DRAIN")
    ok(job.observer.next_of("EVENT").fields.kind == 0 and job.worker[0].connection.next_of("EVENT").fields.kind == 0,
       "DRAIN: all get EVENT(DRAINING)")
    ok(refused(job.worker[0].connection, request) == "DRAINING", "a pull that waits ends with DRAINING")
    ok(job.worker[0].connection.end() is None and job.observer.end() is None and barrier not in job.worker[0].outcomes,
       "then the connections end, and a barrier that waits has no outcome")
    ok(shards.process[0].wait(WAIT_S) == 0, "and psd ends well")
    shards.start(0)
    job.worker[0].connect(True)
    job.worker[1].connect(True)
    job.worker[1].barrier("b")
    ok(job.worker[0].outcome(barrier) == "OK", "its next life goes on where the last one ended")


def try_drop(shards):
    job = Job(shards, "drop", 1)
    ok(refused(job.observer, job.observer.send("DROP", job="drop")) == "BUSY", "a job with a live worker is not dropped")
    done = refused(job.observer, job.observer.send("DROP", job="drop", force=True)).fields
    ok(done.found and done.variables == 1 and done.workers == 1 and job.worker[0].connection.end() == "DROPPED",
       "unless by force: then its connection ends with DROPPED", done)
    ok(ended(job.worker[0].connect, resume=True) == "DROPPED" and
       ended(job.worker[0].connect, resume=True, codes=CODES["DENIED"]) == "FENCED",
       "so does its resume, or with FENCED where it does not know that code")


with Shards(1, "--grace", "10m") as one:
    for part in (try_async, try_ssp, try_sync, try_quorum, try_lapses, try_barriers, try_metrics, try_definitions, try_resize, try_drop,
                 try_drain):
        part(one)
with Shards(1, "--grace", "100ms") as one:
    for part in (try_leases, try_rounds):
        part(one)
finish()
