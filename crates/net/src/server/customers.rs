//! Numbers of customers (B4): the brain gives them out, the request path only looks them up.
//!
//! A name that is seen for the first time is asked for and has no number until the brain has answered, a moment later.
//! The table is swapped whole, so whoever looks never waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use evenkeel_core::CustomerId;
use tokio::sync::mpsc;

use super::driver::Event;
use super::tally::Tally;

/// The numbers that are known, and the names that wait for one.
#[derive(Debug)]
pub(crate) struct Customers {
    known: ArcSwap<HashMap<String, CustomerId>>,
    asked: Mutex<Vec<String>>,
    /// Nobody else gets a number: the brain has no more.
    full: AtomicBool,
    events: mpsc::UnboundedSender<Event>,
    tally: Tally,
}

impl Customers {
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>) -> Self {
        let (known, asked, full) = (ArcSwap::default(), Mutex::default(), AtomicBool::new(false));
        Customers { known, asked, full, events, tally: Tally::up_to(NOBODYS_ROW) }
    }

    /// The number of whoever is billed; 0 for nobody, for those who are new, and where there are too many.
    pub(crate) fn number_of(&self, name: Option<&str>) -> CustomerId {
        let Some(name) = name.filter(|name| *name != NOBODY) else { return CustomerId::default() };
        if let Some(number) = self.known.load().get(name) {
            return *number;
        }
        if !self.full.load(Ordering::Relaxed) {
            self.ask(name);
        }
        CustomerId::default()
    }

    /// Whoever finds the list taken, or long, leaves the asking to its next request.
    fn ask(&self, name: &str) {
        let Ok(mut asked) = self.asked.try_lock() else { return };
        if asked.len() >= ASKED_MOST || asked.iter().any(|other| other == name) {
            return;
        }
        asked.push(name.to_owned());
        if asked.len() == 1 {
            // A driver that is gone has no use for it.
            drop(self.events.send(Event::Customers));
        }
    }

    /// What was asked for and cost, by row.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Where a request is counted that is billed to this name, which has this number.
    pub(crate) fn row_of(name: Option<&str>, number: CustomerId) -> usize {
        match (name, number.0 as usize) {
            (None | Some(NOBODY), _) => NOBODYS_ROW,
            (Some(_), own) if own <= TALLIED => own,
            (Some(_), _) => 0,
        }
    }

    /// Who is counted there, if it is one; `names` are those with a number, from 1 on.
    pub(crate) fn name_of(names: &[String], row: usize) -> Option<&str> {
        match row {
            NOBODYS_ROW => Some(NOBODY),
            _ => names.get(row.wrapping_sub(1)).map(String::as_str),
        }
    }

    /// The names that wait.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those who have a number now, from 1 on in this order; `full` once there are no more.
    pub(crate) fn publish(&self, names: &[String], full: bool) {
        let numbered = names.iter().cloned().zip((1..).map(CustomerId));
        self.known.store(Arc::new(numbered.collect()));
        self.full.store(full, Ordering::Relaxed);
    }
}

/// Names that wait at once: as many are new between two looks of the driver only if somebody makes them up.
const ASKED_MOST: usize = 64;
/// Those after them count with everybody else: a row takes 64 bytes, and few look past the dearest.
const TALLIED: usize = 256;
const NOBODYS_ROW: usize = TALLIED + 1;
/// What requests without a customer are listed as. Whoever takes it for a name is nobody.
const NOBODY: &str = "(no customer)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_once_and_has_a_number_when_the_brain_has_given_it() {
        let (events, mut told) = mpsc::unbounded_channel();
        let customers = Customers::new(events);

        assert_eq!(customers.number_of(None), CustomerId(0));
        for _ in 0..3 {
            assert_eq!(customers.number_of(Some("mail")), CustomerId(0));
        }
        assert!(matches!(told.try_recv(), Ok(Event::Customers)));
        assert!(told.try_recv().is_err());
        assert_eq!(customers.take_asked(), ["mail"]);

        customers.publish(&["maps".to_owned(), "mail".to_owned()], false);
        assert_eq!(customers.number_of(Some("mail")), CustomerId(2));
        assert!(customers.take_asked().is_empty());
    }

    #[test]
    fn whoever_has_no_name_is_told_apart_from_those_without_a_number() {
        let (events, mut told) = mpsc::unbounded_channel();
        let customers = Customers::new(events);
        assert_eq!(customers.number_of(Some("(no customer)")), CustomerId(0));
        assert!(told.try_recv().is_err(), "it is nobody");

        let rows = [(None, 0), (Some("(no customer)"), 0), (Some("new"), 0), (Some("mail"), 1), (Some("late"), 257)];
        let rows = rows.map(|(name, number)| Customers::row_of(name, CustomerId(number)));

        let names = ["mail".to_owned()];
        assert_eq!(
            rows.map(|row| Customers::name_of(&names, row)),
            [Some("(no customer)"), Some("(no customer)"), None, Some("mail"), None]
        );
    }

    #[test]
    fn made_up_names_are_neither_kept_nor_asked_for_without_end() {
        let (events, _told) = mpsc::unbounded_channel();
        let customers = Customers::new(events);
        for number in 0..10_000 {
            customers.number_of(Some(&number.to_string()));
        }
        assert_eq!(customers.take_asked().len(), ASKED_MOST);

        customers.publish(&[], true);
        customers.number_of(Some("late"));
        assert!(customers.take_asked().is_empty());
    }
}
