//! Hints on the wire (B7): what a backend says it admits is heeded, what was held back is told, and what the client
//! refuses itself is told from what a backend refused.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::scripted::{self, head};
use evenkeel::body::empty;
use evenkeel::{CallError, Channel, ChannelConfig, Context};
use evenkeel_core::{Criticality, Mode, Refusal};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use tower::Service;

type Request = http::Request<evenkeel::body::BoxBody>;

fn request(level: Criticality, kind: &'static str) -> Request {
    let mut request = http::Request::post("http://service/").header("content-type", kind).body(empty()).unwrap();
    request.extensions_mut().insert(Context::default().with_criticality(level));
    request
}

/// What `call` says: the status, or why it was not sent.
async fn ask(channel: &mut Channel, level: Criticality) -> Result<u16, Refusal> {
    match channel.call(request(level, "text/plain")).await {
        Ok(answer) => {
            let status = answer.status().as_u16();
            answer.into_body().collect().await.unwrap();
            Ok(status)
        }
        Err(CallError::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

/// Says in its head what it admits, and keeps what it was told of requests held back.
async fn hinting(admit: &'static str) -> (Channel, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let channel = scripted::channel(move |request, mut respond| {
        let named = |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap().to_owned());
        let of = named("evenkeel-held-for").map_or(String::new(), |customer| format!(" of '{customer}'"));
        telling.lock().unwrap().extend(named("evenkeel-held").map(|held| held + &of));
        async move {
            let mut answer = head(200);
            answer.headers_mut().insert("evenkeel-admit", HeaderValue::from_static(admit));
            respond.send_response(answer, true).unwrap();
        }
    });
    (channel.await, told)
}

#[tokio::test]
async fn a_hint_in_the_head_holds_what_is_below_it_and_the_next_request_tells() {
    let (mut channel, told) = hinting("2;60000").await;
    assert_eq!(ask(&mut channel, Criticality::Critical).await, Ok(200));

    for level in [Criticality::Sheddable, Criticality::SheddablePlus, Criticality::SheddablePlus] {
        assert_eq!(ask(&mut channel, level).await, Err(Refusal::Throttled));
    }
    for _ in 0..2 {
        assert_eq!(ask(&mut channel, Criticality::Critical).await, Ok(200));
    }
    assert_eq!(*told.lock().unwrap(), ["1,2,0,0"]);
    let client = channel.snapshot().await.unwrap().client;
    assert_eq!((client.backends[0].held, client.throttled.hints), (3, [1, 2, 0, 0]));
    assert_eq!((client.backends[0].active, client.backends[0].cutoff.unwrap().value()), (0, 2.0));
}

#[tokio::test]
async fn whose_requests_were_held_is_told_where_the_next_one_is_of_somebody_else() {
    let (mut channel, told) = hinting("2;60000").await;
    assert_eq!(ask(&mut channel, Criticality::Critical).await, Ok(200));
    let of = |level, customer: Option<&str>| {
        let mut request = request(level, "text/plain");
        let context = Context::default().with_criticality(level);
        let context = customer.map_or(context.clone(), |customer| context.with_customer(customer));
        request.extensions_mut().insert(context);
        request
    };

    for (held, next) in
        [(Some("mail"), Some("mail")), (Some("mail"), Some("maps")), (Some("maps"), None), (None, Some("mail"))]
    {
        assert!(channel.call(of(Criticality::Sheddable, held)).await.is_err());
        channel.call(of(Criticality::Critical, next)).await.unwrap();
    }

    assert_eq!(*told.lock().unwrap(), ["1,0,0,0", "1,0,0,0 of 'mail'", "1,0,0,0 of 'maps'", "1,0,0,0 of ''"]);
}

#[tokio::test]
async fn a_hint_in_the_trailers_of_grpc_is_heeded_and_the_refusal_is_marked_as_local() {
    let mut channel = scripted::channel(|_, mut respond| async move {
        let mut answer = head(200);
        answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc+proto"));
        let mut stream = respond.send_response(answer, false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("evenkeel-admit", HeaderValue::from_static("3.5;60000"));
        stream.send_trailers(trailers).unwrap();
    })
    .await;
    let answer = channel.call(request(Criticality::Critical, "application/grpc+proto")).await.unwrap();
    answer.into_body().collect().await.unwrap();

    let refused = channel.call(request(Criticality::Critical, "application/grpc+proto")).await.unwrap();
    let named = ["grpc-status", "evenkeel-refused", "evenkeel-local"].map(|name| refused.headers()[name].clone());
    assert_eq!(named, ["8", "throttled;local", "refused"]);
    let plain = channel.call(request(Criticality::Critical, "text/plain")).await.unwrap_err();
    assert!(plain.to_string().starts_with("refused by this client"), "{plain}");
}

#[tokio::test]
async fn a_customer_that_is_refused_is_thinned_and_no_other() {
    let mut channel = scripted::channel(|request, mut respond| async move {
        let is_poor = request.headers().get("evenkeel-customer").is_some_and(|name| name == "poor");
        respond.send_response(head(if is_poor { 429 } else { 200 }), true).unwrap();
    })
    .await;
    let mut refused = [0; 2];
    for _ in 0..200 {
        for (place, customer) in ["poor", "rich"].into_iter().enumerate() {
            let mut request = request(Criticality::Critical, "text/plain");
            request.extensions_mut().insert(Context::default().with_customer(customer));
            refused[place] += usize::from(channel.call(request).await.is_err());
        }
    }
    assert!(refused[0] > 100 && refused[1] == 0, "{refused:?}");
}

#[tokio::test]
async fn switched_off_nothing_is_held() {
    let backend = scripted::start(100, |_, mut respond| async move {
        let mut answer = head(429);
        answer.headers_mut().insert("evenkeel-admit", HeaderValue::from_static("4;60000"));
        respond.send_response(answer, true).unwrap();
    });
    let mut config = ChannelConfig::default();
    (config.client.throttle.local, config.client.throttle.hints) = (Mode::Off, Mode::Off);
    config.connect_timeout = Duration::from_secs(5);
    let backends = evenkeel::client::Fixed::new([evenkeel::client::Backend::from(backend.await)]);
    let channel = Channel::with(config, evenkeel::client::Tcp, "service", backends).unwrap();
    let mut channel = channel.usable().await.unwrap();

    for _ in 0..100 {
        assert_eq!(ask(&mut channel, Criticality::Sheddable).await, Ok(429));
    }
}
