//! `grpc.health.v1.Health` (A3, A4): everybody's way to ask whether this task wants requests.
//!
//! It knows the task as a whole, by the empty name, and what the program named. Asked in plain HTTP, a check answers
//! 200 or 503, for probes and clients that speak no gRPC.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};

use super::hub::{Form, Hub};
use super::refused::grpc_status;
use crate::body::{BoxBody, boxed};
use crate::wire::grpc::{self, HealthCheckRequest, HealthCheckResponse, ServingStatus};
use crate::wire::{headers, names};

/// Whose health can be asked for.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) hub: Arc<Hub>,
    pub(crate) services: Vec<String>,
}

impl Health {
    /// Answers a single check.
    pub(crate) async fn check<B: Body>(self: Arc<Self>, request: Request<B>) -> Response<BoxBody> {
        if !headers::is_grpc(request.headers()) {
            return self.check_plain();
        }
        self.hub.on_check();
        let Some(HealthCheckRequest { service }) = first_message(request.into_body()).await else {
            return grpc_status(grpc::INTERNAL, "no health check request");
        };
        if !self.knows(&service) {
            return grpc_status(grpc::NOT_FOUND, "unknown service");
        }
        let serving = self.hub.is_serving();
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        let body = Full::new(grpc::frame(&HealthCheckResponse { status: status.into() }));
        grpc_answer(boxed(body.with_trailers(std::future::ready(Some(Ok(grpc::trailers_of("0", "")))))))
    }

    /// Answers a request for the stream.
    pub(crate) async fn watch<B: Body>(self: Arc<Self>, request: Request<B>) -> Response<BoxBody> {
        let Some(HealthCheckRequest { service }) = first_message(request.into_body()).await else {
            return grpc_status(grpc::INTERNAL, "no health check request");
        };
        let form = if self.knows(&service) { Form::Health } else { Form::HealthUnknown };
        grpc_answer(self.hub.watch_health(form))
    }

    /// For those who speak no gRPC.
    pub(crate) fn check_plain(&self) -> Response<BoxBody> {
        self.hub.on_check();
        let (status, state, word) = if self.hub.is_serving() {
            (StatusCode::OK, "ready", "SERVING\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "lame_duck", "NOT_SERVING\n")
        };
        let mut response = Response::new(boxed(Full::from(word)));
        *response.status_mut() = status;
        response.headers_mut().insert(names::STATE, HeaderValue::from_static(state));
        response
    }

    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.iter().any(|known| known == service)
    }
}

/// An answer of gRPC with this body.
pub(crate) fn grpc_answer(body: BoxBody) -> Response<BoxBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The one message of a request; nothing where there is none.
async fn first_message<B: Body>(body: B) -> Option<HealthCheckRequest> {
    let mut body = pin!(body);
    let mut buffer = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        if data.remaining() > NAME_MOST {
            return None;
        }
        buffer.put(data);
        if let Some(message) = grpc::unframe(&mut buffer, NAME_MOST).ok()? {
            return Some(message);
        }
    }
    None
}

/// The name of a service is shorter.
const NAME_MOST: usize = 4096;
