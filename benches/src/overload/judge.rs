//! What the rounds gave, beside what was aimed at.

use super::{Guard, LOADS, Served};
use crate::figure::{Aim, Figure};

/// What each guard served at each load, beside the capacity measured just before.
pub struct Round {
    pub capacity: f64,
    pub served: Vec<(Guard, f64, Served)>,
}

impl Round {
    fn of(&self, guard: Guard, times: f64) -> Option<Served> {
        let found = self.served.iter().find(|(one, load, _)| *one == guard && load.to_bits() == times.to_bits());
        found.map(|(_, _, served)| *served)
    }

    fn goodput(&self, guard: Guard, times: f64) -> Option<f64> {
        self.of(guard, times).map(|served| served.per_second / self.capacity)
    }

    /// The best of the others there.
    fn best_goodput(&self, times: f64) -> Option<f64> {
        let others = self
            .served
            .iter()
            .filter(|(guard, load, _)| matches!(guard, Guard::Envoy(_)) && load.to_bits() == times.to_bits());
        others.map(|(_, _, served)| served.per_second / self.capacity).max_by(f64::total_cmp)
    }
}

/// Goodput, p99 and what became of critical requests, of every guard at every load; then the aims.
pub fn figures(guards: &[Guard], rounds: &[Round]) -> Vec<Figure> {
    let over = |name: String, unit, of: &dyn Fn(&Round) -> Option<f64>| {
        let values: Vec<f64> = rounds.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| Figure::new(name, unit, values))
    };
    let mut figures = Vec::new();
    figures.extend(over("capacity".into(), "requests a second", &|round| Some(round.capacity)));
    for &guard in guards {
        for times in LOADS {
            let name = |what: &str| format!("{}/{times}x/{what}", guard.name());
            figures.extend(over(name("goodput"), "of capacity", &|round| round.goodput(guard, times)));
            figures.extend(over(name("p99"), "ms", &|round| Some(round.of(guard, times)?.p99_ms)));
            let critical = over(name("critical"), "served", &|round| Some(round.of(guard, times)?.critical_share));
            let aimed = guard == Guard::Evenkeel && times > 1.0;
            figures.extend(critical.map(|figure| if aimed { figure.aimed(Aim::AtLeast(0.999)) } else { figure }));
        }
    }
    for times in LOADS.into_iter().filter(|&times| times > 1.0) {
        let ratio = |round: &Round| Some(round.goodput(Guard::Evenkeel, times)? / round.best_goodput(times)?);
        let beside = over(format!("goodput/{times}x beside the better of Envoy's"), "ratio", &ratio);
        figures.extend(beside.map(|figure| figure.aimed(Aim::AtLeast(1.0))));
    }
    let naive = over("goodput of clients that never heed/10x".into(), "of capacity", &|round| {
        round.goodput(Guard::Evenkeel, 10.0)
    });
    figures.extend(naive.map(|figure| figure.aimed(Aim::AtLeast(0.85))));
    figures
}
