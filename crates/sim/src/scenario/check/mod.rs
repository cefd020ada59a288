//! Whether a scenario can be run: every number in its range, every name known, every time inside the run.
//!
//! Nothing is clamped and nothing is ignored: a field that would have no effect is refused like a wrong one.

mod clusters;
mod dealing;
mod faults;
mod goals;
mod range;
mod retry;
mod server;
mod size;

use std::time::Duration;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::COUNT_MOST;
use evenkeel_core::{ClientConfig, Criticality};
use range::{FACTOR_MOST, above_zero, any_time, count, known, mix, name, share, shares, some_time, speed, within};

use super::error::BadScenario;
use super::policies::{ORACLE, admissions, all, of_core};
use super::{Backends, Clients, Distribution, Idle, Layer, Method, Model, Network, Rhythm, Scenario, Span};

impl Scenario {
    /// Says what is wrong first, if anything is.
    pub fn check(&self) -> Result<(), BadScenario> {
        within("seeds", self.seeds, 1, SEEDS_MOST)?;
        self.check_times()?;
        known("policy", &self.policy, &all())?;
        if let Some(admission) = &self.admission {
            known("admission", admission, &admissions())?;
        }
        self.check_subset()?;
        self.client.check()?;
        self.check_retry()?;
        self.check_server()?;
        self.idle.check()?;
        self.clients.check()?;
        self.backends.check("backends")?;
        check_methods("method", &self.methods)?;
        self.check_mixes()?;
        self.network.check()?;
        self.layers.iter().enumerate().try_for_each(|(place, layer)| layer.check(&format!("layer.{place}")))?;
        self.check_clusters()?;
        match self.model {
            Model::World => self.check_size()?,
            Model::Dealing => self.check_dealing()?,
        }
        self.check_oracle()?;
        self.check_faults()?;
        self.check_goals()?;
        self.variants().map(drop)
    }

    /// One queue has no clients that call further.
    fn check_oracle(&self) -> Result<(), BadScenario> {
        if self.policy == ORACLE && !self.layers.is_empty() {
            let what = "not possible where there are layers: it is one queue for the first service";
            return Err(BadScenario::value("policy", format!("{ORACLE:?}"), what.to_owned()));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), BadScenario> {
        some_time("duration", self.duration)?;
        any_time("settle", self.settle)?;
        some_time("window", self.window)?;
        let (duration, settle) = (self.duration, self.settle);
        if settle >= duration {
            let what = format!("must be shorter than duration, which is {duration}");
            return Err(BadScenario::value("settle", settle, what));
        }
        if self.window > duration {
            let what = format!("must be no longer than duration, which is {duration}");
            return Err(BadScenario::value("window", self.window, what));
        }
        Ok(())
    }

    fn check_subset(&self) -> Result<(), BadScenario> {
        count("subset.size", self.subset.size)?;
        let algorithm = &self.subset.algorithm;
        if algorithm.parse::<Algorithm>().is_ok() {
            return Ok(());
        }
        known("subset.algorithm", algorithm, &Algorithm::ALL.map(Algorithm::as_str))
    }

    fn check_mixes(&self) -> Result<(), BadScenario> {
        for level in self.criticality.keys() {
            if level.parse::<Criticality>().is_err() {
                let names = Criticality::ALL.map(Criticality::as_str);
                known(&format!("criticality.{level}"), level, &names)?;
            }
        }
        for customer in self.customers.keys() {
            name(&format!("customers.{customer}"), customer)?;
        }
        mix("criticality", &self.criticality)?;
        mix("customers", &self.customers)
    }
}

impl super::ClientSettings {
    fn check(&self) -> Result<(), BadScenario> {
        let mut core = ClientConfig::default();
        self.put_into(&mut core);
        core.check().map_err(|bad| {
            let field = match bad.field {
                "flow.active_max" => "client.active_max".to_owned(),
                "throttle.k" => "client.k".to_owned(),
                "throttle.window" => "client.throttle_window".to_owned(),
                "errors.half_life" => "client.error_half_life".to_owned(),
                "pick.level.gain" => "client.level_gain".to_owned(),
                other => format!("client.{}", other.trim_start_matches("pick.")),
            };
            BadScenario::value(field, bad.value, bad.allowed)
        })
    }
}

impl Idle {
    fn check(&self) -> Result<(), BadScenario> {
        let mut core = ClientConfig::default();
        self.put_into(&mut core);
        core.check().map_err(|bad| {
            let field = match bad.field {
                "idle.after" => "idle.after",
                "checks.every" => "idle.check_every",
                "checks.timeout" => "idle.check_timeout",
                "checks.silences_max" => "idle.silences_max",
                _ => "idle.visit_every",
            };
            BadScenario::value(field, bad.value, bad.allowed)
        })
    }
}

impl Clients {
    fn check(&self) -> Result<(), BadScenario> {
        count("clients.count", self.count)?;
        if let Some(rate) = self.rate {
            within("clients.rate", rate, size::RATE_LEAST, size::RATE_MOST)?;
        }
        above_zero("clients.load", self.load, 100.0)?;
        within("clients.zipf", self.zipf, 0.0, 10.0)?;
        some_time("clients.deadline", self.deadline)?;
        share("clients.foreign", self.foreign)?;
        if let Some(others) = &self.others {
            share("clients.others.share", others.share)?;
            known("clients.others.policy", &others.policy, &of_core())?;
        }
        share("clients.rare", self.rare)?;
        above_zero("clients.rarely", self.rarely, 1.0)?;
        self.rhythm.iter().enumerate().try_for_each(|(place, rhythm)| rhythm.check(&format!("clients.rhythm.{place}")))
    }
}

impl Rhythm {
    fn check(&self, path: &str) -> Result<(), BadScenario> {
        let field = |name: &str| format!("{path}.{name}");
        let factor = |times: f64| within(&field("times"), times, 0.0, FACTOR_MOST);
        match *self {
            Rhythm::Step { at, lasts, times } => {
                any_time(&field("at"), at)?;
                lasts.map_or(Ok(()), |lasts| some_time(&field("lasts"), lasts))?;
                factor(times)
            }
            Rhythm::Ramp { at, over, times } => {
                any_time(&field("at"), at)?;
                some_time(&field("over"), over)?;
                factor(times)
            }
            Rhythm::Burst { every, lasts, times } => {
                some_time(&field("every"), every)?;
                some_time(&field("lasts"), lasts)?;
                if lasts > every {
                    let what = format!("must be no longer than every, which is {every}");
                    return Err(BadScenario::value(field("lasts"), lasts, what));
                }
                factor(times)
            }
            Rhythm::Diurnal { period, swing } => {
                some_time(&field("period"), period)?;
                share(&field("swing"), swing)
            }
        }
    }
}

impl Backends {
    fn check(&self, path: &str) -> Result<(), BadScenario> {
        let field = |name: &str| format!("{path}.{name}");
        count(&field("count"), self.count)?;
        within(&field("cores"), self.cores, 1, CORES_MOST)?;
        self.workers.map_or(Ok(()), |workers| count(&field("workers"), workers))?;
        if let Some(queue) = self.queue {
            if self.workers.is_none() {
                let what = "nobody queues without workers: set them too";
                return Err(BadScenario::value(field("queue"), queue, what));
            }
            within(&field("queue"), queue, 0, COUNT_MOST)?;
        }
        for (place, machine) in self.machines.iter().enumerate() {
            let field = |name: &str| format!("{path}.machine.{place}.{name}");
            speed(&field("speed"), machine.speed)?;
            machine.cores.map_or(Ok(()), |cores| within(&field("cores"), cores, 1, CORES_MOST))?;
        }
        let machines = self.machines.iter().enumerate();
        shares(&field("machine"), machines.map(|(place, one)| (format!("{path}.machine.{place}.share"), &one.share)))?;
        if let Some(neighbours) = &self.neighbours {
            share(&field("neighbours.share"), neighbours.share)?;
            within(&field("neighbours.slowdown"), neighbours.slowdown, 0.0, 0.99)?;
            some_time(&field("neighbours.stay"), neighbours.stay)?;
        }
        if let Some(warmup) = &self.warmup {
            some_time(&field("warmup.lasts"), warmup.lasts)?;
            within(&field("warmup.speed"), warmup.speed, 1.0 / FACTOR_MOST, 1.0)?;
        }
        if let Some(background) = &self.background {
            share(&field("background.share"), background.share)?;
            within(&field("background.cpu"), background.cpu, 0.0, 0.99)?;
        }
        if let Some(readings) = &self.readings {
            share(&field("readings.noise"), readings.noise)?;
            share(&field("readings.bias"), readings.bias)?;
        }
        Ok(())
    }
}

fn check_methods(path: &str, methods: &[Method]) -> Result<(), BadScenario> {
    for (place, method) in methods.iter().enumerate() {
        method.cpu.check(&format!("{path}.{place}.cpu"))?;
        if let Some(wait) = &method.wait {
            wait.check(&format!("{path}.{place}.wait"))?;
        }
    }
    shares(path, methods.iter().enumerate().map(|(place, one)| (format!("{path}.{place}.share"), &one.share)))
}

impl Distribution {
    fn check(&self, path: &str) -> Result<(), BadScenario> {
        let field = |name: &str| format!("{path}.{name}");
        let typical = |name: &str, time: Span| size::up_to_a_day(&field(name), time);
        // A cut below the mean would leave no tail to speak of.
        let cut = |cut: Option<f64>| cut.map_or(Ok(()), |cut| within(&field("cut"), cut, 1.0, CUT_MOST));
        match *self {
            Distribution::Fixed { mean } => typical("mean", mean),
            Distribution::Exponential { mean, cut: most } => {
                typical("mean", mean)?;
                cut(most)
            }
            Distribution::Normal { centre, deviation } => {
                typical("centre", centre)?;
                any_time(&field("deviation"), deviation)
            }
            Distribution::Lognormal { mean, sigma, cut: most } => {
                typical("mean", mean)?;
                within(&field("sigma"), sigma, 0.0, 10.0)?;
                cut(most)
            }
            Distribution::Bimodal { least, most, share: often } => {
                typical("least", least)?;
                typical("most", most)?;
                share(&field("share"), often)
            }
            Distribution::Pareto { least, range, alpha } => {
                typical("least", least)?;
                within(&field("range"), range, 1.000_001, CUT_MOST)?;
                above_zero(&field("alpha"), alpha, 100.0)
            }
        }
    }
}

impl Network {
    fn check(&self) -> Result<(), BadScenario> {
        any_time("network.delay", self.delay)?;
        any_time("network.jitter", self.jitter)?;
        within("network.loss", self.loss, 0.0, 0.99)?;
        any_time("network.resend", self.resend)?;
        self.datagram_loss.map_or(Ok(()), |loss| share("network.datagram_loss", loss))?;
        some_time("network.silence", self.silence)
    }
}

impl Layer {
    fn check(&self, path: &str) -> Result<(), BadScenario> {
        within(&format!("{path}.calls"), self.calls, 1, 1_000)?;
        self.backends.check(&format!("{path}.backends"))?;
        check_methods(&format!("{path}.method"), &self.methods)
    }
}

/// A moment of the run.
fn inside(field: &str, at: Span, duration: Duration) -> Result<(), BadScenario> {
    if at.get() < duration {
        return Ok(());
    }
    Err(BadScenario::value(field, at, format!("must be before the end of the run at {}", Span::from(duration))))
}

/// Most seeds that a scenario, or who runs it, may ask for: means of more differ in the fifth digit only.
pub const SEEDS_MOST: u32 = 10_000;

/// Cores of a machine, with room to spare.
const CORES_MOST: u32 = 4_096;

/// A range of values that numbers can still tell apart.
const CUT_MOST: f64 = 1e9;
