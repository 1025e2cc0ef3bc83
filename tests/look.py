#!/usr/bin/env python3
"""Run tests of a build with meson, count what they say, and look twice at those whose machine may be to blame.

    look.py [options] BUILD COUNTS [-- meson test's own selection...]

prints what meson prints, the whole log of each test that failed, and a loud line for each that passed when it was run
again. COUNTS becomes one line, "PASSED FAILED SKIPPED AGAIN": test cases, and tests that passed only at the second look;
COUNTS.again has each test that did, what it counts as, and the end of its first log. The status is 0 when none failed.

The second look: a test of the suites "system" and "thread" that failed is run once more when nothing else runs. Such tests
are real processes that wait for one another, and on a machine that others load one can wait in vain; what is really broken
fails again. A pass then counts only where the first failure was a time-out: whatever else a test reports (an assertion, an
error that is no TIMEOUT), one load or another brought it about, and it counts as failed. There is no second look when a log
has a sanitizer's report or a crash, nor when more than AGAIN_MAX tests failed. All other tests get one look: the same
inputs must give the same outcome.
"""

import argparse
import json
import os
import re
import subprocess
import sys

AGAIN_SUITES = ("system", "thread")
AGAIN_MAX = 5
END_LINES = 25
UNHAPPY = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")
NO_CHANCE = re.compile(r"(Address|Thread|Leak|Memory|UndefinedBehavior)Sanitizer|runtime error: |Received signal (4|7|8|11)\b")

# How a failure says that it is a time-out: meson, Check, psd's errors, and assertions that a call returned PS_OK and not 3.
TIMED = re.compile(r"\btime-?outs?\b|\btimed out\b|\bwaited (for )?\d+ m?s\b|\bin vain\b|== 3, PS_OK == 0", re.IGNORECASE)
# Errors that no load explains, whatever stands beside them.
OURS = re.compile(r"\b(INVALID|PROTOCOL|VERSION|MISMATCH|SHAPE|NONFINITE|SEQUENCE|CLOCK|DATA|UNSUPPORTED|INTERNAL)\b")


class Run:
    """The results in the logs of one call of meson."""

    def __init__(self, build, logbase):
        base = os.path.join(build, "meson-logs", logbase)
        self.tests = []  # the records of the JSON log: name "project:suite+suite / test", stdout, stderr, result
        self.cases = {}  # of those that speak TAP, by that name: cases, failures, skipped
        try:
            with open(base + ".json", encoding="utf-8", errors="replace") as f:
                self.tests = [json.loads(line) for line in f]
            with open(base + ".junit.xml", encoding="utf-8", errors="replace") as f:
                self.read_junit(f.read())
        except OSError:
            pass  # nothing was run

    def read_junit(self, text):
        # Not parsed as XML: what a test prints may have characters that XML does not know.
        for suite in re.findall(r"<testsuite [^>]*>", text):
            number = {k: int(v) for k, v in re.findall(r' (\w+)="(\d+)"', suite)}
            name = re.search(r' name="([^"]*)"', suite).group(1)
            if " / " in name:  # "project.project:suite+suite / test", all of whom speak TAP; the others share "project"
                bad = number.get("failures", 0) + number.get("errors", 0)
                self.cases[name.split(".", 1)[1]] = (number["tests"], bad, number.get("skipped", 0))

    def unhappy(self):
        return [t for t in self.tests if t["result"] in UNHAPPY]

    def counts(self, without=()):
        """[passed, failed, skipped] of all tests but those named. A test that crashed or ran out of time may have reported
        no failure: it counts as one."""
        total = [0, 0, 0]
        for t in self.tests:
            if t["name"] in without:
                continue
            bad = t["result"] in UNHAPPY
            tests, failed, skipped = self.cases.get(t["name"], (1, 0, t["result"] == "SKIP"))
            silent = bad and failed == 0
            if t["name"] not in self.cases and bad:
                tests = 0  # its only case is the one that failed
            total[0] += tests - failed - skipped
            total[1] += failed + silent
            total[2] += skipped
        return total


def options():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--timeout-multiplier", default="1")
    p.add_argument("--num-processes", default=str(os.cpu_count()))
    p.add_argument("--wrapper")
    p.add_argument("--maybe-none", action="store_true", help="it is no failure when the selection is empty")
    p.add_argument("build")
    p.add_argument("counts")
    p.add_argument("selection", nargs="*")
    return p.parse_args()


def meson_test(o, logbase, processes, selection):
    for end in (".json", ".junit.xml", ".txt"):  # or those of another run would be counted
        try:
            os.remove(os.path.join(o.build, "meson-logs", logbase + end))
        except FileNotFoundError:
            pass
    words = ["meson", "test", "-C", o.build, "--no-rebuild", "--logbase", logbase, "--num-processes", processes,
             "--timeout-multiplier", o.timeout_multiplier]
    if o.wrapper:
        words += ["--wrapper", o.wrapper]
    sys.stdout.flush()
    status = subprocess.run(words + selection, stdin=subprocess.DEVNULL, check=False).returncode
    return Run(o.build, logbase), status


def log_of(test):
    return "%s\n%s" % (test.get("stdout") or "", test.get("stderr") or "")


def show(test):
    print("\n---- the whole log of %s, %s with status %s ----" % (test["name"], test["result"], test["returncode"]))
    print(log_of(test).rstrip())
    print("---- the end of the log of %s ----\n" % test["name"], flush=True)


def suites_of(test):
    """psd:system+thread / client -> system, thread"""
    return test["name"].split(" / ")[0].split(":")[-1].split("+")


def may_be_looked_at_again(test):
    return any(s in AGAIN_SUITES for s in suites_of(test)) and not NO_CHANCE.search(log_of(test)) and not was_killed(test)


def was_killed(test):
    return test["result"] != "TIMEOUT" and not 0 <= (test["returncode"] or 0) < 128


def failures_of(test):
    """Of a test that speaks TAP: each "not ok" with the comments behind it. Else its log."""
    failures = []
    taking = False
    for line in (test.get("stdout") or "").splitlines():
        if re.match(r"not ok\b", line) and not re.search(r"# (SKIP|TODO)\b", line):
            failures.append(line)
            taking = True
        elif taking and not re.match(r"(ok\b|1\.\.\d)", line):
            failures[-1] += "\n" + line
        else:
            taking = False
    return failures or ([] if test["result"] == "TIMEOUT" else [log_of(test)])


def timed_out(test):
    """All that failed of it waited in vain."""
    return all(TIMED.search(f) and not OURS.search(f) for f in failures_of(test))


def passes_alone(o, test, number):
    selection = ["--suite", next(s for s in suites_of(test) if s in AGAIN_SUITES), test["name"].split(" / ")[-1]]
    print("== once more, alone: %s" % test["name"], flush=True)
    run, _ = meson_test(o, "again%d" % number, "1", selection)
    for bad in run.unhappy():
        show(bad)
    return run if run.tests and not run.unhappy() else None


def list_again(o, alone):
    """For whoever reads the end of run.sh's output, and for whoever mends it."""
    with open(o.counts + ".again", "w", encoding="utf-8") as f:
        for test, _ in alone:
            counts = "time-out, counts as passed" if timed_out(test) else "no time-out, counts as failed"
            print("!!!! passed only when run alone: %s (%s)" % (test["name"], counts), file=f)
            lines = "\n".join(failures_of(test) or [log_of(test)]).rstrip().splitlines()
            for line in lines[-END_LINES:]:
                print("     " + line, file=f)


def main():
    o = options()
    run, status = meson_test(o, "testlog", o.num_processes, o.selection)
    again = [t for t in run.unhappy() if may_be_looked_at_again(t)]
    alone = []  # tests, and the runs in which they passed
    for t in run.unhappy():
        show(t)
    if len(again) <= AGAIN_MAX:
        for t in again:
            second = passes_alone(o, t, len(alone))
            if second is not None:
                alone.append((t, second))
    forgiven = [(t, second) for t, second in alone if timed_out(t)]
    total = run.counts(without=[t["name"] for t, _ in forgiven])
    for _, second in forgiven:
        total = [a + b for a, b in zip(total, second.counts())]
    list_again(o, alone)
    with open(o.counts + ".again", encoding="utf-8") as f:
        print(f.read(), end="")
    if not run.tests and not o.maybe_none:
        print("no test was run")
        total[1] += 1
    elif status != 0 and not run.unhappy():
        print("meson test failed with status %d" % status)
        total[1] += 1
    with open(o.counts, "w", encoding="utf-8") as f:
        print(*total, len(alone), file=f)
    return 1 if total[1] else 0


sys.exit(main())
