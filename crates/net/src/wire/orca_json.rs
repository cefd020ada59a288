//! The JSON form of a load report, as much of JSON as it takes: one object of numbers, and objects of numbers in it.
//!
//! As protobuf's JSON a number may stand in quotes, and a name may be in camel case.

use super::orca_read::Numbers;

/// The numbers, unless the text is anything else.
pub(super) fn parse(text: &str) -> Option<Numbers> {
    let (mut reader, mut numbers) = (Reader { rest: text }, Numbers::default());
    reader.members(|reader, name| {
        match name {
            "named_metrics" | "namedMetrics" => {
                reader.members(|reader, name| {
                    numbers.set_named(name, reader.number()?);
                    Some(())
                })?;
            }
            "request_cost" | "requestCost" | "utilization" => {
                reader.members(|reader, _| reader.number().map(drop))?;
            }
            _ => numbers.set(name, reader.number()?),
        }
        Some(())
    })?;
    reader.rest.trim_start().is_empty().then_some(numbers)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// An object, its values read by `each`.
    fn members(&mut self, mut each: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.symbol('{')?;
        if self.symbol('}').is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.symbol(':')?;
            each(self, name)?;
            if self.symbol(',').is_none() {
                return self.symbol('}');
            }
        }
    }

    fn number(&mut self) -> Option<f64> {
        if let Some(quoted) = self.string() {
            return quoted.parse().ok();
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(end);
        self.rest = rest;
        number.parse().ok()
    }

    /// Without escapes: no metric's name needs one.
    fn string(&mut self) -> Option<&'a str> {
        let (text, rest) = self.rest.trim_start().strip_prefix('"')?.split_once('"')?;
        self.rest = rest;
        (!text.contains('\\')).then_some(text)
    }

    fn symbol(&mut self, symbol: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(symbol)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_fields_and_maps_are_read_by_either_name() {
        let text = r#" {"cpu_utilization": 0.5, "rpsFractional":"12.5", "eps": 2e0, "later": -1,
            "namedMetrics": {"kv_cache": 0.25, "evenkeel.in_flight":3}, "request_cost": {} } "#;

        let report = parse(text).map(Numbers::report).unwrap();

        assert_eq!(
            (report.utilization, report.qps, report.eps, report.in_flight),
            (Some(0.5), Some(12.5), Some(2.0), Some(3))
        );
        assert!(parse("{}").is_some());
    }

    #[test]
    fn anything_else_is_no_report() {
        for text in
            ["", "{", "[]", "{}x", r#"{"eps"}"#, r#"{"eps":}"#, r#"{"eps":1,}"#, r#"{"eps":[1]}"#, r#"{"e\"":1}"#]
        {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(parse(&r#"{"named_metrics":"#.repeat(1000)).is_none());
    }
}
