//! Channels and servers on real sockets, in one binary: each further one costs seconds of building.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/echo.rs"]
mod echo;
#[path = "../support/plain.rs"]
mod plain;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/mod.rs"]
mod support;

mod admin;
mod admin_admission;
mod admin_state;
mod admin_switches;
mod axum_server;
mod bodies;
mod budgets;
mod clusters;
mod context;
mod datagrams_server;
mod deep_stack;
mod eject;
mod headers;
mod http1;
mod identity;
mod idle;
mod interop;
mod lame_duck;
mod layer;
mod orca;
mod policies;
mod refusals;
mod resend;
mod restart;
mod retry;
mod server;
mod server_context;
mod signals;
mod throttle;
mod told_cost;
mod tonic_server;
mod trouble;
mod udp;
mod unread;
mod uploads;
