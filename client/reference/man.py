"""Manual pages: one in section 3 for each comment of functions, with a link for each further function; in section 7 one
for each header, and psclient(7) as the way in."""
import re

from member import members

_TITLE = '.TH %s %s "" "psd %s" "libpsclient"'


def names(headers):
    """Of all files."""
    out = []
    for header in headers:
        out.append(_overview(header))
        out += [item.name + ".3" for group in header.groups() for item in group.functions()]
    return sorted(out)


def pages(model, version):
    """Their texts by their names."""
    out = {}
    for header in model.headers:
        out[_overview(header)] = _Overview(model, header, version).text()
        for group in header.groups():
            functions = group.functions()
            for number, item in enumerate(functions):
                out[item.name + ".3"] = _Page(model, header, group, version).text() if number == 0 else (
                    ".so man3/%s.3\n" % functions[0].name)
    return out


def _overview(header):
    return header.name[:-2] + ".7"


# ---- Text as roff ----


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return text.replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")


def _line(text):
    """One that is no request."""
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def _marked(text):
    """Functions and codes in bold; functions with their section."""
    out = escape(text)
    out = re.sub(r"\b(ps_\w+)\(\)", r"\\fB\1\\fP(3)", out)
    return re.sub(r"(?<![\w\\])(PS_[A-Z0-9_]+|PSD_[A-Z0-9_]+)\b", r"\\fB\1\\fP", out)


def _paragraph(text):
    return [".PP", _line(_marked(text))]


def _code(lines):
    return [".PP", ".in +4n", ".EX"] + [_line(escape(line)) for line in lines] + [".EE", ".in"]


def _entry(key, text):
    return [".TP", ".B " + escape(key), _line(text)]


def _type(item):
    """A struct or an enum by its members, or as it stands."""
    found = members(item) if item.kind in ("struct", "enum") else []
    lines = []
    for code, text in found:
        lines += [".TP", ".B " + escape(code), _line(_marked(text)) if text else "\\&"]
    return lines or _code(item.code.split("\n"))


def _blocks(blocks):
    out = []
    for kind, content in blocks:
        if kind == "item":
            out += [".IP \\(bu 2", _line(_marked(content))]
        elif kind == "item text":
            out += [".IP \\& 2", _line(_marked(content))]
        elif kind == "item code":
            out += [".IP \\& 2", ".EX"] + [_line(escape(line)) for line in content] + [".EE"]
        elif kind == "code":
            out += _code(content)
        else:
            out += _paragraph(content)
    return out


def _written(lines):
    return "\n".join(lines) + "\n"


# ---- Pages ----


def _see_also(names_):
    links = sorted(set(names_), key=lambda name: (name.split("(")[1], name))
    lines = [".BR %s (%s)," % (name.split("(")[0], name.split("(")[1][:-1]) for name in links]
    return [".SH SEE ALSO"] + lines[:-1] + [lines[-1][:-1]]


class _Page:
    """Of the functions that share a comment."""

    def __init__(self, model, header, group, version):
        self.model = model
        self.header = header
        self.group = group
        self.version = version
        self.says = model.function(header, group)

    def text(self):
        functions = self.group.functions()
        lines = [_TITLE % (functions[0].name, 3, self.version), ".SH NAME"]
        lines.append(", ".join(item.name for item in functions) + " \\- " + escape(self.group.comment.summary()))
        lines += [".SH LIBRARY", "libpsclient (\\fBpkg\\-config psclient\\fP)"]
        lines += [".SH SYNOPSIS", ".nf", ".B #include <%s>" % self.model.include(self.header), ".PP"]
        for number, item in enumerate(functions):
            lines += ([".PP"] if number else []) + self.prototype(item)
        lines.append(".fi")
        lines += [".SH DESCRIPTION"] + _blocks(self.group.comment.blocks)[1:]
        return _written(lines + self.parameters() + self.returns() + self.errors() + self.rest() + self.see())

    @staticmethod
    def prototype(item):
        code = item.code.replace("PS_API ", "", 1).replace(" PS_MUST_USE", "")
        code = re.sub(r"\n +", "\n" + " " * (code.split("\n")[0].index("(") + 1), code)
        return [_line("\\fB" + escape(line) + "\\fP") for line in code.split("\n")]

    def parameters(self):
        if not self.says.parameters:
            return []
        lines = [".SS Parameters"]
        for name, text in self.says.parameters:
            lines += _entry(name, _marked(text))
        return lines + self.types()

    def types(self):
        """Types that this header has, and these functions take: as they are declared."""
        lines = []
        for item in self.taken():
            lines += [".SS %s %s" % (item.kind, item.name)] + _type(item)
        return lines

    def taken(self):
        words = {word for item in self.group.functions() for word in re.findall(r"\w+", item.code)}
        words -= {"ps_error", "ps_err"}
        items = [item for group in self.header.groups() for item in group.items]
        return [item for item in items if item.kind in ("struct", "enum") and item.name in words]

    def returns(self):
        section = self.says.returns
        if section is None:
            return []
        text = section.text[:1].upper() + section.text[1:]
        lines = [".SH RETURN VALUE"] + ([_line(_marked(text))] if text else [])
        for key, text in section.entries:
            lines += _entry(key, _marked(text))
        return lines

    def errors(self):
        if not self.says.errors:
            return []
        lines = [".SH ERRORS"]
        for key, text, codes in self.says.errors:
            lines += self.error(key, text, codes)
        return lines

    def error(self, key, text, codes):
        """A set of a file's first comment is written out, the errors of another function are named."""
        if key.startswith("("):
            lines = [".PP", _line(_marked(text[0].upper() + text[1:] + ":"))]
            for keys, text_, codes_ in self.model.errors_of_set(key[1:-1]):
                lines += self.error(keys, text_, codes_)
            return lines
        if codes:
            return [".TP", "as " + _marked(key), _line(_marked(text + ": " + ", ".join(codes)))]
        return _entry(key, _marked(text))

    def rest(self):
        threads = self.says.threads
        return [".SH THREADS", _line(_marked(threads[0].upper() + threads[1:])), ".SH HISTORY",
                "Since psd %s." % self.says.since]

    def see(self):
        text = "\n".join(str(block[1]) for block in self.group.comment.blocks)
        text += "\n".join(text_ for _, text_ in self.says.parameters)
        own = {item.name for item in self.group.functions()}
        other = [name + "(3)" for name in re.findall(r"\b(ps_\w+)\(\)", text)
                 if name not in own and name in self.model.places and self.model.places[name][2].kind == "function"]
        return _see_also(other + [self.header.name[:-2] + "(7)", "psclient(7)", "ps_strerror(3)"])


class _Overview:
    """Of a header."""

    def __init__(self, model, header, version):
        self.model = model
        self.header = header
        self.version = version

    def text(self):
        name = self.header.name[:-2]
        lines = [_TITLE % (name, 7, self.version), ".SH NAME"]
        summary = re.split(r"[.:] ", self.model.what(self.header) + " ", maxsplit=1)[0]
        lines.append(name + " \\- " + escape(summary.rstrip(".")))
        lines += [".SH SYNOPSIS", ".nf", ".B #include <%s>" % self.model.include(self.header), ".fi", ".SH DESCRIPTION"]
        lines += _blocks(self.model.head(self.header))[1:] + self.sets()
        for title, text, groups in self.header.sections:
            lines += self.section(title, text, groups)
        others = [header.name[:-2] + "(7)" for header in self.model.headers if header is not self.header]
        return _written(lines + self.contents() + _see_also(others))

    def sets(self):
        lines = []
        for name, section in self.header.head.sections.items():
            if name.startswith("Errors "):
                lines += [".SS Errors of this kind: " + escape(name.split()[1])]
                for key, text in section.entries:
                    lines += _entry(key, _marked(text))
        return lines

    def section(self, title, text, groups):
        if not groups:
            return []
        lines = [".SH " + escape(title.upper())] if title else []
        lines += _blocks(text.blocks) if text else []
        for group in groups:
            functions = group.functions()
            if functions:
                lines += [".TP", ", ".join("\\fB%s\\fP(3)" % item.name for item in functions),
                          _line(_marked(group.comment.summary()))]
            else:
                lines += self.types(group)
        return lines

    @staticmethod
    def types(group):
        if len(group.items) == 1 and group.items[0].kind in ("struct", "enum"):
            item = group.items[0]
            return [".SS %s %s" % (item.kind, item.name)] + _blocks(group.comment.blocks) + _type(item)
        return _blocks(group.comment.blocks) + _code("\n".join(item.code for item in group.items).split("\n"))

    def contents(self):
        """Of psclient.h, which has no functions of its own: those of all headers."""
        if self.header.name != "psclient.h":
            return []
        lines = [".SH HEADERS"]
        for header in self.model.headers[1:]:
            functions = [item.name for group in header.groups() for item in group.functions()]
            lines += [".TP", "\\fB<%s>\\fP, \\fB%s\\fP(7)" % (header.name, header.name[:-2]),
                      _line(", ".join("\\fB%s\\fP(3)" % name for name in functions))]
        return lines
