//! Does what a request asks, for gRPC and for plain HTTP alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use evenkeel::{Channel, Context};
use evenkeel_core::{Criticality, Rng};
use http::{HeaderMap, StatusCode, header};
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::{Code, Request, Status};

use super::processors::Processors;
use crate::load::ANSWER_MOST;
use crate::work::{Demo, DemoClient, WorkRequest, WorkResponse};

/// A backend's own part in every answer.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) processors: Processors,
    /// Share of all requests that fail at once.
    pub(crate) error_rate: f64,
    /// Whether it does less where it is asked to.
    pub(crate) can_degrade: bool,
    pub(crate) chance: Mutex<Rng>,
    pub(crate) answered: AtomicU64,
    /// Backends that do the same for each request before it is answered.
    pub(crate) next: Option<Channel>,
}

/// Why there is no answer.
#[derive(Debug)]
enum Failed {
    /// It was drawn to fail.
    Drawn,
    /// The next layer answered so.
    Next(Status),
}

impl Worker {
    async fn work(&self, work: &WorkRequest) -> Result<WorkResponse, Failed> {
        let context = Context::current().unwrap_or_default();
        let left = context.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let drawn = self.is_drawn(self.error_rate) || self.is_drawn(work.fail_ratio);
        if !drawn {
            self.processors.work(self.share_of(Duration::from_micros(work.cpu_us))).await;
            if work.sleep_us > 0 {
                tokio::time::sleep(Duration::from_micros(work.sleep_us)).await;
            }
        }
        let next = match &self.next {
            Some(next) if !drawn => Some(ask_next(next, work).await),
            _ => None,
        };
        self.answered.fetch_add(1, Ordering::Relaxed);
        if drawn {
            return Err(Failed::Drawn);
        }
        Ok(WorkResponse {
            next: next.transpose().map_err(Failed::Next)?.map(Box::new),
            customer: context.customer.as_deref().unwrap_or_default().to_owned(),
            deadline_us: left.map(|left| left.as_micros() as u64),
            backend: self.name.clone(),
            attempt: u32::from(context.attempt.unwrap_or(0)),
            criticality: context.criticality.map(Criticality::as_str).unwrap_or_default().to_owned(),
            payload: Bytes::from(vec![FILLING; usize::try_from(work.bytes).unwrap_or(usize::MAX)]),
        })
    }

    /// What is done of the work: all of it, unless less is asked for and known to be enough.
    fn share_of(&self, cpu: Duration) -> Duration {
        let Some(context) = Context::current().filter(|_| self.can_degrade) else { return cpu };
        let level = context.degrade().min(DEGRADE_MOST);
        if level == 0 || cpu.is_zero() {
            return cpu;
        }
        context.mark_degraded(level);
        cpu.mul_f64(1.0 - f64::from(level) / 4.0)
    }

    fn is_drawn(&self, ratio: f64) -> bool {
        ratio > 0.0 && self.chance.lock().unwrap_or_else(PoisonError::into_inner).unit() < ratio
    }
}

#[tonic::async_trait]
impl Demo for Worker {
    async fn work(&self, request: Request<WorkRequest>) -> Result<tonic::Response<WorkResponse>, Status> {
        let work = request.into_inner();
        work.check().map_err(|bad| Status::invalid_argument(bad.to_string()))?;
        match Worker::work(self, &work).await {
            Ok(answer) => Ok(tonic::Response::new(answer)),
            Err(Failed::Drawn) => Err(Status::internal(FAILED)),
            Err(Failed::Next(status)) => Err(status),
        }
    }
}

/// Asks for the same there, but for a payload: what the request is to this layer it is to the next.
async fn ask_next(next: &Channel, work: &WorkRequest) -> Result<WorkResponse, Status> {
    let mut client = DemoClient::new(next.clone()).max_decoding_message_size(ANSWER_MOST);
    client.work(WorkRequest { bytes: 0, ..*work }).await.map(tonic::Response::into_inner)
}

/// Answers `/work?cpu_us=…`.
pub(crate) async fn answer_http(worker: Arc<Worker>, RawQuery(query): RawQuery) -> Response {
    let work = match WorkRequest::from_query(&query.unwrap_or_default()) {
        Ok(work) => work,
        Err(bad) => return json_answer(StatusCode::BAD_REQUEST, &json!({ "error": bad.to_string() })),
    };
    match worker.work(&work).await {
        Ok(answer) => json_answer(StatusCode::OK, &json_of(&answer)),
        Err(Failed::Drawn) => json_answer(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": FAILED })),
        Err(Failed::Next(status)) => {
            let code = match status.code() {
                Code::Unavailable | Code::ResourceExhausted => StatusCode::SERVICE_UNAVAILABLE,
                Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::BAD_GATEWAY,
            };
            json_answer(code, &json!({ "error": format!("the next layer: {}", status.message()) }))
        }
    }
}

fn json_of(answer: &WorkResponse) -> Value {
    let WorkResponse { backend, attempt, criticality, payload, customer, deadline_us, next } = answer;
    let mut json = json!({
        "backend": backend,
        "attempt": attempt,
        "criticality": criticality,
        "customer": customer,
        "deadline_us": deadline_us,
        "payload": String::from_utf8_lossy(payload),
    });
    if let Some(next) = next {
        json["next"] = json_of(next);
    }
    json
}

/// Whatever is asked for that is not there.
pub(crate) async fn answer_unknown(headers: HeaderMap) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    if kind.starts_with(b"application/grpc") {
        return Status::unimplemented("no such method: ask for evenkeel.demo.v1.Demo/Work").into_http();
    }
    json_answer(StatusCode::NOT_FOUND, &json!({ "error": "no such path: ask for /work?cpu_us=1000" }))
}

fn json_answer(status: StatusCode, answer: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{answer}\n")).into_response()
}

/// There are three levels; a quarter of the work is done at the last one.
const DEGRADE_MOST: u8 = 3;
const FILLING: u8 = b'.';
const FAILED: &str = "this request was drawn to fail, by its fail_ratio or the backend's --error-rate";
