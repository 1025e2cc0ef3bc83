"""Whether the comments of the public headers have the fixed form, whole: what a page would lack is a complaint."""
import re

import comment

SUMMARY_MAX = 140


def complaints(headers):
    """[str], each with file and line."""
    checker = Checker(headers)
    for header in headers:
        checker.header(header)
    return checker.found


class Checker:
    def __init__(self, headers):
        self.found = []
        self.functions = {item.name for header in headers for group in header.groups() for item in group.functions()}
        items = [item for header in headers for group in header.groups() for item in group.items]
        self.macros = {item.name for item in items if item.kind == "macro"} | {"PS_ERR_ENUM", "PS_ERR_H"}
        self.codes = {name for item in items for name in item.constants if item.name == "ps_err"}
        sections = [name for header in headers for name in header.head.sections]
        self.sets = {name.split()[1] for name in sections if name.startswith("Errors ")}

    def say(self, header, group, text):
        where = group.items[0].name + ": " if group and group.items else ""
        self.found.append("%s:%d: %s%s" % (header.name, group.line if group else 1, where, text))

    def header(self, header):
        if not header.head.summary():
            self.say(header, None, "the file's first comment does not say what it is")
        for name, section in header.head.sections.items():
            if name.startswith("Errors"):
                self.errors(header, None, section)
        for group in header.groups():
            self.group(header, group)
        self.defaults(header)
        with open(header.path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        self.layout(header, lines, comment.layout(lines))
        self.mentions(header, lines)

    def layout(self, header, lines, wanted):
        for number, (line, other) in enumerate(zip(lines, wanted), 1):
            if line != other:
                self.found.append("%s:%d: not laid out as the form says, which has: %s" % (header.name, number, other))
                return

    def mentions(self, header, lines):
        """Functions and codes that comments name."""
        for number, line in enumerate(lines, 1):
            for name in re.findall(r"\b(ps_\w+)\(\)", line):
                if name not in self.functions:
                    self.found.append("%s:%d: there is no %s()" % (header.name, number, name))
            for name in re.findall(r"\bPS_ERR_[A-Z_]+\b", line):
                if name not in self.codes and name not in self.macros:
                    self.found.append("%s:%d: there is no %s" % (header.name, number, name))

    def group(self, header, group):
        text = group.comment
        if text is None:
            self.say(header, group, "has no comment directly before it")
            return
        length = len(text.summary())
        if not 0 < length <= SUMMARY_MAX:
            self.say(header, group, "the first sentence has %d characters, not 1 to %d" % (length, SUMMARY_MAX))
        order = [name for name in comment.SECTIONS if name in text.order]
        if text.order != order:
            self.say(header, group, "sections stand in the order %s, not %s" % (text.order, order))
        if not re.fullmatch(r"\d+\.\d+", self.text(text, "Since")):
            self.say(header, group, "Since: is missing, or no version")
        if group.functions():
            self.parameters(header, group)
            self.returns(header, group)
            self.threads(header, group)
            self.all_errors(header, group)
        elif order != ["Since"]:
            self.say(header, group, "only functions have sections beside Since")

    @staticmethod
    def text(comment_, name):
        return comment_.sections[name].text if name in comment_.sections else ""

    def parameters(self, header, group):
        said = self.keys(group.comment, "Parameters")
        known = self.keys(header.head, "Parameters")
        have = {name for item in group.functions() for name in item.parameters}
        for name in sorted(have - said - known):
            self.say(header, group, "Parameters: does not say what %s is" % name)
        for name in sorted(said - have):
            self.say(header, group, "Parameters: there is no %s" % name)

    @staticmethod
    def keys(text, name):
        return set(text.sections[name].keys()) if name in text.sections else set()

    def returns(self, header, group):
        section = group.comment.sections.get("Returns")
        types = {item.type for item in group.functions()}
        names = {item.name + "()" for item in group.functions()}
        if section is None and types - {"void", "enum ps_err"}:
            self.say(header, group, "Returns: is missing")
        if section is None and "enum ps_err" in types and "Returns" not in header.head.sections:
            self.say(header, group, "Returns: is missing, and the file's first comment has none")
        if section is not None and types == {"void"}:
            self.say(header, group, "Returns: the function returns nothing")
        if section is not None and section.entries and set(section.keys()) != names:
            self.say(header, group, "Returns: is about %s" % ", ".join(sorted(set(section.keys()) ^ names)))

    def threads(self, header, group):
        if not self.text(group.comment, "Threads") and not self.text(header.head, "Threads"):
            self.say(header, group, "Threads: is missing, and the file's first comment has none")

    def all_errors(self, header, group):
        section = group.comment.sections.get("Errors")
        fails = any(item.type == "enum ps_err" for item in group.functions())
        if fails and (section is None or not section.entries):
            self.say(header, group, "Errors: is missing")
        elif not fails and section is not None:
            self.say(header, group, "Errors: the function returns none")
        elif section is not None:
            self.errors(header, group, section)

    def errors(self, header, group, section):
        for key in section.keys():
            if key.startswith("("):
                known = key[1:-1] in self.sets
            elif key.endswith("()"):
                known = key[:-2] in self.functions
            else:
                known = key in self.codes and key != "PS_OK"
            if not known:
                self.say(header, group, "Errors: there is no %s" % key)

    def defaults(self, header):
        """A parameter that the first comment describes, and no function has."""
        have = {name for group in header.groups() for item in group.functions() for name in item.parameters}
        for name in sorted(self.keys(header.head, "Parameters") - have):
            self.say(header, None, "Parameters: no function has a %s" % name)
