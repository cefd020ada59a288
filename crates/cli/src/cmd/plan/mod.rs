//! `evenkeel plan`: which subset size, how even, what a change costs (A9..A12).

mod figures;
mod progress;
mod text;

use std::io::Write;

use evenkeel_core::plan::{Advice, BadChange, Change, Churn, Dealt, Shape, advise};

use crate::args::PlanArgs;
use crate::draw::Paint;
use crate::failure::Failure;
use figures::Figures;
use progress::Progress;

/// Deals, counts and prints.
pub(crate) fn run(args: &PlanArgs, out: &mut impl Write) -> Result<(), Failure> {
    let advice = advise(args.clients, args.backends, args.algorithm, args.burst);
    let shape = Shape { clients: args.clients, backends: args.backends, size: args.size.unwrap_or(advice.size).max(1) };
    check_amount(shape)?;
    if args.dump {
        let progress = Progress::over([shape]);
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
    let changes = changed_shapes(&args.changes, shape)?;
    let progress = Progress::over(std::iter::once(shape).chain(changes.iter().map(|&(_, after)| after)));
    let dealt = deal(args, shape, &progress)?;
    let mut churn = Vec::new();
    for (change, after) in changes {
        churn.push((change, Churn::between(&dealt, &deal(args, after, &progress)?)));
    }
    progress.finish();
    Ok(Figures::new(args, advice, &dealt, &churn))
}

fn deal(args: &PlanArgs, shape: Shape, progress: &Progress) -> Result<Dealt, Failure> {
    let dealt = Dealt::with_progress(shape, args.algorithm, args.seed, |_| progress.advance(shape));
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

/// What to count churn for. A change that was asked for must be possible; of the usual ones those that are not, such
/// as one backend less of one, are left out.
fn changed_shapes(asked: &[Change], shape: Shape) -> Result<Vec<(Change, Shape)>, Failure> {
    let mut shapes = Vec::new();
    for &change in asked {
        let after = change.applied_to(shape)?;
        check_amount(after)?;
        shapes.push((change, after));
    }
    if asked.is_empty() {
        let usual = USUAL_CHANGES.iter().map(|text| text.parse()).collect::<Result<Vec<Change>, BadChange>>()?;
        let possible = usual.into_iter().filter_map(|change| Some((change, change.applied_to(shape).ok()?)));
        shapes.extend(possible.filter(|&(_, after)| check_amount(after).is_ok()));
    }
    Ok(shapes)
}

fn check_amount(shape: Shape) -> Result<(), Failure> {
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
