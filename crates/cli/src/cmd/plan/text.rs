//! The figures of `plan` for people: what was asked, the size and why, balance, cost, churn.

use std::io::{self, Write};

use super::figures::{Balance, Compared, Figures};
use crate::args::PlanArgs;
use crate::draw::{Paint, bar, counted, item, paragraph, percent, table};

pub(crate) fn write(out: &mut impl Write, paint: Paint, args: &PlanArgs, figures: &Figures) -> io::Result<()> {
    let Figures { algorithm, seed, .. } = figures;
    let size = figures.size.min(figures.backends);
    let (clients, backends) = (counted(figures.clients, "client"), counted(figures.backends, "backend"));
    writeln!(out, "{clients}, {backends}, subsets of {size}, dealt by {algorithm} with seed {seed}")?;
    writeln!(out, "\n{}", paint.heading("Size of a subset"))?;
    write!(out, "{}", size_text(args, figures))?;
    writeln!(out, "\n{}", paint.heading("Connections per backend"))?;
    write!(out, "{}\n{}", balance_text(figures), histogram_text(paint, &figures.balance))?;
    writeln!(out, "\n{}", paint.heading("What it costs"))?;
    write!(out, "{}", cost_text(figures))?;
    writeln!(out, "\n{}", paint.heading("Connections lost when something changes"))?;
    write!(out, "{}", churn_text(figures))
}

fn size_text(args: &PlanArgs, figures: &Figures) -> String {
    let Figures { size, backends, advice, .. } = figures;
    let recommended = advice.size;
    let mut text = paragraph(&match args.size {
        None => format!("{recommended} is recommended:"),
        Some(_) if size > backends => {
            format!("{size} asked for, all {backends} used; {recommended} is recommended:")
        }
        Some(_) => format!("{size} as asked; {recommended} is recommended:"),
    });
    text.extend(advice.reasons.iter().map(|reason| item(reason)));
    let share = percent(f64::from(advice.random_size) / f64::from(figures.backends));
    let is_published = (figures.clients, figures.backends) == (300, 300);
    let published = if is_published { " (published: about 75 %)" } else { "" };
    text += &paragraph(&format!(
        "Random subsets would need {} of the {} backends ({share}) to keep the most loaded one within 10 % of the \
         mean{published}.",
        advice.random_size, figures.backends,
    ));
    text
}

fn balance_text(figures: &Figures) -> String {
    let Balance { least, mean, most, subset_least, subset_most, .. } = figures.balance;
    let row = |name: &str, [least, most]: [f64; 2], digits: usize| {
        let of_mean = |value: f64| if mean > 0.0 { percent(value / mean) } else { "-".to_owned() };
        let counts = [least, mean, most].map(|value| format!("{value:.digits$}"));
        [vec![name.to_owned()], counts.to_vec(), vec![of_mean(least), of_mean(most)]].concat()
    };
    let expected = &figures.expected_random;
    // A mean is whole where the division comes out even.
    let digits = usize::from(mean.fract() > 0.0);
    let mut rows =
        vec![row("dealt", [least, most], digits), row("random, expected", [expected.least, expected.most], 1)];
    if let Some(published) = figures.published {
        let shares = [published.least_percent, published.most_percent].map(|share| format!("{share} %"));
        rows.push([vec!["random, published draw".to_owned()], vec![String::new(); 3], shares.to_vec()].concat());
    }
    let sizes = if subset_least == subset_most {
        format!("Every client uses {subset_least}.")
    } else {
        format!("Clients use {subset_least} to {subset_most}.")
    };
    table(&["", "least", "mean", "most", "least/mean", "most/mean"], &rows) + &paragraph(&sizes)
}

/// Connections against the number of backends that have so many, in at most 15 rows.
fn histogram_text(paint: Paint, balance: &Balance) -> String {
    let bins = binned(&balance.histogram);
    let tallest = bins.iter().map(|bin| bin.backends).max().unwrap_or(1);
    let labels: Vec<String> = bins.iter().map(Bin::label).collect();
    let width = labels.iter().map(String::len).max().unwrap_or(0).max("connections".len());
    let mut text = format!("  {:>width$}  backends\n", "connections");
    for (bin, label) in bins.iter().zip(&labels) {
        let bar = bar(f64::from(bin.backends) / f64::from(tallest), BAR_WIDTH);
        let line = format!("  {label:>width$}  {:>8}  {}", bin.backends, paint.picture(bar.trim_end()));
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Backends with `first..=last` connections.
struct Bin {
    first: u32,
    last: u32,
    backends: u32,
}

impl Bin {
    fn label(&self) -> String {
        if self.first == self.last { self.first.to_string() } else { format!("{}-{}", self.first, self.last) }
    }
}

/// Bins of one width from the least to the most, empty ones between them too.
fn binned(histogram: &[(u32, u32)]) -> Vec<Bin> {
    let (Some(&(least, _)), Some(&(most, _))) = (histogram.first(), histogram.last()) else {
        return Vec::new();
    };
    let width = (most - least + 1).div_ceil(ROWS_MOST);
    let count = (most - least) / width + 1;
    let mut bins: Vec<Bin> = (0..count)
        .map(|number| least + number * width)
        .map(|first| Bin { first, last: (first + width - 1).min(most), backends: 0 })
        .collect();
    for &(connections, backends) in histogram {
        bins[((connections - least) / width) as usize].backends += backends;
    }
    bins
}

fn cost_text(figures: &Figures) -> String {
    let above = percent(figures.balance.most_to_mean - 1.0);
    let machines = match figures.extra_machines {
        0 => "No extra machines: every backend has the same number of connections.".to_owned(),
        extra => format!(
            "Up to {}, where requests follow connections (round_robin): the most loaded backend is {above} above the \
             mean, and a service is sized for its most loaded task. Policies that see load even out part of it.",
            counted(extra, "extra machine"),
        ),
    };
    paragraph(&machines) + &compared_text(figures) + &paragraph(&restart_text(figures))
}

/// Nothing where all are alike because every client uses every backend.
fn compared_text(figures: &Figures) -> String {
    if figures.compared.is_empty() || figures.size >= figures.backends {
        return String::new();
    }
    let most_to_mean = |one: &Compared| format!("{} {}", one.algorithm, percent(one.most_to_mean));
    let compared: Vec<String> = figures.compared.iter().map(most_to_mean).collect();
    paragraph(&format!("most/mean for this size and seed: {}", compared.join(", ")))
}

fn restart_text(figures: &Figures) -> String {
    let share = percent(figures.restart_share);
    match figures.restart_window {
        1 => format!(
            "A rolling restart of one backend at a time (10 % of {}{}) takes at most {share} of any subset at once.",
            counted(figures.backends, "backend"),
            if figures.backends == 10 { "" } else { ", rounded to one" },
        ),
        window => format!(
            "A rolling restart of 10 % of the backends ({window} at a time, consecutive by number) takes at most \
             {share} of any subset at once.",
        ),
    }
}

fn churn_text(figures: &Figures) -> String {
    let rows: Vec<Vec<String>> = figures
        .churn
        .iter()
        .map(|changed| {
            vec![
                changed.change.clone(),
                changed.before.to_string(),
                changed.lost.to_string(),
                // Newcomers may be due a part of a connection.
                format!("{:.1$}", changed.least, usize::from(changed.least.fract() > 0.0)),
                changed.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
                changed.worst_client.to_string(),
            ]
        })
        .collect();
    let mut text = table(&["change", "before", "lost", "least possible", "lost/least", "worst client"], &rows);
    if !figures.changes_not_possible.is_empty() {
        text += &paragraph(&format!("not possible here: {}", figures.changes_not_possible.join(", ")));
    }
    text += &paragraph("b: backends, c: clients; newcomers get the next numbers, the last ones go.");
    text += &paragraph(LEAST_POSSIBLE);
    if figures.churn.iter().any(|changed| changed.ratio.is_none()) {
        text += &paragraph("-: nothing had to be lost.");
    }
    text
}

const LEAST_POSSIBLE: &str = "Least possible: what a dealing that stays exactly even must move, with subsets of the \
                              same size. To lose less than it (lost/least below 1) means that newcomers get less \
                              than their share, or that some subsets grew.";
const ROWS_MOST: u32 = 15;
const BAR_WIDTH: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_histogram_is_binned_and_loses_nobody() {
        let histogram: Vec<(u32, u32)> = (10..110).map(|connections| (connections, 3)).collect();

        let bins = binned(&histogram);

        assert!(bins.len() <= 15);
        assert_eq!(bins.iter().map(|bin| bin.backends).sum::<u32>(), 300);
        assert_eq!((bins[0].first, bins[0].label()), (10, "10-16".to_owned()));
    }

    #[test]
    fn gaps_in_a_histogram_are_rows_of_their_own() {
        let bins = binned(&[(3, 1), (5, 2)]);

        let rows: Vec<(String, u32)> = bins.iter().map(|bin| (bin.label(), bin.backends)).collect();
        assert_eq!(rows, [("3".to_owned(), 1), ("4".to_owned(), 0), ("5".to_owned(), 2)]);
        assert!(binned(&[]).is_empty());
    }
}
