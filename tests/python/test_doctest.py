"""The examples in the docstrings of the package run, and the package is as it is said to be."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import textwrap

import numpy
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


# ---- the package's README ----

def blocks():
    """Its indented blocks that are Python, without lines of torch."""
    with open(os.path.join(os.environ["PSD_SOURCE_DIR"], "client/python/README.md"), encoding="utf-8") as f:
        found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", f.read(), re.M)
    found = [textwrap.dedent(block) for block in found]
    return ["\n".join(line for line in block.splitlines() if "torch" not in line) for block in found
            if not re.match(r"(pip|meson|psrun|PYTHONPATH)\b", block)]


def run_readme():
    """Each of its blocks, in one worker of a cluster, with what its sentences take for granted."""
    ones = numpy.ones((64, 10), "f")
    seen = []
    for block in blocks():
        with psd.connect(job="job %d" % len(seen), metrics=("loss",)) as c, tempfile.TemporaryDirectory() as folder:
            w, b = (c.variable(name, (64, 10), optimizer="sgd:learning_rate=0.001") for name in "wb")
            names = {"psd": psd, "c": c, "w": w, "b": b, "dw": ones, "db": ones, "gradient": ones.copy(), "other": ones.copy(),
                     "weights": ones.copy(), "gradient_of": lambda weights: weights, "loss": 0.5}
            text = block.replace("psd.connect()", "psd.connect(job='own %d')" % len(seen)).replace("    ...\n", "")
            text = text.replace('"127.0.0.1:7420,127.0.0.1:7421"', "None").replace("/srv/models", folder)
            text = text.replace('"digits"', '"job %d"' % len(seen))
            exec(compile(text, "README", "exec"), names)
            seen.append(block.splitlines()[0])
    return seen


def test_the_examples_of_the_readme_run():
    seen, = psd.launch(run_readme, timeout=100)
    assert len(seen) == len(blocks()) >= 5 and any("Group" in line for line in seen) and any("Admin" in line for line in seen)
