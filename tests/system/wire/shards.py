"""psd processes of one cluster, as a test has them."""

import os
import shutil
import subprocess
import tempfile

PSD = os.environ.get("PSD_BIN", "psd")
CLUSTER = "second"
LOG_MAX = 4000  # characters of a log, where a test fails in the midst


class Shards:
    """with Shards(2, "--grace", "1s") as shards: shards.address[1]; their directory, DIRECTORY in options, goes at the end.
    tokens: lines of a file that who connects must prove one of."""

    def __init__(self, count, *options, tokens=()):
        self.directory = tempfile.mkdtemp(prefix="psd-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.options, self.count = options + (("--tokens", "DIRECTORY/tokens") if tokens else ()), count
        with open(os.open(self.path("tokens"), os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in tokens)
        self.address = ["127.0.0.1:0"] * count
        self.process = [None] * count

    def __enter__(self):
        try:
            for shard in range(self.count):
                self.start(shard)
        except BaseException as e:
            self.__exit__(type(e))
            raise
        return self

    def __exit__(self, kind=None, *_):
        for shard, process in enumerate(self.process):
            if kind is not None:
                print("# log of shard %d:" % shard, self.log(shard)[-LOG_MAX:].replace("\n", "\n# "), flush=True)
            if process is not None:
                self.kill(shard)
        shutil.rmtree(self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, shard):
        """Where it listened before, when it did."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
        ready, theirs = os.pipe()
        words = [PSD, "--listen", self.address[shard], "--cluster", CLUSTER, "--shard", str(shard), "--shards",
                 str(self.count), "--live-dir", self.path("live-%d" % shard), "--memory", "64MiB", "--log-level", "error",
                 "--ready-fd", str(theirs), *[option.replace("DIRECTORY", self.directory) for option in self.options]]
        with open(self.path("log-%d" % shard), "ab") as log:
            self.process[shard] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log, env=clean, pass_fds=[theirs])
        os.close(theirs)
        with open(ready, encoding="utf-8") as lines:
            first = lines.readline().strip()
        if not first:
            raise RuntimeError("psd ended before it listened: " + self.log(shard))
        self.address[shard] = first

    def kill(self, shard):
        """-9."""
        self.process[shard].kill()
        self.process[shard].wait()
        self.process[shard] = None

    def log(self, shard):
        if not os.path.exists(self.path("log-%d" % shard)):
            return ""
        with open(self.path("log-%d" % shard), encoding="utf-8", errors="replace") as file:
            return file.read()
