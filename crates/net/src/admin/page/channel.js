// One channel: its figures, its tasks, the last minute and its backends.
//
// Rates are made from counters over the process's own clock (uptime_s), so a page that was hidden or slow to be
// answered draws no spikes.

import { BackendRow, troubleOf } from "./backend.js";
import { HISTORY_S, TimeChart, lineSample, swatch } from "./chart.js";
import { keep, say, setState, stateMark } from "./draw.js";
import { checkWords } from "./link.js";
import { LoadPlot } from "./load.js";
import { STATES, ceiling, count, known, natural, percent, rate, tick } from "./words.js";

/** More than this do not move smoothly in every detail: each moving thing costs memory. */
const CROWD = 100;
/** Drawn from the bottom: errors stand on the line, where they can be compared. */
const OUTCOMES = {
  failed: "failed", overloaded: "overloaded", dont_retry: "don't retry", out_of_quota: "out of quota", expired: "expired",
  refused: "refused here", unsent: "unsent", cancelled: "cancelled", served: "served",
};
const ERRORS = ["failed", "overloaded", "dont_retry", "out_of_quota", "expired"];
const REASONS = { too_late: "deadline passed", all_full: "all full", none_usable: "none usable", waking: "not woken in time",
  throttled: "throttled" };

/** Backends that fail where others do not. */
function leftOut(ejected) {
  if (!(ejected?.now > 0)) return "";
  return ejected.panics_now ? " · too few others to leave any out" : ` · ${ejected.now} left out`;
}

/** What was tried again, and what was not though it might have helped. */
function retryWords(retries) {
  if (!retries) return "";
  const all = (counts) => Object.values(counts ?? {}).reduce((sum, more) => sum + more, 0);
  const made = Object.entries(retries.made).filter(([, one]) => one > 0).map(([cause, one]) => `${cause} ${count(one)}`);
  const observed = all(retries.observed) ? ` · would have been ${count(all(retries.observed))}` : "";
  const spent = retries.stopped.budget ? ` · not, for want of budget ${count(retries.stopped.budget)}` : "";
  return `. Tried again: ${made.join(" · ") || "none"}${observed}${spent}`;
}

export class ChannelView {
  constructor() {
    this.root = document.getElementById("channel").content.firstElementChild.cloneNode(true);
    const parts = new Map([...this.root.querySelectorAll("[data-is]")].map((node) => [node.dataset.is, node]));
    this.part = (name) => parts.get(name);
    this.load = new LoadPlot(this.part);
    this.rows = new Map();
    this.counts = null;
    this.history = [];
    this.marks = Object.keys(STATES).map((state) => this.part("states").appendChild(stateMark(state)));
    this.inactiveMark = this.part("states").appendChild(stateMark("inactive", ""));
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
    say(this.part("facts"), `${channel.policy.replaceAll("_", " ")} · subset ${subset.size} of ${subset.known} (${subset.algorithm})${leftOut(channel.ejected)}`);
    Object.keys(STATES).forEach((state, i) => {
      const there = channel.backends.filter((backend) => backend.state === state).length;
      setState(this.marks[i], state, `${there} ${STATES[state]}`);
      this.marks[i].classList.toggle("none", there === 0);
    });
    setState(this.inactiveMark, "inactive", `${channel.inactive} of them inactive`);
    this.inactiveMark.hidden = !(channel.inactive > 0);
    say(this.part("wasted"), known(spread?.wasted_cores) ? spread.wasted_cores.toFixed(spread.wasted_cores < 9.95 ? 2 : 1) : "–");
    for (const name of ["least", "mean", "most"]) say(this.part(name), percent(spread?.[name]));
    say(this.part("rate"), rate(last.total));
    say(this.part("errors"), rate(last.errors));
    say(this.part("refused"), rate(last.rates?.refused));
    say(this.part("active"), count(channel.backends.reduce((sum, backend) => sum + backend.active, 0)));
    this.load.show(channel);
    this.showSpread();
    this.showOutcomes(channel);
    say(this.part("checks"), checkWords(channel));
    this.part("backends").classList.toggle("no-links", !channel.backends.some((backend) => known(backend.link)));
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
    const reasons = Object.entries(REASONS).filter(([reason]) => known(channel.refused[reason]));
    const refused = reasons.map(([reason, words]) => `${words} ${count(channel.refused[reason])}`);
    say(this.part("refusals"), `Refused here so far: ${refused.join(" · ")}${retryWords(channel.retries)}`);
  }
}
