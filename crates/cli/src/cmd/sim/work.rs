//! What the commands that run something share: threads, progress, folders.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;

use evenkeel_sim::Document;
use evenkeel_sim::lab::{self, Order};

use crate::draw::error_text;
use crate::failure::Failure;
use crate::progress::Progress;

/// Runs an order with a bar on stderr, whose part from `begin` on, `share` of it long, this one is.
pub(crate) fn run(order: &Order, threads: Option<usize>, bar: &Progress, part: Part) -> Result<Document, Failure> {
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let tell = |share: f64| bar.show((STEPS as f64 * (part.begin + share * part.share)) as u64, order.name.clone());
    lab::run(order, threads, &tell).map_err(|bad| Failure::Usage(format!("{}: {bad}", order.name)))
}

/// The part of all that is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) begin: f64,
    pub(crate) share: f64,
}

impl Part {
    pub(crate) const ALL: Part = Part { begin: 0.0, share: 1.0 };
}

pub(crate) fn bar() -> Progress {
    Progress::bar_with_news("simulating", STEPS)
}

/// Made before anything runs, so that nobody waits for what cannot be written.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    let probe = folder.join(".evenkeel-probe");
    fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).map_err(|error| cannot_write(folder, &error))
}

pub(crate) fn write_files(folder: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

/// Something to know besides, on stderr.
pub(crate) fn note(what: &str) {
    // Without a stderr there is nobody left to tell.
    drop(write!(io::stderr(), "{}", error_text(what)));
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("cannot write to --out {}: {error}; choose a folder that can be written to", path.display()))
}

const STEPS: u64 = 1000;
