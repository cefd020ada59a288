//! Connections on one single-threaded runtime for each core: no task ever moves, no queue is shared.
//!
//! Connections are accepted in one place and dealt in turn. Listening once per core would leave the dealing to a hash
//! of addresses, which is uneven for a few long connections, and would lose whoever waits at a core that closes.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::driver::Stage;
use super::handle::reached;
use super::hub::Peer;
use super::signals;

/// A connection on its way to a core.
type Arrival = (std::net::TcpStream, Arc<Peer>);

/// The threads, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Cores {
    all: Vec<Core>,
    next: usize,
    threads: Vec<signals::Core>,
}

#[derive(Debug)]
struct Core {
    arrivals: mpsc::UnboundedSender<Arrival>,
    ended: oneshot::Receiver<Infallible>,
}

impl Cores {
    /// Starts a thread for each core; `serve` gives the task of a connection.
    pub(crate) async fn start<F, Fut>(stage: &watch::Receiver<Stage>, serve: F) -> io::Result<Self>
    where
        F: Fn(TokioIo<tokio::net::TcpStream>, Arc<Peer>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let count = std::thread::available_parallelism()?.get();
        let (mut cores, mut threads) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for number in 0..count {
            let (arrivals, arriving) = mpsc::unbounded_channel();
            let (started, starting) = oneshot::channel();
            let (at_end, ended) = oneshot::channel();
            let (stage, serve) = (stage.clone(), serve.clone());
            std::thread::Builder::new().name(format!("evenkeel-core-{number}")).spawn(move || {
                let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let (runtime, told) = match built {
                    Ok(runtime) => {
                        let core = signals::Core::here(runtime.handle().clone());
                        (Some(runtime), Ok(core))
                    }
                    Err(error) => (None, Err(error)),
                };
                // Who started it may have gone; then the stage says so.
                drop(started.send(told));
                if let Some(runtime) = runtime {
                    runtime.block_on(run(arriving, stage, serve));
                    // Blocking work of handlers must not hold the exit.
                    runtime.shutdown_background();
                }
                drop(at_end);
            })?;
            threads.push(starting.await.map_err(|_| io::Error::other("a core ended while it started"))??);
            cores.push(Core { arrivals, ended });
        }
        Ok(Cores { all: cores, next: 0, threads })
    }

    /// Who they are to the system and to those who look at them.
    pub(crate) fn threads(&self) -> &[signals::Core] {
        &self.threads
    }

    /// Gives a connection to the core whose turn it is.
    pub(crate) fn deal(&mut self, arrival: Arrival) {
        let core = &self.all[self.next];
        self.next = (self.next + 1) % self.all.len();
        if core.arrivals.send(arrival).is_err() {
            tracing::error!("a core has ended: its connections are refused");
        }
    }

    /// Ends when every connection has.
    pub(crate) async fn ended(self) {
        let ends: Vec<_> = self.all.into_iter().map(|core| core.ended).collect();
        for ended in ends {
            // Nothing is ever sent: whoever held the other end is gone.
            drop(ended.await);
        }
    }
}

/// Serves what arrives until nothing can any more and all has ended, or the server has stopped.
async fn run<F, Fut>(mut arriving: mpsc::UnboundedReceiver<Arrival>, mut stage: watch::Receiver<Stage>, serve: F)
where
    F: Fn(TokioIo<tokio::net::TcpStream>, Arc<Peer>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let serving = async {
        loop {
            tokio::select! {
                biased;
                arrival = arriving.recv() => {
                    let Some((stream, peer)) = arrival else { break };
                    match tokio::net::TcpStream::from_std(stream) {
                        Ok(stream) => drop(connections.spawn(serve(TokioIo::new(stream), peer))),
                        Err(error) => tracing::debug!(%error, "a connection could not be taken up"),
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        while connections.join_next().await.is_some() {}
    };
    tokio::select! {
        biased;
        () = serving => {}
        () = reached(&mut stage, Stage::Stopped) => {}
    }
}
