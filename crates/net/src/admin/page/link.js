// What there is between client and backend, and what became of checks, pushes and datagrams, in words.
//
// The state of an older process has none of it: then nothing is said of it.

import { element, say } from "./draw.js";
import { FRESH_S, count, known } from "./words.js";

/** Checks bring the reports of an inactive backend, once in ten seconds or so: one is current until two were missed. */
const INACTIVE_FRESH_S = 3 * FRESH_S;

const LINKS = {
  connected: "connected",
  inactive: "no connection, since nobody used it",
  waking: "no connection yet: a request wants it, and it is being made",
  connecting: "no connection: it is being made, or tried again later",
};
const CHECKS = {
  connection: "checked on its connection",
  datagrams: "checked by datagrams",
  visits: "checked by connecting now and then: it takes no datagrams, or they do not get through",
  nothing: "not checked at the moment",
};

export const isInactive = (backend) => backend.link === "inactive";

export function isOld(backend) {
  const age = backend.report?.age_s;
  return known(age) && age > (isInactive(backend) ? INACTIVE_FRESH_S : FRESH_S);
}

/** For a tooltip: everything there is to say. Empty where nothing is known. */
export function linkWords({ link, checked_by: checkedBy, silences }) {
  if (!known(link)) return "";
  const silent = silences > 0 ? `, ${unanswered(silences)}` : "";
  return `${LINKS[link] ?? link}; ${CHECKS[checkedBy] ?? `checked by ${checkedBy}`}${silent}`;
}

const unanswered = (silences) => `${silences} ${silences === 1 ? "check" : "checks in a row"} unanswered`;

/** Fills a table cell: a badge for what is not connected, and below it what somebody may want to look into. */
export class LinkCell {
  constructor(cell) {
    this.cell = cell;
    this.badge = element("span", "badge");
    this.hint = element("span", "hint");
    cell.append(this.badge, this.hint);
  }

  show(backend) {
    const { link, checked_by: checkedBy, silences } = backend;
    say(this.badge, isInactive(backend) ? `${link} · ${checkedBy}` : link ?? "");
    const silent = silences > 0 ? unanswered(silences) : "";
    say(this.hint, checkedBy === "visits" ? "no datagrams get through" : silent);
    const words = linkWords(backend);
    if (this.cell.title !== words) this.cell.title = words;
  }
}

/** Of a channel: who is inactive, and what came of the checks. */
export function checkWords({ inactive, woken, checks, sockets }) {
  if (!known(inactive)) return "";
  const isQuiet = inactive + (woken ?? 0) + Object.values(checks ?? {}).reduce((sum, more) => sum + more, 0) === 0;
  if (isQuiet) return "none inactive";
  const { answered, silent, resets, pushes, visits } = checks ?? {};
  const dropped = {};
  for (const socket of sockets ?? []) {
    for (const [reason, more] of Object.entries(socket.dropped)) dropped[reason] = (dropped[reason] ?? 0) + more;
  }
  return [
    `${count(inactive)} inactive`,
    `${count(woken)} woken`,
    `checks: ${count(answered)} answered, ${count(silent)} silent, ${count(resets)} reset`,
    `${count(pushes)} ${pushes === 1 ? "push" : "pushes"}`,
    visits > 0 && `${count(visits)} ${visits === 1 ? "visit" : "visits"}`,
    droppedWords(dropped),
  ].filter(Boolean).join(" · ");
}

/** Of a server: whom it remembers, what became of its pushes, and which datagrams were not taken or not sent. */
export function datagramWords(datagrams) {
  if (!datagrams) return "–";
  const { peers, unreached, received, pushed, dropped, unsent } = datagrams;
  const { replayed, forged, malformed, withheld } = received ?? {};
  return [
    `${count(peers)} remembered`,
    unreached > 0 && `${count(unreached)} unreached`,
    pushed?.acknowledged + pushed?.given_up > 0
      && `pushes: ${count(pushed.acknowledged)} acknowledged, ${count(pushed.given_up)} given up`,
    droppedWords({ replayed, forged, malformed, "resets withheld": withheld, unsent }),
    dropped?.evicted > 0 && `clients evicted: ${count(dropped.evicted)}`,
  ].filter(Boolean).join(" · ");
}

function droppedWords(reasons) {
  const some = Object.entries(reasons).filter(([, number]) => number > 0);
  return some.length > 0 && `dropped: ${some.map(([reason, number]) => `${count(number)} ${reason}`).join(", ")}`;
}
