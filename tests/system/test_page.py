#!/usr/bin/env python3
"""The page that psd serves. Its files: what they are sent as, that nothing in them leads elsewhere, and that what is
asked for wrongly is refused. In Chromium, where there is one: what it shows of workers that train, at a phone's width and
in the dark too, that it asks for a token, and that names are never more than text. Prints TAP. PSD_BIN, PSRUN_BIN and DIGITS_BIN name the programs, CHROMIUM
the browser."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from tap import finish, ok, skip

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
PSRUN, PSD, DIGITS = (os.environ.get(name + "_BIN", name.lower()) for name in ("PSRUN", "PSD", "DIGITS"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
WAIT_S = 60
JOB = "<script>document.title='owned'</script><b id=inside>"
FILES = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml"}
POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
          "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
OURS = {"http://www.w3.org/2000/svg"}  # the name of a language, not an address

TOKEN = "0123456789abcdef-of-http"

locked = False  # psd takes a token


def ask(path, method="GET", **headers):
    """The status, the headers and the body."""
    request = urllib.request.Request("http://" + address + path, method=method,
                                     headers={**({"Authorization": "Bearer " + TOKEN} if locked else {}), **headers})
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


HEADLESS = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def browse(*words):
    """Chromium's rendering of the page, after some seconds of virtual time."""
    profile = tempfile.mkdtemp(prefix="profile-", dir=work)
    ran = subprocess.run([*HEADLESS, "--user-data-dir=" + profile, "--virtual-time-budget=4000", *words], text=True,
                         timeout=WAIT_S, capture_output=True, check=False)
    return ran.stdout, ran.stderr


class Phone:
    """A Chromium that is told what to do, through a pair of pipes (DevTools protocol), and that takes itself for a phone of
    360 by 800 points at night."""

    def __init__(self):
        (there_in, self.out), (self.back, there_out) = os.pipe(), os.pipe()
        self.number, self.rest = 0, b""
        script = 'exec 3<&%d 4>&%d; exec "$@"' % (there_in, there_out)
        self.run = subprocess.Popen(["bash", "-c", script, "bash", *HEADLESS, "--remote-debugging-pipe", "--user-data-dir=" +
                                     tempfile.mkdtemp(prefix="profile-", dir=work)], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(there_in, there_out))
        os.close(there_in)
        os.close(there_out)
        self.session = None
        page = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.tell("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.tell("Page.enable")
        self.tell("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=2, mobile=True)
        self.scheme("dark")

    def tell(self, method, **params):
        """One command; returns the answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            while b"\0" in self.rest:
                said, self.rest = self.rest.split(b"\0", 1)
                answer = json.loads(said)
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise RuntimeError("%s: %s" % (method, answer["error"]))
                    return answer["result"]
            if select.select([self.back], [], [], WAIT_S)[0]:
                more = os.read(self.back, 1 << 16)
                if not more:
                    break
                self.rest += more
        raise RuntimeError("Chromium does not answer " + method)

    def scheme(self, name):
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.tell("Page.navigate", url=url)

    def see(self, expression):
        """The value of an expression in the page."""
        return self.tell("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def close(self):
        os.close(self.out)
        os.close(self.back)
        self.run.terminate()
        self.run.wait(WAIT_S)


# How bright an element's background and text are, from 0 to 255.
LIGHT = """(() => { const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; const s = getComputedStyle(document.body);
  return [light(s.backgroundColor), light(s.color)]; })()"""
# Elements that are wider than the screen, though in no box that scrolls.
WIDE = """[...document.querySelectorAll("body, body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 &&
  !e.closest(".scroll, .plot svg")).map(e => e.tagName + "." + e.className + "#" + e.id)"""
SERVES = """document.getElementById("state").textContent === "serving" &&
  document.querySelectorAll("#workers tbody tr").length === 2 && document.querySelectorAll("#rate-charts figure").length > 0"""


def cells(dom, table):
    """The texts of a table's rows, as they are shown."""
    body = re.search(r'<table id="%s"[^>]*>(.*?)</table>' % table, dom, re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", body.group(1), re.S) if body else []
    return [[re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)] for row in rows]


def workers_train():
    """Both have reported metrics."""
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
    ok(live["jobs"][0]["metric_names"][:3] == ["rows", "loss", "accuracy"], "whose metrics have names", live["jobs"])
    ok(sorted(w["worker"] for w in live["workers"]) == [0, 1] and live["totals"]["pushes_applied"] > 0, "and its workers")
    with open(os.path.join(SOURCE, "deploy/README.md"), encoding="utf-8") as f:
        guide = f.read().split("### The page and its JSON", 1)[1].split("\n## ")[0]
    lists = [live, live["jobs"][0], live["workers"][0], live["variables"][0]]
    missing = [k for members in lists for k in members if "`%s`" % k not in guide]
    missing = [k for k in missing if not re.search(r"^(pushe|pull|refused|dropped)", k)]  # as the guide says in words
    ok(not missing, "the guide has every member", missing)
    ok(re.search(r'^psd_job_metric\{job_name="[^"]*",index="1",metric="loss"\} \d', ask("/metrics")[2], re.M),
       "so has Prometheus")
    if PROMTOOL:
        ran = subprocess.run([PROMTOOL, "check", "metrics"], input=ask("/metrics")[2], text=True, capture_output=True,
                             check=False)
        ok(ran.returncode == 0, "promtool finds nothing wrong with metrics of jobs, variables and workers", ran.stderr)
    else:
        skip("promtool finds nothing wrong", "promtool is not installed (Debian: prometheus)")
    status, headers, body = ask("/api/live", "HEAD")
    ok(status == 200 and body == "" and int(headers["Content-Length"]) > 100, "HEAD has none")
    samples = wait_for(lambda: (s := json.loads(ask("/api/history")[2])["samples"]) and len(s) > 2 and s,
                       "the history has samples")
    names = json.loads(ask("/api/history")[2])["jobs"]
    ok(names[0]["id"] == live["jobs"][0]["id"] and names[0]["metric_names"][1] == "loss", "the history has them, too", names)
    ok(all(a["at"] < b["at"] for a, b in zip(samples, samples[1:])) and samples[-1]["jobs"][0]["metrics"][0] > 0,
       "a history is kept while nobody looks", samples)


def check_phone():
    """At 360 points, in the dark and in the light, and behind a token."""
    phone = Phone()
    try:
        phone.open("http://%s/" % address)
        wait_for(lambda: phone.see('document.getElementById("door")?.hidden === false'), "the page asks for a token")
        ok(phone.see('document.querySelectorAll("td").length') == 0 and phone.see("document.title") == "psd",
           "without a token the page shows nothing")
        enter = 'document.getElementById("token").value = %s; document.getElementById("door").requestSubmit()'
        phone.see(enter % json.dumps("not-the-token-of-this"))
        wait_for(lambda: phone.see('document.getElementById("news").textContent.includes("not known")'), "it is not known")
        phone.see(enter % json.dumps(TOKEN))
        wait_for(lambda: phone.see(SERVES), "the page shows workers and curves")
        ok(phone.see('document.getElementById("door").hidden && !document.getElementById("all").hidden'),
           "with one it shows all")
        ok(phone.see("innerWidth") == 360, "a phone's width", phone.see("innerWidth"))
        ok(phone.see("document.scrollingElement.scrollWidth <= innerWidth") and phone.see(WIDE) == [],
           "the page is no wider than that", phone.see("document.scrollingElement.scrollWidth"), phone.see(WIDE))
        ground, ink = phone.see(LIGHT)
        ok(ground < 40 and ink > 200, "in the dark it is dark, and words are light", ground, ink)
        ok(phone.see("""[...document.querySelectorAll("section, table, meter")].every(e => getComputedStyle(e).colorScheme
          .includes("dark"))"""), "in all of it")
        phone.scheme("light")
        ground, ink = phone.see(LIGHT)
        ok(ground > 200 and ink < 60, "by day it is light, and words are dark", ground, ink)
        phone.open("http://%s/?again" % address)
        wait_for(lambda: phone.see("location.search") == "?again" and phone.see(SERVES), "the tab remembers its token")
        ok(phone.see('document.getElementById("door").hidden'), "who has looked is not asked again in the same tab")
    finally:
        phone.close()


def check_trace():
    status, headers, body = ask("/api/trace")
    trace = json.loads(body)
    events = trace["traceEvents"]
    ok(status == 200 and headers["Content-Type"] == "application/json" and trace["otherData"]["psd"],
       "the timeline is a trace of psd's", body[:500])
    ok([e["args"]["name"] for e in events if e["name"] == "process_name"] == ["shard 0"] and
       {"turn", "apply", "commit", "answer"} <= {e["name"] for e in events if e["ph"] == "X"} and
       all(e["ts"] >= 0 and e["dur"] >= 0 for e in events if e["ph"] == "X"), "with the shard's turns", body[:500])
    ok(0 < sum(e["name"] == "turn" for e in events) <= 4096, "the newest of them", len(events))


def check_browser():
    dom, errors = browse("--dump-dom", "http://%s/" % address)
    ok('class="badge good">serving<' in dom, "the page shows that the shard serves", dom[:3000], errors)
    ok("<title>lab shard 0" in dom and 'id="inside"' not in dom and "&lt;b id=inside&gt;" in dom,
       "a job's name is text, whatever is in it", dom[:1000])
    workers = cells(dom, "workers")
    ok(len(workers) == 3 and [w[0:2] for w in workers[1:]] == [["0", "live"], ["1", "live"]] and
       all("rows " in w[-1] and "loss " in w[-1] for w in workers[1:]), "workers with their metrics", workers)
    ok(len(cells(dom, "variables")) > 2 and len(cells(dom, "ages")) > 0, "variables and ages")
    ok(re.search(r'<div id="job-1">.*?<strong>loss</strong>.*?<strong>accuracy</strong>', dom, re.S) and
       len(re.findall(r'<path d="M[\d. L]+" class="line-0"', dom)) >= 4, "curves of what workers add up")
    ok(re.search(r'aria-label="Bytes a second over [^"]*; now pushed [^"]*B/s, pulled [^"]*B/s"', dom),
       "which say in words what they show")
    ok(re.search(r'id="news" role="status"></p>', dom), "and nothing is missing", re.findall(r'id="news".*?</p>', dom))


def train(then, environment):
    """psd and two workers, until the checks are done."""
    global address
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
    with open(log, "w", encoding="utf-8") as out:
        run = subprocess.Popen([PSRUN, "--psd", PSD, "--cluster", "lab", "--workers", "2", "--cpus-per-worker", "1",
                                "--psd-option=--http=127.0.0.1:0", "--psd-option=--memory=64MiB", "--", DIGITS, "--model",
                                "conv", "--batch", "1500", "--epochs", "1000000", "--svg", "", "--job", JOB],
                               stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**clean, **environment},
                               start_new_session=True)
    try:
        address = wait_for(lambda: said(r"http=(\S+)"), "psd listens")
        wait_for(workers_train, "workers train")
        for check in then:
            check()
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(WAIT_S)


PAGES = ["127.0.0.1:9420", "127.0.0.1:9421"]
ROWS = """[...document.querySelectorAll("#shards tbody tr")].map(r => [...r.children].map(c => c.textContent).concat(r.className))"""


class Cluster:
    """Two shards that know of each other's pages, and nobody who trains."""

    def __init__(self, environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
        self.runs = []
        for i in range(2):
            with open(os.path.join(work, "shard-%d" % i), "w", encoding="utf-8") as out:
                self.runs.append(subprocess.Popen(
                    [PSD, "--listen", "none", "--unix", os.path.join(work, "socket-%d" % i), "--cluster", "lab", "--shard", str(i),
                     "--shards", "2", "--live-dir", os.path.join(work, "live-%d" % i), "--memory", "64MiB", "--http-shards",
                     ",".join(PAGES)], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**clean, **environment}))
        for page in PAGES:
            wait_for(lambda page=page: self.serves(page), page + " serves")

    def serves(self, page):
        try:
            with urllib.request.urlopen("http://%s/readyz" % page, timeout=WAIT_S) as reply:
                return reply.status == 200
        except OSError:
            return False

    def end(self):
        for run in self.runs:
            run.kill()
            run.wait(WAIT_S)


def check_pages():
    """What a browser is told that has the page of another shard."""
    there, else_where = "http://" + PAGES[1], "http://127.0.0.1:9422"
    status, headers, body = ask("/api/cluster")
    ok(status == 200 and json.loads(body) == {"shard": 0, "pages": ["http://" + p for p in PAGES]},
       "a shard says where all pages are", body)
    headers = ask("/api/live", Origin=there)[1]
    ok(headers["Access-Control-Allow-Origin"] == there and headers["Vary"] == "Origin" and
       "Access-Control-Allow-Credentials" not in headers, "the page of another shard may read figures", headers)
    ok("Access-Control-Allow-Origin" not in ask("/api/live", Origin=else_where)[1], "no other page may")
    status, headers, body = ask("/api/live", "OPTIONS", Origin=there)
    ok(status == 204 and headers["Access-Control-Allow-Headers"] == "Authorization" and body == "",
       "it may send a token", status, headers)
    ok(ask("/api/live", "OPTIONS", Origin=else_where)[0] == 405, "others are refused that")
    policy = dict(p.strip().split(" ", 1) for p in ask("/")[1]["Content-Security-Policy"].split(";"))
    ok(policy["connect-src"] == "'self' http://%s http://%s" % tuple(PAGES), "a page may ask the shards, and nobody else", policy)


def check_all_shards():
    """Both shards on each page; one is killed."""
    cluster = Cluster({"PSD_HTTP_TOKEN": TOKEN})
    phone = Phone()
    try:
        phone.open("http://%s/" % PAGES[1])
        wait_for(lambda: phone.see('document.getElementById("door")?.hidden === false'), "the page asks for a token")
        phone.see('document.getElementById("token").value = %s; document.getElementById("door").requestSubmit()' %
                  json.dumps(TOKEN))
        rows = wait_for(lambda: (r := phone.see(ROWS)) and len(r) == 2 and all(c[1] == "serving" for c in r) and r,
                        "all shards are shown")
        ok([r[0] for r in rows] == ["shard 0", "shard 1"], "one page shows all shards, with its token", rows)
        ok(phone.see("document.scrollingElement.scrollWidth <= innerWidth"), "on a phone as well")
        cluster.runs[0].kill()
        rows = wait_for(lambda: (r := phone.see(ROWS)) and r[0][1].startswith("no answer") and r, "the killed one is seen")
        ok(rows[0][-1] == "bad" and rows[1][1] == "serving" and rows[1][-1] != "bad", "a shard that is gone is red", rows)
        ok(phone.see('document.getElementById("state").textContent') == "serving", "the page's own shard serves")
        cluster.runs[1].kill()
        wait_for(lambda: phone.see('document.getElementById("state").textContent') == "no answer", "its own end is seen")
        ok(phone.see('document.getElementById("state").className') == "badge bad", "a page whose shard is gone is red")
    finally:
        phone.close()
        cluster.end()


with tempfile.TemporaryDirectory() as work:
    log = os.path.join(work, "log")
    train([check_files, check_figures, check_trace] + [check_browser] * bool(CHROMIUM), {})
    shards = Cluster({})
    try:
        address = PAGES[0]
        check_pages()
    finally:
        shards.end()
    if CHROMIUM:
        locked = True
        train([check_phone], {"PSD_HTTP_TOKEN": TOKEN})
        check_all_shards()
    else:
        skip("in a browser", "chromium is not installed (Debian: chromium)")

finish()
