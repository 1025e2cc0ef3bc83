"""Members of a struct and constants of an enum, each with what its comment says: the one directly before it, or the one
behind it in its line."""
import re


def members(item):
    """[(declaration, text)]; [] when no member has a comment, and the declaration as it stands says all."""
    body = item.code[item.code.index("{") + 1:item.code.rindex("}")]
    out = _Reader(body, ";" if item.kind == "struct" else ",").run()
    return out if any(text for _, text in out) else []


class _Reader:
    def __init__(self, body, end):
        self.body = body
        self.end = end
        self.at = 0
        self.out = []
        self.before = ""  # of the next member

    def run(self):
        while self.at < len(self.body):
            line_ends = self.space()
            if self.body.startswith("/*", self.at):
                self.comment(line_ends)
            elif self.at < len(self.body):
                self.member()
        return self.out

    def space(self):
        """Passes over it; whether a line ends in it."""
        start = self.at
        while self.at < len(self.body) and self.body[self.at].isspace():
            self.at += 1
        return "\n" in self.body[start:self.at]

    def comment(self, line_ends):
        stop = self.body.index("*/", self.at)
        text = " ".join(re.sub(r"\n\s*\*? ?", " ", self.body[self.at + 2:stop]).split())
        self.at = stop + 2
        if line_ends or not self.out:
            self.before = text
        else:
            code, known = self.out[-1]
            self.out[-1] = (code, (known + " " + text).strip())

    def member(self):
        stop, depth = self.at, 0
        while stop < len(self.body) and not self.body.startswith("/*", stop) and (depth or self.body[stop] != self.end):
            depth += (self.body[stop] == "(") - (self.body[stop] == ")")
            stop += 1
        self.out.append((" ".join(self.body[self.at:stop].split()), self.before))
        self.before = ""
        self.at = stop + (1 if self.body[stop:stop + 1] == self.end else 0)
