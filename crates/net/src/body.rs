//! Bodies as the channel and the server pass them on.

use std::error::Error;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

/// Any error that may travel between threads.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A body of any origin.
pub type BoxBody = UnsyncBoxBody<Bytes, BoxError>;

/// Boxes a body.
pub fn boxed<B>(body: B) -> BoxBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A body without anything in it.
pub fn empty() -> BoxBody {
    boxed(http_body_util::Empty::new())
}
