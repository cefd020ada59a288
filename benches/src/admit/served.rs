//! Whole servers in a process each: with admission and without, one that refuses all, and what they are compared with.

use std::io;

use crate::figure::{Aim, Figure};
use crate::rpc::{Cost, Flavour, Manner, Stack, cost};

/// A server over all rounds.
pub struct Row {
    stack: Stack,
    costs: Vec<Cost>,
}

impl Row {
    /// One more round.
    ///
    /// # Errors
    /// A process could not be started, or ended early.
    pub fn run(&mut self, calls: u32) -> io::Result<()> {
        let manner =
            if matches!(self.stack, Stack::Refusing | Stack::Static) { Manner::Refused } else { Manner::Patient };
        self.costs.push(cost((self.stack, Flavour::One), (Stack::H2, Flavour::One), manner, calls)?);
        Ok(())
    }
}

/// An empty row for each server.
pub fn rows() -> Vec<Row> {
    let stacks = [Stack::Evenkeel, Stack::Off, Stack::Refusing, Stack::Static, Stack::Tonic];
    stacks.map(|stack| Row { stack, costs: Vec::new() }).into()
}

/// CPU of each server, and the ratios within each round.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let of = |stack: Stack| rows.iter().find(|row| row.stack == stack).map_or(&[][..], |row| &row.costs);
    let mut figures: Vec<Figure> = rows
        .iter()
        .map(|row| {
            Figure::new(row.stack.to_string(), "µs of CPU a call", row.costs.iter().map(|cost| cost.server).collect())
        })
        .collect();
    let aims = [
        ("admission on / off", Stack::Evenkeel, Stack::Off, 1.05),
        ("a refusal / a static answer of hyper", Stack::Refusing, Stack::Static, 1.1),
        ("a refusal / tonic's echo", Stack::Refusing, Stack::Tonic, 0.65),
    ];
    figures.extend(aims.map(|(name, ours, theirs, most)| {
        let ratios = of(ours).iter().zip(of(theirs)).map(|(ours, theirs)| ours.server / theirs.server).collect();
        Figure::new(name.to_owned(), "ratio", ratios).aimed(Aim::AtMost(most))
    }));
    figures
}
