#!/usr/bin/env python3
"""The bench, each area with tiny parameters: are its results right, the JSON whole and the picture drawn? Not how fast
anything is. Prints TAP. BENCH_BIN and PSD_BIN name the programs; run by apart.sh, so /dev/shm is ours alone."""

import glob
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.append(os.path.join(os.path.dirname(__file__), "../system"))
from tap import finish, ok  # which lies there

BENCH = os.environ["BENCH_BIN"]
SVG = "{http://www.w3.org/2000/svg}"
ROUNDS = 2


def bench(*words):
    return subprocess.run([BENCH, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


THERE_BEFORE = set(glob.glob("/dev/shm/psd-bench*"))  # another bench's, which was killed or runs still


def left_behind(disk):
    return sorted(set(glob.glob("/dev/shm/psd-bench*")) - THERE_BEFORE) + os.listdir(disk)


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-9)


def figure_faults(table, row, figure):
    samples = figure["samples"]
    if len(samples) != (1 if table["once"] else ROUNDS) or not all(math.isfinite(x) and x >= 0 for x in samples):
        yield "samples %r" % samples
    elif figure["median"] not in samples or figure["spread"] < 0:
        yield "median %r, spread %r of %r" % (figure["median"], figure["spread"], samples)
    for other, ratio in figure["ratios"].items():
        peers = [f for f in row["figures"] if f["way"] == other]
        if len(peers) != 1:
            yield "a ratio to %s, which is not there" % other
            continue
        quotients = [a / b for a, b in zip(samples, peers[0]["samples"])]
        if not any(close(ratio, q) for q in quotients):
            yield "ratio %r to %s of %r" % (ratio, other, quotients)


def faults(area, document):
    """The errors in the JSON document of an area, a sentence each."""
    if document.get("bench") != 1 or document["settings"]["rounds"] != ROUNDS:
        yield "head: %r" % document
    if not document["tables"]:
        yield "no table"
    for table in document["tables"]:
        place = "%s, %s" % (table["area"], table["title"])
        if table["area"] != area or not table["rows"] or table["better"] not in ("more", "less"):
            yield place + ": the table"
        for row in table["rows"]:
            if not row["figures"] or len({f["way"] for f in row["figures"]}) != len(row["figures"]):
                yield "%s, %s: ways" % (place, row["label"])
            for figure in row["figures"]:
                for fault in figure_faults(table, row, figure):
                    yield "%s, %s, %s: %s" % (place, row["label"], figure["way"], fault)


def picture_faults(path, document):
    """A panel for each table, a mark with a text for each figure, nothing outside the page."""
    root = xml.etree.ElementTree.parse(path).getroot()
    width, height = (float(x) for x in root.get("viewBox").split()[2:])
    titles = [t for t in root.iter(SVG + "text") if t.get("class") == "title"]
    told = [m for m in root.iter() if m is not root and m.find(SVG + "title") is not None]
    figures = sum(len(row["figures"]) for table in document["tables"] for row in table["rows"])
    if len(titles) != len(document["tables"]):
        yield "%d panels for %d tables" % (len(titles), len(document["tables"]))
    if len(told) != figures:
        yield "%d marks for %d figures" % (len(told), figures)
    for element in root.iter():
        for names, end in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "y2", "cy"), height)):
            for name in names:
                if element.get(name) is not None and not 0 <= float(element.get(name)) <= end:
                    yield "%s at %s=%s" % (element.tag, name, element.get(name))


def test_area(area, work, disk):
    document, picture = os.path.join(work, area + ".json"), os.path.join(work, area + ".svg")
    ran = bench(area, "--extent", "tiny", "--rounds", str(ROUNDS), "--ranks", "2", "--disk", disk, "--json", document,
                "--svg", picture)
    if ran.returncode != 0:
        ok(False, area, ran.stdout[-2000:], ran.stderr[-2000:])
        return
    with open(document, encoding="utf-8") as f:
        parsed = json.load(f)
    wrong = list(faults(area, parsed)) + list(picture_faults(picture, parsed))
    wrong += ["left behind: " + path for path in left_behind(disk)]
    ok(not wrong, "%s: %d tables" % (area, len(parsed["tables"])), *wrong)


def test_killed(disk):
    """Ended in the midst of its work, it leaves nothing."""
    process = subprocess.Popen([BENCH, "wire", "--disk", disk], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "GB/s" in line:
            break
    there = bool(left_behind(disk))
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    status = process.wait()
    ok(there and status != 0 and not left_behind(disk), "a bench that is ended leaves nothing behind",
       there, status, left_behind(disk))


with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as disk:
    listed = bench("--list")
    areas = [line.split()[0] for line in listed.stdout.splitlines()]
    ok(listed.returncode == 0 and "wire" in areas and "optimizers" in areas, "--list lists the areas", listed.stdout)
    for name in areas:
        test_area(name, work, disk)
    broken = bench("wire", "--extent", "tiny", "--psd", "/bin/false", "--disk", disk)
    ok(broken.returncode != 0 and broken.stderr == "bench: /bin/false ended with status 1 before it listened\n",
       "a psd that does not start is said to have ended, and how", broken.stderr)
    missing = bench("wire", "--extent", "tiny", "--psd", "/nowhere/psd", "--disk", disk)
    ok(missing.returncode == 2 and missing.stderr == "bench: psd cannot be run: /nowhere/psd: No such file or directory\n",
       "and one that is not there", missing.stderr)
    near = bench("wrie")
    ok(near.returncode == 2 and "did you mean wire?" in near.stderr, "the area that was meant is named", near.stderr)
    unknown = bench("wire", "nonsense")
    ok(unknown.returncode == 2 and "nonsense" in unknown.stderr, "an area that is not there is refused", unknown.stderr)
    some = os.path.join(work, "some.json")
    bench("wire", "--extent", "tiny", "--sizes", "4Ki,1000", "--ways", "psd,pump", "--disk", disk, "--json", some)
    with open(some, encoding="utf-8") as f:
        chosen = json.load(f)
    rows = [row for table in chosen["tables"] for row in table["rows"]]
    ok({row["x"] for row in rows} == {4096} and {f["way"] for row in rows for f in row["figures"]} == {"psd", "pump"} and
       any("1000" in line for line in chosen["left_out"]), "sizes and ways are chosen", chosen)
    test_killed(disk)
finish()
