// The document: elements are made once and changed only where they differ, so that little is laid out again.
//
// Text reaches the document through textContent alone, so no name of a backend can become markup.

import { STATES, known, percent } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (known(text)) made.textContent = text;
  return made;
}

export function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function move(node, transform) {
  if (node.style.transform !== transform) node.style.transform = transform;
}

/** A shape and a word for a state: never the colour alone. */
export function stateMark(state, words) {
  const mark = element("span", "state");
  const icon = drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
  mark.append(icon, element("span", "word"));
  setState(mark, state, words);
  return mark;
}

export function setState(mark, state, words) {
  if (mark.dataset.state !== state) {
    mark.dataset.state = state;
    const shapes = {
      healthy: [drawn("circle", { cx: 5, cy: 5, r: 4 })],
      inactive: [drawn("circle", { cx: 5, cy: 5, r: 4 })],
      lame_duck: [drawn("circle", { cx: 5, cy: 5, r: 4 }), drawn("path", { class: "half", d: "M5 1a4 4 0 0 1 0 8z" })],
    };
    mark.firstChild.replaceChildren(...(shapes[state] ?? [drawn("path", { d: "M1.5 1.5l7 7M8.5 1.5l-7 7" })]));
  }
  say(mark.lastChild, words ?? STATES[state] ?? state);
}

export function meter() {
  const made = element("span", "meter");
  const track = element("span", "track");
  track.append(element("div", "fill"));
  made.append(track, element("span", "value"));
  return made;
}

export function setMeter(made, ratio) {
  move(made.firstChild.firstChild, `scaleX(${Math.min(ratio ?? 0, 1).toFixed(3)})`);
  say(made.lastChild, percent(ratio));
}

/** Keeps one child of `parent` for each item, in the order of the items, and moves as few as possible. */
export function keep(parent, views, items, keyOf, make) {
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
