//! Load through a channel: callers that wait for each other's answers, or requests at a rate.

mod arrivals;
mod caller;
mod tally;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel::client::ChannelSnapshot;
use evenkeel_core::{Outcome, Time};
use tokio::task::JoinSet;

pub(crate) use arrivals::{Arrivals, Gaps};
use caller::Reply;
pub(crate) use caller::{ANSWER_MOST, Caller, Form};
pub(crate) use tally::{Latency, Percentiles, Tally, ms_text};

use crate::work::WorkRequest;

/// When the next request is made.
#[derive(Debug)]
pub(crate) enum Pace {
    /// At its time, with at most so many in flight.
    Open { arrivals: Arrivals, in_flight_most: u32 },
    /// When one of so many callers has its answer.
    Closed { callers: u32 },
}

/// When no more are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// After so many.
    Requests(u64),
    /// After this time.
    After(Duration),
}

/// Whether somebody worked on a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Taken,
    NotTaken,
}

/// What the next request asks for.
pub(crate) type NextWork = Box<dyn FnMut() -> WorkRequest + Send>;

/// A load that can be looked at while it runs; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    caller: Caller,
    began: Time,
    ended: Arc<OnceLock<Time>>,
    tally: Arc<Mutex<Tally>>,
}

impl Load {
    pub(crate) fn new(caller: Caller) -> Self {
        let (began, tally) = (caller.clock.now(), Arc::new(Mutex::new(Tally::new())));
        Load { caller, began, ended: Arc::default(), tally }
    }

    /// What was seen so far.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().clone()
    }

    /// Since it was begun, until now or its end.
    pub(crate) fn elapsed(&self) -> Duration {
        self.ended.get().copied().unwrap_or_else(|| self.caller.clock.now()).since(self.began)
    }

    /// Makes the requests and waits for their answers. Dropped, it leaves those in flight uncounted.
    pub(crate) async fn run(&self, pace: Pace, end: End, mut next: NextWork) {
        match pace {
            Pace::Open { arrivals, in_flight_most } => {
                let mut due = arrivals.start(self.caller.clock, self.began, end);
                let mut in_flight = JoinSet::new();
                while let Some(at) = due.recv().await {
                    while in_flight.try_join_next().is_some() {}
                    let work = next();
                    self.lock().asked += 1;
                    if in_flight.len() < in_flight_most as usize {
                        in_flight.spawn(self.clone().request(at, work));
                    } else {
                        self.lock().not_sent += 1;
                    }
                }
                while in_flight.join_next().await.is_some() {}
            }
            Pace::Closed { callers } => {
                let next = Arc::new(Mutex::new(next));
                let mut calling = JoinSet::new();
                for _ in 0..callers {
                    calling.spawn(self.clone().call_in_turn(end, Arc::clone(&next)));
                }
                while calling.join_next().await.is_some() {}
            }
        }
        self.ended.get_or_init(|| self.caller.clock.now());
    }

    async fn call_in_turn(self, end: End, next: Arc<Mutex<NextWork>>) {
        loop {
            {
                let mut tally = self.lock();
                let is_over = match end {
                    End::Requests(most) => tally.asked >= most,
                    End::After(most) => self.elapsed() >= most,
                };
                if is_over {
                    break;
                }
                tally.asked += 1;
            }
            let work = next.lock().unwrap_or_else(PoisonError::into_inner)();
            if let Fate::NotTaken = self.clone().request(self.caller.clock.now(), work).await {
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }

    /// Its latency counts from when it was due.
    async fn request(self, due: Time, work: WorkRequest) -> Fate {
        let reply = self.caller.call(&work).await;
        let took = self.caller.clock.now().since(due);
        let fate = if matches!(reply, Reply::Refused(_)) { Fate::NotTaken } else { Fate::Taken };
        self.lock().count(took, reply);
        fate
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attempts beyond the first of a request: after a refusal or a failure, or since the one before certainly never ran.
pub(crate) fn retries(snapshot: &ChannelSnapshot, tally: &Tally) -> u64 {
    let unsent: u64 = snapshot.client.backends.iter().map(|backend| backend.ended(Outcome::Unsent)).sum();
    let resent = unsent.saturating_sub(tally.failed.get(caller::UNSENT).copied().unwrap_or(0));
    resent + snapshot.client.retries.made.iter().sum::<u64>()
}

/// A caller that is refused asks again a little later, or it would ask a million times a second.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
