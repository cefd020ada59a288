//! One request of the demo service through the channel, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::body::empty;
use evenkeel::clock::Clock;
use evenkeel::wire::names;
use evenkeel::{CallError, Channel, Context};
use evenkeel_core::Criticality;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use tower_service::Service;

use crate::work::{BYTES_MOST, DemoClient, WorkRequest};

/// Makes requests; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) clock: Clock,
    pub(crate) channel: Channel,
    pub(crate) form: Form,
    pub(crate) criticality: Criticality,
    pub(crate) customer: Option<Arc<str>>,
    /// What an answer may take.
    pub(crate) deadline: Duration,
}

/// How the service is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Grpc,
    Http,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Answered by this backend.
    Ok(String),
    /// Answered by this backend with less than was asked for.
    Degraded(String),
    /// Why it failed, in a word or two.
    Failed(String),
    /// Why it was not worked on, by the name that metrics have.
    Refused(String),
}

impl Caller {
    pub(crate) async fn call(&self, work: &WorkRequest) -> Reply {
        let deadline = self.clock.instant_of(self.clock.now() + self.deadline);
        let mut context = Context::default().with_criticality(self.criticality).with_deadline(deadline);
        context.customer.clone_from(&self.customer);
        match self.form {
            Form::Grpc => self.call_grpc(work, context).await,
            Form::Http => self.call_http(work, context).await,
        }
    }

    async fn call_grpc(&self, work: &WorkRequest, context: Context) -> Reply {
        let mut client = DemoClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_MOST);
        let mut request = tonic::Request::new(*work);
        request.extensions_mut().insert(context);
        match client.work(request).await {
            Ok(answer) => {
                let is_degraded = answer.metadata().contains_key(names::DEGRADED.as_str());
                answered(is_degraded, answer.into_inner().backend)
            }
            Err(status) => of_status(&status),
        }
    }

    async fn call_http(&self, work: &WorkRequest, context: Context) -> Reply {
        let uri = format!("http://{}/work?{}", self.channel.service(), work.query());
        let request = match http::Request::get(uri).extension(context).body(empty()) {
            Ok(request) => request,
            Err(error) => return Reply::Failed(error.to_string()),
        };
        let (head, body) = match self.channel.clone().call(request).await {
            Ok(answer) => answer.into_parts(),
            Err(error) => return of_error(&error),
        };
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return of_error(&CallError::Broken(error)),
        };
        match head.status {
            StatusCode::OK => match serde_json::from_slice(&body) {
                Ok(Answered { backend }) => answered(head.headers.contains_key(names::DEGRADED), backend),
                Err(_) => Reply::Failed("http 200, no answer of the demo service".to_owned()),
            },
            status => refused_by(&head.headers).unwrap_or_else(|| Reply::Failed(format!("http {}", status.as_u16()))),
        }
    }
}

/// The part of an HTTP answer that is looked at.
#[derive(Debug, Deserialize)]
struct Answered {
    backend: String,
}

fn answered(is_degraded: bool, backend: String) -> Reply {
    if is_degraded { Reply::Degraded(backend) } else { Reply::Ok(backend) }
}

fn of_status(status: &tonic::Status) -> Reply {
    let headers = status.metadata().clone().into_headers();
    let local = headers.get(names::LOCAL).and_then(|name| name.to_str().ok());
    let failed = || Reply::Failed(local.map_or_else(|| format!("grpc {:?}", status.code()), str::to_owned));
    refused_by(&headers).unwrap_or_else(failed)
}

fn of_error(error: &CallError) -> Reply {
    match error {
        CallError::Refused(refusal) => Reply::Refused(refusal.as_str().to_owned()),
        error => Reply::Failed(error.as_str().to_owned()),
    }
}

/// Whoever refuses says why, a backend or the channel itself.
fn refused_by(headers: &HeaderMap) -> Option<Reply> {
    let reason = headers.get(names::REFUSED)?.to_str().unwrap_or("unreadable reason");
    Some(Reply::Refused(reason.split(';').next().unwrap_or(reason).to_owned()))
}

/// Failed since no connection that was tried took it.
pub(super) const UNSENT: &str = "unsent";
/// The largest payload, and what is around it.
pub(crate) const ANSWER_MOST: usize = BYTES_MOST as usize + 64 * 1024;
