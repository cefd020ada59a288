//! `evenkeel sim report`: every scenario on one page, and its files beside it.

use std::io::Write;

use evenkeel_sim::lab::Order;
use evenkeel_sim::{Document, Input, catalog, report};

use super::named::{in_catalog, is_file};
use super::text;
use super::work::{self, Part};
use crate::args::ReportArgs;
use crate::draw::{counted, paragraph};
use crate::failure::Failure;
use crate::progress::announce;

pub(crate) fn run(args: &ReportArgs, out: &mut impl Write) -> Result<(), Failure> {
    let orders = orders(args)?;
    work::make_folder(&args.out)?;
    announce(&format!("report: {}; this takes a while", scenarios(orders.len())));
    let bar = work::bar();
    let share = 1.0 / orders.len() as f64;
    let run = |(number, order): (usize, &Order)| {
        work::run(order, args.threads, &bar, Part { begin: number as f64 * share, share })
    };
    let documents: Result<Vec<Document>, Failure> = orders.iter().enumerate().map(run).collect();
    bar.finish();
    let documents = documents?;
    work::write_files(&args.out, &report::files(&documents))?;

    for note in documents.iter().flat_map(report::undrawn) {
        work::note(&note);
    }
    let printed = print(args, &documents, out);
    // A missed goal is told by the exit code even where nobody reads the rest.
    if args.strict {
        text::strict(&documents)?;
    }
    printed
}

fn print(args: &ReportArgs, documents: &[Document], out: &mut impl Write) -> Result<(), Failure> {
    let checks = || documents.iter().flat_map(|document| &document.checks);
    let met = checks().filter(|check| check.pass).count();
    writeln!(out, "{met} of {} goals met in {}", checks().count(), scenarios(documents.len()))?;
    for document in documents {
        for check in document.checks.iter().filter(|check| !check.pass) {
            let what = format!("missed in {}: {}", document.scenario, text::measured_text(check));
            write!(out, "{}", paragraph(&what))?;
        }
    }
    Ok(writeln!(out, "{}", args.out.join("index.html").display())?)
}

fn scenarios(count: usize) -> String {
    counted(u32::try_from(count).unwrap_or(u32::MAX), "scenario")
}

/// Those asked for, in the order of the catalog, or all.
fn orders(args: &ReportArgs) -> Result<Vec<Order>, Failure> {
    for name in &args.only {
        if is_file(name) {
            return Err(Failure::Usage(format!(
                "--only {name}: a report is of names that `evenkeel sim list` has, not of files: \
                 `evenkeel sim run {name} --out DIR` leaves the figures of one"
            )));
        }
        in_catalog(name)?;
    }
    let is_wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let wanted = catalog::all().iter().filter(|(name, _)| is_wanted(name));
    let order = |&(name, text): &(&str, &str)| Order {
        name: name.to_owned(),
        input: Input { toml: text.to_owned(), ..Input::default() },
        seed: args.seed,
        seeds: None,
    };
    Ok(wanted.map(order).collect())
}
