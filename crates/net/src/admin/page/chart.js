// Charts of the last minute.

import { drawn, element, say } from "./draw.js";
import { known } from "./words.js";

export const HISTORY_S = 60;

/** A chart of the last minute: x is seconds, y what `top` says; drawn anew with every answer. */
export class TimeChart {
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

export function swatch(colour) {
  const made = element("i", "swatch");
  made.style.background = colour;
  return made;
}

export function lineSample(className) {
  const made = drawn("svg", { class: "sample", viewBox: "0 0 24 10", "aria-hidden": "true" });
  made.append(drawn("path", { class: `line ${className}`, d: "M0 5H24" }));
  return made;
}
