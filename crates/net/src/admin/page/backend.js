// A table row for each backend.

import { element, meter, say, setMeter, setState, stateMark } from "./draw.js";
import { LinkCell, isOld } from "./link.js";
import { STATES, count, known, millis, rate, span } from "./words.js";

/** A backend that fails this share of its requests is in trouble. */
const ERRORS_OFTEN = 0.05;

export class BackendRow {
  constructor(backend) {
    this.root = element("tr");
    this.root.dataset.backend = backend.name;
    const cells = ["", "name", "link", "number", "number", "", "number", "number", "number", "wide"];
    this.cells = cells.map((className) => this.root.appendChild(element("td", className)));
    this.mark = stateMark(backend.state);
    this.since = element("span", "for");
    this.cells[0].append(this.mark, " ", this.since);
    this.link = new LinkCell(this.cells[2]);
    this.meter = meter();
    this.cells[5].append(this.meter);
    this.why = element("span", "why");
    this.lost = element("span", "lost");
    this.cells[9].append(this.why, this.lost);
  }

  show(backend) {
    const report = backend.report ?? {};
    const isPast = isOld(backend);
    this.root.dataset.link = backend.link ?? "";
    this.root.classList.toggle("attention", backend.state !== "healthy" || known(backend.out_for_s));
    setState(this.mark, backend.state);
    say(this.since, span(backend.since_s));
    say(this.cells[1], backend.name);
    this.link.show(backend);
    say(this.cells[3], backend.streams ? `${count(backend.active)} + ${backend.streams} streams` : count(backend.active));
    say(this.cells[4], isPast ? "–" : rate(report.qps));
    setMeter(this.meter, isPast ? null : report.utilization);
    say(this.cells[6], isPast ? "–" : millis(report.latency_ms));
    const held = backend.recent_errors ? ` (${backend.recent_errors} held)` : "";
    say(this.cells[7], (isPast ? "–" : rate(report.eps)) + held);
    say(this.cells[8], known(backend.weight) ? backend.weight.toFixed(2) : "–");
    const isLeftOut = known(backend.out_for_s) && !known(backend.weight);
    const out = isLeftOut ? `; ${span(backend.out_for_s)} more` : "";
    const age = isPast ? `; last report ${span(report.age_s)} ago` : "";
    this.cells[9].title = [backend.why, backend.last_lost].filter(known).join("; last lost: ");
    say(this.why, (backend.why === backend.state ? `gets nothing: ${STATES[backend.state]}` : backend.why) + out + age);
    const retry = known(backend.retry_in_s) ? `; tried again in ${span(backend.retry_in_s)}` : "";
    say(this.lost, (backend.last_lost ? `. Last lost: ${backend.last_lost}` : "") + retry);
  }
}

/** Those that fail often come before the others. By its own smoothed rates, so that rows do not jump about. */
export function troubleOf(backend) {
  const { eps, qps } = backend.report ?? {};
  return { refusing: 3, lame_duck: 2 }[backend.state] ?? (known(backend.out_for_s) || eps > ERRORS_OFTEN * qps ? 1 : 0);
}
