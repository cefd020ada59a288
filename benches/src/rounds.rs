//! Interleaved rounds: every subject once a round, so that a noisy minute hits all of them alike.

use std::io::{IsTerminal, Write, stderr};

/// Something whose operations are timed.
pub struct Subject {
    /// The question it answers, like `begin_finish/p2c/100_backends/busy`.
    pub question: String,
    /// What must be known to read the figure; empty where the name says it all.
    pub note: &'static str,
    /// Operations a round.
    pub operations: u32,
    /// Runs that many and says how many ns of CPU one took; `None` where the machine was too busy to say.
    pub run: Box<dyn FnMut(u32) -> Option<f64>>,
}

impl Subject {
    /// One without a note.
    pub fn new(question: String, operations: u32, mut run: impl FnMut(u32) -> f64 + 'static) -> Self {
        Subject::sometimes(question, operations, move |operations| Some(run(operations)))
    }

    /// One that may have nothing to say in some rounds.
    pub fn sometimes(question: String, operations: u32, run: impl FnMut(u32) -> Option<f64> + 'static) -> Self {
        Subject { question, note: "", operations, run: Box::new(run) }
    }

    /// The same with a note.
    #[must_use]
    pub fn noted(self, note: &'static str) -> Self {
        Subject { note, ..self }
    }
}

/// What the rounds gave for one subject, in ns of CPU per operation.
#[derive(Clone, Debug)]
pub struct Measured {
    pub question: String,
    pub note: &'static str,
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// Rounds that counted.
    pub rounds: usize,
}

/// Runs every subject once a round, for `rounds` rounds after one that is thrown away. Leaves out, and says so, whom
/// no round counted for.
pub fn measure(subjects: &mut [Subject], rounds: u32) -> Vec<Measured> {
    let mut samples = vec![Vec::new(); subjects.len()];
    for round in 0..=rounds {
        progress(round, rounds);
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            let sample = (subject.run)(subject.operations);
            if round > 0 {
                samples.extend(sample);
            }
        }
    }
    subjects.iter().zip(samples).filter_map(|(subject, samples)| summary(subject, samples)).collect()
}

fn summary(subject: &Subject, mut samples: Vec<f64>) -> Option<Measured> {
    samples.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (samples.first(), samples.last()) else {
        eprintln!("{}: no round counted, the machine is too busy", subject.question);
        return None;
    };
    let (question, rounds) = (subject.question.clone(), samples.len());
    Some(Measured { question, note: subject.note, median: samples[rounds / 2], least, most, rounds })
}

/// Says on stderr how far it is.
pub fn progress(round: u32, rounds: u32) {
    let mut out = stderr();
    if out.is_terminal() {
        let end = if round == rounds { "\n" } else { "" };
        write!(out, "\rround {round} of {rounds}{end}").expect("progress goes to an open stderr");
    } else if round == rounds || round.is_multiple_of(10) {
        writeln!(out, "round {round} of {rounds}").expect("progress goes to an open stderr");
    }
}
