//! One connection, served until it ends: HTTP/1.1 or HTTP/2, as its client begins.

use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::watch;

use super::beginning::Beginning;
use super::body::Answer;
use super::driver::Stage;
use super::handle::reached;
use super::serve::Served;
use crate::body::BoxError;

/// Serves the connection until it ends; closes it gracefully once the server closes.
pub(crate) async fn connection<I, S, B>(stream: I, served: Served<S>, mut stage: watch::Receiver<Stage>)
where
    I: Read + Write + Unpin + Send + 'static,
    S: tower_service::Service<http::Request<Incoming>, Response = http::Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    Answer<B>: Send,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // So that peers that vanished, or never begin or finish their head, do not hold a connection or a drain.
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT);
    // An upload that nobody reads must leave room for the others on its connection, our watch among them.
    builder.http2().initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    // So that web sockets work, over either.
    builder.http2().enable_connect_protocol();
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(Beginning::new(stream), served));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = reached(&mut stage, Stage::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended");
    }
}

/// As channels ping: a peer that is gone is noticed within 15 s.
const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
const PING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// As hyper has it: what is on its way to a handler that does not read.
const STREAM_WINDOW: u32 = 1 << 20;
/// As many streams may be left unread.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;
