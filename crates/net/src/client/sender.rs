//! Sends one request on a backend's connection and says what became of it.

use std::error::Error;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};

use super::link::{Lent, Pool};
use super::replay::SentBody;
use crate::body::BoxError;

/// Sends requests to one backend.
#[derive(Clone)]
pub(crate) enum Sender {
    Http2(http2::SendRequest<SentBody>),
    Http1(Arc<Pool>),
}

/// An answer, and the connection it is read from where that is for one request at a time.
pub(crate) type Answer = (http::Response<Incoming>, Option<Lent>);

/// Why there is no answer.
pub(crate) enum Failure {
    /// It certainly never ran: hyper hands it back, no connection could be made, or the backend said so in HTTP/2's
    /// own words.
    NeverRan(BoxError),
    /// It may have run.
    Broken(BoxError),
}

impl Sender {
    pub(crate) async fn send(self, request: http::Request<SentBody>) -> Result<Answer, Failure> {
        match self {
            Sender::Http2(mut sender) => {
                let sent = sender.try_send_request(request).await;
                sent.map(|answer| (answer, None)).map_err(|error| failure(error, was_turned_away))
            }
            Sender::Http1(pool) => {
                let mut lent = pool.take().await.map_err(Failure::NeverRan)?;
                let sent = lent.sender().try_send_request(in_origin_form(request)).await;
                // HTTP/1.1 has no words for turning a request away.
                let answer = sent.map_err(|error| failure(error, |_| false))?;
                lent.on_answer(answer.headers());
                Ok((answer, Some(lent)))
            }
        }
    }
}

fn failure(
    error: TrySendError<http::Request<SentBody>>,
    was_turned_away: impl FnOnce(&hyper::Error) -> bool,
) -> Failure {
    let is_handed_back = error.message().is_some();
    let error = error.into_error();
    if is_handed_back || was_turned_away(&error) {
        return Failure::NeverRan(error.into());
    }
    Failure::Broken(error.into())
}

/// Whether the peer said that it did not look at the request: `REFUSED_STREAM`, or a GOAWAY below its stream. (h2 gives
/// a peer's GOAWAY only to streams above the last that the peer took.)
fn was_turned_away(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(reason) = error.downcast_ref::<h2::Error>() {
            let is_refused = reason.is_reset() && reason.reason() == Some(h2::Reason::REFUSED_STREAM);
            return reason.is_remote() && (is_refused || reason.is_go_away());
        }
        cause = error.source();
    }
    false
}

/// HTTP/1.1 has the path in its first line and the authority in a header.
fn in_origin_form(mut request: http::Request<SentBody>) -> http::Request<SentBody> {
    let uri = std::mem::take(request.uri_mut());
    if let Some(authority) = uri.authority().and_then(|name| http::HeaderValue::from_str(name.as_str()).ok()) {
        request.headers_mut().entry(http::header::HOST).or_insert(authority);
    }
    *request.uri_mut() = uri.path_and_query().map(|path| http::Uri::from(path.clone())).unwrap_or_default();
    *request.version_mut() = http::Version::HTTP_11;
    request
}
