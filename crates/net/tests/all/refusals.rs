//! A server that is told it has too much: what clients read that know nothing of us, and what the switch does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::echo::{Echo, EchoClient, ask};
use crate::plain;
use crate::plain::get;
use crate::support::{listener, until};
use evenkeel::server::Handle;
use evenkeel::wire::headers;
use evenkeel::{Context, Server};
use evenkeel_core::server::Usage;
use evenkeel_core::{Mode, ServerConfig};
use tonic::{Code, Request, service::Routes};
use tower::service_fn;

/// How full a resource of the service is, in hundredths.
#[derive(Clone, Default)]
struct Fullness(Arc<AtomicU32>);

impl Fullness {
    fn set(&self, hundredths: u32) {
        self.0.store(hundredths, Ordering::Relaxed);
    }

    fn server(&self) -> Server {
        let full = Arc::clone(&self.0);
        let usage =
            move || Usage { plugged: Some(f64::from(full.load(Ordering::Relaxed)) / 100.0), ..Usage::default() };
        Server::new().without_signals().with_usage(usage)
    }
}

async fn grpc(server: Server) -> (SocketAddr, Handle) {
    let listener = listener().await;
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    tokio::spawn(async move { server.serve(listener, Routes::new(Echo)).await.unwrap() });
    (address, handle)
}

/// Says how much cheaper it is asked to be, and is.
async fn cheap(_: http::Request<hyper::body::Incoming>) -> Result<http::Response<String>, Infallible> {
    let context = Context::current().unwrap();
    context.mark_degraded(context.degrade().max(1));
    Ok(http::Response::new(context.degrade().to_string()))
}

async fn http(server: Server) -> (SocketAddr, Handle) {
    let listener = listener().await;
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    tokio::spawn(async move { server.serve(listener, service_fn(cheap)).await.unwrap() });
    (address, handle)
}

fn sheddable() -> http::Request<evenkeel::body::BoxBody> {
    let mut request = get("/");
    request.headers_mut().insert("evenkeel-criticality", http::HeaderValue::from_static("SHEDDABLE"));
    request
}

#[tokio::test]
async fn tonics_client_is_sent_elsewhere_and_then_told_not_to_retry() {
    let full = Fullness::default();
    full.set(100);
    let (address, _handle) = grpc(full.server()).await;
    let channel = tonic::transport::Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = EchoClient::new(channel);
    let request = |attempts: Option<&'static str>| {
        let mut request = Request::new(ask("hello"));
        request.metadata_mut().insert("evenkeel-criticality", "SHEDDABLE".parse().unwrap());
        if let Some(attempts) = attempts {
            request.metadata_mut().insert("grpc-previous-rpc-attempts", attempts.parse().unwrap());
        }
        request
    };

    let mut first = None;
    until("it refuses", async || {
        first = client.once(request(None)).await.err();
        first.is_some()
    })
    .await;

    let status = first.unwrap();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "this task is overloaded and serves what matters more")
    );
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "1");
    assert_eq!(status.metadata().get("evenkeel-refused").unwrap(), "overloaded");
    let hint = headers::read_admit(status.metadata().as_ref()).unwrap();
    assert!(hint.cutoff.value() >= 1.0, "{hint:?}");

    // Many come from tasks that refused them before: so does the whole service.
    let mut last = None;
    until("it says not to retry", async || {
        last = client.once(request(Some("1"))).await.err();
        last.as_ref().is_some_and(|status| status.code() == Code::ResourceExhausted)
    })
    .await;
    let status = last.unwrap();
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    assert_eq!(status.metadata().get("x-envoy-ratelimited").unwrap(), "true");
    assert!(status.details().windows(18).any(|bytes| bytes == b"SERVICE_OVERLOADED"));
}

#[tokio::test]
async fn plain_http_is_refused_until_admission_is_switched_off_and_again_when_it_is_on() {
    let full = Fullness::default();
    full.set(100);
    let (address, handle) = http(full.server()).await;
    let mut sender = plain::http1(address).await;
    let mut ask = async || {
        sender.ready().await.unwrap();
        plain::read(sender.send_request(sheddable()).await.unwrap()).await.0
    };

    until("it refuses", async || ask().await.status == 503).await;
    let head = ask().await;
    assert_eq!(
        (&head.headers["retry-after"], &head.headers["evenkeel-refused"]),
        (&"0".parse().unwrap(), &"overloaded".parse().unwrap())
    );

    handle.set_admission(Mode::Off);
    until("nothing is refused", async || ask().await.status == 200).await;
    assert_eq!(handle.config().await.unwrap().admission.modes.all, Mode::Off);

    handle.configure(ServerConfig::default()).unwrap();
    assert_eq!(handle.config().await, Some(ServerConfig::default()));
    until("it refuses again", async || ask().await.status == 503).await;
}

#[tokio::test]
async fn settings_that_are_not_possible_change_nothing() {
    let (_address, handle) = http(Server::new().without_signals()).await;
    let mut config = ServerConfig::default();
    config.admission.slots = -1.0;

    assert!(handle.configure(config).unwrap_err().to_string().contains("admission.slots"));

    assert_eq!(handle.config().await, Some(ServerConfig::default()));
}

#[tokio::test]
async fn an_answer_that_was_made_cheaper_says_so_and_is_counted() {
    let (address, handle) = http(Server::new().without_signals()).await;

    let (head, text) = plain::fetch(address, "/").await;

    assert_eq!((text.as_str(), headers::read_degraded(&head.headers)), ("0", Some(1)));
    assert_eq!(handle.snapshot().await.unwrap().admission.degraded, 1);
}

#[tokio::test]
async fn those_who_are_served_hear_what_is_admitted_before_they_are_refused() {
    let full = Fullness::default();
    full.set(100);
    let (address, _handle) = http(full.server()).await;
    let mut sender = plain::http1(address).await;

    until("a hint comes with an answer", async || {
        sender.ready().await.unwrap();
        let mut request = get("/");
        request.headers_mut().insert("evenkeel-criticality", http::HeaderValue::from_static("CRITICAL_PLUS"));
        let (head, _) = plain::read(sender.send_request(request).await.unwrap()).await;
        head.status == 200 && headers::read_admit(&head.headers).is_some()
    })
    .await;
}
