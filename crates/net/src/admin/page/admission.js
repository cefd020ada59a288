// Who a server lets in, and why: one panel for each server that says so.
//
// Rates are made from counters over the process's own clock, as those of channels are.

import { element, keep, move, say } from "./draw.js";
import { SignalRow, SpenderRow, cpu } from "./spender.js";
import { count, known, percent, rate } from "./words.js";

/** From the least, which is refused first. */
export const LEVELS = ["SHEDDABLE", "SHEDDABLE_PLUS", "CRITICAL", "CRITICAL_PLUS"];
const levelWords = (level) => level.toLowerCase().replaceAll("_plus", " plus");
const REASONS = {
  overloaded: "cutoff", queue_full: "queue full", waited_too_long: "waited too long", limit_reached: "limit reached",
  out_of_quota: "out of quota", too_late: "deadline passed", closed: "closed",
};
const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

export class AdmissionView {
  constructor() {
    this.root = document.getElementById("admission").content.firstElementChild.cloneNode(true);
    const parts = new Map([...this.root.querySelectorAll("[data-is]")].map((node) => [node.dataset.is, node]));
    this.part = (name) => parts.get(name);
    this.before = null;
    this.levels = LEVELS.map((level) => new LevelCell(level));
    this.part("cutoff").append(...this.levels.map((cell) => cell.root));
    this.demand = LEVELS.map((level) => this.part("demand").appendChild(element("div", `part ${level.toLowerCase()}`)));
    this.legend = LEVELS.map((level) => {
      const item = element("li");
      // In the order of the bar: what matters most first.
      this.part("demand-legend").prepend(item);
      item.append(element("i", `swatch ${level.toLowerCase()}`), element("span"));
      return item.lastChild;
    });
    this.capacityMark = element("li");
    this.capacityMark.append(element("i", "swatch line"), element("span"));
    this.part("demand-legend").append(this.capacityMark);
    this.reasons = new Map();
    this.signals = new Map();
    this.methods = new Map();
    this.customers = new Map();
    this.part("switch").addEventListener("click", () => this.flip());
  }

  show({ server, number, at, canSwitch }) {
    const now = server.admission;
    this.root.dataset.server = number;
    this.part("switch").hidden = !canSwitch;
    this.part("switch").dataset.to = now.modes.all === "on" ? "off" : "on";
    say(this.part("switch"), `Switch everything ${this.part("switch").dataset.to}`);
    say(this.part("title"), `Admission of server ${number}`);
    const held = Object.entries(now.modes).filter(([, mode]) => mode !== "on").map(([name, mode]) => `${name}: ${mode}`);
    say(this.part("modes"), now.modes.all === "on" ? (held.length ? `on, but for ${held.join(", ")}` : "on") : `everything: ${now.modes.all}`);
    this.part("modes").classList.toggle("warning", now.modes.all !== "on");
    this.showCutoff(now);
    this.showDemand(now);
    this.showFigures(server, now);
    this.showReasons(now, at);
    const leftOut = new Map(now.left_out.map((one) => [one.name, one.why]));
    const plugged = now.plugged.map((one) => ({ ...one, isPlugged: true }));
    const names = new Set(now.plugged.map((one) => one.name));
    const machine = now.signals.filter((one) => !names.has(one.name));
    const signals = [...machine, ...plugged].map((one) => ({ ...one, why: leftOut.get(one.name), asks: now.cutoff_signal }));
    keep(this.part("signals"), this.signals, signals, (one) => `${one.isPlugged ?? false} ${one.name}`, () => new SignalRow());
    const named = (list) => list.map((one) => ({ ...one, key: one.name ?? "\u0000" }));
    keep(this.part("methods"), this.methods, named(now.methods), (one) => one.key, () => new SpenderRow("method"));
    keep(this.part("customers"), this.customers, named(now.customers), (one) => one.key, () => new SpenderRow("customer"));
    this.part("customers-panel").hidden = now.customers.length === 0;
    this.before = { now, at };
  }

  /** The switch for all at once; single ones are set with POST /admission. */
  async flip() {
    const [all, server] = [this.part("switch").dataset.to, Number(this.root.dataset.server)];
    const then = { off: "It will let everything in, whatever comes.", on: "Each mechanism goes back to its own setting." };
    if (!confirm(`Switch overload control of server ${server} ${all}? ${then[all]}`)) return;
    const body = JSON.stringify({ server, all });
    try {
      const answer = await fetch("admission", { method: "POST", headers: { "content-type": "application/json" }, body });
      if (answer.status === 503) throw new Error("It does not answer, and will be switched once it does.");
      if (!answer.ok) throw new Error(`It was not switched: ${await answer.text()}`);
    } catch (error) {
      alert(error.message);
    }
  }

  showCutoff(now) {
    LEVELS.forEach((level, i) => this.levels[i].show(now.cutoff - i, now.cutoff_observed - i));
    const why = now.cutoff_signal ? `asked for by ${now.cutoff_signal}` : "asked for by demand";
    const wouldBe = now.cutoff_observed > now.cutoff ? `; would be ${now.cutoff_observed.toFixed(2)} if all were on` : "";
    const what = now.cutoff > 0 ? `cutoff ${now.cutoff.toFixed(2)} of 4, ${why}` : "nothing is refused by criticality";
    say(this.part("cutoff-words"), what + wouldBe);
  }

  showDemand(now) {
    // Nobody measures it while everything is off.
    const each = now.demand_cpu ?? {};
    const total = sum(each);
    const top = Math.max(total, now.capacity_cpu ?? 0, 1e-9) * 1.08;
    let below = 0;
    // What matters most stands first, where the capacity begins.
    for (const i of [3, 2, 1, 0]) {
      const demand = each[LEVELS[i]] ?? 0;
      move(this.demand[i], `translateX(${((100 * below) / top).toFixed(2)}%) scaleX(${(demand / top).toFixed(4)})`);
      say(this.legend[i], `${levelWords(LEVELS[i])} ${cpu(demand)}`);
      below += demand;
    }
    move(this.part("capacity"), `translateX(${((100 * (now.capacity_cpu ?? 0)) / top).toFixed(2)}%)`);
    say(this.capacityMark.lastChild, `capacity ${cpu(now.capacity_cpu)}`);
    const words = `critical demand is ${percent(now.critical_demand)} of capacity`;
    say(this.part("demand-words"), now.demand_cpu ? words : "demand is not measured while admission is off");
    this.part("demand-words").classList.toggle("warning", now.critical_demand > 1);
  }

  showFigures(server, now) {
    const limit = known(now.limit) ? ` of ${count(now.limit)}` : "";
    const figures = {
      running: `${count(now.running)} of ${count(now.slots)}`,
      waiting: count(now.waiting),
      queued: cpu(now.queued_s, " s"),
      flight: `${count(server.in_flight)}${limit}`,
      degrade: `${now.degrade} of 3`,
      degraded: count(now.degraded),
      retries: percent(now.retries) + (now.dont_retry ? ", told not to" : ""),
      cost: cpu(now.cost.degraded_mean_s ?? now.cost.mean_s, " s"),
      dearest: cpu(now.cost.dearest_s, " s"),
      overhead: cpu(now.cost.overhead_per_request_s, " s"),
    };
    for (const [name, text] of Object.entries(figures)) say(this.part(name), text);
    const whole = known(now.cost.degraded_mean_s) ? `a whole answer costs ${cpu(now.cost.mean_s, " s")}; ` : "";
    this.part("cost").title = `${whole}read from ${now.cost.source}; this machine counts as ${now.cost.cpu_factor}`;
  }

  showReasons(now, at) {
    const passed = this.before ? at - this.before.at : 0;
    const perSecond = (name, reason) =>
      passed > 0 ? Math.max(0, sum(now[name][reason]) - sum(this.before.now[name][reason])) / passed : null;
    const reasons = Object.keys(REASONS).map((reason) => ({
      reason, all: sum(now.refused[reason]), rate: perSecond("refused", reason), observed: perSecond("observed", reason),
      observedAll: sum(now.observed[reason]),
    }));
    keep(this.part("reasons"), this.reasons, reasons, (one) => one.reason, (one) => new ReasonRow(REASONS[one.reason]));
  }
}

/** A quarter of the cutoff's bar: how much of one criticality is refused. */
class LevelCell {
  constructor(level) {
    this.root = element("div", "level");
    this.root.dataset.level = level;
    this.track = element("div", "track");
    this.observed = this.track.appendChild(element("div", "observed"));
    this.fill = this.track.appendChild(element("div", "fill"));
    this.words = element("span", "quiet");
    const name = element("span", "name", levelWords(level));
    const foot = element("div", "foot");
    foot.append(name, this.words);
    this.root.append(this.track, foot);
  }

  show(cutoff, observed) {
    const [refused, wouldBe] = [cutoff, observed].map((part) => Math.min(Math.max(part, 0), 1));
    move(this.fill, `scaleX(${refused.toFixed(4)})`);
    move(this.observed, `scaleX(${wouldBe.toFixed(4)})`);
    say(this.words, refused > 0 ? `${percent(refused)} refused` : "let in");
    this.root.classList.toggle("cut", refused > 0);
  }
}

class ReasonRow {
  constructor(words) {
    this.root = element("tr");
    this.cells = ["", "number", "number", "number"].map((name) => this.root.appendChild(element("td", name)));
    say(this.cells[0], words);
  }

  show({ rate: now, all, observed, observedAll }) {
    say(this.cells[1], rate(now));
    say(this.cells[2], count(all));
    say(this.cells[3], observedAll ? `${rate(observed)}/s, ${count(observedAll)} so far` : "–");
    this.root.classList.toggle("attention", now > 0);
    this.root.classList.toggle("none", all === 0 && observedAll === 0);
  }
}
