//! `evenkeel sim run`: one scenario, its figures by variant and its goals.

use std::io::Write;

use evenkeel_sim::lab::Order;
use evenkeel_sim::{Input, report};

use super::named::find;
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
    if args.json {
        write!(out, "{}", document.to_json())?;
    } else {
        text::write(out, Paint::for_stdout(), &document)?;
        if let Some(folder) = &args.out {
            let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
            writeln!(out, "\n{}", text::written(folder, &names).trim_end())?;
        }
    }
    if args.strict { text::strict([&document]) } else { Ok(()) }
}

fn order(args: &RunArgs) -> Result<Order, Failure> {
    let named = find(&args.scenario)?;
    let input = Input { toml: named.text, set: args.set.clone(), policy: args.policy.clone() };
    Ok(Order { name: named.name, input, seed: args.seed, seeds: args.seeds })
}
