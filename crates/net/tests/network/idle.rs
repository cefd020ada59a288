//! Inactive backends on a simulated network: datagrams lost, late, out of order, twice or not at all; partitions,
//! addresses that move, restarts with and without the old secret. Time and chance come from the seed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::world::weather::Rough;
use crate::world::{
    BACKOFF_MOST, CONNECT_TIMEOUT, RESTART, ROUND_TRIP, World, call, channel_over, config, name, network, seen, state,
    until,
};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::{BackendState, CheckedBy, LinkState, Outcome};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Lets go after 300 ms, asks every second, and gives an answer a fifth of that.
fn idle_config(seed: u64) -> ChannelConfig {
    let mut config = config(seed);
    config.client.idle.after = Some(Duration::from_millis(300));
    config.client.checks.every = EVERY;
    config.client.checks.timeout = TIMEOUT;
    config.client.checks.visit_every = VISIT_EVERY;
    config
}

/// A channel that is connected to nobody and remembered by all.
async fn inactive_channel(world: &World, seed: u64, backends: usize) -> Channel {
    let channel = channel_over(world.wire(), idle_config(seed), backends).await;
    until_all(&channel, backends, CheckedBy::Datagrams).await;
    channel
}

async fn until_all(channel: &Channel, backends: usize, checked_by: CheckedBy) {
    for backend in 0..backends {
        let is_so = async || {
            let seen = seen(channel, backend).await;
            seen.link == LinkState::Inactive && seen.checked_by == checked_by
        };
        until(Duration::from_secs(5), "it is inactive", is_so).await;
    }
}

/// Nobody is ever refusing for so long; what is done in between is the caller's.
async fn never_refusing(channel: &Channel, backends: usize, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        for backend in 0..backends {
            assert_ne!(
                state(channel, backend).await,
                BackendState::Refusing,
                "{} at {:?}",
                name(backend),
                began.elapsed()
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn an_idle_channel_has_no_connection_and_the_next_call_waits_for_one_at_most() {
    let (world, mut sim) = (World::with_datagrams(1), network(1));
    world.add_backends(&mut sim, 3);
    sim.client("client", async move {
        let mut channel = inactive_channel(&world, 1, 3).await;
        until(ROUND_TRIP * 4, "connections are closed", async || turmoil::established_tcp_stream_count() == 0).await;

        let began = Instant::now();
        call(&mut channel, 1, DEADLINE).await?;
        // A handshake of TCP, one of HTTP/2 with the watch, then the call.
        assert!(began.elapsed() <= ROUND_TRIP * 4, "{:?}", began.elapsed());
        for _ in 0..20 {
            let began = Instant::now();
            call(&mut channel, 1, DEADLINE).await?;
            assert!(began.elapsed() <= ROUND_TRIP + TICK, "nobody waits while one is connected: {:?}", began.elapsed());
        }
        let snapshot = channel.snapshot().await.unwrap();
        assert!(
            snapshot.client.backends.iter().all(|one| one.ended(Outcome::Served) > 0),
            "all of them are used again"
        );
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn every_inactive_client_hears_of_a_lame_duck_within_two_round_trips_and_of_its_return() {
    const CLIENTS: u64 = 10;
    let (world, mut sim) = (World::with_datagrams(2), network(2));
    world.add_backends(&mut sim, 1);
    for client in 0..CLIENTS {
        let world = world.clone();
        sim.client(format!("client-{client}"), async move {
            let channel = inactive_channel(&world, client, 1).await;
            world.note("inactive");
            let lame = async || state(&channel, 0).await == BackendState::LameDuck;
            until(Duration::from_secs(10), "it hears of it", lame).await;
            world.note("lame");
            assert!(call(&mut channel.clone(), 1, DEADLINE).await.is_err(), "a lame duck is not asked");
            assert_eq!(begun(&channel).await, 0);
            until(Duration::from_secs(10), "it hears of it", async || !lame().await).await;
            world.note("ready");
            call(&mut channel.clone(), 1, DEADLINE).await?;
            Ok(())
        });
    }
    let announcer = world.clone();
    sim.client("announcer", async move {
        let noted = |what: &str| announcer.trace().iter().filter(|(_, noted)| noted == what).count();
        for (before, after) in [("inactive", "lame"), ("lame", "ready")] {
            until(Duration::from_secs(10), before, async || noted(before) == CLIENTS as usize).await;
            let handle = announcer.handle(0);
            if after == "lame" {
                handle.lame_duck();
            } else {
                handle.ready();
            }
            let took = until(Duration::from_secs(10), after, async || noted(after) == CLIENTS as usize).await;
            assert!(took <= ROUND_TRIP * 2, "{after} after {took:?}");
            let all_told = async || announcer.handle(0).snapshot().await.unwrap().unreached == Some(0);
            until(ROUND_TRIP * 2, "all have acknowledged", all_told).await;
        }
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn ready_after_warming_is_pushed_too() {
    let (world, mut sim) = (World::with_datagrams(3), network(3));
    world.add_backends(&mut sim, 1);
    sim.client("client", async move {
        let channel = inactive_channel(&world, 3, 1).await;
        // From the next process on.
        world.set_warming();
        world.handle(0).stop();
        until(Duration::from_secs(5), "it is lame", async || state(&channel, 0).await == BackendState::LameDuck).await;
        let stopped = async || world.trace().iter().any(|(_, what)| what.ends_with("stopped"));
        until(Duration::from_secs(5), "it has stopped", stopped).await;
        tokio::time::sleep(RESTART * 2).await;
        // The next process answers the next check, still warming; from then on it knows whom to push to.
        let asked = async || world.handle(0).datagrams().await.is_some_and(|datagrams| datagrams.peers.known == 1);
        until(EVERY * 3, "the new process has been asked", asked).await;
        world.handle(0).ready();
        let took = until(EVERY, "it is ready", async || state(&channel, 0).await == BackendState::Healthy).await;
        assert!(took <= ROUND_TRIP * 2, "{took:?}");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn datagrams_in_any_weather_make_nobody_refusing_and_lose_no_call() {
    let weathers = [
        Rough { lost: 0.5, ..Rough::default() },
        Rough { twice: 1.0, late: 0.5, late_most: Duration::from_millis(300), ..Rough::default() },
        Rough { lost: 0.3, twice: 0.5, late: 0.9, late_most: Duration::from_secs(2) },
        Rough { lost: 1.0, ..Rough::default() },
    ];
    for (seed, rough) in (10..).zip(weathers) {
        let (world, mut sim) = (World::with_datagrams(seed), network(seed));
        world.add_backends(&mut sim, 3);
        sim.client("client", async move {
            let channel = inactive_channel(&world, seed, 3).await;
            world.weather().set(rough);
            for _ in 0..10 {
                never_refusing(&channel, 3, Duration::from_secs(2)).await;
                call(&mut channel.clone(), 1, DEADLINE).await?;
            }
            assert_eq!(channel.snapshot().await.unwrap().client.refused.total(), 0);
            Ok(())
        });
        sim.run().unwrap();
    }
}

#[test]
fn in_any_weather_nothing_is_sent_to_a_lame_duck_after_its_notice() {
    for seed in 70..76 {
        let (world, mut sim) = (World::with_datagrams(seed), network(seed));
        world.add_backends(&mut sim, 2);
        sim.client("client", async move {
            let channel = inactive_channel(&world, seed, 2).await;
            let rough = Rough { lost: 0.4, twice: 0.5, late: 0.6, late_most: Duration::from_millis(800) };
            world.weather().set(rough);
            for _ in 0..3 {
                world.handle(0).lame_duck();
                until(EVERY * 10, "it hears", async || state(&channel, 0).await == BackendState::LameDuck).await;
                let before = begun_on(&channel, 0).await;
                for _ in 0..20 {
                    assert_eq!(call(&mut channel.clone(), 1, DEADLINE).await?, name(1));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    // What was said before may still arrive.
                    assert_eq!(state(&channel, 0).await, BackendState::LameDuck, "nothing undoes it");
                }
                assert_eq!(begun_on(&channel, 0).await, before);
                world.handle(0).ready();
                until(EVERY * 10, "it is back", async || state(&channel, 0).await == BackendState::Healthy).await;
            }
            Ok(())
        });
        sim.run().unwrap();
    }
}

#[test]
fn where_datagrams_do_not_get_through_rare_connections_check_until_they_do() {
    let (world, mut sim) = (World::with_datagrams(20), network(20));
    world.add_backends(&mut sim, 2);
    sim.client("client", async move {
        let channel = inactive_channel(&world, 20, 2).await;
        world.weather().set(Rough { lost: 1.0, ..Rough::default() });
        until_all(&channel, 2, CheckedBy::Visits).await;
        let (before, began) = (channel.snapshot().await.unwrap().client.checks, Instant::now());
        never_refusing(&channel, 2, VISIT_EVERY * 4).await;
        let after = channel.snapshot().await.unwrap().client.checks;
        let periods = began.elapsed().as_secs_f64() / VISIT_EVERY.as_secs_f64();
        assert!((after.visits - before.visits) as f64 <= 2.0 * (periods * 1.25 + 1.0), "{before:?} {after:?}");
        assert!(after.visits >= before.visits + 2 * 2);

        world.weather().set(Rough::default());
        until_all(&channel, 2, CheckedBy::Datagrams).await;
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn one_that_cannot_be_reached_at_all_is_refusing_and_back_within_one_back_off() {
    let (world, mut sim) = (World::with_datagrams(30), network(30));
    world.add_backends(&mut sim, 2);
    sim.client("client", async move {
        let channel = inactive_channel(&world, 30, 2).await;
        turmoil::partition("client", name(0));
        let refusing = async || state(&channel, 0).await == BackendState::Refusing;
        let took = until(Duration::from_secs(10), "it is refusing", refusing).await;
        assert!(took <= EVERY.mul_f64(1.2) + TIMEOUT * 3 + CONNECT_TIMEOUT + ROUND_TRIP, "{took:?}");
        for _ in 0..20 {
            assert_eq!(call(&mut channel.clone(), 1, DEADLINE).await?, name(1));
        }

        turmoil::repair("client", name(0));
        let took = until(Duration::from_secs(10), "it is back", async || !refusing().await).await;
        assert!(took <= BACKOFF_MOST.mul_f64(1.2) + CONNECT_TIMEOUT + ROUND_TRIP * 3, "{took:?}");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_partitioned_client_hears_of_the_lame_duck_at_its_first_exchange_after_healing() {
    let (world, mut sim) = (World::with_datagrams(40), network(40));
    world.add_backends(&mut sim, 1);
    sim.client("client", async move {
        let channel = inactive_channel(&world, 40, 1).await;
        turmoil::partition("client", name(0));
        world.handle(0).lame_duck();
        let given_up =
            async || world.handle(0).datagrams().await.is_some_and(|datagrams| datagrams.peers.given_up == 1);
        until(Duration::from_secs(2), "the push is given up", given_up).await;
        assert_ne!(state(&channel, 0).await, BackendState::LameDuck);

        let answered = async || channel.snapshot().await.unwrap().client.checks.answered;
        let before = answered().await;
        turmoil::repair("client", name(0));
        until(EVERY * 3, "it hears", async || state(&channel, 0).await == BackendState::LameDuck).await;
        assert!(answered().await <= before + 1, "at the first exchange, be it a datagram or a connection");
        assert!(call(&mut channel.clone(), 1, DEADLINE).await.is_err(), "a lame duck is not asked");
        assert_eq!(begun(&channel).await, 0);
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn pushes_follow_a_client_whose_address_moves() {
    let (world, mut sim) = (World::with_datagrams(50), network(50));
    world.add_backends(&mut sim, 1);
    sim.client("client", async move {
        let wire = world.wire();
        let channel = channel_over(wire.clone(), idle_config(50), 1).await;
        until_all(&channel, 1, CheckedBy::Datagrams).await;
        wire.move_away().await;
        let answered = async || channel.snapshot().await.unwrap().client.checks.answered;
        let before = answered().await;
        until(EVERY * 2, "a check from the new address", async || answered().await > before).await;

        world.handle(0).lame_duck();
        let lame = async || state(&channel, 0).await == BackendState::LameDuck;
        let took = until(Duration::from_secs(2), "it hears", lame).await;
        assert!(took <= ROUND_TRIP * 2, "{took:?}");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_restart_with_the_old_secret_needs_no_connection_and_one_without_a_single_one() {
    for keeps_secret in [true, false] {
        let (mut world, mut sim) = (World::with_datagrams(60), network(60));
        world.keeps_secret = keeps_secret;
        world.add_backends(&mut sim, 1);
        sim.client("client", async move {
            let channel = inactive_channel(&world, 60, 1).await;
            let visits = async || channel.snapshot().await.unwrap().client.checks.visits;
            let resets = async || channel.snapshot().await.unwrap().client.checks.resets;
            world.handle(0).stop();
            until(Duration::from_secs(5), "it is lame", async || state(&channel, 0).await == BackendState::LameDuck)
                .await;
            let back = async || state(&channel, 0).await == BackendState::Healthy;
            until(EVERY * 4, "it is back", back).await;
            until_all(&channel, 1, CheckedBy::Datagrams).await;
            assert_eq!((visits().await, resets().await), if keeps_secret { (0, 0) } else { (1, 1) });
            call(&mut channel.clone(), 1, DEADLINE).await?;
            Ok(())
        });
        sim.run().unwrap();
    }
}

#[test]
fn a_rolling_restart_with_half_of_the_clients_inactive_fails_no_request() {
    let seeds = if std::env::var_os("EVENKEEL_LONG").is_some() { 40 } else { 4 };
    for seed in 0..seeds {
        let rough = Rough { lost: 0.2, twice: 0.2, late: 0.3, late_most: Duration::from_millis(100) };
        let mut world = World::with_datagrams(seed);
        world.keeps_secret = seed % 2 == 0;
        let mut sim = network(seed);
        world.add_backends(&mut sim, 3);
        for client in 0..6 {
            let world = world.clone();
            sim.client(format!("client-{client}"), async move {
                let channel = channel_over(world.wire(), idle_config(client), 3).await;
                let is_busy = client % 2 == 0;
                while turmoil::sim_elapsed().unwrap() < Duration::from_secs(12) {
                    match call(&mut channel.clone(), 20, Duration::from_secs(10)).await {
                        Ok(by) => world.note(format!("{client}: {by}")),
                        Err(error) => world.note(format!("{client} failed: {error}")),
                    }
                    if !is_busy {
                        tokio::time::sleep(Duration::from_millis(700)).await;
                        let backends = channel.snapshot().await.unwrap().client.backends;
                        if backends.iter().any(|one| one.link == LinkState::Inactive) {
                            world.note("inactive");
                        }
                    }
                }
                Ok(())
            });
        }
        let roller = world.clone();
        sim.client("roller", async move {
            roller.weather().set(rough);
            tokio::time::sleep(Duration::from_secs(2)).await;
            let rolling: JoinSet<()> = (0..3)
                .map(|backend| {
                    let roller = roller.clone();
                    async move {
                        tokio::time::sleep(Duration::from_secs(3) * backend as u32).await;
                        roller.handle(backend).stop();
                    }
                })
                .collect();
            rolling.join_all().await;
            Ok(())
        });
        sim.run().unwrap();

        let trace = world.trace();
        let failed: Vec<_> = trace.iter().filter(|(_, what)| what.contains("failed")).collect();
        assert!(failed.is_empty(), "seed {seed}: {failed:?}");
        assert_eq!(trace.iter().filter(|(_, what)| what.ends_with("stopped")).count(), 3, "seed {seed}");
        let inactive = trace.iter().filter(|(_, what)| what == "inactive").count();
        assert!(inactive >= 20, "seed {seed}: the quiet ones were inactive {inactive} times only");
        for client in 0..6 {
            let calls = trace.iter().filter(|(_, what)| what.starts_with(&format!("{client}: "))).count();
            assert!(calls >= 10, "seed {seed}: only {calls} calls of client {client}");
        }
    }
}

/// Requests that were sent to this one.
async fn begun_on(channel: &Channel, backend: usize) -> u64 {
    let one = seen(channel, backend).await;
    u64::from(one.active) + one.ended.iter().sum::<u64>()
}

/// Requests that were sent to anybody.
async fn begun(channel: &Channel) -> u64 {
    let backends = channel.snapshot().await.unwrap().client.backends;
    backends.iter().map(|one| u64::from(one.active) + one.ended.iter().sum::<u64>()).sum()
}

const EVERY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(200);
const VISIT_EVERY: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_millis(500);
/// The step of simulated time.
const TICK: Duration = Duration::from_millis(1);
