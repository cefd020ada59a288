//! All there is to see of a server, of one moment: what its driver answers when somebody looks.

use std::time::Duration;

use evenkeel_core::server::{Gate, Modes, Quota, QuotasConfig};
use evenkeel_core::{MethodId, ServerSnapshot};

use super::customers::Customers;
use super::datagrams::DatagramSnapshot;
use super::methods::Methods;
use super::signals::Readings;
use super::tally::{Spent, Tally};

/// A server as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) server: ServerSnapshot,
    pub(crate) datagrams: Option<DatagramSnapshot>,
    pub(crate) readings: Readings,
    /// As they were set; none goes further than `all`.
    pub(crate) modes: Modes,
    pub(crate) cpu_factor: f64,
    /// CPU seconds outside of handlers, for each request and for each KiB.
    pub(crate) overhead: (f64, f64),
    pub(crate) methods: Vec<Spender>,
    pub(crate) customers: Vec<Spender>,
}

/// A method or a customer, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spender {
    /// `None` for all that have no number of their own.
    pub(crate) name: Option<String>,
    pub(crate) spent: Spent,
    /// Of all CPU that requests cost.
    pub(crate) share: f64,
    /// What one costs, of late: of methods a whole answer.
    pub(crate) mean: Option<Duration>,
    /// Of methods, what an answer costs at the level that is asked for now, if one is.
    pub(crate) degraded_mean: Option<Duration>,
    /// For its quota; nothing for methods, which have none.
    pub(crate) refused: Option<u64>,
    pub(crate) quota: Option<Quota>,
}

impl Spender {
    /// The dearest methods.
    pub(crate) fn methods(methods: &Methods, gate: &Gate) -> Vec<Spender> {
        let names = methods.names();
        dearest(methods.tally(), methods.tally().total().cpu, |number, spent| {
            // The mean at 0 is that of all methods.
            let of_late = gate.cost_of(MethodId(number as u16)).filter(|_| number > 0);
            let degraded = gate.degraded_cost_of(MethodId(number as u16)).filter(|_| number > 0);
            let name = names.get(number.wrapping_sub(1)).cloned();
            Details { name, mean: of_late.or_else(|| mean(spent)), degraded_mean: degraded, quota: None }
        })
    }

    /// The dearest customers, and those refused most often; `names` are those with a number, from 1 on, and `all` is what
    /// requests cost together.
    pub(crate) fn customers(
        customers: &Customers,
        names: &[String],
        quotas: &QuotasConfig,
        all: Duration,
    ) -> Vec<Spender> {
        let mut listed = dearest(customers.tally(), all, |row, spent| {
            let name = Customers::name_of(names, row);
            let own = quotas.customers.iter().find(|(one, _)| Some(one.as_str()) == name).map(|(_, quota)| *quota);
            let quota = own.or(quotas.default);
            Details { name: name.map(str::to_owned), mean: mean(spent), degraded_mean: None, quota }
        });
        for one in &mut listed {
            one.refused = Some(one.spent.refused);
        }
        listed
    }
}

/// What a tally does not know.
struct Details {
    name: Option<String>,
    mean: Option<Duration>,
    degraded_mean: Option<Duration>,
    quota: Option<Quota>,
}

fn dearest(tally: &Tally, all: Duration, of: impl Fn(usize, Spent) -> Details) -> Vec<Spender> {
    let all = all.as_secs_f64();
    let named = |(number, spent): (usize, Spent)| {
        let Details { name, mean, degraded_mean, quota } = of(number, spent);
        let share = if all > 0.0 { spent.cpu.as_secs_f64() / all } else { 0.0 };
        Spender { name, spent, share, mean, degraded_mean, quota, refused: None }
    };
    tally.dearest(DEAREST).into_iter().map(named).collect()
}

fn mean(Spent { requests, cpu, .. }: Spent) -> Option<Duration> {
    let nanos = (cpu.as_nanos() as u64).checked_div(requests)?;
    Some(Duration::from_nanos(nanos))
}

/// As many as people look at; it bounds what is exported too.
const DEAREST: usize = 10;
