//! Too much load for a real process: the server has one processor, those who call it have the others.
//!
//! What is asked for is a multiple of what the server could do a moment before, and what is asserted are shares, since
//! other programs may use the machine too. Every test prints its figures: `--nocapture` shows them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::cores::{Side, on};
use support::{Backend, Process, free_address, http};

#[tokio::test]
async fn under_four_times_the_load_what_matters_is_served_and_nothing_hangs() {
    let backend = start("");
    let capacity = capacity(&backend).await;

    let machine = Machine::now(&backend);
    let shares = [("critical_plus", 0.1), ("critical", 0.4), ("sheddable_plus", 1.5), ("sheddable", 2.0)];
    let calls = shares.map(|(class, share)| Call::start(&backend, share * capacity, &format!("--criticality {class}")));
    let [plus, critical, sheddable_plus, sheddable] = ends(calls).await;
    machine.say(&backend, "under four times the load");
    let after = Call::start(&backend, 0.3 * capacity, "").end().await;

    if !machine.is_its_own() {
        return;
    }
    let all = [&plus, &critical, &sheddable_plus, &sheddable, &after];
    assert!(all.iter().all(|seen| seen.has_ended), "{all:?}");
    let half = (plus.served + critical.served) as f64 / (plus.asked + critical.asked) as f64;
    assert!(half >= 0.95, "of what matters and is half of the capacity {half:.3} was served");
    let order = [&plus, &critical, &sheddable_plus, &sheddable].map(Seen::share);
    assert!(order.windows(2).all(|pair| pair[0] >= pair[1] - NOISE), "{order:?}");
    assert!(sheddable.share() < 0.5, "there was no overload: {order:?}");
    assert!(after.share() >= 0.99, "after it {:.3} was served", after.share());
}

#[tokio::test]
async fn one_customer_with_ten_times_its_quota_takes_nothing_from_the_others() {
    let quota = capacity(&start("")).await / 4.0;
    let cpu = quota * CPU.as_secs_f64();
    let backend = start(&format!("--quota mail={cpu} --quota maps={cpu} --quota news={cpu}"));

    let machine = Machine::now(&backend);
    let asked = [("mail", 10.0), ("maps", 0.7), ("news", 0.7)];
    let calls = asked.map(|(name, share)| Call::start(&backend, share * quota, &format!("--customer {name}")));
    let [mail, maps, news] = ends(calls).await;
    machine.say(&backend, "with one customer too loud");
    if !machine.is_its_own() {
        return;
    }

    for other in [maps, news] {
        assert!(other.has_ended, "{other:?}");
        let (its, own) = (1.0 - other.share(), 1.0 - mail.share());
        assert!(its <= 0.02 && its <= own / 20.0, "{its:.3} of another's were not served, and {own:.3} of its own");
    }
}

#[tokio::test]
async fn one_that_can_answer_cheaper_does_so_before_it_refuses() {
    let capacity = capacity(&start("")).await;
    let backend = start("--can-degrade");

    let machine = Machine::now(&backend);
    let seen = Call::start(&backend, 1.3 * capacity, "").end().await;
    if !machine.is_its_own() {
        return;
    }

    assert!(seen.has_ended && seen.degraded > 0, "{seen:?}");
    assert!(seen.share() >= 0.9, "{seen:?}");
}

#[tokio::test]
async fn in_observe_mode_nothing_is_refused_and_what_would_be_is_counted() {
    let admin = free_address();
    let backend = start(&format!("--admission observe --admin {admin}"));
    let machine = Machine::now(&backend);
    let capacity = capacity(&backend).await;

    // Twice what it can do, and time enough to do it all. A caller with 100 in flight would stop itself.
    let rate = capacity / 2.0;
    let seconds = (90.0 / rate).min(1.5);
    let calls = ["sheddable", "sheddable_plus", "critical", "critical_plus"]
        .map(|class| Call::start_until(&backend, rate, seconds, 30.0, &format!("--criticality {class}")));
    let seen = ends(calls).await;
    if !machine.is_its_own() {
        return;
    }

    assert!(seen.iter().all(|seen| seen.has_ended && seen.served == seen.asked), "{seen:?}");
    let (_, state) = http(admin, "GET", "/state");
    let admission = &state["servers"][0]["admission"];
    assert!(count(&admission["observed"]) > 0, "{admission:#}");
    assert_eq!(count(&admission["refused"]), 0, "{admission:#}");
}

/// All of them, whatever the reason and the criticality.
fn count(by_reason: &Value) -> u64 {
    let by_reason = by_reason.as_object().unwrap().values();
    by_reason.flat_map(|by_level| by_level.as_object().unwrap().values()).map(|count| count.as_u64().unwrap()).sum()
}

fn start(options: &str) -> Backend {
    on(Side::Server, || Backend::start(options))
}

/// What the machine has given so far. A hypervisor may take processors away for seconds: then nothing can be said of what a
/// server did with them, only that nothing hung.
struct Machine {
    began: Instant,
    server: f64,
    stolen: f64,
}

impl Machine {
    fn now(backend: &Backend) -> Machine {
        Machine { began: Instant::now(), server: cpu_seconds(backend), stolen: stolen_seconds() }
    }

    fn say(&self, backend: &Backend, when: &str) {
        let share = (cpu_seconds(backend) - self.server) / self.began.elapsed().as_secs_f64();
        println!("{when} the server had {share:.2} of a processor");
    }

    fn is_its_own(&self) -> bool {
        let share = (stolen_seconds() - self.stolen) / self.began.elapsed().as_secs_f64();
        let is_judged = share <= STOLEN_MOST;
        println!("{share:.2} processors were taken away{}", if is_judged { "" } else { ": NOT JUDGED" });
        is_judged
    }
}

/// CPU that the process has used: the 14th and 15th field, in hundredths of a second.
fn cpu_seconds(backend: &Backend) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", backend.process.id())).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// CPU that the hypervisor has kept from this machine: the 8th number.
fn stolen_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    stat.lines().next().unwrap().split_whitespace().nth(8).unwrap().parse::<f64>().unwrap() / 100.0
}

const STOLEN_MOST: f64 = 0.1;
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

    /// What came of it; whether every request has come to an end, the last one not long after its deadline, is for
    /// [`Seen::has_ended`] to say.
    async fn end(mut self) -> Seen {
        let (code, said) = self.process.end().await;
        let figures: Value = serde_json::from_str(&said).unwrap_or_default();
        println!("{}\n  {} {} {}", self.line, figures["requests"], figures["failures"], figures["latency_ms"]);
        let count = |name: &str| figures["requests"][name].as_u64().unwrap_or_default();
        // It ends with 1 where nothing was answered.
        let has_ended = matches!(code, Some(0 | 1))
            && (count("not_sent"), count("unfinished")) == (0, 0)
            && figures["seconds"].as_f64().is_some_and(|seconds| seconds <= self.seconds_most);
        let degraded = count("degraded");
        Seen { asked: count("asked"), served: count("ok") + degraded, degraded, has_ended }
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
    /// Of those that were served.
    degraded: u64,
    /// Nothing hung.
    has_ended: bool,
}

impl Seen {
    fn share(&self) -> f64 {
        self.served as f64 / self.asked as f64
    }
}

/// What a request asks for, at least 2 ms.
const CPU: Duration = Duration::from_millis(4);
/// Two standard errors of the difference between 0.97 of a hundred requests and 0.97 of some hundreds.
const NOISE: f64 = 0.04;
/// From a deadline to when its caller has heard of it, on a machine that is busy.
const GRACE: Duration = Duration::from_secs(1);
