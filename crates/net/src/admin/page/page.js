// The live page: asks /state twice a second and draws what it says. No framework, no build step, nothing from elsewhere.
//
// Text reaches the document through textContent alone, so no name of a backend can become markup. Rates are made from
// counters over the process's own clock (uptime_s), so a page that was hidden or slow to be answered draws no spikes.
"use strict";

const POLL_MS = 500;
const ANSWER_MOST_MS = 3000;
const HISTORY_S = 60;
/** A report older than this says little about now; the server leaves it out of the spread as well. */
const FRESH_S = 10;
/** More tasks than this are drawn without their names. */
const NAMED_MOST = 24;
/** More than this do not move smoothly in every detail: each moving thing costs memory. */
const CROWD = 100;
/** A backend that fails this share of its requests is in trouble. */
const ERRORS_OFTEN = 0.05;

const STATES = { refusing: "refusing", lame_duck: "lame duck", healthy: "healthy" };
/** Drawn from the bottom: errors stand on the line, where they can be compared. */
const OUTCOMES = {
  failed: "failed", overloaded: "overloaded", dont_retry: "don't retry", expired: "expired",
  refused: "refused here", unsent: "unsent", cancelled: "cancelled", served: "served",
};
const ERRORS = ["failed", "overloaded", "dont_retry", "expired"];
const REASONS = { too_late: "deadline passed", all_full: "all full", none_usable: "none usable" };

const SVG = "http://www.w3.org/2000/svg";
const natural = new Intl.Collator("en", { numeric: true });

// ---- words and numbers

const known = (value) => value !== null && value !== undefined;
const percent = (ratio) => (known(ratio) ? `${Math.round(ratio * 100)} %` : "–");
const count = (number) => (known(number) ? number.toLocaleString("en-GB").replaceAll(",", "\u202f") : "–");

function rate(perSecond) {
  if (!known(perSecond)) return "–";
  if (perSecond === 0) return "0";
  if (perSecond >= 99_950) return `${(perSecond / 1000).toFixed(0)} k`;
  if (perSecond >= 9_995) return `${(perSecond / 1000).toFixed(1)} k`;
  return perSecond >= 99.95 ? perSecond.toFixed(0) : perSecond.toFixed(1);
}

/** On an axis, without the zeros that a column of figures needs. */
const tick = (perSecond) => rate(perSecond).replace(".0", "");

function span(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

function millis(ms) {
  if (!known(ms)) return "–";
  if (ms >= 9_995) return `${(ms / 1000).toFixed(0)} s`;
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 99.95 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(ms < 0.995 ? 2 : 1)} ms`;
}

/** The next round number that is not below. */
function ceiling(value, least) {
  const wanted = Math.max(value, least);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= wanted * 0.9999);
}

/** Names without what all of them begin and end with, up to a separator: it does not tell which of them is meant. */
function shortNames(names) {
  const first = names[0] ?? "";
  const isCut = (char) => ":/-._".includes(char);
  const isShared = (at) => names.every((name) => name.at(at) === first.at(at));
  if (names.length < 2) return names;
  let start = 0;
  while (start < first.length && isShared(start)) start += 1;
  while (start > 0 && !isCut(first[start - 1])) start -= 1;
  let end = 0;
  while (end < first.length - start && isShared(-end - 1)) end += 1;
  while (end > 0 && !isCut(first.at(-end))) end -= 1;
  return names.map((name) => name.slice(start, name.length - end) || name);
}

// ---- the document

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (known(text)) made.textContent = text;
  return made;
}

function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function move(node, transform) {
  if (node.style.transform !== transform) node.style.transform = transform;
}

/** A shape and a word for a state: never the colour alone. */
function stateMark(state, words) {
  const mark = element("span", "state");
  const icon = drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
  mark.append(icon, element("span", "word"));
  setState(mark, state, words);
  return mark;
}

function setState(mark, state, words) {
  if (mark.dataset.state !== state) {
    mark.dataset.state = state;
    const shapes = {
      healthy: [drawn("circle", { cx: 5, cy: 5, r: 4 })],
      lame_duck: [drawn("circle", { cx: 5, cy: 5, r: 4 }), drawn("path", { class: "half", d: "M5 1a4 4 0 0 1 0 8z" })],
    };
    mark.firstChild.replaceChildren(...(shapes[state] ?? [drawn("path", { d: "M1.5 1.5l7 7M8.5 1.5l-7 7" })]));
  }
  say(mark.lastChild, words ?? STATES[state] ?? state);
}

function meter() {
  const made = element("span", "meter");
  const track = element("span", "track");
  track.append(element("div", "fill"));
  made.append(track, element("span", "value"));
  return made;
}

function setMeter(made, ratio) {
  move(made.firstChild.firstChild, `scaleX(${Math.min(ratio ?? 0, 1).toFixed(3)})`);
  say(made.lastChild, percent(ratio));
}

/** Keeps one child of `parent` for each item, in the order of the items, and moves as few as possible. */
function keep(parent, views, items, keyOf, make) {
  const wanted = new Set(items.map(keyOf));
  for (const [key, view] of views) {
    if (!wanted.has(key)) {
      view.root.remove();
      views.delete(key);
    }
  }
  let previous = null;
  for (const item of items) {
    const key = keyOf(item);
    if (!views.has(key)) views.set(key, make(item));
    const view = views.get(key);
    const place = previous ? previous.nextSibling : parent.firstChild;
    if (view.root !== place) parent.insertBefore(view.root, place);
    previous = view.root;
    view.show(item);
  }
}

// ---- charts

/** A chart of the last minute: x is seconds, y what `top` says; drawn anew with every answer. */
class TimeChart {
  constructor(parent, label, axisText) {
    this.axisText = axisText;
    this.axis = element("div", "axis");
    this.svg = drawn("svg", { class: "lines", viewBox: `0 0 ${HISTORY_S} 1`, preserveAspectRatio: "none", role: "img" });
    this.svg.setAttribute("aria-label", label);
    this.shapes = drawn("g", {});
    this.svg.append(
      ...[0, 0.5].map((y) => drawn("path", { class: "grid", d: `M0 ${y}H${HISTORY_S}` })),
      this.shapes,
    );
    const field = element("div", "field");
    field.append(this.axis, this.svg);
    const times = element("div", "times");
    times.setAttribute("aria-hidden", "true");
    times.append(...["60 s ago", "30 s", "now"].map((text) => element("span", "", text)));
    this.legend = element("ul", "legend");
    parent.append(field, times, this.legend);
  }

  scale(top) {
    this.top = top;
    const texts = [1, 0.5, 0].map((part) => this.axisText(part * top));
    texts.forEach((text, i) => {
      const tick = this.axis.children[i] ?? this.axis.appendChild(element("span"));
      tick.style.bottom = `${100 - i * 50}%`;
      say(tick, text);
    });
  }

  /** Between two heights of each point; a line where they are the same. Points without a value leave a gap. */
  path(points, upper, lower) {
    const at = (point, value) => `${(HISTORY_S - point.age).toFixed(2)} ${(1 - value / this.top).toFixed(4)}`;
    const runs = [[]];
    for (const point of points) {
      if (known(upper(point))) runs.at(-1).push(point);
      else if (runs.at(-1).length) runs.push([]);
    }
    return runs.filter((run) => run.length > 1).map((run) => {
      const forth = run.map((point) => at(point, upper(point))).join("L");
      const back = lower ? `L${run.toReversed().map((point) => at(point, lower(point))).join("L")}Z` : "";
      return `M${forth}${back}`;
    }).join("");
  }

  shape(name, className, d, fill) {
    let shape = this.shapes.querySelector(`[data-name="${name}"]`);
    if (!shape) {
      shape = drawn("path", { "data-name": name, class: className });
      if (fill) shape.style.fill = fill;
      this.shapes.append(shape);
    }
    shape.setAttribute("d", d);
  }

  note(name, sample, text, isNone) {
    let item = this.legend.querySelector(`[data-name="${name}"]`);
    if (!item) {
      item = element("li");
      item.dataset.name = name;
      item.append(sample(), element("span"));
      this.legend.append(item);
    }
    item.classList.toggle("none", Boolean(isNone));
    say(item.lastChild, text);
  }
}

function swatch(colour) {
  const made = element("i", "swatch");
  made.style.background = colour;
  return made;
}

function lineSample(className) {
  const made = drawn("svg", { class: "sample", viewBox: "0 0 24 10", "aria-hidden": "true" });
  made.append(drawn("path", { class: `line ${className}`, d: "M0 5H24" }));
  return made;
}

// ---- the load of each task

class TaskView {
  constructor(backend) {
    this.root = element("div", "task");
    this.root.dataset.backend = backend.name;
    this.waste = element("div", "waste");
    this.bar = element("div", "bar");
    const well = element("div", "well");
    well.append(this.waste, this.bar);
    this.percent = element("span", "percent");
    const name = element("span", "name");
    this.mark = stateMark(backend.state, "");
    this.label = element("span", "label");
    name.append(this.mark, this.label);
    this.root.append(well, this.percent, name);
  }

  show({ backend, label, most, top }) {
    const { utilization, age_s: age, processors } = backend.report ?? {};
    const isUsable = backend.state === "healthy";
    const isKnown = known(utilization) && backend.state !== "refusing";
    const isInSpread = isUsable && isKnown && age <= FRESH_S;
    this.root.dataset.state = backend.state;
    this.root.classList.toggle("unknown", !isKnown);
    this.root.classList.toggle("old", isKnown && age > FRESH_S);
    this.root.classList.toggle("low", !isKnown || utilization / top < 0.13 || !isUsable);
    move(this.bar, `scaleY(${isKnown ? Math.min(utilization / top, 1).toFixed(4) : 0})`);
    move(this.waste, level(isInSpread ? most / top : 0));
    say(this.percent, isKnown ? String(Math.round(utilization * 100)) : "");
    setState(this.mark, backend.state, "");
    say(this.label, label);
    const load = isKnown ? `${percent(utilization)} of ${processors ?? "?"} processors, ${span(age)} ago` : "load unknown";
    const words = `${backend.name} · ${STATES[backend.state] ?? backend.state} · ${load} · ${backend.active} active`;
    if (this.root.title !== words) this.root.title = words;
  }
}

/** Puts a line that is as tall as the columns at a share of their height. */
const level = (share) => `translateY(${((1 - share) * 100).toFixed(2)}%)`;

class LoadPlot {
  constructor(part) {
    this.part = part;
    this.tasks = new Map();
    this.rules = new Map();
    // The columns come before the rules, which are drawn over them and scroll with them.
    this.columns = part("tasks");
    for (const share of [0.5, 1]) {
      const rule = element("div", "rule grid");
      move(rule, level(share));
      this.columns.append(rule);
    }
    for (const name of ["most", "mean", "least"]) {
      const rule = element("div", `rule ${name}`);
      const mark = element("span");
      mark.append(`${name} `, element("b"));
      part("marks").append(mark);
      this.rules.set(name, { rule, mark });
      this.columns.append(rule);
    }
  }

  show(channel) {
    const { spread } = channel;
    const ordered = channel.backends.toSorted((a, b) => natural.compare(a.name, b.name));
    const loads = ordered.map((backend) => backend.report?.utilization ?? 0);
    const highest = Math.max(1, ...loads);
    const top = highest > 1 ? Math.ceil(highest * 4 - 0.0001) / 4 : 1;
    const labels = shortNames(ordered.map((backend) => backend.name));
    const isDense = ordered.length > NAMED_MOST;
    this.columns.classList.toggle("dense", isDense);
    this.columns.style.setProperty("--gap", ordered.length > 120 ? "1px" : isDense ? "3px" : "10px");
    const items = ordered.map((backend, i) => ({
      backend, top, most: spread?.most ?? 0, label: labels[i],
    }));
    keep(this.columns, this.tasks, items, (item) => item.backend.name, (item) => new TaskView(item.backend));
    this.part("load").style.setProperty("--scrollbar", `${this.columns.parentElement.offsetHeight - this.columns.offsetHeight}px`);
    this.showAxis(top);
    this.showRules(spread, top);
    const words = spread
      ? `least ${percent(spread.least)}, mean ${percent(spread.mean)}, most ${percent(spread.most)}`
      : "no fresh report";
    this.part("load").setAttribute("aria-label", `Load of ${ordered.length} tasks: ${words}`);
  }

  showAxis(top) {
    const axis = this.part("axis");
    [1, 0.5, 0].forEach((share, i) => {
      const tick = axis.children[i] ?? axis.appendChild(element("span"));
      tick.style.bottom = `${share * 100}%`;
      say(tick, percent(share * top));
    });
  }

  /** Lines across all tasks; their labels are pushed apart where an even load brings them together. */
  showRules(spread, top) {
    const height = this.part("marks").clientHeight || 220;
    const room = 18 / height;
    let free = 1.02;
    for (const [name, { rule, mark }] of this.rules) {
      rule.hidden = mark.hidden = !spread;
      if (!spread) continue;
      const share = Math.min(spread[name] / top, 1);
      move(rule, level(share));
      const least = { most: 2, mean: 1, least: 0 }[name] * room;
      free = Math.max(Math.min(share, free), least);
      move(mark, `translateY(${((1 - free) * height).toFixed(1)}px)`);
      free -= room;
      say(mark.lastChild, percent(spread[name]));
    }
  }
}

// ---- a table row for each backend

class BackendRow {
  constructor(backend) {
    this.root = element("tr");
    this.root.dataset.backend = backend.name;
    const cells = ["", "name", "number", "number", "", "number", "number", "number", "wide"];
    this.cells = cells.map((className) => this.root.appendChild(element("td", className)));
    this.mark = stateMark(backend.state);
    this.since = element("span", "for");
    this.cells[0].append(this.mark, " ", this.since);
    this.meter = meter();
    this.cells[4].append(this.meter);
    this.why = element("span", "why");
    this.lost = element("span", "lost");
    this.cells[8].append(this.why, this.lost);
  }

  show(backend) {
    const report = backend.report ?? {};
    const isOld = known(report.age_s) && report.age_s > FRESH_S;
    this.root.classList.toggle("attention", backend.state !== "healthy");
    setState(this.mark, backend.state);
    say(this.since, span(backend.since_s));
    say(this.cells[1], backend.name);
    say(this.cells[2], backend.streams ? `${count(backend.active)} + ${backend.streams} streams` : count(backend.active));
    say(this.cells[3], isOld ? "–" : rate(report.qps));
    setMeter(this.meter, isOld ? null : report.utilization);
    say(this.cells[5], isOld ? "–" : millis(report.latency_ms));
    const held = backend.recent_errors ? ` (${backend.recent_errors} held)` : "";
    say(this.cells[6], (isOld ? "–" : rate(report.eps)) + held);
    say(this.cells[7], known(backend.weight) ? backend.weight.toFixed(2) : "–");
    const age = isOld ? `; last report ${span(report.age_s)} ago` : "";
    this.cells[8].title = [backend.why, backend.last_lost].filter(known).join("; last lost: ");
    say(this.why, (backend.why === backend.state ? `gets nothing: ${STATES[backend.state]}` : backend.why) + age);
    const retry = known(backend.retry_in_s) ? `; tried again in ${span(backend.retry_in_s)}` : "";
    say(this.lost, (backend.last_lost ? `. Last lost: ${backend.last_lost}` : "") + retry);
  }
}

/** Those that fail often come before the others. By its own smoothed rates, so that rows do not jump about. */
function troubleOf(backend) {
  const { eps, qps } = backend.report ?? {};
  return { refusing: 3, lame_duck: 2 }[backend.state] ?? (eps > ERRORS_OFTEN * qps ? 1 : 0);
}

// ---- one channel

class ChannelView {
  constructor() {
    this.root = document.getElementById("channel").content.firstElementChild.cloneNode(true);
    const parts = new Map([...this.root.querySelectorAll("[data-is]")].map((node) => [node.dataset.is, node]));
    this.part = (name) => parts.get(name);
    this.load = new LoadPlot(this.part);
    this.rows = new Map();
    this.counts = null;
    this.history = [];
    this.marks = Object.keys(STATES).map((state) => this.part("states").appendChild(stateMark(state)));
    this.spreadChart = new TimeChart(this.part("spread-chart"), "Least, mean and most utilization over the last 60 seconds", percent);
    this.outcomeChart = new TimeChart(this.part("outcome-chart"), "Requests per second by outcome over the last 60 seconds", tick);
  }

  show({ channel, at }) {
    this.learn(channel, at);
    const last = this.history.at(-1);
    const { spread, subset } = channel;
    this.root.setAttribute("aria-label", `Channel to ${channel.service}`);
    this.root.classList.toggle("crowd", channel.backends.length > CROWD);
    say(this.part("service"), channel.service);
    say(this.part("facts"), `${channel.policy.replaceAll("_", " ")} · subset ${subset.size} of ${subset.known} (${subset.algorithm})`);
    Object.keys(STATES).forEach((state, i) => {
      const there = channel.backends.filter((backend) => backend.state === state).length;
      setState(this.marks[i], state, `${there} ${STATES[state]}`);
      this.marks[i].classList.toggle("none", there === 0);
    });
    say(this.part("wasted"), known(spread?.wasted_cores) ? spread.wasted_cores.toFixed(spread.wasted_cores < 9.95 ? 2 : 1) : "–");
    for (const name of ["least", "mean", "most"]) say(this.part(name), percent(spread?.[name]));
    say(this.part("rate"), rate(last.total));
    say(this.part("errors"), rate(last.errors));
    say(this.part("refused"), rate(last.rates?.refused));
    say(this.part("active"), count(channel.backends.reduce((sum, backend) => sum + backend.active, 0)));
    this.load.show(channel);
    this.showSpread();
    this.showOutcomes(channel);
    const worstFirst = (a, b) => troubleOf(b) - troubleOf(a) || natural.compare(a.name, b.name);
    const body = this.root.querySelector("tbody");
    keep(body, this.rows, channel.backends.toSorted(worstFirst), (backend) => backend.name, (backend) => new BackendRow(backend));
  }

  /** Adds this moment to the history. A backend that left, or came back with counts from zero, takes nothing away. */
  learn(channel, at) {
    const counts = new Map(channel.backends.map((backend) => [backend.name, backend.ended]));
    counts.set("", { refused: Object.values(channel.refused).reduce((sum, more) => sum + more, 0) });
    let rates = null;
    const before = this.counts;
    if (before && at > before.at) {
      rates = Object.fromEntries(Object.keys(OUTCOMES).map((name) => [name, 0]));
      for (const [backend, ended] of counts) {
        const earlier = before.counts.get(backend);
        if (!earlier) continue;
        for (const name of Object.keys(ended)) {
          if (name in rates) rates[name] += Math.max(0, ended[name] - earlier[name]) / (at - before.at);
        }
      }
    }
    this.counts = { counts, at };
    const sum = (names) => rates && names.reduce((all, name) => all + rates[name], 0);
    this.history.push({ at, age: 0, spread: channel.spread, rates, total: sum(Object.keys(OUTCOMES)), errors: sum(ERRORS) });
    this.history = this.history.filter((point) => at - point.at <= HISTORY_S);
    for (const point of this.history) point.age = at - point.at;
  }

  showSpread() {
    const chart = this.spreadChart;
    const highest = Math.max(1, ...this.history.map((point) => point.spread?.most ?? 0));
    chart.scale(highest > 1 ? Math.ceil(highest * 2 - 0.0001) / 2 : 1);
    chart.shape("band", "band", chart.path(this.history, (p) => p.spread?.most, (p) => p.spread?.least));
    for (const name of ["least", "most", "mean"]) {
      chart.shape(name, `line ${name}`, chart.path(this.history, (p) => p.spread?.[name]));
    }
    const spread = this.history.at(-1).spread;
    for (const name of ["most", "mean", "least"]) {
      chart.note(name, () => lineSample(name), `${name} ${percent(spread?.[name])}`);
    }
  }

  showOutcomes(channel) {
    const chart = this.outcomeChart;
    chart.scale(ceiling(Math.max(...this.history.map((point) => point.total ?? 0)), 1));
    const names = Object.keys(OUTCOMES);
    const rates = this.history.at(-1).rates;
    const below = (point, end) => point.rates && names.slice(0, end).reduce((sum, name) => sum + point.rates[name], 0);
    names.forEach((name, i) => {
      const area = chart.path(this.history, (point) => below(point, i + 1), (point) => below(point, i));
      chart.shape(name, "area", area, `var(--o-${name})`);
    });
    for (const name of ["served", ...names.slice(0, -1)]) {
      const ever = this.history.some((point) => point.rates?.[name] > 0);
      chart.note(name, () => swatch(`var(--o-${name})`), `${OUTCOMES[name]} ${rate(rates?.[name])}`, !ever);
    }
    const refused = Object.entries(REASONS).map(([reason, words]) => `${words} ${count(channel.refused[reason])}`);
    say(this.part("refusals"), `Refused here so far: ${refused.join(" · ")}`);
  }
}

// ---- one server of this process

class ServerRow {
  constructor() {
    this.root = element("tr");
    this.root.append(element("td", "name"));
    const cells = ["", "number", "number", "number", "number", "", "number", "number", "number"];
    this.cells = cells.map((className) => this.root.appendChild(element("td", className)));
    this.mark = stateMark("refusing");
    this.since = element("span", "for");
    this.cells[0].append(this.mark, " ", this.since);
    this.meter = meter();
    this.cells[5].append(this.meter);
  }

  show(server) {
    say(this.root.firstChild, String(server.key));
    const report = server.report ?? {};
    const look = { serving: "healthy", stopped: "refusing", silent: "refusing" }[server.phase] ?? "lame_duck";
    setState(this.mark, look, server.phase.replaceAll("_", " "));
    const draining = known(server.draining_s) ? `, draining for ${span(server.draining_s)}` : "";
    say(this.since, known(server.since_s) ? span(server.since_s) + draining : "");
    say(this.cells[1], count(server.in_flight));
    say(this.cells[2], rate(report.qps));
    say(this.cells[3], rate(report.eps));
    say(this.cells[4], millis(report.latency_ms));
    setMeter(this.meter, report.utilization);
    say(this.cells[6], count(server.admitted));
    const { too_late: late, closed } = server.refused ?? {};
    say(this.cells[7], server.refused ? `${count(late + closed)}` : "–");
    this.cells[7].title = server.refused ? `deadline passed ${late}, closed ${closed}` : "";
    say(this.cells[8], count(server.unacknowledged));
  }
}

// ---- asking, again and again

const page = {
  channels: new Map(), servers: new Map(), uptime: 0, answeredAt: performance.now(), timer: null, isAsking: false,
};
const byId = (id) => document.getElementById(id);

function show(state) {
  // A process that began again counts from zero: what was before is another process's.
  if (state.uptime_s < page.uptime) {
    byId("channels").replaceChildren();
    page.channels.clear();
  }
  page.uptime = state.uptime_s;
  say(byId("version"), state.version);
  say(byId("uptime"), `up ${span(state.uptime_s)}`);
  const services = state.channels.map((channel) => channel.service);
  document.title = services.length ? `${[...new Set(services)].join(", ")} · evenkeel` : "evenkeel";
  const channels = state.channels.map((channel, i) => ({ channel, at: state.uptime_s, key: `${i} ${channel.service}` }));
  keep(byId("channels"), page.channels, channels, (item) => item.key, () => new ChannelView());
  say(byId("silent"), state.silent_channels.map((service) => `The channel to ${service} does not answer.`).join(" "));
  const servers = state.servers.map((server, i) => ({ ...server, key: i + 1 }));
  keep(byId("servers").querySelector("tbody"), page.servers, servers, (item) => item.key, () => new ServerRow());
  byId("servers").hidden = servers.length === 0;
  const isEmpty = channels.length + servers.length + state.silent_channels.length === 0;
  byId("nothing").hidden = !isEmpty;
  if (isEmpty) say(byId("nothing"), "The process has neither a channel nor a server to show.");
}

function showStatus(status, words) {
  byId("status").dataset.status = status;
  say(byId("status"), words);
  document.body.classList.toggle("is-gone", status === "gone");
  byId("gone").hidden = status !== "gone";
}

async function ask() {
  if (page.isAsking || document.hidden) return;
  page.isAsking = true;
  clearTimeout(page.timer);
  try {
    const answer = await fetch("state", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MOST_MS) });
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    show(await answer.json());
    page.answeredAt = performance.now();
    showStatus("live", "live");
  } catch (error) {
    const ago = span((performance.now() - page.answeredAt) / 1000);
    say(byId("gone"), `The process does not answer (${error.message}). What is shown is ${ago} old; asking on.`);
    showStatus("gone", `no answer for ${ago}`);
  }
  page.isAsking = false;
  page.timer = setTimeout(ask, POLL_MS);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) showStatus("waiting", "paused");
  else ask();
});
ask();
