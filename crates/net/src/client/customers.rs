//! Numbers for the customers a channel carries requests of, so that core counts them apart (B7).
//!
//! The first ones to come have numbers of their own for as long as the channel lives; all others share one.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use evenkeel_core::CustomerId;
use evenkeel_core::client::CUSTOMERS_APART;

/// Who has which number.
#[derive(Debug, Default)]
pub(crate) struct Customers(ArcSwap<BTreeMap<Arc<str>, u32>>);

impl Customers {
    /// The customer's number; nobody in particular is 0. Takes no lock, and allocates for a new name only.
    pub(crate) fn number(&self, name: Option<&Arc<str>>) -> CustomerId {
        let Some(name) = name else { return CustomerId(0) };
        let known = self.0.load();
        let next = |known: &BTreeMap<_, _>| known.len() as u32 + 1;
        match known.get(name) {
            Some(&number) => CustomerId(number),
            None if next(&known) >= CUSTOMERS_APART => CustomerId(CUSTOMERS_APART),
            None => self.add(name),
        }
    }

    /// Who has this number; `None` for nobody in particular, and for the one that many share.
    pub(crate) fn name(&self, CustomerId(number): CustomerId) -> Option<Arc<str>> {
        let known = self.0.load();
        known.iter().find(|(_, known)| **known == number).map(|(name, _)| Arc::clone(name))
    }

    #[cold]
    fn add(&self, name: &Arc<str>) -> CustomerId {
        self.0.rcu(|known| {
            let next = known.len() as u32 + 1;
            let mut more = BTreeMap::clone(known);
            // Another thread may have taken the last number, or have added this very name.
            if next < CUSTOMERS_APART {
                more.entry(Arc::clone(name)).or_insert(next);
            }
            more
        });
        CustomerId(self.0.load().get(name).copied().unwrap_or(CUSTOMERS_APART))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_customers_have_numbers_of_their_own_and_the_others_share_one() {
        let customers = Customers::default();
        let names: Vec<Arc<str>> = (0..100).map(|n| Arc::from(format!("customer-{n}"))).collect();
        let first: Vec<u32> = names.iter().map(|name| customers.number(Some(name)).0).collect();
        let again: Vec<u32> = names.iter().map(|name| customers.number(Some(name)).0).collect();

        assert_eq!(first, again);
        assert_eq!(first[..63], (1..64).collect::<Vec<u32>>());
        assert!(first[63..].iter().all(|&number| number == CUSTOMERS_APART));
        assert_eq!(customers.number(None), CustomerId(0));
        assert_eq!(customers.name(CustomerId(3)).as_deref(), Some("customer-2"));
        assert_eq!([0, CUSTOMERS_APART].map(|number| customers.name(CustomerId(number))), [None, None]);
    }
}
