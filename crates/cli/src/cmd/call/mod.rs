//! `evenkeel call`: requests through the channel, and what became of them.

mod figures;
mod text;
mod watch;

use std::io::Write;
use std::time::Duration;

use evenkeel::admin::Admin;
use evenkeel::client::{ConnectError, Fixed, Protocol, Tcp};
use evenkeel::clock::Clock;
use evenkeel::{Channel, ChannelConfig};
use tokio::task::JoinSet;

use crate::args::CallArgs;
use crate::cmd::{runtime, show, unlike};
use crate::draw::Paint;
use crate::failure::Failure;
use crate::load::{Arrivals, Caller, End, Form, Gaps, Load, Pace, ms_text};
use crate::progress::{Progress, announce};
use crate::signals::Interrupts;
use crate::work::WorkRequest;
use figures::Figures;
use watch::Watch;

/// Calls, and prints what was seen.
pub(crate) fn run(args: &CallArgs, out: &mut impl Write) -> Result<(), Failure> {
    runtime()?.block_on(call(args, out))
}

async fn call(args: &CallArgs, out: &mut impl Write) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let channel = tokio::select! {
        channel = connect(args) => channel?,
        () = interrupts.next() => return Err(Failure::Interrupted),
    };
    // Ends with this function.
    let mut helping = JoinSet::new();
    if let Some(address) = args.admin {
        let address = show(Admin::new().with_channel(channel.clone()), address, &mut helping).await?;
        announce(&format!("metrics, state and page on http://{address}/"));
    }
    let load = Load::new(Caller {
        clock: Clock::new(),
        channel: channel.clone(),
        form: if args.http { Form::Http } else { Form::Grpc },
        criticality: args.criticality,
        customer: args.customer.as_deref().map(Into::into),
        deadline: Duration::from_secs_f64(args.deadline),
    });
    let mut watch = args.watch.then(|| Watch::new(channel.clone()));
    let ended = drive(args, &load, &mut watch, &mut interrupts).await;
    let snapshot = channel.snapshot().await.ok_or_else(|| Failure::Run("the channel has ended".to_owned()))?;
    let figures = Figures::new(&load, &snapshot);
    if args.json {
        serde_json::to_writer(&mut *out, &figures)?;
        writeln!(out)?;
    } else {
        text::write(out, Paint::for_stdout(), &figures)?;
    }
    match ended {
        Ended::Interrupted => Err(Failure::Interrupted),
        Ended::ByItself if figures.answered() == 0 => {
            Err(Failure::Run("no request was answered: the outcomes say why".to_owned()))
        }
        Ended::ByItself => Ok(()),
    }
}

async fn connect(args: &CallArgs) -> Result<Channel, Failure> {
    let mut config = ChannelConfig::default();
    config.client.policy = args.policy;
    config.client.retry.attempts = args.attempts;
    config.client.throttle.local = args.throttle;
    config.client.flow.active_max = args.active_max;
    config.client.subset.size = args.subset;
    config.client.idle.after = Some(Duration::from_secs_f64(args.idle_after));
    config.client.checks.every = Duration::from_secs_f64(args.check_every);
    // An answer that is not there by the next question is none.
    config.client.checks.timeout = config.client.checks.timeout.min(config.client.checks.every);
    config.datagrams = !args.no_datagrams;
    config.protocol = if args.http { Protocol::Http1 } else { Protocol::Http2 };
    config.seed = args.seed;
    let impossible = |error: ConnectError| Failure::Usage(error.to_string());
    let backends = unlike(&args.backends)?;
    let channel = Channel::with(config, Tcp, SERVICE, Fixed::new(backends)).map_err(impossible)?;
    if let Ok(usable) = tokio::time::timeout(CONNECT_MOST, channel.clone().usable()).await {
        return usable.map_err(impossible);
    }
    let known = channel.snapshot().await.ok_or_else(|| Failure::Run("the channel has ended".to_owned()))?;
    let each = known.names.iter().zip(known.last_lost).zip(&known.client.backends);
    let why = each.map(|((name, lost), backend)| {
        format!("{name}: {}", lost.unwrap_or_else(|| backend.state.as_str().to_owned()))
    });
    let why: Vec<String> = why.collect();
    let (why, seconds) = (why.join("; "), CONNECT_MOST.as_secs());
    Err(Failure::Run(format!("no backend could be used within {seconds} s: {why}; start one with: evenkeel backend")))
}

/// Why a load is over.
#[derive(Clone, Copy, Debug)]
enum Ended {
    ByItself,
    Interrupted,
}

async fn drive(args: &CallArgs, load: &Load, watch: &mut Option<Watch>, interrupts: &mut Interrupts) -> Ended {
    let end = args.seconds.map_or(End::Requests(args.requests), |s| End::After(Duration::from_secs_f64(s)));
    let pace = match args.rate {
        Some(rate) => Pace::Open { arrivals: Arrivals { rate, gaps: Gaps::Even }, in_flight_most: args.in_flight },
        None => Pace::Closed { callers: args.concurrency },
    };
    let work =
        WorkRequest { cpu_us: args.cpu_us, sleep_us: args.sleep_us, bytes: args.bytes, fail_ratio: args.fail_ratio };
    let steps = match end {
        End::Requests(most) => most,
        End::After(most) => most.as_millis() as u64,
    };
    let progress = Progress::bar_with_news("calling", steps);
    let mut running = std::pin::pin!(load.run(pace, end, Box::new(move || work)));
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let ended = loop {
        tokio::select! {
            () = running.as_mut() => break Ended::ByItself,
            () = interrupts.next() => break Ended::Interrupted,
            _ = looks.tick() => {
                if let Some(watch) = watch {
                    watch.look(&progress).await;
                }
                let tally = load.tally();
                let done = match end {
                    End::Requests(_) => tally.asked,
                    End::After(_) => load.elapsed().as_millis() as u64,
                };
                let (answered, p99) = (tally.answered(), ms_text(tally.latency.ms(0.99)));
                let others = tally.failed() + tally.refused() + tally.not_sent;
                progress.show(done, format!("{answered} answered, {others} not, p99 {p99} ms"));
            }
        }
    };
    progress.finish();
    ended
}

/// What the service is called on the wire and in figures.
const SERVICE: &str = "demo";
/// Long enough for a backend that is being started, short enough to wait for after a slip of the finger.
const CONNECT_MOST: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(200);
