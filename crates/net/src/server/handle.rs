//! What a program holds of its server: tells it what it knows, and asks how it is.

use std::future::Future;
use std::sync::Arc;

use evenkeel_core::{InvalidConfig, Mode, ServerConfig, ServerSnapshot};
use tokio::sync::{mpsc, oneshot, watch};

use super::datagrams::DatagramSnapshot;
use super::driver::{Event, Stage};
use super::identity::{Disbelief, IdentitySnapshot};
use super::look::Look;
use super::serve::Door;
use super::signals::Readings;
use super::terminate::Terminate;

/// Tells a server what its program knows; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) stage: watch::Receiver<Stage>,
    /// Of a layer, which nobody else may hold yet, or any more.
    pub(crate) door: Option<Arc<Door>>,
    pub(crate) disbelief: Arc<Disbelief>,
    /// Whether [`Handle::drained`] listens for SIGTERM.
    pub(crate) on_sigterm: bool,
}

impl Handle {
    /// Initialised and warm: clients may send (A7).
    pub fn ready(&self) {
        self.tell(Event::Ready);
    }

    /// Wants no new requests for a while; what arrives is served.
    pub fn lame_duck(&self) {
        self.tell(Event::LameDuck);
    }

    /// Drains and stops, as SIGTERM does.
    pub fn stop(&self) {
        self.tell(Event::Stop);
    }

    /// Other settings from now on, all of them or, where one is not possible, none. Requests that were let in before are
    /// not touched. Settings of clients without a connection ([`ServerConfig::peers`]) hold from the next start on.
    ///
    /// ```
    /// # use evenkeel::server::Handle;
    /// # use evenkeel_core::{InvalidConfig, ServerConfig};
    /// fn tune(handle: &Handle) -> Result<(), InvalidConfig> {
    ///     let mut config = ServerConfig::default();
    ///     config.admission.slots = 2.0;
    ///     handle.configure(config)
    /// }
    /// ```
    pub fn configure(&self, config: ServerConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        self.tell(Event::Configure(Box::new(config)));
        Ok(())
    }

    /// The switch for everything that can refuse: `Off` or `Observe` lets all in until it is `On` again.
    pub fn set_admission(&self, mode: Mode) {
        self.tell(Event::SetAdmission(mode));
    }

    /// Single switches by their names, beside whatever the others are.
    pub(crate) fn switch(&self, modes: Vec<(&'static str, Mode)>) {
        self.tell(Event::Switch(modes));
    }

    /// The settings in force; `None` once it has stopped.
    pub async fn config(&self) -> Option<ServerConfig> {
        let (answer, wait) = oneshot::channel();
        self.events.send(Event::Config(answer)).ok()?;
        wait.await.ok()
    }

    /// What requests said and was not believed.
    pub fn identities(&self) -> IdentitySnapshot {
        self.disbelief.snapshot()
    }

    /// How the server is, as plain data; `None` once it has stopped.
    pub async fn snapshot(&self) -> Option<ServerSnapshot> {
        Some(self.look().await?.server)
    }

    /// How its datagrams are, as plain data; `None` where it has none, or has stopped.
    pub async fn datagrams(&self) -> Option<DatagramSnapshot> {
        self.look().await?.datagrams
    }

    /// How loaded it was at the last reading, which is at most 100 ms ago, as plain data; `None` once it has stopped.
    pub async fn readings(&self) -> Option<Readings> {
        let (answer, wait) = oneshot::channel();
        self.events.send(Event::Readings(answer)).ok()?;
        wait.await.ok()
    }

    /// All there is to see, of one moment.
    pub(crate) async fn look(&self) -> Option<Box<Look>> {
        let (answer, wait) = oneshot::channel();
        self.events.send(Event::Snapshot(answer)).ok()?;
        wait.await.ok()
    }

    /// Ends when the server has drained: every client that watches has acknowledged that it leaves, nothing is in
    /// flight, and the watch streams have ended, so that connections can be closed without losing a request.
    ///
    /// Of a [layer](crate::layer()) this is when the caller's own graceful shutdown may begin, and while it is awaited
    /// SIGTERM stops the layer instead of ending the process. A program that leaves it out, or sets up the layer
    /// [without signals](super::Server::without_signals), ends on SIGTERM as if there were no layer.
    pub fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.clone();
        async move {
            if let Some(engine) = handle.door.as_ref().and_then(|door| door.engine.as_ref()) {
                engine.start();
            }
            let mut stage = handle.stage.clone();
            tokio::select! {
                biased;
                () = handle.terminated(), if handle.on_sigterm => handle.stop(),
                () = reached(&mut stage, Stage::Closing) => {}
            }
            reached(&mut stage, Stage::Closing).await;
        }
    }

    /// Returns at SIGTERM.
    async fn terminated(&self) {
        match Terminate::listen() {
            Ok(mut terminate) => terminate.told().await,
            Err(error) => {
                tracing::error!(%error, "cannot listen for SIGTERM: it will not be drained for");
                std::future::pending::<()>().await;
            }
        }
    }

    /// A server that has stopped needs to be told nothing.
    fn tell(&self, event: Event) {
        drop(self.events.send(event));
    }
}

/// Returns when the server has come so far; a driver that is gone has stopped.
pub(crate) async fn reached(stage: &mut watch::Receiver<Stage>, goal: Stage) {
    drop(stage.wait_for(|stage| *stage >= goal).await.map(|_| ()));
}
