//! Signals of load, of servers on real sockets (B10, B18): what the machine, the executor and the program say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::plain;
use crate::support::{listener, until};
use evenkeel::Server;
use evenkeel::meter::process_time;
use evenkeel::server::{Handle, Readings, Signal};
use evenkeel_core::server::Usage;
use tower::service_fn;

/// A server that is busy for as many milliseconds as its path says, and gives nobody else a turn meanwhile; with `?twice` once more
/// after a turn of the others.
async fn start(server: Server) -> (SocketAddr, Handle) {
    let (listener, server) = (listener().await, server.without_signals());
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        let millis = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
        burn(Duration::from_millis(millis));
        if request.uri().query() == Some("twice") {
            evenkeel::yield_now().await;
            burn(Duration::from_millis(millis));
        }
        Ok::<_, Infallible>(http::Response::new(String::new()))
    });
    tokio::spawn(async move { server.serve(listener, service).await.unwrap() });
    (address, handle)
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::black_box(0);
    }
}

async fn readings(handle: &Handle) -> Readings {
    handle.readings().await.unwrap()
}

/// Waits for a reading that has come to this; every one on the way is possible.
async fn until_read(handle: &Handle, what: &str, holds: impl Fn(&Readings) -> bool) {
    until(what, async || {
        let readings = readings(handle).await;
        for share in [readings.cpu, readings.throttled, readings.memory, readings.load_average].into_iter().flatten() {
            assert!(share.is_finite() && share >= 0.0, "{readings:?}");
        }
        holds(&readings)
    })
    .await;
}

#[tokio::test]
async fn work_moves_the_readings() {
    let (address, handle) = start(Server::new().with_reserved_cpu(0.5)).await;
    until_read(&handle, "all is read", |read| {
        read.cpu.is_some() && read.memory.is_some() && read.delay.is_some() && read.cpu_reserved == Some(0.5)
    })
    .await;

    let working = tokio::spawn(async move {
        loop {
            plain::fetch(address, "/50").await;
        }
    });

    until_read(&handle, "it is busy", |read| read.cpu.is_some_and(|cpu| cpu > 0.5)).await;
    until_read(&handle, "connections count", |read| read.connections_per_second.is_some_and(|rate| rate > 1.0)).await;
    working.abort();
}

#[tokio::test]
async fn an_executor_that_is_blocked_shows_in_the_delay() {
    let (address, handle) = start(Server::new()).await;
    until_read(&handle, "it is probed", |read| read.delay.is_some()).await;

    let working = tokio::spawn(async move {
        loop {
            plain::fetch(address, "/200").await;
        }
    });

    until_read(&handle, "it shows", |read| read.delay.is_some_and(|delay| delay >= Duration::from_millis(100))).await;
    working.abort();
    until_read(&handle, "it passes", |read| read.delay.is_some_and(|delay| delay < Duration::from_millis(50))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_that_is_blocked_shows_though_the_server_is_not() {
    let (address, handle) = start(Server::new().per_core()).await;
    until_read(&handle, "it is probed", |read| read.delay.is_some()).await;

    let working = tokio::spawn(async move {
        loop {
            plain::fetch(address, "/200").await;
        }
    });

    until_read(&handle, "it shows", |read| read.delay.is_some_and(|delay| delay >= Duration::from_millis(100))).await;
    until_read(&handle, "so does its CPU", |read| read.cpu.is_some_and(|cpu| cpu > 0.5)).await;
    working.abort();
}

#[tokio::test]
async fn health_checks_are_counted() {
    let (address, handle) = start(Server::new()).await;

    until_read(&handle, "nobody checks", |read| read.checks_per_second == Some(0.0)).await;
    for _ in 0..20 {
        plain::fetch(address, "/grpc.health.v1.Health/Check").await;
    }

    until_read(&handle, "somebody does", |read| read.checks_per_second.is_some_and(|rate| rate > 1.0)).await;
}

/// On a runtime of one thread, which is all that the server is said to have: those who connect have it too, as other programs
/// would. What the machine gives to others comes and goes, so capacity is judged by what this process got.
#[tokio::test]
async fn a_storm_of_connections_and_checks_is_capacity_that_is_gone_until_it_is_over() {
    let usage = || Usage { processors: Some(1.0), ..Usage::default() };
    let (address, handle) = start(Server::new().with_usage(usage)).await;
    // There is always somebody in line, since handlers give others a turn, and nobody is refused.
    let call = |_| {
        tokio::spawn(async move {
            loop {
                plain::fetch(address, "/3?twice").await;
            }
        })
    };
    let callers: Vec<_> = (0..4).map(call).collect();
    until_for_handlers(&handle, "nearly all is for handlers", |share| share > 0.85).await;

    let storm = tokio::spawn(async move {
        loop {
            let checks = (0..120).map(|_| plain::fetch(address, "/grpc.health.v1.Health/Check"));
            futures_util::future::join_all(checks).await;
        }
    });

    until_for_handlers(&handle, "less is left for handlers", |share| share < 0.75).await;
    storm.abort();
    until_for_handlers(&handle, "it is theirs again", |share| share > 0.85).await;
    callers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Waits until the capacity is this share of the CPU that this process gets, for some readings in a row.
async fn until_for_handlers(handle: &Handle, what: &str, holds: impl Fn(f64) -> bool) {
    let (mut before, mut in_a_row) = ((Instant::now(), process_time().unwrap()), 0);
    until(what, async || {
        let now = (Instant::now(), process_time().unwrap());
        let elapsed = now.0 - before.0;
        // As long as a capacity is learned over.
        if elapsed < Duration::from_millis(300) {
            return false;
        }
        let used = now.1.saturating_sub(before.1).as_secs_f64() / elapsed.as_secs_f64();
        before = now;
        let share = handle.snapshot().await.unwrap().admission.capacity / used;
        println!("{what}: {share:.2} of {used:.2}");
        in_a_row = if holds(share) { in_a_row + 1 } else { 0 };
        in_a_row == 3
    })
    .await;
}

#[tokio::test]
async fn what_is_plugged_in_is_read_over_its_capacity() {
    struct Licences;
    impl Signal for Licences {
        fn name(&self) -> &'static str {
            "licences"
        }
        fn read(&mut self) -> Option<f64> {
            Some(0.75)
        }
    }
    let depth = Arc::new(AtomicU32::new(50));
    let read = Arc::clone(&depth);
    let server = Server::new()
        .with_signal("queue_depth", 200.0, move || read.load(Ordering::Relaxed).into())
        .with_signal_source(Licences)
        .with_signal("broken", 1.0, || f64::NAN)
        .with_signal("worse", 1.0, || panic!("a signal that panics"));
    let (address, handle) = start(server).await;
    let value =
        |read: &Readings, name: &str| read.plugged.iter().find(|(known, _)| known == name).and_then(|one| one.1);

    until_read(&handle, "it is read", |read| value(read, "queue_depth") == Some(0.25)).await;
    depth.store(100, Ordering::Relaxed);
    until_read(&handle, "it moves", |read| value(read, "queue_depth") == Some(0.5)).await;

    until_read(&handle, "what fails is left out and counted", |read| {
        why(read, "broken") == Some("it says NaN of 1") && why(read, "worse").is_some() && read.plugged_failures >= 4
    })
    .await;
    let read = readings(&handle).await;
    assert_eq!(value(&read, "licences"), Some(0.75));
    assert_eq!((value(&read, "broken"), value(&read, "worse")), (None, None));
    assert_eq!(plain::fetch(address, "/").await.0.status, 200, "and it serves");
}

/// Why it is left out, if it is.
fn why<'a>(read: &'a Readings, name: &str) -> Option<&'a str> {
    read.left_out.iter().find(|(left_out, _)| left_out == name).map(|(_, why)| why.as_str())
}

/// On a runtime of one thread, which also runs the server's driver.
#[tokio::test]
async fn sources_that_hang_hold_up_nobody_and_are_back_when_they_answer() {
    let ((release, hangs), (release_usage, usage_hangs)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let server = Server::new()
        .with_signal("hangs", 10.0, move || hangs.recv().map_or(5.0, |()| 0.0))
        .with_signal("sound", 10.0, || 2.0)
        .with_usage(move || {
            // Until nobody can release it any more.
            let _released = usage_hangs.recv();
            Usage { utilization: Some(0.5), ..Usage::default() }
        });
    let (address, handle) = start(server).await;

    until_read(&handle, "they are left out", |read| why(read, "hangs").is_some() && why(read, "usage").is_some()).await;

    let read = readings(&handle).await;
    assert!(why(&read, "hangs").unwrap().starts_with("it has not answered for"), "{read:?}");
    assert_eq!((why(&read, "sound"), read.cpu), (None, None));
    assert_eq!(read.plugged, [("hangs".to_owned(), None), ("sound".to_owned(), Some(0.2))]);
    assert_eq!(plain::fetch(address, "/").await.0.status, 200);
    drop((release, release_usage));
    until_read(&handle, "they are back", |read| read.left_out.is_empty() && read.cpu == Some(0.5)).await;
    assert_eq!(readings(&handle).await.plugged[0].1, Some(0.5));
}

/// Takes the ten seconds after which such a signal is not believed any more.
#[tokio::test]
async fn a_signal_that_is_wrong_for_good_closes_the_server_for_seconds_only() {
    let (wrong, right) = (Arc::new(AtomicU32::new(500)), Arc::new(AtomicU32::new(0)));
    let (read_wrong, read_right) = (Arc::clone(&wrong), Arc::clone(&right));
    let server = Server::new()
        .with_signal("wrong", 100.0, move || read_wrong.load(Ordering::Relaxed).into())
        .with_signal("right", 100.0, move || read_right.load(Ordering::Relaxed).into());
    let (address, handle) = start(server).await;
    let status = async || plain::fetch(address, "/").await.0.status.as_u16();
    until("it refuses", async || status().await == 503).await;

    until("it is not believed", async || status().await == 200).await;

    let read = readings(&handle).await;
    assert_eq!((why(&read, "right"), read.plugged[0].1), (None, Some(5.0)));
    assert!(why(&read, "wrong").unwrap().contains("does not fall"), "{read:?}");
    right.store(120, Ordering::Relaxed);
    until("the others still count", async || status().await == 503).await;
    right.store(0, Ordering::Relaxed);
    wrong.store(10, Ordering::Relaxed);
    until_read(&handle, "it is back", |read| why(read, "wrong").is_none()).await;
    wrong.store(500, Ordering::Relaxed);
    until("and counts", async || status().await == 503).await;
}

#[tokio::test]
async fn what_cannot_be_divided_by_is_refused_at_start() {
    let field = |server: Server| server.layer().unwrap_err().field;

    assert_eq!(field(Server::new().with_signal("queue_depth", 0.0, || 0.0)), "signal.capacity");
    assert_eq!(field(Server::new().with_signal("cpu", 1.0, || 0.0)), "signal.name");
    assert_eq!(field(Server::new().with_memory_limit(0)), "memory_limit");
    assert_eq!(field(Server::new().with_reserved_cpu(0.0)), "reserved_cpu");
    let served = Server::new()
        .with_reserved_cpu(f64::NAN)
        .serve(listener().await, service_fn(|_| async { Ok::<_, Infallible>(http::Response::new(String::new())) }));
    assert!(served.await.unwrap_err().to_string().starts_with("reserved_cpu = NaN is not possible"));
}

#[tokio::test]
async fn a_source_of_the_program_counts_where_it_speaks_and_the_machine_says_the_rest() {
    let usage = || Usage { utilization: Some(0.25), processors: Some(2.0), runnable: Some(3.0), ..Usage::default() };
    let (_, handle) = start(Server::new().with_usage(usage).with_signal("a", 1.0, || 0.5)).await;

    until_read(&handle, "both are read", |read| read.memory.is_some() && read.delay.is_some()).await;

    let read = readings(&handle).await;
    assert_eq!((read.cpu, read.cpu_reserved, read.load_average), (Some(0.25), Some(2.0), Some(1.5)));
    assert_eq!(read.plugged, [("a".to_owned(), Some(0.5))]);
}

#[tokio::test]
async fn processors_that_the_program_names_are_what_the_machine_is_measured_against() {
    let usage = || Usage { processors: Some(0.02), ..Usage::default() };
    let (address, handle) = start(Server::new().with_usage(usage)).await;

    let working = tokio::spawn(async move {
        loop {
            plain::fetch(address, "/20").await;
        }
    });

    until_read(&handle, "more than they are", |read| {
        read.cpu_reserved == Some(0.02) && read.cpu.is_some_and(|cpu| cpu > 3.0)
    })
    .await;
    working.abort();
}

#[tokio::test]
async fn without_the_machine_nothing_is_known_that_nobody_says() {
    let usage = || Usage { utilization: Some(0.25), ..Usage::default() };
    let (_, handle) = start(Server::new().without_machine().with_usage(usage)).await;

    until_read(&handle, "it is read", |read| read.cpu == Some(0.25)).await;

    let read = readings(&handle).await;
    assert_eq!((read.memory, read.delay, read.throttled, read.cpu_reserved), (None, None, None, None));
    assert_eq!(read.left_out, []);
}

#[tokio::test]
async fn far_too_little_reserved_cpu_is_left_out_and_said_so() {
    let (address, handle) = start(Server::new().with_reserved_cpu(0.001)).await;

    let working = tokio::spawn(async move {
        loop {
            plain::fetch(address, "/50").await;
        }
    });

    until_read(&handle, "it is said", |read| why(read, "cpu").is_some_and(|why| why.ends_with("reserve more"))).await;
    working.abort();
}

#[tokio::test]
async fn memory_is_measured_against_what_was_given() {
    let (_, handle) = start(Server::new().with_memory_limit(1 << 40)).await;

    until_read(&handle, "little of it", |read| read.memory.is_some_and(|share| share > 0.0 && share < 0.5)).await;
}

#[tokio::test]
async fn a_limit_that_cannot_be_is_left_out_and_said_so() {
    let (address, handle) = start(Server::new().with_memory_limit(1)).await;

    until_read(&handle, "it is left out", |read| read.left_out.iter().any(|(name, _)| name == "memory")).await;
    assert_eq!(readings(&handle).await.memory, None);
    let answer = plain::http2(address).await.send_request(plain::get("/0")).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_layer_has_readings_too_and_nobody_probes_when_it_is_gone() {
    let (layer, handle) = Server::new().layer().unwrap();
    until_read(&handle, "it is read", |read| read.cpu.is_some() && read.delay.is_some()).await;
    assert_eq!(readings(&handle).await.connections_per_second, None, "they are somebody else's");

    drop((layer, handle));

    until("all have ended", async || tokio::runtime::Handle::current().metrics().num_alive_tasks() == 0).await;
}
