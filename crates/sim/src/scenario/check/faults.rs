//! Faults: when, to whom, what.

use evenkeel_core::plan::{Change, Shape};

use super::range::{above_zero, any_time, count, known, share, some_time};
use super::{FACTOR_MOST, inside};
use crate::scenario::error::BadScenario;
use crate::scenario::policies::{ORACLE, of_core};
use crate::scenario::{Fault, FaultKind, Scenario, Span, selection};

impl Scenario {
    pub(super) fn check_faults(&self) -> Result<(), BadScenario> {
        for (place, fault) in self.faults.iter().enumerate() {
            fault.check(&format!("fault.{place}"), self)?;
        }
        self.check_resizes()
    }

    /// Every resize must leave somebody, after those before it.
    fn check_resizes(&self) -> Result<(), BadScenario> {
        let mut order: Vec<(usize, &Fault)> = self.faults.iter().enumerate().collect();
        order.sort_by_key(|(_, fault)| fault.at);
        let mut shape = Shape { clients: self.clients.count, backends: self.backends.count, size: self.subset.size };
        for (place, fault) in order {
            if let FaultKind::Resize { change } = &fault.kind {
                let wrong =
                    |what: String| BadScenario::value(format!("fault.{place}.change"), format!("{change:?}"), what);
                if !self.layers.is_empty() {
                    return Err(wrong("not possible where there are layers: leave out one of the two".to_owned()));
                }
                if self.policy == ORACLE {
                    return Err(wrong("not possible with the oracle: its cores stay the same".to_owned()));
                }
                let change: Change = change.parse().map_err(|bad| wrong(format!("{bad}")))?;
                shape = change.applied_to(shape).map_err(|bad| wrong(bad.to_string()))?;
            }
        }
        Ok(())
    }
}

impl Fault {
    /// The fields a fault of this kind may have; of one that is not known, all that any has.
    pub(crate) fn fields(kind: &str) -> &'static [&'static str] {
        match kind {
            "kill" | "hang" | "lame_duck" => &["kind", "at", "lasts", "backends"],
            "fail" => &["kind", "at", "lasts", "backends", "share", "cpu"],
            "slow" => &["kind", "at", "lasts", "backends", "speed"],
            "partition" => &["kind", "at", "lasts", "backends", "clients"],
            "restart" => &["kind", "at", "backends", "together", "down", "prewarm"],
            "resize" => &["kind", "at", "change"],
            "policy" => &["kind", "at", "policy"],
            _ => &[
                "kind", "at", "lasts", "backends", "share", "cpu", "speed", "clients", "together", "down", "prewarm",
                "change", "policy",
            ],
        }
    }

    fn check(&self, path: &str, scenario: &Scenario) -> Result<(), BadScenario> {
        let field = |name: &str| format!("{path}.{name}");
        let duration = scenario.duration.get();
        inside(&field("at"), self.at, duration)?;
        if let Some(lasts) = self.lasts {
            some_time(&field("lasts"), lasts)?;
            if self.at.get() + lasts.get() > duration {
                let end = Span::from(duration);
                let what = format!("must end by the end of the run at {end}: leave it out for one that stays");
                return Err(BadScenario::value(field("lasts"), lasts, what));
            }
        }
        if selection(&self.backends, scenario.backends.count).is_none() {
            let last = scenario.backends.count - 1;
            let what =
                format!("use \"all\", a share as in \"50%\", or numbers from 0 to {last} as in \"0\" or \"0-9\"");
            return Err(BadScenario::value(field("backends"), format!("{:?}", self.backends), what));
        }
        match &self.kind {
            FaultKind::Kill | FaultKind::Hang | FaultKind::LameDuck | FaultKind::Resize { .. } => Ok(()),
            FaultKind::Fail { share: failing, cpu } => {
                share(&field("share"), *failing)?;
                any_time(&field("cpu"), *cpu)
            }
            FaultKind::Slow { speed } => above_zero(&field("speed"), *speed, FACTOR_MOST),
            FaultKind::Partition { clients } => share(&field("clients"), *clients),
            FaultKind::Restart { together, down, prewarm } => {
                count(&field("together"), *together)?;
                any_time(&field("down"), *down)?;
                any_time(&field("prewarm"), *prewarm)
            }
            FaultKind::Policy { policy } => known(&field("policy"), policy, &of_core()),
        }
    }
}
