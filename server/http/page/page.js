/* The page of one shard: asks for /api/live once a second while it is looked at, and draws what it says. Texts that
 * come from the shard are only ever set as text. Curves begin with /api/history. */
"use strict";

const POLL_MS = 1000, TIMEOUT_MS = 5000, POINTS_MAX = 720;
const at = id => document.getElementById(id);

let before = null;        // the answer before the newest one
let samples = [];         // of the history, and one of ours every so often
let intervalS = 5;
let lost = null;          // since when there is no answer

/* ---- words ---- */

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});

function count(n) {
  return whole.format(n);
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++)
    n /= 1024;
  return (i === 0 || n >= 100 ? whole.format(n) : n.toFixed(n >= 10 ? 1 : 2)) + " " + units[i];
}

function rate(n) {
  return n === null ? "–" : n > 0 && n < 9.95 ? n.toFixed(1) : count(n);
}

function byteRate(n) {
  return n === null ? "–" : bytes(n) + "/s";
}

function real(n) {
  return n === null || n === undefined ? "–" : Number(n.toPrecision(4)).toString();
}

function duration(seconds) {
  if (seconds < 1)
    return Math.round(seconds * 1000) + " ms";
  if (seconds < 120)
    return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
  if (seconds < 7200)
    return Math.round(seconds / 60) + " min";
  return seconds < 172800 ? (seconds / 3600).toFixed(1) + " h" : Math.round(seconds / 86400) + " days";
}

/* ---- elements ---- */

function make(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined)
    e.textContent = text;
  if (className)
    e.className = className;
  return e;
}

function makeSvg(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    e.setAttribute(name, value);
  return e;
}

/* pairs: [name, value, class] */
function figures(id, pairs) {
  at(id).replaceChildren(...pairs.map(([name, value, className]) => {
    const box = make("div");
    box.append(make("dt", name), make("dd", value, className));
    return box;
  }));
}

/* columns: [heading, class]; rows: cells, a text or [text, class]. */
function table(id, columns, rows) {
  const head = make("thead"), body = make("tbody"), line = make("tr");
  for (const [heading, className] of columns) {
    const th = make("th", heading, className);
    th.scope = "col";
    line.append(th);
  }
  head.append(line);
  for (const cells of rows) {
    const tr = make("tr");
    cells.forEach((cell, i) => {
      const [text, className] = Array.isArray(cell) ? cell : [cell, ""];
      tr.append(make("td", text, (columns[i][1] || "") + " " + (className || "")));
    });
    body.append(tr);
  }
  if (rows.length === 0) {
    const td = make("td", "none");
    td.colSpan = columns.length;
    const tr = make("tr");
    tr.append(td);
    body.append(tr);
  }
  at(id).replaceChildren(head, body);
}

/* ---- curves ---- */

const charts = new Map();

function chartMake(key, parent) {
  const figure = make("figure"), caption = make("figcaption"), plot = make("div", undefined, "plot");
  const top = make("span", "", "top"), bottom = make("span", "", "bottom"), axis = make("div", undefined, "axis");
  const svg = makeSvg("svg", {viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img"});
  const from = make("span"), to = make("span", "now");
  plot.append(svg, top, bottom);
  axis.append(from, to);
  figure.append(caption, plot, axis);
  parent.append(figure);
  charts.set(key, {figure, caption, svg, top, bottom, from});
  return charts.get(key);
}

/* points: [time, value], or null where the curve is broken. */
function pathOf(points, x, y) {
  let d = "", pen = false;
  for (const p of points) {
    if (p !== null)
      d += (pen ? "L" : "M") + x(p[0]).toFixed(1) + " " + y(p[1]).toFixed(1);
    pen = p !== null;
  }
  return d;
}

/* series: [{label, points}]; zero: the axis begins there. */
function chart(key, parent, title, series, text, zero) {
  const all = series.flatMap(s => s.points.filter(p => p !== null));
  if (all.length < 2)
    return;
  const c = charts.get(key) || chartMake(key, parent);
  const t0 = Math.min(...all.map(p => p[0])), t1 = Math.max(...all.map(p => p[0]));
  const low = zero ? 0 : Math.min(...all.map(p => p[1])), high = Math.max(...all.map(p => p[1]), low);
  const x = t => 1000 * (t - t0) / Math.max(t1 - t0, 1e-9);
  const y = v => high > low ? 96 - 92 * (v - low) / (high - low) : 50;
  c.svg.replaceChildren(...series.map((s, i) => makeSvg("path", {d: pathOf(s.points, x, y), "class": "line-" + i})));
  const now = series.map(s => s.label + " " + text(s.points.findLast(p => p !== null)?.[1] ?? null));
  c.svg.setAttribute("aria-label", title + " over " + duration(t1 - t0) + ", from " + text(low) + " to " + text(high) +
    "; now " + now.join(", "));
  c.caption.replaceChildren(make("strong", title), ...now.map((words, i) => {
    const entry = make("span"), sample = makeSvg("svg", {viewBox: "0 0 30 10", "aria-hidden": "true"});
    sample.append(makeSvg("path", {d: "M0 5L30 5", "class": "line-" + i}));
    entry.append(sample, " " + words);
    return entry;
  }));
  c.top.textContent = text(high);
  c.bottom.textContent = text(low);
  c.from.textContent = duration(t1 - t0) + " ago";
}

/* ---- what rises ---- */

function rise(a, b, pick) {
  const seconds = b.at - a.at, more = pick(b) - pick(a);
  return seconds > 0 && more >= 0 ? more / seconds : null;
}

function rises(pick) {
  const points = [];
  for (let i = 1; i < samples.length; i++) {
    const r = rise(samples[i - 1], samples[i], pick);
    points.push(r === null ? null : [samples[i].at, r]);
  }
  return points;
}

/* A metric's mean between two samples: what it rose by over what the first one rose by. A new round begins with none. */
function means(id, metric) {
  const points = [];
  let last = null;
  for (const s of samples) {
    const job = s.jobs.find(j => j.id === id);
    if (!job || job.metrics.length <= metric)
      continue;
    const m = job.metrics, of = last ? m[0] - last[0] : 0;
    if (last && of < 0)
      points.push(null);
    else if (of > 0 && m[metric] !== null && last[metric] !== null)
      points.push([s.at, (m[metric] - last[metric]) / of]);
    last = !last || of !== 0 ? m : last;
  }
  return points;
}

function sampleOf(live) {
  return {at: live.at, pushes_applied: live.totals.pushes_applied, pulls: live.totals.pulls,
    pushed_bytes: live.totals.pushed_bytes, pulled_bytes: live.totals.pulled_bytes,
    jobs: live.jobs.filter(j => j.live > 0 && j.metrics.length > 0).map(j => ({id: j.id, metrics: j.metrics}))};
}

function keepSample(live) {
  const last = samples[samples.length - 1];
  if (last && live.at - last.at < intervalS)
    return;
  samples.push(sampleOf(live));
  samples = samples.slice(-POINTS_MAX);
}

/* ---- sections ---- */

function showHead(live) {
  const ups = {serving: "good", broken: "bad"};
  at("state").textContent = live.state;
  at("state").className = "badge " + (ups[live.state] || "warn");
  at("state-text").textContent = live.state === "serving" ? "" : live.state_text;
  at("version").textContent = "psd " + live.version;
  if (!live.measured)
    return;
  at("cluster").textContent = live.cluster;
  at("where").textContent = "shard " + live.shard + " of " + live.shards + ", up " + duration(live.at - live.started_at) +
    ", " + count(live.connections) + (live.connections === 1 ? " connection" : " connections");
  document.title = live.cluster + " shard " + live.shard + " – psd";
}

function showRates(live) {
  const r = pick => before && before.measured ? rise(before, live, pick) : null;
  const refused = l => l.totals.refused_nonfinite + l.totals.refused_shape + l.totals.refused_other;
  const dropped = l => l.totals.dropped_stale + l.totals.dropped_late;
  const bad = n => n > 0 ? "warn" : "";
  figures("rates", [
    ["pushes/s", rate(r(l => l.totals.pushes_applied))], ["pulls/s", rate(r(l => l.totals.pulls))],
    ["pushed", byteRate(r(l => l.totals.pushed_bytes))], ["pulled", byteRate(r(l => l.totals.pulled_bytes))],
    ["refused", count(refused(live)) + " in all", bad(r(refused))],
    ["dropped", count(dropped(live)) + " in all", bad(r(dropped))],
    ["leases lapsed", count(live.totals.lease_lapses) + " in all", bad(r(l => l.totals.lease_lapses))]]);
  chart("bytes", at("rate-charts"), "Bytes a second", [{label: "pushed", points: rises(s => s.pushed_bytes)},
    {label: "pulled", points: rises(s => s.pulled_bytes)}], byteRate, true);
  chart("blocks", at("rate-charts"), "Blocks a second", [{label: "pushed", points: rises(s => s.pushes_applied)},
    {label: "pulled", points: rises(s => s.pulls)}], rate, true);
}

function jobBox(job) {
  const id = "job-" + job.id;
  if (!at(id)) {
    const box = make("div"), grid = make("div", undefined, "charts");
    box.id = id;
    box.append(make("h3", job.name), make("p", "", "note"), grid);
    at("jobs-metrics").append(box);
  }
  return at(id);
}

/* What its workers call a metric. */
function nameOf(job, i) {
  return job?.metric_names[i] ?? (i === 0 ? "metric 0" : "metric " + i + " (mean)");
}

/* Of all steps: "rows 1,200, loss 0.31"; what nothing was added to yet says nothing. */
function sumsText(job, metrics) {
  return metrics.map((m, i) => [m, i]).filter(([m, i]) => i === 0 || m !== 0)
    .map(([m, i]) => nameOf(job, i) + " " + (i === 0 ? m === null ? "–" : count(m) : m === null || !metrics[0] ? "–" :
      real(m / metrics[0]))).join(", ");
}

function showTraining(live) {
  const jobs = live.jobs.filter(j => j.metrics.length > 0);
  at("training").hidden = jobs.length === 0;
  for (const job of jobs) {
    const box = jobBox(job), [, note, grid] = box.children;
    note.textContent = "over all steps: " + sumsText(job, job.metrics);
    for (let i = 1; i < job.metrics.length; i++)
      if (job.metrics[i] !== 0)
        chart(box.id + "-" + i, grid, nameOf(job, i), [{label: "", points: means(job.id, i)}], real, false);
  }
}

function showJobs(live) {
  table("jobs", [["Job"], ["Options", "wide"], ["Live", "number"], ["Lapsed", "number"], ["Finished", "number"],
    ["Slowest clock", "number"], ["Fastest clock", "number"]],
  live.jobs.map(j => [j.name, j.options, count(j.live), [count(j.lapsed), j.lapsed > 0 ? "warn" : ""],
    count(j.finished), count(j.slowest), count(j.fastest)]));
  more("jobs", live.jobs_left_out, "jobs");
}

function more(id, n, what) {
  at(id + "-more").textContent = n > 0 ? count(n) + " more " + what + " are not shown." : "";
}

function onText(w) {
  const list = w.on_workers.join(", ");
  const rest = w.on_workers_left_out > 0 ? " and " + count(w.on_workers_left_out) + " more" : "";
  const until = w.on_clock > 0 && w.on === "" ? " until clock " + count(w.on_clock) : "";
  if (w.on !== "")
    return w.on;
  return (list === "" ? "its turn" : (w.on_workers.length > 1 ? "workers " : "worker ") + list + rest) + until;
}

function waitOf(worker, waits) {
  const mine = waits.filter(w => w.who === "" && w.job === worker.job && w.worker === worker.worker);
  return mine.reduce((longest, w) => longest && longest.waited_ms >= w.waited_ms ? longest : w, null);
}

function showWorkers(live) {
  const metrics = live.workers.some(w => w.metrics.length > 1);
  const columns = [["Job"], ["Worker", "number"], ["State", "word"], ["Clock", "number"], ["Behind", "number"],
    ["Pushes/s", "number"], ["Waits for", "wide"], ["Silent", "number"]].concat(metrics ? [["Metrics", "wide"]] : []);
  const old = new Map(before && before.measured ? before.workers.map(w => [w.job_id + "/" + w.worker, w]) : []);
  const jobs = new Map(live.jobs.map(j => [j.id, j]));
  table("workers", columns, live.workers.map(w => {
    const was = old.get(w.job_id + "/" + w.worker), wait = waitOf(w, live.waits);
    const behind = w.state === "finished" ? 0 : Math.max((jobs.get(w.job_id)?.fastest || 0) - w.clock, 0);
    const pushes = was && w.pushes >= was.pushes ? (w.pushes - was.pushes) / (live.at - before.at) : null;
    const cells = [w.job, count(w.worker), [w.state, w.state === "lapsed" ? "bad" : w.state === "away" ? "warn" : ""],
      count(w.clock), count(behind), rate(pushes),
      wait ? wait.what + ": " + onText(wait) + ", " + duration(wait.waited_ms / 1000) : "–", duration(w.silent_ms / 1000)];
    return metrics ? cells.concat(sumsText(jobs.get(w.job_id), w.metrics)) : cells;
  }));
  more("workers", live.workers_left_out, "workers");
}

function showWaits(live) {
  const lines = live.waits.map(w => {
    const who = w.who !== "" ? w.who : "worker " + w.worker;
    return make("li", who + (w.job !== "" ? " of " + w.job : "") + ": " + w.what +
      (w.variable !== "" ? " of " + w.variable : "") + " waits for " + onText(w) + ", " + duration(w.waited_ms / 1000));
  });
  at("waits").replaceChildren(...(lines.length > 0 ? lines : [make("li", "nobody")]));
  const over = Object.entries(live.waiting).filter(([, w]) => w.over > 0)
    .map(([reason, w]) => reason + " " + count(w.over) + " (" + duration(w.over_ms / w.over / 1000) + " each)");
  at("waits-more").textContent = (live.waits_left_out ? "More are not shown. " : "") +
    (over.length > 0 ? "Over: " + over.join(", ") + "." : "");
}

function showAges(live) {
  const last = live.ages.findLastIndex(([, n]) => n > 0), most = Math.max(...live.ages.map(([, n]) => n), 1);
  at("ages").replaceChildren(...live.ages.slice(0, Math.max(last + 1, 1)).map(([to, n], i) => {
    const from = i === 0 ? 0 : live.ages[i - 1][0] + 1;
    const tr = make("tr"), th = make("th", to === null ? "from " + count(from) : from === to ? count(to) :
      count(from) + "–" + count(to)), bar = make("td");
    const svg = makeSvg("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true"});
    th.scope = "row";
    svg.append(makeSvg("rect", {x: 0, y: 0, width: 100 * n / most, height: 10}));
    bar.append(svg);
    tr.append(th, bar, make("td", count(n), "number"));
    return tr;
  }));
}

function showMemory(live) {
  const m = live.memory, share = m.live_max_bytes > 0 ? m.live_used_bytes / m.live_max_bytes : 0;
  at("memory-meter").value = share;
  at("memory-label").textContent = "Live store: " + bytes(m.live_used_bytes) + " of " + bytes(m.live_max_bytes) + ", " +
    Math.floor(share * 100) + " %";
  figures("memory", [["weights and slots", bytes(m.data_bytes)], ["live file", bytes(m.live_file_bytes)],
    ["waiting gradients", bytes(m.gather_bytes)], ["messages", bytes(m.in_flight_bytes)],
    ["resident", bytes(m.resident_bytes)]]);
}

function showSaves(live) {
  const s = live.saves;
  if (s === null) {
    at("saves-text").textContent = "There is no durable store: nothing is saved.";
    at("saves").replaceChildren();
    return;
  }
  at("saves-text").className = s.failed || s.failure !== "" ? "bad" : "";
  at("saves-text").textContent = (s.failed ? "Pushes cannot be made durable now. " : "") +
    (s.failure !== "" ? "The last save failed: " + s.failure + ". " : "") +
    (s.running ? "A save runs: " + Math.floor(100 * s.blocks_done / Math.max(s.blocks, 1)) + " %." :
      s.due ? "Something has changed since the newest save." : "All is saved.");
  figures("saves", [["newest", s.saved_at === null ? "none" : duration(Math.max(live.at - s.saved_at, 0)) + " ago"],
    ["it took", s.saves > 0 ? duration(s.last_ms / 1000) : "–"], ["it wrote", s.saves > 0 ? bytes(s.last_bytes) : "–"],
    ["failed", count(s.failures), s.failures > 0 ? "warn" : ""], ["durable file", bytes(s.file_bytes)],
    ["redo log", bytes(s.log_bytes)]]);
}

function showVariables(live) {
  const key = v => v.job + "/" + v.name;
  const old = new Map(before && before.measured ? before.variables.map(v => [key(v), v]) : []);
  const risen = (v, name) => {
    const was = old.get(key(v));
    return was && v[name] >= was[name] ? (v[name] - was[name]) / (live.at - before.at) : null;
  };
  table("variables", [["Job"], ["Variable"], ["Size", "number"], ["Blocks", "number"], ["Pushes/s", "number"],
    ["Pushed", "number"], ["Pulled", "number"], ["Refused", "number"], ["Dropped", "number"]],
  live.variables.map(v => [v.job, v.name, bytes(v.bytes), count(v.blocks), rate(risen(v, "pushes")),
    byteRate(risen(v, "pushed_bytes")), byteRate(risen(v, "pulled_bytes")),
    [count(v.refused), v.refused > 0 ? "warn" : ""], count(v.dropped)]));
  more("variables", live.variables_left_out, "variables");
}

function show(live) {
  showHead(live);
  if (!live.measured)
    return;
  keepSample(live);
  for (const section of [showRates, showTraining, showJobs, showWorkers, showWaits, showAges, showMemory, showSaves,
    showVariables])
    section(live);
}

/* ---- asking ---- */

/* Kept for as long as this tab is. */
const TOKEN = "psd-token";
let token = sessionStorage.getItem(TOKEN) || "";
let historyCame = false;

class TokenWanted extends Error {}

async function ask(path) {
  const headers = token === "" ? {} : {Authorization: "Bearer " + token};
  const reply = await fetch(path, {cache: "no-store", headers, signal: AbortSignal.timeout(TIMEOUT_MS)});
  if (reply.status === 401)
    throw new TokenWanted();
  if (!reply.ok)
    throw new Error(await reply.text());
  return reply.json();
}

/* Nobody is asked again before there is another token. */
function askForToken() {
  at("news").textContent = token === "" ? "" : "This token is not known here.";
  token = "";
  sessionStorage.removeItem(TOKEN);
  at("state").textContent = "locked";
  at("all").hidden = true;
  at("door").hidden = false;
  at("token").focus();
}

function useToken(event) {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  sessionStorage.setItem(TOKEN, token);
  at("door").hidden = true;
  at("all").hidden = false;
  poll();
}

async function look() {
  if (!historyCame) {
    const history = await ask("api/history");
    samples = history.samples;
    intervalS = history.interval_ms / 1000;
    historyCame = true;
  }
  const live = await ask("api/live");
  show(live);
  before = live;
  lost = null;
  at("news").textContent = "";
}

async function poll() {
  try {
    if (!document.hidden)
      await look();
  } catch (error) {
    if (error instanceof TokenWanted) {
      askForToken();
      return;
    }
    lost = lost || new Date();
    at("news").textContent = "No figures since " + lost.toLocaleTimeString() + ": " + String(error.message).slice(0, 200);
  }
  setTimeout(poll, POLL_MS);
}

at("door").addEventListener("submit", useToken);
poll();
