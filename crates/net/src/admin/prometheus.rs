//! The state as Prometheus text, format 0.0.4, which every scraper reads.
//!
//! Written out from a snapshot at each scrape: there is no registry, so a backend that left leaves no series behind,
//! and their number is bounded by the subset. A family without a sample still says its name and meaning.

use std::collections::BTreeMap;
use std::fmt::Write;

use evenkeel_core::{BackendState, LinkState};

use super::state::{BackendView, ChannelState, Counts, DatagramState, PHASES, ServerState, Socket, State};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything as one text.
pub(crate) fn encode(state: &State) -> String {
    let mut text = Text::default();
    text.gauge("evenkeel_build_info", "What runs; always 1.").sample(&[("version", state.version)], 1.0);
    text.gauge("evenkeel_uptime_seconds", "Since the admin address was set up.").sample(&[], state.uptime_s);
    let channels: Vec<(Labels<'_>, &ChannelState)> = channel_labels(&state.channels);
    of_channels(&mut text, &channels);
    of_checks(&mut text, &channels);
    of_sockets(&mut text, &state.channels);
    of_spread(&mut text, &channels);
    of_backends(&mut text, &channels);
    let servers: Vec<(Labels<'_>, &ServerState)> = server_labels(&state.servers);
    of_servers(&mut text, &servers);
    of_reports(&mut text, &servers);
    of_datagrams(&mut text, &servers);
    text.text
}

type Label<'a> = (&'static str, std::borrow::Cow<'a, str>);
type Labels<'a> = Vec<Label<'a>>;

/// A second channel to the same service needs a label of its own, or its series would be the first one's.
fn channel_labels(channels: &[ChannelState]) -> Vec<(Labels<'_>, &ChannelState)> {
    let labels = channels.iter().enumerate().map(|(place, channel)| {
        let earlier = channels[..place].iter().filter(|other| other.service == channel.service).count();
        let mut labels: Labels<'_> = vec![("service", channel.service.as_str().into())];
        labels.extend(numbered("channel", earlier));
        labels
    });
    labels.zip(channels).collect()
}

fn server_labels(servers: &[ServerState]) -> Vec<(Labels<'_>, &ServerState)> {
    servers
        .iter()
        .enumerate()
        .map(|(place, server)| (numbered("server", place).into_iter().collect(), server))
        .collect()
}

/// None for the first: in most processes it is the only one.
fn numbered(name: &'static str, earlier: usize) -> Option<Label<'static>> {
    (earlier > 0).then(|| (name, (earlier + 1).to_string().into()))
}

fn of_channels(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    text.counter("evenkeel_client_requests_total", "Attempts that ended, by backend and outcome.");
    for (labels, channel) in channels {
        for backend in &channel.backends {
            for (outcome, count) in &backend.ended.0 {
                let own = [("backend", backend.name.as_str()), ("outcome", outcome)];
                text.sample_with(labels, &own, *count as f64);
            }
        }
    }
    text.counter("evenkeel_client_refused_total", "Requests that were not sent, by reason.");
    for (labels, channel) in channels {
        for (reason, count) in &channel.refused.0 {
            text.sample_with(labels, &[("reason", reason)], *count as f64);
        }
    }
    let throttled = "Requests not sent because the service refuses such, or that would not have been.";
    text.counter("evenkeel_client_throttled_total", throttled);
    for (labels, channel) in channels {
        for one in &channel.throttled {
            let own = [("criticality", one.criticality), ("by", one.by), ("mode", one.mode)];
            text.sample_with(labels, &own, one.count as f64);
        }
    }
    text.counter("evenkeel_client_state_changes_total", "Backends that went from one state to another.");
    for (labels, channel) in channels {
        for change in &channel.state_changes {
            text.sample_with(labels, &[("from", change.from), ("to", change.to)], change.count as f64);
        }
    }
    let nonsense = "Fields of load reports that could not be true, and were dropped.";
    text.counter("evenkeel_client_nonsense_report_fields_total", nonsense);
    text.each(channels, |channel| Some(channel.nonsense_reports as f64));
    text.gauge("evenkeel_client_known_backends", "Backends of the service.");
    text.each(channels, |channel| Some(channel.subset.known as f64));
    text.gauge("evenkeel_client_subset_backends", "Backends this client wishes to use.");
    text.each(channels, |channel| Some(channel.subset.size as f64));
}

fn of_checks(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    text.gauge("evenkeel_client_inactive_backends", "Backends without a connection, since nobody used it.");
    text.each(channels, |channel| Some(channel.inactive as f64));
    text.counter("evenkeel_client_woken_total", "Inactive backends that a request wanted.");
    text.each(channels, |channel| Some(channel.woken as f64));
    text.counter("evenkeel_client_checks_total", "Checks without a connection, and what came of them.");
    for (labels, channel) in channels {
        for (event, count) in &channel.checks.0 {
            text.sample_with(labels, &[("event", event)], *count as f64);
        }
    }
}

/// Channels share their sockets: each is shown once.
fn of_sockets(text: &mut Text, channels: &[ChannelState]) {
    let all = channels.iter().flat_map(|channel| &channel.sockets);
    let sockets: BTreeMap<&str, &Socket> =
        all.filter_map(|socket| Some((socket.address.as_deref()?, socket))).collect();
    text.counter("evenkeel_client_datagrams_dropped_total", "Datagrams that came in and were not believed.");
    for (address, socket) in &sockets {
        for (reason, count) in &socket.dropped.0 {
            text.sample(&[("socket", address), ("reason", reason)], *count as f64);
        }
    }
    text.counter("evenkeel_client_datagrams_unsent_total", "Datagrams that the system would not send.");
    for (address, socket) in &sockets {
        text.sample(&[("socket", address)], socket.unsent as f64);
    }
}

fn of_spread(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    let spread = "CPU in use over CPU reserved of the least and most loaded task, and their mean.";
    text.gauge("evenkeel_client_spread_utilization_ratio", spread);
    for (labels, channel) in channels {
        let Some(spread) = &channel.spread else { continue };
        for (statistic, value) in [("least", spread.least), ("mean", spread.mean), ("most", spread.most)] {
            text.sample_with(labels, &[("statistic", statistic)], value);
        }
    }
    text.gauge("evenkeel_client_spread_tasks", "Healthy tasks with a fresh report: those the spread is made of.");
    text.each(channels, |channel| Some(channel.spread.as_ref().map_or(0, |spread| spread.tasks) as f64));
    text.gauge("evenkeel_client_wasted_cores", "Sum of what each task uses less than the most loaded one.");
    text.each(channels, |channel| channel.spread.as_ref().map(|spread| spread.wasted_cores));
}

/// What there is of a backend, if it is known.
type Value = fn(&BackendView) -> Option<f64>;

fn of_backends(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    text.gauge("evenkeel_client_backend_state", "1 for the state the backend is in, 0 for the others.");
    for (labels, channel) in channels {
        for backend in &channel.backends {
            for state in BackendState::ALL.map(BackendState::as_str) {
                let own = [("backend", backend.name.as_str()), ("state", state)];
                text.sample_with(labels, &own, f64::from(u8::from(state == backend.state)));
            }
        }
    }
    text.counter("evenkeel_client_backend_held_total", "Requests not sent there because of what it said it refuses.");
    for (labels, channel) in channels {
        for backend in &channel.backends {
            text.sample_with(labels, &[("backend", &backend.name)], backend.held as f64);
        }
    }
    text.gauge("evenkeel_client_backend_link", "1 for what there is between client and backend, 0 for the rest.");
    for (labels, channel) in channels {
        for backend in &channel.backends {
            for link in LinkState::ALL.map(LinkState::as_str) {
                let own = [("backend", backend.name.as_str()), ("link", link)];
                text.sample_with(labels, &own, f64::from(u8::from(link == backend.link)));
            }
        }
    }
    let gauges: [(&'static str, &'static str, Value); 10] = [
        ("silences", "Checks in a row that it has not answered.", |one| Some(one.silences.into())),
        ("state_seconds", "How long the backend has been in its state.", |one| Some(one.since_s)),
        ("active_requests", "Requests in flight to the backend.", |one| Some(one.active.into())),
        ("streams", "Streams open to the backend.", |one| Some(one.streams.into())),
        ("recent_errors", "Recent errors held against it, as active requests.", |one| Some(one.recent_errors.into())),
        ("cutoff", "What it said it refuses, while that is believed.", |one| one.cutoff),
        ("weight", "The share the policy means it to get, relative to the others.", |one| one.weight),
        ("report_age_seconds", "Since its last load report.", |one| Some(one.report.as_ref()?.age_s)),
        ("utilization_ratio", "CPU in use over CPU reserved, as it last said.", |one| one.report.as_ref()?.utilization),
        ("latency_seconds", "Mean time to answer, as it last said.", |one| {
            Some(one.report.as_ref()?.latency_ms? / 1e3)
        }),
    ];
    for (name, help, value) in gauges {
        text.gauge(&format!("evenkeel_client_backend_{name}"), help);
        for (labels, channel) in channels {
            for backend in &channel.backends {
                if let Some(value) = value(backend) {
                    text.sample_with(labels, &[("backend", &backend.name)], value);
                }
            }
        }
    }
}

fn of_servers(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
    text.gauge("evenkeel_server_phase", "1 for the phase of its life the server is in, 0 for the others.");
    for (labels, server) in servers {
        for phase in PHASES {
            text.sample_with(labels, &[("phase", phase)], f64::from(u8::from(phase == server.phase)));
        }
    }
    text.gauge("evenkeel_server_in_flight_requests", "Requests being worked on.");
    text.each(servers, |server| Some(server.in_flight? as f64));
    text.counter("evenkeel_server_admitted_total", "Requests let in.");
    text.each(servers, |server| Some(server.admitted? as f64));
    text.counter("evenkeel_server_refused_total", "Requests not let in, by reason.");
    for (labels, server) in servers {
        for (reason, count) in server.refused.iter().flat_map(|refused| &refused.0) {
            text.sample_with(labels, &[("reason", reason)], *count as f64);
        }
    }
    let unacknowledged = "Clients that have not acknowledged the last announcement.";
    text.gauge("evenkeel_server_unacknowledged_watchers", unacknowledged);
    text.each(servers, |server| Some(server.unacknowledged?.into()));
    text.gauge("evenkeel_server_drain_seconds", "Since it was told to stop; absent before.");
    text.each(servers, |server| server.draining_s);
}

fn of_reports(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
    text.gauge("evenkeel_server_requests_per_second", "Requests answered per second, as it tells its clients.");
    text.each(servers, |server| server.report.as_ref()?.qps);
    text.gauge("evenkeel_server_errors_per_second", "Those of them that failed, as it tells its clients.");
    text.each(servers, |server| server.report.as_ref()?.eps);
    text.gauge("evenkeel_server_latency_seconds", "Mean time from arrival to answer, as it tells its clients.");
    text.each(servers, |server| Some(server.report.as_ref()?.latency_ms? / 1e3));
    text.gauge("evenkeel_server_utilization_ratio", "CPU in use over CPU reserved, as it tells its clients.");
    text.each(servers, |server| server.report.as_ref()?.utilization);
    text.gauge("evenkeel_server_processors", "Processors it may use.");
    text.each(servers, |server| server.report.as_ref()?.processors);
}

/// Numbers by one label.
type Kinds = fn(&DatagramState) -> &Counts;

fn of_datagrams(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
    text.gauge("evenkeel_server_peers", "Clients remembered that ask by datagrams.");
    text.each(servers, |server| Some(server.datagrams.as_ref()?.peers.into()));
    text.gauge("evenkeel_server_unreached_peers", "Those of them that are being pushed to and have not acknowledged.");
    text.each(servers, |server| Some(server.datagrams.as_ref()?.unreached.into()));
    let families: [(&str, &str, &str, Kinds); 3] = [
        ("datagrams", "outcome", "Datagrams that came, by what became of them.", |one| &one.received),
        ("pushes", "outcome", "Clients an announcement was pushed to, by how that ended.", |one| &one.pushed),
        ("dropped_peers", "reason", "Clients that are remembered no more, by reason.", |one| &one.dropped),
    ];
    for (name, label, help, counts) in families {
        text.counter(&format!("evenkeel_server_{name}_total"), help);
        for (labels, server) in servers {
            for (value, count) in server.datagrams.iter().flat_map(|datagrams| &counts(datagrams).0) {
                text.sample_with(labels, &[(label, value)], *count as f64);
            }
        }
    }
    text.counter("evenkeel_server_pushed_datagrams_total", "Pushes sent, repeats among them.");
    text.each(servers, |server| Some(server.datagrams.as_ref()?.pushes as f64));
    text.counter("evenkeel_server_unsent_datagrams_total", "Datagrams that the system did not take.");
    text.each(servers, |server| Some(server.datagrams.as_ref()?.unsent as f64));
    text.counter("evenkeel_server_datagram_pauses_total", "How often reading was paused because too many came.");
    text.each(servers, |server| Some(server.datagrams.as_ref()?.pauses as f64));
}

/// The text so far, and the family that samples belong to.
#[derive(Default)]
struct Text {
    text: String,
    family: String,
}

impl Text {
    fn gauge(&mut self, name: &str, help: &str) -> &mut Self {
        self.begin(name, "gauge", help)
    }

    fn counter(&mut self, name: &str, help: &str) -> &mut Self {
        debug_assert!(name.ends_with("_total"), "a counter ends with its unit");
        self.begin(name, "counter", help)
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) -> &mut Self {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes everything");
        name.clone_into(&mut self.family);
        self
    }

    /// One sample for each channel or server that has the value.
    fn each<T>(&mut self, all: &[(Labels<'_>, &T)], value: impl Fn(&T) -> Option<f64>) {
        for (labels, one) in all {
            if let Some(value) = value(one) {
                self.sample_with(labels, &[], value);
            }
        }
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_with(&[], labels, value);
    }

    fn sample_with(&mut self, labels: &[Label<'_>], own: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.family);
        let labels = labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(own.iter().copied());
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(&mut self.text, value);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect("a string takes everything");
    }
}

/// As the format asks: backslash, quote and the end of a line.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut text = Text::default();
        text.gauge("evenkeel_x", "Y.").sample(&[("backend", "a\"} 1\n\\b")], 0.5);

        assert!(text.text.ends_with("\nevenkeel_x{backend=\"a\\\"} 1\\n\\\\b\"} 0.5\n"), "{}", text.text);
    }

    #[test]
    fn only_the_second_of_two_alike_has_a_number() {
        let servers = [ServerState::unknown("stopped"), ServerState::unknown("silent")];
        let mut text = Text::default();
        text.gauge("evenkeel_x", "Y.");
        text.each(&server_labels(&servers), |_| Some(1.0));

        assert!(text.text.ends_with("\nevenkeel_x 1\nevenkeel_x{server=\"2\"} 1\n"), "{}", text.text);
    }
}
