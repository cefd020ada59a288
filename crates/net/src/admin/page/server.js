// One server of this process.

import { element, meter, say, setMeter, setState, stateMark } from "./draw.js";
import { datagramWords } from "./link.js";
import { count, known, millis, rate, span } from "./words.js";

export class ServerRow {
  constructor() {
    this.root = element("tr");
    this.root.append(element("td", "name"));
    const cells = ["", "number", "number", "number", "number", "", "number", "number", "number", "datagrams"];
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
    const refused = Object.entries(server.refused ?? {});
    say(this.cells[7], server.refused ? count(refused.reduce((all, [, one]) => all + one, 0)) : "–");
    this.cells[7].title = refused.filter(([, one]) => one > 0).map(([why, one]) => `${why.replaceAll("_", " ")} ${one}`).join(", ");
    say(this.cells[8], count(server.unacknowledged));
    say(this.cells[9], datagramWords(server.datagrams));
  }
}
