//! Too much load for a real process: the server has one processor, those who call it have the others.
//!
//! What is asked for is a multiple of what the server could do a moment before. What must hold on any machine is asserted
//! always: nothing hangs or is lost, refusals go by class, and it recovers. How much is served is judged only where other
//! programs left the server its processor; where they did not, it is measured again, twice, and then not judged. Every test
//! prints its figures: `--nocapture` shows them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../net/tests/support/judged.rs"]
mod judged;
mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use judged::not_judged;
use serde_json::Value;
use support::cores::{Side, of_servers, on};
use support::{Backend, Process, free_address, http, until};

#[tokio::test]
async fn under_four_times_the_load_what_matters_is_served_and_nothing_hangs() {
    let admin = free_address();
    let backend = start(&format!("--admin {admin}"));
    judge(&[&backend], async |machine| {
        let capacity = capacity(&backend).await;
        let shares = [("critical_plus", 0.1), ("critical", 0.4), ("sheddable_plus", 1.5), ("sheddable", 2.0)];
        let calls =
            shares.map(|(class, share)| Call::start(&backend, share * capacity, &format!("--criticality {class}")));
        let all = ends(calls).await;
        machine.say(&[&backend], "under four times the load");
        until("it has recovered", async || admission(admin)["cutoff"].as_f64().unwrap() <= 0.0).await;
        let after = Call::start(&backend, 0.3 * capacity, "").end().await;

        let refused = all.each_ref().map(Seen::refused_share);
        assert!(refused.windows(2).all(|pair| pair[0] <= pair[1] + NOISE), "not by class: {refused:?}");
        assert!(all[3].refused > 0, "there was no overload: {all:?}");
        assert!(after.served > 0, "{after:?}");
        if !machine.was_its_own(&[&backend]) {
            return Judged::No;
        }
        assert!(all.iter().chain([&after]).all(|seen| seen.is_in_time), "{all:?} {after:?}");
        let [plus, critical, _, sheddable] = &all;
        let half = (plus.served + critical.served) as f64 / (plus.asked + critical.asked) as f64;
        assert!(half >= 0.95, "of what matters and is half of the capacity {half:.3} was served");
        let order = all.each_ref().map(Seen::share);
        assert!(order.windows(2).all(|pair| pair[0] >= pair[1] - NOISE), "{order:?}");
        assert!(sheddable.share() < 0.5, "there was no overload: {order:?}");
        assert!(after.share() >= 0.99, "after it {:.3} was served", after.share());
        Judged::Yes
    })
    .await;
}

#[tokio::test]
async fn one_customer_with_ten_times_its_quota_takes_nothing_from_the_others() {
    judge(&[], async |machine| {
        let first = start("");
        let quota = capacity(&first).await / 4.0;
        let cpu = quota * CPU.as_secs_f64();
        let backend = start(&format!("--quota mail={cpu} --quota maps={cpu} --quota news={cpu}"));
        let asked = [("mail", 10.0), ("maps", 0.7), ("news", 0.7)];
        let calls = asked.map(|(name, share)| Call::start(&backend, share * quota, &format!("--customer {name}")));
        let [mail, maps, news] = ends(calls).await;
        machine.say(&[&first, &backend], "with one customer too loud");

        assert!(mail.refused > 0, "{mail:?}");
        for other in [&maps, &news] {
            let (its, own) = (other.refused_share(), mail.refused_share());
            assert!(its <= own, "{its:.3} of another's were refused, and {own:.3} of its own");
        }
        if !machine.was_its_own(&[&first, &backend]) {
            return Judged::No;
        }
        for other in [maps, news] {
            assert!(other.is_in_time, "{other:?}");
            let (its, own) = (1.0 - other.share(), 1.0 - mail.share());
            assert!(its <= 0.02 && its <= own / 20.0, "{its:.3} of another's were not served, and {own:.3} of its own");
        }
        Judged::Yes
    })
    .await;
}

#[tokio::test]
async fn one_that_can_answer_cheaper_does_so_before_it_refuses() {
    judge(&[], async |machine| {
        let first = start("");
        let capacity = capacity(&first).await;
        let backend = start("--can-degrade");
        let seen = Call::start(&backend, 1.3 * capacity, "").end().await;

        if !machine.was_its_own(&[&first, &backend]) {
            return Judged::No;
        }
        assert!(seen.is_in_time && seen.degraded > 0, "{seen:?}");
        assert!(seen.share() >= 0.9, "{seen:?}");
        Judged::Yes
    })
    .await;
}

#[tokio::test]
async fn in_observe_mode_nothing_is_refused_and_what_would_be_is_counted() {
    let admin = free_address();
    let backend = start(&format!("--admission observe --admin {admin}"));
    judge(&[&backend], async |machine| {
        let capacity = capacity(&backend).await;
        // Twice what it can do, and time enough to do it all. A caller with 100 in flight would stop itself.
        let rate = capacity / 2.0;
        let seconds = (90.0 / rate).min(1.5);
        let calls = ["sheddable", "sheddable_plus", "critical", "critical_plus"]
            .map(|class| Call::start_until(&backend, rate, seconds, 30.0, &format!("--criticality {class}")));
        let seen = ends(calls).await;

        let admission = admission(admin);
        assert_eq!(count(&admission["refused"]), 0, "{admission:#}");
        assert!(seen.iter().all(|seen| seen.refused == 0), "{seen:?}");
        if !machine.was_its_own(&[&backend]) {
            return Judged::No;
        }
        assert!(seen.iter().all(|seen| seen.is_in_time && seen.served == seen.asked), "{seen:?}");
        assert!(count(&admission["observed"]) > 0, "{admission:#}");
        Judged::Yes
    })
    .await;
}

#[tokio::test]
async fn what_observing_foretells_happens_when_it_is_on() {
    let cut_more_than_half_of_critical = |now: &Value, cutoff: &str| {
        let demand: f64 = now["demand_cpu"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
        demand > 2.0 * now["capacity_cpu"].as_f64().unwrap() && now[cutoff].as_f64().unwrap() > 2.5
    };

    let foretold =
        under_load("--admission observe", |now| cut_more_than_half_of_critical(now, "cutoff_observed")).await;
    assert!(foretold["cutoff"].as_f64() == Some(0.0) && count(&foretold["refused"]) == 0, "{foretold:#}");

    let on = under_load("", |now| cut_more_than_half_of_critical(now, "cutoff")).await;
    assert!(count(&on["refused"]) > 0, "{on:#}");
}

/// What a fresh server says of itself as soon as this holds for ten readings in a row, a tenth of a second apart, while it is
/// asked for four times what its processor can do, at least. Callers are as they are by default: where nothing is answered in
/// time they hold back by themselves, and tell how much.
async fn under_load(options: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let admin = free_address();
    let backend = start(&format!("--admin {admin} {options}"));
    let rate = 1.0 / CPU.as_secs_f64();
    let _calling = [(); 4].map(|()| Call::start_until(&backend, rate, 120.0, 1.0, ""));
    let (mut last, mut read_at, mut in_a_row) = (Value::Null, Instant::now(), 0);
    until("it knows that there is too much", async || {
        if read_at.elapsed() < Duration::from_millis(100) {
            return false;
        }
        (last, read_at) = (admission(admin), Instant::now());
        in_a_row = if holds(&last) { in_a_row + 1 } else { 0 };
        in_a_row == 10
    })
    .await;
    last
}

/// Whether the machine was quiet enough to say how much is served.
#[derive(PartialEq, Eq)]
enum Judged {
    Yes,
    No,
}

/// Measures until it can be judged, three times at most. What does not depend on the machine fails at once.
/// `there` are servers that have worked before.
async fn judge(there: &[&Backend], mut measure: impl AsyncFnMut(Machine) -> Judged) {
    for _ in 0..3 {
        if measure(Machine::now(there)).await == Judged::Yes {
            return;
        }
    }
    not_judged("other programs had the processor");
}

fn admission(admin: SocketAddr) -> Value {
    http(admin, "GET", "/state").1["servers"][0]["admission"].clone()
}

/// All of them, whatever the reason and the criticality.
fn count(by_reason: &Value) -> u64 {
    by_reason.as_object().unwrap().values().map(|by_level| total(by_level.as_object().unwrap())).sum()
}

fn total(counts: &serde_json::Map<String, Value>) -> u64 {
    counts.values().map(|count| count.as_u64().unwrap()).sum()
}

fn start(options: &str) -> Backend {
    on(Side::Server, || Backend::start(options))
}

/// What the processor of the servers has done so far. Where others had it, or a hypervisor took it away for seconds, nothing
/// can be said of what a server did with it: only what holds on any machine.
struct Machine {
    began: Instant,
    core: Core,
    /// CPU that servers had used before.
    used: f64,
}

impl Machine {
    fn now(servers: &[&Backend]) -> Machine {
        Machine { began: Instant::now(), core: Core::read(), used: sum(servers) }
    }

    fn say(&self, servers: &[&Backend], when: &str) {
        let share = (sum(servers) - self.used) / self.began.elapsed().as_secs_f64();
        println!("{when} and before, the server had {share:.2} of a processor");
    }

    /// Whether nobody but these servers had the processor, from when the capacity was measured on.
    fn was_its_own(&self, servers: &[&Backend]) -> bool {
        let (now, elapsed) = (Core::read(), self.began.elapsed().as_secs_f64());
        let others = (now.busy - self.core.busy - (sum(servers) - self.used)).max(0.0) / elapsed;
        let stolen = (now.stolen - self.core.stolen) / elapsed;
        let was = others <= OTHERS_MOST && stolen <= STOLEN_MOST;
        println!("others had {others:.2} of the processor, and {stolen:.2} of it was taken away: quiet: {was}");
        was
    }
}

/// Seconds that a processor was busy, and that the hypervisor kept it to itself.
struct Core {
    busy: f64,
    stolen: f64,
}

impl Core {
    fn read() -> Core {
        let name = format!("cpu{}", of_servers());
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name)).unwrap();
        // In user mode, nice, system, idle, waiting for a disk, in interrupts, in soft ones, stolen.
        let ticks: Vec<f64> = line.split_whitespace().skip(1).map(|ticks| ticks.parse().unwrap()).collect();
        let seconds = |fields: &[usize]| fields.iter().map(|&field| ticks[field] / 100.0).sum();
        Core { busy: seconds(&[0, 1, 2]), stolen: seconds(&[7]) }
    }
}

/// CPU that all of them have used.
fn sum(servers: &[&Backend]) -> f64 {
    servers.iter().map(|server| cpu_seconds(server)).sum()
}

/// CPU that the process has used: the 14th and 15th field, in hundredths of a second.
fn cpu_seconds(backend: &Backend) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", backend.process.id())).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Shares of the processor above which nothing is said of how much is served. Callers and their kernel do some of their work there.
const OTHERS_MOST: f64 = 0.1;
const STOLEN_MOST: f64 = 0.05;
/// Requests a second that callers ask for at least.
const CAPACITY_LEAST: f64 = 20.0;

/// Requests a second that it can do: what it did in most of some short times, since other programs come and go.
async fn capacity(backend: &Backend) -> f64 {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (address, cpu_us) = (backend.address, CPU.as_micros());
        let line = format!("call {address} --json --concurrency 8 --seconds 0.5 --cpu-us {cpu_us}");
        let (code, said) = on(Side::Callers, || Process::start(&line)).end().await;
        let figures: Value = serde_json::from_str(&said).unwrap_or_default();
        // One that could not connect has seen a machine that stands still.
        seen.push(figures["per_second"].as_f64().filter(|_| code == Some(0)).unwrap_or_default());
    }
    seen.sort_by(f64::total_cmp);
    println!("capacity: {:.0} requests of {CPU:?} in a second", seen[1]);
    seen[1].max(CAPACITY_LEAST)
}

/// A process that calls at a rate.
struct Call {
    process: Process,
    line: String,
    /// When its last request must have come to an end.
    seconds_most: f64,
}

impl Call {
    fn start(backend: &Backend, rate: f64, options: &str) -> Call {
        Call::start_until(backend, rate, 6.0, 1.0, options)
    }

    fn start_until(backend: &Backend, rate: f64, seconds: f64, deadline: f64, options: &str) -> Call {
        let (address, cpu_us) = (backend.address, CPU.as_micros());
        let times = format!("--rate {rate} --seconds {seconds} --deadline {deadline}");
        let line = format!("call {address} --json {times} --cpu-us {cpu_us} --in-flight 10000 {options}");
        let process = on(Side::Callers, || Process::start(&line));
        Call { process, line, seconds_most: seconds + deadline + GRACE.as_secs_f64() }
    }

    /// What came of it. Every request has come to an end, whatever the machine did.
    async fn end(mut self) -> Seen {
        let (code, said) = self.process.end().await;
        let figures: Value = serde_json::from_str(&said).unwrap_or_default();
        println!("{}\n  {} {} {}", self.line, figures["requests"], figures["failures"], figures["latency_ms"]);
        let count = |name: &str| figures["requests"][name].as_u64().unwrap_or_default();
        // It ends with 1 where nothing was answered.
        assert!(matches!(code, Some(0 | 1)), "{code:?}: {said}");
        assert_eq!((count("not_sent"), count("unfinished")), (0, 0), "{said}");
        let seconds = figures["seconds"].as_f64().unwrap();
        assert!(seconds <= self.seconds_most + HANGS.as_secs_f64(), "it hung: {said}");
        let (asked, degraded, refused) =
            (count("asked"), count("degraded"), total(figures["requests"]["refused"].as_object().unwrap()));
        let served = count("ok") + degraded;
        assert_eq!(asked, served + refused + count("failed"), "some were lost: {said}");
        Seen { asked, served, refused, degraded, is_in_time: seconds <= self.seconds_most }
    }
}

async fn ends<const N: usize>(calls: [Call; N]) -> [Seen; N] {
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.end().await);
    }
    seen.try_into().unwrap()
}

/// What became of the requests of one caller.
#[derive(Debug)]
struct Seen {
    asked: u64,
    served: u64,
    /// By the server, or by the client because the server said so.
    refused: u64,
    /// Of those that were served.
    degraded: u64,
    /// The last one ended not long after its deadline.
    is_in_time: bool,
}

impl Seen {
    fn share(&self) -> f64 {
        self.served as f64 / self.asked as f64
    }

    fn refused_share(&self) -> f64 {
        self.refused as f64 / self.asked as f64
    }
}

/// What a request asks for, at least 2 ms.
const CPU: Duration = Duration::from_millis(4);
/// Two standard errors of the difference between 0.97 of a hundred requests and 0.97 of some hundreds.
const NOISE: f64 = 0.04;
/// From a deadline to when its caller has heard of it, on a machine that is busy.
const GRACE: Duration = Duration::from_secs(1);
/// Longer than a machine that others use stands still.
const HANGS: Duration = Duration::from_secs(30);
