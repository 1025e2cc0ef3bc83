#!/usr/bin/env python3
"""Which folder may use which: walls.txt, compared with the sources' includes and the symbols that their objects need.

Also checks: every folder with sources has a row, no row may use one below it in the file, each row uses all that it
may use, and few modules of server/core call each other in circles. A name that ends in / stands for that folder and
all below it. Prints TAP. PSD_BUILD_DIR names a build folder; its objects are read where they were built, so a part
that was left out (a sanitizer's CUDA module) is judged by its includes alone."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.environ.get("PSD_BUILD_DIR", os.path.join(SOURCE, "build"))
TABLE = "tests/unit/walls.txt"
TOPS = ("proto", "common", "server", "client")
CIRCLES_MAX = 0.1  # of the modules of server/core

# The record that the modules of server/core share, made of the records of all its folders: it belongs to no folder, has
# no code, and does not show which module calls which. The symbols show that.
RECORD = "server/core/shard_state.h"

tests = failures = 0


def ok(good, name, *notes):
    global tests, failures
    tests += 1
    failures += not good
    print("%s %d - %s" % ("ok" if good else "not ok", tests, name))
    for note in () if good else notes:
        print("# %s" % (note,))


def read_table():
    """The rows in order, folder → what it may use; what all may; and the exceptions, (folder, used) → reason."""
    rows, exceptions = {}, {}
    with open(os.path.join(SOURCE, TABLE), encoding="utf-8") as f:
        for line in f:
            line = line.split("#")[0].strip()
            if line.startswith("except "):
                edge, reason = line[len("except "):].split(":", 1)
                exceptions[tuple(edge.split(" uses "))] = reason.strip()
            elif line:
                folder, _, uses = line.partition(":")
                rows[folder.strip()] = uses.split()
    return rows, rows.pop("*", []), exceptions


def allows(uses, folder):
    return any(folder == u or (u.endswith("/") and (folder + "/").startswith(u)) for u in uses)


def folder_of(path):
    """The folder that the table judges: some are one with all that is below them."""
    folder = os.path.dirname(path)
    for whole in ("client/examples", "client/device/cuda", "common/core/optimizer"):
        if folder.startswith(whole):
            return whole
    return folder


def include_edges():
    """(from, to) → some file of the one that includes a file of the other."""
    edges = {}
    for top in TOPS:
        for at, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in names:
                if not re.search(r"\.(c|h|cu|cuh)$", name):
                    continue
                path = os.path.relpath(os.path.join(at, name), SOURCE)
                if path == RECORD:
                    continue
                with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
                    used = re.findall(r'^\s*#\s*include\s+["<]((?:%s)/[^">]+)[">]' % "|".join(TOPS), f.read(), re.M)
                for header in used:
                    if header == RECORD and path.startswith("server/core/"):
                        continue
                    edges.setdefault((folder_of(path), folder_of(header)), "%s includes %s" % (path, header))
    return edges


def sources_of_objects():
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        for entry in json.load(f):
            source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), SOURCE)
            if source.startswith(TOPS[1:]):
                yield os.path.join(BUILD, entry["output"]), source


def symbols(path):
    """The symbols that an object defines for others, and those that it asks for."""
    defined, asked = set(), set()
    for line in subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=False).stdout.splitlines():
        name, kind = line.split()[:2]
        if kind in "Uw":
            asked.add(name)
        elif kind.isupper():
            defined.add(name)
    return defined, asked


def symbol_edges():
    """source → source → the symbols; each within its top folder, or of common."""
    where, asked_by = {}, {}
    for path, source in sources_of_objects():
        if not os.path.exists(path) or source in asked_by:
            continue
        defined, asked_by[source] = symbols(path)
        for name in defined:
            where[name, source.split("/")[0]] = source
    edges = defaultdict(lambda: defaultdict(list))
    for source, asked in asked_by.items():
        for name in sorted(asked):
            target = where.get((name, source.split("/")[0])) or where.get((name, "common"))
            if target and target != source:
                edges[source][target].append(name)
    return asked_by, edges


def circles(nodes, edges):
    """Tarjan, "Depth-first search and linear graph algorithms", 1972: the strongly connected components of two or more."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10000)
    for node in nodes:
        if node not in index:
            visit(node)
    return found


rows, common_ground, exceptions = read_table()
order = {folder: i for i, folder in enumerate(rows)}
up = ["%s uses %s" % (a, b) for a, uses in rows.items() for b in rows if allows(uses, b) and order[b] >= order[a]]
up += ["all use %s, which uses %s" % (a, b) for a in common_ground for b in rows[a] if b not in common_ground]
up += ["%s uses %s, which has no row" % (a, b) for a, uses in rows.items() for b in uses if not any(allows([b], r) for r in rows)]
ok(not up, "no row of the table uses one above it", *up)

includes = include_edges()
modules, calls = symbol_edges()
edges = dict(includes)
for source, targets in calls.items():
    for target, names in targets.items():
        edge = folder_of(source), folder_of(target)
        edges.setdefault(edge, "%s calls %s of %s" % (source, names[0], target))
edges = {edge: why for edge, why in edges.items() if edge[0] != edge[1]}
grounded = {edge for edge in edges if edge[1] in common_ground}
ok(len(modules) > 300 and len(edges) > 100, "there is something to judge", len(modules), len(edges))

folders = {folder for edge in edges for folder in edge} | {folder_of(source) for source in modules}
ok(not folders - set(rows), "every folder has a row", *sorted(folders - set(rows)))
ok(not set(rows) - folders, "and every row a folder", *sorted(set(rows) - folders))
for top in TOPS[1:]:
    bad = ["%s -> %s: %s" % (a, b, why) for (a, b), why in sorted(edges.items())
           if a.split("/")[0] == top and (a, b) not in grounded and not allows(rows.get(a, []), b) and (a, b) not in exceptions]
    ok(not bad, "%s keeps to the table" % top, *bad)
idle = ["%s: %s" % (a, b) for a, uses in rows.items() for b in uses
        if not any(edge[0] == a and allows([b], edge[1]) for edge in edges)]
ok(not idle, "and the table allows nothing that is not used", *idle)
idle = ["%s uses %s" % edge for edge in exceptions if edge not in edges]
ok(not idle, "each exception is still needed", *idle)
per_top = [edge for edge in exceptions if not edge[0].startswith("client/")]
ok(not per_top and len(exceptions) <= 3, "there are at most three, all in client", *per_top)

pure = {source for path, source in sources_of_objects() if re.search(r"/(common|server|client)/core/lib\w+\.a\.p/", path)}
missing = [os.path.relpath(os.path.join(at, name), SOURCE) for top in TOPS[1:] for at, _, names in
           os.walk(os.path.join(SOURCE, top, "core")) for name in names if name.endswith(".c")]
missing = [path for path in missing if path not in pure and not re.search(r"_(avx2|avx512)\.c$", path)]
ok(len(pure) > 100 and not missing, "all that lies below a core/ is in a library that core_is_pure looks at", *missing)

core = {source for source in modules if source.startswith("server/core/")}
among = {a: {b for b in targets if b in core} for a, targets in calls.items() if a in core}
found = circles(sorted(core), among)
count = sum(map(len, found))
ok(len(core) > 50 and count <= CIRCLES_MAX * len(core),
   "%d of %d modules of server/core call each other in circles: at most one in ten" % (count, len(core)),
   *(" ".join(os.path.basename(m) for m in part) for part in found))

print("1..%d" % tests)
sys.exit(failures > 0)
