//! A client connected to all of a service's backends, and requests made on its pickers.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::{
    Action, BackendList, BackendSpec, Client, ClientConfig, LoadReport, Local, Outcome, Picker, PolicyName, Readiness,
    RequestMeta, Rng, Ticket, Time,
};

/// One client for all policies: they take turns, and each leaves nothing in flight.
pub(super) struct Fleet {
    pub(super) backends: u32,
    client: Client,
    config: ClientConfig,
}

impl Fleet {
    /// With every one of `backends` connected: the subset is the whole service.
    pub(super) fn new(backends: u32, active_max: u32) -> Self {
        let mut config = ClientConfig::default();
        config.subset.size = backends;
        config.subset.algorithm = Some(Algorithm::Random);
        config.flow.active_max = active_max;
        let mut client = Client::new(START, config.clone(), &mut Rng::from_seed(1)).expect("the settings are possible");
        client.handle_backends(START, list(backends)).expect("random deals any list");
        while let Some(action) = client.poll_action() {
            if let Action::Connect(backend) = action {
                client.handle_connected(START, backend, Readiness::Ready);
            }
        }
        Fleet { backends, client, config }
    }

    pub(super) fn picker(&mut self, policy: PolicyName) -> Arc<Picker> {
        self.config.policy = policy;
        self.client.handle_config(START, self.config.clone()).expect("a built policy can be set");
        let picker = self.client.poll_picker().expect("other settings make another picker");
        assert_eq!(picker.len(), self.backends as usize, "every backend is connected");
        picker
    }
}

/// Backends with ordinals.
pub(super) fn list(backends: u32) -> BackendList {
    let specs = (0..backends).map(|ordinal| BackendSpec::named(&format!("backend-{ordinal}")).with_ordinal(ordinal));
    BackendList::new(specs).expect("names and ordinals are distinct")
}

/// One thread that makes requests.
pub(super) struct Requester {
    picker: Arc<Picker>,
    local: Local,
    rng: Rng,
    now: Time,
    meta: RequestMeta,
    open: Vec<Ticket>,
    manner: Manner,
}

/// How requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// All are served.
    Served,
    /// All are served and bring a load report.
    Reported,
    /// One in twenty fails.
    Failing,
}

impl Requester {
    pub(super) fn new(picker: Arc<Picker>, manner: Manner, seed: u64) -> Self {
        let meta = RequestMeta { deadline: Time::NEVER, ..RequestMeta::default() };
        Requester { picker, local: Local::default(), rng: Rng::from_seed(seed), now: START, meta, open: vec![], manner }
    }

    /// Each request is finished before the next begins.
    pub(super) fn one_by_one(&mut self, requests: u32) {
        for _ in 0..requests {
            let ticket = black_box(self.begin());
            self.finish(ticket);
        }
    }

    /// Leaves `count` in flight.
    pub(super) fn fill(&mut self, count: usize) {
        while self.open.len() < count {
            let ticket = self.begin();
            self.open.push(ticket);
        }
    }

    /// Finishes one of those in flight at random and begins another, so many times.
    pub(super) fn replace(&mut self, requests: u32) {
        let open = self.open.len() as u32;
        for _ in 0..requests {
            let chosen = self.rng.below(open) as usize;
            let ticket = self.begin();
            let ended = std::mem::replace(&mut self.open[chosen], ticket);
            self.finish(ended);
        }
    }

    /// Finishes all that are in flight.
    pub(super) fn drain(&mut self) {
        for ticket in std::mem::take(&mut self.open) {
            self.picker.finish(self.now, ticket, Outcome::Served, None);
        }
    }

    fn begin(&mut self) -> Ticket {
        self.now = self.now + STEP;
        self.picker.begin(&mut self.local, self.now, &self.meta, &mut self.rng).expect("there is room")
    }

    fn finish(&mut self, ticket: Ticket) {
        match self.manner {
            Manner::Served => self.picker.finish(self.now, ticket, Outcome::Served, None),
            Manner::Reported => self.picker.finish(self.now, ticket, Outcome::Served, Some(&REPORT)),
            Manner::Failing => {
                let outcome = if self.rng.below(20) == 0 { Outcome::Failed } else { Outcome::Served };
                self.picker.finish(self.now, ticket, outcome, None);
            }
        }
    }
}

/// Not zero: a driver counts from some earlier moment.
const START: Time = Time::from_secs(1_000);
const STEP: Duration = Duration::from_micros(1);
/// Every field known, so that every field is written.
const REPORT: LoadReport = LoadReport {
    utilization: Some(0.7),
    utilization_slow: Some(0.6),
    qps: Some(900.0),
    eps: Some(1.0),
    in_flight: Some(12),
    runnable: Some(3.0),
    processors: Some(4.0),
    latency: Some(Duration::from_millis(7)),
};
