// The load of each task, a column each, and the spread across all of them.

import { element, keep, move, say, setState, stateMark } from "./draw.js";
import { isInactive, isOld, linkWords } from "./link.js";
import { FRESH_S, STATES, known, natural, percent, shortNames, span } from "./words.js";

/** More tasks than this are drawn without their names. */
const NAMED_MOST = 24;

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
    const isMuted = isInactive(backend) || isOld(backend);
    this.root.dataset.link = backend.link ?? "";
    this.root.classList.toggle("muted", isKnown && isMuted);
    this.root.classList.toggle("low", !isKnown || utilization / top < 0.13 || !isUsable || isMuted);
    move(this.bar, `scaleY(${isKnown ? Math.min(utilization / top, 1).toFixed(4) : 0})`);
    move(this.waste, level(isInSpread ? most / top : 0));
    say(this.percent, isKnown ? String(Math.round(utilization * 100)) : "");
    setState(this.mark, backend.state, "");
    say(this.label, label);
    const load = isKnown ? `${percent(utilization)} of ${processors ?? "?"} processors, ${span(age)} ago` : "load unknown";
    const facts = [backend.name, STATES[backend.state] ?? backend.state, linkWords(backend), load, `${backend.active} active`];
    const words = facts.filter(Boolean).join(" · ");
    if (this.root.title !== words) this.root.title = words;
  }
}

/** Puts a line that is as tall as the columns at a share of their height. */
const level = (share) => `translateY(${((1 - share) * 100).toFixed(2)}%)`;

export class LoadPlot {
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
    this.part("inactive-legend").hidden = !ordered.some(isInactive);
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
