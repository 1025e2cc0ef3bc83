"""The examples in the docstrings of the package run, and the package is as it is said to be."""

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys

import psd
import pytest

MODULES = sorted(m.name for m in pkgutil.iter_modules(psd.__path__) if m.name not in ("_definitions", "__main__"))


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of(module):
    assert doctest.testmod(importlib.import_module("psd." + module)).failed == 0


def test_there_are_examples():
    assert sum(doctest.testmod(importlib.import_module("psd." + m)).attempted for m in MODULES) > 10


def python(text, **environment):
    return subprocess.run([sys.executable, "-W", "error", "-c", text], text=True, capture_output=True,
                          env={**os.environ, **environment})


def test_an_import_brings_neither_numpy_nor_a_parser():
    done = python("import sys, psd; print({'numpy', 'pycparser', 'cffi', 'asyncio', 'multiprocessing'} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


def test_a_library_that_cannot_be_loaded_is_an_import_error_that_says_what_to_do():
    done = python("import psd", PSD_LIBRARY="/nowhere/libpsclient.so")
    assert done.returncode == 1
    assert "ImportError: libpsclient cannot be loaded: " in done.stderr and "/nowhere/libpsclient.so" in done.stderr
    assert "PSD_LIBRARY" in done.stderr


def test_the_library_that_psd_library_names_is_loaded():
    from psd import _library
    done = python("from psd import _library; print(_library.path)", PSD_LIBRARY=os.path.realpath(_library.path))
    assert done.stdout.strip() == os.path.realpath(_library.path), done.stderr


def test_public_names_are_there_and_described():
    assert len(psd.__all__) == len(set(psd.__all__)) > 40
    for name in psd.__all__:
        assert name == "__version__" or getattr(psd, name).__doc__
    assert os.path.exists(os.path.join(psd.__path__[0], "py.typed"))
