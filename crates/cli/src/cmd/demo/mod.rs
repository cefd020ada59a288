//! `evenkeel demo`: backend processes of unequal speed, a client that drives them, and how even it was.

mod fleet;
mod scene;
mod summary;
mod text;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use evenkeel::admin::Admin;
use evenkeel::client::{ChannelSnapshot, Fixed, Tcp};
use evenkeel::clock::Clock;
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::stats::Spread;
use evenkeel_core::{BackendSnapshot, BackendState, Criticality, Rng};
use tokio::task::JoinSet;

use crate::args::DemoArgs;
use crate::cmd::{runtime, show};
use crate::draw::{Paint, counted, percent};
use crate::failure::Failure;
use crate::load::{Arrivals, Caller, End, Form, Gaps, Load, Pace, ms_text};
use crate::progress::Progress;
use crate::signals::Interrupts;
use fleet::Member;
use scene::Costs;
use summary::Summary;

/// Plays, and prints what was found.
pub(crate) fn run(args: &DemoArgs, out: &mut impl Write) -> Result<(), Failure> {
    runtime()?.block_on(play(args, out))
}

async fn play(args: &DemoArgs, out: &mut impl Write) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let speeds: Vec<f64> = (0..args.backends).map(scene::speed_of).collect();
    let (mut members, channel) = tokio::select! {
        started = start(args, &speeds) => started?,
        // What was started ends when it is dropped.
        () = interrupts.next() => return Err(Failure::Interrupted),
    };
    // Ends with this function.
    let mut helping = JoinSet::new();
    let restarted = scene::restarted(&speeds);
    let rate = scene::rate(&speeds, restarted);
    let progress = Progress::bar_with_news("demo", u64::from(args.seconds) * 1000);
    let page = if args.headless {
        None
    } else {
        Some(show(Admin::new().with_channel(channel.clone()), ANY_PORT, &mut helping).await?)
    };
    for line in opening(args, &speeds, rate, page) {
        if args.json {
            progress.say(&line);
        } else {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    let run = Run { args, load: Load::new(caller(&channel)), channel: &channel, progress: &progress };
    let ended = run.drive(rate, restarted.map(|number| &mut members[number]), &mut interrupts).await?;
    let (took, tally) = (run.load.elapsed(), run.load.tally());
    progress.finish();
    let snapshot = snapshot(&channel).await?;
    let members = tokio::select! {
        stopped = stop(members, ended) => stopped?,
        () = interrupts.next() => return Err(Failure::Interrupted),
    };
    let summary = Summary::new(took, &members, &tally, &snapshot);
    if args.json {
        serde_json::to_writer(&mut *out, &summary)?;
        writeln!(out)?;
    } else {
        text::write(out, Paint::for_stdout(), &summary)?;
    }
    match ended {
        Ended::ByItself => Ok(()),
        Ended::Interrupted => Err(Failure::Interrupted),
    }
}

/// What is about to be seen.
fn opening(args: &DemoArgs, speeds: &[f64], rate: f64, page: Option<SocketAddr>) -> Vec<String> {
    let (count, seconds, policy, seed) = (counted(args.backends, "backend"), args.seconds, args.policy, args.seed);
    let capacity: f64 = speeds.iter().sum();
    let mut lines = vec![
        format!("{count}, a process each, that together work as fast as {capacity:.1} processors"),
        format!("{rate:.0} requests a second for {seconds} s, dealt by {policy}, seed {seed}"),
    ];
    lines.extend(page.map(|address| format!("live page: http://{address}/")));
    lines
}

fn caller(channel: &Channel) -> Caller {
    Caller {
        clock: Clock::new(),
        channel: channel.clone(),
        form: Form::Grpc,
        criticality: Criticality::Critical,
        customer: None,
        deadline: DEADLINE,
    }
}

/// The backends, and a channel that is connected to all of them.
async fn start(args: &DemoArgs, speeds: &[f64]) -> Result<(Vec<Member>, Channel), Failure> {
    let started = (0..).zip(speeds).map(|(number, &speed)| Member::start(number, speed));
    let mut members = started.collect::<Result<Vec<Member>, Failure>>()?;
    for member in &mut members {
        member.listening().await?;
    }
    let mut config = ChannelConfig::default();
    config.client.policy = args.policy;
    config.client.subset.size = args.backends;
    config.seed = Some(args.seed);
    let backends = Fixed::new(members.iter().map(|member| member.address));
    let failed = |error| Failure::Run(format!("the backends cannot be reached: {error}"));
    let channel = Channel::with(config, Tcp, SERVICE, backends).map_err(failed)?.usable().await.map_err(failed)?;
    let all_healthy = async {
        let is_healthy = |backend: &&BackendSnapshot| backend.state == BackendState::Healthy;
        loop {
            let known = snapshot(&channel).await?;
            if known.client.backends.iter().filter(is_healthy).count() == speeds.len() {
                return Ok::<(), Failure>(());
            }
            tokio::time::sleep(LOOK_EVERY / 10).await;
        }
    };
    let late = |_| Failure::Run("not all backends could be connected to within 20 s".to_owned());
    tokio::time::timeout(CONNECTED_MOST, all_healthy).await.map_err(late)??;
    Ok((members, channel))
}

/// Why a run is over.
#[derive(Clone, Copy, Debug)]
enum Ended {
    ByItself,
    Interrupted,
}

/// The demo while it runs.
struct Run<'a> {
    args: &'a DemoArgs,
    load: Load,
    channel: &'a Channel,
    progress: &'a Progress,
}

impl Run<'_> {
    /// Drives until the time is over and the restart done.
    async fn drive(
        &self,
        rate: f64,
        restarted: Option<&mut Member>,
        interrupts: &mut Interrupts,
    ) -> Result<Ended, Failure> {
        let Run { args, load, channel, progress } = self;
        let mut costs = Costs(Rng::for_stream(args.seed, COSTS));
        let arrivals = Arrivals { rate, gaps: Gaps::Drawn(Rng::for_stream(args.seed, ARRIVALS)) };
        let pace = Pace::Open { arrivals, in_flight_most: u32::MAX };
        let end = End::After(Duration::from_secs(args.seconds.into()));
        let all_done = async {
            let running = load.run(pace, end, Box::new(move || costs.next()));
            tokio::join!(running, self.restart(restarted)).1
        };
        let mut all_done = std::pin::pin!(all_done);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                done = all_done.as_mut() => return done.map(|()| Ended::ByItself),
                () = interrupts.next() => return Ok(Ended::Interrupted),
                _ = looks.tick() => {
                    let snapshot = snapshot(channel).await?;
                    progress.show(load.elapsed().as_millis() as u64, news(load, &snapshot));
                }
            }
        }
    }

    /// A third of the way, one of them.
    async fn restart(&self, member: Option<&mut Member>) -> Result<(), Failure> {
        let Some(member) = member else { return Ok(()) };
        tokio::time::sleep(Duration::from_secs(self.args.seconds.into()) / 3).await;
        self.progress.say(&format!("{} gets SIGTERM: it drains, ends, and is started again", member.address));
        member.restart(Clock::new()).await?;
        self.progress.say(&format!("{} is back after {:.1} s", member.address, member.away.as_secs_f64()));
        Ok(())
    }
}

/// The state of things in a line.
fn news(load: &Load, snapshot: &ChannelSnapshot) -> String {
    let tally = load.tally();
    let reports = snapshot.client.backends.iter().filter_map(|backend| backend.report?.1.utilization);
    let spread = Spread::of(reports).map_or_else(String::new, |spread| {
        let [least, mean, most] = [spread.least, spread.mean, spread.most].map(percent);
        format!("load {least}/{mean}/{most}, ")
    });
    let (answered, p99) = (tally.answered(), ms_text(tally.latency.ms(0.99)));
    format!("{spread}{answered} answered, {} failed, p99 {p99} ms", tally.failed())
}

/// All of them at once, so that this takes as long as one.
async fn stop(members: Vec<Member>, ended: Ended) -> Result<Vec<Member>, Failure> {
    let most = match ended {
        Ended::ByItself => STOP_MOST,
        Ended::Interrupted => INTERRUPTED_STOP_MOST,
    };
    let mut stopping = JoinSet::new();
    for (number, mut member) in members.into_iter().enumerate() {
        stopping.spawn(async move { member.stop(most).await.map(|()| (number, member)) });
    }
    let mut stopped = Vec::new();
    while let Some(member) = stopping.join_next().await {
        stopped.push(member.map_err(|error| Failure::Run(error.to_string()))??);
    }
    stopped.sort_by_key(|(number, _)| *number);
    Ok(stopped.into_iter().map(|(_, member)| member).collect())
}

async fn snapshot(channel: &Channel) -> Result<ChannelSnapshot, Failure> {
    channel.snapshot().await.ok_or_else(|| Failure::Run("the channel has ended".to_owned()))
}

/// What the service is called on the wire and in figures.
const SERVICE: &str = "demo";
/// The page is for whoever sits here.
const ANY_PORT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
/// Generous: what fails is to fail for another reason.
const DEADLINE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const CONNECTED_MOST: Duration = Duration::from_secs(20);
/// Longer than a drain may take.
const STOP_MOST: Duration = Duration::from_secs(40);
/// Whoever pressed Ctrl-C does not want to wait.
const INTERRUPTED_STOP_MOST: Duration = Duration::from_secs(5);
const ARRIVALS: u64 = 1;
const COSTS: u64 = 2;
