//! A backend that answers as a closure says, and counts what it got.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::BackendState;
use http::{HeaderName, HeaderValue};

use super::scripted::{self, head, read};
use super::{in_state, until};

/// One task of a service.
pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    got: Arc<AtomicU64>,
}

/// What it answers with, and after how long.
pub(crate) struct Says {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) after: Duration,
}

impl Says {
    pub(crate) fn status(status: u16) -> Says {
        Says { status, headers: Vec::new(), after: Duration::ZERO }
    }

    /// A refusal: elsewhere it may go better.
    pub(crate) fn refusal() -> Says {
        Says::status(503).with("retry-after", "0")
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Says {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn after(self, after: Duration) -> Says {
        Says { after, ..self }
    }
}

impl Task {
    /// Answers each request, whose body it reads first, as `says` has it.
    pub(crate) async fn start(says: impl Fn(&http::Request<()>) -> Says + Send + Sync + 'static) -> Task {
        let got = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&got);
        let says = Arc::new(says);
        let address = scripted::start(1000, move |request, mut respond| {
            counting.fetch_add(1, Ordering::Relaxed);
            let says = Arc::clone(&says);
            async move {
                let (parts, mut body) = request.into_parts();
                // Who sends may have gone.
                drop(read(&mut body).await);
                let Says { status, headers, after } = says(&http::Request::from_parts(parts, ()));
                tokio::time::sleep(after).await;
                let mut answer = head(status);
                for (name, value) in headers {
                    answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
                }
                drop(respond.send_response(answer, true));
            }
        });
        Task { address: address.await, got }
    }

    /// How many requests it got since this was last asked.
    pub(crate) fn got(&self) -> u64 {
        self.got.swap(0, Ordering::Relaxed)
    }
}

/// A channel over these, once all are used.
pub(crate) async fn channel_over(config: ChannelConfig, tasks: &[&Task]) -> Channel {
    let backends = Fixed::new(tasks.iter().map(|task| task.address));
    let channel = Channel::with(config, Tcp, "service", backends).unwrap();
    until("all are used", async || in_state(&channel, BackendState::Healthy).await == tasks.len()).await;
    channel
}
