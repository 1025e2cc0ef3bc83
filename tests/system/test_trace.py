#!/usr/bin/env python3
"""psctl trace and psrun --trace: the files of workers and shards are complete, their slices nest, and the table knows
which worker waits for which. Speed does not matter: the slow worker waits until the shards report that the others wait.
Prints TAP. PSRUN_BIN, PSCTL_BIN and TRACE_WORKER_BIN name the programs."""

import json
import os
import subprocess
import tempfile

from tap import finish, ok

PSRUN, PSCTL, WORKER = (os.environ[name] for name in ("PSRUN_BIN", "PSCTL_BIN", "TRACE_WORKER_BIN"))
STEPS = 6
PARTS = ["compute", "pull", "push", "all-reduce", "bound", "barrier", "other"]


def run(*words, **more):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def names(trace):
    return sorted(e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name")


def overlaps(trace):
    """Slices of one thread lie beside or within each other. A nanosecond is lost in rounding."""
    tracks = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"], e["name"]))
    for track, slices in tracks.items():
        open_until = []
        for ts, dur, name in sorted(slices):
            while open_until and open_until[-1] <= ts + 0.002:
                open_until.pop()
            if open_until and ts - dur > open_until[-1] + 0.002:
                yield track, name, ts
            open_until.append(ts - dur)


def unmatched(trace):
    begun = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "b":
            begun[e["id"]] = e
        elif e["ph"] == "e" and (e["id"] not in begun or begun.pop(e["id"])["ts"] > e["ts"]):
            yield e
    yield from begun.values()


def most(worker):
    return max(PARTS, key=lambda part: worker[part + "_us"])


def check_mode(mode, directory):
    everything = os.path.join(directory, "all.json")
    traces = os.path.join(directory, mode)
    ran = run(PSRUN, "--trace", traces, "--shards", "2", "--workers", "3", "--", WORKER, mode, cwd=directory)
    ok(ran.returncode == 0, mode + ": the workers end well", ran.stdout, ran.stderr)
    files = sorted(os.listdir(traces))
    ok(files == ["shard-0.json", "shard-1.json", "worker-0.json", "worker-1.json", "worker-2.json"],
       mode + ": every worker and shard has written its trace", files)
    files = [os.path.join(traces, name) for name in files]
    laid = run(PSCTL, "trace", "--json", "--output", everything, *files)
    ok(laid.returncode == 0, mode + ": they are laid over each other", laid.stderr)
    trace, spent = load(everything), json.loads(laid.stdout)
    ok(names(trace) == ["shard 0", "shard 1", "worker 0", "worker 1", "worker 2"],
       mode + ": with their names", names(trace))
    ok(not list(overlaps(trace)) and not list(unmatched(trace)), mode + ": slices nest, and what begins ends",
       list(overlaps(trace)), list(unmatched(trace)))
    workers = {w["worker"]: w for w in spent["workers"]}
    ok(all(w["steps"] == STEPS for w in workers.values()), mode + ": every step is there", spent)
    ok(all(abs(sum(w[p + "_us"] for p in PARTS) - w["step_us"]) < 1 for w in workers.values()),
       mode + ": the parts make up the whole", spent)
    ok(most(workers["worker 0"]) == "compute", mode + ": the slow one computes", spent)
    ok(most(workers["worker 1"]) == most(workers["worker 2"]) == "bound", mode + ": the others wait for it", spent)
    held = {e["name"] for e in trace["traceEvents"] if e["ph"] == "b"}
    want = "gradients" if mode == "sync" else "bound"
    ok({"worker 1 held: " + want, "worker 2 held: " + want} <= held, mode + ": and the shard says whom it held", held)
    table = run(PSCTL, "trace", "--color", "never", *files)
    ok(table.returncode == 0 and [line.split()[0] for line in table.stdout.splitlines()] ==
       ["WORKER", "worker", "worker", "worker", "all", "SHARD", "shard", "shard"],
       mode + ": people get tables", table.stdout, table.stderr)
    return files


def check_live(directory):
    """The program that psrun runs asks the shards of the run."""
    output = os.path.join(directory, "live.json")
    script = '"$0" async && exec "$1" trace --json --output "$2"'
    ran = run(PSRUN, "--no-prefix", "--shards", "2", "--", "sh", "-c", script, WORKER, PSCTL, output)
    ok(ran.returncode == 0, "shards that run are asked", ran.stdout, ran.stderr)
    trace = load(output)
    ok(names(trace) == ["shard 0", "shard 1"], "both answer", names(trace))
    ok(not list(overlaps(trace)), "their turns do not overlap", list(overlaps(trace)))
    parts = {e["name"] for e in trace["traceEvents"] if e["ph"] == "X"}
    ok(parts == {"turn", "apply", "commit", "answer"}, "and have parts", parts)


def check_bad(files, directory):
    bad = os.path.join(directory, "bad.json")
    for text, why in (("{", "no JSON"), ("{}", "no trace"), ('{"traceEvents": [{}], "otherData": {}}', "another's trace"),
                      ('{"traceEvents": [{"name": 1}], "otherData": {"psd": "1", "machine": ""}}', "a broken one")):
        with open(bad, "w", encoding="utf-8") as file:
            file.write(text)
        refused = run(PSCTL, "trace", bad)
        ok(refused.returncode == 2 and bad in refused.stderr, why + " is refused by its name", refused)
    ok(run(PSCTL, "trace", os.path.join(directory, "none.json")).returncode == 1, "so is a file that is not there")
    unwritable = os.path.join(directory, "no", "such", "all.json")
    refused = run(PSCTL, "trace", "--output", unwritable, *files)
    ok(refused.returncode == 1 and "no/such" in refused.stderr, "a trace that cannot be written is told", refused)


with tempfile.TemporaryDirectory() as place:
    check_mode("ssp", place)
    written = check_mode("sync", place)
    check_live(place)
    check_bad(written, place)
finish()
