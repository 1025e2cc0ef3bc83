#!/usr/bin/env python3
"""The commands of README.md, client/README.md and deploy/README.md, run as they are printed, by bash, in an empty
directory. A command that is neither run nor listed below with what it lacks here fails the test. Prints TAP. PSD_BIN,
PSCTL_BIN, PSRUN_BIN, DIGITS_BIN and LOGISTIC_BIN name the programs; as root it has /srv, /run and /var/lib to itself."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tap import finish, ok, skip

SOURCE = os.path.realpath(os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../..")))
BUILD = os.path.realpath(os.environ.get("PSD_BUILD_DIR", os.path.join(SOURCE, "build")))
PROGRAMS = {"psd": "server/psd", "psctl": "client/tools/psctl", "psrun": "client/tools/psrun",
            "digits": "client/examples/digits/digits", "logistic": "client/examples/logistic/logistic"}
PLACES = ("/srv", "/run", "/var/lib")  # that the commands name
PATIENCE = 120  # seconds that a command, or what is waited for, may take

# What is printed and not run here, and why not.
LEFT_OUT = [
    (r"^sudo |^systemctl |systemctl restart", "of a machine with systemd: test_boot, test_debs"),
    (r"^\./deploy/quickstart\.sh", "test_quickstart"),
    (r"^\./tests/run\.sh", "this is part of it"),
    (r"^meson setup build", "the build that is tested"),
    (r"^\./deploy/make-debs\.sh", "test_debs"),
    (r"^docker |^kubectl |deploy/\.env", "needs an engine: test_compose, test_kubernetes"),
    (r"^sbatch |^export PSD_(TLS_CA|OPTIONS)=", "test_slurm"),
    (r"--hosts |--ps-hosts |--cluster-config ", "needs other machines: test_psrun_ssh"),
    (r" \.\.\.( |$)", "shows options, and not all of them"),
    (r"/etc/psd/", "test_secured"),
    (r"^openssl s_client |https?://(ps0|HOST)", "needs another machine"),
    (r"^PSD_TOKEN_FILE=token ", "needs shards with that token: test_secured"),
    (r"rsync", "needs another machine"),
    (r"^python3 -c 'from safetensors", "needs the module safetensors: test_psctl_files"),
]


# ---- the documents ----


def indented(document):
    """The lines that are code but not C: (section, text), a command that goes on in one piece. A comment alone is none."""
    section, fenced, held = "", False, ""
    with open(os.path.join(SOURCE, document), encoding="utf-8") as f:
        lines = f.read().splitlines()
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("#"):
            section = line.lstrip("# ")
        elif not fenced and re.match(r" {4}\S", line) or held:
            held += line.strip() if not held else "\n" + line.strip()
            if not held.endswith("\\"):
                yield section, held
                held = ""


def is_command(text):
    """A command, and not what one prints, a picture or a list of options."""
    first = re.match(r"(?:\$ )?((?:[A-Z_]+=\S+ )*)(\S+)", text)
    return bool(first and re.match(r"(\./|deploy/|\()|(psd|psctl|psrun|digits|cc|export|sudo|systemctl|meson|docker|"
                                   r"kubectl|sbatch|openssl|curl|python3|for|kill)$", first.group(2))) and \
        not re.match(r"(psrun|psd) +\|", text)


def bare(text):
    """A command without its comment."""
    return text.split(" #")[0].strip()


def commands(document, title=None):
    """Those of a document or of one section of it, without the "$ " of a prompt."""
    return [re.sub(r"^\$ ", "", text) for section, text in indented(document)
            if is_command(text) and (title is None or section == title)]


def printed(document, title):
    """What a section shows as output of its commands, as lines."""
    return [text for section, text in indented(document) if section == title and not is_command(text)]


def worker_of(document):
    """The block of C that has a main."""
    with open(os.path.join(SOURCE, document), encoding="utf-8") as f:
        blocks = re.findall(r"^```c\n(.*?)^```$", f.read(), re.S | re.M)
    return next(block for block in blocks if "\nmain(void)\n" in block)


# ---- running ----


class Place:
    """A directory with the programs in its PATH, and the shards that run there."""

    def __init__(self):
        self.directory = tempfile.mkdtemp()
        self.shards = {}
        self.did = set()
        programs = os.path.join(self.directory, "bin")
        os.mkdir(programs)
        for name, path in PROGRAMS.items():
            os.symlink(os.path.realpath(os.environ.get(name.upper() + "_BIN", os.path.join(BUILD, path))),
                       os.path.join(programs, name))
        os.symlink(os.path.join(SOURCE, "deploy"), os.path.join(self.directory, "deploy"))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
        self.environment = {**clean, "PATH": programs + ":" + os.environ["PATH"],
                            "LD_LIBRARY_PATH": os.path.join(BUILD, "client")}
        self.install()

    def install(self):
        """Headers and library where pkg-config finds them."""
        root = os.path.join(self.directory, "root")
        ran = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root], text=True,
                             capture_output=True, check=False)
        found = [path for path, _, files in os.walk(root) if "psclient.pc" in files]
        ok(ran.returncode == 0 and len(found) == 1, "the library is installed", ran.stdout + ran.stderr)
        self.environment.update(PKG_CONFIG_PATH="".join(found), PKG_CONFIG_SYSROOT_DIR=root)

    def bash(self, text):
        """Start a command in a process group of its own."""
        return subprocess.Popen(["bash", "-c", text], cwd=self.directory, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True)

    def run(self, text, wanted=0):
        """Run a command to its end: its output."""
        with self.bash(text) as process:
            try:
                output, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output = "it does not end\n" + process.communicate()[0]
        ok(process.returncode == wanted, text.replace("\n", " ").replace("#", ":"), output)
        return output

    def watch(self, text):
        """Run a command that goes on until somebody ends it: it prints, and Ctrl-C is a good end."""
        process = self.bash("exec " + text)
        line = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
        ok(line != "" and process.returncode == 0, text.replace("#", ":"), line + rest)

    def serve(self, text, at):
        """Start a shard with a command, in the background, and wait until it answers."""
        log = os.path.join(self.directory, "shard-%s.log" % at.replace("/", "_"))
        with open(log, "w", encoding="utf-8") as f:
            self.shards[at] = subprocess.Popen(["bash", "-c", "exec " + text.split("#")[0].rstrip(" &")],
                                               cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                                               stdout=f, stderr=subprocess.STDOUT)
        served = self.wait_for("psctl --shards %s --timeout 30s ping --count 1" % at)
        with open(log, encoding="utf-8") as f:
            ok(served, text.replace("#", ":"), f.read())

    def wait_for(self, text):
        """Until a command succeeds, or a shard has ended."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and all(s.poll() is None for s in self.shards.values()):
            if subprocess.run(["bash", "-c", text], cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False).returncode == 0:
                return True
            time.sleep(0.02)
        return False

    def stop(self, how=signal.SIGTERM):
        """End all shards."""
        for shard in self.shards.values():
            shard.send_signal(how)
            shard.wait(timeout=PATIENCE)
        self.shards = {}

    def build(self, document, name):
        """The worker of a document, as worker.c and NAME."""
        with open(os.path.join(self.directory, "worker.c"), "w", encoding="utf-8") as f:
            f.write(worker_of(document))
        line = next(c for c in commands(document) if c.startswith("cc "))
        self.did.add(bare(line))
        self.run(line)
        if name != "worker" and os.path.exists(os.path.join(self.directory, "worker")):
            shutil.copy(os.path.join(self.directory, "worker"), os.path.join(self.directory, name))

    def take(self, document, title, pattern):
        """The commands of a section that fit a pattern; they count as run."""
        found = [c for c in commands(document, title) if re.search(pattern, c)]
        ok(bool(found), "%s, %s, has commands with %s" % (document, title, pattern.replace("#", ":")))
        self.did.update(bare(line) for line in found)
        return found


# ---- README.md ----


def readme(place):
    place.build("README.md", "my_worker")
    output = ""
    for line in place.take("README.md", "A worker", r"^psrun "):
        output += place.run(line)
    # Ports and threads are this machine's; workers end in any order.
    like = [re.sub(r"\d+ thread.*|:\d+", "", line) for line in printed("README.md", "A worker")]
    ok(sorted(like) == sorted(re.sub(r"\d+ thread.*|:\d+", "", line) for line in output.splitlines()),
       "prints what README.md shows: weights that were pulled", output)
    for line in place.take("README.md", "How it works", "."):
        if line.startswith("psd "):
            place.serve(line, "127.0.0.1:7420")
            place.serve(line.replace("--shard 0", "--shard 1").replace("7420", "7421").replace("psd-0", "psd-1"),
                        "127.0.0.1:7421")
        elif "--ps " in line:
            output = place.run(line)
            ok(output.count("y = 3.00 x +1.00") == 2, "and its workers have trained on these shards", output)
        else:
            place.run(line)
    place.stop()
    shutil.rmtree("/dev/shm/psd-0", ignore_errors=True)
    shutil.rmtree("/dev/shm/psd-1", ignore_errors=True)


# ---- client/README.md ----


def client(place):
    place.build("client/README.md", "worker")
    for line in place.take("client/README.md", "Build and start", "^psrun "):
        output = place.run(line)
        ok(len(re.findall(r"loss [0-9.]+, y = 3\.000 x0 -2\.000 x1 \+1\.000$", output, re.M)) == 3,
           "and its workers have found the line", output)
    for line in place.take("client/README.md", "Strategies", "."):
        output = place.run(line)
        found = re.search(r"held-out accuracy +([0-9.]+) %", output)
        ok(found is not None and float(found.group(1)) > 90, "and it has learned", output)
    for line in place.take("client/README.md", "Where the time goes", "."):
        output = place.run(line)
    shown = printed("client/README.md", "Where the time goes")
    headings = [line.split() for line in shown if line.isupper()]
    ok(len(headings) == 2 and all(h in [line.split() for line in output.splitlines()] for h in headings),
       "with the table that is shown", output)


# ---- deploy/README.md ----


def by_hand(place):
    for line in place.take("deploy/README.md", "By hand", "."):
        if line.startswith("export "):
            place.environment["PSD_SHARDS"] = re.match(r"export PSD_SHARDS=(\S+)", line).group(1)
        elif line.startswith("psd "):
            shard = int(re.search(r"--shard (\d)", line).group(1))
            place.serve(line, place.environment["PSD_SHARDS"].split(",")[shard])
        else:
            place.run(line)
    place.stop()
    for directory in ("/dev/shm/psd-0", "/dev/shm/psd-1"):
        shutil.rmtree(directory, ignore_errors=True)


def running(place, shards, workers, *more):
    """Shards, and a job that trains on them until the test ends it: of digits, in ssp, without an end."""
    place.environment["PSD_SHARDS"] = ",".join("127.0.0.1:742%d" % i for i in range(shards))
    for i in range(shards):
        place.serve("psd --shard %d --live-dir live-%d --http 127.0.0.1:942%d" % (i, i, i), "127.0.0.1:742%d" % i)
    job = place.bash("exec psrun --ps $PSD_SHARDS --workers %d -- digits --job train --strategy ssp --bound 2 "
                     "--epochs 1000000 --svg '' %s" % (workers, " ".join(more)))
    steps = "psctl jobs | awk '$1 == \"train\" && $7 > 0 { done = 1 } END { exit !done }'"  # of the slowest
    ok(place.wait_for(steps), "a job trains on shards of psd's own name")
    return job


def end(place, job):
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGTERM)
    job.communicate(timeout=PATIENCE)
    place.stop()
    for i in range(2):
        shutil.rmtree(os.path.join(place.directory, "live-%d" % i), ignore_errors=True)


def drop(place, line):
    """Of a job that is over; nobody is there to be asked."""
    place.run("digits --epochs 1 --svg ''")
    line = line.replace("head/*", "*")
    place.run(line if "--yes" in bare(line) else line.replace("psctl drop", "psctl drop --yes"))


def watching(place):
    job = running(place, 2, 4)
    over = []  # for when the job is
    for line in place.take("deploy/README.md", "Watching and changing a cluster", "."):
        if "workers=" in line:
            over.append(line)
        elif " drop " in line:
            drop(place, line)
        elif "--watch" in line:
            place.watch(line)
        elif line.startswith("psctl top"):
            place.run(line.replace("psctl top", "psctl top --interval 0.2"))
        else:
            place.run(line)
        if " drain " in line:
            place.shards.pop("127.0.0.1:7421").wait(timeout=PATIENCE)
            place.serve("psd --shard 1 --live-dir live-1", "127.0.0.1:7421")
    for line in place.take("deploy/README.md", "Losing a worker", "."):
        place.run(line)
    for line in place.take("deploy/README.md", "Tuning", r"^psctl trace |^curl "):
        if not line.startswith("curl ") or shutil.which("curl"):
            place.run(line)
        else:
            skip(line.replace("#", ":"), "curl is not installed")
    for line in place.take("deploy/README.md", "Metrics and health", r"^curl \S+$"):
        if shutil.which("curl"):
            place.run(line)
        else:
            skip(line, "curl is not installed")
    for line in place.take("deploy/README.md", "Removing a job", "."):
        drop(place, line)
    os.killpg(job.pid, signal.SIGTERM)
    for line in over:
        ok(place.wait_for(line), line.replace("#", ":"))
    end(place, job)


def checkpoints(place):
    job = running(place, 1, 1)
    for line in place.take("deploy/README.md", "Checkpoints", "^psctl "):
        if " import " in line:
            shutil.copy(os.path.join(place.directory, "digits.safetensors"),
                        os.path.join(place.directory, "pretrained.safetensors"))
            os.killpg(job.pid, signal.SIGTERM)
            job.communicate(timeout=PATIENCE)
            line = line.replace("psctl import", "psctl import --through /srv/models")
        if " snapshot " in line:
            for name in ("A", "B"):
                os.symlink("/srv/models/digits/latest", os.path.join(place.directory, name))
        place.run(line)
    place.stop()


def durability(place):
    del place.environment["PSD_SHARDS"]
    shutil.copy(os.path.join(place.directory, "worker"), os.path.join(place.directory, "train"))
    for line in place.take("deploy/README.md", "Durability", r"^(psd|psrun|kill|psctl) (?!.*\.\.\.)"):
        if line.startswith("psd "):
            place.serve(line, "127.0.0.1:7420")
            place.run("PSD_SHARDS=127.0.0.1:7420 digits --durable --epochs 60 --svg ''")
        elif line.startswith("kill "):
            place.run(line.replace("PID_OF_PSD", str(place.shards["127.0.0.1:7420"].pid)))
            place.shards.pop("127.0.0.1:7420").wait(timeout=PATIENCE)
        elif "--until" in line:
            place.serve(line, "127.0.0.1:7500")
        elif line.startswith("psrun "):
            place.run(line)
        else:
            place.run(line)
    place.stop()


def certificates(place):
    for title in ("Slurm", "Who may connect", "Encryption", "Who may look"):
        for line in commands("deploy/README.md", title):
            if re.match(r"deploy/make-certs|openssl (req|x509)|\(umask", line) and bare(line) not in place.did:
                place.did.add(bare(line))
                place.run(line)


def all_are_known(place):
    left = []
    for document in ("README.md", "client/README.md", "deploy/README.md", "tests/README.md"):
        for line in commands(document):
            if bare(line) not in place.did and not any(re.search(pattern, line) for pattern, _ in LEFT_OUT):
                left.append("%s: %s" % (document, line))
    ok(not left, "every command of the documents is run, or it is known why not", "\n".join(left))


def alone():
    """As root in a mount namespace of its own, where the places that commands name are empty."""
    if os.geteuid() == 0 and "--inside" not in sys.argv and \
            subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0:
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "--inside"])
    if "--inside" in sys.argv:
        for path in PLACES:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
        os.mkdir("/srv/models")
    return "--inside" in sys.argv


def main():
    whole = alone()
    place = Place()
    try:
        readme(place)
        client(place)
        if whole:
            by_hand(place)
            watching(place)
            checkpoints(place)
            durability(place)
            certificates(place)
            all_are_known(place)
        else:
            skip("the commands of deploy/README.md", "they name /srv, /run and /var/lib: root's")
    finally:
        for shard in place.shards.values():
            shard.kill()
        shutil.rmtree(place.directory)
    finish()


main()
