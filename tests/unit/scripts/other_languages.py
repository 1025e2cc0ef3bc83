"""What C, Python and meson files call: (words, line), ANY for a word that is not known before it runs."""

import ast
import re

ANY = "\0"


class Python:
    """What subprocess and os are given as literal words."""

    RUN = {"run", "Popen", "call", "check_call", "check_output"}

    def __init__(self, path, text):
        self.path, self.calls, self.probed, self.inner = path, [], set(), []
        tree = ast.parse(text)
        self.lists = {t.id: n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
        self.helpers = {f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.args.vararg and any(
            self.is_run(c) and c.args and isinstance(c.args[0], ast.Name) and c.args[0].id == f.args.vararg.arg for c in ast.walk(f))}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self.read(node)

    def is_run(self, node):
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and \
            node.func.value.id == "subprocess" and node.func.attr in self.RUN

    def words(self, node):
        """The strings of a list; ANY for what is not known."""
        if isinstance(node, ast.Name) and node.id in self.lists:
            return self.words(self.lists.pop(node.id))
        if isinstance(node, ast.BinOp):
            return self.words(node.left) + self.words(node.right)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [e.value if isinstance(e, ast.Constant) and isinstance(e.value, str) else ANY for e in node.elts]
        return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else [ANY]

    def read(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if name == "which" and isinstance(first, ast.Constant):
            self.probed.add(first.value)
        elif self.is_run(node) and first is not None:
            shell = any(k.arg == "shell" for k in node.keywords)
            self.add(["sh", "-c"] + self.words(first) if shell else self.words(first), node.lineno)
        elif name in self.helpers:
            self.add(self.words(ast.List(elts=node.args)), node.lineno)
        elif isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "os" and first is not None and \
                re.match(r"(exec|spawn)[lv]|system$|popen$|posix_spawn", name):
            words = self.words(node.args[1] if name.startswith("spawn") else first)
            self.add(["sh", "-c"] + words if name in ("system", "popen") else words, node.lineno)

    def add(self, words, line):
        if words:
            self.inner.append((words, line))


STRING = r'"((?:\\.|[^"\\])*)"'
STRINGS = r"((?:\s*(?:" + STRING + r"|PRI\w+))+)"


def shell_helpers(text):
    """Functions of a C file that have a shell run the text or the format that they are given."""
    for match in re.finditer(r"(?ms)^(\w+)\(([^)]*const char \*(\w+)[^)]*)\)\n\{\n(.*?)^\}", text):
        name, parameters, last, body = match.groups()
        ran = set(re.findall(r"\b(?:system|popen)\s*\(\s*(\w+)", body))
        if last in ran or "..." in parameters and ran and re.search(r"\bvsnprintf\(\s*(%s)\b.*\b%s\b" % ("|".join(ran), last), body):
            yield name


class C:
    """system(), popen() and exec*() of strings, also of those that snprintf() has made for them, or that helpers are given.
    A function at a time: what one looks for counts for itself."""

    def __init__(self, text, helpers=()):
        self.inner = []  # of each function
        at = 0
        for part in re.split(r"(?m)(?<=^\})$", text):
            self.inner.append([])
            self.read(part, text.count("\n", 0, at), "|".join(["system", "popen", *helpers]))
            at += len(part)

    def read(self, text, before, runs):
        self.before = before
        for match in re.finditer(r"\b(?:%s)\s*\(\s*(?:" % runs + STRINGS + r"|(\w+))", text):
            if match.group(1):
                self.shell(match.group(1), text, match.start())
            else:
                made = r"\bsnprintf\(\s*%s\s*,[^\",]*,\s*" % match.group(3) + STRINGS
                for found in re.finditer(made, text):
                    self.shell(found.group(1), text, found.start())
        spawns = r"\b(?:exec[lv]\w*\s*\(|posix_spawnp?\s*\([^,;]*,)\s*"
        for match in re.finditer(spawns + STRING, text):
            self.add([match.group(1)], text, match.start())
        for match in re.finditer(spawns + r"(\w+)(?:\[0\])?\s*,", text):
            for found in re.finditer(r"\b%s\s*\[\w*\]\s*=\s*\{\s*" % match.group(1) + STRING, text):
                self.add([found.group(1)], text, found.start())

    def add(self, words, text, at):
        self.inner[-1].append((words, self.before + text.count("\n", 0, at) + 1))

    def shell(self, strings, text, at):
        script = "".join(re.findall(STRING, strings))
        script = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), script)
        script = re.sub(r"%[-0-9.*]*(?:hh|h|ll|l|z|j|t)?[diuxXscp]", "_", script).replace("%%", "%")
        self.add(["sh", "-c", script], text, at)


def meson_programs(text):
    for match in re.finditer(r"\b(?:find_program|run_command)\(\s*'([^'/]+)'", text):
        if not match.group(1).endswith((".sh", ".py")):
            yield match.group(1), text.count("\n", 0, match.start()) + 1
