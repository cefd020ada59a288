//! A body whose frames come from elsewhere, as they come.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use crate::body::BoxError;

/// Everything that is sent to it, until the sender is gone.
#[derive(Debug)]
pub(crate) struct Frames<G> {
    arriving: mpsc::UnboundedReceiver<Bytes>,
    /// Held for as long as somebody reads.
    _guard: G,
}

impl<G> Frames<G> {
    pub(crate) fn new(guard: G) -> (mpsc::UnboundedSender<Bytes>, Self) {
        let (sender, arriving) = mpsc::unbounded_channel();
        (sender, Frames { arriving, _guard: guard })
    }
}

impl<G: Unpin> Body for Frames<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.arriving.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
