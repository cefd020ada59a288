//! Sends the body of a request as fast as the peer takes it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use tokio::task::AbortHandle;

use crate::body::BoxError;
use crate::context;

pin_project! {
    /// Sends a body frame by frame. It fails if the body does; what became of the stream is told by its answer.
    pub(super) struct Pump<B> {
        #[pin]
        body: B,
        sending: SendStream<Bytes>,
        // Waits for room, or for whether it is the last. Never empty.
        held: Option<Bytes>,
    }
}

impl<B> Pump<B> {
    pub(super) fn new(body: B, sending: SendStream<Bytes>) -> Self {
        Pump { body, sending, held: None }
    }
}

impl<B: Body<Data = Bytes, Error = BoxError>> Future for Pump<B> {
    type Output = Result<(), BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let mut this = self.project();
        // Also asks to be woken: a peer that resets the stream wants no more of it.
        if this.sending.poll_reset(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.held.is_some() && !ready!(has_room(this.sending, cx)) {
                return Poll::Ready(Ok(()));
            }
            // One frame ahead, so that the last can say that it is: bodies seldom know by themselves.
            let is_over = this.body.is_end_stream();
            let next = if is_over { Poll::Ready(None) } else { this.body.as_mut().poll_frame(cx) };
            if let Some(data) = this.held.take() {
                let is_last = matches!(next, Poll::Ready(None));
                if this.sending.send_data(data, is_last).is_err() || is_last {
                    return Poll::Ready(Ok(()));
                }
            }
            match ready!(next).map(|frame| frame.map(Frame::into_data)) {
                // Nothing to send, and no room would ever come for it.
                Some(Ok(Ok(data))) if data.is_empty() => {}
                Some(Ok(Ok(data))) => {
                    this.sending.reserve_capacity(1);
                    *this.held = Some(data);
                }
                Some(Ok(Err(other))) => {
                    if let Ok(trailers) = other.into_trailers() {
                        // Fails only if the stream is gone, which its answer tells.
                        drop(this.sending.send_trailers(trailers));
                        return Poll::Ready(Ok(()));
                    }
                }
                Some(Err(error)) => {
                    this.sending.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(error));
                }
                None => {
                    drop(this.sending.send_data(Bytes::new(), true));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

/// Waits until the peer takes something; `false` once it takes nothing any more.
fn has_room(sending: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<bool> {
    while sending.capacity() == 0 {
        match ready!(sending.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(false),
        }
    }
    Poll::Ready(true)
}

/// A pump in a task of its own, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Pumping(AbortHandle);

impl Pumping {
    pub(super) fn spawn<B>(pump: Pin<Box<Pump<B>>>) -> Self
    where
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        // A body that fails has reset the stream, which the reader of the answer is told.
        Pumping(context::spawn(pump).abort_handle())
    }
}

impl Drop for Pumping {
    fn drop(&mut self) {
        self.0.abort();
    }
}
