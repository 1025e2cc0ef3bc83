#!/usr/bin/env python3
"""Rules for scripts, and for tests that start programs:

    - Every program that is called comes from a package that is installed for it (deploy/packages.sh): from one of the
      lists, from what these depend on, or from those that every Debian has. Other programs are looked for first
      (command -v, shutil.which), in the same file.
    - Whoever calls a script of ours looks at its result.
    - No loop in deploy/ waits without an end.

scripts.py [--list] [ROOT] prints TAP; --list prints each call instead, with the package of the program. Shell is parsed
by shfmt, Python by ast; of C the strings that system(), popen(), exec*() and posix_spawn() get."""

import os
import re
import shutil
import sys

sys.dont_write_bytecode = True

from debian_packages import Installed, find, lists_of  # noqa: E402
from planted import missed  # noqa: E402
from shell_calls import Shell  # noqa: E402
from shell_tree import line_of, nodes, words_of  # noqa: E402
from source_tree import language_of, read_tree, sources  # noqa: E402

TESTS, BUILD, DEBS, NONE = ["PACKAGES_BUILD", "PACKAGES_TESTS"], ["PACKAGES_BUILD"], ["PACKAGES_BUILD", "PACKAGES_DEBS"], []

# Which lists are installed where a file runs: the first prefix counts.
LISTS = [("tests/", TESTS), (".ci/", TESTS), ("deploy/make-debs.sh", DEBS), ("deploy/quickstart.sh", BUILD), ("deploy/Dockerfile", BUILD),
         ("deploy/", NONE), ("", BUILD)]

# Programs of the machine that a file is for.
ELSEWHERE = {
    "deploy/slurm/psd.sbatch": {"srun", "scontrol"},
    "deploy/debian/psd.postinst": {"systemctl"},
    "deploy/debian/psd.postrm": {"systemctl"},
    "deploy/debian/psd.prerm": {"systemctl"},
}

BUILTINS = set(". : [ alias bg break builtin caller cd command compgen complete compopt continue declare dirs echo eval exec "
               "exit export false fg getopts hash jobs kill let local mapfile popd printf pushd pwd read readarray readonly "
               "return set shift shopt source test times trap true type typeset ulimit umask unalias unset wait".split())


def our_programs(root):
    """Executables of the build, and scripts that are called by a path."""
    names = set()
    for path, text in sources(root):
        if os.path.basename(path) == "meson.build":
            names |= set(re.findall(r"\bexecutable\('([\w-]+)'", text))
    return names


def theirs(root, calls):
    """The calls of programs that are neither the shell's own nor ours."""
    ours = our_programs(root)
    for call in calls:
        name = os.path.basename(call.program)
        if name not in BUILTINS and name not in ours and ("/" not in call.program or re.match(r"/(usr/)?s?bin/", call.program)):
            yield call, name


def strangers(root, calls, probed):
    """Sentences for calls of programs that no package in the lists has; and, for --list, each call with its packages."""
    lists, machine, wrong, table, allowed = lists_of(root), Installed(), [], [], {}
    found = {call.program: find(call.program) for call, _ in theirs(root, calls)}
    owners = machine.owners({path for path in found.values() if path})
    for call, name in theirs(root, calls):
        wanted = next(names for prefix, names in LISTS if call.path.startswith(prefix))
        packages = {p for n in wanted for p in lists[n]}
        if tuple(wanted) not in allowed:
            allowed[tuple(wanted)] = machine.with_needs(machine.base | packages)
        owner = owners.get(found[call.program], set())
        table.append((call, owner))
        if {name, call.program} & (probed.get(call.path, set()) | ELSEWHERE.get(call.path, set())) or \
                owner & allowed[tuple(wanted)] or not owner and name in packages:
            continue
        wrong.append("%s:%d: %s is of %s, and not of %s or what every Debian has: add the package to a list in deploy/packages.sh, "
                     "or look for the program first (command -v)" %
                     (call.path, call.line, name, "the package " + " or ".join(sorted(owner)) if owner else "no package that is here",
                      " and ".join(wanted) or "a list for this script"))
    return wrong, table


def endless(root):
    """Loops in deploy/ that sleep without an end: neither a deadline nor a process whose life is their condition."""
    wrong = []
    for path, text in sources(root):
        if not path.startswith("deploy/"):
            continue
        if language_of(path, text) == "shell":
            lines = text.splitlines()
            for loop in nodes(Shell(path, text).tree, "WhileClause"):
                words = [w for c in nodes(loop, "CallExpr") for w in words_of(c)[:2]]
                condition = [w for c in nodes(loop["Cond"], "CallExpr") for w in words_of(c)]
                lived = not loop.get("Until") and ("alive" in condition or condition[:2] == ["kill", "-0"])
                body = "\n".join(lines[line_of(loop) - 1:loop["End"]["Line"]])
                if {"sleep", "wait"} & set(words) and not lived and "SECONDS" not in body:
                    wrong.append("%s:%d: a loop that waits without an end" % (path, line_of(loop)))
        elif path.endswith((".yaml", ".yml", ".in", ".service", ".socket", "Dockerfile")):
            wrong += ["%s:%d: a loop that waits without an end" % (path, n) for n, line in enumerate(text.splitlines(), 1)
                      if re.search(r"\b(until|while)\b.*\bdo\b.*\bdone\b", line)]
    return wrong


def check(root):
    """What is wrong with programs, results and waits."""
    calls, probed, unlooked, _ = read_tree(root)
    return strangers(root, calls, probed)[0], unlooked, endless(root)


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    root = words[0] if words else os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../../.."))
    for program in ("shfmt", "dpkg-query"):
        if not shutil.which(program):
            print("1..1\nok 1 - scripts_call_programs_of_the_lists # SKIP %s is not installed" % program)
            return 0
    calls, probed, unlooked, problems = read_tree(root)
    wrong, table = strangers(root, calls, probed)
    if "--list" in sys.argv:
        for call, packages in sorted(table, key=lambda t: (t[0].path, t[0].line)):
            print("%s:%d: %s (%s)" % (call.path, call.line, call.program, ", ".join(sorted(packages)) or "?"))
        return 0
    results = [("scripts_are_parsed", problems), ("programs_come_from_packages_of_the_lists", wrong),
               ("results_of_scripts_are_looked_at", unlooked), ("waits_in_deploy_end", endless(root)),
               ("planted_ones_are_found", missed(check))]
    for number, (name, found) in enumerate(results, 1):
        print("%s %d - %s" % ("not ok" if found else "ok", number, name))
        for sentence in found:
            print("# " + sentence)
    print("1..%d" % len(results))
    return any(found for _, found in results)


if __name__ == "__main__":
    sys.exit(main())
