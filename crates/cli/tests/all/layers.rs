//! Three layers of real processes: what a request is at the first it is at the last (B8), also where the last has too much.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::cores::{Side, on};
use crate::support::{Backend, Process, free_address, http, until};

/// Each asks the one behind it.
struct Stack {
    front: Backend,
    _middle: Backend,
    last: Backend,
    /// Where the last one can be looked at.
    admin: SocketAddr,
}

impl Stack {
    async fn start() -> Stack {
        let admin = free_address();
        let last = on(Side::Server, || Backend::start(&format!("--admin {admin}")));
        let middle = Backend::start(&format!("--next {}", last.address));
        let front = Backend::start(&format!("--next {}", middle.address));
        let stack = Stack { front, _middle: middle, last, admin };
        until("all are connected", async || stack.ask("/work", &[]).0 == 200).await;
        stack
    }

    /// Status and answer of the front.
    fn ask(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.front.address).unwrap();
        // What hangs is a failure, not a test that never ends.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: front\r\nconnection: close\r\n").unwrap();
        for (name, value) in headers {
            write!(stream, "{name}: {value}\r\n").unwrap();
        }
        write!(stream, "\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        // What the front itself refuses has no body.
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    fn admission_of_the_last(&self) -> Value {
        http(self.admin, "GET", "/state").1["servers"][0]["admission"].clone()
    }
}

/// The answers of the three, the front's first.
fn layers(answer: &Value) -> [&Value; 3] {
    [answer, &answer["next"], &answer["next"]["next"]]
}

fn assert_same_at_each_layer(answer: &Value, criticality: &str, customer: &str) {
    for layer in layers(answer) {
        assert_eq!((&layer["criticality"], &layer["customer"]), (&criticality.into(), &customer.into()), "{answer:#}");
    }
    let left = layers(answer).map(|layer| layer["deadline_us"].as_u64().unwrap());
    assert!(left[0] <= DEADLINE_MS * 1_000, "{answer:#}");
    // Each has worked for two milliseconds before it asked the next.
    assert!(left[0] >= left[1] + CPU_US && left[1] >= left[2] + CPU_US && left[2] > 0, "{answer:#}");
}

#[tokio::test]
async fn criticality_customer_and_what_is_left_of_the_deadline_reach_the_last_of_three_layers() {
    let stack = Stack::start().await;
    let deadline = DEADLINE_MS.to_string();

    for (criticality, customer) in [("SHEDDABLE", "mail"), ("CRITICAL_PLUS", "maps"), ("SHEDDABLE_PLUS", "a b")] {
        let headers = [
            ("evenkeel-criticality", criticality),
            ("evenkeel-customer", customer),
            ("x-envoy-expected-rq-timeout-ms", deadline.as_str()),
        ];
        let (status, answer) = stack.ask(&format!("/work?cpu_us={CPU_US}&bytes=3"), &headers);

        assert_eq!((status, &answer["payload"]), (200, &"...".into()));
        assert_same_at_each_layer(&answer, criticality, customer);
        let names = layers(&answer).map(|layer| layer["backend"].as_str().unwrap());
        assert!(
            names[0] != names[1] && names[1] != names[2] && names[2] == stack.last.address.to_string(),
            "{names:?}"
        );
    }

    let (_, answer) = stack.ask("/work", &[]);
    let [first, .., last] = layers(&answer);
    assert_eq!((&first["criticality"], &last["criticality"]), (&"CRITICAL".into(), &"CRITICAL".into()));
    assert_eq!((&first["deadline_us"], &last["customer"]), (&Value::Null, &"".into()));
}

#[tokio::test]
async fn the_same_holds_while_the_last_layer_has_too_much_and_nothing_hangs() {
    let stack = Stack::start().await;
    // Of one processor, at least four times what it can do.
    let line = format!("call {} --json --rate 1500 --seconds 8 --cpu-us 4000 --deadline 1", stack.last.address);
    let mut load = on(Side::Callers, || Process::start(&format!("{line} --in-flight 10000 --criticality critical")));
    until("it has too much", async || stack.admission_of_the_last()["cutoff"].as_f64().unwrap() > 0.0).await;
    let deadline = DEADLINE_MS.to_string();

    let (mut served, mut refused) = ([0_u64; 2], [0_u64; 2]);
    let classes = [("CRITICAL_PLUS", "maps"), ("SHEDDABLE", "mail")];
    for _ in 0..20 {
        for (place, (criticality, customer)) in classes.into_iter().enumerate() {
            let headers = [
                ("evenkeel-criticality", criticality),
                ("evenkeel-customer", customer),
                ("x-envoy-expected-rq-timeout-ms", deadline.as_str()),
            ];
            let began = Instant::now();
            let (status, answer) = stack.ask(&format!("/work?cpu_us={CPU_US}"), &headers);
            let most = Duration::from_millis(DEADLINE_MS) + GRACE;
            assert!(began.elapsed() < most, "{status} after {:?}", began.elapsed());
            match status {
                200 => {
                    assert_same_at_each_layer(&answer, criticality, customer);
                    served[place] += 1;
                }
                503 | 504 => refused[place] += 1,
                _ => panic!("{status}: {answer}"),
            }
        }
    }

    println!("served {served:?}, refused {refused:?} of CRITICAL_PLUS and SHEDDABLE");
    let seen = stack.admission_of_the_last();
    let asked = |class: &str| seen["asked"][class].as_u64().unwrap();
    // Whatever it was asked for by the load is CRITICAL: all else came down three layers, or was held back above.
    assert!(asked("CRITICAL_PLUS") >= served[0] && asked("SHEDDABLE") >= served[1], "{seen:#}");
    assert_eq!(asked("SHEDDABLE_PLUS"), 0);
    assert!(served[0] > 0 && served[0] >= served[1], "what matters most comes first: {served:?}");
    assert!(refused[1] > 0, "there was no overload: {seen:#}");
    let (code, _) = load.end().await;
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}

const CPU_US: u64 = 2_000;
const DEADLINE_MS: u64 = 5_000;
/// From a deadline to when its caller has heard of it, on a machine that is busy.
const GRACE: Duration = Duration::from_secs(5);
