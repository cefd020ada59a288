//! Admission at the backends, and when there is too much.

use super::inside;
use super::range::{above_zero, any_time, within};
use crate::scenario::error::BadScenario;
use crate::scenario::{ORACLE, Scenario};

impl Scenario {
    pub(super) fn check_server(&self) -> Result<(), BadScenario> {
        let server = &self.server;
        within("server.refusal_cost", server.refusal_cost, 0.0, 10.0)?;
        within("server.degrade_saves", server.degrade_saves, 0.0, 0.33)?;
        if !server.is_off() && self.policy == ORACLE {
            let what = "one queue for all cores lets everybody in: leave server.mode off";
            return Err(BadScenario::value("policy", format!("{ORACLE:?}"), what));
        }
        for (name, &cpu) in &server.quotas {
            let field = format!("server.quotas.{name}");
            if !self.customers.contains_key(name) {
                return Err(BadScenario::value(field, cpu, "no customer of that name: customers has those there are"));
            }
            above_zero(&field, cpu, 1e6)?;
        }
        server.check_core().map_err(|bad| {
            let field = match bad.field {
                "admission.burst" => "server.burst",
                "admission.age" => "server.age",
                "admission.limit" => "server.limit_times",
                "admission.hint_ttl" => "server.hint_ttl",
                _ => "server.quotas",
            };
            BadScenario::value(field, bad.value, bad.allowed)
        })?;
        self.check_overload()
    }

    fn check_overload(&self) -> Result<(), BadScenario> {
        let Some(overload) = &self.overload else { return Ok(()) };
        any_time("overload.from", overload.from)?;
        inside("overload.from", overload.from, self.duration.get())?;
        any_time("overload.skip", overload.skip)?;
        inside("overload.window", overload.window, self.duration.get())?;
        let (until, from, skip) = (overload.until, overload.from.get(), overload.skip.get());
        if until.get() > self.duration.get() || until.get() <= from.saturating_add(skip) {
            let what = "must be after overload.from and overload.skip, and within duration";
            return Err(BadScenario::value("overload.until", until, what));
        }
        Ok(())
    }
}
