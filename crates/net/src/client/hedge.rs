//! A second attempt beside one that takes long: the first answer wins, and the other attempt is cancelled.
//!
//! Only for requests that may run twice, and whose body was sent and kept whole; core says after how long, and whether
//! the budget of retries allows it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use evenkeel_core::{Outcome, Repeat, Tries};

use super::answer::{Counted, answered};
use super::call::{Ended, Walk, send as send_once};
use super::replay::SentBody;
use super::sender::{Answer, Failure, Sender};
use crate::wire::outcome;

/// How an attempt ended, and its place.
type Attempted = (Result<Answer, Ended>, Counted);

/// Sends the request on this connection, and perhaps also on another.
pub(super) async fn send(
    walk: &Walk<'_>,
    tries: &mut Tries,
    (counted, sender): (Counted, Option<Sender>),
    request: http::Request<SentBody>,
) -> Attempted {
    match walk.hedge_after() {
        None => (send_once(sender, request, walk.context.deadline).await, counted),
        // Apart, so that requests that are not hedged have no room for a second attempt.
        Some(after) => Box::pin(hedged(walk, tries, (counted, sender), request, after)).await,
    }
}

async fn hedged(
    walk: &Walk<'_>,
    tries: &mut Tries,
    (counted, sender): (Counted, Option<Sender>),
    request: http::Request<SentBody>,
    after: Duration,
) -> Attempted {
    let deadline = walk.context.deadline;
    let mut first = pin!(send_once(sender, request, deadline));
    if let Ok(ended) = tokio::time::timeout(after, first.as_mut()).await {
        return (ended, counted);
    }
    let Some((other, sender, request)) = second(walk, tries, &counted) else { return (first.await, counted) };
    let second = pin!(send_once(sender, request, deadline));
    race((first, counted), (second, other)).await
}

/// The other attempt, if there is to be one.
fn second(
    walk: &Walk<'_>,
    tries: &mut Tries,
    counted: &Counted,
) -> Option<(Counted, Option<Sender>, http::Request<SentBody>)> {
    // First: what cannot be sent needs no place.
    let body = walk.sending.body_beside()?;
    let (other, sender) = walk.begin_hedge(tries, counted)?;
    let mut request = walk.sending.again(body, walk.shared, tries.meta(&walk.first).attempt);
    other.tell_held(request.headers_mut(), walk.first.customer);
    Some((other, sender, request))
}

/// The first answer that is not an error; else the last one of the two.
async fn race<F, S>(
    (mut first, counted): (Pin<&mut F>, Counted),
    (mut second, other): (Pin<&mut S>, Counted),
) -> Attempted
where
    F: Future<Output = Result<Answer, Ended>>,
    S: Future<Output = Result<Answer, Ended>>,
{
    tokio::select! {
        biased; // chance is the seed's alone
        ended = first.as_mut() => {
            if is_answer(&ended) {
                other.outrun();
                return (ended, counted);
            }
            lose(ended, counted);
            (second.await, other)
        }
        ended = second.as_mut() => {
            if is_answer(&ended) {
                counted.outrun();
                return (ended, other);
            }
            lose(ended, other);
            (first.await, counted)
        }
    }
}

/// Whether it is worth having: what a backend refused or failed at is not, while another has yet to answer.
fn is_answer(ended: &Result<Answer, Ended>) -> bool {
    match ended {
        // One that has yet to send its trailers has begun to answer.
        // And that trying again makes it worse is all there is to know.
        Ok((answer, _)) => outcome::outcome_of_head(answer.status(), answer.headers())
            .is_none_or(|it| !it.is_error() || it.forbids_retries()),
        Err(_) => false,
    }
}

/// It ended before the other one, without anything worth having.
fn lose(ended: Result<Answer, Ended>, counted: Counted) {
    match ended {
        Ok(answer) => answered(answer, counted, None, false).body_mut().settle(),
        Err(Ended::Expired) => counted.finish(Outcome::Expired, None),
        Err(Ended::Failed(Failure::Broken(_))) => counted.finish(Outcome::Failed, None),
        Err(Ended::Failed(Failure::NeverRan(_))) => counted.finish(Outcome::Unsent, None),
    }
}

impl Walk<'_> {
    /// After how long without an answer to try elsewhere as well.
    fn hedge_after(&self) -> Option<Duration> {
        let after = self.shared.published.load().picker.hedge_after(self.shared.clock.now(), &self.first)?;
        (self.sending.repeat() == Repeat::Safe).then_some(after)
    }

    /// A place elsewhere, if core allows it now: who has it has not answered.
    fn begin_hedge(&self, tries: &mut Tries, slow: &Counted) -> Option<(Counted, Option<Sender>)> {
        let (shared, now) = (self.shared, self.shared.clock.now());
        let published = shared.published.load();
        let (picker, backend) = (&published.picker, slow.backend());
        let hedged =
            shared.seat.with(shared, |local, rng| picker.hedge(local, now, &self.first, tries, backend, rng)).ok()?;
        Some(self.counted(&published, hedged))
    }
}
