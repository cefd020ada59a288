// Words and numbers: what `/state` says, as people read it.

export const STATES = { refusing: "refusing", lame_duck: "lame duck", healthy: "healthy" };
/** A report older than this says little about now; the server leaves it out of the spread as well. */
export const FRESH_S = 10;
export const natural = new Intl.Collator("en", { numeric: true });

export const known = (value) => value !== null && value !== undefined;
export const percent = (ratio) => (known(ratio) ? `${Math.round(ratio * 100)} %` : "–");
export const count = (number) => (known(number) ? number.toLocaleString("en-GB").replaceAll(",", "\u202f") : "–");

export function rate(perSecond) {
  if (!known(perSecond)) return "–";
  if (perSecond === 0) return "0";
  if (perSecond >= 99_950) return `${(perSecond / 1000).toFixed(0)} k`;
  if (perSecond >= 9_995) return `${(perSecond / 1000).toFixed(1)} k`;
  return perSecond >= 99.95 ? perSecond.toFixed(0) : perSecond.toFixed(1);
}

/** On an axis, without the zeros that a column of figures needs. */
export const tick = (perSecond) => rate(perSecond).replace(".0", "");

export function span(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function millis(ms) {
  if (!known(ms)) return "–";
  if (ms >= 9_995) return `${(ms / 1000).toFixed(0)} s`;
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 99.95 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(ms < 0.995 ? 2 : 1)} ms`;
}

/** The next round number that is not below. */
export function ceiling(value, least) {
  const wanted = Math.max(value, least);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= wanted * 0.9999);
}

/** Names without what all of them begin and end with, up to a separator: it does not tell which of them is meant. */
export function shortNames(names) {
  const first = names[0] ?? "";
  const isCut = (char) => ":/-._".includes(char);
  const isShared = (at) => names.every((name) => name.at(at) === first.at(at));
  if (names.length < 2) return names;
  let start = 0;
  while (start < first.length && isShared(start)) start += 1;
  while (start > 0 && !isCut(first[start - 1])) start -= 1;
  let end = 0;
  while (end < first.length - start && isShared(-end - 1)) end += 1;
  while (end > 0 && !isCut(first.at(-end))) end -= 1;
  return names.map((name) => name.slice(start, name.length - end) || name);
}
