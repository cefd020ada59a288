//! A gRPC service as its generated code would be, for tonic's server and any client: `evenkeel.test.v1.Echo`.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio_stream::StreamExt as _;
use tonic::body::Body;
use tonic::codegen::{StdError, tokio_stream};
use tonic::server::{NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ask {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(uint64, tag = "2")]
    pub(crate) sleep_ms: u64,
    /// Answers with this status unless it is 0.
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
    #[prost(uint32, tag = "4")]
    pub(crate) times: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Say {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    /// The criticality the handler runs under.
    #[prost(string, tag = "2")]
    pub(crate) criticality: String,
}

pub(crate) fn ask(text: &str) -> Ask {
    Ask { text: text.to_owned(), ..Ask::default() }
}

fn say(ask: &Ask) -> Say {
    let level = evenkeel::Context::current().and_then(|context| context.criticality);
    Say { text: ask.text.clone(), criticality: level.map_or_else(String::new, |level| level.to_string()) }
}

/// The service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Echo;

type Answering<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;
type Says = Pin<Box<dyn tokio_stream::Stream<Item = Result<Say, Status>> + Send>>;

impl UnaryService<Ask> for Echo {
    type Response = Say;
    type Future = Answering<Say>;

    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        Box::pin(async move {
            let ask = request.into_inner();
            tokio::time::sleep(Duration::from_millis(ask.sleep_ms)).await;
            if ask.code != 0 {
                return Err(Status::new(ask.code.into(), ask.text));
            }
            Ok(Response::new(say(&ask)))
        })
    }
}

impl ServerStreamingService<Ask> for Echo {
    type Response = Say;
    type ResponseStream = Says;
    type Future = Answering<Says>;

    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        let ask = request.into_inner();
        let says: Says = Box::pin(tokio_stream::iter(0..ask.times).map(move |_| Ok(say(&ask))));
        Box::pin(std::future::ready(Ok(Response::new(says))))
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "evenkeel.test.v1.Echo";
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Say, Ask>::default());
            Ok(match request.uri().path() {
                ONCE => grpc.unary(Echo, request).await,
                STREAM => grpc.server_streaming(Echo, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// As a generated client: takes any channel.
pub(crate) struct EchoClient<T> {
    grpc: tonic::client::Grpc<T>,
}

impl<T> EchoClient<T>
where
    T: tonic::client::GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<StdError> + Send,
{
    pub(crate) fn new(channel: T) -> Self {
        EchoClient { grpc: tonic::client::Grpc::new(channel) }
    }

    pub(crate) async fn once(&mut self, request: Request<Ask>) -> Result<Response<Say>, Status> {
        self.ready().await?;
        self.grpc.unary(request, PathAndQuery::from_static(ONCE), ProstCodec::default()).await
    }

    pub(crate) async fn stream(&mut self, request: Request<Ask>) -> Result<Response<Streaming<Say>>, Status> {
        self.ready().await?;
        self.grpc.server_streaming(request, PathAndQuery::from_static(STREAM), ProstCodec::default()).await
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(error.into().to_string()))
    }
}

const ONCE: &str = "/evenkeel.test.v1.Echo/Once";
const STREAM: &str = "/evenkeel.test.v1.Echo/Stream";
