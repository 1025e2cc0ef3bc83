"""What a wheel has: the files that pyproject.toml's tags install are enough to run a cluster."""

import os
import re
import subprocess
import sys

import psd
import pytest

ROOT = os.environ["PSD_SOURCE_DIR"]
BUILD = os.environ["PSD_BUILD_DIR"]


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


PROJECT = text_of("pyproject.toml")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files, below the prefix."""
    destination = tmp_path_factory.mktemp("wheel")
    words, = re.findall(r'^install = \["(.*)"\]$', PROJECT, re.M)
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", str(destination), words],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return [os.path.join(folder, name) for folder, _, names in os.walk(destination) for name in names]


def test_there_are_the_programs_the_library_and_the_package_and_nothing_else(installed):
    package = {os.path.join("psd", name) for name in os.listdir(psd.__path__[0]) if name.endswith((".py", ".typed"))}
    kept = {os.path.join(*path.split(os.sep)[-2:]) for path in installed}
    assert {"bin/psd", "bin/psctl", "bin/psrun"} <= kept and package <= kept
    others = kept - package - {"bin/psd", "bin/psctl", "bin/psrun"}
    assert {os.path.basename(path) for path in others} <= {"libpsclient.so", "libpsclient.so.0", "libpsclient.so.0.1.0", "libpsclient-cuda.so"}


def test_as_a_wheel_lays_them_out_they_run_a_cluster(installed, tmp_path):
    """The package in a folder, the library in one beside it, the programs beside a Python."""
    libraries = tmp_path / ".psd_parameter_server.mesonpy.libs"
    for folder in (tmp_path / "psd", tmp_path / "bin", libraries):
        folder.mkdir()
    for path in installed:
        name = os.path.basename(path)
        below = libraries if name.startswith("libpsclient") else tmp_path / os.path.basename(os.path.dirname(path))
        os.link(os.path.realpath(path), below / name)
    os.symlink(sys.executable, tmp_path / "bin" / "python")
    text = """if True:
        import psd
        from psd import _library
        def step():
            with psd.connect() as c:
                return c.variable("w", (3,), init="ones", optimizer="sgd:learning_rate=1").pull().tolist()
        print(_library.path)
        print(_library.program("psctl"))
        print(psd.launch(step, workers=2, shards=2, timeout=60))
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PSD_", "PSCTL_", "PSRUN_", "LD_"))}
    done = subprocess.run([str(tmp_path / "bin" / "python"), "-c", text], text=True, capture_output=True,
                          env={**clean, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert done.returncode == 0, done.stderr
    library, psctl, values = done.stdout.splitlines()
    assert os.path.dirname(library) == str(libraries)
    assert psctl == str(tmp_path / "bin" / "psctl")
    assert values == "[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]"


def test_the_options_that_a_wheel_is_built_with_are_options():
    options = set(re.findall(r"^option\('(\w+)'", text_of("meson_options.txt"), re.M))
    words, = re.findall(r"^setup = \[(.*)\]$", PROJECT, re.M)
    used = re.findall(r'"-D(\w+)=', words)
    assert used and set(used) <= options


def test_what_is_demanded_of_python_is_the_same_everywhere():
    assert 'requires-python = ">=3.9"' in PROJECT and "from 3.9 on" in text_of("client/python/README.md").replace("\n", " ")
    assert sys.version_info >= (3, 9)
