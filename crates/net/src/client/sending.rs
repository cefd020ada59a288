//! What is sent, so that it can be sent once more: the head, what is kept of the body, and whether it may run twice.

use evenkeel_core::{Kind, Repeat};
use http::uri::Authority;
use tokio::time::Instant;

use super::Shared;
use super::error::CallError;
use super::replay::{Replay, SentBody};
use crate::body::BoxBody;
use crate::wire::headers;

/// What it takes to send the request once more.
pub(super) struct Sending {
    method: http::Method,
    uri: http::Uri,
    addressed: Addressed,
    headers: http::HeaderMap,
    /// Of an extended CONNECT.
    protocol: Option<hyper::ext::Protocol>,
    body: Replay,
    deadline: Option<Instant>,
    /// Whether it may run twice.
    repeat: Repeat,
}

/// Whose name a request carries as its authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addressed {
    /// The one that its caller gave it.
    ByCaller,
    /// That of the service whose channel it goes through; another cluster may have another.
    ByChannel,
}

impl Sending {
    pub(super) fn new(
        request: http::Request<BoxBody>,
        addressed: Addressed,
        replay_most: usize,
        deadline: Option<Instant>,
    ) -> (http::Request<SentBody>, Sending) {
        let repeat = repeat_of(&request);
        let (parts, body) = request.into_parts();
        let (body, replay) = SentBody::new(body, replay_most);
        let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
        let protocol = parts.extensions.get().cloned();
        let sending = Sending { method, uri, addressed, headers, protocol, body: replay, deadline, repeat };
        (http::Request::from_parts(parts, body), sending)
    }

    /// The body from its start; `None` if more of it was read than was kept. What was sent before reads no more of it.
    pub(super) fn body_again(&self) -> Option<SentBody> {
        self.body.again()
    }

    /// The same beside the one that was sent before; `None` unless all of its body was read and kept.
    pub(super) fn body_beside(&self) -> Option<SentBody> {
        self.body.copy()
    }

    /// The same request that was made for another channel, through this one.
    pub(super) fn address(&self, request: &mut http::Request<SentBody>, shared: &Shared) {
        *request.uri_mut() = self.uri_at(&shared.service);
    }

    /// The same request through this channel with what remains of its time, as this attempt.
    pub(super) fn again(&self, body: SentBody, shared: &Shared, attempt: u8) -> http::Request<SentBody> {
        let mut request = http::Request::new(body);
        request.method_mut().clone_from(&self.method);
        *request.uri_mut() = self.uri_at(&shared.service);
        request.headers_mut().clone_from(&self.headers);
        if let Some(protocol) = &self.protocol {
            request.extensions_mut().insert(protocol.clone());
        }
        headers::write_attempt(request.headers_mut(), attempt);
        if let Some(deadline) = self.deadline {
            let remaining = deadline.saturating_duration_since(Instant::now());
            headers::write_timeout(request.headers_mut(), remaining);
        }
        request
    }

    fn uri_at(&self, service: &Authority) -> http::Uri {
        if self.addressed == Addressed::ByCaller || self.uri.authority() == Some(service) {
            return self.uri.clone();
        }
        let mut parts = self.uri.clone().into_parts();
        parts.authority = Some(service.clone());
        http::Uri::from_parts(parts).expect("one name in place of another leaves the URI whole")
    }

    /// Whether the body itself failed.
    pub(super) fn has_failed(&self) -> bool {
        self.body.has_failed()
    }

    /// Whether an attempt that may have run may be made once more.
    pub(super) fn repeat(&self) -> Repeat {
        self.kept(self.repeat)
    }

    /// The same for one that certainly did not run.
    pub(super) fn repeat_of_refused(&self) -> Repeat {
        self.kept(Repeat::Safe)
    }

    fn kept(&self, repeat: Repeat) -> Repeat {
        if repeat == Repeat::Safe && !self.body.is_kept() { Repeat::Gone } else { repeat }
    }
}

/// Requests without an authority go to the service by its name, as tonic's do.
pub(super) fn complete_uri(shared: &Shared, uri: &mut http::Uri) -> Result<Addressed, CallError> {
    let addressed = if uri.authority().is_some() { Addressed::ByCaller } else { Addressed::ByChannel };
    if uri.scheme().is_some() && addressed == Addressed::ByCaller {
        return Ok(addressed);
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority.get_or_insert_with(|| shared.service.clone());
    *uri = http::Uri::from_parts(parts).map_err(|_| CallError::BadRequest("the URI has no path that can be sent"))?;
    Ok(addressed)
}

/// What the caller says in the request's extensions, or that it waits for events; else one question, one answer.
pub(super) fn kind_of<B>(request: &http::Request<B>) -> Kind {
    let said = request.extensions().get().copied();
    said.unwrap_or(if headers::wants_events(request.headers()) { Kind::Stream } else { Kind::Unary })
}

/// What the caller says in the request's extensions; else what HTTP says of the method. gRPC has one method for
/// everything, which says nothing.
fn repeat_of<B>(request: &http::Request<B>) -> Repeat {
    let said = request.extensions().get().copied();
    let by_method = if request.method().is_idempotent() { Repeat::Safe } else { Repeat::Unsafe };
    said.unwrap_or(by_method)
}
