//! Policies on real processes: machines of speeds 1 and 2, half a minute, and how evenly each was used.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Backend, Process, document};

/// Backends with a virtual processor each, every other one half as fast, and a client that asks them.
struct Fleet {
    backends: Vec<Backend>,
    call: Process,
}

impl Fleet {
    fn start(options: &str) -> Fleet {
        let speeds = [1.0, 0.5].into_iter().cycle().take(BACKENDS);
        let backends: Vec<Backend> =
            speeds.map(|speed| Backend::start(&format!("--virtual-cores 1 --speed {speed}"))).collect();
        let addresses: Vec<String> = backends.iter().map(|backend| backend.address.to_string()).collect();
        let (all, load) = (addresses.join(" "), "--json --seconds 32 --rate 120 --cpu-us 20000 --deadline 20");
        let call = Process::start(&format!("call {all} {load} {options}"));
        Fleet { backends, call }
    }

    /// What the client saw, and the processor time that each backend used.
    async fn end(mut self) -> (Value, Vec<f64>) {
        let (code, said) = self.call.end().await;
        assert_eq!(code, Some(0), "{said}");
        let mut used = Vec::new();
        for backend in &mut self.backends {
            backend.process.signal(Signal::TERM);
            let (_, said) = backend.process.end().await;
            let stopped: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
            used.push(stopped["busy_core_s"].as_f64().unwrap());
        }
        (serde_json::from_str(&said).unwrap(), used)
    }
}

/// How much more the most used has than the least used, as a share of that.
fn excess(used: &[f64]) -> f64 {
    let most = used.iter().copied().fold(0.0, f64::max);
    let least = used.iter().copied().fold(f64::INFINITY, f64::min);
    most / least - 1.0
}

#[tokio::test]
async fn the_default_policy_has_less_than_half_of_round_robins_excess_and_loses_nothing() {
    let (turns, default) = (Fleet::start("--policy round_robin"), Fleet::start(""));
    let ((seen_turns, turns), (seen, default)) = (turns.end().await, default.end().await);

    println!("round robin {:.3} of {turns:.2?}, the default {:.3} of {default:.2?}", excess(&turns), excess(&default));
    for seen in [&seen_turns, &seen] {
        let requests = &seen["requests"];
        assert_eq!(requests["ok"], requests["asked"], "{seen:#}");
        assert!(requests["asked"].as_u64() > Some(3_000), "{seen:#}");
    }
    assert!(excess(&default) < excess(&turns) / 2.0, "{default:?} against {turns:?}");
}

#[test]
fn one_that_fails_at_everything_is_left_out() {
    let backends = ["", "", "", "--error-rate 1"].map(Backend::start);
    let addresses = backends.each_ref().map(|backend| backend.address.to_string()).join(" ");
    let seen = document(&format!("call {addresses} --json --policy round_robin --seconds 6 --rate 100"));

    // A quarter of them in turn; left out for 1, 2 and 4 s it has less than half of that.
    let [asked, failed] = ["asked", "failed"].map(|name| seen["requests"][name].as_f64().unwrap());
    assert!(failed > 0.0 && failed < asked / 8.0, "{seen:#}");
}

const BACKENDS: usize = 6;
