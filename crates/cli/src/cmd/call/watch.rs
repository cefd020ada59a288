//! What becomes of each backend while calls are made, as lines on stderr.

use std::collections::BTreeMap;
use std::time::Instant;

use evenkeel::Channel;
use evenkeel_core::{BackendSnapshot, CheckedBy, LinkState};

use crate::progress::Progress;

/// Looks at a channel now and then, and says what is not as it was.
pub(super) struct Watch {
    channel: Channel,
    began: Instant,
    last: BTreeMap<String, String>,
}

impl Watch {
    pub(super) fn new(channel: Channel) -> Self {
        Watch { channel, began: Instant::now(), last: BTreeMap::new() }
    }

    /// A line for each backend that has changed since the last look.
    pub(super) async fn look(&mut self, progress: &Progress) {
        let Some(snapshot) = self.channel.snapshot().await else { return };
        for (name, backend) in snapshot.names.into_iter().zip(&snapshot.client.backends) {
            let words = words(backend);
            if self.last.get(&name) != Some(&words) {
                progress.say(&format!("{:6.1} s  {name}  {words}", self.began.elapsed().as_secs_f64()));
                self.last.insert(name, words);
            }
        }
    }
}

fn words(backend: &BackendSnapshot) -> String {
    let state = backend.state.as_str().replace('_', " ");
    let how = match (backend.link, backend.checked_by) {
        (LinkState::Connected, _) => "connected",
        (LinkState::Connecting, _) => "no connection",
        (LinkState::Waking, _) => "inactive until now, being connected to",
        (LinkState::Inactive, CheckedBy::Datagrams) => "inactive, checked by datagrams",
        (LinkState::Inactive, _) => "inactive, connected to now and then to see how it is",
    };
    format!("{state}, {how}")
}
