"""All public headers together: what a page says of a function, with what the first comment of its file says of all."""


class Function:
    """What a page needs. parameters: [(name, text)]; errors: [(key, text, codes that the key stands for)]."""

    def __init__(self):
        self.parameters = []
        self.returns = None
        self.errors = []
        self.threads = ""
        self.since = ""


class Model:
    def __init__(self, headers):
        whole = next((header for header in headers if header.name == "psclient.h"), None)
        self.inside = whole.includes if whole else []
        self.headers = sorted(headers, key=self._order)
        self.places = {}  # a name: header, group and item that it stands in
        self.sets = {}    # "session": its header and section
        for header in self.headers:
            self._index(header)

    def _order(self, header):
        """psclient.h, what it includes, the others."""
        return (header.name != "psclient.h", header.name not in self.inside, header.name)

    def _index(self, header):
        for name, section in header.head.sections.items():
            if name.startswith("Errors "):
                self.sets[name.split()[1]] = section
        for group in header.groups():
            for item in group.items:
                for name in item.constants:
                    self.places[name] = (header, group, item)
                self.places.setdefault(item.name, (header, group, item))
                if item.kind == "function":
                    self.places[item.name] = (header, group, item)

    def include(self, header):
        """What a program includes for it."""
        return "psclient.h" if header.name in self.inside else header.name

    @staticmethod
    def what(header):
        """What a header is for: its first paragraph behind its own name."""
        text = header.head.blocks[0][1]
        return text[len(header.name) + 2:] if text.startswith(header.name + ": ") else text

    def head(self, header):
        """The blocks of its first comment, without its own name."""
        text = self.what(header)
        return [("text", text[:1].upper() + text[1:])] + header.head.blocks[1:]

    def function(self, header, group):
        """Of all functions of a group, which share a comment."""
        out = Function()
        said, known = self._entries(group.comment, "Parameters"), self._entries(header.head, "Parameters")
        for item in group.functions():
            for name in item.parameters:
                if name not in dict(out.parameters):
                    out.parameters.append((name, said.get(name) or known.get(name, "")))
        out.returns = group.comment.sections.get("Returns")
        if out.returns is None and any(item.type == "enum ps_err" for item in group.functions()):
            out.returns = header.head.sections.get("Returns")
        if "Errors" in group.comment.sections:
            out.errors = [self._error(keys, text) for keys, text in group.comment.sections["Errors"].entries]
        for text in (group.comment, header.head):
            if "Threads" in text.sections and not out.threads:
                out.threads = text.sections["Threads"].text
        out.since = group.comment.sections["Since"].text if "Since" in group.comment.sections else ""
        return out

    @staticmethod
    def _entries(text, name):
        if name not in text.sections:
            return {}
        return {key.strip(): text_ for keys, text_ in text.sections[name].entries for key in keys.split(",")}

    def errors_of_set(self, name):
        return [self._error(keys, text) for keys, text in self.sets[name].entries]

    def _error(self, keys, text):
        codes = []
        for key in keys.split(","):
            self._expand(key.strip(), codes, set())
        return keys, text, codes if keys.startswith("(") or "()" in keys else []

    def _expand(self, key, codes, seen):
        """The codes that a set or a function stands for, each once."""
        if key in seen:
            return
        seen.add(key)
        if key.startswith("("):
            entries = self.sets[key[1:-1]].entries
        elif key.endswith("()"):
            sections = self.places[key[:-2]][1].comment.sections
            entries = sections["Errors"].entries if "Errors" in sections else []
        else:
            codes += [key] if key not in codes else []
            return
        for keys, _ in entries:
            for one in keys.split(","):
                self._expand(one.strip(), codes, seen)
