//! `evenkeel sim list` and `show`: what there is, and its text.

use std::io::Write;

use evenkeel_sim::catalog;
use evenkeel_sim::scenario::Scenario;
use serde::Serialize;

use super::named::in_catalog;
use crate::args::{ListArgs, ShowArgs};
use crate::draw::entry;
use crate::failure::Failure;

/// A row of the list.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    about: String,
}

pub(crate) fn run(args: &ListArgs, out: &mut impl Write) -> Result<(), Failure> {
    let rows: Vec<Row> = catalog::all().iter().map(|&(name, text)| Row { name, about: about(text) }).collect();
    if args.json {
        serde_json::to_writer(&mut *out, &rows)?;
        return Ok(writeln!(out)?);
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for Row { name, about } in rows {
        write!(out, "{}", entry(&format!("{name:width$}"), &about))?;
    }
    Ok(())
}

pub(crate) fn show(args: &ShowArgs, out: &mut impl Write) -> Result<(), Failure> {
    Ok(write!(out, "{}", in_catalog(&args.name)?)?)
}

/// Tests of the catalog see that each can be read; a list is no place to fail if one cannot.
fn about(text: &str) -> String {
    Scenario::parse(text).map_or_else(|bad| bad.to_string(), |scenario| scenario.about)
}
