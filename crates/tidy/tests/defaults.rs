//! Every default stands in `docs/defaults.md` with the value the code has.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel::ChannelConfig;
use evenkeel_core::client::pick::{LevelConfig, PickConfig, PrequalConfig, SCAN_MAX, WINDOW, WeightedConfig};
use evenkeel_core::client::{
    BackoffConfig, ChecksConfig, ClustersConfig, EjectConfig, ErrorsConfig, FlowConfig, HedgeConfig, IdleConfig,
    ProbesConfig, SubsetConfig,
};
use evenkeel_core::server::{AdmissionConfig, Modes, PeersConfig, Quota, QuotasConfig, SignalsConfig, Thresholds};
use evenkeel_core::{ClientConfig, RequestMeta, RetryConfig, ServerConfig, ThrottleConfig, Time};
use evenkeel_tidy::{Finding, assert_none, tree};

const TABLE: &str = "docs/defaults.md";

#[test]
fn every_default_is_documented_as_it_is() {
    let text = tree::text(Path::new(TABLE)).expect("the table is UTF-8");
    assert_none("docs/defaults.md says what the code does", &check(&text, &defaults()));
}

#[test]
fn a_wrong_value_a_missing_row_and_a_row_too_many_are_found() {
    let table = "| setting | default | source | at half | at double |\n|---|---|---|---|---|\n\
                 | `a` | 1 | x | y | z |\n| `gone` | 2 | x | y | z |\n| `short` | 3 | x |\n| `bare` | 4 | x | | z |";
    let code = BTreeMap::from([("a", "7".to_owned()), ("b", "8".to_owned()), ("bare", "4".to_owned())]);
    let found: Vec<String> = check(table, &code).into_iter().map(|finding| finding.what).collect();
    let expected = [
        "`a` is 7 in the code, not 1",
        "no setting `gone` in the code",
        "a row has five cells, this one 3",
        "`bare`: a cell is empty",
        "`b` is missing",
    ];
    assert_eq!(found, expected);
}

fn check(table: &str, code: &BTreeMap<&'static str, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (line, row) in (1..).zip(table.lines()).filter(|(_, row)| row.starts_with("| `")) {
        let mut wrong = |what: String| findings.push(Finding::new(Path::new(TABLE), line, what));
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [setting, value, ..] = cells[..] else { continue };
        let setting = setting.trim_matches('`');
        seen.push(setting.to_owned());
        if cells.len() != 5 {
            wrong(format!("a row has five cells, this one {}", cells.len()));
            continue;
        }
        if cells.iter().any(|cell| cell.is_empty()) {
            wrong(format!("`{setting}`: a cell is empty"));
        }
        match code.get(setting) {
            None => wrong(format!("no setting `{setting}` in the code")),
            Some(actual) if actual != value => wrong(format!("`{setting}` is {actual} in the code, not {value}")),
            Some(_) => {}
        }
    }
    let missing = code.keys().filter(|setting| !seen.iter().any(|one| one == *setting));
    findings.extend(missing.map(|setting| Finding::new(Path::new(TABLE), 1, format!("`{setting}` is missing"))));
    findings
}

/// Every field by name: a field that is added does not compile until it is listed here.
fn defaults() -> BTreeMap<&'static str, String> {
    let ClientConfig {
        subset,
        policy,
        observe_policy,
        pick,
        flow,
        errors,
        eject,
        backoff,
        idle,
        checks,
        probes,
        throttle,
        retry,
    } = ClientConfig::default();
    let SubsetConfig { size, algorithm, client, seed, replace_after } = subset;
    let FlowConfig { active_max, streams_max } = flow;
    let ErrorsConfig { mode: errors_mode, half_life } = errors;
    let BackoffConfig { first, most, jitter } = backoff;
    let IdleConfig { after } = idle;
    let ChecksConfig { every, timeout, silences_max, visit_every, jitter: checks_jitter } = checks;
    let ProbesConfig { per_request, per_second } = probes;
    let ServerConfig { drain_least, drain_least_silent, drain_most, drain_poll, close_most, peers, admission } =
        ServerConfig::default();
    let PeersConfig { most: peers_most, forget_after } = peers;
    let none = |is_none: bool| if is_none { "none".to_owned() } else { "some".to_owned() };
    let mut settings = BTreeMap::from([
        ("client.policy", policy.to_string()),
        ("client.observe_policy", none(observe_policy.is_none())),
        ("client.least_loaded.scan_max", SCAN_MAX.to_string()),
        ("client.least_loaded.window", WINDOW.to_string()),
        ("client.subset.size", size.to_string()),
        ("client.subset.algorithm", none(algorithm.is_none())),
        ("client.subset.client", none(client.is_none())),
        ("client.subset.seed", seed.to_string()),
        ("client.subset.replace_after", format!("{replace_after:?}")),
        ("client.flow.active_max", active_max.to_string()),
        ("client.flow.streams_max", streams_max.to_string()),
        ("client.errors.mode", errors_mode.to_string()),
        ("client.errors.half_life", format!("{half_life:?}")),
        ("client.backoff.first", format!("{first:?}")),
        ("client.backoff.most", format!("{most:?}")),
        ("client.backoff.jitter", jitter.to_string()),
        ("client.idle.after", after.map_or_else(|| none(true), |after| format!("{after:?}"))),
        ("client.checks.every", format!("{every:?}")),
        ("client.checks.timeout", format!("{timeout:?}")),
        ("client.checks.silences_max", silences_max.to_string()),
        ("client.checks.visit_every", format!("{visit_every:?}")),
        ("client.checks.jitter", checks_jitter.to_string()),
        ("client.probes.per_request", per_request.to_string()),
        ("client.probes.per_second", per_second.to_string()),
        ("server.drain_least", format!("{drain_least:?}")),
        ("server.drain_least_silent", format!("{drain_least_silent:?}")),
        ("server.drain_most", format!("{drain_most:?}")),
        ("server.drain_poll", format!("{drain_poll:?}")),
        ("server.close_most", format!("{close_most:?}")),
        ("server.peers.most", peers_most.to_string()),
        ("server.peers.forget_after", format!("{forget_after:?}")),
    ]);
    settings.extend(of_request(RequestMeta::default()));
    settings.extend(of_channel(&ChannelConfig::default()));
    settings.extend(picking(&pick));
    settings.extend(ejecting(&eject));
    settings.extend(throttling(&throttle));
    settings.extend(retrying(&retry));
    settings.extend(admitting(&admission));
    settings.extend(spilling(&ClustersConfig::default()));
    settings
}

fn of_request(request: RequestMeta) -> [(&'static str, String); 7] {
    let RequestMeta { criticality, deadline, attempt, kind, customer, lot, method } = request;
    [
        ("request.criticality", criticality.to_string()),
        ("request.deadline", if deadline == Time::NEVER { "none" } else { "some" }.to_owned()),
        ("request.attempt", attempt.to_string()),
        ("request.kind", format!("{kind:?}")),
        ("request.customer", customer.0.to_string()),
        ("request.lot", lot.0.to_string()),
        ("request.method", method.0.to_string()),
    ]
}

fn of_channel(channel: &ChannelConfig) -> [(&'static str, String); 10] {
    let none = |is_none: bool| if is_none { "none" } else { "some" }.to_owned();
    [
        ("channel.connect_timeout", format!("{:?}", channel.connect_timeout)),
        ("channel.ping_every", format!("{:?}", channel.ping_every)),
        ("channel.ping_timeout", format!("{:?}", channel.ping_timeout)),
        ("channel.streams_at_first", channel.streams_at_first.to_string()),
        ("channel.datagrams", channel.datagrams.to_string()),
        ("channel.replay_most", channel.replay_most.to_string()),
        ("channel.protocol", format!("{:?}", channel.protocol)),
        ("channel.defaults.criticality", channel.defaults.criticality.to_string()),
        ("channel.defaults.timeout", none(channel.defaults.timeout.is_none())),
        ("channel.seed", none(channel.seed.is_none())),
    ]
}

fn picking(pick: &PickConfig) -> [(&'static str, String); 13] {
    let PickConfig { weighted, prequal, level: LevelConfig { gain } } = pick;
    let WeightedConfig { every, blackout, expiry, error_penalty, slow_start, correction } = weighted;
    let PrequalConfig { every: pool_every, pool, expiry: pool_expiry, uses_most, hot_quantile, tie } = prequal;
    [
        ("client.pick.weighted.every", format!("{every:?}")),
        ("client.pick.weighted.blackout", format!("{blackout:?}")),
        ("client.pick.weighted.expiry", format!("{expiry:?}")),
        ("client.pick.weighted.error_penalty", error_penalty.to_string()),
        ("client.pick.weighted.slow_start", format!("{slow_start:?}")),
        ("client.pick.weighted.correction", correction.to_string()),
        ("client.pick.prequal.every", format!("{pool_every:?}")),
        ("client.pick.prequal.pool", pool.to_string()),
        ("client.pick.prequal.expiry", format!("{pool_expiry:?}")),
        ("client.pick.prequal.uses_most", uses_most.to_string()),
        ("client.pick.prequal.hot_quantile", hot_quantile.to_string()),
        ("client.pick.prequal.tie", tie.to_string()),
        ("client.pick.level.gain", gain.to_string()),
    ]
}

fn ejecting(eject: &EjectConfig) -> [(&'static str, String); 7] {
    let EjectConfig { mode, failing, least, most, first, longest, panic } = eject;
    [
        ("client.eject.mode", mode.to_string()),
        ("client.eject.failing", failing.to_string()),
        ("client.eject.least", least.to_string()),
        ("client.eject.most", most.to_string()),
        ("client.eject.first", format!("{first:?}")),
        ("client.eject.longest", format!("{longest:?}")),
        ("client.eject.panic", panic.to_string()),
    ]
}

fn spilling(clusters: &ClustersConfig) -> [(&'static str, String); 5] {
    let ClustersConfig { mode, full, margin, period, home_rate } = clusters;
    [
        ("clusters.mode", mode.to_string()),
        ("clusters.full", full.to_string()),
        ("clusters.margin", margin.to_string()),
        ("clusters.period", format!("{period:?}")),
        ("clusters.home_rate", home_rate.to_string()),
    ]
}

fn throttling(throttle: &ThrottleConfig) -> [(&'static str, String); 5] {
    let ThrottleConfig { local, hints, k, window, least } = throttle;
    [
        ("client.throttle.local", local.to_string()),
        ("client.throttle.hints", hints.to_string()),
        ("client.throttle.k", k.to_string()),
        ("client.throttle.window", format!("{window:?}")),
        ("client.throttle.least", least.to_string()),
    ]
}

fn retrying(retry: &RetryConfig) -> [(&'static str, String); 8] {
    let RetryConfig { mode, attempts, share, window, refused_most, wait, hedge } = retry;
    let HedgeConfig { mode: hedge_mode, after } = hedge;
    [
        ("client.retry.mode", mode.to_string()),
        ("client.retry.attempts", attempts.to_string()),
        ("client.retry.share", share.to_string()),
        ("client.retry.window", format!("{window:?}")),
        ("client.retry.refused_most", refused_most.to_string()),
        ("client.retry.wait", format!("{wait:?}")),
        ("client.retry.hedge.mode", hedge_mode.to_string()),
        ("client.retry.hedge.after", after.map_or("none".to_owned(), |after| format!("{after:?}"))),
    ]
}

fn admitting(admission: &AdmissionConfig) -> Vec<(&'static str, String)> {
    let AdmissionConfig {
        modes,
        cpu_factor,
        slots,
        burst,
        age,
        hint_ttl,
        retries,
        limit,
        limit_least,
        signals,
        quotas,
        degrade,
    } = admission;
    let Modes { all, deadline, quota, cutoff, limit: limit_mode, queue, attempts, degrade: degrade_mode, hints } =
        modes;
    let SignalsConfig { cpu, memory, load, delay, throttled, plugged } = signals;
    let QuotasConfig { default, customers } = quotas;
    let Quota { burst: quota_burst, hard, .. } = Quota::of_cpu(1.0);
    let thresholds = |of: &Option<Thresholds>| of.map_or("none".to_owned(), |Thresholds(steps)| format!("{steps:?}"));
    vec![
        ("server.admission.modes.all", all.to_string()),
        ("server.admission.modes.deadline", deadline.to_string()),
        ("server.admission.modes.quota", quota.to_string()),
        ("server.admission.modes.cutoff", cutoff.to_string()),
        ("server.admission.modes.limit", limit_mode.to_string()),
        ("server.admission.modes.queue", queue.to_string()),
        ("server.admission.modes.attempts", attempts.to_string()),
        ("server.admission.modes.degrade", degrade_mode.to_string()),
        ("server.admission.modes.hints", hints.to_string()),
        ("server.admission.cpu_factor", cpu_factor.to_string()),
        ("server.admission.slots", slots.to_string()),
        ("server.admission.burst", format!("{burst:?}")),
        ("server.admission.age", age.to_string()),
        ("server.admission.hint_ttl", format!("{hint_ttl:?}")),
        ("server.admission.retries", retries.to_string()),
        ("server.admission.limit", limit.to_string()),
        ("server.admission.limit_least", limit_least.to_string()),
        ("server.admission.signals.cpu", thresholds(cpu)),
        ("server.admission.signals.memory", thresholds(memory)),
        ("server.admission.signals.load", thresholds(load)),
        ("server.admission.signals.delay", thresholds(delay)),
        ("server.admission.signals.throttled", thresholds(throttled)),
        ("server.admission.signals.plugged", thresholds(plugged)),
        ("server.admission.quotas.default", default.map_or("none".to_owned(), |_| "some".to_owned())),
        ("server.admission.quotas.customers", if customers.is_empty() { "none" } else { "some" }.to_owned()),
        (
            "server.admission.quotas.customers.burst",
            quota_burst.map_or("none".to_owned(), |burst| format!("{burst:?}")),
        ),
        ("server.admission.quotas.customers.hard", hard.to_string()),
        ("server.admission.degrade", format!("{degrade:?}")),
    ]
}
