// Rows of an admission panel: what a signal reads, and who costs how much.

import { element, meter, say, setMeter } from "./draw.js";
import { count, known, percent } from "./words.js";

/** CPU seconds, of any size, or as many a second. */
export function cpu(seconds, unit = "") {
  if (!known(seconds)) return "–";
  if (unit === "") return seconds >= 9.95 ? seconds.toFixed(1) : seconds.toFixed(seconds < 0.0995 ? 3 : 2);
  if (seconds === 0) return "0 s";
  if (seconds < 0.9995e-3) return `${(seconds * 1e6).toFixed(seconds < 9.95e-6 ? 1 : 0)} µs`;
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(seconds < 99.5e-3 ? 1 : 0)} ms`;
  return `${seconds.toFixed(seconds < 99.5 ? 1 : 0)} s`;
}

const SIGNALS = {
  cpu: ["CPU in use over reserved", percent],
  memory: ["memory in use over its limit", percent],
  load: ["handlers for each processor", (value) => value.toFixed(2)],
  delay: ["a task that is ready waits", (seconds) => cpu(seconds, " s")],
  throttled: ["time held back by the system", percent],
  plugged: ["what the source of usage says of the service", percent],
};

export class SignalRow {
  constructor() {
    this.root = element("tr");
    this.cells = ["name", "number", "wide"].map((name) => this.root.appendChild(element("td", name)));
  }

  show({ name, value, why, asks, isPlugged }) {
    const [words, text] = (!isPlugged && SIGNALS[name]) || ["plugged in, over its capacity", percent];
    say(this.cells[0], name);
    say(this.cells[1], known(value) ? text(value) : "–");
    const isAsking = asks === name;
    say(this.cells[2], why ? `left out: ${why}` : isAsking ? `asks for the cutoff: ${words}` : words);
    this.root.classList.toggle("attention", isAsking);
    this.root.classList.toggle("none", !known(value));
  }
}

export class SpenderRow {
  constructor(kind) {
    this.kind = kind;
    this.root = element("tr");
    this.cells = ["name", "number", "number", "", "number"].map((name) => this.root.appendChild(element("td", name)));
    this.meter = meter();
    this.cells[3].append(this.meter);
    if (kind === "customer") this.refused = this.root.insertBefore(element("td", "number"), this.cells[3]);
  }

  show({ name, requests, cpu_s: all, share, mean_s: mean, degraded_mean_s: degraded, quota_cpu: quota, refused_for_quota: refused }) {
    // The first segment of `/` is empty.
    say(this.cells[0], known(name) ? name || "/" : `all other ${this.kind}s`);
    this.cells[0].title = this.cells[0].textContent;
    say(this.cells[1], known(degraded) ? `${cpu(degraded, " s")}, whole ${cpu(mean, " s")}` : cpu(mean, " s"));
    say(this.cells[2], count(requests));
    if (this.refused) say(this.refused, count(refused));
    setMeter(this.meter, share);
    say(this.cells[4], known(quota) ? `${cpu(all, " s")}, may use ${cpu(quota)}/s` : cpu(all, " s"));
  }
}
