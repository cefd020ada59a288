//! A dealing has clients, backends and subsets; nothing else has an effect there.

use crate::scenario::error::BadScenario;
use crate::scenario::{Backends, Clients, Scenario};

impl Scenario {
    pub(super) fn check_dealing(&self) -> Result<(), BadScenario> {
        let default = Scenario::default();
        let clients = Clients { count: self.clients.count, ..Clients::default() };
        let backends = Backends { count: self.backends.count, ..Backends::default() };
        let as_default = [
            ("duration", self.duration == default.duration),
            ("settle", self.settle == default.settle),
            ("window", self.window == default.window),
            ("policy", self.policy == default.policy),
            ("admission", self.admission == default.admission),
            ("server", self.server == default.server),
            ("overload", self.overload.is_none()),
            ("client", self.client == default.client),
            ("method", self.methods.is_empty()),
            ("criticality", self.criticality.is_empty()),
            ("customers", self.customers.is_empty()),
            ("network", self.network == default.network),
            ("layer", self.layers.is_empty()),
            ("clusters", self.clusters == default.clusters),
            ("fault", self.faults.is_empty()),
        ];
        if let Some((field, _)) = as_default.into_iter().find(|(_, is_default)| !is_default) {
            let what = "nothing happens in model = \"dealing\": leave it out, or use \"world\"";
            return Err(BadScenario::field(field, what));
        }
        for (field, is_count_alone) in [("clients", self.clients == clients), ("backends", self.backends == backends)] {
            if !is_count_alone {
                let what = "only their count matters in model = \"dealing\": leave the rest out, or use \"world\"";
                return Err(BadScenario::field(field, what));
            }
        }
        Ok(())
    }
}
