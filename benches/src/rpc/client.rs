//! The process of the client: for each number read from stdin makes that many calls, then says so.

use tonic::Code;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Bytes, StdError};
use tonic::transport::Endpoint;

use super::echo::{EchoClient, Text};
use super::floor;
use super::runtime::Flavour;
use super::stack::Stack;
use super::{BYTES, DEADLINE, IN_FLIGHT, Manner};
use crate::clock;
use crate::process;

/// Runs the role.
pub fn run(stack: Stack, flavour: Flavour, manner: Manner, backends: &[String]) {
    let core = clock::cores()[0];
    let runtime = flavour.build(core);
    match stack {
        Stack::Tonic => {
            let endpoint =
                |address: &String| Endpoint::from_shared(format!("http://{address}")).expect("an address makes a URI");
            let channel =
                runtime.block_on(async { tonic::transport::Channel::balance_list(backends.iter().map(endpoint)) });
            serve_orders(&runtime, &EchoClient::new(channel), manner);
        }
        Stack::Evenkeel => {
            let channel = runtime.block_on(evenkeel::Channel::connect("echo", backends.iter().map(String::as_str)));
            serve_orders(&runtime, &EchoClient::new(channel.expect("a backend listens")), manner);
        }
        Stack::Hyper => {
            let channel = runtime.block_on(floor::OnHyper::connect(backends)).expect("a backend listens");
            serve_orders(&runtime, &EchoClient::with_origin(channel), manner);
        }
        Stack::H2 => {
            let channel = runtime.block_on(floor::OnH2::connect(backends)).expect("a backend listens");
            serve_orders(&runtime, &EchoClient::with_origin(channel), manner);
        }
        Stack::Off | Stack::Refusing | Stack::Static => unreachable!("only servers are so"),
    }
}

fn serve_orders<T>(runtime: &tokio::runtime::Runtime, client: &EchoClient<T>, manner: Manner)
where
    T: GrpcService<Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as tonic::codegen::Body>::Error: Into<StdError> + Send,
{
    process::say("ready");
    for order in std::io::stdin().lines() {
        let calls: u32 = order.ok().and_then(|order| order.parse().ok()).expect("an order is a number");
        runtime.block_on(async {
            let callers: Vec<_> = (0..IN_FLIGHT)
                .map(|_| tokio::spawn(call_repeatedly(client.clone(), calls / IN_FLIGHT, manner)))
                .collect();
            for caller in callers {
                caller.await.expect("every call is answered");
            }
        });
        process::say("done");
    }
}

async fn call_repeatedly<T>(mut client: EchoClient<T>, calls: u32, manner: Manner)
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as tonic::codegen::Body>::Error: Into<StdError> + Send,
{
    let timeout = (manner == Manner::Deadline).then_some(DEADLINE);
    for _ in 0..calls {
        match client.call(Text { bytes: vec![7; BYTES] }, timeout).await {
            Err(status) if manner == Manner::Refused => {
                let is_told = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
                assert!(is_told && std::error::Error::source(&status).is_none(), "{status}");
            }
            Ok(_) if manner == Manner::Refused => panic!("a call was served that should be refused"),
            answer => assert_eq!(answer.expect("an echo answers").bytes.len(), BYTES, "an echo is as long"),
        }
    }
}
