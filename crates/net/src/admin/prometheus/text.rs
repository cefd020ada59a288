//! The form of it: families, samples, labels.

use std::fmt::Write;

pub(crate) type Label<'a> = (&'static str, std::borrow::Cow<'a, str>);
pub(crate) type Labels<'a> = Vec<Label<'a>>;

/// The text so far, and the family that samples belong to.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    family: String,
}

impl Text {
    pub(crate) fn gauge(&mut self, name: &str, help: &str) -> &mut Self {
        self.begin(name, "gauge", help)
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str) -> &mut Self {
        debug_assert!(name.ends_with("_total"), "a counter ends with its unit");
        self.begin(name, "counter", help)
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) -> &mut Self {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes everything");
        name.clone_into(&mut self.family);
        self
    }

    /// One sample for each channel or server that has the value.
    pub(crate) fn each<T>(&mut self, all: &[(Labels<'_>, &T)], value: impl Fn(&T) -> Option<f64>) {
        for (labels, one) in all {
            if let Some(value) = value(one) {
                self.sample_with(labels, &[], value);
            }
        }
    }

    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_with(&[], labels, value);
    }

    pub(crate) fn sample_with(&mut self, labels: &[Label<'_>], own: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.family);
        let labels = labels.iter().map(|(name, value)| (*name, value.as_ref())).chain(own.iter().copied());
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(&mut self.text, value);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect("a string takes everything");
    }
}

/// As the format asks: backslash, quote and the end of a line.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut text = Text::default();
        text.gauge("evenkeel_x", "Y.").sample(&[("backend", "a\"} 1\n\\b")], 0.5);

        assert!(text.text.ends_with("\nevenkeel_x{backend=\"a\\\"} 1\\n\\\\b\"} 0.5\n"), "{}", text.text);
    }
}
