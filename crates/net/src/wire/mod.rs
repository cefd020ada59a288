//! What travels: names and forms of everything that goes over the wire.

pub mod datagram;
pub(crate) mod details;
pub mod grpc;
pub mod headers;
pub mod names;
pub mod orca;
mod orca_json;
mod orca_read;
mod orca_write;
pub mod outcome;

use http::HeaderValue;

/// A header value of text that was written as visible ASCII.
fn visible(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("the writer kept to visible ASCII")
}
