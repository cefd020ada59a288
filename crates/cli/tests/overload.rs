//! Too much load for a real process: the server has one processor, those who call it have the others.
//!
//! What is asked for is a multiple of what the server could do a moment before, and what is asserted are shares, since
//! other programs may use the machine too. Every test prints its figures: `--nocapture` shows them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use serde_json::Value;
use support::cores::{Side, on};
use support::{Backend, Process};

#[tokio::test]
async fn under_four_times_the_load_what_matters_is_served_and_nothing_hangs() {
    let backend = start("");
    let capacity = capacity(&backend).await;

    let shares = [("critical_plus", 0.1), ("critical", 0.4), ("sheddable_plus", 1.5), ("sheddable", 2.0)];
    let calls = shares.map(|(class, share)| Call::start(&backend, share * capacity, &format!("--criticality {class}")));
    let [plus, critical, sheddable_plus, sheddable] = ends(calls).await;
    let after = Call::start(&backend, 0.3 * capacity, "").end().await;

    let both = Seen { asked: plus.asked + critical.asked, served: plus.served + critical.served };
    let half = both.share();
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

    let asked = [("mail", 10.0), ("maps", 0.7), ("news", 0.7)];
    let calls = asked.map(|(name, share)| Call::start(&backend, share * quota, &format!("--customer {name}")));
    let [mail, maps, news] = ends(calls).await;

    for other in [maps, news] {
        let (its, own) = (1.0 - other.share(), 1.0 - mail.share());
        assert!(its <= 0.02 && its <= own / 20.0, "{its:.3} of another's were not served, and {own:.3} of its own");
    }
}

#[tokio::test]
async fn in_observe_mode_nothing_is_refused() {
    let backend = start("--admission observe");
    let capacity = capacity(&backend).await;

    // Twice what it can do, and time enough to do it all. A caller with 100 in flight would stop itself.
    let rate = capacity / 2.0;
    let seconds = (90.0 / rate).min(1.5);
    let calls = ["sheddable", "sheddable_plus", "critical", "critical_plus"]
        .map(|class| Call::start_until(&backend, rate, seconds, 30.0, &format!("--criticality {class}")));
    let seen = ends(calls).await;

    assert!(seen.iter().all(|seen| seen.served == seen.asked), "{seen:?}");
}

fn start(options: &str) -> Backend {
    on(Side::Server, || Backend::start(options))
}

/// Requests a second that it can do: what it did in the worst of some short times, since other programs come and go.
async fn capacity(backend: &Backend) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let (address, cpu_us) = (backend.address, CPU.as_micros());
        let line = format!("call {address} --json --concurrency 8 --seconds 0.7 --cpu-us {cpu_us}");
        let (code, said) = on(Side::Callers, || Process::start(&line)).end().await;
        assert_eq!(code, Some(0), "{said}");
        let figures: Value = serde_json::from_str(&said).unwrap();
        least = least.min(figures["per_second"].as_f64().unwrap());
    }
    println!("capacity: {least:.0} requests of {CPU:?} in a second");
    least
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

    /// Every request has come to an end, the last one not long after its deadline.
    async fn end(mut self) -> Seen {
        let (code, said) = self.process.end().await;
        // It ends with 1 where nothing was answered.
        assert!(matches!(code, Some(0 | 1)), "{}: {code:?}", self.line);
        let figures: Value = serde_json::from_str(&said).unwrap();
        println!("{}\n  {} {} {}", self.line, figures["requests"], figures["failures"], figures["latency_ms"]);
        let count = |name: &str| figures["requests"][name].as_u64().unwrap();
        assert_eq!((count("not_sent"), count("unfinished")), (0, 0), "{}", self.line);
        let seconds = figures["seconds"].as_f64().unwrap();
        assert!(seconds <= self.seconds_most, "{}: {seconds} s", self.line);
        Seen { asked: count("asked"), served: count("ok") + count("degraded") }
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
