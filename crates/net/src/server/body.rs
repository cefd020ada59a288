//! The body of an answer: its end is the end of the request, and its trailers carry the load report (A15).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::{Behind, Outcome};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::admitted::Admitted;
use crate::body::{BoxBody, BoxError};
use crate::context::InContext;
use crate::meter;
use crate::wire::headers;
use crate::wire::{names, outcome};

pin_project! {
    /// The body of an answer: the handler's own, or that of a refusal or of a watch.
    #[project = AnswerProjected]
    pub enum Answer<B> {
        #[doc(hidden)]
        Handlers { #[pin] body: ServedBody<InContext<B>> },
        #[doc(hidden)]
        Ours { #[pin] body: BoxBody },
    }
}

impl<B> std::fmt::Debug for Answer<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answer::Handlers { .. } => "Answer(handler's)",
            Answer::Ours { .. } => "Answer(ours)",
        })
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project() {
            AnswerProjected::Handlers { body } => body.poll_frame(cx),
            AnswerProjected::Ours { body } => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Handlers { body } => body.is_end_stream(),
            Answer::Ours { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Handlers { body } => body.size_hint(),
            Answer::Ours { body } => body.size_hint(),
        }
    }
}

pin_project! {
    /// Finishes its request when its last frame has been taken to be sent, or when it is dropped before.
    pub struct ServedBody<B> {
        #[pin]
        body: B,
        admitted: Option<Admitted>,
        verdict: Outcome,
        is_grpc: bool,
    }
}

/// What kind of request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) is_grpc: bool,
    pub(crate) is_head: bool,
    /// HTTP/1.0 or 1.1: a connection belongs to one request at a time, and its end is said in a header.
    pub(crate) is_http1: bool,
}

impl<B: Body> ServedBody<B> {
    pub(crate) fn new(body: B, admitted: Admitted, verdict: Outcome, of: Answered) -> Self {
        let Answered { is_grpc, is_head, .. } = of;
        // The body of an answer to HEAD is never asked for.
        let ended = is_head || body.is_end_stream();
        let mut served = ServedBody { body, admitted: Some(admitted), verdict, is_grpc };
        if ended {
            finish(&mut served.admitted, verdict);
        }
        served
    }
}

/// Why an answer with this verdict is to say that trying again makes it worse, if it is: somebody behind this task said so
/// to a call that it made, or failed it time and again (B17). Whatever the handler made of it, the caller's retry would end
/// there again; what it could do without is an answer like any other.
pub(crate) fn passes_on_dont_retry(task: &meter::Task, verdict: Outcome) -> Option<Behind> {
    task.request().behind().filter(|_| matches!(verdict, Outcome::Failed | Outcome::Overloaded))
}

fn finish(admitted: &mut Option<Admitted>, outcome: Outcome) {
    if let Some(admitted) = admitted.take() {
        admitted.finish(outcome);
    }
}

impl<B> Body for ServedBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        let polled = std::task::ready!(this.body.as_mut().poll_frame(cx));
        Poll::Ready(match polled {
            None => {
                finish(this.admitted, *this.verdict);
                None
            }
            Some(Err(error)) => {
                finish(this.admitted, Outcome::Failed);
                Some(Err(error.into()))
            }
            Some(Ok(frame)) => Some(Ok(match frame.into_trailers() {
                Err(data) => {
                    if let Some(admitted) = this.admitted.as_mut() {
                        admitted.on_bytes(data.data_ref().map_or(0, |data| data.len() as u64));
                    }
                    // hyper asks whether that was all, and does not come back if it was.
                    if this.body.is_end_stream() {
                        finish(this.admitted, *this.verdict);
                    }
                    data
                }
                Ok(mut trailers) => {
                    headers::remove_never_ran(&mut trailers);
                    if let Some(admitted) = this.admitted.as_ref().filter(|_| *this.is_grpc) {
                        let (door, cost) = (&admitted.door, admitted.told_cost());
                        let report = door.reports.binary(door.clock.now(), &door.gate, cost);
                        trailers.insert(names::LOAD_METRICS_BIN, report);
                    }
                    let verdict = outcome::outcome_of_trailers(&trailers).unwrap_or(*this.verdict);
                    let admitted = this.admitted.as_ref().filter(|_| *this.is_grpc);
                    if let Some(behind) = admitted.and_then(|it| passes_on_dont_retry(&it.task, verdict)) {
                        headers::write_dont_retry(&mut trailers, behind, true);
                    }
                    finish(this.admitted, verdict);
                    Frame::trailers(trailers)
                }
            })),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
