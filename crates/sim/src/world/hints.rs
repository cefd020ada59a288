//! What a client does with what a backend said that it refuses: until core has it, for clients with one backend.
//!
//! A request that would be refused is not sent, and its backend hears how many there were with the next one that is. A hint
//! that grows old is tried: one request in a quarter of its time. One much older is forgotten.

use evenkeel_core::{Criticality, Hint, Priority, Rng};

use super::World;
use super::event::RequestId;
use super::tally::End;

/// The last hint of one backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    hint: Hint,
    /// When it came.
    at: u64,
    /// When it is to be tried next.
    try_at: u64,
    /// Requests held back that the backend has not heard of.
    held: [u16; 4],
}

impl Heard {
    fn new(now: u64, hint: Hint, rng: &mut Rng, held: [u16; 4]) -> Self {
        // Not all at once.
        let try_at = now + (hint.ttl.as_nanos() as f64 * (0.75 + 0.5 * rng.unit())) as u64;
        Heard { hint, at: now, try_at, held }
    }

    /// Whether a request of this priority is sent; counts it where it is not.
    fn admits(&mut self, now: u64, priority: Priority, class: Criticality) -> bool {
        let ttl = self.hint.ttl.as_nanos() as u64;
        if self.hint.cutoff.admits(priority) || now >= self.at + FORGOTTEN * ttl {
            return true;
        }
        if now >= self.try_at {
            self.try_at = now + ttl / TRIES;
            return true;
        }
        let held = &mut self.held[class.index()];
        *held = held.saturating_add(1);
        false
    }

    fn take_held(&mut self) -> Option<[u16; 4]> {
        let held = std::mem::take(&mut self.held);
        (held != [0; 4]).then_some(held)
    }
}

impl World<'_> {
    /// Whether the client does not send this request at all; it has ended then.
    pub(super) fn holds_back(&mut self, id: RequestId) -> bool {
        let Some(request) = self.requests.get_mut(id) else { return false };
        let client = &mut self.clients[request.client as usize];
        if client.heard.len() != 1 {
            return false;
        }
        let Some(heard) = client.heard.values_mut().next() else { return false };
        if heard.admits(self.now, Priority::new(request.criticality, request.lot), request.criticality) {
            request.held = heard.take_held();
            return false;
        }
        self.tally.on_held_back(request);
        self.note_held_back(id);
        self.end_request(id, End::Refused);
        true
    }

    /// The client hears what the backend refuses, with an answer.
    pub(super) fn heed(&mut self, id: RequestId) {
        let now = self.now;
        let Some(request) = self.requests.get_mut(id) else { return };
        let Some(hint) = request.hint.take() else { return };
        let client = &mut self.clients[request.link.client as usize];
        if client.is_foreign || client.picker.backends().count() != 1 {
            return;
        }
        let held = client.heard.get(&request.backend).map_or([0; 4], |heard| heard.held);
        let heard = Heard::new(now, hint, &mut client.rng, held);
        client.heard.insert(request.backend, heard);
    }
}

/// Lives of a hint after which it is forgotten.
const FORGOTTEN: u64 = 4;
/// Tries in the life of a hint.
const TRIES: u64 = 4;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_core::{Cutoff, Lot};

    use super::*;

    const MS: u64 = 1_000_000;

    fn heard() -> Heard {
        let hint = Hint { cutoff: Cutoff::new(1.5), ttl: Duration::from_millis(800) };
        Heard::new(0, hint, &mut Rng::from_seed(1), [0; 4])
    }

    #[test]
    fn what_would_be_refused_is_held_back_and_told_with_the_next_one() {
        let (mut heard, low) = (heard(), Criticality::SheddablePlus);
        assert!(!heard.admits(MS, Priority::new(low, Lot(100)), low));
        assert!(heard.admits(MS, Priority::new(low, Lot(u16::MAX)), low));

        assert_eq!(heard.take_held(), Some([0, 1, 0, 0]));
        assert_eq!(heard.take_held(), None);
    }

    #[test]
    fn an_old_hint_is_tried_four_times_in_its_life_and_then_forgotten() {
        let (mut heard, low) = (heard(), Criticality::Sheddable);
        let lowest = Priority::new(low, Lot(0));
        let sent: Vec<u64> = (0..3_500).filter(|at| heard.admits(at * MS, lowest, low)).collect();

        assert!((600..=1_000).contains(&sent[0]), "{sent:?}");
        let (tries, forgotten): (Vec<u64>, Vec<u64>) = sent.into_iter().partition(|&at| at < 3_200);
        assert!(tries.windows(2).all(|pair| pair[1] - pair[0] == 200), "{tries:?}");
        assert_eq!(forgotten.len(), 300);
    }
}
