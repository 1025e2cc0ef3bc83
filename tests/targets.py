#!/usr/bin/env python3
"""The targets that ninja has to build for the tests of a suite, one a line: targets.py BUILD --suite SUITE."""

import argparse
import json
import os
import subprocess

p = argparse.ArgumentParser()
p.add_argument("build")
p.add_argument("--suite", required=True)
o = p.parse_args()


def introspect(what):
    return json.loads(subprocess.run(["meson", "introspect", what, o.build], check=True, stdout=subprocess.PIPE).stdout)


needed = set()
for test in introspect("--tests"):
    if o.suite in [name.split(":")[-1] for name in test["suite"]]:
        needed.update(test["depends"])
build = os.path.realpath(o.build)
for target in introspect("--targets"):
    if target["id"] in needed:
        print(*(os.path.relpath(name, build) for name in target["filename"]), sep="\n")
