#!/usr/bin/env python3
"""Rules for names that hold for the whole tree, checked on its C, C++ and CUDA sources:

    - A static function has its module's name in front: one word alone (apply) names no module. Nor may a static
      variable that is called like a function (static void (*apply)(void)) have one word.
    - A struct, union or enum tag is defined once: debuggers and ctags know types by tag alone.
    - The names of two modules differ by more than an s.

names.py [--list | --tsv] [ROOT] prints TAP. --list prints what was found instead, one line each; --tsv in columns.
"""

import collections
import os
import re
import sys

SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cu", ".cuh", ".inc")
TOP = ("client", "common", "server", "proto", "tests", "deploy")

# Types that a header only declares and that several files implement, each in a program or module of its own.
IMPLEMENTED_TWICE = {
    "store_reader": "the stores in memory and in LMDB",
    "store_snapshot": "the stores in memory and in LMDB",
    "lanes": "optimizers' rules, compiled for the CPU's kernels and for CUDA",
    "ps_work": "a group's, and the one of a reducer's test",
    "ps_module_device": "device modules: the one for CUDA and the tests' one",
    "ps_module_gang": "device modules: the one for CUDA and the tests' one",
    "ps_module_team": "device modules: the one for CUDA and the tests' one",
}

TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|//(?:\\\n|[^\n])*|[ \t\r\f\v]+|\\\n)
      | (?P<newline>\n)
      | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|[uUL]?'(?:\\.|[^'\\\n])*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<mark>->|\#\#|\.\.\.|.)""",
    re.S | re.X)


def sources(root):
    for top in TOP:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
            for name in sorted(files):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def tokens(text):
    """(text, line, column) of each token that the compiler sees, without preprocessor lines."""
    line, start, directive, fresh = 1, 0, False, True
    for m in TOKEN.finditer(text):
        t = m.group()
        if m.lastgroup == "newline":
            directive, fresh = False, True
        elif m.lastgroup != "skip":
            if t == "#" and fresh:
                directive = True
            fresh = False
            if not directive:
                yield t, line, m.start() - start
        n = t.count("\n")
        if n:
            line += n
            start = m.start() + t.rindex("\n") + 1


def is_name(t):
    return t[0].isalpha() or t[0] == "_"


def closing(toks, i):
    """The index of the parenthesis that closes the one at i."""
    depth = 0
    while i < len(toks):
        depth += (toks[i][0] == "(") - (toks[i][0] == ")")
        if depth == 0:
            return i
        i += 1
    return i


def static_function(toks, i):
    """The (name, line) of the function that the declaration at i, which begins with static, declares; or None."""
    while i < len(toks) and toks[i][0] not in ("=", ";", "{", "}"):
        t, line, _ = toks[i]
        if t in ("__attribute__", "__declspec", "alignas", "_Alignas", "__launch_bounds__", "typeof", "__typeof__"):
            i = closing(toks, i + 1)
        elif t == "(":
            if i + 3 < len(toks) and toks[i + 1][0] == "*" and is_name(toks[i + 2][0]):
                j = i + 3 if toks[i + 2][0] == "const" else i + 2 # static void (*const name)(...); a table is no function
                return toks[j][:2] if is_name(toks[j][0]) and toks[j + 1][0] == ")" else None
            before = toks[i - 1]
            return before[:2] if is_name(before[0]) else None
        i += 1
    return None


def read(path, text):
    """The definitions in one file: static functions and tags, as (name, line)."""
    toks = list(tokens(text))
    functions, tags = [], []
    depth = 0
    for i, (t, line, column) in enumerate(toks):
        if t == "{":
            opens_linkage = i >= 1 and toks[i - 1][0].startswith('"')
            named = i >= 2 and toks[i - 2][0] == "namespace" or i >= 1 and toks[i - 1][0] == "namespace"
            depth += not (opens_linkage or named)
        elif t == "}":
            depth = 0 if column == 0 else max(0, depth - 1) # whatever #if made of the braces between
        elif t == "static" and depth == 0:
            found = static_function(toks, i + 1)
            if found and found[0] not in ("static_assert", "_Static_assert"):
                functions.append(found)
        elif t in ("struct", "union", "enum"):
            j = i + 1
            while j < len(toks) and toks[j][0] in ("__attribute__", "alignas", "_Alignas"):
                j = closing(toks, j + 1) + 1
            if j + 1 < len(toks) and is_name(toks[j][0]) and toks[j + 1][0] in ("{", ":"):
                if toks[j + 1][0] == "{":
                    tags.append((toks[j][0], toks[j][1]))
    return functions, tags


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def without_plurals(name):
    return "_".join(part[:-1] if part.endswith("s") else part for part in name.split("_"))


def survey(root):
    """one-word functions: [(path, line, name)]; tags defined more than once: {tag: [(path, line)]}; modules an s apart:
    {normal form: {stem: [path]}}; the number of static functions."""
    words, tags, count = [], collections.defaultdict(list), 0
    modules = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            functions, defined = read(path, f.read())
        count += len(set(name for name, _ in functions))
        seen = set()
        for name, line in functions:
            if "_" not in name and name not in seen:
                seen.add(name)
                words.append((path, line, name))
        for name, line in defined:
            tags[name].append((path, line))
        modules[without_plurals(stem(path))][stem(path)].append(path)
    doubled = {t: p for t, p in sorted(tags.items()) if len(p) > 1 and t not in IMPLEMENTED_TWICE}
    apart = {k: dict(v) for k, v in sorted(modules.items()) if len(v) > 1}
    return words, doubled, apart, count


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = args[0] if args else os.environ.get("PSD_SOURCE_DIR", ".")
    words, doubled, apart, count = survey(root)
    word_lines = ["%s:%d: static %s" % w for w in words]
    tag_lines = ["%s: %s" % (t, ", ".join("%s:%d" % p for p in places)) for t, places in doubled.items()]
    apart_lines = [", ".join("%s (%s)" % (name, " ".join(paths)) for name, paths in sorted(v.items())) for v in apart.values()]
    if "--tsv" in sys.argv:
        for path, line, name in words:
            print(path, name, sep="\t")
        return 0
    if "--list" in sys.argv:
        print("\n".join(word_lines + tag_lines + apart_lines))
        print("%d static functions, %d of one word; %d tags defined more than once; %d names an s apart" %
              (count, len(words), len(doubled), len(apart)))
        return 0
    failed = 0
    print("1..3")
    for n, (lines, sentence) in enumerate([(word_lines, "every static function has its module's name in front"),
                                           (tag_lines, "every struct, union and enum tag is defined once"),
                                           (apart_lines, "the names of two modules differ by more than an s")], 1):
        print("%s %d - %s" % ("not ok" if lines else "ok", n, sentence))
        for line in lines:
            print("# " + line)
        failed += bool(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
