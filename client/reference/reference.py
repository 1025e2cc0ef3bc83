#!/usr/bin/env python3
"""The reference of libpsclient, made of its public headers.

    reference.py --check HEADER...              whether each comment has the fixed form; complaints on stdout
    reference.py --layout HEADER...             lay the comments out in the fixed form, in place
    reference.py --pages HEADER...              names of the manual pages, one a line
    reference.py --man DIR VERSION HEADER...    write the manual pages
    reference.py --html FILE VERSION HEADER...  write the reference for browsers
"""
import os
import sys

sys.dont_write_bytecode = True

import check  # noqa: E402
import comment  # noqa: E402
import header  # noqa: E402
import man  # noqa: E402
import model  # noqa: E402
import web  # noqa: E402


def _read(paths):
    return [header.read(path) for path in paths]


def _check(paths):
    found = check.complaints(_read(paths))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def _layout(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(comment.layout(lines)))
    return 0


def _pages(paths):
    print("\n".join(man.names(_read(paths))))
    return 0


def _man(directory, version, *paths):
    for name, text in man.pages(model.Model(_read(paths)), version).items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def _html(path, version, *paths):
    with open(path, "w", encoding="utf-8") as file:
        file.write(web.page(model.Model(_read(paths)), version))
    return 0


def main(args):
    with_headers = {"--check": _check, "--layout": _layout, "--pages": _pages}
    with_output = {"--man": _man, "--html": _html}
    if len(args) > 1 and args[0] in with_headers:
        return with_headers[args[0]](args[1:])
    if len(args) > 3 and args[0] in with_output:
        return with_output[args[0]](*args[1:])
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
