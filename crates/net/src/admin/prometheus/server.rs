//! Servers: their life, what they tell their clients, and datagrams.

use super::super::state::{Counts, DatagramState, PHASES, ServerState};
use super::text::{Labels, Text};

pub(super) fn of_servers(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
    text.gauge("evenkeel_server_phase", "1 for the phase of its life the server is in, 0 for the others.");
    for (labels, server) in servers {
        for phase in PHASES {
            text.sample_with(labels, &[("phase", phase)], f64::from(u8::from(phase == server.phase)));
        }
    }
    text.gauge("evenkeel_server_in_flight_requests", "Requests being worked on.");
    text.each(servers, |server| Some(server.in_flight? as f64));
    text.counter("evenkeel_server_admitted_total", "Requests let in, as far as the line.");
    text.each(servers, |server| Some(server.admitted? as f64));
    let unacknowledged = "Clients that have not acknowledged the last announcement.";
    text.gauge("evenkeel_server_unacknowledged_watchers", unacknowledged);
    text.each(servers, |server| Some(server.unacknowledged?.into()));
    text.gauge("evenkeel_server_drain_seconds", "Since it was told to stop; absent before.");
    text.each(servers, |server| server.draining_s);
}

pub(super) fn of_reports(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
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

pub(super) fn of_datagrams(text: &mut Text, servers: &[(Labels<'_>, &ServerState)]) {
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
