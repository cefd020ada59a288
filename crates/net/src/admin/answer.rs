//! Which path gives what.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::Serialize;

use super::page::{self, PageFile};
use super::switches::Switches;
use super::{Admin, host, prometheus};

/// What every connection to the admin address meets.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) admin: Admin,
}

type Answer = http::Response<Full<Bytes>>;

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Null in the log where the system does not say.
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it reached this machine on loopback, or may have.
    pub(crate) is_loopback: bool,
}

impl Door {
    /// Answers one request; on loopback only one that names this machine itself. The head of an answer to HEAD is that of GET, and hyper leaves the body out.
    pub(crate) async fn answer(&self, request: http::Request<Incoming>, caller: Caller) -> Answer {
        if caller.is_loopback && !host::is_local(&request) {
            let why = "this address answers to localhost, 127.0.0.1 and [::1] only\n";
            return plain(StatusCode::FORBIDDEN, why);
        }
        let path = request.uri().path();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return match (path, request.method()) {
                (ADMISSION, &Method::POST) if self.admin.switches => self.switch(request, caller).await,
                (ADMISSION, _) if self.admin.switches => not_allowed("GET, HEAD, POST", "only GET, HEAD and POST\n"),
                (ADMISSION, _) => not_allowed("GET, HEAD", NO_SWITCHES),
                _ => not_allowed("GET, HEAD", "only GET and HEAD\n"),
            };
        }
        match path {
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready().await,
            "/state" => json(StatusCode::OK, &self.admin.look().await),
            ADMISSION => json(StatusCode::OK, &self.admin.switchboard().await),
            "/metrics" => {
                let text = prometheus::encode(&self.admin.look().await);
                of_type(StatusCode::OK, prometheus::CONTENT_TYPE, text)
            }
            _ => match page::FILES.iter().find(|file| file.path == path) {
                Some(file) => page_file(file, request.headers()),
                None => plain(StatusCode::NOT_FOUND, WHAT_THERE_IS),
            },
        }
    }

    /// Sets what is asked for, if all of it can be, and says what holds now.
    async fn switch(&self, request: http::Request<Incoming>, caller: Caller) -> Answer {
        if !host::is_of_own_page(&request) {
            return plain(StatusCode::FORBIDDEN, "a page of another address may not switch anything here\n");
        }
        if !is_json(request.headers()) {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, NO_JSON);
        }
        let switches = match body(request).await {
            Ok(bytes) => Switches::read(&bytes),
            Err(answer) => return answer,
        };
        let switches = match switches {
            Ok(switches) => switches,
            Err(fault) => return plain(StatusCode::BAD_REQUEST, format!("{fault}\n")),
        };
        let there_are = self.admin.servers.len();
        if there_are == 0 {
            return plain(StatusCode::NOT_FOUND, "no server is shown here: there is nothing to switch\n");
        }
        if let Some(server) = switches.server.filter(|server| *server > there_are) {
            let fault = format!("server = {server} is not possible: there are {there_are}, counted from 1\n");
            return plain(StatusCode::NOT_FOUND, fault);
        }
        let now = self.admin.switch(&switches).await;
        let (asked, in_force) = (switches.to_string(), now.in_force(&switches));
        tracing::info!(peer = ?caller.peer, asked, in_force, "overload control was switched at the admin address");
        let status = if now.has_answers_to(&switches) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json(status, &now)
    }

    async fn ready(&self) -> Answer {
        let trouble = self.admin.look().await.trouble();
        if trouble.is_empty() {
            return plain(StatusCode::OK, "ready\n");
        }
        plain(StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n{}\n", trouble.join("\n")))
    }
}

/// A form cannot say this, and a script of another address would have to ask first, which is refused.
fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    said.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON))
}

async fn body(request: http::Request<Incoming>) -> Result<Bytes, Answer> {
    let reading = Limited::new(request.into_body(), BODY_BYTES_MOST).collect();
    match tokio::time::timeout(BODY_WITHIN, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(plain(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {BODY_BYTES_MOST} bytes\n")))
        }
        Ok(Err(error)) => Err(plain(StatusCode::BAD_REQUEST, format!("the body ended early: {error}\n"))),
        Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {BODY_WITHIN:?}\n"))),
    }
}

/// A page's file is asked for again each time, and sent only if it is another one.
fn page_file(file: &PageFile, asked: &HeaderMap) -> Answer {
    let etag = file.etag();
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut answer = if is_known {
        of_type(StatusCode::NOT_MODIFIED, file.content_type, "")
    } else {
        of_type(StatusCode::OK, file.content_type, file.text)
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ETAG, HeaderValue::try_from(etag).expect("hexadecimal digits in quotes"));
    answer
}

fn not_allowed(allowed: &'static str, why: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, why);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn json(status: StatusCode, shown: &impl Serialize) -> Answer {
    match serde_json::to_vec(shown) {
        Ok(json) => of_type(status, JSON, json),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    of_type(status, "text/plain; charset=utf-8", text)
}

fn of_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = http::Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

const ADMISSION: &str = "/admission";
const JSON: &str = "application/json";
/// Every switch of a server takes 200.
const BODY_BYTES_MOST: usize = 4096;
const BODY_WITHIN: Duration = Duration::from_secs(5);
const NO_JSON: &str = "send JSON as such: content-type: application/json, or curl --json\n";
const NO_SWITCHES: &str =
    "only GET and HEAD: this address shows and changes nothing, unless its program says with_switches\n";
const WHAT_THERE_IS: &str = "\
nothing here; there is:
/           the live page
/state      everything that is known, as JSON
/admission  what overload control may do; with POST, where the program allows it, its switches
/metrics    the state for Prometheus
/healthz    200 while the process answers
/readyz     200 when it can serve, else 503 and why
";
