#!/usr/bin/env python3
"""Files as a table in C: embed.py OUT FILE... makes server/http/page/page.h's page_files[]. index.html is the page /."""

import os
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

rows, arrays = [], []
for i, path in enumerate(sys.argv[2:]):
    name = os.path.basename(path)
    with open(path, "rb") as f:
        data = f.read()
    lines = [", ".join("%d" % byte for byte in data[at:at + 24]) for at in range(0, len(data), 24)]
    arrays.append("static const unsigned char file_%d[] = {\n%s};\n" % (i, ",\n".join(lines)))
    rows.append('    {"/%s", "%s; charset=utf-8", file_%d, sizeof file_%d},\n' % (
        "" if name == "index.html" else name, TYPES[os.path.splitext(name)[1]], i, i))
with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write('#include "server/http/page/page.h"\n\n%s\nconst struct page_file page_files[] = {\n%s};\n'
              "const size_t page_files_len = sizeof page_files / sizeof page_files[0];\n"
              % ("\n".join(arrays), "".join(rows)))
