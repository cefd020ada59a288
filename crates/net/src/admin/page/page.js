// The live page: asks /state twice a second and draws what it says. No framework, no build step, nothing from elsewhere.

import { AdmissionView } from "./admission.js";
import { ChannelView } from "./channel.js";
import { ClusterRow } from "./cluster.js";
import { keep, say } from "./draw.js";
import { ServerRow } from "./server.js";
import { span } from "./words.js";

const POLL_MS = 500;
const ANSWER_MOST_MS = 3000;

const page = {
  channels: new Map(), clusters: new Map(), servers: new Map(), admissions: new Map(), uptime: 0, answeredAt: performance.now(), timer: null, isAsking: false,
};
const byId = (id) => document.getElementById(id);

function show(state) {
  // A process that began again counts from zero: what was before is another process's.
  if (state.uptime_s < page.uptime) {
    byId("channels").replaceChildren();
    page.channels.clear();
    byId("admissions").replaceChildren();
    page.admissions.clear();
  }
  page.uptime = state.uptime_s;
  say(byId("version"), state.version);
  say(byId("uptime"), `up ${span(state.uptime_s)}`);
  const services = state.channels.map((channel) => channel.service);
  document.title = services.length ? `${[...new Set(services)].join(", ")} · evenkeel` : "evenkeel";
  const channels = state.channels.map((channel, i) => ({ channel, at: state.uptime_s, key: `${i} ${channel.service}` }));
  keep(byId("channels"), page.channels, channels, (item) => item.key, () => new ChannelView());
  const clusters = (state.clusters ?? []).map((cluster) => ({ ...cluster, key: `${cluster.service} ${cluster.name}` }));
  keep(byId("clusters").querySelector("tbody"), page.clusters, clusters, (item) => item.key, () => new ClusterRow());
  byId("clusters").hidden = clusters.length === 0;
  say(byId("silent"), state.silent_channels.map((service) => `The channel to ${service} does not answer.`).join(" "));
  const servers = state.servers.map((server, i) => ({ ...server, key: i + 1 }));
  keep(byId("servers").querySelector("tbody"), page.servers, servers, (item) => item.key, () => new ServerRow());
  byId("servers").classList.toggle("no-datagrams", servers.every((server) => server.datagrams === undefined));
  const admissions = state.servers.map((server, i) => ({ server, number: i + 1, at: state.uptime_s, canSwitch: state.switches }));
  const telling = admissions.filter(({ server }) => server.admission);
  keep(byId("admissions"), page.admissions, telling, (item) => item.number, () => new AdmissionView());
  byId("servers").hidden = servers.length === 0;
  const isEmpty = channels.length + servers.length + state.silent_channels.length === 0;
  byId("nothing").hidden = !isEmpty;
  if (isEmpty) say(byId("nothing"), "The process has neither a channel nor a server to show.");
}

function showStatus(status, words) {
  byId("status").dataset.status = status;
  say(byId("status"), words);
  document.body.classList.toggle("is-gone", status === "gone");
  byId("gone").hidden = status !== "gone";
}

async function ask() {
  if (page.isAsking || document.hidden) return;
  page.isAsking = true;
  clearTimeout(page.timer);
  try {
    const answer = await fetch("state", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MOST_MS) });
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    show(await answer.json());
    page.answeredAt = performance.now();
    showStatus("live", "live");
  } catch (error) {
    const ago = span((performance.now() - page.answeredAt) / 1000);
    say(byId("gone"), `The process does not answer (${error.message}). What is shown is ${ago} old; asking on.`);
    showStatus("gone", `no answer for ${ago}`);
  }
  page.isAsking = false;
  page.timer = setTimeout(ask, POLL_MS);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) showStatus("waiting", "paused");
  else ask();
});
ask();
