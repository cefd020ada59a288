//! Faults: when, to whom, what.

use std::time::Duration;

use evenkeel_core::plan::{Change, Shape};

use super::inside;
use super::range::{any_time, count, known, share, some_time, speed};
use crate::scenario::error::BadScenario;
use crate::scenario::policies::{ORACLE, of_core};
use crate::scenario::{Fault, FaultKind, Scenario, Span, selection};

impl Scenario {
    pub(super) fn check_faults(&self) -> Result<(), BadScenario> {
        for (place, fault) in self.faults.iter().enumerate() {
            fault.check(&format!("fault.{place}"), self)?;
            fault.check_datagrams(&format!("fault.{place}.kind"), self)?;
            fault.check_policy(&format!("fault.{place}.kind"), &self.policy)?;
        }
        self.check_clashes()?;
        self.check_resizes()
    }

    /// No fault may end what another one began.
    fn check_clashes(&self) -> Result<(), BadScenario> {
        for (place, fault) in self.faults.iter().enumerate() {
            for (before, other) in self.faults[..place].iter().enumerate() {
                if let Some(backend) = fault.clashes_with(other, self.count_of(fault.layer)) {
                    let (one, two) = (fault.kind.name(), other.kind.name());
                    let what = format!(
                        "this {one} and the {two} of fault.{before} overlap on backend {backend}, where one would undo \
                         the other: move one of them, or choose other backends"
                    );
                    return Err(BadScenario::field(format!("fault.{place}"), what));
                }
            }
        }
        Ok(())
    }

    /// Backends of a service: 0 is the first.
    fn count_of(&self, layer: u32) -> u32 {
        let behind = layer.checked_sub(1).and_then(|place| self.layers.get(place as usize));
        behind.map_or(self.backends.count, |layer| layer.backends.count)
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
                    return Err(wrong("cannot be together with layers: leave out one of the two".to_owned()));
                }
                if self.clusters.count > 1 {
                    return Err(wrong("cannot be together with clusters: leave out one of the two".to_owned()));
                }
                let change: Change = change.parse().map_err(|bad| wrong(format!("{bad}")))?;
                shape = change.applied_to(shape).map_err(|bad| wrong(bad.to_string()))?;
                self.check_windows(shape.backends)?;
            }
        }
        Ok(())
    }
}

impl Fault {
    /// The fields a fault of this kind may have; of one that is not known, all that any has.
    pub(crate) fn fields(kind: &str) -> &'static [&'static str] {
        match kind {
            "kill" | "lame_duck" => &["kind", "at", "lasts", "backends"],
            "hang" => &["kind", "at", "lasts", "layer", "backends"],
            "fail" => &["kind", "at", "lasts", "layer", "backends", "share", "cpu"],
            "refuse" => &["kind", "at", "lasts", "layer", "backends", "share"],
            "slow" => &["kind", "at", "lasts", "layer", "backends", "speed"],
            "stall" => &["kind", "at", "lasts", "layer", "backends", "times"],
            "partition" | "no_datagrams" => &["kind", "at", "lasts", "backends", "clients"],
            "restart" => &["kind", "at", "backends", "together", "down", "prewarm"],
            "resize" => &["kind", "at", "change"],
            "policy" => &["kind", "at", "policy"],
            _ => &[
                "kind", "at", "lasts", "layer", "backends", "share", "cpu", "speed", "times", "clients", "together",
                "down", "prewarm", "change", "policy",
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
        let most = scenario.layers.len() as u32;
        if self.layer > most {
            let what = match most {
                0 => "there are no layers: leave it out, or add [[layer]]".to_owned(),
                most => format!("must be from 0, the first service, to {most}"),
            };
            return Err(BadScenario::value(field("layer"), self.layer, what));
        }
        let there = scenario.count_of(self.layer);
        if selection(&self.backends, there).is_none() {
            let last = there - 1;
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
            FaultKind::Refuse { share: refused } => share(&field("share"), *refused),
            FaultKind::Slow { speed: slow } => speed(&field("speed"), *slow),
            FaultKind::Stall { times } => speed(&field("times"), *times),
            FaultKind::Partition { clients } | FaultKind::NoDatagrams { clients } => share(&field("clients"), *clients),
            FaultKind::Restart { together, down, prewarm } => {
                count(&field("together"), *together)?;
                any_time(&field("down"), *down)?;
                any_time(&field("prewarm"), *prewarm)
            }
            FaultKind::Policy { policy } => known(&field("policy"), policy, &of_core()),
        }
    }

    /// Whether anybody sends what it would stop.
    fn check_datagrams(&self, field: &str, scenario: &Scenario) -> Result<(), BadScenario> {
        let is_idle = scenario.idle.after.is_some();
        if is_idle || !matches!(self.kind, FaultKind::NoDatagrams { .. }) {
            return Ok(());
        }
        let what = "nobody sends datagrams: set idle.after, or leave the fault out";
        Err(BadScenario::value(field, format!("{:?}", self.kind.name()), what))
    }

    /// Whether clients with this policy would notice at all.
    fn check_policy(&self, field: &str, policy: &str) -> Result<(), BadScenario> {
        let kind = self.kind.name();
        let wrong = |what: String| Err(BadScenario::value(field, format!("{kind:?}"), what));
        match self.kind {
            FaultKind::Policy { .. } if !of_core().contains(&policy) => {
                let ours = of_core().join(", ");
                wrong(format!("clients with policy = {policy:?} keep it: use one of {ours}, or leave the fault out"))
            }
            FaultKind::Partition { .. }
            | FaultKind::NoDatagrams { .. }
            | FaultKind::Fail { .. }
            | FaultKind::Refuse { .. }
            | FaultKind::Resize { .. }
                if policy == ORACLE =>
            {
                wrong(format!(
                    "it does not reach policy = {ORACLE:?}, one queue of always the same cores: leave it out"
                ))
            }
            _ => Ok(()),
        }
    }

    /// The first of these `backends` of its service on which this fault and one listed before it overlap in time, if one would undo the
    /// other: the end of either of two alike ends both, and a new process knows nothing of what its predecessor was.
    pub(crate) fn clashes_with(&self, before: &Fault, backends: u32) -> Option<u32> {
        let is_clash = match (&self.kind, &before.kind) {
            (FaultKind::Restart { .. }, FaultKind::Kill | FaultKind::LameDuck)
            | (FaultKind::Kill | FaultKind::LameDuck, FaultKind::Restart { .. }) => true,
            (FaultKind::Restart { .. } | FaultKind::Resize { .. } | FaultKind::Policy { .. }, _) => false,
            (one, other) => one.name() == other.name(),
        };
        // At the same moment what is listed first happens first: this one may begin when that one ends, not end when
        // that one begins.
        let is_together = self.at.get() < before.end() && before.at.get() <= self.end();
        if !is_clash || !is_together || self.layer != before.layer {
            return None;
        }
        let (hit, others) = (selection(&self.backends, backends)?, selection(&before.backends, backends)?);
        hit.into_iter().find(|backend| others.binary_search(backend).is_ok())
    }

    /// When it is over; of a rolling restart nobody knows.
    fn end(&self) -> Duration {
        let lasts = self.lasts.filter(|_| !matches!(self.kind, FaultKind::Restart { .. }));
        lasts.map_or(Duration::MAX, |lasts| self.at.get().saturating_add(lasts.get()))
    }
}
