//! What a reader of a document should be told besides: goals that nobody looked at, and figures that this run lacks. Those that
//! no run has are refused before it.

use crate::document::Document;
use crate::scenario::Check;

impl Document {
    /// A sentence for each thing that a table of goals does not say.
    pub fn notes(&self) -> Vec<String> {
        let checks = self.origin().map(|scenario| scenario.checks).unwrap_or_default();
        // One policy was run instead of the variants, so that nothing is called after one.
        let is_left_out = |check: &&Check| self.input.policy.is_some() && named(check).any(|name| name.contains('/'));
        let left_out = checks.iter().filter(is_left_out).count();
        let mut notes: Vec<String> = match left_out {
            0 => Vec::new(),
            1 => vec!["1 goal is about variants: not looked at".to_owned()],
            count => vec![format!("{count} goals are about variants: not looked at")],
        };
        for name in checks.iter().filter(|check| !is_left_out(check)).flat_map(named) {
            if !self.metrics.contains_key(name) {
                let note = format!("metric {name} does not exist in this run: metrics of --json has those that do");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        notes
    }
}

/// The figures that a check is about.
fn named(check: &Check) -> impl Iterator<Item = &str> {
    [Some(&check.metric), check.minus.as_ref(), check.over.as_ref()].into_iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use crate::document::Input;
    use crate::lab::{Order, run};

    fn notes(toml: &str, policy: Option<&str>) -> Vec<String> {
        let small = "duration = \"2s\"\nsettle = \"1s\"\nclients.count = 2\nbackends.count = 2\n";
        let toml = format!("{small}{toml}");
        let input = Input { toml, policy: policy.map(str::to_owned), ..Input::default() };
        run(&Order { input, ..Order::default() }, 1, &|_| {}).unwrap().notes()
    }

    fn check(metric: &str) -> String {
        let id = metric.replace('/', "-");
        format!("[[check]]\nid = \"{id}\"\nmetric = \"{metric}\"\nat_most = 1\n")
    }

    #[test]
    fn a_figure_that_this_run_lacks_is_told() {
        let too_short = check("spread_60s") + &check("p99_ms");

        let notes = notes(&too_short, None);

        assert!(notes[0].starts_with("metric spread_60s does not exist in this run"), "{notes:?}");
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn goals_about_variants_are_counted_where_one_policy_is_run_instead() {
        let variants = "[[variant]]\nname = \"a\"\n".to_owned() + &check("a/p99_ms");

        assert!(notes(&variants, None).is_empty());
        assert_eq!(notes(&variants, Some("p2c")), ["1 goal is about variants: not looked at"]);
        let two = variants + &check("a/p50_ms");
        assert_eq!(notes(&two, Some("p2c")), ["2 goals are about variants: not looked at"]);
    }
}
