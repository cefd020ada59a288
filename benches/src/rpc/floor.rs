//! What a call costs without a channel: connections taken in turn, no deadline, no count, nothing lost is replaced.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, StdError};

async fn stream(backend: &str) -> Result<TcpStream, StdError> {
    let stream = TcpStream::connect(backend).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Takes one of several in turn.
struct Turn<T> {
    of: Vec<T>,
    next: AtomicUsize,
}

impl<T: Clone> Turn<T> {
    fn take(&self) -> T {
        self.of[self.next.fetch_add(1, Ordering::Relaxed) % self.of.len()].clone()
    }
}

/// Hyper's client connections.
#[derive(Clone)]
pub struct OnHyper(Arc<Turn<hyper::client::conn::http2::SendRequest<Body>>>);

impl OnHyper {
    pub async fn connect(backends: &[String]) -> Result<Self, StdError> {
        let mut of = Vec::new();
        for backend in backends {
            let io = TokioIo::new(stream(backend).await?);
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            of.push(sender);
        }
        Ok(OnHyper(Arc::new(Turn { of, next: AtomicUsize::new(0) })))
    }
}

impl tower::Service<Request<Body>> for OnHyper {
    type Response = Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<Self::Response, hyper::Error>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.take().send_request(request))
    }
}

/// Client connections of the h2 crate, which answer the caller's task without one between.
#[derive(Clone)]
pub struct OnH2(Arc<Turn<h2::client::SendRequest<Bytes>>>);

impl OnH2 {
    pub async fn connect(backends: &[String]) -> Result<Self, StdError> {
        let mut of = Vec::new();
        for backend in backends {
            let (sender, connection) = h2::client::Builder::new()
                .initial_window_size(2 << 20)
                .initial_connection_window_size(5 << 20)
                .handshake(stream(backend).await?)
                .await?;
            tokio::spawn(connection);
            of.push(sender);
        }
        Ok(OnH2(Arc::new(Turn { of, next: AtomicUsize::new(0) })))
    }
}

impl tower::Service<Request<Body>> for OnH2 {
    type Response = Response<Received>;
    type Error = StdError;
    type Future = BoxFuture<Self::Response, StdError>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sender = self.0.take();
        Box::pin(async move {
            let mut sender = sender.ready().await?;
            let (parts, body) = request.into_parts();
            let (response, mut sending) = sender.send_request(Request::from_parts(parts, ()), false)?;
            let mut body = pin!(body);
            let mut held: Option<Bytes> = None;
            loop {
                let next = poll_fn(|cx| body.as_mut().poll_frame(cx)).await.transpose()?;
                let data = next.and_then(|frame| frame.into_data().ok());
                // The last frame says that it is: nothing empty follows it.
                let is_end = data.is_none();
                if let Some(held) = held.take() {
                    sending.send_data(held, is_end)?;
                }
                if is_end {
                    break;
                }
                held = data;
            }
            Ok(response.await?.map(Received))
        })
    }
}

/// The body of an answer.
pub struct Received(h2::RecvStream);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(data) = ready!(self.0.poll_data(cx)) {
            let data = data?;
            self.0.flow_control().release_capacity(data.len())?;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.0.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
