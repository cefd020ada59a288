//! A body whose frames come from elsewhere, as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use crate::body::BoxError;

/// Everything that is sent to it, until the sender is gone.
#[derive(Debug)]
pub(crate) struct Frames<G> {
    arriving: mpsc::UnboundedReceiver<Bytes>,
    unread: Arc<AtomicUsize>,
    /// Held for as long as somebody reads.
    _guard: G,
}

/// Sends to a [`Frames`].
#[derive(Debug)]
pub(crate) struct FrameSender {
    frames: mpsc::UnboundedSender<Bytes>,
    unread: Arc<AtomicUsize>,
}

impl<G> Frames<G> {
    pub(crate) fn new(guard: G) -> (FrameSender, Self) {
        let (frames, arriving) = mpsc::unbounded_channel();
        let unread = Arc::default();
        let sender = FrameSender { frames, unread: Arc::clone(&unread) };
        (sender, Frames { arriving, unread, _guard: guard })
    }
}

impl FrameSender {
    /// Without effect once nobody reads any more, which whoever holds the body notices.
    pub(crate) fn send(&self, frame: Bytes) {
        self.unread.fetch_add(1, Ordering::Relaxed);
        drop(self.frames.send(frame));
    }

    /// Whether the reader has fallen so far behind that it must not be able to ask for more.
    pub(crate) fn is_behind(&self) -> bool {
        self.unread.load(Ordering::Relaxed) >= UNREAD_MOST
    }
}

impl<G: Unpin> Body for Frames<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let arrived = std::task::ready!(self.arriving.poll_recv(cx));
        if arrived.is_some() {
            self.unread.fetch_sub(1, Ordering::Relaxed);
        }
        Poll::Ready(arrived.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A peer that reads has one or two.
const UNREAD_MOST: usize = 16;
