//! Bars, tables and paragraphs in plain text, at most 80 columns wide.

use std::env;
use std::io::{self, IsTerminal};

/// Colours where they are welcome: stdout is a terminal and `NO_COLOR` is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

impl Paint {
    pub(crate) fn for_stdout() -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        if unwanted || is_dumb || !io::stdout().is_terminal() { Paint::Plain } else { Paint::Coloured }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.with("1", text)
    }

    /// For bars.
    pub(crate) fn picture(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// `share` of `width` columns filled, to an eighth of a column, and padded with blanks.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let filled = eighths(share, width);
    let mut bar = "█".repeat(filled / 8);
    if !filled.is_multiple_of(8) {
        bar.push(EIGHTHS_WIDE[filled % 8]);
    }
    bar + &" ".repeat(width - filled.div_ceil(8))
}

/// `share` of `cells`, in eighths of one. A share that is no number is nothing.
fn eighths(share: f64, cells: usize) -> usize {
    (share.clamp(0.0, 1.0) * (cells * 8) as f64).round() as usize
}

/// Columns side by side, two blanks apart: the first to the left, the others to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cell_width = |row: &[String], column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..header.len())
        .map(|column| rows.iter().map(|row| cell_width(row, column)).max().unwrap_or(0).max(header[column].len()))
        .collect();
    let aligned = |(column, (cell, &width)): (usize, (&str, &usize))| match column {
        0 => format!("  {cell:<width$}"),
        _ => format!("  {cell:>width$}"),
    };
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let line: String = cells.zip(&widths).enumerate().map(aligned).collect();
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// The text in lines of at most 80 columns, each indented by two.
pub(crate) fn paragraph(text: &str) -> String {
    filled("  ", "  ", text)
}

/// The same as an item of a list.
pub(crate) fn item(text: &str) -> String {
    filled("  - ", "    ", text)
}

/// The text behind a head that stands alone to its left.
pub(crate) fn entry(head: &str, text: &str) -> String {
    let indent = " ".repeat(head.chars().count() + 4);
    filled(&format!("  {head}  "), &indent, text)
}

/// An error in lines of at most 80 columns; those after the first of each line that was too long are indented.
pub(crate) fn error_text(text: &str) -> String {
    text.lines().map(|line| filled("", "  ", line)).collect()
}

fn filled(first_indent: &str, indent: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first_indent.to_owned();
    let mut words = text.split_whitespace();
    line += words.next().unwrap_or_default();
    for word in words {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += &line;
            lines.push('\n');
            line = format!("{indent}{word}");
        } else {
            line.push(' ');
            line += word;
        }
    }
    lines + &line + "\n"
}

/// How many of what: `1 client`, `2 clients`.
pub(crate) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A share as whole percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

const COLUMNS: usize = 80;
const EIGHTHS_WIDE: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_asked_whatever_the_share() {
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(0.53, 4), "██▏ ");
        for share in [0.0, 1.0, 7.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(bar(share, 10).chars().count(), 10, "{share}");
        }
    }

    #[test]
    fn a_paragraph_stays_within_eighty_columns() {
        let text = paragraph(&"words and more of them ".repeat(20));

        assert!(text.lines().all(|line| line.starts_with("  ") && line.len() <= 80), "{text}");
        assert_eq!(paragraph("one two"), "  one two\n");
        assert_eq!(item("one two"), "  - one two\n");
        assert_eq!(entry("pass", "one two"), "  pass  one two\n");
    }

    #[test]
    fn a_table_lines_its_columns_up() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "1000".to_owned()]];

        assert_eq!(table(&["name", "n"], &rows), "  name     n\n  a        1\n  long  1000\n");
    }
}
