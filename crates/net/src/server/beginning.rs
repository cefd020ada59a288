//! A connection whose client must begin to speak: one that says nothing, or half of HTTP/2's preface, would be held for
//! ever, since only then is there somebody to ping or a head to wait for.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::Sleep;

/// A stream that fails unless it is clear in time which HTTP its client speaks.
#[derive(Debug)]
pub(crate) struct Beginning<I> {
    stream: I,
    /// Until it is clear.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// How much of the preface has come.
    seen: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<I> Beginning<I> {
    pub(crate) fn new(stream: I) -> Self {
        let deadline = Box::pin(tokio::time::sleep(BEGINS_WITHIN));
        Beginning { stream, waiting: Some(Waiting { seen: 0, deadline }) }
    }
}

impl Waiting {
    /// Whether it is clear now.
    fn saw(&mut self, bytes: &[u8]) -> bool {
        let is_preface = PREFACE[self.seen..].starts_with(bytes);
        self.seen += bytes.len();
        // Anything else is HTTP/1, whose heads have a time limit of their own; so is the end of a stream nobody's.
        !is_preface || bytes.is_empty() || self.seen == PREFACE.len()
    }
}

impl<I: Read + Unpin> Read for Beginning<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(waiting) = &mut this.waiting else {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        };
        let mut space = [MaybeUninit::uninit(); PREFACE.len()];
        let most = into.remaining().min(PREFACE.len() - waiting.seen);
        let mut first = ReadBuf::uninit(&mut space[..most]);
        if Pin::new(&mut this.stream).poll_read(cx, first.unfilled())?.is_pending() {
            ready!(waiting.deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "its client said nothing")));
        }
        into.put_slice(first.filled());
        if waiting.saw(first.filled()) {
            this.waiting = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: Write + Unpin> Write for Beginning<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
}

/// How every connection of HTTP/2 begins.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
