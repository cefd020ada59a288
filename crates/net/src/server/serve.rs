//! What a request meets on its way to the handler and back: gate, context, load report.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::server::{Admission, Gate, ServerRefusal};
use evenkeel_core::{CustomerId, Kind, Outcome, Rng};
use hyper::body::Incoming;
use tokio::time::Instant;
use tower_service::Service;

use super::body::{Answered, ServedBody};
use super::hub::Hub;
use crate::body::{BoxBody, BoxError, boxed, empty};
use crate::clock::Clock;
use crate::context::{Context, Defaults, InContext, resolve};
use crate::wire::{grpc, headers, names, outcome};

/// What every connection of a server shares.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) gate: Arc<Gate>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: Clock,
}

/// The service of one connection: the caller's, behind the gate.
#[derive(Clone)]
pub(crate) struct Served<S> {
    pub(crate) door: Door,
    pub(crate) inner: S,
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<BoxBody>, BoxError>> + Send>>;

impl<S, B> hyper::service::Service<http::Request<Incoming>> for Served<S>
where
    S: Service<http::Request<Incoming>, Response = http::Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<BoxBody>;
    type Error = BoxError;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        match request.uri().path() {
            grpc::WATCH_PATH => Box::pin(std::future::ready(Ok(self.door.hub.watch(request)))),
            grpc::HEALTH_WATCH_PATH => Box::pin(std::future::ready(Ok(self.door.hub.watch_health()))),
            grpc::HEALTH_CHECK_PATH => Box::pin(std::future::ready(Ok(self.door.hub.check_health()))),
            _ => Box::pin(serve(self.door.clone(), self.inner.clone(), request)),
        }
    }
}

async fn serve<S, B>(
    door: Door,
    mut inner: S,
    request: http::Request<Incoming>,
) -> Result<http::Response<BoxBody>, BoxError>
where
    S: Service<http::Request<Incoming>, Response = http::Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let now = Instant::now();
    let resolved = resolve(now, request.extensions(), request.headers(), None, Defaults::default());
    let meta = resolved.meta(door.clock, Kind::Unary, CustomerId::default());
    let of = Answered { is_grpc: headers::is_grpc(request.headers()), is_head: request.method() == http::Method::HEAD };
    let admission = match super::seat::with(|local, rng: &mut Rng| door.gate.admit(local, door.clock.now(), &meta, rng))
    {
        Ok(admission) => Admitted { door: door.clone(), admission: Some(admission) },
        Err(refusal) => return Ok(refused(refusal, of.is_grpc)),
    };
    let mut context = Context::serving().with_criticality(resolved.criticality);
    context.deadline = resolved.deadline;
    context.attempt = Some(resolved.attempt);
    context.customer.clone_from(&resolved.customer);

    let handled = async {
        std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
        inner.call(request).await
    };
    let response = match context.clone().scope(handled).await {
        Ok(response) => response,
        Err(error) => {
            admission.finish(Outcome::Failed);
            return Err(error.into());
        }
    };
    let (parts, body) = response.into_parts();
    let verdict = outcome::outcome_of(parts.status, &parts.headers);
    let body = ServedBody::new(InContext::new(context, body), admission, verdict, of);
    let mut response = http::Response::from_parts(parts, boxed(body));
    super::body::report_in_head(&door.gate, response.headers_mut(), of.is_grpc);
    Ok(response)
}

/// A request that is being served until it is finished, also if its client goes away.
pub(crate) struct Admitted {
    pub(crate) door: Door,
    admission: Option<Admission>,
}

impl Admitted {
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(admission) = self.admission.take() {
            self.door.gate.finish(self.door.clock.now(), admission, outcome);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // A handler that panics is at fault; one whose client went away is not.
        self.give_back(if std::thread::panicking() { Outcome::Failed } else { Outcome::Cancelled });
    }
}

/// A refusal is cheap: a head and nothing else.
fn refused(refusal: ServerRefusal, is_grpc: bool) -> http::Response<BoxBody> {
    let (status, code, reason) = match refusal {
        ServerRefusal::TooLate => (http::StatusCode::GATEWAY_TIMEOUT, "4", "too_late"),
        ServerRefusal::Closed => (http::StatusCode::SERVICE_UNAVAILABLE, "14", "closed"),
    };
    let mut response = http::Response::new(empty());
    if is_grpc {
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
        headers.insert(names::GRPC_STATUS, http::HeaderValue::from_static(code));
        headers.insert(names::GRPC_MESSAGE, grpc::encode_status_message(&refusal.to_string()));
    } else {
        *response.status_mut() = status;
    }
    response.headers_mut().insert(names::REFUSED, http::HeaderValue::from_static(reason));
    response
}
