//! What several test files need: a client whose backends are all connected.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::Arc;

use evenkeel_core::client::pick::Policy;
use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, Client, ClientConfig, Greeting, Local, Mode, Notice, Outcome, Picker,
    PolicyName, Readiness, Refusal, RequestMeta, Rng, Ticket, Time,
};

pub(crate) const NOW: Time = Time::from_secs(1_000);
/// Willing, and can be asked without a connection.
const READY: Greeting =
    Greeting { notice: Notice { readiness: Readiness::Ready, announcement: None }, takes_checks: true };

/// Backends 0, 1, 2, … with ids and ordinals the same as their number.
pub(crate) fn backends(count: u32) -> BackendList {
    BackendList::new((0..count).map(|number| BackendSpec { id: id(number), ordinal: Some(number) })).unwrap()
}

pub(crate) fn id(number: u32) -> BackendId {
    BackendId(u64::from(number))
}

pub(crate) fn meta() -> RequestMeta {
    RequestMeta::default()
}

/// Uses every backend, with this policy.
pub(crate) fn config(policy: PolicyName) -> ClientConfig {
    let mut config = ClientConfig { policy, ..ClientConfig::default() };
    config.subset.size = 131_072;
    // Whoever tests inactive backends sets it.
    config.idle.after = None;
    // And so does whoever tests backends that fail.
    config.eject.mode = Mode::Off;
    config
}

/// Answers every wish for a connection at once; the next picker if something changed.
pub(crate) fn connect_all(client: &mut Client, now: Time) -> Option<Arc<Picker>> {
    while let Some(action) = client.poll_action() {
        match action {
            Action::Connect(backend) => {
                client.handle_connected(now, backend, READY);
            }
            Action::Disconnect(_) | Action::Deactivate(_) | Action::Check(_) => {}
        }
    }
    client.poll_picker()
}

/// A client with all its backends connected, and everything a request needs.
pub(crate) struct Fixture {
    pub(crate) client: Client,
    pub(crate) picker: Arc<Picker>,
    pub(crate) local: Local,
    pub(crate) rng: Rng,
}

impl Fixture {
    pub(crate) fn new(config: ClientConfig, count: u32, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let client = Client::new(NOW, config, &mut rng).unwrap();
        Fixture::of(client, count, rng)
    }

    pub(crate) fn with_policy(policy: Arc<dyn Policy>, count: u32, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let client = Client::with_custom_policy(NOW, config(PolicyName::RoundRobin), policy, &mut rng).unwrap();
        Fixture::of(client, count, rng)
    }

    fn of(mut client: Client, count: u32, rng: Rng) -> Self {
        client.handle_backends(NOW, backends(count)).unwrap();
        let picker = connect_all(&mut client, NOW).unwrap();
        Fixture { client, picker, local: Local::default(), rng }
    }

    pub(crate) fn begin(&mut self, now: Time) -> Result<Ticket, Refusal> {
        self.picker.begin(&mut self.local, now, &meta(), &mut self.rng)
    }

    /// Every one of them was served.
    pub(crate) fn finish_all(&self, tickets: impl IntoIterator<Item = Ticket>) {
        for ticket in tickets {
            self.picker.finish(NOW, ticket, Outcome::Served, None);
        }
    }

    /// Takes over what the client decided since.
    pub(crate) fn refresh(&mut self) {
        if let Some(picker) = self.client.poll_picker() {
            self.picker = picker;
        }
    }
}
