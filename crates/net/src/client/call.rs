//! One request through a channel: picked, sent, and sent again elsewhere if it certainly never ran.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::client::WAKE_MORE_AFTER;
use evenkeel_core::{Kind, Lot, Outcome, Refusal};
use tokio::time::Instant;

use super::answer::{Counted, CountedBody, answered};
use super::error::CallError;
use super::replay::{Replay, SentBody};
use super::sender::{Answer, Failure, Sender};
use super::{Published, Shared};
use crate::body::{BoxBody, BoxError};
use crate::context::{Context, Resolved, resolve};
use crate::wire::headers;

/// Sends a request to a backend of the picker's choice; to another one if it certainly never ran.
pub(super) async fn call(
    shared: &Arc<Shared>,
    mut request: http::Request<BoxBody>,
    scope: Option<&Context>,
) -> Result<http::Response<CountedBody>, CallError> {
    complete_uri(shared, request.uri_mut())?;
    let now = Instant::now();
    let draw = || shared.seat.with(shared, |_, rng| Lot::draw(rng));
    let context = resolve(now, request.extensions(), request.headers(), scope, shared.defaults, draw);
    context.write(now, request.headers_mut());
    let (deadline, kind) = (context.deadline, kind_of(&request));
    let is_head = request.method() == http::Method::HEAD;
    let (mut request, sending) = Sending::new(request, shared.replay_most);
    let mut waits = UNSENT_WAITS.iter();
    let mut connected_until = None;
    loop {
        let begun = match begin(shared, &context, kind) {
            Err(CallError::Refused(Refusal::Waking)) => {
                let until = *connected_until.get_or_insert_with(|| Instant::now() + shared.connect_timeout);
                begin_once_connected(shared, &context, kind, until).await
            }
            begun => begun,
        };
        let (counted, sender) = begun?;
        if let Some(held) = counted.held() {
            headers::write_held(request.headers_mut(), held);
        }
        let error = match send(sender, request, deadline).await {
            Ok(answer) => return Ok(answered(answer, counted, deadline, is_head)),
            Err(Ended::Expired) => {
                counted.finish(Outcome::Expired, None);
                return Err(CallError::Expired);
            }
            // Before anything else: what the body's own error looks like says nothing about the backend.
            Err(Ended::Failed(Failure::Broken(error) | Failure::NeverRan(error))) if sending.body.has_failed() => {
                counted.finish(Outcome::Cancelled, None);
                return Err(CallError::Body(error));
            }
            Err(Ended::Failed(Failure::Broken(error))) => {
                counted.finish(Outcome::Failed, None);
                return Err(CallError::Broken(error));
            }
            Err(Ended::Failed(Failure::NeverRan(error))) => {
                counted.finish(Outcome::Unsent, None);
                error
            }
        };
        let Some(wait) = waits.next() else { return Err(CallError::Unsent(error)) };
        // The driver is about to hear what happened to the connection: another is picked once it has.
        pause(*wait, deadline).await;
        request = sending.again(deadline).ok_or(CallError::Unsent(error))?;
    }
}

/// What it takes to send the request once more.
struct Sending {
    method: http::Method,
    uri: http::Uri,
    headers: http::HeaderMap,
    /// Of an extended CONNECT.
    protocol: Option<hyper::ext::Protocol>,
    body: Replay,
}

impl Sending {
    fn new(request: http::Request<BoxBody>, replay_most: usize) -> (http::Request<SentBody>, Sending) {
        let (parts, body) = request.into_parts();
        let (body, replay) = SentBody::new(body, replay_most);
        let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
        let protocol = parts.extensions.get().cloned();
        (http::Request::from_parts(parts, body), Sending { method, uri, headers, protocol, body: replay })
    }

    /// The same request with what remains of its time; `None` if its body was read further than was kept.
    fn again(&self, deadline: Option<Instant>) -> Option<http::Request<SentBody>> {
        let mut request = http::Request::new(self.body.again()?);
        request.method_mut().clone_from(&self.method);
        request.uri_mut().clone_from(&self.uri);
        request.headers_mut().clone_from(&self.headers);
        if let Some(protocol) = &self.protocol {
            request.extensions_mut().insert(protocol.clone());
        }
        if let Some(deadline) = deadline {
            let remaining = deadline.saturating_duration_since(Instant::now());
            headers::write_timeout(request.headers_mut(), remaining);
        }
        Some(request)
    }
}

/// Requests without an authority go to the service by its name, as tonic's do.
fn complete_uri(shared: &Shared, uri: &mut http::Uri) -> Result<(), CallError> {
    if uri.scheme().is_some() && uri.authority().is_some() {
        return Ok(());
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority.get_or_insert_with(|| shared.service.clone());
    *uri = http::Uri::from_parts(parts).map_err(|_| CallError::BadRequest("the URI has no path that can be sent"))?;
    Ok(())
}

/// What the caller says in the request's extensions, or that it waits for events; else one question, one answer.
fn kind_of<B>(request: &http::Request<B>) -> Kind {
    let said = request.extensions().get().copied();
    said.unwrap_or(if headers::wants_events(request.headers()) { Kind::Stream } else { Kind::Unary })
}

/// Picks a backend and counts the request in.
fn begin(shared: &Arc<Shared>, context: &Resolved, kind: Kind) -> Result<(Counted, Option<Sender>), CallError> {
    let customer = shared.customers.number(context.customer.as_ref());
    let meta = context.meta(shared.clock, kind, customer);
    loop {
        let now = shared.clock.now();
        let published = shared.published.load();
        let begun = shared.seat.with(shared, |local, rng| published.picker.begin(local, now, &meta, rng));
        match begun {
            Ok(ticket) => {
                if ticket.wakes() {
                    shared.wishes.notify_one();
                }
                let sender = published.senders.get(ticket.position()).cloned().flatten();
                return Ok((Counted::new(Arc::clone(shared), ticket), sender));
            }
            // What this picker knew may be outdated: nothing begins on backends that have left since.
            Err(Refusal::AllFull) if !is_newest(shared, &published) => {}
            Err(refusal) => return Err(CallError::Refused(refusal)),
        }
    }
}

/// Waits until an inactive backend can be sent to, or this long.
async fn begin_once_connected(
    shared: &Arc<Shared>,
    context: &Resolved,
    kind: Kind,
    until: Instant,
) -> Result<(Counted, Option<Sender>), CallError> {
    let mut publications = shared.publications.subscribe();
    loop {
        // A picker that is published from here on is not missed.
        publications.mark_unchanged();
        match begin(shared, context, kind) {
            Err(CallError::Refused(Refusal::Waking)) => shared.wishes.notify_one(),
            begun => return begun,
        }
        let now = Instant::now();
        if now >= until {
            shared.published.load().picker.refuse(Refusal::Waking);
            return Err(CallError::Refused(Refusal::Waking));
        }
        // Or a little later: others may be woken if the first ones take long.
        let next_try = until.min(now + WAKE_MORE_AFTER);
        let next_try = context.deadline.map_or(next_try, |deadline| next_try.min(deadline));
        drop(tokio::time::timeout_at(next_try, publications.changed()).await);
    }
}

fn is_newest(shared: &Shared, published: &Arc<Published>) -> bool {
    Arc::ptr_eq(&shared.published.load(), published)
}

/// Why there is no answer.
enum Ended {
    Expired,
    Failed(Failure),
}

async fn send(
    sender: Option<Sender>,
    request: http::Request<SentBody>,
    deadline: Option<Instant>,
) -> Result<Answer, Ended> {
    let Some(sender) = sender else {
        return Err(Ended::Failed(Failure::NeverRan(BoxError::from("the connection is gone"))));
    };
    let sending = sender.send(request);
    let answer = match deadline {
        Some(at) => tokio::time::timeout_at(at, sending).await.map_err(|_| Ended::Expired)?,
        None => sending.await,
    };
    answer.map_err(Ended::Failed)
}

async fn pause(wait: Duration, deadline: Option<Instant>) {
    if wait.is_zero() {
        return tokio::task::yield_now().await;
    }
    let until = Instant::now() + wait;
    tokio::time::sleep_until(deadline.map_or(until, |deadline| until.min(deadline))).await;
}

/// Before each further try of a request that never ran: the news of a connection that ended is a moment behind it.
const UNSENT_WAITS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5)];
