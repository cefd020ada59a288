//! Any bytes as a datagram, at a client and at a backend. What must hold is in `crates/net/tests/datagram/arriving.rs`.
#![no_main]

#[path = "../../crates/net/tests/datagram/arriving.rs"]
mod arriving;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| arriving::check(bytes));
