//! `evenkeel plan`: which subset size, how even, what a change costs (A9..A12).

mod figures;
mod text;

use std::io::Write;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{Advice, BadChange, Change, Churn, Dealt, Shape, advise};

use crate::args::PlanArgs;
use crate::draw::Paint;
use crate::failure::Failure;
use crate::progress::{Progress, announce};
use figures::{Compared, Figures};

/// Deals, counts and prints.
pub(crate) fn run(args: &PlanArgs, out: &mut impl Write) -> Result<(), Failure> {
    let advice = advise(args.clients, args.backends, args.algorithm, args.burst);
    let shape = Shape { clients: args.clients, backends: args.backends, size: args.size.unwrap_or(advice.size).max(1) };
    check_connections(shape)?;
    if args.dump {
        let progress = progress_over(&[shape])?;
        let dealt = deal(args, shape, &progress)?;
        progress.finish();
        return dump(&dealt, out);
    }
    let figures = compute(args, advice, shape)?;
    if args.json {
        serde_json::to_writer(&mut *out, &figures)?;
        return Ok(writeln!(out)?);
    }
    Ok(text::write(out, Paint::for_stdout(), args, &figures)?)
}

fn compute(args: &PlanArgs, advice: Advice, shape: Shape) -> Result<Figures, Failure> {
    let Changes { possible, not_possible } = Changes::of(&args.changes, shape)?;
    let shapes: Vec<Shape> = std::iter::once(shape).chain(possible.iter().map(|&(_, after)| after)).collect();
    let progress = progress_over(&shapes)?;
    let dealt = deal(args, shape, &progress)?;
    let mut churn = Vec::new();
    for (change, after) in possible {
        churn.push((change, Churn::between(&dealt, &deal(args, after, &progress)?)));
    }
    progress.finish();
    let mut figures = Figures::new(args, advice, &dealt, &churn);
    figures.changes_not_possible = not_possible.iter().map(Change::to_string).collect();
    figures.compared = compare(args, shape)?;
    Ok(figures)
}

/// Every algorithm on the same shape, where that is quick.
fn compare(args: &PlanArgs, shape: Shape) -> Result<Vec<Compared>, Failure> {
    if looks(shape) > COMPARED_LOOKS_MOST {
        return Ok(Vec::new());
    }
    let dealt = |algorithm| Ok(Compared::of(algorithm, &Dealt::new(shape, algorithm, args.seed)?));
    Algorithm::ALL.into_iter().map(dealt).collect()
}

fn deal(args: &PlanArgs, shape: Shape, progress: &Progress) -> Result<Dealt, Failure> {
    let dealt = Dealt::with_progress(shape, args.algorithm, args.seed, |_| progress.advance(u64::from(shape.backends)));
    Ok(dealt?)
}

/// One row a line, so that the document can be read and cut with line tools.
fn dump(dealt: &Dealt, out: &mut impl Write) -> Result<(), Failure> {
    write!(out, "{{\"clients\": [")?;
    for (client, row) in dealt.rows.iter().enumerate() {
        out.write_all(if client == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, row)?;
    }
    Ok(writeln!(out, "\n]}}")?)
}

/// What to count churn for.
struct Changes {
    possible: Vec<(Change, Shape)>,
    not_possible: Vec<Change>,
}

impl Changes {
    /// A change that was asked for must be possible; of the usual ones those that are not, such as one backend less
    /// of one, are only named.
    fn of(asked: &[Change], shape: Shape) -> Result<Self, Failure> {
        let after = |change: Change| -> Result<Shape, Failure> {
            let after = change.applied_to(shape)?;
            check_connections(after)?;
            Ok(after)
        };
        let mut changes = Changes { possible: Vec::new(), not_possible: Vec::new() };
        if asked.is_empty() {
            for change in USUAL_CHANGES.iter().map(|text| text.parse()).collect::<Result<Vec<Change>, BadChange>>()? {
                match after(change) {
                    Ok(after) => changes.possible.push((change, after)),
                    Err(_) => changes.not_possible.push(change),
                }
            }
        }
        for &change in asked {
            changes.possible.push((change, after(change)?));
        }
        Ok(changes)
    }
}

/// Dealing to one client looks at all backends.
fn looks(shape: Shape) -> u64 {
    u64::from(shape.clients) * u64::from(shape.backends)
}

/// How far the dealing of all these is. Refused where nobody would wait for it.
fn progress_over(shapes: &[Shape]) -> Result<Progress, Failure> {
    let total: u64 = shapes.iter().copied().map(looks).sum();
    let (dealings, most) = (shapes.len(), LOOKS_MOST / 1_000_000);
    let millions = total.div_ceil(1_000_000);
    if total > LOOKS_MOST {
        let one_change_fits = dealings > 2 && shapes.iter().take(2).copied().map(looks).sum::<u64>() <= LOOKS_MOST;
        let or_one_change = if one_change_fits { ", or only one --change" } else { "" };
        let each = if dealings == 1 { String::new() } else { format!(" in each of {dealings} dealings") };
        return Err(Failure::Usage(format!(
            "every client looks at every backend{each}: {millions} million looks, and plan takes at most {most} \
             million, about 40 s: give fewer --clients or --backends{or_one_change}",
        )));
    }
    if total < LOOKS_LONG {
        return Ok(Progress::hidden());
    }
    announce(&format!("plan: {millions} million looks at backends; this takes about {} s", total.div_ceil(LOOKS_LONG)));
    Ok(Progress::bar("dealing", total))
}

fn check_connections(shape: Shape) -> Result<(), Failure> {
    let connections = u64::from(shape.clients) * u64::from(shape.size.min(shape.backends));
    if connections <= CONNECTIONS_MOST {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} clients that use {} backends each have {connections} connections, and plan deals at most \
         {CONNECTIONS_MOST}: give a smaller --size or fewer --clients",
        shape.clients,
        shape.size.min(shape.backends),
    )))
}

const USUAL_CHANGES: [&str; 5] = ["+1b", "-1b", "+10%b", "-10%b", "+10%c"];
/// 200 MB for one dealing; two are compared at a time.
const CONNECTIONS_MOST: u64 = 50_000_000;
/// About 40 s.
const LOOKS_MOST: u64 = 4_000_000_000;
/// About a second: a look takes 8 to 10 ns.
const LOOKS_LONG: u64 = 100_000_000;
/// About ten milliseconds for each algorithm.
const COMPARED_LOOKS_MOST: u64 = 1_000_000;
