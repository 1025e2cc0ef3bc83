"""A public header as values: its comments, and what each of them stands before."""
import os
import re

import comment

_HEADING = re.compile(r"/\* -{2,} (.*?) -+")


class Item:
    """kind: "function", "struct", "enum", "typedef", "macro" or "inline". code: as it stands in the header."""

    def __init__(self, kind, name, code):
        self.kind = kind
        self.name = name
        self.code = code
        self.constants = []  # of an enum: their names
        self.type = ""       # of a function: what it returns
        self.parameters = []


class Group:
    """A comment, which may be None, and what it stands before: everything up to the next empty line."""

    def __init__(self, text, line):
        self.comment = text
        self.line = line
        self.items = []

    def functions(self):
        return [item for item in self.items if item.kind == "function"]


class Header:
    """sections: [title, comment or None, [Group]]; what stands before the first heading has the title ""."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        self.head = comment.Comment()
        self.includes = []
        self.sections = [["", None, []]]

    def groups(self):
        return [group for _, _, groups in self.sections for group in groups]


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    return _Reader(Header(path), lines).run()


# ---- Declarations ----


def _function(code):
    item = Item("function", re.search(r"(\w+)\(", code).group(1), code)
    text = " ".join(code.split())
    item.type = text[len("PS_API "):text.index(item.name + "(")].strip()
    inside = text[text.index(item.name + "(") + len(item.name) + 1:]
    item.parameters = [_parameter(part) for part in _split(_balanced(inside)) if part not in ("void", "...")]
    return item


def _balanced(text):
    """Up to the parenthesis that closes what was opened before."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[:at]
    return text


def _split(text):
    """Between commas that no parenthesis is around."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _parameter(text):
    pointer = re.search(r"\(\*(\w+)\)", text)
    return pointer.group(1) if pointer else re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", text))[-1]


def _declaration(code):
    """None for one that only names a type."""
    if code.startswith("PS_API"):
        return _function(code)
    if code.startswith("static inline"):
        return Item("inline", re.search(r"(\w+)\(", code).group(1), code)
    if code.startswith("typedef"):
        return Item("typedef", re.findall(r"\w+", code)[-1], code)
    match = re.match(r"(struct|enum) (\w+)\s*\{", code)
    return Item(match.group(1), match.group(2), code) if match else None


class _Reader:
    def __init__(self, header, lines):
        self.header = header
        self.lines = lines
        self.at = 0
        self.group = None
        self.lists = {}  # PS_..._LIST: its rows

    def run(self):
        first = True
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith("/*") and first:
                self.header.head = comment.parse(comment.unmarked(self.take_comment()))
                first = False
            elif line.startswith("/*"):
                self.comment(line)
            elif line.startswith("#"):
                self.directive(line)
            elif not line.strip() or line.startswith("}"):
                self.group = None
                self.at += 1
            elif line.startswith('extern "C"'):
                self.at += 1
            else:
                self.declare(self.take_declaration())
        return self.header

    def take_comment(self):
        start = self.at
        while not self.lines[self.at].rstrip().endswith("*/"):
            self.at += 1
        self.at += 1
        return self.lines[start:self.at]

    def comment(self, line):
        start = self.at
        lines = self.take_comment()
        heading = _HEADING.match(line)
        if "clang-format" in line:
            return
        if heading:
            self.header.sections.append([heading.group(1), None, []])
            return
        text = comment.parse(comment.unmarked(lines))
        if self.at < len(self.lines) and not self.lines[self.at].strip():
            self.header.sections[-1][1] = text  # of the section: nothing stands directly behind it
        else:
            self.group = Group(text, start + 1)
            self.header.sections[-1][2].append(self.group)

    def directive(self, line):
        start = self.at
        while self.lines[self.at].endswith("\\"):
            self.at += 1
        self.at += 1
        code = "\n".join(self.lines[start:self.at])
        match = re.match(r"#define (\w+)", line)
        if match:
            rows = re.findall(r"\bX\(([^()]*(?:\([^()]*\)[^()]*)*)\)", code)
            self.lists[match.group(1)] = [_split(row) for row in rows]
            if not match.group(1) == os.path.basename(self.header.path).upper().replace(".", "_"):
                self.add(Item("macro", match.group(1), code))
        elif line.startswith("#include"):
            self.header.includes.append(re.search(r'[<"](?:.*/)?([^/">]+)[">]', line).group(1))

    def take_declaration(self):
        start, depth = self.at, 0
        while True:
            line = re.sub(r"/\*.*?(\*/|$)", "", self.lines[self.at])
            depth += line.count("{") - line.count("}")
            self.at += 1
            if depth == 0 and (line.rstrip().endswith(";") or line.rstrip() == "}"):
                return "\n".join(self.lines[start:self.at])

    def declare(self, code):
        item = _declaration(code)
        if item is None:
            return
        if item.kind == "enum":
            self.enumerate(item)
        self.add(item)

    def add(self, item):
        """A macro that is defined once for each compiler is one."""
        if self.group is not None and item.name in [other.name for other in self.group.items if other.kind == "macro"]:
            return
        if self.group is None:
            self.group = Group(None, self.at)
            self.header.sections[-1][2].append(self.group)
        self.group.items.append(item)

    def enumerate(self, item):
        """The constants of an enum. One that is made of a list is written out."""
        body = item.code[item.code.index("{") + 1:]
        made = re.search(r"#define (\w+)\((.*?)\) (.*)\n\s*(\w+)\(\1\)\n#undef \1\n", body)
        if made:
            names = [name.strip() for name in made.group(2).split(",")]
            rows = [_made(names, row, made.group(3)) for row in self.lists[made.group(4)]]
            item.code = item.code.replace(made.group(0), "\n".join("    " + row for row in rows) + "\n")
            item.code = re.sub(r"\n {5,}(\w)", r"\n    \1", item.code)
            body = item.code[item.code.index("{") + 1:]
        item.constants = re.findall(r"\b(PS_\w+)\s*(?:=\s*\w+\s*)?[,}\n/]", re.sub(r"/\*.*?\*/", "", body, flags=re.S))


def _made(names, row, template):
    """A row of a list as the enum's own macro makes it, with the row's text, if it has one, as comment."""
    out = template
    for name, value in zip(names, row):
        out = re.sub(r"(##)?\b%s\b" % name, value.replace("\\", ""), out)
    text = [value.strip('"') for value in row if value.startswith('"')]
    return out + (" /* %s */" % text[-1] if text else "")
