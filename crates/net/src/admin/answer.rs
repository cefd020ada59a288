//! Which path gives what.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use http_body_util::Full;

use super::page::{self, PageFile};
use super::{Admin, host, prometheus};

/// What every connection to the admin address meets.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) admin: Admin,
}

type Answer = http::Response<Full<Bytes>>;

impl Door {
    /// Answers one request; on loopback only one that names this machine itself. The head of an answer to HEAD is that of GET, and hyper leaves the body out.
    pub(crate) async fn answer<B>(&self, request: &http::Request<B>, is_loopback: bool) -> Answer {
        if is_loopback && !host::is_local(request) {
            let why = "this address answers to localhost, 127.0.0.1 and [::1] only\n";
            return plain(StatusCode::FORBIDDEN, why);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let path = request.uri().path();
        match path {
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready().await,
            "/state" => self.state().await,
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

    async fn ready(&self) -> Answer {
        let trouble = self.admin.look().await.trouble();
        if trouble.is_empty() {
            return plain(StatusCode::OK, "ready\n");
        }
        plain(StatusCode::SERVICE_UNAVAILABLE, format!("not ready\n{}\n", trouble.join("\n")))
    }

    async fn state(&self) -> Answer {
        match serde_json::to_vec(&self.admin.look().await) {
            Ok(json) => of_type(StatusCode::OK, "application/json", json),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
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

const WHAT_THERE_IS: &str = "\
nothing here; there is:
/         the live page
/state    everything that is known, as JSON
/metrics  the same for Prometheus
/healthz  200 while the process answers
/readyz   200 when it can serve, else 503 and why
";
