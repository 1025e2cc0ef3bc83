"""Shell as shfmt parses it: words, variables, functions."""

import json
import re
import subprocess

from other_languages import ANY

OR_ELSE = (70, 71, 74, 75)  # shfmt's numbers of - :- = :=


def text_of(parts):
    """A word: its text, with ANY for what is not known, and "\0@N\0" for "${@:N}"."""
    text = ""
    for part in parts or []:
        kind = part["Type"]
        if kind == "Lit":
            text += re.sub(r"\\(.)", r"\1", part.get("Value", ""))
        elif kind == "SglQuoted":
            text += part.get("Value", "")
        elif kind == "DblQuoted":
            text += text_of(part.get("Parts"))
        elif kind == "ParamExp" and part["Param"]["Value"] == "@":
            text += "\0@%s\0" % (part["Slice"]["Offset"]["Parts"][0].get("Value", "1") if part.get("Slice") else "1")
        elif kind == "ParamExp" and (part.get("Exp") or {}).get("Op") in OR_ELSE and part["Exp"].get("Word"):
            text += text_of(part["Exp"]["Word"].get("Parts"))  # ${CC:-cc}
        elif kind == "ParamExp" and part["Param"]["Value"].isdigit():
            text += "\0%s\0" % part["Param"]["Value"]
        else:
            text += ANY
    return text


def words_of(call):
    return [text_of(w.get("Parts")) for w in call.get("Args") or []]


def variable_of(word):
    """The name of the variable that the word is, if it is one."""
    parts = word.get("Parts") or []
    if len(parts) == 1 and parts[0]["Type"] == "DblQuoted":
        parts = parts[0].get("Parts") or []
    return parts[0]["Param"]["Value"] if len(parts) == 1 and parts[0]["Type"] == "ParamExp" else None


def values_of(tree):
    """The values of each variable that is assigned to."""
    values = {}
    for node in [*nodes(tree, "CallExpr"), *nodes(tree, "DeclClause")]:
        for assign in (node.get("Assigns") or []) + ((node.get("Args") or []) if node["Type"] == "DeclClause" else []):
            if assign.get("Name") and (assign.get("Value") or assign.get("Array")):
                text = text_of(assign["Value"].get("Parts")) if assign.get("Value") else ANY
                values.setdefault(assign["Name"]["Value"], set()).add(text)
    for loop in nodes(tree, "WordIter"):
        values.setdefault(loop["Name"]["Value"], set()).update({ANY, ""})
    return values


def nodes(tree, wanted):
    """All nodes of a kind, in order; each part of a tree is gone through once."""
    if id(tree) not in INDEX:
        found, left = {}, [tree]
        while left:
            at = left.pop()
            if isinstance(at, list):
                left += [v for v in reversed(at) if isinstance(v, (dict, list))]
                continue
            if "Type" in at:
                found.setdefault(at["Type"], []).append(at)
            if "Redirs" in at:
                found.setdefault("redirected", []).append(at)
            for key in ("Stmts", "Then", "Do"):
                if key in at:
                    found.setdefault("block", []).append(at[key])
            left += [v for v in reversed(at.values()) if isinstance(v, (dict, list)) and "Offset" not in v]
        INDEX[id(tree)] = (tree, found)  # with the tree, so that nothing else gets its id
    return INDEX[id(tree)][1].get(wanted, [])


INDEX = {}


def known(word, values):
    """Its text; of a variable that has one value alone, that."""
    found = values.get(variable_of(word), ())
    return next(iter(found)) if len(found) == 1 else text_of(word.get("Parts"))


def probe_of(call):
    """The words that a call looks for: command -v NAME..., [ -x PATH ]."""
    words, args = words_of(call), call.get("Args") or []
    if words[:2] == ["command", "-v"]:
        return args[2:]
    return args[2:3] if words[:1] in (["["], ["test"]) and words[1:2] == ["-x"] else []


def line_of(node):
    return node["Pos"]["Line"]


class Function:
    def __init__(self, tree):
        self.statements = tree["Body"]["Cmd"].get("Stmts") or []
        self.calls = [words_of(c) for c in nodes(tree["Body"], "CallExpr")]
        self.shifted = sum(self.shift_of(s.get("Cmd") or {}) for s in self.statements)
        # Which of its words it looks for: command -v "$2".
        values = values_of(tree["Body"])
        looked_for = [known(w, values) for c in nodes(tree["Body"], "CallExpr") for w in probe_of(c)]
        self.probes = [int(w.strip(ANY)) for w in looked_for if re.fullmatch("\0\\d\0", w)]
        # psrun and its like get the words as they are, with a command behind "--".
        self.passes = any(w and w[0].startswith(ANY) and "--" not in w and any("\0@" in x for x in w[1:]) for w in self.calls)

    @staticmethod
    def shift_of(command):
        words = words_of(command) if command.get("Type") == "CallExpr" else []
        if words[:1] != ["shift"]:
            return 0
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 1


PARSED = {"": ({}, "")}


def parse(text):
    """The tree, or why there is none."""
    if text not in PARSED:
        done = subprocess.run(["shfmt", "-ln", "bash", "--to-json"], input=text, text=True, capture_output=True, check=False)
        PARSED[text] = (json.loads(done.stdout), "") if done.returncode == 0 else ({}, done.stderr.strip())
    return PARSED[text]
