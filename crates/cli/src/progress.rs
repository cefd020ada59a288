//! A progress bar on stderr, for work that takes more than a moment.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Counts steps of some unit. Shown only where stderr is a terminal.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Nothing is shown, since nobody has to wait.
    pub(crate) fn hidden() -> Self {
        Progress(None)
    }

    /// A bar of so many steps, with the work's name before it.
    pub(crate) fn bar(work: &'static str, steps: u64) -> Self {
        let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress(Some(ProgressBar::new(steps).with_style(style).with_message(work)))
    }

    /// A bar of so many steps with a line of news behind it.
    pub(crate) fn bar_with_news(work: &'static str, steps: u64) -> Self {
        let style = ProgressStyle::with_template("{prefix} {bar:20} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress(Some(ProgressBar::new(steps).with_style(style).with_prefix(work)))
    }

    /// So many are done in all, and this is what there is to say.
    pub(crate) fn show(&self, steps: u64, news: String) {
        if let Some(bar) = &self.0 {
            bar.set_position(steps);
            bar.set_message(news);
        }
    }

    /// Says this above the bar, or on stderr where no bar is seen.
    pub(crate) fn say(&self, what: &str) {
        match &self.0 {
            Some(bar) if !bar.is_hidden() => bar.println(what),
            _ => announce(what),
        }
    }

    /// So many more are done.
    pub(crate) fn advance(&self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(steps);
        }
    }

    /// Takes it off the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Says on stderr that this takes a while, where no bar is seen.
pub(crate) fn announce(what: &str) {
    if !io::stderr().is_terminal() {
        // Without a stderr nobody waits for the line.
        drop(writeln!(io::stderr(), "{what}"));
    }
}
