//! Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008), on white.

use super::svg::Stroke;

pub(super) const PAPER: &str = "#ffffff";
pub(super) const TEXT: &str = "#1a1a1a";
pub(super) const TEXT_SOFT: &str = "#555555";
pub(super) const GRID: &str = "#e4e4e4";
pub(super) const AXIS: &str = "#777777";
pub(super) const SHADE: &str = "#f3e3d3";

pub(super) const BLUE: &str = "#0072b2";
pub(super) const SKY: &str = "#56b4e9";
pub(super) const ORANGE: &str = "#e69f00";
pub(super) const VERMILION: &str = "#d55e00";
pub(super) const GREEN: &str = "#009e73";
pub(super) const PURPLE: &str = "#cc79a7";
pub(super) const BLACK: &str = "#000000";

/// What others published; darker than any variant, and never one of them.
pub(super) const PUBLISHED: &str = "#882255";

/// The line of the variant with this number: colours first, then the same ones dashed.
pub(super) fn variant(number: usize) -> Stroke {
    let colour = VARIANTS[number % VARIANTS.len()];
    let dashes = DASHES[number / VARIANTS.len() % DASHES.len()];
    Stroke { dashes, ..Stroke::solid(colour, 2.0) }
}

const VARIANTS: [&str; 7] = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK];
const DASHES: [&str; 3] = ["", "7 3", "2 3"];
