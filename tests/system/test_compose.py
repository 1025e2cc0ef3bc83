#!/usr/bin/env python3
"""deploy/compose.yaml and deploy/Dockerfile without an engine: do they agree with each other and with the programs, and
does the memory add up? Prints TAP. PSD_BIN, PSCTL_BIN and DIGITS_BIN name the programs."""

import os
import re
import shutil
import subprocess
import tempfile

from tap import finish, must, ok, skip

try:
    import yaml
except ImportError:
    skip("compose.yaml fits", "python3-yaml is not installed")
    finish()

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
COMPOSE = os.path.join(SOURCE, "deploy/compose.yaml")
DOCKERFILE = os.path.join(SOURCE, "deploy/Dockerfile")
PROGRAMS = {name: os.environ.get(name.upper() + "_BIN", name) for name in ("psd", "psctl", "digits")}
REST = 160 << 20  # psd's memory beyond that of its options
UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text):
    digits = text.rstrip("kKmMgGiIbB")
    return int(digits) * UNITS[text[len(digits):].lower()]


def option(words, name):
    """The value that follows --name."""
    return words[words.index("--" + name) + 1]


def said_no(words, environment):
    """What the program says about words and environment when it does not accept them; '' when it does. digits and psctl
    have no --check, but look at what stands before --help."""
    check = "--check" if words[0] == "psd" else "--help"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
    ran = subprocess.run([PROGRAMS[words[0]], *words[1:], check], env={**clean, **environment}, text=True,
                         stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return "" if ran.returncode == 0 else ran.stderr or "status %d" % ran.returncode


def instructions():
    """The last stage's instructions: name -> argument, the last of each name."""
    found, stage = {}, 0
    with open(DOCKERFILE, encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, argument = line.split(None, 1)
        stage += name == "FROM"
        if stage == 2:
            found[name] = argument.strip()
    return found


TOKENS = {"PSD_TOKEN": "psd:0123456789abcdef", "PSD_HTTP_TOKEN": "fedcba9876543210"}
TOKEN = re.compile(r"\$\{(PSD_\w*TOKEN):\?[^}]*\}")
with open(COMPOSE, encoding="utf-8") as f:
    compose = yaml.safe_load(TOKEN.sub(lambda found: TOKENS[found.group(1)], f.read()))
image = instructions()
everything = compose["services"]
watchers = {n: s for n, s in everything.items() if s.get("profiles") == ["watch"]} # not started unless they are asked for
services = {n: s for n, s in everything.items() if n not in watchers}
shards = {n: s for n, s in services.items() if s["command"][0] == "psd"}
workers = {n: s for n, s in services.items() if s["command"][0] == "digits"}
addresses = next(iter(shards.values()))["environment"]["PSD_SHARDS"].split(",")

# ---- the programs ----

ok(len(shards) == 2 and len(workers) == 3 and len(services) == 5, "there are two shards and three workers", list(services))
for name, service in services.items():
    no = said_no(service["command"], service["environment"])
    ok(no == "", name + "'s command and environment are accepted", no)
no = said_no(yaml.safe_load(image["CMD"]), {})
ok(no == "", "so is what the image does by itself", no)
probe = yaml.safe_load(image["HEALTHCHECK"].split("CMD", 1)[1].strip())
no = said_no(probe, {})
ok(no == "" and probe[0] == "psctl", "and how its health is asked", no)

# ---- who is where ----

ok([a.split(":")[0] for a in addresses] == list(shards), "the list of shards names their services, in order", addresses)
ok([int(option(s["command"], "shard")) for s in shards.values()] == list(range(len(shards))),
   "and each shard's index is its place in it")
ok({a.split(":")[1] for a in addresses} == {image["EXPOSE"]} and option(probe, "shards") == "127.0.0.1:" + image["EXPOSE"],
   "the port is the one that the image exposes and whose health is asked", addresses, probe)
ok(all(s["environment"]["PSD_SHARDS"].split(",") == addresses for s in services.values()), "all have the same list")
ok({s["environment"].get("PSD_TOKEN") for s in services.values()} == {TOKENS["PSD_TOKEN"]} and
   not any("insecure" in word for s in shards.values() for word in s["command"]), "and the same token, which is not in the file")
prometheus = watchers["prometheus"]
ok({s["environment"].get("PSD_HTTP_TOKEN") for s in [*shards.values(), prometheus]} == {TOKENS["PSD_HTTP_TOKEN"]} and
   not any("PSD_HTTP_TOKEN" in s["environment"] for s in workers.values()), "shards and Prometheus have that of HTTP, workers not")
ok([s["environment"]["PSD_TASK"] for s in workers.values()] == [str(i) for i in range(len(workers))] and
   {s["environment"]["PSD_WORKERS"] for s in workers.values()} == {str(len(workers))}, "the workers are numbered")
ok(all(s["networks"] == ["cluster"] for s in services.values()) and compose["networks"]["cluster"]["internal"],
   "they share a network that nobody else reaches")
ok(all(s["depends_on"] == list(shards) for s in workers.values()), "shards are started before the workers")

# ---- waiting ----

# As compose starts it, where psctl and digits write down how they were called; psctl's status is $WAITED.
with tempfile.TemporaryDirectory() as place:
    for program in ("psctl", "digits"):
        with open(os.path.join(place, program), "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\necho "%s $*"\n[ %s = digits ] || exit "$WAITED"\n' % (program, program))
        os.chmod(f.name, 0o700)
    worker = next(iter(workers.values()))
    words = [w.replace("$$", "$") for w in worker["entrypoint"] + worker["command"]]
    for status, wanted in (("0", ["psctl wait --timeout 5m", "digits --svg "]), ("3", ["psctl wait --timeout 5m"])):
        ran = subprocess.run(words, env={"PATH": place + ":/usr/bin:/bin", "WAITED": status}, text=True, capture_output=True,
                             stdin=subprocess.DEVNULL, check=False)
        ok(ran.stdout.splitlines() == wanted and str(ran.returncode) == status,
           "a worker waits for them with an end, and %s" % ("trains" if status == "0" else "does not train where one refuses"),
           ran.stdout, ran.stderr)
ok(all(s["entrypoint"] == worker["entrypoint"] and re.fullmatch(r"on-failure:\d+", s["restart"]) for s in workers.values()),
   "and is not started again for ever", worker)
no = said_no(words[2].split(" && ")[0].split(), worker["environment"])
ok(no == "", "how it waits is accepted by psctl", no)

# ---- memory ----

for name, service in shards.items():
    words, limit = service["command"], size(service["mem_limit"])
    need = sum(size(option(words, o)) for o in ("memory", "in-flight", "gather-memory")) + REST
    ok(need <= limit, "%s may take %d MiB, and its container %d" % (name, need >> 20, limit >> 20))
    ok(size(service["memswap_limit"]) == limit, "none of it swap")
    ok({"type": "bind", "source": "/dev/shm", "target": "/dev/shm"} in service["volumes"] and "--live-dir" not in words,
       "its live directory is in the host's memory, which outlives the container")
    ok({"type": "volume", "source": "durable", "target": "/var/lib/psd"} in service["volumes"] and
       "durable" in compose["volumes"] and option(words, "durable-dir") == "/var/lib/psd/" + name,
       "what it saves is in a volume, in a directory of its own")
    ok(service["restart"] == "unless-stopped", "it is started again when it is killed")

# ---- the image ----

user = image["USER"].split(":")[0]
ok(user.isdigit() and int(user) > 0, "the image's user is a number, not root's", user)
ok("/var/lib/psd" in image["RUN"] and "-o " + user in image["RUN"], "who owns the place of the volume", image["RUN"])
ok(all(s["read_only"] and s["cap_drop"] == ["ALL"] and "user" not in s for s in services.values()),
   "and no service has more rights")

# ---- who watches ----

with open(os.path.join(SOURCE, "deploy/prometheus/prometheus.yml"), encoding="utf-8") as f:
    targets = [t for c in yaml.safe_load(f)["scrape_configs"] for s in c["static_configs"] for t in s["targets"]]
https = [option(s["command"], "http").replace("0.0.0.0", n) for n, s in shards.items()]
ok(targets == https, "Prometheus asks each shard where it serves metrics", targets, https)
ok(set(watchers) == {"prometheus", "grafana"}, "it and Grafana are there for who asks for them", list(watchers))
ok(all(re.fullmatch(r"[^:@]+:v?\d+\.\d+\.\d+", s["image"]) for s in watchers.values()), "in versions that are named")
ok(all(p.startswith("127.0.0.1:") for s in everything.values() for p in s.get("ports", [])),
   "what they serve is published for this host alone")
ok(all(s["read_only"] and s["cap_drop"] == ["ALL"] for s in watchers.values()), "and they have no more rights than ours")
binds = [v.split(":") for s in watchers.values() for v in s["volumes"]]
missing = [b[0] for b in binds if not os.path.exists(os.path.join(SOURCE, "deploy", b[0])) and b[0] not in compose["volumes"]]
ok(not missing and all(b[2:] == ["ro"] for b in binds if b[0].startswith(".")),
   "what is mounted there is here, and only read", missing)
with open(os.path.join(SOURCE, "deploy/prometheus/prometheus.yml"), encoding="utf-8") as f:
    token_file = yaml.safe_load(f)["scrape_configs"][0]["authorization"]["credentials_file"]
ok(token_file in prometheus["entrypoint"][2] and os.path.dirname(token_file) in prometheus["tmpfs"] and
   any("--config.file=" + b[1] + "/prometheus.yml" in prometheus["command"] for b in binds),
   "Prometheus finds its token where it was written", token_file)
with open(os.path.join(SOURCE, "deploy/grafana/dashboards.yml"), encoding="utf-8") as f:
    place = yaml.safe_load(f)["providers"][0]["options"]["path"]
ok(place + "/psd.json" in [b[1] for b in binds], "the dashboard is where Grafana looks for it", place)

# ---- with TLS ----

with open(COMPOSE.replace(".yaml", ".tls.yaml"), encoding="utf-8") as f:
    tls = yaml.safe_load(f)["services"]
secure_watch = tls.pop("prometheus")
ok(set(tls) == set(services), "all have certificates with compose.tls.yaml", list(tls))
ok(all(s["volumes"] == ["./certs:/certs:ro"] for s in tls.values()), "from one directory, which they only read")
for name in services:
    own = name if name in shards else "worker"
    files = {"PSD_TLS_CA": "ca.pem", "PSD_TLS_CERT": own + ".pem", "PSD_TLS_KEY": own + ".key"}
    ok(tls[name]["environment"] == {k: "/certs/" + v for k, v in files.items()}, name + " shows its own")
with tempfile.TemporaryDirectory() as place:
    hosts = ["%s=%s,127.0.0.1" % (n, n) for n in shards] + ["worker="]
    with open(COMPOSE.replace(".yaml", ".tls.yaml"), encoding="utf-8") as f:
        told = "make-certs.sh --owner 7420 deploy/certs " + " ".join(hosts) in f.read()
    made = subprocess.run([os.path.join(SOURCE, "deploy/make-certs.sh"), place, *hosts], text=True, capture_output=True,
                          check=False)
    must(told and made.returncode == 0, "make-certs.sh makes them as its head says", made.stderr)
    for name, service in shards.items():
        words = tls[name]["command"]
        ok(words == service["command"] + ["--tls-cert", "/certs/%s.pem" % name, "--tls-key", "/certs/%s.key" % name,
                                          "--tls-client-ca", "/certs/ca.pem", "--http-tls"], name + "'s command is the other's and theirs",
           words)
        no = said_no([w.replace("/certs", place) for w in words], service["environment"])
        ok(no == "", "which is accepted", no)

configs = []
for name in ("prometheus.yml", "prometheus.tls.yml"):
    with open(os.path.join(SOURCE, "deploy/prometheus", name), encoding="utf-8") as f:
        configs.append(yaml.safe_load(f))
scheme, wants = (configs[1]["scrape_configs"][0].pop(key) for key in ("scheme", "tls_config"))
ok(configs[0] == configs[1] and scheme == "https" and wants["min_version"] == "TLS13",
   "Prometheus asks the same shards over TLS, for the same", configs, scheme)
ok([w.replace(".tls.yml", ".yml") for w in secure_watch["command"]] == prometheus["command"] != secure_watch["command"] and
   secure_watch["volumes"] == ["./certs/ca.pem:%s:ro" % wants["ca_file"]], "it is told so, and has the CA and no more of it",
   secure_watch)

# ---- the schema ----

docker = shutil.which("docker")
if docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
    ran = subprocess.run([docker, "compose", "-f", COMPOSE, "config", "--quiet"], text=True, capture_output=True, check=False,
                         env={**os.environ, **TOKENS})
    ok(ran.returncode == 0, "docker compose finds nothing wrong", ran.stderr)
else:
    skip("docker compose finds nothing wrong", "docker compose is not installed")

finish()
