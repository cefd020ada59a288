//! What is counted while a world runs: every request once, every task's load in every window.

use evenkeel_core::plan::Shape;
use evenkeel_core::{Criticality, Outcome};
use hdrhistogram::Histogram;

use super::ORIGIN;
use super::requests::Request;
use crate::scenario::{ATTEMPTS_TOLD, Scenario};

/// How a request ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Served,
    Failed,
    Expired,
    /// Never ran, however often it was sent.
    Unsent,
    /// Not sent at all: no backend had room, or the client held it back.
    Refused,
    /// Nobody wanted it any more.
    Cancelled,
    /// Its backend refused it.
    Rejected,
}

impl End {
    pub(crate) fn of(outcome: Outcome) -> End {
        match outcome {
            Outcome::Served => End::Served,
            Outcome::Failed => End::Failed,
            Outcome::Overloaded | Outcome::DontRetry | Outcome::OutOfQuota => End::Rejected,
            Outcome::Expired => End::Expired,
            Outcome::Cancelled => End::Cancelled,
            Outcome::Unsent => End::Unsent,
        }
    }
}

/// Counts of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Requests asked for before this are not counted.
    measured_from: u64,
    /// Nothing new is asked for after this.
    measured_until: u64,
    /// Those asked for, and how they ended, in the order of [`End`]; of requests asked for since `measured_from`.
    pub(crate) asked: u64,
    pub(crate) ended: [u64; 7],
    /// The same for all of them, from the beginning.
    pub(crate) all_asked: u64,
    pub(crate) all_ended: u64,
    /// Ended, and served, of each.
    pub(crate) by_criticality: [[u64; 2]; Criticality::ALL.len()],
    pub(crate) by_customer: Vec<[u64; 2]>,
    /// Nanoseconds from asking to answer, or to giving up.
    pub(crate) latency: Histogram<u64>,
    /// The same of those asked for in the second half of the time that is measured.
    pub(crate) latency_later: Histogram<u64>,
    /// What has happened since the last window ended.
    pub(crate) window: Window,
    pub(crate) windows: Vec<Window>,
    pub(crate) restarts: u64,
    /// Requests made to each service behind the first.
    pub(crate) layer_asked: Vec<u64>,
    /// Attempts at each service, by their number.
    pub(crate) attempts: Vec<[u64; ATTEMPTS_TOLD]>,
    /// The shapes before and after the last change of size, and connections let go since.
    pub(crate) resized: Option<(Shape, Shape)>,
    pub(crate) let_go: u64,
    /// Requests that clients held back because of what their backends refuse.
    pub(crate) held_back: u64,
    /// The most requests that were in the handlers of one task of the first service at once.
    pub(crate) in_handlers_most: u32,
    /// Of clients without a connection.
    pub(crate) idle: IdleTally,
}

/// What is counted of inactive pairs of client and backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleTally {
    /// Sum of their share over windows, and of how many.
    pub(crate) shares: (f64, u32),
    /// Requests that waited for a connection.
    pub(crate) waited: u64,
    /// Datagrams sent, by both sides.
    pub(crate) datagrams: u64,
    /// Longest time until an inactive client had heard what was announced.
    pub(crate) told_most: Option<u64>,
}

/// One window of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Share of each task's cores in use; not a number where it was not up all the time.
    pub(crate) utilization: Vec<f32>,
    /// Requests begun on each task of the first service.
    pub(crate) begun: Vec<u32>,
    pub(crate) served: u32,
    pub(crate) failed: u32,
    pub(crate) refused: u32,
    /// CPU that was asked of each cluster, and processors it had when the window began, as fast ones.
    pub(crate) offered: Vec<f64>,
    pub(crate) capacity: Vec<f64>,
    /// Requests sent to a cluster, and those of them sent to their own.
    pub(crate) sent: [u32; 2],
}

impl Tally {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_MOST, 3).expect("the bounds are in order");
        Tally {
            measured_from: ORIGIN + scenario.settle.nanos(),
            measured_until: ORIGIN + scenario.duration.nanos(),
            asked: 0,
            ended: [0; 7],
            all_asked: 0,
            all_ended: 0,
            by_criticality: [[0; 2]; Criticality::ALL.len()],
            by_customer: vec![[0; 2]; scenario.customers.len().max(1)],
            latency_later: latency.clone(),
            latency,
            window: Window::default(),
            windows: Vec::new(),
            restarts: 0,
            layer_asked: vec![0; scenario.layers.len() + 1],
            attempts: vec![[0; ATTEMPTS_TOLD]; scenario.layers.len() + 1],
            resized: None,
            let_go: 0,
            held_back: 0,
            in_handlers_most: 0,
            idle: IdleTally::default(),
        }
    }

    pub(crate) fn on_asked(&mut self, now: u64) {
        self.all_asked += 1;
        self.asked += u64::from(now >= self.measured_from);
    }

    pub(crate) fn on_held_back(&mut self, request: &Request) {
        self.held_back += u64::from(request.parent.is_none() && request.asked >= self.measured_from);
    }

    pub(crate) fn on_begin(&mut self, backend: u32) {
        let place = backend as usize;
        if place >= self.window.begun.len() {
            self.window.begun.resize(place + 1, 0);
        }
        self.window.begun[place] += 1;
    }

    /// One more is in a handler of a task, which are so many there now.
    pub(crate) fn on_handler(&mut self, now: u64, count: u32) {
        if now >= self.measured_from {
            self.in_handlers_most = self.in_handlers_most.max(count);
        }
    }

    /// A request that takes so much CPU was sent to a cluster.
    pub(crate) fn on_offered(&mut self, cluster: u32, cpu: f64, is_home: bool) {
        let place = cluster as usize;
        if place >= self.window.offered.len() {
            self.window.offered.resize(place + 1, 0.0);
        }
        self.window.offered[place] += cpu;
        self.window.sent[0] += 1;
        self.window.sent[1] += u32::from(is_home);
    }

    pub(crate) fn on_end(&mut self, now: u64, request: &Request, end: End) {
        self.all_ended += 1;
        match end {
            End::Served => self.window.served += 1,
            End::Refused => self.window.refused += 1,
            End::Failed | End::Expired | End::Unsent | End::Cancelled | End::Rejected => self.window.failed += 1,
        }
        if request.asked < self.measured_from {
            return;
        }
        self.ended[end as usize] += 1;
        let served = u64::from(end == End::Served);
        let classes = [
            self.by_criticality.get_mut(request.criticality.index()),
            self.by_customer.get_mut(request.customer as usize),
        ];
        for count in classes.into_iter().flatten() {
            count[0] += 1;
            count[1] += served;
        }
        // A caller that gave up waited for all that time; an error or a refusal says nothing of speed.
        if matches!(end, End::Served | End::Expired) {
            let took = (now - request.asked).max(1);
            self.latency.saturating_record(took);
            if request.asked - self.measured_from >= self.measured_until.saturating_sub(self.measured_from) / 2 {
                self.latency_later.saturating_record(took);
            }
        }
    }

    /// Of requests asked for in either half of the time that is measured: what grows is longer in the second.
    pub(crate) fn p99_by_half(&self) -> Option<[u64; 2]> {
        let mut earlier = self.latency.clone();
        earlier.subtract(&self.latency_later).expect("what came later is part of all");
        let halves = [&earlier, &self.latency_later];
        halves.iter().all(|half| !half.is_empty()).then(|| halves.map(|half| half.value_at_quantile(0.99)))
    }

    /// A request to a layer behind, made for one of the first service that was asked for then.
    pub(crate) fn on_layer_asked(&mut self, service: u32, root_asked: u64) {
        self.layer_asked[service as usize] += u64::from(root_asked >= self.measured_from);
    }

    /// An attempt with this number, 0 for the first, for a request of the first service that was asked for then.
    pub(crate) fn on_attempt(&mut self, service: u32, number: u32, root_asked: u64) {
        let place = (number as usize).min(ATTEMPTS_TOLD - 1);
        self.attempts[service as usize][place] += u64::from(root_asked >= self.measured_from);
    }

    pub(crate) fn on_restart(&mut self) {
        self.restarts += 1;
    }

    pub(crate) fn on_resize(&mut self, before: Shape, after: Shape) {
        self.resized = Some((before, after));
        self.let_go = 0;
    }

    /// A client that stays has let go of a connection.
    pub(crate) fn on_let_go(&mut self, client: u32) {
        self.let_go +=
            u64::from(self.resized.is_some_and(|(before, after)| client < before.clients.min(after.clients)));
    }

    /// A request asked for then waits for a connection.
    pub(crate) fn on_wait(&mut self, asked: u64) {
        self.idle.waited += u64::from(asked >= self.measured_from);
    }

    pub(crate) fn on_datagram(&mut self, now: u64) {
        self.idle.datagrams += u64::from((self.measured_from..self.measured_until).contains(&now));
    }

    /// An inactive client has heard what was announced at `said_at`.
    pub(crate) fn on_told(&mut self, now: u64, said_at: u64) {
        self.idle.told_most = self.idle.told_most.max(Some(now.saturating_sub(said_at)));
    }

    /// So many of all pairs are inactive now.
    pub(crate) fn on_inactive(&mut self, now: u64, share: f64) {
        if now >= self.measured_from {
            self.idle.shares.0 += share;
            self.idle.shares.1 += 1;
        }
    }

    /// The window is over; `utilization` is of each task in it.
    pub(crate) fn on_window(&mut self, utilization: Vec<f32>) {
        let mut window = std::mem::take(&mut self.window);
        window.begun.resize(utilization.len(), 0);
        window.utilization = utilization;
        self.windows.push(window);
    }
}

/// An hour: longer than anybody waits.
const LATENCY_MOST: u64 = 3_600_000_000_000;
