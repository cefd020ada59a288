//! The service that is called: a unary gRPC echo, its parts as tonic's generator writes them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::{BoxFuture, StdError};
use tonic::server::{NamedService, UnaryService};
use tonic::{GrpcMethod, Request, Response, Status};
use tonic_prost::ProstCodec;

/// Both ways.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Text {
    #[prost(bytes = "vec", tag = "1")]
    pub bytes: Vec<u8>,
}

/// Answers with what it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

impl UnaryService<Text> for Echo {
    type Response = Text;
    type Future = Ready<Result<Response<Text>, Status>>;

    fn call(&mut self, request: Request<Text>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl<B> tower::Service<http::Request<B>> for Echo
where
    B: tonic::codegen::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            Ok(grpc.unary(Echo, request).await)
        })
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "evenkeel.bench.Echo";
}

/// Calls it over any transport.
#[derive(Clone, Debug)]
pub struct EchoClient<T> {
    grpc: Grpc<T>,
}

impl<T> EchoClient<T>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: tonic::codegen::Body<Data = tonic::codegen::Bytes> + Send + 'static,
    <T::ResponseBody as tonic::codegen::Body>::Error: Into<StdError> + Send,
{
    pub fn new(transport: T) -> Self {
        EchoClient { grpc: Grpc::new(transport) }
    }

    /// For transports that do not know whom they call.
    pub fn with_origin(transport: T) -> Self {
        EchoClient { grpc: Grpc::with_origin(transport, http::Uri::from_static("http://echo")) }
    }

    /// `timeout` becomes the call's deadline.
    pub async fn call(&mut self, text: Text, timeout: Option<Duration>) -> Result<Text, Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(error.into().to_string()))?;
        let mut request = Request::new(text);
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        request.extensions_mut().insert(GrpcMethod::new(Echo::NAME, "Call"));
        let path = PathAndQuery::from_static("/evenkeel.bench.Echo/Call");
        let answer: Result<Response<Text>, Status> = self.grpc.unary(request, path, ProstCodec::default()).await;
        Ok(answer?.into_inner())
    }
}
