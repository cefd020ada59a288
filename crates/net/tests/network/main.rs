//! A channel and servers on a simulated network: partitions, crashes, stalls, restarts; each replayed from its seed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod idle;
mod world;

use std::time::Duration;

use evenkeel::CallError;
use evenkeel_core::BackendState;
use tokio::task::JoinSet;
use tokio::time::Instant;
use world::{
    BACKOFF_MOST, CONNECT_TIMEOUT, PING_EVERY, PING_TIMEOUT, ROUND_TRIP, World, call, channel, config, name, network,
    rolling_restart, state, until,
};

/// The longest wait is a fifth longer by jitter.
fn back_again() -> Duration {
    BACKOFF_MOST.mul_f64(1.2) + CONNECT_TIMEOUT + ROUND_TRIP * 3
}

#[test]
fn a_partitioned_backend_costs_no_more_than_deadlines_and_is_used_again_after_repair() {
    let (world, mut sim) = (World::default(), network(1));
    world.add_backends(&mut sim, 3);
    sim.client("client", async {
        let mut channel = channel(config(1), 3).await;

        turmoil::partition("client", name(0));
        let mut expired = 0;
        for _ in 0..300 {
            let began = Instant::now();
            match call(&mut channel, 5, DEADLINE).await {
                Ok(by) => assert_ne!(by, name(0)),
                Err(CallError::Expired | CallError::Broken(_)) => expired += 1,
                Err(other) => panic!("{other}"),
            }
            assert!(began.elapsed() <= DEADLINE + TICK);
        }
        // One caller: it is stuck on the partitioned backend at most until the pings have found out.
        assert!(expired <= 1, "{expired}");
        assert_eq!(state(&channel, 0).await, BackendState::Refusing);
        let lost = channel.snapshot().await.unwrap().last_lost;
        assert!(lost.iter().flatten().count() == 1, "{lost:?}");

        turmoil::repair("client", name(0));
        let healthy = async || state(&channel, 0).await == BackendState::Healthy;
        until(back_again(), "it is healthy again", healthy).await;
        until(Duration::from_secs(1), "it serves", async || {
            call(&mut channel.clone(), 5, DEADLINE).await.unwrap() == name(0)
        })
        .await;
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_backend_that_crashes_fails_only_what_it_had_and_is_used_when_it_is_back() {
    let (world, mut sim) = (World::default(), network(2));
    world.add_backends(&mut sim, 3);
    let seen = world.clone();
    sim.client("client", async move {
        let channel = channel(config(2), 3).await;
        let callers: JoinSet<()> = (0..9)
            .map(|_| {
                let (mut channel, seen) = (channel.clone(), seen.clone());
                async move {
                    while turmoil::sim_elapsed().unwrap() < Duration::from_secs(6) {
                        match call(&mut channel, 20, DEADLINE).await {
                            Ok(by) => seen.note(by),
                            Err(error) => seen.note(format!("failed: {error}")),
                        }
                    }
                }
            })
            .collect();
        callers.join_all().await;
        assert_eq!(state(&channel, 0).await, BackendState::Healthy);
        Ok(())
    });

    let mut is_up = true;
    while !sim.step().unwrap() {
        if is_up && sim.elapsed() > CRASH {
            sim.crash(name(0));
            is_up = false;
        }
        if !is_up && sim.elapsed() > BOUNCE && !sim.is_host_running(name(0)) {
            sim.bounce(name(0));
        }
    }

    let trace = world.trace();
    let failed: Vec<_> = trace.iter().filter(|(_, what)| what.starts_with("failed")).collect();
    let noticed = (CRASH + PING_EVERY + PING_TIMEOUT + ROUND_TRIP).as_millis();
    assert!(failed.len() <= 9, "one for each caller at most: {failed:?}");
    assert!(failed.iter().all(|(at, _)| (CRASH.as_millis()..noticed).contains(at)), "{failed:?}");
    let back = (BOUNCE + back_again()).as_millis();
    let served_by_it =
        |from: u128, to: u128| trace.iter().filter(|(at, what)| (from..to).contains(at) && *what == name(0)).count();
    assert_eq!(served_by_it(noticed, BOUNCE.as_millis()), 0);
    assert!(served_by_it(back, u128::MAX) > 100);
}

#[test]
fn a_link_that_holds_its_packets_is_noticed_by_pings() {
    let (world, mut sim) = (World::default(), network(3));
    world.add_backends(&mut sim, 2);
    sim.client("client", async {
        let channel = channel(config(3), 2).await;

        turmoil::hold("client", name(0));
        let refusing = async || state(&channel, 0).await == BackendState::Refusing;
        let took = until(Duration::from_secs(2), "it is noticed", refusing).await;
        assert!(took <= PING_EVERY + PING_TIMEOUT + ROUND_TRIP, "{took:?}");
        assert_eq!(call(&mut channel.clone(), 5, DEADLINE).await.unwrap(), name(1));

        turmoil::release("client", name(0));
        let healthy = async || state(&channel, 0).await == BackendState::Healthy;
        until(back_again(), "it is healthy again", healthy).await;
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn many_clients_far_away_are_all_served_by_everybody() {
    const CLIENTS: u64 = 12;
    const CALLS: usize = 60;
    let (world, mut sim) = (World::default(), network(4));
    sim.set_max_message_latency(Duration::from_millis(40));
    world.add_backends(&mut sim, 4);
    for client in 0..CLIENTS {
        let seen = world.clone();
        sim.client(format!("client-{client}"), async move {
            let mut channel = channel(config(client), 4).await;
            for _ in 0..CALLS {
                seen.note(call(&mut channel, 5, Duration::from_secs(10)).await?);
            }
            Ok(())
        });
    }
    sim.run().unwrap();

    let trace = world.trace();
    let fair = CLIENTS as usize * CALLS / 4;
    for backend in 0..4 {
        let served = trace.iter().filter(|(_, what)| *what == name(backend)).count();
        // Each client takes its backends in turn while nothing else is under way: at most one call apart.
        assert!(served.abs_diff(fair) <= CLIENTS as usize, "{served} of {fair} by {}", name(backend));
    }
}

#[test]
fn a_rolling_restart_loses_no_request_whatever_the_network_does() {
    for seed in 0..20 {
        let trace = rolling_restart(seed);

        let failed: Vec<_> = trace.iter().filter(|(_, what)| what.contains("failed")).collect();
        assert!(failed.is_empty(), "seed {seed}: {failed:?}");
        assert_eq!(trace.iter().filter(|(_, what)| what.ends_with("stopped")).count(), 3, "seed {seed}");
        assert!(trace.len() > 100, "seed {seed}: only {} calls", trace.len());
    }
}

const DEADLINE: Duration = Duration::from_millis(500);
/// The step of simulated time.
const TICK: Duration = Duration::from_millis(1);
const CRASH: Duration = Duration::from_secs(1);
const BOUNCE: Duration = Duration::from_secs(3);
