"""The reference for browsers: one file, which needs nothing beside itself."""
import html
import re

from member import members

_STYLE = """
:root {
  color-scheme: light dark;
  --text: #1b1f24; --page: #fff; --soft: #57606a; --line: #d0d7de; --code: #f6f8fa; --link: #0550ae;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #d8dee4; --page: #15191e; --soft: #9aa4af; --line: #333b44; --code: #1d232a; --link: #79b8ff; }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 0.5rem; }
body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
body { overflow-wrap: break-word; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
main, nav { padding: 1rem; }
main { max-width: 60rem; }
nav { border-bottom: 1px solid var(--line); font-size: 0.9rem; }
nav ul { list-style: none; margin: 0; padding: 0 0 0 1rem; }
nav summary { cursor: pointer; padding: 0.15rem 0; }
nav .title { color: var(--soft); margin-top: 0.3rem; }
@media (min-width: 70rem) {
  body { display: grid; grid-template-columns: 21rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border-bottom: 0; }
  nav { border-right: 1px solid var(--line); }
}
h2 { border-bottom: 1px solid var(--line); padding-bottom: 0.2rem; margin-top: 3rem; }
h3 { margin-top: 2.5rem; }
h4 { margin: 2rem 0 0.3rem; font: 600 1rem ui-monospace, monospace; }
h5 { margin: 0.8rem 0 0.2rem; font-size: 0.85rem; color: var(--soft); }
pre, code { font: 0.85rem/1.45 ui-monospace, monospace; }
pre { background: var(--code); padding: 0.6rem; overflow-x: auto; border-radius: 4px; }
dl { margin: 0; }
dt { font: 0.85rem ui-monospace, monospace; }
dd { margin: 0 0 0.3rem 1.5rem; }
.since { color: var(--soft); font-size: 0.85rem; }
"""


def page(model, version):
    return _Page(model, version).text()


class _Page:
    def __init__(self, model, version):
        self.model = model
        self.version = version

    def text(self):
        title = "libpsclient %s: reference" % self.version
        out = ['<!DOCTYPE html>', '<html lang="en">', "<head>", '<meta charset="utf-8">',
               '<meta name="viewport" content="width=device-width, initial-scale=1">', "<title>%s</title>" % title,
               "<style>%s</style>" % _STYLE, "</head>", "<body>"]
        out += self.contents() + ["<main>", "<h1>%s</h1>" % title]
        out.append("<p>Made from the headers that are installed. Compile and link with <code>pkg-config --cflags --libs "
                   "psclient</code>. Each function has a manual page, too: <code>man ps_client_open</code>; <code>man "
                   "psclient</code> is the way in.</p>")
        for header in self.model.headers:
            out += self.header(header)
        return "\n".join(out + ["</main>", "</body>", "</html>", ""])

    # ---- Contents ----

    def contents(self):
        out = ["<nav>", "<strong>Contents</strong>"]
        for header in self.model.headers:
            out.append('<details><summary><a href="#%s">%s</a></summary><ul>' % (header.name, header.name))
            for title, _, groups in header.sections:
                if title and groups:
                    out.append('<li class="title">%s</li>' % html.escape(title))
                out += ['<li><a href="#%s"><code>%s</code></a></li>' % (self.anchor(item), item.name)
                        for group in groups for item in group.items]
            out.append("</ul></details>")
        return out + ["</nav>"]

    @staticmethod
    def anchor(item):
        """A function and a struct may have one name."""
        return item.name + ("" if item.kind == "function" else "-type")

    # ---- Text ----

    def linked(self, text):
        """Names of functions, types, constants and headers as links."""
        out = html.escape(text, quote=False)
        out = re.sub(r"\b(ps_\w+|psclient)(\(\)|\.h)?", self.link, out)
        return re.sub(r"\bPS_[A-Z0-9_]+\b", self.link, out)

    def link(self, match):
        word = match.group(0)
        if word.endswith(".h"):
            known = word in {header.name for header in self.model.headers}
            return '<a href="#%s">%s</a>' % (word, word) if known else word
        name = word[:-2] if word.endswith("()") else word
        if name not in self.model.places:
            return word
        item = self.model.places[name][2]
        if not word.endswith("()") and item.kind == "function":
            item = self.type_of(name) or item
        return '<a href="#%s">%s</a>' % (self.anchor(item), word)

    def type_of(self, name):
        """The struct that a function shares its name with, or None."""
        header = self.model.places[name][0]
        items = [item for group in header.groups() for item in group.items]
        return next((item for item in items if item.name == name and item.kind != "function"), None)

    def code(self, lines):
        return "<pre>%s</pre>" % self.linked("\n".join(lines))

    def blocks(self, blocks):
        out, listed = [], False
        for kind, content in blocks:
            if kind.startswith("item") != listed:
                listed = not listed
                out.append("<ul>" if listed else "</li></ul>")
            if kind == "item":
                out.append(("</li>" if out[-1] != "<ul>" else "") + "<li>" + self.linked(content))
            elif kind.endswith("code"):
                out.append(self.code(content))
            else:
                out.append("<p>%s</p>" % self.linked(content))
        return out + (["</li></ul>"] if listed else [])

    def entries(self, entries):
        out = ["<dl>"]
        for key, text in entries:
            out.append("<dt>%s</dt><dd>%s</dd>" % (self.linked(key), self.linked(text)))
        return out + ["</dl>"]

    # ---- Parts ----

    def header(self, header):
        out = ['<h2 id="%s">%s</h2>' % (header.name, header.name)]
        out.append("<p><code>#include &lt;%s&gt;</code></p>" % self.model.include(header))
        out += self.blocks(self.model.head(header))
        for name, section in header.head.sections.items():
            if name.startswith("Errors "):
                out.append('<h5 id="errors-%s">Errors: %s</h5>' % (name.split()[1], name.split()[1]))
                out += self.entries(section.entries)
        for title, text, groups in header.sections:
            out += ["<h3>%s</h3>" % html.escape(title)] if title and groups else []
            out += self.blocks(text.blocks) if text else []
            for group in groups:
                out += self.group(header, group)
        return out

    def group(self, header, group):
        names = ['<span id="%s">%s</span>' % (self.anchor(item), item.name) for item in group.items]
        out = ["<h4>%s</h4>" % ", ".join(names)]
        listed = members(group.items[0]) if group.items[0].kind in ("struct", "enum") else []
        if not listed:
            out.append(self.code("\n".join(self.shown(item) for item in group.items).split("\n")))
        out += self.blocks(group.comment.blocks)
        if listed:
            out.append("<p><code>%s %s</code> has</p>" % (group.items[0].kind, group.items[0].name))
            out += self.entries(listed)
        if group.functions():
            out += self.function(self.model.function(header, group))
        out.append('<p class="since">Since %s</p>' % group.comment.sections["Since"].text)
        return out

    @staticmethod
    def shown(item):
        if not item.code.startswith("PS_API"):
            return item.code
        return re.sub(r"\n {7}", "\n", item.code[len("PS_API "):].replace(" PS_MUST_USE", ""))

    def function(self, says):
        out = []
        if says.parameters:
            out += ["<h5>Parameters</h5>"] + self.entries(says.parameters)
        if says.returns is not None:
            out.append("<h5>Returns</h5>")
            out += ["<p>%s</p>" % self.linked(says.returns.text)] if says.returns.text else []
            out += self.entries(says.returns.entries) if says.returns.entries else []
        if says.errors:
            out += ["<h5>Errors</h5>", "<dl>"] + [self.error(*error) for error in says.errors] + ["</dl>"]
        return out + ["<h5>Threads</h5><p>%s</p>" % self.linked(says.threads)]

    def error(self, key, text, codes):
        if key.startswith("("):
            name = key[1:-1]
            text = '%s (<a href="#errors-%s">%s</a>)' % (self.linked(text), name, name)
            return "<dt>%s</dt><dd>%s</dd>" % (self.linked(", ".join(codes)), text)
        if codes:
            return "<dt>as %s</dt><dd>%s</dd>" % (self.linked(key), self.linked(text + ": " + ", ".join(codes)))
        return "<dt>%s</dt><dd>%s</dd>" % (self.linked(key), self.linked(text))
