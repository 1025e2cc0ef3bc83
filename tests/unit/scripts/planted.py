"""Checks the checker: small trees in which one program is called that no list has, in each way in which programs are
called, and others that break no rule."""

import os
import shutil
import tempfile

STRANGER = "program-of-no-package"
SHEBANG = "#!/usr/bin/env bash\n"

# The stranger is called in line 2 of each, or where it is said.
CALLED = {
    "tests/plain.sh": SHEBANG + "@ --option",
    "tests/substituted.sh": SHEBANG + "x=$(@ here) && [ \"$x\" ]",
    "tests/piped.sh": SHEBANG + "ls | @ | sort",
    "tests/conditional.sh": SHEBANG + "if ! ls || @; then :; fi",
    "tests/loop.sh": SHEBANG + "for x in $(@); do :; done",
    "tests/process.sh": SHEBANG + "sort < <(@)",
    "tests/wrapped.sh": SHEBANG + "env A=b timeout -k 5 60 nice -n 5 @ --option",
    "tests/found.sh": SHEBANG + "find . -name x -exec @ {} +",
    "tests/read.sh": SHEBANG + "ls | xargs -r -n 1 @",
    "tests/netns.sh": SHEBANG + "ip netns exec \"$1\" @",
    "tests/trapped.sh": SHEBANG + "trap 'rm -f x; @ y' EXIT",
    "tests/evaluated.sh": SHEBANG + "eval \"@ $1\"",
    "tests/inner.sh": SHEBANG + "\"$1\" --shards 2 -- sh -ec 'ls; exec @'",
    "tests/behind.sh": SHEBANG + "\"$PSRUN\" --workers 2 -- @ word",
    "tests/variable.sh": SHEBANG + "tool=@; \"$tool\" x",
    "tests/default.sh": SHEBANG + "\"${TOOL:-@}\" x",
    "tests/written.sh": SHEBANG + "cat >tool <<'END'\n#!/bin/sh\n@ 3\nEND",
    "tests/document.sh": SHEBANG + "sh -s <<'END'\n@ 3\nEND",
    "tests/python.sh": SHEBANG + "python3 -c 'import subprocess; subprocess.run([\"@\", \"x\"])'",
    "tests/runner.sh": SHEBANG + "try @\ntry() { shift 0; \"$@\" >out; }",
    "tests/shifting.sh": SHEBANG + "as token ca @ x\nas() { local a=$1; shift 2; env A=\"$a\" \"$@\"; }",
    "tests/sourcing.sh": SHEBANG + "waits_for @ x\n. \"$(dirname \"$0\")/lib.sh\"",
    "tests/elsewhere_probed.sh": SHEBANG + "@ x # whose probe is in probed.sh",
    "tests/interpreter.sh": "#!/usr/bin/@\n",
    "tests/list.py": "import subprocess\nsubprocess.run([\"@\", \"x\"], check=True)",
    "tests/joined.py": "import subprocess\nsubprocess.Popen([\"timeout\", \"5\", \"@\"] + more)",
    "tests/named.py": "import subprocess\ncommand = [\"@\"]; subprocess.check_output(command + x)",
    "tests/shell.py": "import subprocess\nsubprocess.run(\"ls; @ x\", shell=True)",
    "tests/system.py": "import os\nos.system(\"@ x\")",
    "tests/helper.py": "import subprocess\ndef run(*words): return subprocess.run(words)\nrun(\"@\", \"x\")",
    "tests/system.c": "int f(void) {\n    return system(\"ip link set lo up && \"\n                  \"@ x\"); }",
    "tests/popen.c": "void f(void) {\n    snprintf(line, sizeof line, \"@ %s 2>&1\", x); popen(line, \"r\"); }",
    "tests/helper.c": "int\nshell(const char *format, ...)\n{\n    vsnprintf(line, sizeof line, format, list);\n    return system(line);\n}\n"
                      "void f(void)\n{\n    shell(\"@ %d\", 1);\n}\n",
    "tests/unprobed.c": "void f(void) {\n    system(\"@ x\");\n}\nvoid g(void) {\n    system(\"command -v @\");\n}\n",
    "tests/exec.c": "void f(void) {\n    execlp(\"@\", \"@\", \"-x\", NULL); }",
    "tests/spawn.c": "void f(void) {\n    posix_spawnp(&pid, \"@\", NULL, NULL, argv, environ); }",
    "tests/array.c": "void f(void) {\n    char *argv[] = {\"@\", \"x\", NULL}; execvp(argv[0], argv); }",
    "tests/meson.build": "# a build\nx = find_program('@')",
    "deploy/script.sh": SHEBANG + "@ x",
    "deploy/Dockerfile": "FROM x\nRUN ls && \\\n    @ x\nCMD [\"psd\"]",
    "client/build.sh": SHEBANG + "@ x",
    "deploy/quickstart.sh": SHEBANG + "openssl version # which tests have, and a build has not",
}
LINES = {"tests/written.sh": 4, "tests/document.sh": 3, "tests/interpreter.sh": 1, "tests/helper.py": 3, "tests/helper.c": 9, "deploy/Dockerfile": 3}

# Nothing is wrong with these.
INNOCENT = {
    "tests/lib.sh": "# shellcheck shell=bash\nwaits_for() { \"$@\"; }",
    "tests/probed.sh": SHEBANG + "if command -v @ >/dev/null; then @ x; fi",
    "tests/probing.sh": SHEBANG + "lint() { local tool=$2; shift 2; if command -v \"$tool\"; then \"$@\"; fi; }\nlint sentence @ @ x",
    "tests/function.sh": SHEBANG + "f() { :; }\nf @; echo @ | grep @; x=@; case @ in @) ;; esac",
    "tests/which.py": "import shutil, subprocess\nif shutil.which(\"@\"): subprocess.run([\"@\"])",
    "tests/probed.c": "void f(void) {\n    if (system(\"command -v @\") == 0)\n        system(\"@ x\");\n}\n",
    "tests/looked.sh": SHEBANG + "f() { \"$1/deploy/x.sh\" y; }\nf a\n[ $? -eq 0 ]\n! ./x.sh || exit\n./x.sh\nstatus=$?\nif ./x.sh; then :; fi",
    "tests/strict.sh": SHEBANG + "set -euo pipefail\n./x.sh",
    "deploy/ends.sh": SHEBANG + "until ls x; do [ $SECONDS -lt 5 ] || exit 1; sleep 1; done\nwhile kill -0 \"$1\"; do sleep 1; done",
}

UNLOOKED = {
    "tests/first.sh": SHEBANG + "\"$source/deploy/make-certs.sh\" x 2>err\ncp x y",
    "tests/second.sh": SHEBANG + "try ./x.sh; ls\ntry() { \"$@\" >out; }",
    "tests/third.sh": SHEBANG + "f; ls\nf() { env A=b ./x.sh y; }",
}

ENDLESS = {
    "deploy/until.sh": SHEBANG + "until ls x; do sleep 1; done",
    "deploy/inside.sh": SHEBANG + "while true; do if ls; then break; fi; sleep 0.1; done",
    "deploy/pod.yaml": "kind: Job\ncommand: [sh, -c, 'until psctl ping; do sleep 1; done']",
}


def places(files):
    return {"%s:%d" % (path, LINES.get(path, 2)) for path in files}


def missed(check):
    """Sentences of what check(DIRECTORY) does not find, or finds where nothing is. It gives three lists of sentences, each
    beginning with a place."""
    with tempfile.TemporaryDirectory() as place:
        for path, text in {**CALLED, **INNOCENT, **UNLOOKED, **ENDLESS}.items():
            os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
            with open(os.path.join(place, path), "w", encoding="utf-8") as f:
                f.write(text.replace("@", STRANGER) if "\"$@\"" not in text else
                        text.replace("\"$@\"", "\0").replace("@", STRANGER).replace("\0", "\"$@\""))
        for name in ("packages.sh", "progress.sh"):
            shutil.copy(os.path.join(os.path.dirname(__file__), "../../../deploy", name), os.path.join(place, "deploy"))
        found = [{" ".join(s.split(": ", 1)[:1]) for s in sentences} for sentences in check(place)]
    sentences = []
    for what, wanted, got in zip(("a program", "a result", "an endless wait"), map(places, (CALLED, UNLOOKED, ENDLESS)), found):
        sentences += ["%s is not found at %s of a planted tree" % (what, p) for p in sorted(wanted - got)]
        sentences += ["%s is found at %s of a planted tree, where none is" % (what, p) for p in sorted(got - wanted)]
    return sentences
