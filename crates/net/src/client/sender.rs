//! Sends one request on a backend's connection and says what became of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use pin_project_lite::pin_project;

use super::http2::{Http2, Received};
use super::link::{Lent, Pool};
use super::replay::SentBody;
use crate::body::BoxError;

/// Sends requests to one backend.
#[derive(Clone)]
pub(crate) enum Sender {
    Http2(Http2),
    Http1(Arc<Pool>),
}

/// An answer, and the connection it is read from where that is for one request at a time.
pub(crate) type Answer = (http::Response<AnswerBody>, Option<Lent>);

pin_project! {
    /// What is read of an answer.
    #[project = BodyProjection]
    #[derive(Debug)]
    pub(crate) enum AnswerBody {
        Http2 { #[pin] body: Received },
        Http1 { #[pin] body: Incoming },
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project() {
            BodyProjection::Http2 { body } => body.poll_frame(cx).map_err(Into::into),
            BodyProjection::Http1 { body } => body.poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Http2 { body } => body.is_end_stream(),
            AnswerBody::Http1 { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Http2 { body } => body.size_hint(),
            AnswerBody::Http1 { body } => body.size_hint(),
        }
    }
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// It certainly never ran: hyper hands it back, no connection could be made, or the backend said so in HTTP/2's
    /// own words.
    NeverRan(BoxError),
    /// It may have run.
    Broken(BoxError),
}

impl Failure {
    pub(crate) fn into_error(self) -> BoxError {
        match self {
            Failure::NeverRan(error) | Failure::Broken(error) => error,
        }
    }
}

impl Sender {
    pub(crate) async fn send(self, request: http::Request<SentBody>) -> Result<Answer, Failure> {
        match self {
            Sender::Http2(sender) => {
                let answer = sender.send(request).await?;
                Ok((answer.map(|body| AnswerBody::Http2 { body }), None))
            }
            Sender::Http1(pool) => {
                let mut lent = pool.take().await.map_err(Failure::NeverRan)?;
                let sent = lent.sender().try_send_request(in_origin_form(request)).await;
                let answer = sent.map_err(failure)?;
                lent.on_answer(answer.headers());
                Ok((answer.map(|body| AnswerBody::Http1 { body }), Some(lent)))
            }
        }
    }
}

/// HTTP/1.1 has no words for turning a request away.
fn failure(error: TrySendError<http::Request<SentBody>>) -> Failure {
    let is_handed_back = error.message().is_some();
    let error = error.into_error();
    if is_handed_back {
        return Failure::NeverRan(error.into());
    }
    Failure::Broken(error.into())
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
