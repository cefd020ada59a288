//! HTTP/2 connections as a channel uses them: on the h2 crate, in the caller's own task (decision 8).
//!
//! Between hyper's client and its caller are a queue to the connection's task, a task for each answer and a queue back.
//! Without them a call costs about a fifth less (`./bench rpc`), because all callers that are ready write into one
//! buffer before the connection's task sends it.

mod places;
mod pump;
mod received;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Method;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE};
use http_body::Body;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;

use self::places::Places;
use self::pump::{Pump, Pumping};
pub(crate) use self::received::Received;
use super::sender::Failure;
use crate::body::BoxError;

/// Sends requests over one connection.
#[derive(Clone)]
pub(crate) struct Http2 {
    h2: SendRequest<Bytes>,
    places: Arc<Places>,
}

/// Speaks HTTP/2 over the stream. The connection ends when the last sender and the last stream are gone; it must be
/// polled.
pub(crate) async fn handshake<S>(
    stream: S,
    streams_at_first: usize,
) -> Result<(Http2, impl Future<Output = Result<(), BoxError>> + Send), BoxError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let (h2, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_max_send_streams(streams_at_first)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS_MOST)
        .max_send_buffer_size(SEND_BUFFER_MOST)
        .handshake(TokioIo::new(stream))
        .await?;
    Ok((Http2 { h2, places: Arc::default() }, async move { Ok(connection.await?) }))
}

impl Http2 {
    /// Sends a request once the peer has a place for it, and waits for the head of its answer. What of its body is
    /// there is sent at once; the rest of a longer one goes on by itself until the answer is let go, as a gRPC call is
    /// over when its answer is. Dropping this, or the answer before its end, resets the stream.
    pub(crate) async fn send<B>(mut self, mut request: http::Request<B>) -> Result<http::Response<Received>, Failure>
    where
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        let _place = self.places.take(|| self.h2.current_max_send_streams()).await;
        prepare(&mut request);
        let is_head = *request.method() == Method::HEAD;
        let (parts, body) = request.into_parts();
        let is_end = body.is_end_stream();
        // Whatever is wrong, nothing has been sent.
        let sent = self.h2.send_request(http::Request::from_parts(parts, ()), is_end);
        let (mut answer, sending) = sent.map_err(|error| Failure::NeverRan(error.into()))?;
        let mut pump = (!is_end).then(|| Box::pin(Pump::new(body, sending)));
        let response = std::future::poll_fn(|cx| {
            if let Some(pumping) = &mut pump
                && let Poll::Ready(pumped) = pumping.as_mut().poll(cx)
            {
                pump = None;
                pumped.map_err(Failure::Broken)?;
            }
            Pin::new(&mut answer).poll(cx).map_err(failure)
        });
        let response = response.await?;
        let pumping = pump.map(Pumping::spawn);
        let length = if is_head { None } else { length(response.headers()) };
        Ok(response.map(|stream| Received::new(stream, length, pumping)))
    }
}

/// A peer says that it did not look at a request by `REFUSED_STREAM`, or by a GOAWAY below its stream. (h2 gives a
/// peer's GOAWAY only to streams above the last that the peer took.)
fn failure(error: h2::Error) -> Failure {
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && (is_refused || error.is_go_away()) {
        return Failure::NeverRan(error.into());
    }
    Failure::Broken(error.into())
}

/// Whether an answer broke off because this end reset it: its request's body failed.
pub(crate) fn is_own_reset(error: &BoxError) -> bool {
    let error = error.downcast_ref::<h2::Error>();
    error.is_some_and(|error| error.is_reset() && !error.is_remote() && !error.is_library())
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// HTTP/2 knows no headers about the connection, and length is told where it is known.
fn prepare<B: Body>(request: &mut http::Request<B>) {
    let length = request.body().size_hint().exact();
    // An empty body needs no length where none is expected.
    let is_expected = !matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE | Method::CONNECT);
    let headers = request.headers_mut();
    let (mut has_length, mut is_foreign) = (false, false);
    for (name, value) in &*headers {
        match name.as_str() {
            "content-length" => has_length = true,
            "te" => is_foreign |= value != "trailers",
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => is_foreign = true,
            _ => {}
        }
    }
    if is_foreign {
        strip(headers);
    }
    if let Some(length) = length.filter(|length| !has_length && (*length > 0 || is_expected)) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

fn strip(headers: &mut HeaderMap) {
    if let Some(named) = headers.remove(CONNECTION) {
        for name in named.as_bytes().split(|byte| *byte == b',') {
            if let Ok(name) = HeaderName::from_bytes(name.trim_ascii()) {
                headers.remove(name);
            }
        }
    }
    for name in ["keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        headers.remove(name);
    }
    if headers.get_all(TE).iter().any(|value| value != "trailers") {
        headers.remove(TE);
    }
}

/// What may be on its way to one reader.
const STREAM_WINDOW: u32 = 1 << 20;
/// So many readers may leave their answers unread before notices and pings, which are data too, cannot get through.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;
const HEADERS_MOST: u32 = 16 << 10;
const SEND_BUFFER_MOST: usize = 1 << 20;
