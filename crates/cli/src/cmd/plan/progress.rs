//! A progress bar on stderr, for dealings that take more than a moment.

use evenkeel_core::plan::Shape;
use indicatif::{ProgressBar, ProgressStyle};

/// Counts clients times backends, since dealing to one client looks at all backends.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// For dealing all of these. Nothing is shown where that is quick, or where stderr is no terminal.
    pub(crate) fn over(shapes: impl IntoIterator<Item = Shape>) -> Self {
        let looks = |shape: Shape| u64::from(shape.clients) * u64::from(shape.backends);
        let total = shapes.into_iter().map(looks).sum();
        let style = ProgressStyle::with_template("dealing {bar:40} {percent:>3} %, {eta} left");
        Progress(
            (total >= LOOKS_LEAST)
                .then(|| ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))),
        )
    }

    /// One more client has been dealt to.
    pub(crate) fn advance(&self, shape: Shape) {
        if let Some(bar) = &self.0 {
            bar.inc(u64::from(shape.backends));
        }
    }

    /// Takes it off the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// About a second.
const LOOKS_LEAST: u64 = 100_000_000;
