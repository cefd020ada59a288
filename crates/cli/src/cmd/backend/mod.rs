//! `evenkeel backend`: a real service to try things on.

mod processors;
mod sharing;
mod worker;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::RawQuery;
use evenkeel::admin::Admin;
use evenkeel::client::{Fixed, Tcp};
use evenkeel::clock::Clock;
use evenkeel::server::{Handle, Secret, Trusted};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::server::Modes;
use evenkeel_core::{Mode, Rng, ServerConfig};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tonic::service::Routes;

use crate::args::BackendArgs;
use crate::cmd::{bind, runtime_for_work, show, unlike};
use crate::draw::error_text;
use crate::failure::Failure;
use crate::signals::{Interrupts, Terminations};
use crate::work::{DESCRIPTORS, DemoServer};
use processors::{Processors, Virtual};
use worker::{Worker, answer_http, answer_unknown};

/// What a backend says on stdout with `--json`, a line each.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It can be connected to.
    Listening { listen: String, admin: Option<String> },
    /// It has answered everything and ends.
    Stopped { requests: u64, busy_core_s: f64 },
}

/// Serves until it is told to stop.
pub(crate) fn run(args: &BackendArgs, out: &mut impl Write) -> Result<(), Failure> {
    if args.exit_with_stdin {
        std::thread::spawn(exit_with_stdin);
    }
    let logging = tracing_subscriber::fmt().with_max_level(args.log).with_writer(std::io::stderr).with_ansi(false);
    logging.with_target(false).init();
    runtime_for_work()?.block_on(serve(args, out))
}

async fn serve(args: &BackendArgs, out: &mut impl Write) -> Result<(), Failure> {
    let (config, next) = (config(args)?, next(args)?);
    let listener = bind("--listen", args.listen).await?;
    let name = listener.local_addr()?.to_string();
    // Ends with this function.
    let mut helping = JoinSet::new();
    let processors = match args.virtual_cores {
        None => Processors::Real { speed: args.speed },
        Some(count) => {
            let cores = Arc::new(Virtual::new(Clock::new(), count, args.speed));
            helping.spawn(Arc::clone(&cores).run());
            Processors::Virtual(cores)
        }
    };
    let worker = Arc::new(Worker {
        name: name.clone(),
        processors: processors.clone(),
        error_rate: args.error_rate,
        can_degrade: args.can_degrade,
        chance: Mutex::new(Rng::from_seed(args.seed)),
        answered: AtomicU64::new(0),
        next: next.clone(),
    });
    let server = evenkeel::Server::new()
        .with_config(config)
        .with_cpu_factor(args.cpu_factor)
        .trust_customers_of(args.trust_customers.clone())
        .with_health_service(SERVICE)
        .without_signals()
        .prewarm(tokio::time::sleep(Duration::from_secs_f64(args.start_up)));
    let server = match &processors {
        // The library reads those by itself.
        Processors::Real { .. } => server,
        Processors::Virtual(cores) => server.with_usage(Arc::clone(cores).meter(Clock::new(), args.reserved_cpu)),
    };
    let server = args.reserved_cpu.into_iter().fold(server, evenkeel::Server::with_reserved_cpu);
    let server = args.memory_limit.into_iter().fold(server, evenkeel::Server::with_memory_limit);
    let server = match (&args.datagram_secret_file, args.no_datagrams) {
        (Some(file), _) => server.with_datagram_secret(secret(file)?),
        (None, true) => server.without_datagrams(),
        (None, false) => server,
    };
    // Before anybody is told that it listens: from then on it may be told to stop.
    helping.spawn(stop_on_terminate(Terminations::listen()?, server.handle()));
    helping.spawn(stop_on_interrupt(Interrupts::listen()?, server.handle()));
    let admin = match args.admin {
        None => None,
        Some(address) => {
            let shown = Admin::new().with_server(server.handle()).with_switches();
            let shown = next.into_iter().fold(shown, Admin::with_channel);
            Some(show(shown, address, &mut helping).await?)
        }
    };
    say(args, out, &Event::Listening { listen: name, admin: admin.map(|address| address.to_string()) })?;

    server.serve(listener, routes(&worker)?).await.map_err(|error| Failure::Run(error.to_string()))?;

    let requests = worker.answered.load(Ordering::Relaxed);
    say(args, out, &Event::Stopped { requests, busy_core_s: processors.busy().as_secs_f64() })
}

fn config(args: &BackendArgs) -> Result<ServerConfig, Failure> {
    let mut known = BTreeSet::new();
    if let Some((twice, _)) = args.quotas.iter().find(|(name, _)| !known.insert(name)) {
        return Err(Failure::Usage(format!("--quota {twice} is given twice: keep one of them")));
    }
    let mut config = ServerConfig::default();
    config.admission.modes = modes(args)?;
    config.admission.quotas.default = args.default_quota;
    config.admission.quotas.customers.clone_from(&args.quotas);
    check_quotas(args, config.admission.modes)?;
    let mut set = BTreeSet::new();
    for signal in &args.signals {
        let name = signal.apply(&mut config.admission.signals);
        if !set.insert(name) {
            return Err(Failure::Usage(format!("--signal {name} is given twice: keep one of them")));
        }
    }
    config.check().map_err(|error| {
        let option = if error.field.starts_with("admission.signals") { "--signal: " } else { "" };
        Failure::Usage(format!("{option}{error}"))
    })?;
    Ok(config)
}

fn modes(args: &BackendArgs) -> Result<Modes, Failure> {
    let (mut modes, mut known) = (Modes::default(), BTreeSet::new());
    modes.all = args.admission;
    for (name, mode) in &args.modes {
        if !known.insert(name) {
            return Err(Failure::Usage(format!("--mode {name} is given twice: keep one of them")));
        }
        if let Some(own) = modes.get_mut(name) {
            *own = *mode;
        }
    }
    Ok(modes)
}

/// Quotas that would be minded by nobody are refused; where they can be switched on later, that is said.
fn check_quotas(args: &BackendArgs, modes: Modes) -> Result<(), Failure> {
    let option = match (args.quotas.first(), args.default_quota) {
        (Some(_), _) => "--quota",
        (None, Some(_)) => "--default-quota",
        (None, None) => return Ok(()),
    };
    if args.virtual_cores.is_some() {
        let why = "quotas are of CPU, and requests on virtual processors use none: leave one of the two out";
        return Err(Failure::Usage(format!("{option} has no effect with --virtual-cores: {why}")));
    }
    if !args.quotas.is_empty() && args.trust_customers == Trusted::Nobody {
        let why = "nobody is believed to be a customer: trust those who say so, or use --default-quota";
        return Err(Failure::Usage(format!("--quota has no effect with --trust-customers nobody: {why}")));
    }
    let off = match modes {
        Modes { all: Mode::Off, .. } => "--admission off",
        Modes { quota: Mode::Off, .. } => "--mode quota=off",
        _ => return Ok(()),
    };
    if args.admin.is_none() {
        let fix = "leave one of the two out, or give it --admin, where it can be switched on";
        return Err(Failure::Usage(format!("{option} has no effect with {off}: {fix}")));
    }
    let note = format!("note: {option} has no effect with {off} until that is switched on at --admin: POST /admission");
    // Without a stderr nobody waits for the line.
    drop(write!(std::io::stderr(), "{}", error_text(&note)));
    Ok(())
}

/// The next layer, if there is one; it may come up later.
fn next(args: &BackendArgs) -> Result<Option<Channel>, Failure> {
    if args.next.is_empty() {
        return Ok(None);
    }
    let backends = unlike(&args.next)?;
    let channel = Channel::with(ChannelConfig::default(), Tcp, SERVICE, Fixed::new(backends));
    channel.map(Some).map_err(|error| Failure::Usage(format!("--next: {error}")))
}

fn secret(file: &Path) -> Result<Secret, Failure> {
    let wrong = |what: String| Failure::Usage(format!("--datagram-secret-file {}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Secret::from_hex(&text).map_err(|error| wrong(error.to_string()))
}

fn routes(worker: &Arc<Worker>) -> Result<axum::Router, Failure> {
    let reflection =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let broken = |error| Failure::Run(format!("the service cannot be described: {error}"));
    let grpc = Routes::new(DemoServer::from_arc(Arc::clone(worker)))
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?);
    let worker = Arc::clone(worker);
    let work = move |query: RawQuery| answer_http(Arc::clone(&worker), query);
    Ok(grpc
        .into_axum_router()
        .route(PATH, axum::routing::get(work.clone()).post(work))
        .reset_fallback()
        .fallback(answer_unknown))
}

async fn stop_on_terminate(mut terminate: Terminations, handle: Handle) {
    terminate.next().await;
    handle.stop();
}

/// The second time it ends at once.
async fn stop_on_interrupt(mut interrupts: Interrupts, handle: Handle) {
    interrupts.next().await;
    handle.stop();
    interrupts.next().await;
    std::process::exit(Failure::Interrupted.exit_code().into());
}

fn say(args: &BackendArgs, out: &mut impl Write, event: &Event) -> Result<(), Failure> {
    if args.json {
        serde_json::to_writer(&mut *out, event)?;
        writeln!(out)?;
    } else {
        match event {
            Event::Listening { listen, admin } => {
                writeln!(out, "listening on {listen}")?;
                if let Some(admin) = admin {
                    writeln!(out, "metrics, state and page on http://{admin}/")?;
                }
            }
            Event::Stopped { requests, busy_core_s } => {
                writeln!(out, "stopped after {requests} requests and {busy_core_s:.1} s of processors")?;
            }
        }
    }
    // Whoever started it waits for the line.
    Ok(out.flush()?)
}

/// Whoever started this process held the other end and is gone: nobody is left to answer.
fn exit_with_stdin() {
    let mut ignored = [0; 64];
    while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
    std::process::exit(0);
}

const PATH: &str = "/work";
/// Whom health checks may ask for by name.
const SERVICE: &str = "evenkeel.demo.v1.Demo";
