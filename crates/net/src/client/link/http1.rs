//! Connections that carry one request at a time: as many as are in flight, kept for the next ones.
//!
//! There is no stream on which a backend could say that it is leaving, so it says so on its answers, and is asked now
//! and then. One that does not say is used while it can be connected to.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::Readiness;
use http::HeaderMap;
use hyper::client::conn::http1;
use tokio::sync::Notify;

use super::{Connect, Link, within};
use crate::body::{BoxError, empty};
use crate::client::replay::SentBody;
use crate::client::sender::Sender;
use crate::wire::{grpc, headers};

type Http1 = http1::SendRequest<SentBody>;
type Opening = Pin<Box<dyn Future<Output = Result<Http1, BoxError>> + Send>>;

/// The connections of one backend.
pub(crate) struct Pool {
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    idle: Mutex<Vec<Http1>>,
    /// An answer said that the backend is leaving, or a connection could not be made.
    news: Notify,
}

/// A connection that is in use; given back when its answer has been read to the end.
pub(crate) struct Lent {
    sender: Http1,
    pool: Arc<Pool>,
}

impl Pool {
    fn new<C: Connect>(connector: &C, name: &str, timeout: Duration) -> Arc<Pool> {
        let (connector, name) = (connector.clone(), name.to_owned());
        let open = move || -> Opening {
            let (connector, name) = (connector.clone(), name.clone());
            Box::pin(async move {
                let connecting = async {
                    let stream = connector.connect(&name).await?;
                    Ok::<_, BoxError>(http1::handshake::<_, SentBody>(stream).await?)
                };
                let (sender, connection) = within(timeout, "connection", connecting).await?;
                // Its end is seen by whoever sends on it next.
                tokio::spawn(async move { drop(connection.await) });
                Ok(sender)
            })
        };
        Arc::new(Pool { open: Box::new(open), idle: Mutex::default(), news: Notify::new() })
    }

    /// A connection that stands ready; a new one if none does.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Lent, BoxError> {
        loop {
            let Some(mut sender) = self.idle().pop() else { break };
            // One whose last request is still being sent, although it was answered, is not waited for.
            if sender.is_ready() || matches!(tokio::time::timeout(READY_MOST, sender.ready()).await, Ok(Ok(()))) {
                return Ok(Lent { sender, pool: Arc::clone(self) });
            }
        }
        let sender = (self.open)().await.inspect_err(|_| self.news.notify_one())?;
        Ok(Lent { sender, pool: Arc::clone(self) })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Http1>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// For sending one request.
    pub(crate) fn sender(&mut self) -> &mut Http1 {
        &mut self.sender
    }

    /// Looks whether the answer says that its backend is leaving.
    pub(crate) fn on_answer(&self, head: &HeaderMap) {
        if headers::read_state(head) == Some(Readiness::LameDuck) {
            self.pool.news.notify_one();
        }
    }

    /// The answer has been read to its end: the connection is as good as new.
    pub(crate) fn give_back(self) {
        if !self.sender.is_closed() {
            let Lent { sender, pool } = self;
            let mut idle = pool.idle();
            if idle.len() >= IDLE_MOST {
                // The one that has been idle for longest.
                idle.remove(0);
            }
            idle.push(sender);
        }
    }
}

impl<C: Connect> Link<C> {
    /// Asks the backend how it is until it cannot be reached.
    pub(super) async fn hold_http1(&self) -> Result<(), BoxError> {
        let pool = Pool::new(&self.connector, &self.name, self.settings.connect_timeout);
        let first = self.ask(&pool).await?;
        let mut said = first.unwrap_or(Readiness::Ready);
        self.tell_connected(Sender::Http1(Arc::clone(&pool)), said).await;
        loop {
            let next_question = async {
                match first {
                    Some(_) => tokio::time::sleep(ASK_EVERY).await,
                    // Not one of ours: it is not bothered with questions it cannot answer.
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = next_question => {}
                () = pool.news.notified() => {}
            }
            let now = self.ask(&pool).await?.unwrap_or(Readiness::Ready);
            if now != said {
                self.tell(now).await;
                said = now;
            }
        }
    }

    /// What the backend says of itself; nothing if it is not one of ours.
    async fn ask(&self, pool: &Arc<Pool>) -> Result<Option<Readiness>, BoxError> {
        let asking = async {
            let mut lent = pool.take().await?;
            let question = http::Request::get(grpc::HEALTH_CHECK_PATH)
                .header(http::header::HOST, &self.name)
                .body(SentBody::once(empty()))?;
            let answer = lent.sender().send_request(question).await?;
            let said = headers::read_state(answer.headers());
            // Whatever else it says is read, so that the connection can be used.
            let rest = http_body_util::Limited::new(answer.into_body(), ANSWER_MOST);
            if http_body_util::BodyExt::collect(rest).await.is_ok() {
                lent.give_back();
            }
            Ok::<_, BoxError>(said)
        };
        within(self.settings.ping_timeout, "answer to a question", asking).await
    }
}

/// Well below the time a leaving backend waits for those who cannot acknowledge.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Between the end of an answer and that of its request there are moments, unless the request goes on.
const READY_MOST: Duration = Duration::from_millis(5);
/// After a peak the rest is closed; opening one costs a round trip.
const IDLE_MOST: usize = 32;
/// More than any error page.
const ANSWER_MOST: usize = 1 << 20;
