//! The answer to a request: when it has been read to its end, the request's place is given back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::{BackendId, Behind, CustomerId, LoadReport, Outcome, Ticket};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::Shared;
use super::error::CallError;
use super::http2::is_own_reset;
use super::link::Lent;
use super::reports;
use super::sender::{Answer, AnswerBody};
use crate::body::BoxError;
use crate::context::remember_behind;
use crate::meter;
use crate::wire::headers;
use crate::wire::{grpc, outcome};

/// Takes the answer's verdict and report, and counts the request until its body has ended.
pub(super) fn answered(
    (answer, lent): Answer,
    mut counted: Counted,
    deadline: Option<Instant>,
    is_head: bool,
) -> http::Response<CountedBody> {
    let (parts, body) = answer.into_parts();
    let verdict = outcome::outcome_of(parts.status, &parts.headers);
    let report = reports::read(&parts.headers);
    counted.heed(&parts.headers);
    counted.answered();
    // The head of a gRPC answer says nothing yet: only its trailers do.
    let is_open = outcome::outcome_of_head(parts.status, &parts.headers).is_none();
    let (body, counted) = (Some(body), Some(counted));
    let mut body = CountedBody { body, counted, lent, verdict, is_open, report, deadline, expiry: None };
    // An answer that is all head: nobody needs to read its body, so its end is now.
    if is_head || body.is_end_stream() {
        body.end_whole();
    }
    http::Response::from_parts(parts, body)
}

/// A request that counts until it is finished; cancelled if nobody finishes it.
pub(super) struct Counted {
    shared: Arc<Shared>,
    ticket: Option<Ticket>,
    /// Who has it, also once the ticket is given back.
    backend: BackendId,
    /// The request being served that it is made for.
    serving: Option<Arc<meter::Task>>,
}

impl Counted {
    pub(super) fn new(shared: Arc<Shared>, ticket: Ticket, serving: Option<Arc<meter::Task>>) -> Self {
        Counted { shared, backend: ticket.backend(), ticket: Some(ticket), serving }
    }

    pub(super) fn backend(&self) -> BackendId {
        self.backend
    }

    /// Says with the request, which is of this customer, how many were not sent, and whose those are.
    pub(super) fn tell_held(&self, headers: &mut HeaderMap, customer: CustomerId) {
        let Some(held) = self.ticket.as_ref().and_then(Ticket::held) else { return };
        headers::write_held(headers, held.counts);
        if held.customer != customer {
            headers::write_held_for(headers, self.shared.customers.name(held.customer).as_deref());
        }
    }

    /// The head or the trailers of the answer say what the backend admits, or nothing.
    fn heed(&mut self, said: &HeaderMap) {
        if let (Some(hint), Some(ticket)) = (headers::read_admit(said), &mut self.ticket) {
            self.shared.published.load().picker.heed(self.shared.clock.now(), ticket, hint);
        }
    }

    /// The head of the answer is there.
    fn answered(&mut self) {
        let picker = &self.shared.published.load().picker;
        if let Some(ticket) = self.ticket.as_mut().filter(|_| picker.times_answers()) {
            picker.answered(self.shared.clock.now(), ticket);
        }
    }

    /// Another attempt of the same request was answered.
    pub(super) fn outrun(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.published.load().picker.outrun(self.shared.clock.now(), ticket);
        }
    }

    pub(super) fn finish(mut self, outcome: Outcome, report: Option<&LoadReport>) {
        self.give_back(outcome, report);
    }

    fn give_back(&mut self, outcome: Outcome, report: Option<&LoadReport>) {
        if let Some(ticket) = self.ticket.take() {
            if outcome.forbids_retries() {
                remember_behind(self.serving.as_deref(), Behind::TooMuch);
            }
            self.shared.published.load().picker.finish(self.shared.clock.now(), ticket, outcome, report);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.give_back(Outcome::Cancelled, None);
    }
}

/// The body of an answer; its end ends the request's count, with what the trailers say.
pub struct CountedBody {
    /// Nothing follows where there is none.
    body: Option<AnswerBody>,
    counted: Option<Counted>,
    /// Where the connection is for one request at a time.
    lent: Option<Lent>,
    verdict: Outcome,
    /// Whether the verdict may still change.
    is_open: bool,
    report: Option<LoadReport>,
    deadline: Option<Instant>,
    /// Made when the body is first waited for: most answers are there whole.
    expiry: Option<Pin<Box<Sleep>>>,
}

impl CountedBody {
    /// The body of an answer that is all head and came from nobody.
    pub(super) fn nothing() -> Self {
        CountedBody {
            body: None,
            counted: None,
            lent: None,
            verdict: Outcome::Served,
            is_open: false,
            report: None,
            deadline: None,
            expiry: None,
        }
    }

    /// How the attempt ended, if that is known: of gRPC only once its trailers are there.
    pub(super) fn verdict(&self) -> Option<Outcome> {
        (!self.is_open).then_some(self.verdict)
    }

    /// Its verdict is known, and it is going to be tried elsewhere: it counts no more. It can still be read, should there
    /// be nothing better.
    pub(super) fn settle(&mut self) {
        self.end(self.verdict);
    }

    /// The time is up: nothing more is read. gRPC says so in its own way.
    fn expire(&mut self) -> Result<Frame<Bytes>, BoxError> {
        self.end(Outcome::Expired);
        self.body = None;
        if self.is_open {
            let trailers = grpc::trailers_of(grpc::DEADLINE_EXCEEDED, &CallError::Expired.to_string());
            return Ok(Frame::trailers(trailers));
        }
        Err(CallError::Expired.into())
    }

    /// Read to its end.
    fn end_whole(&mut self) {
        if let Some(lent) = self.lent.take() {
            lent.give_back();
        }
        self.end(self.verdict);
    }

    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    fn is_expired(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let expiry = self.expiry.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        expiry.as_mut().poll(cx).is_ready()
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(counted) = self.counted.take() {
            counted.finish(outcome, self.report.as_ref());
        }
    }

    fn on_trailers(&mut self, trailers: &HeaderMap) {
        self.report = reports::read(trailers).or(self.report);
        if let Some(counted) = &mut self.counted {
            counted.heed(trailers);
        }
        self.verdict = outcome::outcome_of_trailers(trailers).unwrap_or(self.verdict);
        // Too late to ask core, and whoever asked this process is to hear it all the same.
        if self.verdict == Outcome::Failed && headers::is_failed_behind(trailers) {
            remember_behind(self.counted.as_ref().and_then(|counted| counted.serving.as_deref()), Behind::Failed);
        }
        self.is_open = false;
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        match Pin::new(body).poll_frame(cx) {
            Poll::Pending if self.is_expired(cx) => Poll::Ready(Some(self.expire())),
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.end_whole();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                // Where the request's own body failed, the backend did not.
                self.end(if is_own_reset(&error) { Outcome::Cancelled } else { Outcome::Failed });
                Poll::Ready(Some(Err(error)))
            }
            // One that always has more is cut here.
            Poll::Ready(Some(Ok(frame))) if frame.is_data() && self.is_overdue() => Poll::Ready(Some(self.expire())),
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.on_trailers(trailers);
                }
                if self.is_end_stream() {
                    self.end_whole();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for CountedBody {
    /// A caller that does not read on: an error stays an error, and the report of the head is kept.
    fn drop(&mut self) {
        let is_error = !self.is_open && self.verdict.is_error();
        self.end(if is_error { self.verdict } else { Outcome::Cancelled });
    }
}

impl std::fmt::Debug for CountedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedBody").field("verdict", &self.verdict).finish_non_exhaustive()
    }
}
