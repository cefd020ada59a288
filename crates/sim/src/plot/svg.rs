//! The few elements of SVG that the figures need. Numbers are written with two decimals at most, text is escaped, and
//! nothing has an id, so that several figures fit on one page.

use std::fmt::Write;

use super::colour;

/// Elements in the order in which they are drawn.
#[derive(Debug, Default)]
pub(super) struct Svg(String);

/// A place on the sheet, in pixels from its top left.
pub(super) type Place = (f64, f64);

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps; empty for none.
    pub(super) dashes: &'static str,
    pub(super) opacity: f64,
}

impl Stroke {
    pub(super) const fn solid(colour: &'static str, width: f64) -> Self {
        Stroke { colour, width, dashes: "", opacity: 1.0 }
    }

    pub(super) const fn dashed(colour: &'static str, width: f64) -> Self {
        Stroke { colour, width, dashes: "6 4", opacity: 1.0 }
    }
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) size: f64,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
    pub(super) bold: bool,
    /// A rim of paper, for what stands on lines.
    pub(super) rim: bool,
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Type {
    pub(super) const TITLE: Type =
        Type { size: 18.0, colour: colour::TEXT, anchor: Anchor::Start, bold: true, rim: false };
    pub(super) const PANEL: Type =
        Type { size: 14.0, colour: colour::TEXT, anchor: Anchor::Start, bold: true, rim: false };
    pub(super) const BODY: Type =
        Type { size: 13.0, colour: colour::TEXT, anchor: Anchor::Start, bold: false, rim: false };
    pub(super) const SMALL: Type =
        Type { size: 12.0, colour: colour::TEXT_SOFT, anchor: Anchor::Start, bold: false, rim: false };

    pub(super) const fn anchored(self, anchor: Anchor) -> Self {
        Type { anchor, ..self }
    }

    pub(super) const fn coloured(self, colour: &'static str) -> Self {
        Type { colour, ..self }
    }

    pub(super) const fn rimmed(self) -> Self {
        Type { rim: true, ..self }
    }

    /// About how wide a text is. Fonts differ: this is the mean of common sans serifs, rounded up.
    pub(super) fn width(&self, text: &str) -> f64 {
        let of_size = if self.bold { 0.60 } else { 0.55 };
        text.chars().count() as f64 * self.size * of_size
    }

    /// The text, its end left out where it is wider than that.
    pub(super) fn fit(&self, text: &str, width: f64) -> String {
        let room = (width / self.width("x")) as usize;
        if text.chars().count() <= room {
            return text.to_owned();
        }
        text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    }

    /// The text in lines no wider than that; a single word may be.
    pub(super) fn wrap(&self, text: &str, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(line) + self.width(word) + self.size <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

impl Svg {
    pub(super) fn rect(&mut self, left_top: Place, width: f64, height: f64, fill: &str) {
        let (x, y) = (number(left_top.0), number(left_top.1));
        let (width, height) = (number(width.max(0.0)), number(height.max(0.0)));
        self.push(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#));
    }

    pub(super) fn line(&mut self, from: Place, to: Place, stroke: &Stroke) {
        let ends =
            format!(r#"x1="{}" y1="{}" x2="{}" y2="{}""#, number(from.0), number(from.1), number(to.0), number(to.1));
        self.push(&format!("<line {ends} {}/>", attributes(stroke)));
    }

    pub(super) fn polyline(&mut self, points: &[Place], stroke: &Stroke) {
        let path = outline(points);
        if !path.is_empty() {
            let stroke = attributes(stroke);
            self.push(&format!(r#"<path d="{path}" fill="none" stroke-linejoin="round" {stroke}/>"#));
        }
    }

    pub(super) fn area(&mut self, points: &[Place], fill: &str, opacity: f64) {
        let path = outline(points);
        if !path.is_empty() {
            let opacity = number(opacity);
            self.push(&format!(r#"<path d="{path}Z" fill="{fill}" fill-opacity="{opacity}"/>"#));
        }
    }

    pub(super) fn text(&mut self, at: Place, text: &str, style: &Type) {
        self.turned_text(at, text, style, "");
    }

    /// Read from below, for the axis on the left.
    pub(super) fn text_upwards(&mut self, at: Place, text: &str, style: &Type) {
        let turn = format!(r#" transform="rotate(-90 {} {})""#, number(at.0), number(at.1));
        self.turned_text(at, text, style, &turn);
    }

    fn turned_text(&mut self, at: Place, text: &str, style: &Type, turn: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.bold { r#" font-weight="600""# } else { "" };
        let rim = if style.rim { r#" stroke="white" stroke-width="4" paint-order="stroke""# } else { "" };
        self.push(&format!(
            r#"<text x="{}" y="{}" font-size="{}" fill="{}" text-anchor="{anchor}"{weight}{rim}{turn}>{}</text>"#,
            number(at.0),
            number(at.1),
            number(style.size),
            style.colour,
            escaped(text)
        ));
    }

    fn push(&mut self, element: &str) {
        self.0.push_str(element);
        self.0.push('\n');
    }

    /// The whole document, on white: print and dark pages want the same.
    pub(super) fn finish(self, width: f64, height: f64, title: &str, about: &str) -> String {
        let (width, height) = (number(width), number(height));
        let (title, about) = (escaped(title), escaped(about));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n\
             <title>{title}</title>\n<desc>{about}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n{}</svg>\n",
            colour::PAPER,
            self.0
        )
    }
}

/// Text as it may stand in XML and HTML; characters that XML has no way to write are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            control if control < ' ' && !matches!(control, '\n' | '\t') => {}
            other => out.push(other),
        }
    }
    out
}

/// Two decimals at most; what is no number is nought, so that a figure is always well formed.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn attributes(stroke: &Stroke) -> String {
    let mut text = format!(r#"stroke="{}" stroke-width="{}""#, stroke.colour, number(stroke.width));
    if !stroke.dashes.is_empty() {
        let _infallible = write!(text, r#" stroke-dasharray="{}""#, stroke.dashes);
    }
    if stroke.opacity < 1.0 {
        let _infallible = write!(text, r#" stroke-opacity="{}""#, number(stroke.opacity));
    }
    text
}

/// Points that nobody could tell from the one before are left out; the last one stays.
fn outline(points: &[Place]) -> String {
    let mut path = String::new();
    let mut before: Option<Place> = None;
    for (index, &(x, y)) in points.iter().enumerate() {
        let is_near = before.is_some_and(|(left, top)| (x - left).abs() < NEAR && (y - top).abs() < NEAR);
        if is_near && index + 1 < points.len() {
            continue;
        }
        let command = if before.is_none() { 'M' } else { 'L' };
        let _infallible = write!(path, "{command}{} {}", number(x), number(y));
        before = Some((x, y));
    }
    path
}

const NEAR: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_always_numbers() {
        let written: Vec<String> = [1.0, 0.126, -0.001, f64::NAN, f64::INFINITY, 1e3].map(number).into();

        assert_eq!(written, ["1", "0.13", "0", "0", "0", "1000"]);
    }

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escaped("a<b & \"c\"\u{0}'"), "a&lt;b &amp; &quot;c&quot;&#39;");
    }
}
