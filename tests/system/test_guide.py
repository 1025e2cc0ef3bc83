#!/usr/bin/env python3
"""The operators' guide, deploy/README.md, and PROTOCOL.md's limits against the sources: every error, every limit and its
default, every constant and its value; and that its links lead somewhere. Then README's code tour: every module is in it,
and what it names is there. Prints TAP. PSD_BIN names the program."""

import glob
import os
import re
import subprocess

from tap import finish, ok

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
PSD = os.environ.get("PSD_BIN", os.path.join(SOURCE, "build/server/psd"))
GUIDE = "deploy/README.md"
UNITS = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def section(text, title):
    """What stands below a heading, up to the next one of its depth."""
    return re.search(r"^## %s$(.*?)(?=^## |\Z)" % title, text, re.M | re.S).group(1)


def rows(text):
    """The cells of each line of the tables, without their heads."""
    return [[c.strip() for c in line[1:-1].split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]


def value(text):
    """A number as the tables have it: 8,192; 2^48; 256 KiB; 24 h."""
    text = text.replace(",", "")
    for unit, factor in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), (" h", 3600 * 1000)):
        if text.endswith(unit):
            return int(text[:-len(unit)]) * factor
    base, _, power = text.partition("^")
    return int(base) ** int(power or 1)


def constants(path):
    """The whole numbers that a header defines, by name."""
    found = {}
    for name, text in re.findall(r"^#define (\w+)[ \t]+([^\n]*?)[ \t]*(?:/\*.*)?$", read(path), re.M):
        text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
        if re.fullmatch(r"[\d\s()<*+KMGIB]+", text):
            found[name] = eval(text, {"__builtins__": {}}, UNITS)  # digits, units and what joins them
    return found


guide = read(GUIDE)
protocol = read("proto/PROTOCOL.md")

# ---- errors ----

listed = re.findall(r"X\((\w+), +(\d+), +\"", read("common/include/psclient/ps_err.h"))
table = [row for row in rows(section(guide, "Errors")) if re.match(r"\d+ ", row[0])]
ok(len(listed) > 30 and [row[0] for row in table] == ["%s %s" % (n, name) for name, n in listed],
   "the guide has every error, in their order", [row[0] for row in table], listed)
ok(all(len(row) == 3 and row[1] and row[2] for row in table), "and says of each what it means and what to do")

# ---- limits with options ----

limits = section(guide, "Limits")
first, second = limits.split("\nWhat is as it is", 1)
wanted = []
sample = subprocess.run([PSD, "--sample-config"], text=True, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
defaults = dict(re.findall(r"^#([a-z-]+) = (.*)$", sample, re.M))
for kind, name, option, about in re.findall(
        r"(X|NO_OPTION)\(\w+, \"([^\"]*)\",(?: \"([^\"]*)\",)? (?:true|false), \\\s*\"([^\"]*)\"\)", read("server/core/turn/limit.h")):
    wanted.append([name, "`--%s`" % option if option else "", defaults[option] if option else "", about])
got = [row for row in rows(first) if row[0] != "limit" and "--" not in row[0]]
ok(len(wanted) > 10 and got == wanted, "and every limit of a shard with its option, its default and what happens past it",
   *[w for w in wanted if w not in got], *[g for g in got if g not in wanted])

# ---- metrics ----

families = {}  # of counters, by what METRICS_LIST says for them
for group, body in re.findall(r"^#define (STATS_\w+)\(X\) +\\\n((?:.*\\\n)*.*)", read("common/core/wire/stats_list.h"), re.M):
    families["%s(METRICS_OF_STAT)" % group] = [
        (name, "counter", about) for name, about in re.findall(r"FIRST\(\w+, +\"(\w+)\",[\s\\]+\"(.*?)\"\)", body)]
traffic = re.findall(r"^    X\(\w+, \w+, (\w+),\s*\\\n *\"(\w+)\", \"(.*?)\",\s*\\\n *\"(\w+)\", \"(.*?)\"\)",
                     read("server/core/turn/traffic.h"), re.M)
families["TRAFFIC_LIST(METRICS_OF_VARIABLE)"] = [(name, kind, about) for kind, name, about, _, _ in traffic]
families["TRAFFIC_LIST(METRICS_OF_WORKER)"] = [(name, kind, about) for kind, _, _, name, about in traffic]
listed = []
for several, *one in re.findall(r"^    (?:(\w+_\w+\(METRICS_OF_\w+\))|X\(\w+, \"(\w+)\", (\w+), +\"(.*?)\"\))",
                                read("server/core/metrics/metrics.h"), re.M):
    listed += families[several] if several else [one]
table = rows(guide.split("### Every metric", 1)[1].split("<a id=", 1)[0])[2:]
wanted = ["`%s` %s %s" % (name, kind.lower(), about) for name, kind, about in listed]
got = ["%s %s %s" % (row[0], row[1], row[3]) for row in table]
ok(len(listed) > 80 and got == wanted, "and every metric, in their order, with its kind and what it is",
   *[w for w in wanted if w not in got], *[g for g in got if g not in wanted])

# ---- constants ----

fixed = {row[0]: row for row in rows(second) if row[0] != "limit" and "--" not in row[0]}
headers = {re.search(r"\((?:\.\./)(.*)\)", row[3]).group(1) for row in fixed.values()}
for path in sorted(headers):
    known = constants(path)
    mine = {name: row for name, row in fixed.items() if "(../%s)" % path in row[3]}
    wrong = ["%s is %s, not %s" % (n, known.get(n), row[1]) for n, row in mine.items() if known.get(n) != value(row[1])]
    ok(not wrong, "the guide's limits of %s have their values" % path, *wrong)
public = [os.path.relpath(p, SOURCE) for d in ("client/include/psclient/ps", "common/include/psclient/ps_") for p in glob.glob(os.path.join(SOURCE, d + "*.h"))]
places = [("common/core/wire/wire.h", r"WIRE_\w+_MAX"), ("common/core/wire/frame.h", r"FRAME_\w+_MAX"), ("server/core/shard/shard.h", r"SHARD_\w+_MAX"),
          ("common/core/auth/keyring.h", r"KEYRING_\w+_(MAX|MIN)"), ("common/core/auth/prelude.h", r"PRELUDE_META_MAX"),
          ("server/daemon/guard.h", r"GUARD_\w+_MAX"), ("server/http/http.h", r"HTTP_\w+_MAX"), ("server/http/http_tokens.h", r"HTTP_\w+_MAX"), ("server/daemon/handed.h", r"HANDED_MAX"), ("server/core/metrics/metrics.h", r"METRICS_\w+_MAX")]
places += [(path, r"PS_\w+_MAX") for path in public]
missing = [name for path, pattern in places for name in constants(path)
           if re.fullmatch(pattern, name) and name not in fixed and "LINE" not in name]
ok(len(public) > 8 and not missing, "and none is left out", *missing)

known = {}
for path in ("common/core/wire/wire.h", "common/core/wire/frame.h", "common/core/base/arena.h", "server/core/shard/shard.h"):
    known.update(constants(path))
wrong = []
for row in rows(section(protocol, "3. Text, numbers and limits")):
    names = row[0].split(", ")
    if not re.fullmatch(r"[A-Z_]+", names[0]):
        continue
    values = re.split(r"; |, ", row[1])
    values = [value(v) for v in (values if len(values) == len(names) else [row[1]] * len(names))]
    wrong += ["%s is %s, not %d" % (n, known.get(n), v) for n, v in zip(names, values) if known.get(n) != v]
ok(not wrong, "PROTOCOL.md's limits have their values, too", *wrong)

# ---- messages ----

SENDERS = {"NEWCOMER": "client", "WORKER": "worker", "CLIENT": "worker, observer", "OBSERVER": "observer", "SHARD": "shard",
           "MEMBER": "worker"}
ANSWERS = {"WELCOME", "DECLARED", "DATA", "ACK", "REPORT", "PONG", "SET_DONE", "SAVE_DONE", "CHECKPOINT_DONE",
           "RESTORE_DONE", "MET", "EVICTED"}

listed = [[c.strip() for c in row.split(",")] for row in re.findall(r"^    X\(([A-Z_]+, +\d+, .*?)\)", read("common/core/wire/messages.h"), re.M)]
wrong = []
table = [row for row in rows(section(protocol, "4. Messages")) if row[0].isdigit()]
for (name, number, _, _, _, payload, _, _, sender, _, _, answer), row in zip(listed, table):
    answered = [word for word in re.findall(r"[A-Z_]+", row[3]) if word in ANSWERS]
    if (row[0], row[1]) != (number, name) or not re.match(SENDERS[sender] + r"(?=, (or|worker)|$)", row[2]) or \
            answered[:1] != ([] if answer == "NONE" else [answer]) or bool(row[4]) != (payload == "PAYLOAD"):
        wrong.append(row)
ok(len(listed) == len(table) > 30 and not wrong, "and its messages are those of the list, with their senders, answers and payloads",
   *wrong)
wrong = []
table = {row[0]: row[1].split(", ") for row in rows(section(protocol, "14. Proof of who connects"))
         if row[0] in ("read", "train", "admin")}
for name, _, _, _, _, _, _, _, _, _, role, _ in listed:
    has = [r for r, names in table.items() if name in [re.sub(" of an observer$", "", n) for n in names]]
    if has != ([] if role == "NONE" else [role.lower()]):
        wrong.append("%s takes %s, not %s" % (name, role, has))
ok(len(table) == 3 and not wrong, "and their least roles", *wrong)

# ---- links ----

titles = {re.sub(r"[^a-z0-9 -]", "", t.lower()).replace(" ", "-") for t in re.findall(r"^## (.*)$", guide, re.M)}
titles |= set(re.findall(r'<a id="(.*?)">', guide))
links = re.findall(r"\]\(([^)]*)\)", guide)
bad = [link for link in links if link.startswith("#") and link[1:] not in titles]
bad += [link for link in links if not link.startswith(("#", "http"))
        and not os.path.exists(os.path.join(SOURCE, os.path.dirname(GUIDE), link.split("#")[0]))]
ok(len(links) > 20 and not bad, "its links lead somewhere", *bad)
scripts = set(re.findall(r"\btest_\w+\.(?:sh|py|c)\b", guide))
ok(all(os.path.exists(os.path.join(SOURCE, "tests/system", s)) for s in scripts), "and the tests that it names are there", scripts)

# ---- the code tour ----

tour = section(read("README.md"), "Code tour")
sources = [os.path.relpath(path, SOURCE) for top in ("common", "server", "client", "proto")
           for path in glob.glob(os.path.join(SOURCE, top, "**", "*.*"), recursive=True)]
named, whole = set(), []
for word in re.findall(r"`([^`\n]+)`", tour):
    name = re.sub(r"\.(c|h|cu|cuh)$", "", word.rstrip("/").split("/")[-1])
    if not name.startswith("_"):
        named.add(name)
        whole.append(name)
    for before in whole[-6:] if name.startswith("_") else ():  # `plan` (`_text`); `plan_ring`, `_tree`
        named |= {before + name, before.rsplit("_", 1)[0] + name}
modules = {path: re.sub(r"\.\w+$", "", os.path.basename(path)) for path in sources if re.search(r"\.(c|cu)$", path)}
rooms = ("client/network/layers/", "common/core/optimizer/rules/", "client/tools/psctl/views/", "client/tools/psctl/top/", "client/examples/")  # as wholes
missing = [path for path, name in sorted(modules.items())
           if name not in named and not name.startswith("psctl_") and not path.startswith(rooms)]
ok(len(modules) > 300 and not missing, "README's code tour names every module", *missing)
there = {re.sub(r"\.\w+$", "", os.path.basename(path)) for path in sources}
gone = [word for word in re.findall(r"`([\w/]+(?:\.(?:c|h|cu|cuh))?)`", tour.split("| **common core** |")[1].split("| `tests` |")[0])
        if not word.startswith("_") and re.sub(r"\.\w+$", "", os.path.basename(word.rstrip("/"))) not in there
        and not any(os.path.isdir(os.path.join(SOURCE, at, word)) for at in (".", "common", "server", "client", "client/tools"))]
ok(not gone, "and nothing that is not there", *gone)

finish()
