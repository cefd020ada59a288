//! A channel and a server that spread load evenly, on real sockets.

pub mod admin;
pub mod body;
pub mod client;
pub mod clock;
pub mod context;
mod frames;
pub mod meter;
pub mod server;
mod socket;
pub mod udp;
pub mod wire;

/// Every decision, and the settings of it: [`core::ClientConfig`], [`core::ServerConfig`], [`core::Mode`], [`core::PolicyName`].
pub use evenkeel_core as core;

pub use client::{CallError, Channel, ChannelConfig, ConnectError};
pub use context::{Context, spawn, spawn_blocking, yield_now};
pub use server::{Server, layer};
