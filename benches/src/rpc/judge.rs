//! What the rounds gave, beside what was aimed at.

use serde_json::{Value, json};

use super::{Cost, Flavour, Pair, Stack};

/// One pair over all rounds.
#[derive(Clone, Debug)]
pub struct Row {
    pub pair: Pair,
    pub costs: Vec<Cost>,
}

/// One ratio over all rounds.
#[derive(Clone, Debug)]
pub struct Judged {
    pub question: String,
    pub most: f64,
    pub ratio: Spread,
}

/// Median and the middle half.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub quarter: f64,
    pub three_quarters: f64,
}

#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

struct Aim {
    question: String,
    side: Side,
    ours: Pair,
    theirs: Pair,
    most: f64,
}

impl Spread {
    fn of(samples: impl Iterator<Item = f64>) -> Option<Self> {
        let mut samples: Vec<f64> = samples.collect();
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let at = |share: f64| samples[(last as f64 * share).round() as usize];
        Some(Spread { median: at(0.5), quarter: at(0.25), three_quarters: at(0.75) })
    }
}

impl Judged {
    pub fn is_met(&self) -> bool {
        self.ratio.median <= self.most
    }

    pub fn json(&self) -> Value {
        json!({
            "question": self.question, "most": self.most, "met": self.is_met(), "ratio": self.ratio.json(),
        })
    }
}

impl Spread {
    fn json(self) -> Value {
        json!({ "median": self.median, "quarter": self.quarter, "three_quarters": self.three_quarters })
    }
}

impl Row {
    pub fn client(&self) -> Option<Spread> {
        Spread::of(self.costs.iter().map(|cost| cost.client))
    }

    pub fn server(&self) -> Option<Spread> {
        Spread::of(self.costs.iter().map(|cost| cost.server))
    }

    pub fn json(&self) -> Value {
        json!({
            "pair": self.pair.name(), "rounds": self.costs.len(),
            "client_us": self.client().map(Spread::json), "server_us": self.server().map(Spread::json),
        })
    }
}

/// An empty row for each pair.
pub fn rows(pairs: &[Pair]) -> Vec<Row> {
    pairs.iter().map(|&pair| Row { pair, costs: Vec::new() }).collect()
}

/// The aims both of whose pairs were measured.
pub fn judge(rows: &[Row]) -> Vec<Judged> {
    let find = |pair: Pair| rows.iter().find(|row| row.pair == pair);
    let judged = aims().into_iter().filter_map(|aim| {
        let (ours, theirs) = (find(aim.ours)?, find(aim.theirs)?);
        let ratios = ours.costs.iter().zip(&theirs.costs).map(|(ours, theirs)| match aim.side {
            Side::Client => ours.client / theirs.client,
            Side::Server => ours.server / theirs.server,
        });
        Some(Judged { question: aim.question, most: aim.most, ratio: Spread::of(ratios)? })
    });
    judged.collect()
}

fn aims() -> Vec<Aim> {
    use Stack::{Evenkeel, Tonic};
    let one = Flavour::One;
    let pair = |client, threads, server, flavour| Pair {
        client: (client, threads),
        server: (server, flavour),
        deadline: false,
    };
    let mut aims = Vec::new();
    for threads in [one, Flavour::Threads(2)] {
        for (what, server) in [("tonic_servers", Tonic), ("evenkeel_servers", Evenkeel)] {
            let (ours, theirs) = (pair(Evenkeel, threads, server, one), pair(Tonic, threads, server, one));
            let question = format!("client/{threads}/{what}");
            aims.push(Aim { question, side: Side::Client, ours, theirs, most: CLIENT });
        }
        let (ours, theirs) = (pair(Evenkeel, threads, Evenkeel, one), pair(Tonic, threads, Tonic, one));
        let question = format!("client/{threads}/each_its_own_servers");
        aims.push(Aim { question, side: Side::Client, ours, theirs, most: CLIENT });
    }
    let deadline = |stack| Pair { deadline: true, ..pair(stack, one, stack, one) };
    let (ours, theirs) = (deadline(Evenkeel), deadline(Tonic));
    let question = "client/1_thread/each_its_own_servers/deadline".to_owned();
    aims.push(Aim { question, side: Side::Client, ours, theirs, most: CLIENT });
    let servers = [
        ("server/1_thread/tonic_client", pair(Tonic, one, Evenkeel, one), pair(Tonic, one, Tonic, one), SERVER),
        (
            "server/1_thread/evenkeel_client",
            pair(Evenkeel, one, Evenkeel, one),
            pair(Evenkeel, one, Tonic, one),
            SERVER,
        ),
        (
            "server/1_thread/each_its_own_client",
            pair(Evenkeel, one, Evenkeel, one),
            pair(Tonic, one, Tonic, one),
            SERVER,
        ),
        ("server/1_thread/each_its_own_client/deadline", ours, theirs, SERVER),
        (
            "server/default/tonic_client",
            pair(Tonic, one, Evenkeel, Flavour::Default),
            pair(Tonic, one, Tonic, Flavour::Default),
            SERVER,
        ),
        (
            "server/per_core_beside_default",
            pair(Tonic, one, Evenkeel, Flavour::PerCore),
            pair(Tonic, one, Evenkeel, Flavour::Default),
            PER_CORE,
        ),
        (
            "server/per_core_beside_tonic_default",
            pair(Tonic, one, Evenkeel, Flavour::PerCore),
            pair(Tonic, one, Tonic, Flavour::Default),
            PER_CORE,
        ),
    ];
    aims.extend(servers.map(|(question, ours, theirs, most)| Aim {
        question: question.to_owned(),
        side: Side::Server,
        ours,
        theirs,
        most,
    }));
    aims
}

const CLIENT: f64 = 0.85;
const SERVER: f64 = 1.05;
const PER_CORE: f64 = 0.85;
