//! `evenkeel sim run`: one scenario, its figures by variant and its goals.

use std::io::Write;

use evenkeel_sim::lab::Order;
use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::{Document, Input, report};

use super::named::{Named, find};
use super::{text, work};
use crate::args::RunArgs;
use crate::draw::Paint;
use crate::failure::Failure;

pub(crate) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), Failure> {
    let order = order(args)?;
    if let Some(folder) = &args.out {
        work::make_folder(folder)?;
    }
    let bar = work::bar();
    let document = work::run(&order, args.threads, &bar, work::Part::ALL);
    bar.finish();
    let document = document?;

    let files = args.out.as_ref().map(|_| report::files_of(&document)).unwrap_or_default();
    if let Some(folder) = &args.out {
        work::write_files(folder, &files)?;
    }
    if args.out.is_some() {
        for note in report::undrawn(&document) {
            work::note(&note);
        }
    }
    let printed = print(args, &document, &files, out);
    // A missed goal is told by the exit code even where nobody reads the rest.
    if args.strict {
        text::strict([&document])?;
    }
    printed
}

fn print(args: &RunArgs, document: &Document, files: &[(String, String)], out: &mut impl Write) -> Result<(), Failure> {
    if args.json {
        for note in document.notes() {
            work::note(&note);
        }
        return Ok(write!(out, "{}", document.to_json())?);
    }
    text::write(out, Paint::for_stdout(), document)?;
    if let Some(folder) = &args.out {
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        writeln!(out, "\n{}", text::written(folder, &names).trim_end())?;
    }
    Ok(())
}

fn order(args: &RunArgs) -> Result<Order, Failure> {
    let named = find(&args.scenario)?;
    refuse_hidden_policy(args, &named)?;
    let input = Input { toml: named.text, set: args.set.clone(), policy: args.policy.clone() };
    Ok(Order { name: named.name, input, seed: args.seed, seeds: args.seeds })
}

/// A policy that is set below variants that set their own would reach only the others, under names that say nothing of it.
fn refuse_hidden_policy(args: &RunArgs, named: &Named) -> Result<(), Failure> {
    let of_policy = |set: &str| {
        set.split_once('=').filter(|(key, _)| key.trim() == "policy").map(|(_, value)| value.trim().to_owned())
    };
    let Some(policy) = args.set.iter().find_map(|set| of_policy(set)) else { return Ok(()) };
    // A text that cannot be read is told so when it is run.
    let variants = Scenario::parse(&named.text).map(|scenario| scenario.variants).unwrap_or_default();
    if variants.iter().all(|variant| !variant.set.contains_key("policy")) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: --set policy={policy}: its variants set policy: use --policy {policy} to run one policy instead of them",
        named.name
    )))
}
