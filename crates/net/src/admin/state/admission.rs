//! Overload control of a server: who is let in and why, what requests cost, and who costs most.
//!
//! CPU is in normalised seconds, and rates of it in such seconds a second: processors of the reference machine.

use evenkeel_core::server::{AdmissionSnapshot, Quota, ServerRefusal};
use evenkeel_core::{Criticality, Mode};
use serde::{Serialize, Serializer};

use super::{Counts, finite, nanoseconds, seconds};
use crate::meter;
use crate::server::{IdentitySnapshot, Look, Readings, Spender};

#[derive(Debug, Serialize)]
pub(crate) struct AdmissionState {
    /// What each mechanism may do, the switch for all of them considered.
    pub(crate) modes: ByName<&'static str>,
    /// From 0, nothing, to 4, everything: what is refused.
    pub(crate) cutoff: f64,
    /// What would be, were everything on.
    pub(crate) cutoff_observed: f64,
    /// The signal that asks for it, if one does rather than demand.
    pub(crate) cutoff_signal: Option<String>,
    pub(crate) signals: Vec<Signal>,
    /// What the program plugged in, one by one, over its capacity.
    pub(crate) plugged: Vec<Signal>,
    pub(crate) plugged_failures: u64,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) connections_per_second: Option<f64>,
    pub(crate) checks_per_second: Option<f64>,
    /// Also by what is refused; null where it is not measured, since everything is off.
    pub(crate) demand_cpu: Option<ByName<f64>>,
    /// Asked for so far by customers beyond their quotas: no demand.
    pub(crate) beyond_quota_cpu_s: ByName<f64>,
    pub(crate) capacity_cpu: Option<f64>,
    /// What may not be refused over what there is: above 1, this task is too small.
    pub(crate) critical_demand: Option<f64>,
    /// How much of the capacity is handed out.
    pub(crate) trim: Option<f64>,
    pub(crate) running: u32,
    pub(crate) slots: u32,
    pub(crate) waiting: u32,
    pub(crate) queued_s: f64,
    pub(crate) limit: Option<u32>,
    pub(crate) retries: Option<f64>,
    pub(crate) dont_retry: bool,
    /// What both would be, were they on.
    pub(crate) dont_retry_observed: bool,
    pub(crate) degrade: u8,
    pub(crate) degrade_observed: u8,
    pub(crate) degraded: u64,
    pub(crate) cost: CostState,
    pub(crate) asked: ByName<u64>,
    pub(crate) held: ByName<u64>,
    pub(crate) served: ByName<u64>,
    /// By reason and criticality.
    pub(crate) refused: ByName<ByName<u64>>,
    pub(crate) observed: ByName<ByName<u64>>,
    /// Would have stood in line, were there one.
    pub(crate) would_wait: ByName<u64>,
    pub(crate) disbelieved: Counts,
    /// Those that cost most, dearest first; of customers besides those that were refused most often for their quotas.
    pub(crate) methods: Vec<SpenderState>,
    pub(crate) customers: Vec<SpenderState>,
}

/// What a signal reads; null where it cannot be read.
#[derive(Debug, Serialize)]
pub(crate) struct Signal {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
}

/// A signal that cannot be read or is not believed, and why.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) name: String,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct CostState {
    /// Of whole answers; as a rule those are what is asked for.
    pub(crate) mean_s: Option<f64>,
    /// Of answers at the level that is asked for now; null where none is made cheaper.
    pub(crate) degraded_mean_s: Option<f64>,
    /// What one request in a hundred costs at least.
    pub(crate) dearest_s: Option<f64>,
    /// All that handlers used.
    pub(crate) cpu_s: f64,
    pub(crate) cpu_by_criticality_s: ByName<f64>,
    /// How CPU time is read.
    pub(crate) source: &'static str,
    /// Outside of handlers; null before it is known.
    pub(crate) overhead_per_request_s: Option<f64>,
    pub(crate) overhead_per_kib_s: Option<f64>,
    pub(crate) cpu_factor: f64,
}

/// A method or a customer.
#[derive(Debug, Serialize)]
pub(crate) struct SpenderState {
    /// Null for all together that are not counted by name.
    pub(crate) name: Option<String>,
    pub(crate) requests: u64,
    pub(crate) cpu_s: f64,
    /// Of all CPU that requests cost.
    pub(crate) share: f64,
    /// Of whole answers of late for methods, of all since it began for customers.
    pub(crate) mean_s: Option<f64>,
    /// Of methods, at the level that is asked for now; null where none is made cheaper, and for customers.
    pub(crate) degraded_mean_s: Option<f64>,
    /// For its quota, and not among `requests`; methods have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused_for_quota: Option<u64>,
    /// CPU seconds a second that it may use; null for no limit, and for methods.
    pub(crate) quota_cpu: Option<f64>,
    /// Where criticalities have ceilings of their own: those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quota_by_criticality_cpu: Option<ByName<f64>>,
}

/// Values by name, in a fixed order.
#[derive(Debug)]
pub(crate) struct ByName<T>(pub(crate) Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl AdmissionState {
    pub(crate) fn new(look: &Look, identities: IdentitySnapshot) -> Self {
        let (now, readings) = (&look.server.admission, &look.readings);
        AdmissionState {
            modes: by_mechanism(look.modes.in_force()),
            cutoff: now.cutoff.value(),
            cutoff_observed: now.cutoff_observed.value(),
            cutoff_signal: now.signal.clone(),
            signals: now.signals.iter().map(|(name, value)| Signal::new(name, *value)).collect(),
            plugged: readings.plugged.iter().map(|(name, value)| Signal::new(name, *value)).collect(),
            plugged_failures: readings.plugged_failures,
            left_out: left_out(readings),
            connections_per_second: finite(readings.connections_per_second),
            checks_per_second: finite(readings.checks_per_second),
            demand_cpu: now.demand.map(|each| by_criticality(each.map(|one| finite(Some(one)).unwrap_or_default()))),
            beyond_quota_cpu_s: by_criticality(now.beyond_quota.map(seconds)),
            capacity_cpu: finite(Some(now.capacity)),
            critical_demand: critical_demand(now),
            trim: finite(Some(now.trim)),
            running: now.running,
            slots: now.slots,
            waiting: now.waiting,
            queued_s: seconds(now.queued),
            limit: now.limit,
            retries: finite(now.retries),
            dont_retry: now.dont_retry,
            dont_retry_observed: now.dont_retry_observed,
            degrade: now.degrade,
            degrade_observed: now.degrade_observed,
            degraded: now.degraded,
            cost: CostState::new(look),
            asked: by_criticality(now.asked),
            held: by_criticality(now.held),
            served: by_criticality(now.served),
            refused: by_reason(now.refused),
            observed: by_reason(now.observed),
            would_wait: by_criticality(now.would_wait),
            disbelieved: disbelieved(identities),
            methods: look.methods.iter().map(SpenderState::from).collect(),
            customers: look.customers.iter().map(SpenderState::from).collect(),
        }
    }
}

impl Signal {
    fn new(name: &str, value: Option<f64>) -> Self {
        Signal { name: name.to_owned(), value: finite(value) }
    }
}

impl CostState {
    fn new(look: &Look) -> Self {
        let (now, (per_request, per_kib)) = (&look.server.admission, look.overhead);
        // Until there was something to learn from, both are 0.
        let learned = |price: f64| finite(Some(price)).filter(|_| per_request + per_kib > 0.0);
        CostState {
            mean_s: now.cost.map(nanoseconds),
            degraded_mean_s: now.cost_degraded.map(nanoseconds),
            dearest_s: now.dearest.map(nanoseconds),
            cpu_s: seconds(now.cpu.iter().sum()),
            cpu_by_criticality_s: by_criticality(now.cpu.map(seconds)),
            source: meter::source(),
            overhead_per_request_s: learned(per_request),
            overhead_per_kib_s: learned(per_kib),
            cpu_factor: look.cpu_factor,
        }
    }
}

impl From<&Spender> for SpenderState {
    fn from(spender: &Spender) -> Self {
        SpenderState {
            name: spender.name.clone(),
            requests: spender.spent.requests,
            cpu_s: seconds(spender.spent.cpu),
            share: spender.share,
            mean_s: spender.mean.map(nanoseconds),
            degraded_mean_s: spender.degraded_mean.map(nanoseconds),
            refused_for_quota: spender.refused,
            quota_cpu: spender.quota.map(|quota| quota.cpu),
            quota_by_criticality_cpu: spender.quota.and_then(ceilings),
        }
    }
}

fn ceilings(quota: Quota) -> Option<ByName<f64>> {
    let each = Criticality::ALL.map(Criticality::as_str).into_iter().zip(quota.by_criticality);
    let set: Vec<_> = each.filter_map(|(name, cpu)| Some((name, cpu?))).collect();
    (!set.is_empty()).then_some(ByName(set))
}

pub(crate) fn by_mechanism<const N: usize>(modes: [(&'static str, Mode); N]) -> ByName<&'static str> {
    ByName(modes.into_iter().map(|(name, mode)| (name, mode.as_str())).collect())
}

fn left_out(readings: &Readings) -> Vec<LeftOut> {
    readings.left_out.iter().map(|(name, why)| LeftOut { name: name.clone(), why: why.clone() }).collect()
}

fn critical_demand(now: &AdmissionSnapshot) -> Option<f64> {
    let each = now.demand?;
    let demand: f64 = [Criticality::Critical, Criticality::CriticalPlus].map(|level| each[level.index()]).iter().sum();
    finite(Some(demand / now.capacity))
}

fn by_criticality<T>(values: [T; 4]) -> ByName<T> {
    ByName(Criticality::ALL.map(Criticality::as_str).into_iter().zip(values).collect())
}

fn by_reason(values: [[u64; 4]; ServerRefusal::ALL.len()]) -> ByName<ByName<u64>> {
    let reasons = ServerRefusal::ALL.map(ServerRefusal::as_str).into_iter();
    ByName(reasons.zip(values.map(by_criticality)).collect())
}

fn disbelieved(identities: IdentitySnapshot) -> Counts {
    let IdentitySnapshot { customers_dropped, criticalities_lowered, criticalities_unknown } = identities;
    Counts(vec![
        ("customers_dropped", customers_dropped),
        ("criticalities_lowered", criticalities_lowered),
        ("criticalities_unknown", criticalities_unknown),
    ])
}
