//! A channel as it is now, as plain data.

use evenkeel_core::{ClientSnapshot, Time};

use super::post::EndpointSnapshot;

/// What the decision core knows, with the names it does not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChannelSnapshot {
    /// The service the channel is for.
    pub service: String,
    /// When this was taken, on the channel's own clock: ages are `now.since(..)`.
    pub now: Time,
    /// What the decision core knows.
    pub client: ClientSnapshot,
    /// Addresses, in the order of `client.backends`.
    pub names: Vec<String>,
    /// Why the last connection ended or could not be made, in the order of `client.backends`.
    pub last_lost: Vec<Option<String>>,
    /// Why the last list of backends was not taken, if it was not.
    pub list_refused: Option<String>,
    /// The sockets that datagrams to its backends have gone through; other channels of the process share them.
    pub endpoints: Vec<EndpointSnapshot>,
}

impl ChannelSnapshot {
    /// What keeps its backends from being used, for people: the first few of them.
    pub(crate) fn trouble(&self) -> String {
        if let Some(refused) = &self.list_refused {
            return refused.clone();
        }
        if self.names.is_empty() {
            return "the list of backends is empty".to_owned();
        }
        let each = self.names.iter().zip(&self.client.backends).zip(&self.last_lost);
        let said: Vec<String> = each
            .take(NAMED_MOST)
            .map(|((name, backend), lost)| format!("{name}: {}", lost.as_deref().unwrap_or(backend.state.as_str())))
            .collect();
        let more = self.names.len().saturating_sub(NAMED_MOST);
        said.join("; ") + &if more > 0 { format!("; and {more} more") } else { String::new() }
    }
}

/// As many as fit a line or two.
const NAMED_MOST: usize = 3;
