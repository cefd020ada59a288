//! Overload control of servers: who is let in and why, and what requests cost.

use super::super::state::{AdmissionState, ByName, ServerState, SpenderState};
use super::text::{Labels, Text};

type Servers<'a> = [(Labels<'a>, &'a ServerState)];

/// Who is let in now, and what that is made of.
pub(super) fn of_admission(text: &mut Text, servers: &Servers<'_>) {
    text.gauge("evenkeel_server_admission_mode", "1 for what a mechanism may do, 0 for the other modes.");
    for (labels, now) in told(servers) {
        for (mechanism, mode) in &now.modes.0 {
            for one in ["off", "observe", "on"] {
                let own = [("mechanism", *mechanism), ("mode", one)];
                text.sample_with(labels, &own, f64::from(u8::from(one == *mode)));
            }
        }
    }
    gauges(text, servers, &CUTOFF);
    text.gauge("evenkeel_server_demand_cpu", "CPU seconds a second that are asked for, also by what is refused.");
    for (labels, now) in told(servers) {
        for (criticality, demand) in now.demand_cpu.iter().flat_map(|each| &each.0) {
            text.sample_with(labels, &[("criticality", criticality)], *demand);
        }
    }
    gauges(text, servers, &LEVELS);
}

/// Name, meaning and numbers of counters by label.
type Family<T> = (&'static str, &'static str, fn(&AdmissionState) -> &T);

/// What has become of requests.
pub(super) fn of_requests(text: &mut Text, servers: &Servers<'_>) {
    let families: [Family<ByName<u64>>; 4] = [
        ("asked", "Requests that came, by criticality.", |now| &now.asked),
        ("held", "Requests that clients held back, by criticality.", |now| &now.held),
        ("served", "Requests that were served, by criticality.", |now| &now.served),
        ("observed_waits", "Requests that would have stood in line, were there one.", |now| &now.would_wait),
    ];
    for (name, help, counts) in families {
        text.counter(&format!("evenkeel_server_{name}_total"), help);
        for (labels, now) in told(servers) {
            for (criticality, count) in &counts(now).0 {
                text.sample_with(labels, &[("criticality", criticality)], *count as f64);
            }
        }
    }
    let families: [Family<ByName<ByName<u64>>>; 2] = [
        ("refused", "Requests not let in, by reason and criticality.", |now| &now.refused),
        ("observed_refusals", "Requests that mechanisms which only observe would not have let in.", |now| {
            &now.observed
        }),
    ];
    for (name, help, counts) in families {
        text.counter(&format!("evenkeel_server_{name}_total"), help);
        for (labels, now) in told(servers) {
            for (reason, counts) in &counts(now).0 {
                for (criticality, count) in &counts.0 {
                    text.sample_with(labels, &[("reason", reason), ("criticality", criticality)], *count as f64);
                }
            }
        }
    }
    text.counter(
        "evenkeel_server_beyond_quota_cpu_seconds_total",
        "CPU that customers asked for beyond their quotas, by criticality.",
    );
    for (labels, now) in told(servers) {
        for (criticality, cpu) in &now.beyond_quota_cpu_s.0 {
            text.sample_with(labels, &[("criticality", criticality)], *cpu);
        }
    }
    text.counter("evenkeel_server_degraded_answers_total", "Answers that were made cheaper.");
    each(text, servers, |now| Some(now.degraded as f64));
    text.counter(
        "evenkeel_server_disbelieved_total",
        "Requests that said something of themselves which was not believed.",
    );
    for (labels, now) in told(servers) {
        for (what, count) in &now.disbelieved.0 {
            text.sample_with(labels, &[("what", what)], *count as f64);
        }
    }
}

/// What requests cost, and who costs most.
pub(super) fn of_costs(text: &mut Text, servers: &Servers<'_>) {
    text.counter("evenkeel_server_handler_cpu_seconds_total", "CPU that handlers used.");
    each(text, servers, |now| Some(now.cost.cpu_s));
    text.counter("evenkeel_server_criticality_cpu_seconds_total", "CPU that handlers used, by criticality.");
    for (labels, now) in told(servers) {
        for (criticality, cpu) in &now.cost.cpu_by_criticality_s.0 {
            text.sample_with(labels, &[("criticality", criticality)], *cpu);
        }
    }
    text.gauge(
        "evenkeel_server_request_cost_seconds",
        "CPU of a request: means of whole and of cheaper answers, and what one in a hundred exceeds.",
    );
    for (labels, now) in told(servers) {
        let cost = &now.cost;
        for (statistic, cost) in
            [("mean", cost.mean_s), ("degraded_mean", cost.degraded_mean_s), ("dearest", cost.dearest_s)]
        {
            if let Some(cost) = cost {
                text.sample_with(labels, &[("statistic", statistic)], cost);
            }
        }
    }
    text.gauge("evenkeel_server_overhead_seconds", "CPU outside of handlers, for each request and each KiB.");
    for (labels, now) in told(servers) {
        let prices = [("request", now.cost.overhead_per_request_s), ("kib", now.cost.overhead_per_kib_s)];
        for (per, price) in prices {
            if let Some(price) = price {
                text.sample_with(labels, &[("per", per)], price);
            }
        }
    }
    spenders(text, servers, "method", |now| &now.methods);
    spenders(text, servers, "customer", |now| &now.customers);
    text.counter(
        "evenkeel_server_customer_quota_refusals_total",
        "Requests refused for a quota, of the ten dearest customers and the ten most often refused of the others.",
    );
    for (labels, now) in told(servers) {
        for customer in &now.customers {
            if let (Some(name), Some(refused)) = (&customer.name, customer.refused_for_quota) {
                text.sample_with(labels, &[("customer", name)], refused as f64);
            }
        }
    }
}

fn spenders(text: &mut Text, servers: &Servers<'_>, kind: &'static str, of: fn(&AdmissionState) -> &[SpenderState]) {
    type Sum = fn(&SpenderState) -> f64;
    let families: [(&str, &str, Sum); 2] = [
        ("cpu_seconds", "CPU that requests cost, of the ten dearest.", |one| one.cpu_s),
        ("requests", "Requests that ended, of the same ten.", |one| one.requests as f64),
    ];
    for (name, help, sum) in families {
        text.counter(&format!("evenkeel_server_{kind}_{name}_total"), help);
        for (labels, now) in told(servers) {
            for spender in of(now) {
                // Any name for those who have none could be somebody's.
                if let Some(name) = &spender.name {
                    text.sample_with(labels, &[(kind, name)], sum(spender));
                }
            }
        }
    }
}

/// How loaded it is.
pub(super) fn of_signals(text: &mut Text, servers: &Servers<'_>) {
    text.gauge("evenkeel_server_signal", "What a signal reads, smoothed; absent where it cannot be read.");
    for (labels, now) in told(servers) {
        for signal in &now.signals {
            if let Some(value) = signal.value {
                text.sample_with(labels, &[("signal", &signal.name)], value);
            }
        }
    }
    text.gauge("evenkeel_server_plugged_signal_ratio", "What the program plugged in, over its capacity.");
    for (labels, now) in told(servers) {
        for signal in &now.plugged {
            if let Some(value) = signal.value {
                text.sample_with(labels, &[("signal", &signal.name)], value);
            }
        }
    }
    text.gauge("evenkeel_server_signal_left_out", "1 for a signal that cannot be read or is not believed.");
    for (labels, now) in told(servers) {
        for signal in &now.left_out {
            text.sample_with(labels, &[("signal", &signal.name)], 1.0);
        }
    }
    gauges(text, servers, &RATES);
    text.counter("evenkeel_server_plugged_failures_total", "Readings of what the program plugged in that failed.");
    each(text, servers, |now| Some(now.plugged_failures as f64));
}

/// Name, meaning and value of a gauge without labels of its own.
type Gauge = (&'static str, &'static str, fn(&AdmissionState) -> Option<f64>);

fn gauges(text: &mut Text, servers: &Servers<'_>, all: &[Gauge]) {
    for (name, help, value) in all {
        text.gauge(&format!("evenkeel_server_{name}"), help);
        each(text, servers, value);
    }
}

fn each(text: &mut Text, servers: &Servers<'_>, value: impl Fn(&AdmissionState) -> Option<f64>) {
    text.each(servers, |server| value(server.admission.as_ref()?));
}

/// Servers that say something.
fn told<'a>(servers: &'a Servers<'a>) -> impl Iterator<Item = (&'a Labels<'a>, &'a AdmissionState)> {
    servers.iter().filter_map(|(labels, server)| Some((labels, server.admission.as_ref()?)))
}

const CUTOFF: [Gauge; 2] = [
    ("cutoff", "What is refused, from 0, nothing, to 4, everything.", |now| Some(now.cutoff)),
    ("cutoff_observed", "What would be refused, were everything on.", |now| Some(now.cutoff_observed)),
];

const LEVELS: [Gauge; 13] = [
    ("capacity_cpu", "CPU seconds a second that handlers can have.", |now| now.capacity_cpu),
    ("critical_demand_ratio", "Demand of CRITICAL_PLUS and CRITICAL over capacity.", |now| now.critical_demand),
    ("capacity_trim_ratio", "How much of the capacity is handed out.", |now| now.trim),
    ("running_handlers", "Handlers that run or are ready to.", |now| Some(now.running.into())),
    ("handler_slots", "Handlers that run at once, at most.", |now| Some(now.slots.into())),
    ("waiting_requests", "Requests in line.", |now| Some(now.waiting.into())),
    ("queued_cpu_seconds", "CPU that requests in line are expected to cost.", |now| Some(now.queued_s)),
    ("in_flight_limit", "Requests in handlers, at most; absent before it is known.", |now| Some(now.limit?.into())),
    ("degrade_level", "How much cheaper answers should be, from 0 to 3.", |now| Some(now.degrade.into())),
    ("degrade_level_observed", "What that would be if it were on.", |now| Some(now.degrade_observed.into())),
    ("retries_ratio", "Retries as a share of requests; absent where there are too few.", |now| now.retries),
    ("dont_retry", "1 while clients are told not to retry.", |now| Some(f64::from(u8::from(now.dont_retry)))),
    ("dont_retry_observed", "1 while they would be, if that were on.", |now| {
        Some(f64::from(u8::from(now.dont_retry_observed)))
    }),
];

const RATES: [Gauge; 3] = [
    ("left_out_signals", "Signals that cannot be read or are not believed.", |now| Some(now.left_out.len() as f64)),
    ("connections_per_second", "New connections.", |now| now.connections_per_second),
    ("checks_per_second", "Health checks, new watches, their pings, and datagrams.", |now| now.checks_per_second),
];
