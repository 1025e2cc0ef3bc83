#!/usr/bin/env python3
"""deploy/kubernetes without a cluster: do the manifests agree with each other, with the image and with the programs, and
does the memory add up? Prints TAP. PSD_BIN, PSCTL_BIN and DIGITS_BIN name the programs. Their schema is looked at where
kubernetes-validate (of PyPI), kubeconform or kubectl are installed."""

import copy
import os
import shutil
import stat
import subprocess
import tempfile

from tap import finish, ok, skip

try:
    import yaml
except ImportError:
    skip("the manifests fit", "python3-yaml is not installed")
    finish()

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
PLACE = os.path.join(SOURCE, "deploy/kubernetes")
FILES = [os.path.join(PLACE, name) for name in ("shards.yaml", "workers.yaml")]
PROGRAMS = {name: os.environ.get(name.upper() + "_BIN", name) for name in ("psd", "psctl", "digits")}
REST = 160 << 20  # psd's memory beyond that of its options
LIVE_REST = 16 << 20  # and its live directory: files beside the data
SAVE_ON_STOP = 60  # seconds, the default of the option
UNITS = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
MINE = "app.kubernetes.io/part-of"


def size(text):
    digits = text.rstrip("kKmMgGiIbB")
    return int(digits) * UNITS[text[len(digits):].lower()]


def matches(selector, labels):
    return bool(selector) and all(labels.get(k) == v for k, v in selector.items())


documents = []
for path in FILES:
    with open(path, encoding="utf-8") as f:
        documents += [d for d in yaml.safe_load_all(f) if d]
kinds = [d["kind"] for d in documents]
ok(sorted(kinds) == sorted(set(kinds)), "each kind of object is there once", kinds)
by_kind = {d["kind"]: d for d in documents}
config, service, budget, policy, shards, job = (
    by_kind[k] for k in ("ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet", "Job"))
shard_pod, worker_pod = shards["spec"]["template"], job["spec"]["template"]
shard, worker = shard_pod["spec"]["containers"][0], worker_pod["spec"]["containers"][0]
containers = [c for p in (shard_pod, worker_pod)
              for c in p["spec"].get("initContainers", []) + p["spec"]["containers"]]
arguments = dict(a.lstrip("-").split("=", 1) for a in shard["args"])

# ---- who is meant ----

labels = shard_pod["metadata"]["labels"]
others = worker_pod["metadata"]["labels"]
selectors = {"the StatefulSet's": shards["spec"]["selector"]["matchLabels"], "the Service's": service["spec"]["selector"],
             "the disruption budget's": budget["spec"]["selector"]["matchLabels"],
             "the network policy's": policy["spec"]["podSelector"]["matchLabels"],
             "the spread over nodes'": shard_pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]}
for whose, selector in selectors.items():
    ok(matches(selector, labels) and not matches(selector, others), whose + " selector finds the shards, and no worker",
       selector, labels, others)
ok(all(d["metadata"]["labels"].get(MINE) == "psd" for d in documents), "all objects say what they are part of")

# ---- who is where ----

spec = shards["spec"]
ok(spec["serviceName"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None" and
   service["spec"]["publishNotReadyAddresses"], "the Service gives each shard a name, also while it rebuilds")
port = {p["name"]: p["containerPort"] for p in shard["ports"]}
addresses = config["data"]["PSD_SHARDS"].split(",")
wanted = ["%s-%d.%s:%d" % (shards["metadata"]["name"], i, spec["serviceName"], port["workers"])
          for i in range(spec["replicas"])]
ok(addresses == wanted, "the list of shards has the pods' names, in order", addresses, wanted)
ok({p["targetPort"] for p in service["spec"]["ports"]} <= set(port) and
   all(p["port"] == port[p["targetPort"]] for p in service["spec"]["ports"]), "the Service's ports are the shards'", port)
ok(all(p["port"] in port for rule in policy["spec"]["ingress"] for p in rule["ports"]), "so are the network policy's")
allowed = [p["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for p in rule["from"]
           if "podSelector" in p and {"protocol": "TCP", "port": "workers"} in rule["ports"]]
ok(any(matches(a, others) for a in allowed), "which lets the workers in", allowed, others)
ok(all({"configMapRef": {"name": config["metadata"]["name"]}} in c["envFrom"] for c in containers), "all have the same list")
env = {e["name"]: e.get("value", e.get("valueFrom")) for e in worker["env"]}
ok(job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"] ==
   int(env["PSD_WORKERS"]) and "job-completion-index" in env["PSD_TASK"]["fieldRef"]["fieldPath"],
   "the workers are numbered, and run all at once", env)

# ---- the programs ----

with tempfile.TemporaryDirectory() as place:
    for name, binary in PROGRAMS.items():  # psctl and digits have no --check, but check the words before --help
        path = os.path.join(place, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\necho "$*" >>%s/called\nexec %s "$@" %s\n' %
                    (place, os.path.abspath(binary), "--check" if name == "psd" else "--help"))
        os.chmod(path, stat.S_IRWXU)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PSD_", "TF_"))}
    clean.update(config["data"], PATH=place + ":" + os.environ["PATH"])
    for index in range(spec["replicas"]):
        ran = subprocess.run(shard["command"] + shard["args"], env={**clean, "POD_NAME": "psd-%d" % index}, text=True,
                             stdin=subprocess.DEVNULL, capture_output=True, check=False)
        with open(os.path.join(place, "called"), encoding="utf-8") as f:
            called = f.read()
        ok(ran.returncode == 0 and "--shard %d --live-dir" % index in called,
           "the command of pod %d is accepted, and it is shard %d" % (index, index), ran.stderr, called)
    for container in worker_pod["spec"]["initContainers"] + [worker]:
        ran = subprocess.run(container["command"], env={**clean, "PSD_WORKERS": env["PSD_WORKERS"], "PSD_TASK": "0"}, text=True,
                             stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        ok(ran.returncode == 0, container["name"] + "'s command is accepted", ran.stderr)

waits = worker_pod["spec"]["initContainers"][0]["command"]
ok(waits[:3] == ["psctl", "wait", "--timeout"], "what waits for the shards ends, with a sentence", waits)
ok(all(c.get("terminationMessagePolicy") == "FallbackToLogsOnError" for c in containers),
   "which is shown beside the pod, as is why a shard or a worker does not start")
ok(0 < job["spec"]["backoffLimit"] <= 20, "and how often a worker is started again has an end")

# ---- probes ----

http = int(arguments["http"].rsplit(":", 1)[1])
probes = {name: shard[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
ok(all(port[p["port"]] == http for p in probes.values()), "the probes ask where psd serves them", probes, http)
ok(probes["livenessProbe"]["path"] == "/healthz" and probes["readinessProbe"]["path"] == "/readyz",
   "whether it is alive, and whether it serves, and neither for the other", probes)
ok(shard_pod["metadata"]["annotations"]["prometheus.io/port"] == str(http), "and so is Prometheus told")
ok(shard_pod["spec"]["terminationGracePeriodSeconds"] >= SAVE_ON_STOP + 40, "a stop has time to drain and to save")

# ---- memory and disk ----

volumes = {v["name"]: v for v in shard_pod["spec"]["volumes"]}
claims = {c["metadata"]["name"]: c for c in spec["volumeClaimTemplates"]}
mounts = {m["mountPath"]: m["name"] for m in shard["volumeMounts"]}
ok(set(mounts.values()) == set(volumes) | set(claims), "what is mounted is there", mounts)


def volume_of(option):
    """The volume that holds an option's directory: below the mount, since a mount's own root may hold other things."""
    return next((name for at, name in mounts.items() if arguments[option].startswith(at + "/")), None)


live = volumes.get(volume_of("live-dir"), {}).get("emptyDir", {})
ok(live.get("medium") == "Memory", "the live directory is in memory", mounts)
ok(size(live["sizeLimit"]) >= size(arguments["memory"]) + LIVE_REST, "which has room for --memory", live)
need = size(live["sizeLimit"]) + size(arguments["in-flight"]) + size(arguments["gather-memory"]) + REST
limit = size(shard["resources"]["limits"]["memory"])
ok(need <= limit, "a shard may take %d MiB, and its limit is %d" % (need >> 20, limit >> 20))
ok(all(c["resources"]["requests"]["memory"] == c["resources"]["limits"]["memory"] for c in containers),
   "memory is asked for as it may be used: no node promises it twice")
ok(volume_of("durable-dir") in claims, "the durable directory is in a volume that outlives the pod", mounts)
disk = size(claims[volume_of("durable-dir")]["spec"]["resources"]["requests"]["storage"])
ok(disk >= 2.2 * size(arguments["memory"]) + (1 << 30), "which has room for saves, and a gibibyte of durable pushes")

# ---- rights ----

with open(os.path.join(SOURCE, "deploy/Dockerfile"), encoding="utf-8") as f:
    user = next(line.split()[1].split(":") for line in f if line.startswith("USER "))
for whose, pod in (("shards", shard_pod), ("workers", worker_pod)):
    rights = pod["spec"]["securityContext"]
    ok(rights["runAsNonRoot"] and [str(rights["runAsUser"]), str(rights["runAsGroup"])] == user and
       rights["seccompProfile"] == {"type": "RuntimeDefault"} and not pod["spec"]["automountServiceAccountToken"],
       "the %s run as the image's user, and may not ask the cluster" % whose, rights, user)
ok(shard_pod["spec"]["securityContext"]["fsGroup"] == int(user[1]), "to whose group the volumes belong")
ok(all(c["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]}} for c in containers), "no container has more rights")

# ---- with TLS ----


def patched(target):
    """The object with the overlay's patches for it: additions alone, as kubectl makes them."""
    made = copy.deepcopy(target)
    for patch in overlay["patches"]:
        if patch["target"] != {"kind": target["kind"], "name": target["metadata"]["name"]}:
            continue
        for step in yaml.safe_load(patch["patch"]):
            at, *names = made, *(name.replace("~1", "/") for name in step["path"].strip("/").split("/"))
            for key in names[:-1]:
                at = at[int(key)] if isinstance(at, list) else at[key]
            if isinstance(at, list):
                at.append(step["value"])
            else:
                assert step["op"] == "add" and names[-1] not in at, step
                at[names[-1]] = step["value"]
    return made


TLS = os.path.join(SOURCE, "deploy/kubernetes-tls")
with open(os.path.join(PLACE, "kustomization.yaml"), encoding="utf-8") as f:
    base = yaml.safe_load(f)["resources"]
with open(os.path.join(TLS, "kustomization.yaml"), encoding="utf-8") as f:
    overlay = yaml.safe_load(f)
ok(base == [os.path.basename(p) for p in FILES] and overlay["resources"] == ["../kubernetes"], "kubernetes-tls is the same with TLS")
secured = [patched(shards), patched(job)]
for document, secret in zip(secured, ("psd-shard-tls", "psd-worker-tls")):
    pod = document["spec"]["template"]["spec"]
    ok({"name": "tls", "secret": {"secretName": secret, "defaultMode": 0o440}} in pod["volumes"] and
       pod["securityContext"]["fsGroup"] == int(user[1]), "certificates come from %s, for the group alone" % secret, pod)
    for container in pod.get("initContainers", []) + pod["containers"]:
        said = {e["name"]: e.get("value") for e in container["env"]}
        ok({"name": "tls", "mountPath": "/tls", "readOnly": True} in container["volumeMounts"] and
           [said.get("PSD_TLS_" + n) for n in ("CA", "CERT", "KEY")] == ["/tls/ca.pem", "/tls/tls.crt", "/tls/tls.key"],
           container["name"] + " finds them", said)
ok(secured[0]["spec"]["template"]["spec"]["containers"][0]["args"] == shard["args"] +
   ["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key", "--tls-client-ca=/tls/ca.pem", "--http-tls"], "and psd demands them")
probed = secured[0]["spec"]["template"]["spec"]["containers"][0]
ok(all(probed[name]["httpGet"] == {**get, "scheme": "HTTPS"} for name, get in probes.items()) and
   secured[0]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/scheme"] == "https",
   "probes and Prometheus speak TLS, too", probed)
documents += secured
if shutil.which("kubectl"):
    ran = subprocess.run(["kubectl", "kustomize", TLS], text=True, capture_output=True, check=False)
    built = {d["kind"]: d for d in yaml.safe_load_all(ran.stdout) if d}
    ok(ran.returncode == 0 and [built.get("StatefulSet"), built.get("Job")] == secured, "kubectl makes the same of it", ran.stderr)
else:
    skip("kubectl makes the same of it", "it is not installed")

# ---- the schema ----

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None
if kubernetes_validate:
    wrong = []
    for document in documents:
        try:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        except kubernetes_validate.ValidationError as e:
            wrong.append("%s: %s" % (document["kind"], e))
    ok(not wrong, "kubernetes-validate finds nothing wrong", *wrong)
else:
    skip("kubernetes-validate finds nothing wrong", "it is not installed")
if shutil.which("kubeconform"):
    ran = subprocess.run(["kubeconform", "-strict", *FILES], text=True, capture_output=True, check=False)
    ok(ran.returncode == 0, "kubeconform finds nothing wrong", ran.stdout, ran.stderr)
else:
    skip("kubeconform finds nothing wrong", "it is not installed")

finish()
