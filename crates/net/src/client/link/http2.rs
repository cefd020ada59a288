//! A connection that carries many requests at once.

use tokio::task::JoinHandle;

use super::{Connect, Link, within};
use crate::body::BoxError;
use crate::client::http2;

impl<C: Connect> Link<C> {
    /// Holds the connection until it ends, or its watch does.
    pub(super) async fn hold_http2(&self) -> Result<(), BoxError> {
        let connecting = async {
            let stream = self.connector.connect(&self.name).await?;
            let peer = C::peer_address(&stream);
            // Pings are not HTTP/2's but the watch's own: other servers count pings and hang up (gRPC's too_many_pings).
            let (sender, connection) = http2::handshake(stream, self.settings.streams_at_first).await?;
            Ok::<_, BoxError>((sender, connection, peer))
        };
        let (sender, connection, peer) = within(self.settings.connect_timeout, "connection", connecting).await?;
        let mut connection = tokio::spawn(connection);
        let ended = tokio::select! {
            biased; // chance is the seed's alone: see tests/network
            ended = &mut connection => ended,
            // The watch ends before its connection when the backend closes gracefully, or something between cuts it:
            // an unwatched backend is not used. What is in flight goes on, since the connection is a task of its own.
            watched = self.watch(sender, peer) => return watched.inspect_err(|error| give_up(&connection, error)),
        };
        ended?
    }
}

/// Nothing comes back on a connection that has stalled: those who wait on it are told now.
fn give_up<T>(connection: &JoinHandle<T>, error: &BoxError) {
    if error.is::<super::watch::Stalled>() {
        connection.abort();
    }
}
