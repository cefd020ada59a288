//! The state as Prometheus text, format 0.0.4, which every scraper reads.
//!
//! Written out from a snapshot at each scrape: there is no registry, so a backend that left leaves no series behind,
//! and their number is bounded by the subset. A family without a sample still says its name and meaning.

mod admission;
mod channel;
mod cluster;
mod server;
mod text;

use super::state::{ChannelState, ServerState, State};
use text::{Label, Labels, Text};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything as one text.
pub(crate) fn encode(state: &State) -> String {
    let mut text = Text::default();
    text.gauge("evenkeel_build_info", "What runs; always 1.").sample(&[("version", state.version)], 1.0);
    text.gauge("evenkeel_uptime_seconds", "Since the admin address was set up.").sample(&[], state.uptime_s);
    text.counter("evenkeel_process_cpu_seconds_total", "CPU that the process has used.");
    if let Some(cpu) = state.process.cpu_s {
        text.sample(&[], cpu);
    }
    let charged = "CPU of the process that was charged to requests as it was used.";
    text.counter("evenkeel_process_charged_cpu_seconds_total", charged).sample(&[], state.process.charged_s);
    let channels: Vec<(Labels<'_>, &ChannelState)> = channel_labels(&state.channels);
    channel::of_channels(&mut text, &channels);
    channel::of_observed_policy(&mut text, &channels);
    channel::of_retries(&mut text, &channels);
    channel::of_checks(&mut text, &channels);
    channel::of_sockets(&mut text, &state.channels);
    channel::of_spread(&mut text, &channels);
    channel::of_backends(&mut text, &channels);
    cluster::of_clusters(&mut text, &state.clusters);
    let servers: Vec<(Labels<'_>, &ServerState)> = server_labels(&state.servers);
    server::of_servers(&mut text, &servers);
    admission::of_admission(&mut text, &servers);
    admission::of_requests(&mut text, &servers);
    admission::of_costs(&mut text, &servers);
    admission::of_signals(&mut text, &servers);
    server::of_reports(&mut text, &servers);
    server::of_datagrams(&mut text, &servers);
    text.text
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_of_two_alike_has_a_number() {
        let servers = [ServerState::unknown("stopped"), ServerState::unknown("silent")];
        let mut text = Text::default();
        text.gauge("evenkeel_x", "Y.");
        text.each(&server_labels(&servers), |_| Some(1.0));

        assert!(text.text.ends_with("\nevenkeel_x 1\nevenkeel_x{server=\"2\"} 1\n"), "{}", text.text);
    }
}
