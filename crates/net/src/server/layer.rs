//! Only the layer, inside a server of the caller's: gate, context, load report, health and watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tokio::task::AbortHandle;
use tower_service::Service;

use super::body::Answer;
use super::serve::{Door, Served, Serving};
use super::{Handle, Server};
use crate::body::BoxError;

/// The layer alone, for programs that have a server already: axum's, tonic's, or any that serves a tower service.
///
/// It does all that [`Server`] does but own the connections. It wants requests as soon as it is made; what it hears of
/// [`Handle::stop`], or of SIGTERM once [`Handle::drained`] is awaited, makes it a lame duck that drains.
/// For other settings: [`Server::layer`].
///
/// ```no_run
/// # async fn example(app: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
/// let (layer, handle) = evenkeel::layer();
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app.layer(layer)).with_graceful_shutdown(handle.drained()).await?;
/// # Ok(())
/// # }
/// ```
#[expect(clippy::missing_panics_doc, reason = "the defaults are possible")]
pub fn layer() -> (Layer, Handle) {
    Server::new().layer().expect("the default settings are possible")
}

/// Puts services behind the gate: see [`layer()`].
#[derive(Clone, Debug)]
pub struct Layer {
    door: Arc<Door>,
}

impl Layer {
    pub(crate) fn new(door: Arc<Door>) -> Self {
        Layer { door }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Layered<S>;

    fn layer(&self, inner: S) -> Layered<S> {
        Layered { served: Served { door: Arc::clone(&self.door), peer: None, inner } }
    }
}

/// A service behind the gate: see [`layer()`].
#[derive(Clone, Debug)]
pub struct Layered<S> {
    served: Served<S>,
}

impl<S, R, B> Service<Request<R>> for Layered<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
    B: Body<Data = bytes::Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Serving<S, R>;

    /// Always: each request waits for the service itself, so that health, watch and deadlines do not.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<R>) -> Serving<S, R> {
        if let Some(engine) = &self.served.door.engine {
            engine.start();
        }
        // A clone of its own for each request: the one that is waited for is the one that is called.
        self.served.begin(self.served.inner.clone(), request)
    }
}

/// Drives the brain of a layer, from the first moment inside a runtime until the layer is gone.
pub(crate) struct Engine {
    parked: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    running: OnceLock<AbortHandle>,
}

impl Engine {
    pub(crate) fn new(driving: impl Future<Output = ()> + Send + 'static) -> Self {
        let engine = Engine { parked: Mutex::new(Some(Box::pin(driving))), running: OnceLock::new() };
        if tokio::runtime::Handle::try_current().is_ok() {
            engine.start();
        }
        engine
    }

    /// Without effect once it runs. Only inside a runtime.
    pub(crate) fn start(&self) {
        if self.running.get().is_some() {
            return;
        }
        let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(driving) = parked {
            let running = tokio::spawn(driving).abort_handle();
            self.running.set(running).expect("it is started by whoever took it");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(running) = self.running.get() {
            running.abort();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("running", &self.running).finish_non_exhaustive()
    }
}
