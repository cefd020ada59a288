//! Whose word on the customer is believed: connections that proved who they are, and inside somebody else's server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use evenkeel::body::{BoxBody, empty};
use evenkeel::server::{Accept, Handle, Identify, Identity, PeerInfo, Trusted};
use evenkeel::{Context, Server};
use evenkeel_core::Criticality;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt, service_fn};

/// Connections made inside this process, by peers that proved to be somebody.
struct Authenticated(mpsc::Receiver<(DuplexStream, &'static str)>);

struct Stream(TokioIo<DuplexStream>, &'static str);

impl Accept for Authenticated {
    type Stream = Stream;

    async fn accept(&mut self) -> io::Result<Stream> {
        let (stream, name) = self.0.recv().await.ok_or(io::ErrorKind::NotConnected)?;
        Ok(Stream(TokioIo::new(stream), name))
    }

    fn peer(stream: &Stream) -> PeerInfo {
        PeerInfo { address: None, authenticated: Some(Arc::from(stream.1)) }
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        into: hyper::rt::ReadBufCursor<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

async fn billed<B>(request: http::Request<B>) -> Result<http::Response<String>, Infallible> {
    let context = Context::current().unwrap();
    let header = request.headers().get("evenkeel-customer").map_or("-", |value| value.to_str().unwrap());
    let customer = context.customer.as_deref().unwrap_or("-");
    Ok(http::Response::new(format!("{customer}/{header} {}", context.criticality.unwrap())))
}

struct Serving {
    arrivals: mpsc::Sender<(DuplexStream, &'static str)>,
    handle: Handle,
}

impl Serving {
    fn start(server: Server) -> Serving {
        let (arrivals, arriving) = mpsc::channel(8);
        let handle = server.handle();
        tokio::spawn(server.without_signals().serve(Authenticated(arriving), service_fn(billed)));
        Serving { arrivals, handle }
    }

    /// What the handler saw of a request by this peer that names this customer.
    async fn ask(&self, peer: &'static str, customer: &'static str) -> String {
        let (own, theirs) = tokio::io::duplex(4096);
        self.arrivals.send((theirs, peer)).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(own)).await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(naming(customer)).await.unwrap();
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }
}

fn naming(customer: &'static str) -> http::Request<BoxBody> {
    let mut request = http::Request::get("/").header("host", "service").body(empty()).unwrap();
    if !customer.is_empty() {
        request.headers_mut().insert("evenkeel-customer", http::HeaderValue::from_static(customer));
    }
    request
}

struct Teams;

impl Identify for Teams {
    fn identify(&self, peer: &PeerInfo) -> Option<Identity> {
        let name = peer.authenticated.as_deref()?;
        let team = name.strip_prefix("spiffe://example.org/team/")?;
        let criticality_most = (team == "batch").then_some(Criticality::SheddablePlus);
        Some(Identity { criticality_most, ..Identity::of_customer(team) })
    }
}

#[tokio::test]
async fn who_proved_to_be_somebody_is_billed_by_that_name_and_no_other() {
    let serving = Serving::start(Server::new());

    assert_eq!(serving.ask("mail", "").await, "mail/- CRITICAL");
    assert_eq!(serving.ask("mail", "mail").await, "mail/mail CRITICAL");
    assert_eq!(serving.handle.identities().customers_dropped, 0);
    assert_eq!(serving.ask("mail", "maps").await, "mail/- CRITICAL");
    assert_eq!(serving.handle.identities().customers_dropped, 1);
}

#[tokio::test]
async fn the_program_says_which_customer_a_peer_is_and_how_much_it_may_matter() {
    let serving = Serving::start(Server::new().with_identity(Teams).trust_customers_of(Trusted::Everyone));

    assert_eq!(serving.ask("spiffe://example.org/team/mail", "maps").await, "mail/- CRITICAL");
    assert_eq!(serving.ask("spiffe://example.org/team/batch", "").await, "batch/- SHEDDABLE_PLUS");
    assert_eq!(serving.ask("spiffe://example.org/front-end", "maps").await, "maps/maps CRITICAL", "it is trusted");
    let seen = serving.handle.identities();
    assert_eq!((seen.customers_dropped, seen.criticalities_lowered), (1, 1));
}

#[tokio::test]
async fn what_a_trusted_peer_says_that_is_no_name_is_dropped_and_counted() {
    let serving = Serving::start(Server::new().with_identity(Teams).trust_customers_of(Trusted::Everyone));
    let too_long: &'static str = Box::leak("x".repeat(3_000).into_boxed_str());

    assert_eq!(serving.ask("spiffe://example.org/front-end", too_long).await, "-/- CRITICAL");
    assert_eq!(serving.handle.identities().customers_dropped, 1);
    assert_eq!(serving.ask("spiffe://example.org/front-end", "maps").await, "maps/maps CRITICAL");
    assert_eq!(serving.handle.identities().customers_dropped, 1);
}

#[tokio::test]
async fn inside_another_server_the_identity_is_on_the_request_and_no_header_is_believed() {
    let (layer, handle) = Server::new().without_signals().layer().unwrap();
    let service = layer.layer(service_fn(billed));
    let ask = async |request| {
        let answer = service.clone().oneshot(request).await.unwrap();
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };

    let mut known = naming("maps");
    known.extensions_mut().insert(Identity::of_customer(" mail "));

    assert_eq!(ask(naming("maps")).await, "-/- CRITICAL");
    assert_eq!(ask(known).await, "mail/- CRITICAL");
    assert_eq!(handle.identities().customers_dropped, 2);
}
