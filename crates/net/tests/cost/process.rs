//! A server as a process of its own, with everything on: how much of the CPU of the whole process is charged to requests, before
//! what is spent outside of handlers is spread over them.
//!
//! Both sides are CPU times of that process, so a busy machine makes this slower and hardly wrong. The process is this binary, told
//! by its environment to serve.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use evenkeel::admin::Admin;
use evenkeel::body::empty;
use evenkeel::{Channel, Server};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::{Service, service_fn};

use super::judged::not_judged;
use super::plain::{http1, read};
use super::support::listener;
use super::{BATCHES, STOLEN_MOST, burn, stolen};

/// That process, which ends with this.
struct Own {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Own {
    fn start() -> Own {
        let serves = [
            "process::most_of_what_a_process_uses_is_charged_where_handlers_work",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(serves).env(SERVES, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map(Result::unwrap).find_map(|line| line.strip_prefix(SAYS).map(str::to_owned)).unwrap();
        let (address, admin) = said.split_once(' ').unwrap();
        Own { child, address: address.parse().unwrap(), admin: admin.parse().unwrap() }
    }

    /// CPU seconds of the process, and those of them that were charged, as it says itself.
    async fn used_and_charged(&self) -> (f64, f64) {
        let request = http::Request::get("/state").header("host", "localhost").body(empty()).unwrap();
        let (_, text) = read(http1(self.admin).await.send_request(request).await.unwrap()).await;
        let state: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(state["servers"][0]["admission"]["modes"]["all"], "on");
        let [used, charged] = ["cpu_s", "charged_s"].map(|field| state["process"][field].as_f64().unwrap());
        (used, charged)
    }

    /// CPU seconds of the process as the system tells everybody: the 14th and 15th fields, in hundredths.
    fn used_as_others_see_it(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1;
        after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// So many requests, eight at once, as callers with a channel make them; how many were served.
async fn ask(channel: &Channel, requests: u32) -> usize {
    let asking = (0..8).map(|_| {
        let mut channel = channel.clone();
        async move {
            let mut served = 0;
            for _ in 0..requests / 8 {
                let request = http::Request::get("http://service/").body(empty()).unwrap();
                let Ok(answer) = channel.call(request).await else { continue };
                served += usize::from(answer.status().is_success());
                answer.into_body().collect().await.unwrap();
            }
            served
        }
    });
    futures_util::future::join_all(asking).await.into_iter().sum()
}

#[test]
fn most_of_what_a_process_uses_is_charged_where_handlers_work() {
    // The process that this starts comes here too.
    if std::env::var_os(SERVES).is_some() {
        return serve();
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(measure());
}

async fn measure() {
    let requests = if cfg!(debug_assertions) { 160 } else { 2_400 };
    let own = Own::start();
    let channel = Channel::connect("service", [own.address]).await.unwrap();
    // The first ones find a process that has not settled yet.
    ask(&channel, requests / 4).await;

    let (mut shares, first, first_seen) = (Vec::new(), own.used_and_charged().await, own.used_as_others_see_it());
    for _ in 0..BATCHES {
        let (stolen_before, began, before) = (stolen(), Instant::now(), own.used_and_charged().await);
        let served = ask(&channel, requests).await;
        let (after, stolen) = (own.used_and_charged().await, stolen() - stolen_before);
        let (used, charged) = (after.0 - before.0, after.1 - before.1);
        let share = charged / used;
        println!(
            "{share:.4} of {used:.3} s charged to {served} of {requests}; {stolen:.2} s of the machine were taken away"
        );
        assert!(served as u32 >= requests * 9 / 10, "{served} of {requests} were served");
        let took = began.elapsed().as_secs_f64();
        if stolen <= STOLEN_MOST * took && used >= USED_LEAST * took {
            shares.push(share);
        }
    }

    let (last, last_seen) = (own.used_and_charged().await, own.used_as_others_see_it());
    let (said, seen) = (last.0 - first.0, last_seen - first_seen);
    // A reading is off by a hundredth of a second or two, and the process goes on between two of them.
    assert!((said - seen).abs() < 0.05 + 0.02 * seen, "it says that it used {said} s, and others saw {seen} s");
    shares.sort_by(f64::total_cmp);
    match shares.get(shares.len() / 2) {
        Some(share) => assert!((0.9..=1.05).contains(share), "half of the batches charged less: {shares:?}"),
        None => not_judged("others had the machine, or the hypervisor took too much away"),
    }
}

/// A thread for each processor, connections, line, admission, reports, watch streams, datagrams, signals of the machine and the
/// admin address, as any server has them.
fn serve() {
    std::thread::spawn(|| {
        // Whoever started this has gone.
        drop(std::io::stdin().read(&mut [0]));
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (at, admin_at) = (listener().await, listener().await);
        let (address, admin) = (at.local_addr().unwrap(), admin_at.local_addr().unwrap());
        let server = Server::new().without_signals();
        tokio::spawn(Admin::new().with_server(server.handle()).serve(admin_at));
        println!("\n{SAYS}{address} {admin}");
        let service = service_fn(|_: http::Request<hyper::body::Incoming>| async {
            burn(WORK_MICROS);
            Ok::<_, std::convert::Infallible>(http::Response::new(String::from("done")))
        });
        server.serve(at, service).await.unwrap();
    });
}

/// Of the time that a batch takes, below which it says nothing: what a process does ten or a hundred times a second for nobody's sake
/// counts the more the longer its requests wait for others on the machine.
const USED_LEAST: f64 = 0.25;
/// Half a millisecond is where it must hold. What dependencies do for a request takes 30 times as long as it should where they
/// are not optimised, as in tests.
const WORK_MICROS: u64 = if cfg!(debug_assertions) { 5_000 } else { 500 };
const SERVES: &str = "EVENKEEL_COST_SERVES";
const SAYS: &str = "serving on ";
