#!/usr/bin/env python3
"""deploy/prometheus and deploy/grafana against a real psd and the guide's list of what it has: every metric that they speak
of is one of these, under its labels; and promtool, where there is one, finds nothing wrong with the page, the rules, their tests and the dashboard's
questions. Prints TAP. PSD_BIN names psd, PROMTOOL promtool."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from tap import finish, must, ok, skip

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
PSD = os.environ.get("PSD_BIN", "psd")
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
RULES = os.path.join(SOURCE, "deploy/prometheus/psd.rules.yml")
GUIDE = os.path.join(SOURCE, "deploy/README.md")
DASHBOARD = os.path.join(SOURCE, "deploy/grafana/psd.json")
WAIT_S = 60
PROMETHEUS_OWN = {"up", "ALERTS"}
# These have samples only after a save.
SAVED = {"psd_save_last_success_timestamp_seconds", "psd_save_last_duration_seconds", "psd_save_last_bytes"}
TARGET_LABELS = {"job", "instance", "alertname", "alertstate", "severity"}


def wait_for(log, pattern):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        with open(log, encoding="utf-8") as f:
            found = re.search(pattern, f.read())
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise RuntimeError("psd did not say " + pattern)


@contextlib.contextmanager
def psd_with(directory, *options):
    """A psd with these options; its log. It has ended well afterwards."""
    log = os.path.join(directory, "log")
    live = tempfile.mkdtemp(prefix="psd-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else directory)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
    with open(log, "w", encoding="utf-8") as out:
        psd = subprocess.Popen([PSD, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--memory", "64MiB", "--live-dir",
                                live + "/live", *options], stderr=out, stdin=subprocess.DEVNULL, env=clean)
    try:
        yield log
        psd.send_signal(signal.SIGTERM)
        ok(psd.wait(WAIT_S) == 0, "psd ends as it should")
    finally:
        psd.kill()
        psd.wait()
        shutil.rmtree(live)


def page_of(directory):
    """The page /metrics after a save, of a psd with TLS."""
    pair = ["--tls-cert", directory + "/shard.pem", "--tls-key", directory + "/shard.key"]
    with psd_with(directory, *pair, "--durable-dir", directory + "/durable", "--save-interval", "100ms", "--save-pause", "10ms") as log:
        address = wait_for(log, r"http=(\S+)")
        wait_for(log, r"(save done)")
        with urllib.request.urlopen("http://%s/metrics" % address, timeout=WAIT_S) as reply:
            return reply.read().decode()


def families(page):
    """name -> (kind, labels that its samples have)"""
    found = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found[name] = (kind, set())
        elif not line.startswith("#"):
            found[name][1].update(re.findall(r'(\w+)="', line))
    return found


def described():
    """The same, of all that the guide lists."""
    with open(GUIDE, encoding="utf-8") as f:
        listed = re.findall(r"^\| `((?:psd|process)_\w+)` \| (\w+) \| ([\w, ]*) \|", f.read(), re.M)
    return {name: (kind, set(re.findall(r"\w+", labels)) | ({"le"} if kind == "histogram" else set()))
            for name, kind, labels in listed}


def contradicts(page, known):
    """Differences of the page from the guide. A family without samples has no labels yet."""
    return [name for name, (kind, labels) in families(page).items()
            if name not in known or kind != known[name][0] or labels - known[name][1]
            or re.search(r"^%s(_bucket)?[{ ]" % name, page, re.M) and labels != known[name][1]]


def questions(dashboard):
    """Every expression in it."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for note in dashboard["annotations"]["list"]:
        yield note["expr"]


def unknown(expression, known):
    """The names in it that are neither metrics nor labels of psd."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    for name, selector in re.findall(r"\b((?:psd|process)_\w+)(\{[^}]*\})?", bare):
        family = next((name[:-len(s)] for s in ("_bucket", "_sum", "_count") if name.endswith(s) and name not in known), name)
        kind, labels = known.get(family, (None, set()))
        if kind is None or (kind == "histogram") != (family != name):
            yield name
        elif kind == "counter" and not re.search(r"(rate|increase|changes)\(" + name, bare):
            yield name + " without a rate"
        for label in re.findall(r"(\w+)\s*[=!]", selector):
            if label not in labels | TARGET_LABELS:
                yield name + "{" + label + "}"


def unnamed(target, known):
    """Labels that a query's legend names and none of its metrics has."""
    there = set().union(*(known.get(re.sub("_(bucket|sum|count)$", "", name) if name not in known else name, ("", set()))[1]
                          for name in re.findall(r"\b((?:psd|process)_\w+)", target["expr"])))
    return set(re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))) - there - TARGET_LABELS


# The queries run over ten minutes of these, one sample a minute: a job in its steps, one that rests, one whose second
# round has begun, and one that has reported the first metric alone; certificates of which one ends in ten days.
JOB = 'psd_job_metric{job="psd", instance="a", job_name="%s", index="%s"%s}'
SERIES = [(JOB % ("train", 0, ', metric="rows"'), "0+100x10"), (JOB % ("train", 1, ', metric="loss"'), "7+50x10"),
          (JOB % ("train", 2, ""), "100-25x10"), (JOB % ("rests", 0, ""), "800x10"), (JOB % ("rests", 1, ""), "80x10"),
          (JOB % ("anew", 0, ""), "9000+100x8 0x2"), (JOB % ("anew", 1, ""), "900+100x8 0x2"), (JOB % ("first", 0, ""), "0+5x10"),
          ('psd_certificate_expiry_timestamp_seconds{job="psd", instance="a", for="tcp"}', "864600x10"),
          ('psd_certificate_expiry_timestamp_seconds{job="psd", instance="b", for="http"}', "9000000x10")]
ANSWERS = {
    "Means": [('{job_name="train", index="1", metric="loss"}', 0.5), ('{job_name="train", index="2"}', -0.25)],
    "Added up": [('{job_name="train", index="0", metric="rows"}', 1000), ('{job_name="train", index="1", metric="loss"}', 507),
                 ('{job_name="train", index="2"}', -150), ('{job_name="rests", index="0"}', 800),
                 ('{job_name="rests", index="1"}', 80), ('{job_name="anew", index="0"}', 0), ('{job_name="anew", index="1"}', 0),
                 ('{job_name="first", index="0"}', 50)],
    "Certificates end in": [("{}", 10)]}


def tried(dashboard):
    """A promtool test of the queries of the panels in ANSWERS."""
    asked = [{"expr": re.sub(r"\$__rate_interval", "5m", t["expr"]).replace("$job", "psd").replace("$instance", ".*"),
              "eval_time": "10m", "exp_samples": [{"labels": labels, "value": value} for labels, value in ANSWERS[p["title"]]]}
             for p in dashboard["panels"] if p["title"] in ANSWERS for t in p["targets"]]
    ok(len(asked) == len(ANSWERS), "the dashboard has workers' metrics and certificates", asked)
    return {"tests": [{"interval": "1m", "promql_expr_test": asked,
                       "input_series": [{"series": series, "values": values} for series, values in SERIES]}]}


def written(path, what):
    with open(path, "w", encoding="utf-8") as f:  # JSON is YAML
        json.dump(what, f)
    return path


def promtool(sentence, *words, text=None):
    if not PROMTOOL:
        skip(sentence, "promtool is not installed (Debian: prometheus)")
        return
    ran = subprocess.run([PROMTOOL, *words], input=text, text=True, capture_output=True, check=False)
    ok(ran.returncode == 0, sentence, ran.stdout, ran.stderr)


def configured(work, name, *changes):
    """A copy of deploy/prometheus/NAME in which files that are named are there."""
    with open(os.path.join(SOURCE, "deploy/prometheus", name), encoding="utf-8") as f:
        text = f.read()
    for pattern, instead in ((r"credentials_file: [^ }]*", "credentials_file: token"), (r"/certs/", ""), *changes):
        text = re.sub(pattern, instead, text)
    with open(os.path.join(work, name), "w", encoding="utf-8") as f:
        f.write(text)
    return os.path.join(work, name)


def secure(work):
    """A token, and certificates of make-certs.sh."""
    with open(os.path.join(work, "token"), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write("0123456789abcdef")
    made = subprocess.run([os.path.join(SOURCE, "deploy/make-certs.sh"), work, "shard=127.0.0.1"], text=True, capture_output=True,
                          check=False)
    must(made.returncode == 0, "make-certs.sh makes certificates", made.stderr)


def asked_of(address, query):
    with urllib.request.urlopen("http://%s/api/v1/query?query=%s" % (address, query), timeout=WAIT_S) as reply:
        return [float(r["value"][1]) for r in json.load(reply)["data"]["result"]]


def scraped(work):
    """Prometheus itself, with prometheus.tls.yml, of a psd with a token and TLS."""
    sentence = "Prometheus scrapes psd over TLS, with its token"
    if not shutil.which("prometheus"):
        skip(sentence, "it is not installed")
        return
    token, cert, key = (os.path.join(work, name) for name in ("token", "shard.pem", "shard.key"))
    with psd_with(work, "--durable-dir", "none", "--http-tokens", token, "--http-tls", "--http-tls-cert", cert,
                  "--http-tls-key", key) as log, open(os.path.join(work, "said"), "w", encoding="utf-8") as said:
        config = configured(work, "prometheus.tls.yml", (r"targets: .*", 'targets: ["%s"]' % wait_for(log, r"http=(\S+)")),
                            (r"15s", "500ms"))
        prometheus = subprocess.Popen(["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + work + "/tsdb",
                                       "--web.listen-address=127.0.0.1:0"], stdout=said, stderr=said)
        try:
            address = wait_for(said.name, r'msg="Listening on" address=(\S+)')
            wait_for(said.name, r"(ready to receive web requests)")
            end = time.monotonic() + WAIT_S
            while not (up := asked_of(address, "up")) and time.monotonic() < end:
                time.sleep(0.1)
            ok(up == [1] and asked_of(address, "sum(psd_state)") == [1], sentence, up)
        finally:
            prometheus.terminate()
            prometheus.wait()


with tempfile.TemporaryDirectory() as work:
    secure(work)
    page = page_of(work)
    known = described()
    wrong = contradicts(page, known)
    ok(len(known) > 80 and not wrong, "each metric has the kind and the labels that the guide says", wrong)
    ok(SAVED <= set(families(page)), "a save that was made is on the page")
    with open(RULES, encoding="utf-8") as f:
        rules = f.read()
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    asked = list(questions(dashboard))

    expressions = re.findall(r"^\s+expr: (.*)$", rules, re.M)
    ok(len(expressions) == len(re.findall(r"- alert:", rules)) > 10, "every alert has an expression", len(expressions))
    wrong = [w for e in expressions for w in unknown(e, known)]
    ok(not wrong, "the alerts ask for what psd has", wrong)
    ok(len(asked) > 40, "the dashboard has questions", len(asked))
    wrong = [w for e in asked for w in unknown(e, known)]
    ok(not wrong, "and they are for what psd has", wrong)
    wrong = [(p["title"], w) for p in dashboard["panels"] for t in p.get("targets", []) for w in unnamed(t, known)]
    ok(not wrong, "named by labels that these have", wrong)
    ids = [p["id"] for p in dashboard["panels"]]
    ok(len(ids) == len(set(ids)), "its panels are told apart")
    places = [(p["gridPos"]["x"] + i, p["gridPos"]["y"] + j) for p in dashboard["panels"]
              for i in range(p["gridPos"]["w"]) for j in range(p["gridPos"]["h"])]
    ok(len(places) == len(set(places)) and max(x for x, _ in places) < 24, "and none lies on another")
    ok(all(p.get("description") for p in dashboard["panels"] if p["type"] != "row"), "each says what it shows")
    left = {name for name in known if name.startswith("psd_") and not any(name in e for e in asked + expressions)}
    print("# on neither: " + " ".join(sorted(left)))

    promtool("promtool finds nothing wrong with the page", "check", "metrics", text=page)
    promtool("nor with the alerts", "check", "rules", RULES)
    shutil.copy(RULES, work)
    for name in ("prometheus.yml", "prometheus.tls.yml"):
        promtool("nor with %s" % name, "check", "config", configured(work, name))
    scraped(work)
    promtool("each alert comes when it should", "test", "rules", os.path.join(SOURCE, "deploy/prometheus/psd.rules.test.yml"))
    path = written(os.path.join(work, "questions.json"), {"groups": [{"name": "dashboard", "rules": [
        {"record": "question:%d" % i, "expr": re.sub(r"\$__rate_interval", "5m", e)} for i, e in enumerate(asked)]}]})
    promtool("the dashboard's questions are PromQL", "check", "rules", path)
    path = written(os.path.join(work, "answers.json"), tried(dashboard))
    promtool("workers' metrics are means over what the first one rose by, and days are left", "test", "rules", path)

finish()
