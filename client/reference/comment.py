"""The fixed form of a comment in a public header, read and written.

    /* One sentence that says what it does. More sentences and paragraphs.
     *
     *     an example, or a table: kept as it is, four spaces in
     *
     * - An item of a list.
     *
     * Parameters:
     *   name   what it is, with shape and unit
     *   other  the same
     * Returns: text, or a list as of parameters, by function
     * Errors:
     *   PS_ERR_SHAPE  when
     *   (session)     those of the set that a file's first comment has as "Errors session:"
     *   ps_f()        those of another function
     * Threads: which may call it
     * Since: 0.1 */

No line is empty between a text of one line and Since alone.

Sections stand in this order, each at most once. In the first comment of a file they hold for each of its functions that
does not say otherwise.
"""
import re

SECTIONS = ("Parameters", "Returns", "Errors", "Threads", "Since")
WIDTH = 120

_SECTION = re.compile(r"(%s)( [a-z_]+)?:(?: (.*))?$" % "|".join(SECTIONS))
_ENTRY = re.compile(r"  (\S(?:.*?\S)?)  +(\S.*)$")


class Section:
    """A sentence, entries of a key and a text, or both."""

    def __init__(self, name, text=""):
        self.name = name
        self.text = text
        self.entries = []

    def keys(self):
        return [key.strip() for keys, _ in self.entries for key in keys.split(",")]


class Comment:
    """blocks: ("text", str), ("code", [str]), ("item", str): of a list, which code and text in it follow as
    ("item code", [str]) and ("item text", str)."""

    def __init__(self):
        self.blocks = []
        self.sections = {}
        self.order = []

    def summary(self):
        """The first sentence, without its full stop."""
        if not self.blocks or self.blocks[0][0] != "text":
            return ""
        return re.split(r"\.(?: |$)|:$", self.blocks[0][1], maxsplit=1)[0]


# ---- Reading ----


def parse(lines):
    """lines: those of the comment, without what marks them as one."""
    comment = Comment()
    reader = _Blocks(comment)
    section = None
    for line in lines:
        match = _SECTION.match(line)
        if match:
            section = Section(match.group(1) + (match.group(2) or ""), match.group(3) or "")
            comment.order.append(section.name)
            comment.sections[section.name] = section
        elif section is None:
            reader.line(line)
        else:
            _section_line(section, line)
    return comment


def _section_line(section, line):
    entry = _ENTRY.match(line)
    if entry:
        section.entries.append((entry.group(1), entry.group(2)))
    elif line.startswith("    ") and section.entries:
        key, text = section.entries[-1]
        section.entries[-1] = (key, text + " " + line.strip())
    elif line.strip():
        section.text = (section.text + " " + line.strip()).strip()


class _Blocks:
    """Paragraphs, lists and examples from lines."""

    def __init__(self, comment):
        self.blocks = comment.blocks
        self.open = False  # the last block may go on
        self.blank = False

    def line(self, line):
        if not line.strip():
            self.blank = True
            return
        in_item = bool(self.blocks) and self.blocks[-1][0].startswith("item")
        if line.startswith("- "):
            self.blocks.append(("item", line[2:].strip()))
        elif line.startswith("    "):
            self._code(line, in_item and not self.blank or self._last() == "item code")
        elif line.startswith("  ") and in_item:
            self._text(line, "item text", ("item", "item text"))
        else:
            self._text(line, "text", ("text",))
        self.blank = False

    def _last(self):
        return self.blocks[-1][0] if self.blocks else ""

    def _code(self, line, in_item):
        kind = "item code" if in_item else "code"
        if self._last() == kind:
            self.blocks[-1][1].extend(([""] if self.blank else []) + [line[4:]])
        else:
            self.blocks.append((kind, [line[4:]]))

    def _text(self, line, kind, goes_on):
        if self._last() in goes_on and not self.blank:
            last, text = self.blocks[-1]
            self.blocks[-1] = (last, text + " " + line.strip())
        else:
            self.blocks.append((kind, line.strip()))


# ---- Writing ----


def fill(text, width):
    """Lines of at most width characters. None begins with a dash, which would make it an item of a list."""
    lines = [""]
    for word in text.replace(" - ", " -\0").split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return _unglue(lines)


def _unglue(lines):
    return [line.replace("-\0", "- ") for line in lines]


def body(comment, width):
    """The comment's lines in the fixed form, without marks."""
    lines = []
    before = None
    for kind, content in comment.blocks:
        if before is not None and not (kind.startswith("item") and before.startswith("item")):
            lines.append("")
        lines += _block(kind, content, width)
        before = kind
    for name in comment.order:
        if name == comment.order[0] and lines and not (name == "Since" and len(lines) == 1):
            lines.append("")
        lines += _section(comment.sections[name], width)
    return lines


def _block(kind, content, width):
    if kind.endswith("code"):
        return [("    " + line).rstrip() for line in content]
    if kind == "item":
        lines = fill(content, width - 2)
        return ["- " + lines[0]] + ["  " + line for line in lines[1:]]
    if kind == "item text":
        return ["  " + line for line in fill(content, width - 2)]
    return fill(content, width)


def _section(section, width):
    first = section.name + ":"
    lines = [first]
    if section.text:
        text = fill("x" * len(first) + " " + section.text, width)
        text[0] = first + text[0][len(first):]
        lines = [text[0]] + ["  " + line for line in _refill(text[1:], width - 2)]
    column = 2 + max([len(key) for key, _ in section.entries], default=0) + 2
    for key, text in section.entries:
        texts = fill(text, width - column)
        lines.append(("  " + key).ljust(column) + texts[0])
        lines += [" " * column + line for line in texts[1:]]
    return lines


def _refill(lines, width):
    return fill(" ".join(lines), width) if lines else []


def marked(lines, indent=""):
    """The lines as a comment of C."""
    if len(lines) == 1 and len(indent + "/* " + lines[0] + " */") <= WIDTH:
        return [indent + "/* " + lines[0] + " */"]
    out = [indent + "/* " + lines[0]] + [(indent + " * " + line).rstrip() for line in lines[1:]]
    if len(out[-1]) + 3 <= WIDTH:
        out[-1] += " */"
    else:
        out.append(indent + " */")
    return out


def unmarked(lines):
    """The other way round."""
    out = []
    for number, line in enumerate(lines):
        line = line.strip()
        line = line[2:] if number == 0 else re.sub(r"^\*(?!/)", "", line)
        line = re.sub(r"\s*\*/$", "", line)
        out.append(line[1:] if line.startswith(" ") else line)
    while out and not out[-1].strip():
        out.pop()
    return out


def layout(lines):
    """Lines of a header, each comment that stands alone in the fixed form."""
    out = []
    pending = None
    for line in lines:
        if pending is None and line.lstrip().startswith("/*") and "clang-format" not in line and "/* ----" not in line:
            pending = []
        if pending is None:
            out.append(line)
            continue
        pending.append(line)
        if "*/" in line:
            out += _layout_one(pending) if line.rstrip().endswith("*/") else pending
            pending = None
    return out


def _layout_one(lines):
    indent = lines[0][:len(lines[0]) - len(lines[0].lstrip())]
    return marked(body(parse(unmarked(lines)), WIDTH - len(indent) - 3), indent)
