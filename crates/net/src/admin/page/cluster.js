// One cluster of a service that is in several.

import { element, meter, say, setMeter } from "./draw.js";
import { count, percent } from "./words.js";

export class ClusterRow {
  constructor() {
    this.root = element("tr");
    const cells = ["name", "name", "number", "", "number", "number", "wide"];
    this.cells = cells.map((className) => this.root.appendChild(element("td", className)));
    this.meter = meter();
    this.cells[3].append(this.meter);
  }

  show(cluster) {
    say(this.cells[0], cluster.service);
    say(this.cells[1], cluster.name);
    const wanted = Math.abs(cluster.share - cluster.in_force) > 0.005 ? ` (wanted ${percent(cluster.share)})` : "";
    say(this.cells[2], percent(cluster.in_force) + wanted);
    setMeter(this.meter, cluster.load);
    say(this.cells[4], percent(cluster.errors));
    say(this.cells[5], count(cluster.usable));
    say(this.cells[6], cluster.why);
  }
}
