/* The page of one shard, and of all of its cluster where psd says where their pages are (/api/cluster): asks for
 * /api/live once a second while it is looked at, and draws what it says. Texts that come from a shard are only ever set
 * as text. Curves begin with /api/history. */
"use strict";

const POLL_MS = 1000, TIMEOUT_MS = 5000, POINTS_MAX = 720;
const STALL_S = 30;       // a job whose workers wait for so long, and whose clocks stand still meanwhile, is red
const at = id => document.getElementById(id);

let before = null;        // the answer before the newest one
let samples = [];         // of the history, and one of ours every so often
let intervalS = 5;
let lost = null;          // since when there is no answer
let pages = [];           // of all shards, by their index: {url, live, before, lost, why}; none: they are not known
let own = 0;              // which of them this page is
let curves = null;        // samples of shard 0, which alone knows workers' metrics; null: they are `samples`
const clocks = new Map(); // of jobs: {clock, at}: since when the fastest worker's clock stands

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

/* columns: [heading, class]; rows: cells, a text, an element or [text, class]; a row's `mark` is its class. */
function table(id, columns, rows) {
  const head = make("thead"), body = make("tbody"), line = make("tr");
  for (const [heading, className] of columns) {
    const th = make("th", heading, className);
    th.scope = "col";
    line.append(th);
  }
  head.append(line);
  for (const cells of rows) {
    const tr = make("tr", undefined, cells.mark);
    cells.forEach((cell, i) => {
      const [text, className] = Array.isArray(cell) ? cell : [cell, ""];
      const td = make("td", text instanceof Node ? undefined : text, (columns[i][1] || "") + " " + (className || ""));
      if (text instanceof Node)
        td.append(text);
      tr.append(td);
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
  const from = make("span"), to = make("span");
  plot.append(svg, top, bottom);
  axis.append(from, to);
  figure.append(caption, plot, axis);
  parent.append(figure);
  charts.set(key, {figure, caption, svg, top, bottom, from, to});
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

/* series: [{label, points}]. how.zero: the axis begins there; how.log: it is logarithmic, where all is above 0;
 * how.steps: points are by steps, not by time. */
function chart(key, parent, title, series, text, how) {
  const all = series.flatMap(s => s.points.filter(p => p !== null)), zero = how.zero === true;
  if (all.length < 2)
    return;
  const scale = how.log === true && all.every(p => p[1] > 0) ? Math.log : v => v;
  const range = (a, b) => how.steps ? "steps " + count(a) + " to " + count(b) : duration(b - a);
  const c = charts.get(key) || chartMake(key, parent);
  const t0 = Math.min(...all.map(p => p[0])), t1 = Math.max(...all.map(p => p[0]));
  const low = zero ? 0 : Math.min(...all.map(p => p[1])), high = Math.max(...all.map(p => p[1]), low);
  const x = t => 1000 * (t - t0) / Math.max(t1 - t0, 1e-9);
  const y = v => high > low ? 96 - 92 * (scale(v) - scale(low)) / (scale(high) - scale(low)) : 50;
  c.svg.replaceChildren(...series.map((s, i) => makeSvg("path", {d: pathOf(s.points, x, y), "class": "line-" + i})));
  const now = series.map(s => s.label + " " + text(s.points.findLast(p => p !== null)?.[1] ?? null));
  c.svg.setAttribute("aria-label", title + " over " + range(t0, t1) + ", from " + text(low) + " to " + text(high) +
    "; now " + now.join(", "));
  c.caption.replaceChildren(make("strong", title), ...now.map((words, i) => {
    const entry = make("span"), sample = makeSvg("svg", {viewBox: "0 0 30 10", "aria-hidden": "true"});
    sample.append(makeSvg("path", {d: "M0 5L30 5", "class": "line-" + i}));
    entry.append(sample, " " + words);
    return entry;
  }));
  c.top.textContent = text(high);
  c.bottom.textContent = text(low);
  c.from.textContent = how.steps ? "step " + count(t0) : duration(t1 - t0) + " ago";
  c.to.textContent = how.steps ? "step " + count(t1) : "now";
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
function means(id, metric, steps) {
  const points = [];
  let last = null;
  for (const s of curves || samples) {
    const job = s.jobs.find(j => j.id === id);
    if (!job || job.metrics.length <= metric)
      continue;
    const m = job.metrics, of = last ? m[0] - last[0] : 0;
    if (last && of < 0)
      points.push(null);
    else if (of > 0 && m[metric] !== null && last[metric] !== null)
      points.push([steps ? job.clock : s.at, (m[metric] - last[metric]) / of]);
    last = !last || of !== 0 ? m : last;
  }
  return points;
}

function sampleOf(live) {
  return {at: live.at, pushes_applied: live.totals.pushes_applied, pulls: live.totals.pulls,
    pushed_bytes: live.totals.pushed_bytes, pulled_bytes: live.totals.pulled_bytes,
    jobs: live.jobs.filter(j => j.live > 0 && j.metrics.length > 0)
      .map(j => ({id: j.id, clock: j.slowest, metrics: j.metrics}))};
}

/* `kept` with what the shard says now, if it is time for another one. */
function keepSample(kept, live) {
  const last = kept[kept.length - 1];
  if (last && live.at - last.at < intervalS)
    return kept;
  return kept.concat(sampleOf(live)).slice(-POINTS_MAX);
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
    {label: "pulled", points: rises(s => s.pulled_bytes)}], byteRate, {zero: true});
  chart("blocks", at("rate-charts"), "Blocks a second", [{label: "pushed", points: rises(s => s.pushes_applied)},
    {label: "pulled", points: rises(s => s.pulls)}], rate, {zero: true});
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

/* Whose answer has the workers' metrics: shard 0's. */
function trainingLive(live) {
  return live.shard !== 0 && pages.length > 0 ? pages[0].live : live;
}

function showElsewhere(live) {
  const note = at("training-elsewhere");
  if (live.shard === 0 || (pages.length > 0 && pages[0].live)) {
    note.textContent = "";
    return;
  }
  note.textContent = "Shard 0 alone knows the workers' metrics. ";
  if (pages.length > 0)
    note.append(link(pages[0].url, "Its page"));
}

function showTraining(here) {
  const live = trainingLive(here), jobs = live && live.measured ? live.jobs.filter(j => j.metrics.length > 0) : [];
  const how = {log: at("log-scale").checked, steps: at("by-step").checked};
  showElsewhere(here);
  at("training").hidden = jobs.length === 0;
  for (const job of jobs) {
    const box = jobBox(job), [, note, grid] = box.children;
    note.textContent = "over all steps: " + sumsText(job, job.metrics);
    for (let i = 1; i < job.metrics.length; i++)
      if (job.metrics[i] !== 0)
        chart(box.id + "-" + i, grid, nameOf(job, i), [{label: "", points: means(job.id, i, how.steps)}], real, how);
  }
}

/* Seconds since when a job's clocks stand still while its workers wait; 0: it goes on. */
function stalled(live, job) {
  const known = clocks.get(job.id);
  const longest = Math.max(0, ...live.waits.filter(w => w.job === job.name).map(w => w.waited_ms / 1000));
  if (!known || known.clock !== job.fastest)
    clocks.set(job.id, {clock: job.fastest, at: live.at});
  if (job.live === 0 || longest < STALL_S || (known && known.clock !== job.fastest))
    return 0;
  return longest;
}

function showJobs(live) {
  table("jobs", [["Job"], ["State", "word"], ["Slowest clock", "number"], ["Fastest clock", "number"], ["Live", "number"],
    ["Lapsed", "number"], ["Finished", "number"], ["Options", "wide"]],
  live.jobs.map(j => {
    const s = stalled(live, j);
    const row = [j.name, s > 0 ? "stalled for " + duration(s) : j.live > 0 ? "trains" : "idle", count(j.slowest),
      count(j.fastest), count(j.live), [count(j.lapsed), j.lapsed > 0 ? "warn" : ""], count(j.finished), j.options];
    row.mark = s > 0 ? "bad" : "";
    return row;
  }));
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
  const columns = [["Worker", "number"], ["State", "word"], ["Clock", "number"], ["Behind", "number"],
    ["Waits for", "wide"], ["Pushes/s", "number"], ["Silent", "number"], ["Job"]].concat(metrics ? [["Metrics", "wide"]] : []);
  const old = new Map(before && before.measured ? before.workers.map(w => [w.job_id + "/" + w.worker, w]) : []);
  const jobs = new Map(live.jobs.map(j => [j.id, j]));
  table("workers", columns, live.workers.map(w => {
    const was = old.get(w.job_id + "/" + w.worker), wait = waitOf(w, live.waits);
    const behind = w.state === "finished" ? 0 : Math.max((jobs.get(w.job_id)?.fastest || 0) - w.clock, 0);
    const pushes = was && w.pushes >= was.pushes ? (w.pushes - was.pushes) / (live.at - before.at) : null;
    const cells = [count(w.worker), [w.state, w.state === "lapsed" ? "bad" : w.state === "away" ? "warn" : ""],
      count(w.clock), count(behind), wait ? wait.what + ": " + onText(wait) + ", " + duration(wait.waited_ms / 1000) : "–",
      rate(pushes), duration(w.silent_ms / 1000), w.job];
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
  table("variables", [["Variable"], ["Pushes/s", "number"], ["Refused", "number"], ["Dropped", "number"],
    ["Pushed", "number"], ["Pulled", "number"], ["Size", "number"], ["Blocks", "number"], ["Rate", "number"],
    ["Optimizer"], ["Job"]],
  live.variables.map(v => [v.name, rate(risen(v, "pushes")), [count(v.refused), v.refused > 0 ? "warn" : ""],
    count(v.dropped), byteRate(risen(v, "pushed_bytes")), byteRate(risen(v, "pulled_bytes")), bytes(v.bytes),
    count(v.blocks), v.learning_rate.toPrecision(3), v.optimizer, v.job]));
  more("variables", live.variables_left_out, "variables");
}

/* ---- all shards ---- */

function link(url, text) {
  const a = make("a", text);
  a.href = url + "/";
  a.rel = "noreferrer";
  return a;
}

/* A shard that is lost is red, whatever it said last. */
function shardState(p) {
  if (p.lost)
    return ["no answer for " + duration((Date.now() - p.lost) / 1000), "bad"];
  if (!p.live)
    return [p.why || "asked", "warn"];
  return [p.live.state, p.live.state === "serving" ? "good" : p.live.state === "broken" ? "bad" : "warn"];
}

function shardCells(p, i) {
  const live = p.live && p.live.measured && !p.lost ? p.live : null;
  const r = pick => live && p.before && p.before.measured ? rise(p.before, live, pick) : null;
  const m = live ? live.memory : null, waits = live ? live.waits.length : 0;
  const row = [i === own ? make("strong", "shard " + i) : link(p.url, "shard " + i), shardState(p),
    rate(r(l => l.totals.pushes_applied)), rate(r(l => l.totals.pulls)), byteRate(r(l => l.totals.pushed_bytes)),
    m ? Math.floor(100 * m.live_used_bytes / Math.max(m.live_max_bytes, 1)) + " %" : "–", live ? count(waits) : "–",
    live ? duration(live.at - live.started_at) : "–"];
  row.mark = p.lost ? "bad" : "";
  return row;
}

function showShards() {
  at("shards-all").hidden = pages.length < 2;
  if (pages.length < 2)
    return;
  const gone = pages.filter(p => p.lost).length;
  table("shards", [["Shard", "word"], ["State", "word"], ["Pushes/s", "number"], ["Pulls/s", "number"], ["Pushed", "number"],
    ["Memory", "number"], ["Waits", "number"], ["Up for", "number"]], pages.map(shardCells));
  at("shards-sum").textContent = gone > 0 ? count(gone) + " of " + count(pages.length) + " shards do not answer: workers that need " +
    "them wait." : "What follows is shard " + own + "'s.";
  at("shards-sum").className = "note" + (gone > 0 ? " bad" : "");
}

/* One of the others. What it cannot be asked is said in its row alone. */
async function askShard(p) {
  try {
    const live = await ask(p.url + "/api/live");
    p.before = p.live;
    p.live = live;
    p.lost = null;
    p.why = "";
  } catch (error) {
    if (error instanceof TokenWanted) {
      p.why = "wants another token";
      p.live = null;
      return;
    }
    p.lost = p.lost || new Date();
  }
}

/* Shard 0's samples, for a page that is another one's. */
async function keepCurves() {
  if (own === 0 || pages.length === 0 || !pages[0].live || pages[0].lost)
    return;
  if (curves === null)
    curves = (await ask(pages[0].url + "/api/history")).samples;
  if (pages[0].live.measured)
    curves = keepSample(curves, pages[0].live);
}

async function askOthers() {
  await Promise.all(pages.map((p, i) => i === own ? null : askShard(p)));
  try {
    await keepCurves();
  } catch {
    curves = null; // asked again at the next look
  }
  showShards();
}

async function findPages() {
  const cluster = await ask("api/cluster");
  own = cluster.shard;
  pages = cluster.pages.map(url => ({url, live: null, before: null, lost: null, why: ""}));
  at("pages-note").textContent = pages.length > 0 ? "" : "Each shard has a page of its own; psd's --http-shards has each show all.";
  if (pages.length > 1 && !pages.some(p => p.url === location.origin)) {
    at("pages-note").textContent = "Other shards answer only a page that was opened by its address in --http-shards: ";
    at("pages-note").append(link(pages[own].url, pages[own].url));
  }
}

function show(live) {
  showHead(live);
  if (!live.measured)
    return;
  samples = keepSample(samples, live);
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

async function lookHere() {
  if (!historyCame) {
    await findPages();
    const history = await ask("api/history");
    samples = history.samples;
    intervalS = history.interval_ms / 1000;
    historyCame = true;
  }
  const live = await ask("api/live");
  if (pages.length > 0)
    Object.assign(pages[own], {before: pages[own].live, live, lost: null});
  show(live);
  before = live;
  lost = null;
  at("news").textContent = "";
}

/* This shard has not answered: what is shown is old. */
function showLost(error) {
  lost = lost || new Date();
  if (pages.length > 0)
    pages[own].lost = lost;
  at("state").textContent = "no answer";
  at("state").className = "badge bad";
  at("state-text").textContent = "";
  at("news").textContent = "No figures since " + lost.toLocaleTimeString() + ": " + String(error.message).slice(0, 200);
}

async function look() {
  try {
    await lookHere();
  } catch (error) {
    if (error instanceof TokenWanted)
      throw error;
    showLost(error);
  }
  await askOthers();
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
    showLost(error);
  }
  setTimeout(poll, POLL_MS);
}

at("door").addEventListener("submit", useToken);
for (const id of ["log-scale", "by-step"])
  at(id).addEventListener("change", () => before && show(before));
poll();
