#!/usr/bin/env python3
"""The operators' guide, deploy/README.md, and PROTOCOL.md's limits against the sources: every error, every limit and its
default, every constant and its value. Then all documents of the tree: links lead somewhere, paths that they name are there,
code that they quote is in the file that they quote it from, and each file of server, common, client and tests has its line
in the README of that folder. Prints TAP. PSD_BIN names the program."""

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
    """The text below a heading, up to the next one of its depth."""
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
            found[name] = eval(text, {"__builtins__": {}}, UNITS)  # digits, units and operators
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

families = {}  # of counters, by their text in METRICS_LIST
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
places = [("common/core/wire/wire.h", r"WIRE_\w+_MAX"), ("common/core/wire/frame.h", r"FRAME_\w+_MAX"), ("server/core/turn/shard_types.h", r"SHARD_\w+_MAX"),
          ("common/core/auth/keyring.h", r"KEYRING_\w+_(MAX|MIN)"), ("common/core/auth/token_handshake.h", r"TOKEN_HANDSHAKE_META_MAX"),
          ("server/access/access_policy.h", r"GUARD_\w+_MAX"), ("server/http/http.h", r"HTTP_\w+_MAX"), ("server/access/http_tokens.h", r"HTTP_\w+_MAX"), ("server/daemon/socket_activation.h", r"SOCKET_ACTIVATION_MAX"), ("server/core/metrics/metrics.h", r"METRICS_\w+_MAX")]
places += [(path, r"PS_\w+_MAX") for path in public]
missing = [name for path, pattern in places for name in constants(path)
           if re.fullmatch(pattern, name) and name not in fixed and "LINE" not in name]
ok(len(public) > 8 and not missing, "and none is left out", *missing)

known = {}
for path in ("common/core/wire/wire.h", "common/core/wire/frame.h", "common/core/base/arena.h", "server/core/turn/shard_types.h"):
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
           "RESTORE_DONE", "MET", "EVICTED", "DEFINED", "DROPPED", "ASSIGNED"}

listed = [[c.strip() for c in row.split(",")] for row in re.findall(r"^    X\(([A-Z_]+, +\d+, .*?)\)", read("common/core/wire/message_list.h"), re.M)]
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

scripts = set(re.findall(r"\btest_\w+\.(?:sh|py|c)\b", guide))
ok(all(os.path.exists(os.path.join(SOURCE, "tests/system", s)) for s in scripts), "the tests that the guide names are there", scripts)

# ---- all documents: links, paths, quoted code ----

TOPS = (".github", "client", "common", "deploy", "proto", "server", "tests")
documents = ["README.md"] + sorted(os.path.relpath(path, SOURCE) for top in TOPS
                                   for path in glob.glob(os.path.join(SOURCE, top, "**", "*.md"), recursive=True))
TO_COME = {"client/network/layers/shift.c", "client/strategy/dry_run.c", "common/core/optimizer/rules/lion.h"}  # recipes make them


def prose(text):
    """Without what is between fences, or indented as commands are."""
    return re.sub(r"^```.*?^```$|^    .*$", "", text, flags=re.M | re.S)


def anchors(path):
    """The targets of links into a document: its headings, as GitHub names them, and <a id>."""
    found = []
    for title in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S), re.M):
        name = re.sub(r"[^\w -]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        found.append(name if name not in found else "%s-%d" % (name, found.count(name)))
    return set(found) | set(re.findall(r'<a id="(.*?)">', read(path)))


def leads(document, link):
    """Whether a link of a document leads somewhere in the tree; links that leave it are not followed."""
    path, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
    if link.startswith(("http://", "https://")):
        return True
    return os.path.exists(os.path.join(SOURCE, target)) and (not anchor or anchor in anchors(target))


links = [(d, link) for d in documents for link in re.findall(r"\]\(([^)\s]*)\)", re.sub(r"`[^`\n]*`(?!\])", "", prose(read(d))))]
bad = ["%s: %s" % one for one in links if not leads(*one)]
ok(len(documents) > 10 and len(links) > 60 and not bad, "the links of all documents lead somewhere", *bad)
for good, wrong in (("deploy/README.md#limits", "deploy/README.md#limitz"), ("LICENSE", "LICENCE")):
    ok(leads("README.md", good) and not leads("README.md", wrong), "and %s would not" % wrong)

named = [(d, path) for d in documents if not d.endswith("CHANGELOG.md")
         for path in re.findall(r"`((?:client|common|deploy|proto|server|tests)/[\w./@-]+)`", prose(read(d)))]
gone = ["%s: %s" % (d, path) for d, path in named if path not in TO_COME and not os.path.exists(os.path.join(SOURCE, path))
        and not glob.glob(os.path.join(SOURCE, path + ".*"))]
ok(len(named) > 40 and not gone, "paths that they name are there", *gone)

quotes, wrong = 0, []
for d in documents:
    for path, block in re.findall(r"`([\w./]+)`:\n+```\w*\n(.*?)^```$", read(d), re.M | re.S):
        if path in TO_COME:
            continue
        quotes += 1
        if not os.path.exists(os.path.join(SOURCE, path)):
            wrong.append("%s: no %s" % (d, path))
            continue
        source, at = re.sub(r"\s+", " ", read(path)), 0
        for line in block.split("\n"):
            words = " ".join(line.split())
            if words not in ("", "..."):
                at = source.find(words, at)
            if at < 0:
                wrong.append("%s: %s has no such line, there: %s" % (d, path, words))
                break
ok(quotes > 3 and not wrong, "and code that they quote is in the file", *wrong)

readme = read("README.md")
pictures = [path for path in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", readme)]
ok(len(readme.splitlines()) <= 200, "README has at most 200 lines")
ok(len(pictures) == 2 and all(os.path.getsize(os.path.join(SOURCE, p)) <= 60 << 10 for p in pictures), "and two small pictures")

# ---- one line for each file ----

KINDS = (".c", ".h", ".cu", ".cuh", ".cc", ".py", ".sh", ".js", ".css", ".html", ".svg", ".supp")
for top in ("server", "common", "client", "tests"):
    have = set()
    for folder, inside, files in os.walk(os.path.join(SOURCE, top)):
        inside[:] = [i for i in inside if i != "__pycache__"]
        have |= {"%s/%s" % (os.path.relpath(folder, SOURCE), os.path.splitext(f)[0]) for f in files
                 if f.endswith(KINDS) and "/fuzz/corpus" not in folder}
    said = []
    for folder, lines in re.findall(r"^### `(.*?)/`$\n(.*?)(?=^#|\Z)", read(top + "/README.md"), re.M | re.S):
        said += ["%s/%s" % (folder, stem) for stem in re.findall(r"^- `(.*?)`: \S", lines, re.M)]
    ok(len(have) > 80 and have == set(said) and len(said) == len(have), "%s/README.md has one line for each file" % top,
       *["missing: " + path for path in sorted(have - set(said))], *["not there: " + path for path in sorted(set(said) - have)],
       *["twice: " + path for path in sorted({p for p in said if said.count(p) > 1})])

finish()
