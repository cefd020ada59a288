//! What a system says to a process that is to end: SIGTERM on Unix. On Windows its console is closed, or the machine goes down.

use std::io;

/// Listens from when it is made; the process does not end by itself any more.
#[derive(Debug)]
pub(crate) struct Terminate {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    close: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(unix)]
impl Terminate {
    pub(crate) fn listen() -> io::Result<Self> {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        Ok(Terminate { signal })
    }

    pub(crate) async fn told(&mut self) {
        self.signal.recv().await;
    }
}

#[cfg(windows)]
impl Terminate {
    pub(crate) fn listen() -> io::Result<Self> {
        let (close, shutdown) = (tokio::signal::windows::ctrl_close()?, tokio::signal::windows::ctrl_shutdown()?);
        Ok(Terminate { close, shutdown })
    }

    pub(crate) async fn told(&mut self) {
        tokio::select! {
            biased;
            _ = self.close.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}

#[cfg(not(any(unix, windows)))]
impl Terminate {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Terminate {})
    }

    pub(crate) async fn told(&mut self) {
        std::future::pending().await
    }
}
