"""What a shell script calls, also behind env, timeout, sh -c, and functions that run their arguments."""

import json
import os
import re

from other_languages import ANY, Python
from shell_tree import Function, known, line_of, nodes, parse, probe_of, text_of, values_of, words_of

# Functions of tests that run a command in a Debian root, which has packages of its own.
IN_ROOTS = {"inside", "in_root", "root_exec", "as_user", "ask"}

SHELLS = {"sh", "bash", "dash"}

# What runs the command behind its options: options that take a word, and how many words come before the command.
WRAPPERS = {
    "exec": ("-a", 0), "command": ("", 0), "env": ("-u -C -S", 0), "nice": ("-n", 0), "nohup": ("", 0), "sudo": ("-u", 0),
    "timeout": ("-k -s", 1), "xargs": ("-I -n -P -L -d -a", 0), "unshare": ("--propagation", 0), "nsenter": ("-t", 0),
    "chroot": ("", 1), "setsid": ("", 0), "flock": ("-w", 1), "stdbuf": ("", 0), "time": ("-f -o", 0), "setpriv": ("", 0),
    "taskset": ("", 1),
}
PROGRAM = re.compile(r"(?!_$|-)[\w.+\[:-]+")
ASSIGNMENT = re.compile(r"\w+\+?=")
OURS_SCRIPT = re.compile(r"(^|[/\0])[\w-]+\.(sh|sbatch)$")


class Call:
    def __init__(self, path, line, program):
        self.path, self.line, self.program = path, line, program


class Shell:
    """One file of shell, or a text in one, which begins in a line of its file."""

    def __init__(self, path, text, first=1, around=None):
        self.path, self.first = path, first
        self.tree, self.problem = parse(text)
        self.functions = dict(around.functions) if around else {}
        self.probed = around.probed if around else set()
        self.runners = dict(around.runners) if around else {}
        self.texts = around.texts if around else {}
        for function in nodes(self.tree, "FuncDecl"):
            self.functions[function["Name"]["Value"]] = Function(function)
            self.runners.pop(function["Name"]["Value"], None)
        self.calls, self.unlooked = [], []

    # -- functions that run their arguments

    def find_runners(self):
        """runners[name] = how many words come before the command; until none is new, since they call each other."""
        before = -1
        while before != len(self.runners) and nodes(self.tree, "FuncDecl") + self.sourced():
            before = len(self.runners)
            for name, function in self.functions.items():
                at = self.runs_from(function) if name not in self.runners else None
                if at is not None:
                    self.runners[name] = at

    def runs_from(self, function):
        for words in function.calls:
            while words:
                at = re.fullmatch("\0@(\\d+)\0", words[0])
                if at:
                    return function.shifted + int(at.group(1)) - 1
                words = self.behind(words)
        return None

    # -- calls

    def behind(self, words):
        """The command that is run by this one; None when there is none, or none that is known."""
        name, rest, takes, before = words[0], words[1:], "", 0
        if name in self.functions:
            if name not in self.runners:
                return None
            rest = rest[self.runners[name]:]
        elif name == "ip" and rest[:2] == ["netns", "exec"]:
            return rest[3:]
        elif name == "find":
            at = next((rest.index(o) for o in ("-exec", "-execdir") if o in rest), None)
            return None if at is None else rest[at + 1:]
        elif os.path.basename(name) in WRAPPERS and rest[:1] not in (["-v"], ["-V"]):
            takes, before = WRAPPERS[os.path.basename(name)]
        else:
            return None
        while rest and (rest[0].startswith("-") or ASSIGNMENT.match(rest[0])):
            word = rest[0]
            rest = rest[2:] if word in takes.split() else rest[1:]
            if word == "--":
                break
        return rest[before:]

    def call(self, words, line):
        """One command, with what it runs."""
        while words:
            name = words[0]
            self.scripts_in(words, line)
            if name not in self.functions and PROGRAM.fullmatch(os.path.basename(name)) and ANY not in name:
                self.calls.append(Call(self.path, line, name))
            if name in IN_ROOTS:
                return
            passes = name in self.functions and self.functions[name].passes
            if "--" in words and (passes or name.startswith(ANY)) and name not in self.runners:
                words = words[words.index("--") + 1:]  # psrun ... -- COMMAND
            else:
                words = self.behind(words)

    def scripts_in(self, words, line):
        """eval TEXT, trap TEXT SIGNAL, and sh -c TEXT and python3 -c TEXT, wherever they stand: something else may run them."""
        name, rest = words[0], words[1:]
        if name == "eval" and rest:
            self.inside(" ".join(rest), line)
        if name == "trap" and len(rest) > 1 and rest[0] not in ("", "-", "--"):
            self.inside(rest[0], line)
        if name in IN_ROOTS:
            return
        for at, word in enumerate(words):
            shell, python = os.path.basename(word) in SHELLS, os.path.basename(word).startswith("python3")
            option = next((i for i in range(at + 1, min(at + 4, len(words) - 1)) if re.fullmatch("-[a-z]*c", words[i])), None)
            if option is None or not (shell or python):
                continue
            if at > 0:
                self.calls.append(Call(self.path, line, word))
            if shell:
                self.inside(words[option + 1], line)
            else:
                self.python(words[option + 1], line)
            return

    def inside(self, text, line):
        """A script in a script."""
        inner = Shell(self.path, re.sub("\0@\\d+\0", "$@", text).replace(ANY, "_"), line, self)
        if text.replace(ANY, "").strip() and not inner.problem:
            inner.read()
            self.calls += inner.calls

    def python(self, text, line):
        try:
            inner = Python(self.path, text)
        except SyntaxError:
            return
        for words, _ in inner.inner:
            self.call(words, line)

    def read(self):
        """Fills calls and probed."""
        for path in self.sourced():
            for name, function in with_functions(path, self.texts).functions.items():
                self.functions.setdefault(name, function)
        self.find_runners()
        values = values_of(self.tree)
        calls = []
        for call in nodes(self.tree, "CallExpr"):
            self.probed |= {known(w, values) for w in probe_of(call)}
            if call.get("Args"):
                words = [known(call["Args"][0], values), *words_of(call)[1:]]
                calls.append((words, self.first + line_of(call) - 1))
        for words, _ in calls:
            if words[0] in self.functions:
                self.probed |= {words[n] for n in self.functions[words[0]].probes if n < len(words)}
        for words, line in calls:
            self.call(words, line)
        for statement in nodes(self.tree, "redirected"):
            self.read_document(statement)

    def read_document(self, statement):
        """<<END: of sh and python3, or a file that begins with #!."""
        command = statement.get("Cmd") or {}
        words = words_of(command) if command.get("Type") == "CallExpr" else []
        for redirection in statement.get("Redirs") or []:
            if not redirection.get("Hdoc"):
                continue
            text, line = text_of(redirection["Hdoc"].get("Parts")), self.first + line_of(redirection["Hdoc"]) - 1
            name = os.path.basename(words[0]) if words else ""
            if name in SHELLS or re.match(r"#!.*sh\b", text):
                self.inside(text, line)
            elif name.startswith("python3") or re.match(r"#!.*python", text):
                self.python(text, line)

    def sourced(self):
        """The files that it sources, by name: theirs are its functions. One that is sourced itself has those of its folder."""
        names = {os.path.basename(w[1].split(ANY)[-1]) for w in map(words_of, nodes(self.tree, "CallExpr"))
                 if len(w) > 1 and w[0] in (".", "source")}
        found = [p for p in self.texts if os.path.basename(p) in names and p.endswith(".sh")]
        if not self.texts.get(self.path, "#!").startswith("#!"):
            found += [p for p, t in self.texts.items() if os.path.dirname(p) == os.path.dirname(self.path) and not t.startswith("#!")]
        return [p for p in found if p != self.path]

    # -- results of our scripts

    def is_script(self, statement, functions):
        """Does the statement call a script of ours, or a function that ends with that?"""
        command = statement.get("Cmd") or {}
        words = words_of(command) if command.get("Type") == "CallExpr" else []
        while words:
            if OURS_SCRIPT.search(words[0]) or words[0] in functions:
                return True
            words = self.behind(words)
        return False

    def look(self):
        """Fills unlooked: lines of calls whose result nobody looks at. With errexit the shell does."""
        options = [w for words in map(words_of, nodes(self.tree, "CallExpr")) if words[:1] == ["set"] for w in words[1:]]
        if any(re.fullmatch(r"-[a-z]*e[a-z]*", o) for o in options):
            return
        functions, known = set(), -1
        while known != len(functions):
            known = len(functions)
            for name, function in self.functions.items():
                if function.statements and self.is_script(function.statements[-1], functions):
                    functions.add(name)
        ends = {id(f.statements[-1]) for f in self.functions.values() if f.statements}  # the function's own result
        for block in nodes(self.tree, "block"):  # not conditions, nor what is joined by && and ||
            for at, statement in enumerate(block):
                looked = statement.get("Negated") or statement.get("Background") or id(statement) in ends
                if looked or not self.is_script(statement, functions):
                    continue
                if at + 1 == len(block) or '"Value": "?"' not in json.dumps(block[at + 1]):
                    self.unlooked.append(self.first + line_of(statement) - 1)


SOURCED = {}


def with_functions(path, texts):
    """A script with the functions of those that it sources."""
    key = id(texts), path
    if key not in SOURCED:
        SOURCED[key] = Shell(path, texts[path])
        SOURCED[key].texts = texts
        for other in SOURCED[key].sourced():
            for name, function in with_functions(other, texts).functions.items():
                SOURCED[key].functions.setdefault(name, function)
    return SOURCED[key]
