//! Who asks for what, and when: the trace that all policies of a comparison meet.
//!
//! One Poisson process stands for all clients, and whose a request is follows from the clients' weights: the same as a
//! process for each, at the price of one. Times and contents come from generators of their own, so request number n
//! costs the same at every load, and its contents are drawn in a fixed order, so it is the same under all policies.

use evenkeel_core::{Criticality, Rng, Time};

use super::alias::Alias;
use super::draw::{Sampler, exponential};
use super::machines::machines;
use super::rhythm;
use crate::scenario::{Method, Mix, Rhythm, Scenario};

/// One request, with all that chance decides about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// When; [`Time::NEVER`] where the rate is 0.
    pub at: Time,
    /// Whose, from 0.
    pub client: u32,
    /// Which of the methods.
    pub method: u32,
    /// Seconds of a core of speed 1.
    pub cpu: f64,
    /// Seconds it waits after that without a core.
    pub wait: f64,
    /// How much it matters.
    pub criticality: Criticality,
    /// Which of the customers, in the order of their names; 0 where there are none.
    pub customer: u32,
    /// Its place in the trace, from 0.
    pub number: u64,
}

/// The requests of all clients, one after another, without end.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Seconds since the start.
    clock: f64,
    /// When the run ends: what comes later is not thinned, since a rhythm may fall to 0 for ever.
    end: f64,
    /// Mean requests per second, before the rhythm.
    rate: f64,
    rhythms: Vec<Rhythm>,
    /// Largest factor of the rhythms.
    most: f64,
    zipf: f64,
    /// Share of clients that ask rarely, and how much less they do.
    rare: (f64, f64),
    /// Whether each client asks for one method alone.
    apart: bool,
    clients: u32,
    /// Whose a request is, where they are unequal.
    weights: Option<Alias>,
    levels: Vec<Criticality>,
    criticality: Alias,
    customers: Alias,
    requests: Requests,
    number: u64,
    times: Rng,
    contents: Rng,
}

impl Arrivals {
    /// The trace of this scenario and seed.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let (clients, requests) = (&scenario.clients, Requests::new(&scenario.methods));
        let (levels, shares) = levels(&scenario.criticality);
        let mut arrivals = Arrivals {
            clock: 0.0,
            end: scenario.duration.seconds(),
            rate: Arrivals::rate_of(scenario),
            most: rhythm::most(&clients.rhythm),
            rhythms: clients.rhythm.clone(),
            zipf: clients.zipf,
            rare: (clients.rare, clients.rarely),
            apart: clients.apart,
            clients: 0,
            weights: None,
            levels,
            criticality: Alias::new(shares),
            customers: Alias::new(scenario.customers.values().copied()),
            requests,
            number: 0,
            times: Rng::for_stream(seed, TIMES),
            contents: Rng::for_stream(seed, CONTENTS),
        };
        arrivals.set_clients(clients.count);
        arrivals
    }

    /// Mean requests per second of a scenario, before the rhythm.
    pub(crate) fn rate_of(scenario: &Scenario) -> f64 {
        if let Some(rate) = scenario.clients.rate {
            return rate;
        }
        let capacity: f64 =
            machines(&scenario.backends).into_iter().map(|(cores, speed)| f64::from(cores) * speed).sum();
        let mean_cpu = Requests::new(&scenario.methods).mean_cpu(&scenario.methods);
        scenario.clients.load * capacity / mean_cpu
    }

    /// The next request.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so an iterator's `Option` would say nothing")]
    pub fn next(&mut self) -> Arrival {
        let at = self.next_time();
        let client = self.next_client();
        let level = self.criticality.pick(self.contents.unit()) as usize;
        let customer = self.customers.pick(self.contents.unit());
        let own = self.apart.then_some(client);
        let (method, cpu, wait) = self.requests.draw_for(own, &mut self.contents);
        let number = self.number;
        self.number += 1;
        let criticality = self.levels.get(level).copied().unwrap_or_default();
        Arrival { at, client, method, cpu, wait, criticality, customer, number }
    }

    /// From now on there are so many clients; what all of them ask together stays the same.
    pub fn set_clients(&mut self, count: u32) {
        self.clients = count;
        let is_unequal = self.zipf != 0.0 || self.rare.0 > 0.0;
        self.weights = is_unequal.then(|| Alias::new((0..count).map(|client| self.weight(client))));
    }

    /// How much a client asks for, beside the others.
    pub(crate) fn weight(&self, client: u32) -> f64 {
        let (rare, rarely) = self.rare;
        // Spread over all of them: of a half it is every second.
        let rare_up_to = |number: u32| (f64::from(number) * rare) as u32;
        let factor = if rare_up_to(client + 1) > rare_up_to(client) { rarely } else { 1.0 };
        libm::pow(f64::from(client + 1), -self.zipf) * factor
    }

    /// Requests per second of all together that are expected so many seconds after the start.
    pub(crate) fn rate_at(&self, seconds: f64) -> f64 {
        self.rate * rhythm::factor(&self.rhythms, seconds)
    }

    /// Mean requests per second of all together, before the rhythm.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    fn next_time(&mut self) -> Time {
        let fastest = self.rate * self.most;
        // Written so that a rate that is no number is no rate either.
        if !(fastest > 0.0 && fastest.is_finite()) {
            return Time::NEVER;
        }
        loop {
            self.clock += exponential(1.0 / fastest, &mut self.times);
            if self.rhythms.is_empty() || self.clock > self.end || self.is_kept() {
                return Time::from_nanos((self.clock * 1e9) as u64);
            }
        }
    }

    fn is_kept(&mut self) -> bool {
        self.times.unit() * self.most < rhythm::factor(&self.rhythms, self.clock)
    }

    #[inline]
    fn next_client(&mut self) -> u32 {
        let unit = self.contents.unit();
        match &self.weights {
            Some(weights) => weights.pick(unit),
            // A product of 53 and 32 bits is rounded, but 1 − 2⁻⁵³ of less than 2³² stays below it.
            None => (unit * f64::from(self.clients)) as u32,
        }
    }
}

/// What requests cost, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Requests {
    methods: Vec<Prepared>,
    shares: f64,
}

#[derive(Clone, Copy, Debug)]
struct Prepared {
    share: f64,
    cpu: Sampler,
    wait: Option<Sampler>,
}

impl Requests {
    /// Requests of these methods; of the default one where there is none.
    pub fn new(methods: &[Method]) -> Self {
        let methods: Vec<Prepared> = if methods.is_empty() {
            vec![Prepared::new(&Method::default())]
        } else {
            methods.iter().map(Prepared::new).collect()
        };
        Requests { shares: methods.iter().map(|method| method.share).sum(), methods }
    }

    /// Method, seconds of CPU, seconds of waiting.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> (u32, f64, f64) {
        self.draw_for(None, rng)
    }

    /// The same for a client that asks for one method alone.
    #[inline]
    fn draw_for(&self, own: Option<u32>, rng: &mut Rng) -> (u32, f64, f64) {
        let drawn = rng.unit() * self.shares;
        let method = match own {
            Some(client) => client % self.methods.len() as u32,
            None => choose(self.methods.iter().map(|method| method.share), drawn),
        };
        let prepared = &self.methods[method as usize];
        (method, prepared.cpu.draw(rng), prepared.wait.map_or(0.0, |wait| wait.draw(rng)))
    }

    /// Mean seconds of CPU of the requests of these methods.
    pub(crate) fn mean_cpu(&self, methods: &[Method]) -> f64 {
        if methods.is_empty() {
            return Method::default().cpu.mean_seconds();
        }
        methods.iter().map(|method| method.share * method.cpu.mean_seconds()).sum::<f64>() / self.shares
    }
}

impl Prepared {
    fn new(method: &Method) -> Self {
        Prepared { share: method.share, cpu: Sampler::new(&method.cpu), wait: method.wait.as_ref().map(Sampler::new) }
    }
}

/// Whose share `drawn` falls into; methods are few, so they are walked.
#[inline]
fn choose(shares: impl ExactSizeIterator<Item = f64>, mut drawn: f64) -> u32 {
    let last = shares.len().saturating_sub(1);
    for (place, share) in shares.enumerate() {
        if drawn < share || place == last {
            return place as u32;
        }
        drawn -= share;
    }
    0
}

/// The criticalities of a mix and their shares; names that are none are left out, which a checked scenario has not.
fn levels(mix: &Mix) -> (Vec<Criticality>, Vec<f64>) {
    mix.iter().filter_map(|(name, &share)| Some((name.parse::<Criticality>().ok()?, share))).unzip()
}

/// Parts of the trace's seed. Others use streams of their own.
const TIMES: u64 = 0x7472_6163_6501;
const CONTENTS: u64 = 0x7472_6163_6502;
