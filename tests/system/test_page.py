#!/usr/bin/env python3
"""The page that psd serves. Its files: what they are sent as, that nothing in them leads elsewhere, and that what is
asked for wrongly is refused. In Chromium, where there is one: what it shows of workers that train, at a phone's width
too, and that names are never more than text. Prints TAP. PSD_BIN, PSRUN_BIN and DIGITS_BIN name the programs, CHROMIUM
the browser."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
PSRUN, PSD, DIGITS = (os.environ.get(name + "_BIN", name.lower()) for name in ("PSRUN", "PSD", "DIGITS"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
WAIT_S = 60
JOB = "<script>document.title='owned'</script><b id=inside>"
FILES = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml"}
POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
          "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
OURS = {"http://www.w3.org/2000/svg"}  # the name of a language, not an address

number = failures = 0


def ok(holds, sentence, *why):
    global number, failures
    number += 1
    failures += not holds
    print(("ok" if holds else "not ok"), number, "-", sentence, flush=True)
    if not holds:
        for line in why:
            print("#", str(line).replace("\n", "\n# "))


def skip(sentence, why):
    global number
    number += 1
    print("ok %d - %s # SKIP %s" % (number, sentence, why))


def ask(path, method="GET"):
    """The status, the headers and the body."""
    request = urllib.request.Request("http://" + address + path, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def wait_for(what, sentence):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise RuntimeError("waited in vain until " + sentence)


def said(pattern):
    with open(log, encoding="utf-8", errors="replace") as f:
        found = re.search(pattern, f.read())
    return found and found.group(1)


def browse(*words):
    """What Chromium makes of the page, after some seconds that do not really pass."""
    profile = tempfile.mkdtemp(prefix="profile-", dir=work)
    ran = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                          "--user-data-dir=" + profile, "--virtual-time-budget=4000", *words], text=True, timeout=WAIT_S,
                         capture_output=True, check=False)
    return ran.stdout, ran.stderr


def cells(dom, table):
    """The texts of a table's rows, as they are shown."""
    body = re.search(r'<table id="%s"[^>]*>(.*?)</table>' % table, dom, re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", body.group(1), re.S) if body else []
    return [[re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)] for row in rows]


def workers_train():
    """Both have told metrics."""
    live = json.loads(ask("/api/live")[2])
    return live["measured"] and live["totals"]["pushes_applied"] > 0 and len(live["workers"]) == 2 and all(
        w["metrics"] and w["metrics"][0] > 0 for w in live["workers"])


def check_files():
    for path, kind in FILES.items():
        status, headers, body = ask(path)
        policy = dict(p.strip().split(" ", 1) for p in headers["Content-Security-Policy"].split(";"))
        ok(status == 200 and headers["Content-Type"].startswith(kind) and headers["X-Content-Type-Options"] == "nosniff"
           and all(policy.get(k) == v for k, v in POLICY.items()), path + " is what it says, and may load nothing else",
           status, headers)
        elsewhere = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"'<>]*", re.sub(r"/\*.*?\*/", "", body, flags=re.S))) - OURS
        ok(not elsewhere, "and names no other address", elsewhere)
        status, headers, nothing = ask(path, "HEAD")
        ok(status == 200 and nothing == "" and int(headers["Content-Length"]) == len(body.encode()), "HEAD tells its size")
    page, script = ask("/")[2], ask("/page.js")[2]
    ok(not re.search(r"<script(?![^>]*\bsrc=)|\bon\w+=|\bstyle=|javascript:", page), "nothing in the page is a script")
    ok(not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", script),
       "and the script writes text alone")
    wanted = set(re.findall(r'\bat\("([\w-]+)"\)', script))
    ok(len(wanted) > 15 and all('id="%s"' % i in page for i in wanted), "what the script fills in is there", wanted)
    for path, method, status in (("/page.html", "GET", 404), ("/page.css/", "GET", 404), ("/api", "GET", 404),
                                 ("/api/live/", "GET", 404), ("/../page.js", "GET", 404), ("/index.html", "GET", 404),
                                 ("/api/live", "POST", 405), ("/page.js", "PUT", 405), ("/", "OPTIONS", 405)):
        got = ask(path, method)[0]
        ok(got == status, "%s %s is refused" % (method, path), got)


def check_figures():
    status, headers, body = ask("/api/live?x=1")
    live = json.loads(body)
    ok(status == 200 and headers["Content-Type"] == "application/json" and "Access-Control-Allow-Origin" not in headers,
       "figures are JSON, for this page alone", headers)
    ok(live["cluster"] == "lab" and live["state"] == "serving" and [j["name"] for j in live["jobs"]] == [JOB],
       "of this cluster and its job", body[:1000])
    ok(sorted(w["worker"] for w in live["workers"]) == [0, 1] and live["totals"]["pushes_applied"] > 0, "and its workers")
    with open(os.path.join(SOURCE, "deploy/README.md"), encoding="utf-8") as f:
        guide = f.read().split("### The page and its JSON", 1)[1].split("\n## ")[0]
    lists = [live, live["jobs"][0], live["workers"][0], live["variables"][0]]
    missing = [k for members in lists for k in members if "`%s`" % k not in guide]
    missing = [k for k in missing if not re.search(r"^(pushe|pull|refused|dropped)", k)]  # as the guide says in words
    ok(not missing, "the guide has every member", missing)
    status, headers, body = ask("/api/live", "HEAD")
    ok(status == 200 and body == "" and int(headers["Content-Length"]) > 100, "HEAD has none")
    samples = wait_for(lambda: (s := json.loads(ask("/api/history")[2])["samples"]) and len(s) > 2 and s,
                       "the history has samples")
    ok(all(a["at"] < b["at"] for a, b in zip(samples, samples[1:])) and samples[-1]["jobs"][0]["metrics"][0] > 0,
       "a history is kept while nobody looks", samples)


def check_browser():
    if not CHROMIUM:
        skip("in a browser", "chromium is not installed (Debian: chromium)")
        return
    dom, errors = browse("--dump-dom", "http://%s/?metrics=rows,loss,accuracy" % address)
    ok('class="badge good">serving<' in dom, "the page shows that the shard serves", dom[:3000], errors)
    ok("<title>lab shard 0" in dom and 'id="inside"' not in dom and "&lt;b id=inside&gt;" in dom,
       "a job's name is text, whatever is in it", dom[:1000])
    workers = cells(dom, "workers")
    ok(len(workers) == 3 and [w[1:3] for w in workers[1:]] == [["0", "live"], ["1", "live"]] and
       all("rows " in w[-1] and "loss " in w[-1] for w in workers[1:]), "workers with their metrics", workers)
    ok(len(cells(dom, "variables")) > 2 and len(cells(dom, "ages")) > 0, "variables and ages")
    ok(re.search(r'<div id="job-1">.*?<strong>loss</strong>.*?<strong>accuracy</strong>', dom, re.S) and
       len(re.findall(r'<path d="M[\d. L]+" class="line-0"', dom)) >= 4, "curves of what workers add up")
    ok(re.search(r'aria-label="Bytes a second over [^"]*; now pushed [^"]*B/s, pulled [^"]*B/s"', dom),
       "which say in words what they show")
    ok(re.search(r'id="news" role="status"></p>', dom), "and nothing is missing", re.findall(r'id="news".*?</p>', dom))


with tempfile.TemporaryDirectory() as work:
    log = os.path.join(work, "log")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
    with open(log, "w", encoding="utf-8") as out:
        run = subprocess.Popen([PSRUN, "--psd", PSD, "--cluster", "lab", "--workers", "2", "--cpus-per-worker", "1",
                                "--psd-option=--http=127.0.0.1:0", "--psd-option=--memory=64MiB", "--", DIGITS, "--model",
                                "conv", "--batch", "1500", "--epochs", "1000000", "--svg", "", "--job", JOB],
                               stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=clean, start_new_session=True)
    try:
        address = wait_for(lambda: said(r"http=(\S+)"), "psd listens")
        wait_for(workers_train, "workers train")
        check_files()
        check_figures()
        check_browser()
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(WAIT_S)

print("1..%d" % number)
sys.exit(failures > 0)
