//! Shares of clusters as one would choose them who knows everything: what clients that spill are compared with.
//!
//! While each cluster can do what its own clients ask for without being full, all stay at home. Else all clusters are brought to
//! one level, which leaves the fullest as empty as can be: what is still more than a cluster can do in some second then is chance.

use std::sync::Arc;

use evenkeel_core::client::Shares;

use super::event::Event;
use super::{ORIGIN, World};
use crate::scenario::SpillBy;

impl World<'_> {
    /// Whether shares are not for clients to find out.
    pub(super) fn is_ideal(&self) -> bool {
        self.scenario.clusters.spill == SpillBy::Ideal
    }

    /// A client is told which cluster gets how much, as often as it would decide.
    pub(super) fn share_ideally(&mut self, client: u32) {
        let own = self.clients[client as usize].cluster;
        let to = ideal_from(own as usize, &self.demands(), &self.capacities(), self.scenario.clusters.full);
        let nearest_first = self.scenario.clusters.nearest(own).into_iter().map(|other| to[other as usize]);
        let shares = Arc::new(Shares::new(nearest_first));
        if let Some(spilling) = &mut self.clients[client as usize].spilling {
            spilling.shares = shares;
        }
        let next = self.now + self.scenario.clusters.period.nanos();
        if next < self.end() {
            self.queue.push(next, Event::Spill(client));
        }
    }

    /// Processors that what the clients of each cluster ask for takes.
    fn demands(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.scenario.clusters.count as usize];
        for client in 0..self.root_clients {
            all[self.clients[client as usize].cluster as usize] += self.arrivals.weight(client);
        }
        let weights: f64 = all.iter().sum();
        let seconds = self.now.saturating_sub(ORIGIN) as f64 / 1e9;
        let processors = self.arrivals.rate_at(seconds) * self.services[0].methods.mean_cpu(&self.scenario.methods);
        all.iter().map(|weight| weight / weights * processors).collect()
    }
}

/// The share of each cluster in the requests of those at home in one.
fn ideal_from(own: usize, demands: &[f64], capacities: &[f64], full: f64) -> Vec<f64> {
    let mut to = vec![0.0; demands.len()];
    to[own] = 1.0;
    let each = || demands.iter().zip(capacities);
    let capacity: f64 = capacities.iter().sum();
    if capacity <= 0.0 || each().all(|(demand, capacity)| *demand <= full * capacity) {
        return to;
    }
    let level = demands.iter().sum::<f64>() / capacity;
    let rooms: Vec<f64> = each().map(|(demand, capacity)| (level * capacity - demand).max(0.0)).collect();
    let leaves = (1.0 - level * capacities[own] / demands[own].max(f64::MIN_POSITIVE)).max(0.0);
    let room: f64 = rooms.iter().sum();
    if leaves > 0.0 && room > 0.0 {
        to.iter_mut().zip(rooms).for_each(|(share, one)| *share = leaves * one / room);
        to[own] = 1.0 - leaves;
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_stays_at_home_until_one_is_full_and_then_all_are_at_one_level() {
        let demands = [192.0, 192.0, 96.0];
        assert_eq!(ideal_from(0, &demands, &[240.0; 3], 0.85), [1.0, 0.0, 0.0]);

        let capacities = [120.0, 240.0, 240.0];
        let mut asked = [0.0; 3];
        for (own, demand) in demands.iter().enumerate() {
            let to = ideal_from(own, &demands, &capacities, 0.85);
            assert!((to.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{own}: {to:?}");
            asked.iter_mut().zip(to).for_each(|(asked, share)| *asked += share * demand);
        }
        for (asked, capacity) in asked.iter().zip(capacities) {
            assert!((asked / capacity - 0.8).abs() < 1e-9, "{asked} of {capacity}");
        }
    }

    #[test]
    fn one_that_is_gone_is_left_and_where_all_are_nobody_moves() {
        assert_eq!(ideal_from(0, &[10.0, 10.0], &[0.0, 40.0], 0.85), [0.0, 1.0]);
        assert_eq!(ideal_from(0, &[10.0, 10.0], &[0.0, 0.0], 0.85), [1.0, 0.0]);
    }
}
