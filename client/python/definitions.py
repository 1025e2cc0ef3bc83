#!/usr/bin/env python3
"""The public headers as Python knows them: a module for cffi that is made when psd is built, so that an import of psd
parses nothing and compiles nothing.

    definitions.py OUTPUT VERSION HEADER... -- COMPILER...

The compiler's preprocessor writes out each header's declarations, without those of the C library, whose types cffi knows.
Constants, which a preprocessor leaves no trace of, are found by its list of macros, expanded by the preprocessor again, and
computed here: whole numbers become part of the declarations, others plain names of the module. Macros that take arguments
and those that are no number (attributes, lists) are left out, as are functions that a header defines itself.
"""

import ast
import operator
import os
import re
import subprocess
import sys
import tempfile

import cffi

# What the headers take from the C library: the names of its macros; its types are known to cffi.
LIBRARY = {
    "stddef.h": "",
    "stdint.h": "#define UINT32_MAX 4294967295U\n",
}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.LShift: operator.lshift,
             ast.BitOr: operator.or_, ast.USub: operator.neg}


def preprocessed(compiler, folder, options, text):
    """What the preprocessor makes of a text whose headers are in a folder of their own."""
    command = compiler + ["-E", "-P", "-nostdinc", "-I", folder, "-D__attribute__(x)="] + options + ["-x", "c", "-"]
    return subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def value(text):
    """The number that an expanded macro is, or None."""

    def of(node):
        if isinstance(node, ast.Expression):
            return of(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](of(node.operand))
        raise KeyError(node)

    try:
        return of(ast.parse(re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text).strip(), mode="eval"))
    except (KeyError, SyntaxError):
        return None


def constants(compiler, folder, includes):
    """The numbers that the headers define, by name."""
    defined = preprocessed(compiler, folder, ["-dM"], includes)
    names = sorted(set(re.findall(r"^#define (PS_\w+) ", defined, re.M)))
    expanded = preprocessed(compiler, folder, [], includes + "".join('@"%s" %s\n' % (name, name) for name in names))
    values = {name: value(text) for name, text in re.findall(r'^@ ?"(\w+)" (.*)$', expanded, re.M)}
    return {name: number for name, number in values.items() if number is not None}


def headers_in(folder, headers):
    """Copies of the headers, beside those that stand for the C library's."""
    for name, text in LIBRARY.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    for path in headers:
        with open(path, encoding="utf-8") as f, open(os.path.join(folder, os.path.basename(path)), "w", encoding="utf-8") as copy:
            copy.write(f.read())


def definitions(compiler, headers):
    """The declarations and whole numbers for cffi, and the other numbers."""
    with tempfile.TemporaryDirectory() as folder:
        headers_in(folder, headers)
        includes = "".join('#include "%s"\n' % os.path.basename(path) for path in headers)
        numbers = constants(compiler, folder, includes)
        declarations = preprocessed(compiler, folder, [], includes)
    declarations = re.sub(r"^static inline .*?^}\n", "", declarations, flags=re.M | re.S)
    whole = "".join("#define %s %d\n" % one for one in sorted(numbers.items()) if isinstance(one[1], int))
    return declarations + whole, {name: n for name, n in numbers.items() if not isinstance(n, int)}


def main():
    output, version, *rest = sys.argv[1:]
    headers, compiler = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    text, others = definitions(compiler, headers)
    ffi = cffi.FFI()
    ffi.cdef(text)
    ffi.set_source(os.path.splitext(os.path.basename(output))[0], None)
    ffi.emit_python_code(output)
    with open(output, "a", encoding="utf-8") as f:
        f.write("".join("%s = %r\n" % one for one in [("VERSION", version), *sorted(others.items())]))


main()
