//! A request's body that can be sent a second time.
//!
//! A request that a backend certainly never ran is sent to another (DESIGN §6.17), also if its body has begun to be
//! read: what was read is kept, up to a limit, and read again. Frames are counted references, so keeping them copies
//! nothing. What is sent and what may be sent again share the body; the one sent last owns it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::body::{BoxBody, BoxError};

/// What a connection is given to send.
#[derive(Debug)]
pub(crate) struct SentBody(Option<Sent>);

#[derive(Debug)]
struct Sent {
    shared: Arc<Mutex<Shared>>,
    /// Which sending this is: an earlier one that a connection has not dropped yet must not read on.
    turn: u32,
    /// Kept frames that have been read in this turn.
    read: usize,
    trailers_read: bool,
}

/// Keeps a request's body for another sending.
#[derive(Debug)]
pub(crate) struct Replay(Option<Arc<Mutex<Shared>>>);

#[derive(Debug)]
struct Shared {
    body: BoxBody,
    kept: Kept,
    turn: u32,
    /// The body itself failed: its caller's fault, not the backend's.
    failed: bool,
    /// All of it has been read.
    ended: bool,
}

/// What has been read of a body so far.
#[derive(Clone, Debug)]
struct Kept {
    /// A unary message is one frame, which needs no list.
    first: Option<Bytes>,
    rest: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    /// How many more bytes may be kept; `None` once something was not kept.
    room: Option<usize>,
}

impl Sent {
    fn new(shared: &Arc<Mutex<Shared>>, turn: u32) -> Self {
        Sent { shared: Arc::clone(shared), turn, read: 0, trailers_read: false }
    }
}

impl SentBody {
    /// The body, and what can send it again as long as no more than `most` bytes of it have been read.
    pub(crate) fn new(body: BoxBody, most: usize) -> (SentBody, Replay) {
        if body.is_end_stream() {
            return (SentBody(None), Replay(None));
        }
        let kept = Kept { first: None, rest: Vec::new(), trailers: None, room: Some(most) };
        let shared = Arc::new(Mutex::new(Shared { body, kept, turn: 0, failed: false, ended: false }));
        (SentBody(Some(Sent::new(&shared, 0))), Replay(Some(shared)))
    }

    /// A body that is never sent again.
    pub(crate) fn once(body: BoxBody) -> SentBody {
        SentBody::new(body, 0).0
    }
}

impl Replay {
    /// The body from its start; `None` if more of it has been read than was kept.
    pub(crate) fn again(&self) -> Option<SentBody> {
        let Some(shared) = &self.0 else { return Some(SentBody(None)) };
        let mut state = lock(shared);
        state.kept.room?;
        state.turn += 1;
        Some(SentBody(Some(Sent::new(shared, state.turn))))
    }

    /// The whole body once more, beside the one that is being sent; `None` unless all of it was read and kept.
    pub(crate) fn copy(&self) -> Option<SentBody> {
        let Some(shared) = &self.0 else { return Some(SentBody(None)) };
        let state = lock(shared);
        state.kept.room?;
        if !state.ended && !state.body.is_end_stream() {
            return None;
        }
        let kept = state.kept.clone();
        let copy = Shared { body: crate::body::empty(), kept, turn: 0, failed: false, ended: true };
        Some(SentBody(Some(Sent::new(&Arc::new(Mutex::new(copy)), 0))))
    }

    /// Whether the body could be sent again now.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.as_ref().is_none_or(|shared| lock(shared).kept.room.is_some())
    }

    /// Whether the body itself failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| lock(shared).failed)
    }
}

impl Drop for Replay {
    /// It is never sent again: nothing more is kept, and nothing at all if nobody reads it a second time.
    fn drop(&mut self) {
        let Some(shared) = &self.0 else { return };
        let mut state = lock(shared);
        state.kept.room = None;
        if state.turn == 0 {
            state.kept.forget();
        }
    }
}

impl Kept {
    fn forget(&mut self) {
        (self.first, self.rest, self.trailers) = (None, Vec::new(), None);
    }

    fn frames(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    fn get(&self, place: usize) -> Option<&Bytes> {
        match place.checked_sub(1) {
            None => self.first.as_ref(),
            Some(place) => self.rest.get(place),
        }
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(room) = self.room else { return };
        match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => {
                self.room = room.checked_sub(data.len());
                if self.room.is_none() {
                    self.forget();
                } else if data.is_empty() {
                    // Says nothing, and any number of them would.
                } else if self.first.is_none() {
                    self.first = Some(data.clone());
                } else {
                    self.rest.push(data.clone());
                }
            }
            (None, trailers) => self.trailers = trailers.cloned(),
        }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(sent) = &mut self.0 else { return Poll::Ready(None) };
        let mut state = lock(&sent.shared);
        if state.turn != sent.turn {
            return Poll::Ready(Some(Err("the request is being sent elsewhere".into())));
        }
        if let Some(data) = state.kept.get(sent.read) {
            sent.read += 1;
            return Poll::Ready(Some(Ok(Frame::data(data.clone()))));
        }
        if sent.trailers_read {
            return Poll::Ready(None);
        }
        if let Some(trailers) = &state.kept.trailers {
            sent.trailers_read = true;
            return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
        }
        let polled = std::task::ready!(Pin::new(&mut state.body).poll_frame(cx));
        match &polled {
            Some(Ok(frame)) => {
                state.kept.keep(frame);
                sent.read = state.kept.frames();
                sent.trailers_read = frame.is_trailers();
            }
            Some(Err(_)) => state.failed = true,
            None => state.ended = true,
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        let Some(sent) = &self.0 else { return true };
        let state = lock(&sent.shared);
        let is_read = sent.read >= state.kept.frames() && state.kept.trailers.is_none();
        sent.trailers_read || is_read && state.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(sent) = &self.0 else { return SizeHint::with_exact(0) };
        let state = lock(&sent.shared);
        let unread: u64 =
            (sent.read..state.kept.frames()).filter_map(|at| state.kept.get(at)).map(|b| b.len() as u64).sum();
        let rest = state.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + unread);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + unread);
        }
        hint
    }
}

/// Never held while somebody waits: only around one poll.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::body::boxed;

    fn body(frames: &[&'static str]) -> BoxBody {
        let frames: Vec<Result<Frame<Bytes>, BoxError>> =
            frames.iter().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))).collect();
        boxed(StreamBody::new(tokio_stream(frames)))
    }

    fn tokio_stream<T: Unpin>(items: Vec<T>) -> impl futures_core::Stream<Item = T> {
        let mut items = items.into_iter();
        futures_util::stream::poll_fn(move |_| Poll::Ready(items.next()))
    }

    #[tokio::test]
    async fn what_was_read_is_read_again_and_the_rest_follows() {
        let (mut first, replay) = SentBody::new(body(&["one", "two", "three"]), 100);
        first.frame().await.unwrap().unwrap();
        first.frame().await.unwrap().unwrap();

        let second = replay.again().unwrap();

        assert!(first.frame().await.unwrap().is_err(), "the first sending does not take what is the second's");
        assert_eq!(second.collect().await.unwrap().to_bytes(), "onetwothree");
    }

    #[tokio::test]
    async fn trailers_are_read_again_once_and_empty_frames_are_not_kept() {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, http::HeaderValue::from_static("x"))]);
        let frames: Vec<Result<Frame<Bytes>, BoxError>> = vec![
            Ok(Frame::data(Bytes::new())),
            Ok(Frame::data(Bytes::from_static(b"one"))),
            Ok(Frame::trailers(trailers)),
        ];
        let (first, replay) = SentBody::new(boxed(StreamBody::new(tokio_stream(frames))), 100);
        assert!(first.collect().await.unwrap().trailers().is_some());

        let second = replay.again().unwrap();
        drop(replay);
        let second = second.collect().await.unwrap();

        assert!(second.trailers().is_some());
        assert_eq!(second.to_bytes(), "one");
    }

    #[tokio::test]
    async fn nothing_is_kept_once_it_cannot_be_sent_again() {
        let (mut first, replay) = SentBody::new(body(&["one", "two", "three"]), 100);
        first.frame().await.unwrap().unwrap();

        drop(replay);

        assert_eq!(first.collect().await.unwrap().to_bytes(), "twothree");
    }

    #[tokio::test]
    async fn what_is_too_long_to_keep_is_sent_once() {
        let (first, replay) = SentBody::new(body(&["one", "two"]), 5);
        assert!(replay.again().is_some(), "nothing has been read yet");
        let again = replay.again().unwrap();
        drop(first);

        assert_eq!(again.collect().await.unwrap().to_bytes(), "onetwo");
        assert!(replay.again().is_none());
    }

    #[tokio::test]
    async fn a_copy_is_read_beside_the_first_once_that_was_read_whole() {
        let (mut first, replay) = SentBody::new(body(&["one", "two"]), 100);
        first.frame().await.unwrap().unwrap();
        assert!(replay.copy().is_none() && replay.is_kept(), "the rest is not there yet");
        while first.frame().await.is_some() {}

        let (copy, again) = (replay.copy().unwrap(), replay.copy().unwrap());

        assert_eq!(copy.size_hint().exact(), Some(6));
        assert_eq!(copy.collect().await.unwrap().to_bytes(), "onetwo");
        assert_eq!(again.collect().await.unwrap().to_bytes(), "onetwo");
        assert!(first.frame().await.is_none(), "the first is not disturbed");
    }

    #[tokio::test]
    async fn an_empty_body_needs_nothing_kept() {
        let (first, replay) = SentBody::new(crate::body::empty(), 0);
        assert!(first.is_end_stream() && replay.again().unwrap().is_end_stream());
        assert!(!replay.has_failed());
    }
}
