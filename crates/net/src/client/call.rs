//! One request through a channel: picked, sent, and sent again elsewhere where that helps and does no harm.
//!
//! Whether it is sent again, when and how often is core's to say ([`Picker::again`](evenkeel_core::Picker::again)); this
//! file tells it how an attempt ended. Whoever asked gets what the last attempt gave.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::client::WAKE_MORE_AFTER;
use evenkeel_core::{Behind, Fate, Kind, Lot, Outcome, Refusal, Repeat, RequestMeta, Ticket, Tries};
use tokio::time::Instant;

use super::answer::{Counted, CountedBody, answered};
use super::error::CallError;
use super::hedge;
use super::replay::SentBody;
use super::sender::{Answer, Failure, Sender};
use super::sending::{Sending, complete_uri, kind_of};
use super::{Clusters, Published, Shared, local};
use crate::body::{BoxBody, BoxError};
use crate::context::{Context, Resolved, resolve};
use crate::wire::headers;

type Response = http::Response<CountedBody>;

/// Which channel an attempt goes through: a retry is dealt like a new request (B12), to another cluster if it is its turn.
pub(super) enum Route<'a> {
    One(&'a Arc<Shared>),
    Among(&'a Clusters),
}

impl<'a> Route<'a> {
    fn next(&self) -> &'a Arc<Shared> {
        match self {
            Route::One(shared) => shared,
            Route::Among(clusters) => clusters.choose(),
        }
    }

    /// Whether another channel than this one stands ready.
    fn has_other(&self, than: &Arc<Shared>) -> bool {
        match self {
            Route::One(_) => false,
            Route::Among(clusters) => clusters.has_other(than),
        }
    }
}

/// The same as [`call`], with errors as gRPC says them where that is what was asked for.
pub(super) async fn answer(
    route: Route<'_>,
    request: http::Request<BoxBody>,
    scope: Option<&Context>,
) -> Result<Response, CallError> {
    let is_grpc = headers::is_grpc(request.headers());
    match call(route, request, scope).await {
        Err(error) if is_grpc => Ok(local::answer(&error)),
        answered => answered,
    }
}

/// Sends a request to a backend of the picker's choice, and to another one where core says so.
async fn call(
    route: Route<'_>,
    mut request: http::Request<BoxBody>,
    scope: Option<&Context>,
) -> Result<Response, CallError> {
    let mut shared = route.next();
    let addressed = complete_uri(shared, request.uri_mut())?;
    let now = Instant::now();
    let draw = || shared.seat.with(shared, |_, rng| Lot::draw(rng));
    let context = resolve(now, request.extensions(), request.headers(), scope, shared.defaults, draw);
    // One that came with a connection is nobody's mistake here: behind this call it is billed to nobody in particular.
    let is_named_here = request.extensions().get::<Context>().is_some_and(|set| set.customer.is_some());
    if !context.write(now, request.headers_mut()) && is_named_here {
        return Err(CallError::BadRequest(BAD_CUSTOMER));
    }
    let (deadline, is_head) = (context.deadline, request.method() == http::Method::HEAD);
    let kind = kind_of(&request);
    let (mut request, sending) = Sending::new(request, addressed, shared.replay_most, deadline);
    let (mut tries, mut before, mut connected_until) = (Tries::default(), None, None);
    loop {
        let mut walk = Walk::new(shared, &context, &sending, kind);
        let begun = match walk.begin(&tries) {
            // One that has an answer already does not wait for a connection to get another.
            Err(Refusal::Waking) if before.is_none() => {
                let until = *connected_until.get_or_insert_with(|| Instant::now() + shared.connect_timeout);
                walk.begin_once_connected(&tries, until).await
            }
            begun => begun,
        };
        let (counted, sender) = match begun {
            Ok(begun) => begun,
            Err(refusal) => {
                let Some((through, begun)) = walk.begin_elsewhere(&route, &tries, refusal) else {
                    return walk.without_another(before, &tries, refusal);
                };
                (shared, walk) = (through.shared, through);
                sending.address(&mut request, shared);
                begun
            }
        };
        counted.tell_held(request.headers_mut(), walk.first.customer);
        let (ended, counted) = hedge::send(&walk, &mut tries, (counted, sender), request).await;
        let backend = counted.backend();
        let attempt = walk.settle(ended, counted, is_head);
        let fate = match attempt.fate {
            Some((outcome, repeat)) => {
                let elsewhere = outcome == Outcome::Overloaded && route.has_other(shared);
                Fate { backend, outcome, repeat, pushback: attempt.pushback, elsewhere }
            }
            None => return attempt.end,
        };
        let Some(wait) = walk.again(&mut tries, &fate) else { return attempt.end };
        let end = settled(attempt.end);
        // Before it waits: the last attempt reads no further, beyond what is kept, nor takes a cluster's turn for nothing.
        let Some(body) = sending.body_again() else {
            walk.give_up(fate.outcome, &tries);
            return end;
        };
        // After one that never left, the driver is about to hear what happened to the connection.
        pause(wait, deadline).await;
        if fate.outcome != Outcome::Unsent {
            before = Some((end, fate.outcome));
        }
        shared = route.next();
        request = sending.again(body, shared, tries.meta(&walk.first).attempt);
    }
}

/// What all attempts of one request have in common.
pub(super) struct Walk<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) context: &'a Resolved,
    /// As its first attempt is.
    pub(super) first: RequestMeta,
    pub(super) sending: &'a Sending,
}

/// An attempt that is over as far as trying again goes.
struct Attempt {
    end: Result<Response, CallError>,
    /// How it ended and whether it may be made once more; `None` where there is nothing to mend.
    fate: Option<(Outcome, Repeat)>,
    pushback: Option<Duration>,
}

impl<'a> Walk<'a> {
    fn new(shared: &'a Arc<Shared>, context: &'a Resolved, sending: &'a Sending, kind: Kind) -> Self {
        // Each channel has a clock and numbers of its own.
        let customer = shared.customers.number(context.customer.as_ref());
        Walk { shared, context, first: context.meta(shared.clock, kind, customer), sending }
    }

    /// A request that this client has no place for in its cluster never left: another one with room takes it, and it is no
    /// retry.
    fn begin_elsewhere(
        &self,
        route: &Route<'a>,
        tries: &Tries,
        refusal: Refusal,
    ) -> Option<(Self, (Counted, Option<Sender>))> {
        let (Route::Among(clusters), Refusal::AllFull) = (route, refusal) else { return None };
        clusters.find_with_room(self.shared, |other| {
            let through = Walk::new(other, self.context, self.sending, self.first.kind);
            through.begin(tries).ok().map(|begun| (through, begun))
        })
    }

    /// Picks a backend and counts the request in.
    pub(super) fn begin(&self, tries: &Tries) -> Result<(Counted, Option<Sender>), Refusal> {
        let shared = self.shared;
        loop {
            let now = shared.clock.now();
            let published = shared.published.load();
            let begun = shared
                .seat
                .with(shared, |local, rng| published.picker.begin_again(local, now, &self.first, tries, rng));
            match begun {
                Ok(ticket) => return Ok(self.counted(&published, ticket)),
                // What this picker knew may be outdated: nothing begins on backends that have left since.
                Err(Refusal::AllFull) if !is_newest(shared, &published) => {}
                Err(refusal) => {
                    // Whoever is wanted is connected to, also where this one does not wait for it.
                    if refusal == Refusal::Waking {
                        shared.wishes.notify_one();
                    }
                    return Err(refusal);
                }
            }
        }
    }

    /// What was counted in on this picker, and the connection it goes to.
    pub(super) fn counted(&self, published: &Published, ticket: Ticket) -> (Counted, Option<Sender>) {
        if ticket.wakes() {
            self.shared.wishes.notify_one();
        }
        let sender = published.senders.get(ticket.position()).cloned().flatten();
        (Counted::new(Arc::clone(self.shared), ticket, self.context.serving()), sender)
    }

    /// Waits until an inactive backend can be sent to, or this long.
    async fn begin_once_connected(&self, tries: &Tries, until: Instant) -> Result<(Counted, Option<Sender>), Refusal> {
        let shared = self.shared;
        let mut publications = shared.publications.subscribe();
        loop {
            // A picker that is published from here on is not missed.
            publications.mark_unchanged();
            match self.begin(tries) {
                Err(Refusal::Waking) => {}
                begun => return begun,
            }
            let now = Instant::now();
            if now >= until {
                shared.published.load().picker.refuse(Refusal::Waking);
                return Err(Refusal::Waking);
            }
            // Or a little later: others may be woken if the first ones take long.
            let next_try = until.min(now + WAKE_MORE_AFTER);
            let next_try = self.context.deadline.map_or(next_try, |deadline| next_try.min(deadline));
            drop(tokio::time::timeout_at(next_try, publications.changed()).await);
        }
    }

    /// No backend takes it, or no other one: what the last attempt gave stands, if there was any. What this client holds
    /// back the service would refuse, and so for whoever asked this process (B17).
    fn without_another(
        &self,
        before: Option<(Result<Response, CallError>, Outcome)>,
        tries: &Tries,
        refusal: Refusal,
    ) -> Result<Response, CallError> {
        if refusal == Refusal::Throttled {
            self.context.remember(Behind::TooMuch);
        }
        let Some((end, outcome)) = before else { return Err(CallError::Refused(refusal)) };
        self.give_up(outcome, tries);
        end
    }

    /// It was to be tried again and is not: whether it is to be tried again above (B17) depends on what was before.
    fn give_up(&self, outcome: Outcome, tries: &Tries) {
        if let Some(behind) = tries.bubbles_unmade(outcome) {
            self.context.remember(behind);
        }
    }

    /// Gives the attempt's place back where there is no answer, and says what became of it.
    fn settle(&self, ended: Result<Answer, Ended>, counted: Counted, is_head: bool) -> Attempt {
        let of = |end, fate| Attempt { end: Err(end), fate, pushback: None };
        match ended {
            Ok(answer) => {
                let answer = answered(answer, counted, self.context.deadline, is_head);
                let pushback = headers::read_pushback(answer.headers());
                let fate = answer.body().verdict().filter(|verdict| verdict.is_error()).map(|verdict| {
                    // A code that may mean too much of anything says nothing of whether it ran; a pushback does.
                    let is_marked = pushback.is_some() || !headers::is_grpc(answer.headers());
                    let is_refusal = verdict == Outcome::Overloaded && is_marked;
                    let repeat = match verdict {
                        _ if headers::is_failed_behind(answer.headers()) => Repeat::Useless,
                        _ if is_refusal => self.sending.repeat_of_refused(),
                        _ => self.sending.repeat(),
                    };
                    (verdict, repeat)
                });
                Attempt { end: Ok(answer), fate, pushback }
            }
            Err(Ended::Expired) => {
                counted.finish(Outcome::Expired, None);
                of(CallError::Expired, None)
            }
            // Before anything else: what the body's own error looks like says nothing about the backend.
            Err(Ended::Failed(Failure::Broken(error) | Failure::NeverRan(error))) if self.sending.has_failed() => {
                counted.finish(Outcome::Cancelled, None);
                of(CallError::Body(error), None)
            }
            Err(Ended::Failed(Failure::Broken(error))) => {
                counted.finish(Outcome::Failed, None);
                of(CallError::Broken(error), Some((Outcome::Failed, self.sending.repeat())))
            }
            Err(Ended::Failed(Failure::NeverRan(error))) => {
                counted.finish(Outcome::Unsent, None);
                of(CallError::Unsent(error), Some((Outcome::Unsent, self.sending.repeat_of_refused())))
            }
        }
    }

    /// How long to wait before the next attempt, if there is to be one.
    fn again(&self, tries: &mut Tries, fate: &Fate) -> Option<Duration> {
        let (shared, now) = (self.shared, self.shared.clock.now());
        let picker = &shared.published.load().picker;
        let verdict = shared.seat.with(shared, |_, rng| picker.again(now, &self.first, tries, fate, rng));
        let stop = match verdict {
            Ok(wait) => return Some(wait),
            Err(stop) => stop,
        };
        if let Some(behind) = stop.bubbles(fate.outcome, tries) {
            self.context.remember(behind);
        }
        None
    }
}

/// An answer that another attempt may take the place of.
fn settled(end: Result<Response, CallError>) -> Result<Response, CallError> {
    end.map(|mut answer| {
        answer.body_mut().settle();
        answer
    })
}

fn is_newest(shared: &Shared, published: &Arc<Published>) -> bool {
    Arc::ptr_eq(&shared.published.load(), published)
}

/// Why there is no answer.
pub(super) enum Ended {
    Expired,
    Failed(Failure),
}

pub(super) async fn send(
    sender: Option<Sender>,
    request: http::Request<SentBody>,
    deadline: Option<Instant>,
) -> Result<Answer, Ended> {
    let Some(sender) = sender else {
        return Err(Ended::Failed(Failure::NeverRan(BoxError::from("the connection is gone"))));
    };
    let sending = sender.send(request);
    let answer = match deadline {
        Some(at) => tokio::time::timeout_at(at, sending).await.map_err(|_| Ended::Expired)?,
        None => sending.await,
    };
    answer.map_err(Ended::Failed)
}

async fn pause(wait: Duration, deadline: Option<Instant>) {
    if wait.is_zero() {
        return tokio::task::yield_now().await;
    }
    let until = Instant::now() + wait;
    tokio::time::sleep_until(deadline.map_or(until, |deadline| until.min(deadline))).await;
}

const BAD_CUSTOMER: &str =
    "the customer's name fits no header: use printable ASCII without blanks around it, up to 2048 bytes";
