//! What a change of either side costs in connections (A12).

use std::fmt;
use std::str::FromStr;

use super::{COUNT_MOST, Dealt, Shape};

/// More or fewer clients or backends: `+1b`, `-10%b`, `+10%c`.
///
/// Those that come get the next numbers, and the last are those that go.
///
/// ```
/// use evenkeel_core::plan::{Change, Shape};
///
/// let change: Change = "-10%b".parse()?;
/// let shape = Shape { clients: 40, backends: 300, size: 20 };
/// assert_eq!(change.applied_to(shape)?.backends, 270);
/// # Ok::<(), evenkeel_core::plan::BadChange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    grows: bool,
    amount: u32,
    is_percent: bool,
    of_clients: bool,
}

impl Change {
    /// The shape afterwards. Refused where nobody would be left, or more than a service has.
    pub fn applied_to(self, shape: Shape) -> Result<Shape, BadChange> {
        let count = if self.of_clients { shape.clients } else { shape.backends };
        let amount = if self.is_percent {
            (u64::from(count) * u64::from(self.amount)).div_ceil(100)
        } else {
            u64::from(self.amount)
        };
        let out_of_range = BadChange::OutOfRange { change: self, of: count };
        let after =
            if self.grows { u64::from(count).checked_add(amount) } else { u64::from(count).checked_sub(amount) };
        let after = after.and_then(|after| u32::try_from(after).ok());
        let after = after.filter(|after| (1..=COUNT_MOST).contains(after)).ok_or(out_of_range)?;
        Ok(if self.of_clients { Shape { clients: after, ..shape } } else { Shape { backends: after, ..shape } })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.grows { '+' } else { '-' };
        let percent = if self.is_percent { "%" } else { "" };
        let side = if self.of_clients { 'c' } else { 'b' };
        f.pad(&format!("{sign}{}{percent}{side}", self.amount))
    }
}

/// A change that cannot be made out, or not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChange {
    /// It does not read as one.
    Unreadable,
    /// Its number is larger than any count of tasks.
    TooLarge,
    /// It would leave nobody, or more than the planner deals to.
    OutOfRange {
        /// The change.
        change: Change,
        /// How many there are now.
        of: u32,
    },
}

impl fmt::Display for BadChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadChange::Unreadable => f.write_str(
                "write a sign, a whole number, % if it is a share, and b for backends or c for clients, as in +1b, \
                 -10%b, +10%c",
            ),
            BadChange::TooLarge => write!(f, "out of range: write a whole number of at most {COUNT_MOST}"),
            BadChange::OutOfRange { change, of } => {
                let side = if change.of_clients { "clients" } else { "backends" };
                write!(f, "{change} of {of} {side} is not possible: 1 to {COUNT_MOST} must be left")
            }
        }
    }
}

impl std::error::Error for BadChange {}

impl FromStr for Change {
    type Err = BadChange;

    fn from_str(text: &str) -> Result<Self, BadChange> {
        let (grows, rest) = match text.strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('-').ok_or(BadChange::Unreadable)?),
        };
        let (of_clients, rest) = match rest.strip_suffix('c') {
            Some(rest) => (true, rest),
            None => (false, rest.strip_suffix('b').ok_or(BadChange::Unreadable)?),
        };
        let (is_percent, digits) = rest.strip_suffix('%').map_or((false, rest), |digits| (true, digits));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadChange::Unreadable);
        }
        // Digits alone fail to parse only where there are too many of them.
        let amount = digits.parse().ok().filter(|&amount| amount <= COUNT_MOST).ok_or(BadChange::TooLarge)?;
        Ok(Change { grows, amount, is_percent, of_clients })
    }
}

/// Connections that end because of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// Connections before.
    pub before: u64,
    /// Those of clients still there that ended.
    pub lost: u64,
    /// What an exactly even dealing of the same wished size could not help losing: what the removed backends had, or
    /// what the new ones must be given for their share. Subsets that happen to grow do not lower it, except where the
    /// wish was for more backends than there were. A loss below it means that newcomers get less than their share, or
    /// get it because some subsets grew.
    pub least: f64,
    /// The most that ended for one client.
    pub worst_client: u64,
}

impl Churn {
    /// What changes between two dealings.
    pub fn between(before: &Dealt, after: &Dealt) -> Churn {
        let mut lost = 0;
        let mut worst_client = 0;
        let mut holds = vec![u32::MAX; before.shape.backends.max(after.shape.backends) as usize];
        for ((row, later), client) in before.rows.iter().zip(&after.rows).zip(0..) {
            for &backend in later {
                holds[backend as usize] = client;
            }
            let gone = row.iter().filter(|&&backend| holds[backend as usize] != client).count() as u64;
            lost += gone;
            worst_client = worst_client.max(gone);
        }
        let connections = |dealt: &Dealt| dealt.rows.iter().map(|row| row.len() as u64).sum();
        Churn { before: connections(before), lost, least: least_lost(before, after), worst_client }
    }

    /// How many times the least possible was lost: 1 where nothing had to be lost and nothing was, infinite where
    /// something was.
    pub fn to_least(&self) -> f64 {
        if self.lost == 0 && self.least <= 0.0 { 1.0 } else { self.lost as f64 / self.least }
    }
}

/// The least any dealing of the same wished size could lose and be exactly even.
fn least_lost(before: &Dealt, after: &Dealt) -> f64 {
    let stayed = before.rows.len().min(after.rows.len());
    let (old, new) = (before.shape.backends, after.shape.backends);
    if new < old {
        return before.rows[..stayed].iter().flatten().filter(|&&backend| backend >= new).count() as f64;
    }
    let connections = |dealt: &Dealt| dealt.rows[..stayed].iter().map(|row| row.len() as u64).sum::<u64>();
    let had = connections(before);
    // A subset larger than wished takes newcomers in and lets nobody go, which is not what was asked for.
    let size = before.shape.size;
    let growth_allowed = stayed as u64 * u64::from(size.min(new) - size.min(old));
    let has = connections(after).min(had + growth_allowed) as f64;
    let of_newcomers = has * f64::from(new - old) / f64::from(new);
    (had as f64 - (has - of_newcomers)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::subset::Algorithm;

    #[test]
    fn changes_read_back_and_nonsense_is_refused() {
        for text in ["+1b", "-10%b", "+10%c", "-3c"] {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        for text in ["", "1b", "+b", "+1", "+1x", "+-1b", "+1%%b", "+1.5b", "+%c", "b"] {
            assert_eq!(text.parse::<Change>(), Err(BadChange::Unreadable), "{text}");
        }
        for text in ["+131073b", "-131073%c", "+99999999999999999999b"] {
            assert_eq!(text.parse::<Change>(), Err(BadChange::TooLarge), "{text}");
        }
    }

    #[test]
    fn a_change_leaves_somebody() {
        let shape = Shape { clients: 3, backends: 10, size: 2 };
        let after = |text: &str| text.parse::<Change>().unwrap().applied_to(shape);
        assert_eq!(after("+5%b").unwrap().backends, 11, "a share of something is at least one");
        assert!(after("-3c").is_err());
        assert!(after("-100%b").is_err());
        assert!(after("+131072b").is_err());
    }

    #[test]
    fn random_loses_about_the_least() {
        let shape = Shape { clients: 300, backends: 300, size: 20 };
        let deal = |shape| Dealt::new(shape, Algorithm::Random, 5).unwrap();
        let before = deal(shape);
        for text in ["+1b", "-1b", "+10%b", "-10%b"] {
            let after = deal(text.parse::<Change>().unwrap().applied_to(shape).unwrap());
            let churn = Churn::between(&before, &after);
            assert!((0.5..=1.5).contains(&churn.to_least()), "{text}: {churn:?}");
        }
        let more_clients = deal(Shape { clients: 330, ..shape });
        assert_eq!(Churn::between(&before, &more_clients).lost, 0);
    }
    #[test]
    fn subsets_that_happen_to_grow_do_not_lower_the_least() {
        let shape = Shape { clients: 300, backends: 300, size: 20 };
        let deal = |shape| Dealt::new(shape, Algorithm::Rounds, 0).unwrap();

        let churn = Churn::between(&deal(shape), &deal(Shape { backends: 301, ..shape }));

        // 6000 connections, of which the newcomer is due one in 301.
        assert!((churn.least - 6_000.0 / 301.0).abs() < 1e-9, "{churn:?}");
        assert!((0.9..=1.1).contains(&churn.to_least()), "{churn:?}");
    }

    #[test]
    fn subsets_that_were_too_small_may_grow_and_lose_nothing() {
        let shape = Shape { clients: 5, backends: 10, size: 20 };
        let deal = |shape| Dealt::new(shape, Algorithm::Even, 0).unwrap();

        let churn = Churn::between(&deal(shape), &deal(Shape { backends: 11, ..shape }));

        assert_eq!((churn.lost, churn.least, churn.to_least()), (0, 0.0, 1.0));
    }

    #[test]
    fn losing_less_than_the_least_is_no_ratio_of_one() {
        let churn = Churn { before: 10, lost: 0, least: 2.0, worst_client: 0 };
        assert!(churn.to_least() < 0.01, "newcomers got nothing");
        assert!(Churn { lost: 1, least: 0.0, ..churn }.to_least().is_infinite());
    }
}
