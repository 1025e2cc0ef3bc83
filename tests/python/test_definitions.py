"""The definitions that were generated for Python against a C compiler that reads the public headers."""

import os
import re
import subprocess

import pytest
from psd._library import PS_COMPRESS_FRACTION, ffi, lib

ROOT = os.environ["PSD_SOURCE_DIR"]
FOLDERS = [os.path.join(ROOT, side, "include", "psclient") for side in ("client", "common")]
HEADERS = sorted(name for folder in FOLDERS for name in os.listdir(folder) if name.endswith(".h"))


def is_complete(name):
    try:
        return ffi.sizeof(name) > 0
    except ffi.error:
        return False  # opaque: to ask such a one for its fields ends the process with cffi 2.1


STRUCTS = ["struct " + name for name in ffi.list_types()[1] if is_complete("struct " + name)]
FUNCTIONS = [name for name in dir(lib) if name.startswith("ps_")]
CONSTANTS = [name for name in dir(lib) if name.startswith("PS_")]


def compiles(text, *options):
    """What the compiler says of a C program, "" when it takes it."""
    words = os.environ["CC"].split() + ["-std=gnu11", "-fsyntax-only", "-Werror", *options, *("-I" + folder for folder in FOLDERS), "-x", "c", "-"]
    program = "".join('#include "%s"\n' % name for name in HEADERS) + text
    done = subprocess.run(words, input=program, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode == 0) == (done.stdout == ""), done.stdout
    return done.stdout


def same(what, number):
    return "_Static_assert((%s) == %d, \"%s\");\n" % (what, number, what)


def of_struct(name):
    kind = ffi.typeof(name)
    text = same("sizeof(%s)" % name, ffi.sizeof(kind)) + same("_Alignof(%s)" % name, ffi.alignof(kind))
    for member, field in kind.fields:
        text += same("__builtin_offsetof(%s, %s)" % (name, member), field.offset)
        text += same("sizeof(((%s *)0)->%s)" % (name, member), ffi.sizeof(field.type))
    return text


def test_every_struct_has_its_size_and_its_members_their_places():
    assert len(STRUCTS) > 20 and "struct ps_client_options" in STRUCTS
    assert compiles("".join(of_struct(name) for name in STRUCTS)) == ""


def test_no_struct_of_the_headers_is_left_out():
    defined = set()
    for folder in FOLDERS:
        for name in os.listdir(folder):
            if name.endswith(".h"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    defined |= set(re.findall(r"^(struct \w+) \{", f.read(), re.M))
    assert defined == set(STRUCTS)


def test_every_constant_has_its_value():
    assert len(CONSTANTS) > 100 and {"PS_ERR_DROPPED", "PS_ERROR_LINE_MAX", "PS_SPIN_NEVER", "PS_SYNC"} <= set(CONSTANTS)
    assert compiles("".join(same(name, getattr(lib, name)) for name in CONSTANTS)) == ""


def test_every_function_has_its_type_and_is_in_the_library():
    assert len(FUNCTIONS) > 100
    pointers = [ffi.getctype(ffi.typeof(getattr(lib, name)), "p%d" % i) for i, name in enumerate(FUNCTIONS)]
    assert compiles("".join("%s = %s;\n" % one for one in zip(pointers, FUNCTIONS)), "-Dconst=") == ""  # cffi knows none


@pytest.mark.parametrize("wrong", [same("sizeof(struct ps_error)", 1), same("PS_OK", 7), "int (*p)(void) = ps_version;\n"])
def test_the_compiler_refuses_what_is_not_so(wrong):
    assert "error" in compiles(wrong)


def test_numbers_that_are_not_whole_are_there():
    assert PS_COMPRESS_FRACTION == 0.01
