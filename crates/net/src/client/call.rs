//! One request through a channel: picked, sent, answered, counted out.
//!
//! What was taken is given back on every path: a `Counted` holds the ticket and finishes it when the answer has been
//! read to its end, or when the caller goes away before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use evenkeel_core::{CustomerId, Kind, LoadReport, Outcome, Ticket};
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::error::CallError;
use super::{Sender, Shared};
use crate::body::{BoxBody, BoxError};
use crate::context::{Context, Resolved, resolve};
use crate::wire::{headers, orca, outcome};

/// Sends a request to a backend of the picker's choice; to another if the connection was gone before it was sent.
pub(crate) async fn call(
    shared: &Arc<Shared>,
    mut request: http::Request<BoxBody>,
    scope: Option<&Context>,
) -> Result<http::Response<CountedBody>, CallError> {
    complete_uri(shared, request.uri_mut())?;
    let now = Instant::now();
    let context = resolve(now, request.extensions(), request.headers(), scope, shared.defaults);
    let deadline = context.deadline;
    context.write(now, request.headers_mut());
    let is_head = request.method() == http::Method::HEAD;
    let mut unsent = None;
    for _ in 0..CONNECTIONS_TRIED_MAX {
        let (counted, sender) = begin(shared, &context)?;
        let Some(sender) = sender else {
            counted.finish(Outcome::Unsent, None);
            continue;
        };
        match send(sender, request, deadline).await {
            Ok(response) => return Ok(answered(response, counted, deadline, is_head)),
            Err(Sent::Back(given_back, error)) => {
                counted.finish(Outcome::Unsent, None);
                request = *given_back;
                unsent = Some(error);
                // The driver is about to hear that the connection is gone: another is picked once it has.
                tokio::task::yield_now().await;
            }
            Err(Sent::Expired) => {
                counted.finish(Outcome::Expired, None);
                return Err(CallError::Expired);
            }
            Err(Sent::Broken(error)) => {
                counted.finish(Outcome::Failed, None);
                return Err(CallError::Broken(error.into()));
            }
        }
    }
    Err(CallError::Unsent(unsent.map_or_else(|| "every connection was gone".into(), Into::into)))
}

/// Requests without an authority go to the service by its name, as tonic's do.
fn complete_uri(shared: &Shared, uri: &mut http::Uri) -> Result<(), CallError> {
    if uri.authority().is_some() {
        return Ok(());
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority = Some(shared.service.clone());
    *uri = http::Uri::from_parts(parts).map_err(|_| CallError::BadRequest("the URI has no path that can be sent"))?;
    Ok(())
}

fn begin(shared: &Arc<Shared>, context: &Resolved) -> Result<(Counted, Option<Sender>), CallError> {
    let now = shared.clock.now();
    let meta = context.meta(shared.clock, Kind::Unary, CustomerId::default());
    let published = shared.published.load();
    let begun = shared.seat.with(shared, |local, rng| published.picker.begin(local, now, &meta, rng));
    let ticket = begun.map_err(CallError::Refused)?;
    let sender = published.senders.get(ticket.position()).cloned().flatten();
    Ok((Counted { shared: Arc::clone(shared), ticket: Some(ticket) }, sender))
}

/// Why there is no response.
enum Sent {
    /// Never sent: here it is back.
    Back(Box<http::Request<BoxBody>>, hyper::Error),
    Expired,
    Broken(hyper::Error),
}

async fn send(
    mut sender: Sender,
    request: http::Request<BoxBody>,
    deadline: Option<Instant>,
) -> Result<http::Response<Incoming>, Sent> {
    let sending = sender.try_send_request(request);
    let answer = match deadline {
        Some(at) => tokio::time::timeout_at(at, sending).await.map_err(|_| Sent::Expired)?,
        None => sending.await,
    };
    answer.map_err(|mut error| match error.take_message() {
        Some(request) => Sent::Back(Box::new(request), error.into_error()),
        None => Sent::Broken(error.into_error()),
    })
}

fn answered(
    response: http::Response<Incoming>,
    counted: Counted,
    deadline: Option<Instant>,
    is_head: bool,
) -> http::Response<CountedBody> {
    let (parts, body) = response.into_parts();
    let verdict = outcome::outcome_of(parts.status, &parts.headers);
    let report = orca::read(&parts.headers);
    let expiry = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
    // The head of a gRPC answer says nothing yet: only its trailers do.
    let is_open = headers::is_grpc(&parts.headers) && outcome::outcome_of_trailers(&parts.headers).is_none();
    let mut counted = CountedBody { body, counted: Some(counted), verdict, is_open, report, expiry };
    // An answer that is all head: nobody needs to read its body, so its end is now.
    if is_head || counted.body.is_end_stream() {
        counted.end(verdict);
    }
    http::Response::from_parts(parts, counted)
}

/// A request that counts until it is finished; cancelled if nobody finishes it.
struct Counted {
    shared: Arc<Shared>,
    ticket: Option<Ticket>,
}

impl Counted {
    fn finish(mut self, outcome: Outcome, report: Option<&LoadReport>) {
        self.give_back(outcome, report);
    }

    fn give_back(&mut self, outcome: Outcome, report: Option<&LoadReport>) {
        if let Some(ticket) = self.ticket.take() {
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
    body: Incoming,
    counted: Option<Counted>,
    verdict: Outcome,
    /// Whether the verdict may still change.
    is_open: bool,
    report: Option<LoadReport>,
    expiry: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl CountedBody {
    fn end(&mut self, outcome: Outcome) {
        if let Some(counted) = self.counted.take() {
            counted.finish(outcome, self.report.as_ref());
        }
    }

    fn on_trailers(&mut self, trailers: &HeaderMap) {
        self.report = orca::read(trailers).or(self.report);
        self.verdict = outcome::outcome_of_trailers(trailers).unwrap_or(self.verdict);
        self.is_open = false;
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            Poll::Pending => {
                let expired = self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready());
                if !expired {
                    return Poll::Pending;
                }
                self.end(Outcome::Expired);
                Poll::Ready(Some(Err(CallError::Expired.into())))
            }
            Poll::Ready(None) => {
                let verdict = self.verdict;
                self.end(verdict);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.end(Outcome::Failed);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.on_trailers(trailers);
                }
                if self.body.is_end_stream() {
                    let verdict = self.verdict;
                    self.end(verdict);
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

/// Connections tried for one request that keeps coming back unsent.
const CONNECTIONS_TRIED_MAX: usize = 3;
