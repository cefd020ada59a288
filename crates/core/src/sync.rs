//! The atomics of the request path, and the lock of those who wait: the standard ones, or the model checker's under
//! `--cfg loom`.

#![expect(clippy::disallowed_types, reason = "whoever takes the lock waits, or ends the wait of another")]

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
