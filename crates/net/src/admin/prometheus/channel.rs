//! Channels, their backends and their sockets.

use std::collections::BTreeMap;

use evenkeel_core::{BackendState, LinkState};

use super::super::state::{BackendView, ChannelState, Retries, Socket};
use super::text::{Labels, Text};

pub(super) fn of_channels(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
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
    let ejected = "Backends left out because they fail where others do not, or that would have been.";
    text.counter("evenkeel_client_ejected_total", ejected);
    for (labels, channel) in channels {
        for (mode, count) in [("on", channel.ejected.total), ("observe", channel.ejected.observed)] {
            text.sample_with(labels, &[("mode", mode)], count as f64);
        }
    }
    text.gauge("evenkeel_client_ejected_backends", "Backends that are left out now, or would be.");
    text.each(channels, |channel| Some(channel.ejected.now as f64));
    text.counter("evenkeel_client_panics_total", "How often too few others were left to leave anybody out.");
    text.each(channels, |channel| Some(channel.ejected.panics as f64));
    let nonsense = "Fields of load reports that could not be true, and were dropped.";
    text.counter("evenkeel_client_nonsense_report_fields_total", nonsense);
    text.each(channels, |channel| Some(channel.nonsense_reports as f64));
    text.gauge("evenkeel_client_known_backends", "Backends of the service.");
    text.each(channels, |channel| Some(channel.subset.known as f64));
    text.gauge("evenkeel_client_subset_backends", "Backends this client wishes to use.");
    text.each(channels, |channel| Some(channel.subset.size as f64));
}

/// What a policy that only watches would have done.
pub(super) fn of_observed_policy(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    let observed = || channels.iter().filter_map(|(labels, one)| Some((labels, one, one.observed_policy.as_ref()?)));
    text.counter(
        "evenkeel_client_observed_policy_differs_total",
        "Requests that the observed policy would have sent elsewhere.",
    );
    for (labels, _, observed) in observed() {
        text.sample_with(labels, &[("policy", observed.policy)], observed.differing as f64);
    }
    text.counter(
        "evenkeel_client_observed_policy_picks_total",
        "Requests that the observed policy would have sent to a backend.",
    );
    for (labels, channel, observed) in observed() {
        for backend in &channel.backends {
            let own = [("policy", observed.policy), ("backend", backend.name.as_str())];
            text.sample_with(labels, &own, backend.observed_picks.unwrap_or(0) as f64);
        }
    }
}

pub(super) fn of_retries(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
    text.counter("evenkeel_client_retries_total", "Attempts beyond the first, or that would have been made, by cause.");
    for (labels, channel) in channels {
        let Retries { made, observed, .. } = &channel.retries;
        for (mode, counts) in [("on", made), ("observe", observed)] {
            for (cause, count) in &counts.0 {
                text.sample_with(labels, &[("cause", cause), ("mode", mode)], *count as f64);
            }
        }
    }
    text.counter("evenkeel_client_retries_stopped_total", "Requests that were not tried again, by reason.");
    for (labels, channel) in channels {
        for (reason, count) in &channel.retries.stopped.0 {
            text.sample_with(labels, &[("reason", reason)], *count as f64);
        }
    }
    text.gauge("evenkeel_client_retry_budget_left", "Retries that could be made now.");
    text.each(channels, |channel| Some(channel.retries.left as f64));
    text.gauge("evenkeel_client_hedge_after_seconds", "After how long a request is also sent elsewhere.");
    text.each(channels, |channel| channel.retries.hedge_after_s);
}

pub(super) fn of_checks(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
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
pub(super) fn of_sockets(text: &mut Text, channels: &[ChannelState]) {
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

pub(super) fn of_spread(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
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

pub(super) fn of_backends(text: &mut Text, channels: &[(Labels<'_>, &ChannelState)]) {
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
