//! The decisions of evenkeel: who talks to whom, who gets the next request, what is refused.
//!
//! Every decision is a plain state machine. Nothing here owns a clock, a socket, a thread or a source of chance: `now`
//! and `rng` are arguments, so a driver on real sockets and a simulator on an event queue run the same code, and what
//! surprised in production can be replayed.
//!
//! Each role has two halves. The **slow brain** ([`Client`], [`Server`]) learns: it takes events (`handle_*`), says
//! what must be done (`poll_action`) and when to be called again (`poll_timeout`). The **fast half** ([`Picker`],
//! [`Gate`]) decides for each request on shared atomics: no lock, no allocation, no system call.
//!
//! ```
//! use evenkeel_core::{Action, BackendList, BackendSpec, Client, ClientConfig};
//! use evenkeel_core::{Local, Outcome, Readiness, RequestMeta, Rng, Time};
//!
//! let now = Time::ZERO;
//! let mut rng = Rng::from_seed(1);
//! let mut client = Client::new(now, ClientConfig::default(), &mut rng)?;
//! let backends = BackendList::new([BackendSpec::named("10.0.0.1:80"), BackendSpec::named("10.0.0.2:80")])?;
//! client.handle_backends(now, backends)?;
//! while let Some(action) = client.poll_action() {
//!     // A driver opens the connection and says how it went.
//!     if let Action::Connect(backend) = action {
//!         client.handle_connected(now, backend, Readiness::Ready);
//!     }
//! }
//!
//! let picker = client.poll_picker().expect("connections changed what can be picked");
//! let mut local = Local::default();
//! let ticket = picker.begin(&mut local, now, &RequestMeta::default(), &mut rng)?;
//! println!("send it to {}", ticket.backend());
//! picker.finish(now, ticket, Outcome::Served, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

/// The example of the README, so that it is built and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod sync;

mod config;
mod criticality;
mod hint;
mod lot;
mod mode;
mod notice;
mod outcome;
mod report;
mod report_cell;
mod request;
pub mod rng;
mod snapshot;
mod time;

pub mod stats;

pub mod client;
pub mod plan;
pub mod server;

pub use client::{
    Action, BackendId, BackendList, BackendSpec, BackendState, BadBackends, Behind, Cause, Checked, Client,
    ClientConfig, Fate, HeldBack, Local, Picker, PolicyName, Refusal, Repeat, RetryConfig, StateChange, Stop,
    ThrottleConfig, Ticket, Tries,
};
pub use config::InvalidConfig;
pub use criticality::Criticality;
pub use hint::{Hint, LastHint};
pub use lot::{Cutoff, Lot, Priority};
pub use mode::{Mode, UnknownMode};
pub use notice::{Announcement, Greeting, Notice};
pub use outcome::Outcome;
pub use report::{LoadReport, Readiness};
pub use request::{CustomerId, Kind, MethodId, RequestMeta};
pub use rng::Rng;
pub use server::{Gate, Server, ServerConfig};
pub use snapshot::{
    BackendSnapshot, CheckCounts, CheckedBy, ClientSnapshot, LinkState, RefusalCounts, RetryCounts, ServerSnapshot,
    ThrottleCounts, WatchCounts,
};
pub use time::Time;
