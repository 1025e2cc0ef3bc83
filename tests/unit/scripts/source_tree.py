"""All that the tree's files call."""

import os
import re

from other_languages import C, Python, meson_programs, shell_helpers
from shell_calls import Call, Shell, with_functions


def language_of(path, text):
    name = os.path.basename(path)
    if name == "meson.build":
        return "meson"
    if name == "Dockerfile":
        return "docker"
    if path.endswith(".py"):
        return "python"
    if path.endswith((".c", ".cc", ".h")):
        return "c" if path.startswith("tests/") else None
    if path.endswith((".sh", ".sbatch")) or re.match(r"#!.*\b(ba|da)?sh\b", text):
        return "shell"
    return None


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("build") and f not in (".git", "node_modules") and (f == ".ci" or f[0] != "."))
        for name in sorted(files):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8") as f:
                    yield os.path.relpath(path, root), f.read()
            except (UnicodeDecodeError, OSError):
                continue


def docker_script(text):
    """The shell of RUN, in the lines where it stands."""
    out, running = [], False
    for line in text.split("\n"):
        running = running or line.startswith("RUN ")
        out.append(re.sub(r"^RUN ", "", line) if running else "")
        running = running and line.endswith("\\")
    return "\n".join(out)


def read_tree(root):
    """The calls, what each file looks for first, the lines of results that nobody looks at, and what cannot be parsed."""
    texts = {path: text for path, text in sources(root) if language_of(path, text)}
    shells = {p: t for p, t in texts.items() if language_of(p, t) == "shell"}
    helpers = {name for p, t in texts.items() if language_of(p, t) == "c" for name in shell_helpers(t)}
    calls, probed, unlooked, problems = [], {}, [], []
    for path, text in texts.items():
        language = language_of(path, text)
        if language == "meson":
            calls += [Call(path, line, program) for program, line in meson_programs(text)]
            probed[path] = set(re.findall(r"find_program\('([^']+)'[^)]*required: ", text))
            continue
        if language == "c":
            calls += c_calls(path, text, helpers)
            continue
        if language == "shell":
            unit = with_functions(path, shells)
        else:
            unit = Shell(path, docker_script(text) if language == "docker" else "")
            unit.texts = shells
        if unit.problem:
            problems.append("%s: %s" % (path, unit.problem))
            continue
        unit.read()
        unit.look()
        if language == "python":
            other = Python(path, text)
            unit.probed |= other.probed
            for words, line in other.inner:
                unit.call(words, line)
        calls += interpreters(path, text) + unit.calls
        probed[path] = unit.probed
        unlooked += ["%s:%d: nobody looks at the script's result" % (path, line) for line in unit.unlooked]
    return calls, probed, unlooked, problems


def c_calls(path, text, helpers):
    """Those that the function itself does not look for first."""
    for function in C(text, helpers).inner:
        unit = Shell(path, "")
        for words, line in function:
            unit.call(words, line)
        yield from (c for c in unit.calls if c.program not in unit.probed)


def interpreters(path, text):
    """#!/usr/bin/env bash"""
    words = text.split("\n", 1)[0][2:].split() if text.startswith("#!") else []
    return [Call(path, 1, w) for w in words if not w.startswith("-")]
