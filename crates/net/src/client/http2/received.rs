//! The body of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame, SizeHint};

use super::pump::Pumping;

/// What is read of an answer. The peer may send more as it is read.
#[derive(Debug)]
pub(crate) struct Received {
    stream: RecvStream,
    /// Bytes to come, where the answer's head says.
    left: Option<u64>,
    is_data_over: bool,
    /// The rest of the request.
    _pumping: Option<Pumping>,
}

impl Received {
    pub(super) fn new(stream: RecvStream, length: Option<u64>, pumping: Option<Pumping>) -> Self {
        Received { stream, left: length, is_data_over: false, _pumping: pumping }
    }

    /// A peer that has answered before it read all of the request says by a reset without error that it needs no more
    /// of it (RFC 9113, 8.1): the end of an answer, unless that was to be longer.
    fn unless_whole(&self, error: h2::Error) -> Option<Result<Frame<Bytes>, h2::Error>> {
        let needs_no_more = error.is_reset() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        (!needs_no_more || self.left.is_some_and(|left| left > 0)).then_some(Err(error))
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_data_over {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Fails only if the stream has ended, which the next poll tells.
                    drop(self.stream.flow_control().release_capacity(data.len()));
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(self.unless_whole(error)),
                None => self.is_data_over = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => self.unless_whole(error),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            _ if self.stream.is_end_stream() => SizeHint::with_exact(0),
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::default(),
        }
    }
}
