//! From values to pixels: linear or logarithmic, with ticks at numbers that people would choose.
//!
//! Logarithms are `libm`'s, so that a figure is the same bytes on every platform.

use crate::number::{grouped, readable};

/// The least and the most of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Extent {
    /// Of those that are numbers; nothing where none is.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().filter(|value| value.is_finite()).fold(None, |extent: Option<Extent>, value| {
            Some(extent.map_or(Extent { least: value, most: value }, |extent| extent.with(value)))
        })
    }

    /// Widened to this value.
    pub(super) fn with(self, value: f64) -> Self {
        if value.is_finite() { Extent { least: self.least.min(value), most: self.most.max(value) } } else { self }
    }
}

/// How numbers are written beside an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Plain,
    /// Shares of one, as percent.
    Percent,
}

impl Unit {
    /// A number that stands alone, already in this unit.
    pub(super) fn written(self, value: f64) -> String {
        match self {
            Unit::Plain => readable(value),
            Unit::Percent => readable(value) + " %",
        }
    }
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    kind: Kind,
    extent: Extent,
    unit: Unit,
    /// Pixels of the least and the most.
    pixels: (f64, f64),
    ticks: Vec<f64>,
    step: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// Widened to whole steps, about `count` of them.
    pub(super) fn linear(extent: Extent, unit: Unit, count: f64) -> Self {
        let mut scale = Scale::exact(extent, unit, count);
        let (first, last) =
            ((scale.extent.least / scale.step).floor(), (scale.extent.most / scale.step - ROUNDING).ceil());
        scale.extent = Extent { least: first * scale.step, most: last.max(first + 1.0) * scale.step };
        scale.ticks = multiples(scale.extent, scale.step);
        scale
    }

    /// From the first value to the last and no further, as for time.
    pub(super) fn exact(extent: Extent, unit: Unit, count: f64) -> Self {
        let extent = opened(extent);
        let step = nice_step((extent.most - extent.least) / count.max(1.0));
        Scale { kind: Kind::Linear, extent, unit, pixels: (0.0, 1.0), ticks: multiples(extent, step), step }
    }

    /// Decades, and 2 and 5 of each where that makes no more than `count` ticks; values must be above 0, others are drawn
    /// at the least.
    pub(super) fn logarithmic(extent: Extent, unit: Unit, count: f64) -> Self {
        let least = if extent.least > 0.0 { extent.least } else { 1e-9 };
        let most = if extent.most > least { extent.most } else { least * 10.0 };
        let first = libm::floor(libm::log10(least));
        let decades = (libm::ceil(libm::log10(most) - ROUNDING) - first).max(1.0) as i32;
        let every = usize::try_from(decades / 8 + 1).unwrap_or(1);
        let whole = Extent { least: power_of_ten(first), most: power_of_ten(first + f64::from(decades)) };
        let steps = |factors: &'static [f64]| -> Vec<f64> {
            let decades = (0..=decades).step_by(every).map(|decade| power_of_ten(first + f64::from(decade)));
            decades.flat_map(|decade| factors.iter().map(move |factor| factor * decade)).collect()
        };
        // A whole decade of empty space is too much: end at 2 or 5 of it where that is enough.
        let ends = if every == 1 { steps(FACTORS) } else { steps(WHOLE) };
        let below = ends.iter().copied().filter(|end| *end <= least * (1.0 + ROUNDING)).fold(whole.least, f64::max);
        let above = ends.iter().copied().filter(|end| *end >= most * (1.0 - ROUNDING)).fold(whole.most, f64::min);
        let extent = Extent { least: below, most: above };
        let within =
            |ticks: Vec<f64>| -> Vec<f64> { ticks.into_iter().filter(|tick| (below..=above).contains(tick)).collect() };
        let fine = within(steps(FACTORS));
        let ticks = if every == 1 && fine.len() as f64 <= count { fine } else { within(steps(WHOLE)) };
        Scale { kind: Kind::Logarithmic, extent, unit, pixels: (0.0, 1.0), ticks, step: 0.0 }
    }

    /// The same ticks, and room above them up to this value.
    pub(super) fn up_to(mut self, value: f64) -> Self {
        self.extent = self.extent.with(value);
        self
    }

    /// Where the least and the most are drawn.
    pub(super) fn onto(mut self, least: f64, most: f64) -> Self {
        self.pixels = (least, most);
        self
    }

    /// Where a value is drawn; what is beyond the ends is drawn at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let Extent { least, most } = self.extent;
        let share = match self.kind {
            Kind::Linear => (value - least) / (most - least),
            Kind::Logarithmic if value <= least => 0.0,
            Kind::Logarithmic => libm::log10(value / least) / libm::log10(most / least),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Values and what stands beside them.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        self.ticks.iter().map(|&value| (value, self.label(value))).collect()
    }

    fn label(&self, value: f64) -> String {
        let (times, step) = match self.unit {
            Unit::Plain => (1.0, self.step),
            Unit::Percent => (100.0, self.step * 100.0),
        };
        let decimals = match self.kind {
            Kind::Linear => decimals_of(step),
            Kind::Logarithmic => decimals_of(value * times),
        };
        let number = grouped(value * times, decimals);
        if self.unit == Unit::Percent { number + " %" } else { number }
    }
}

/// Something to divide by, even where all values are the same.
fn opened(extent: Extent) -> Extent {
    let Extent { least, most } = extent;
    let limit = |value: f64| value.clamp(-1e15, 1e15);
    let (least, most) = (limit(least), limit(most));
    if most - least > most.abs().max(least.abs()) * 1e-9 {
        Extent { least, most }
    } else if least == 0.0 {
        Extent { least: 0.0, most: 1.0 }
    } else {
        Extent { least: least - least.abs() / 10.0, most: most + most.abs() / 10.0 }
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, and not below.
fn nice_step(rough: f64) -> f64 {
    let rough = if rough.is_finite() && rough > 0.0 { rough } else { 1.0 };
    let power = power_of_ten(libm::floor(libm::log10(rough)));
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= rough * (1.0 - ROUNDING));
    factor.unwrap_or(10.0) * power
}

fn multiples(extent: Extent, step: f64) -> Vec<f64> {
    let first = (extent.least / step - ROUNDING).ceil();
    let count = ((extent.most / step + ROUNDING).floor() - first).clamp(0.0, 50.0) as u32;
    (0..=count).map(|index| (first + f64::from(index)) * step).collect()
}

fn power_of_ten(exponent: f64) -> f64 {
    libm::pow(10.0, exponent)
}

/// How many are needed to tell multiples of this step apart.
fn decimals_of(step: f64) -> usize {
    (0..9)
        .find(|&decimals| {
            let scaled = step * power_of_ten(f64::from(decimals));
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1e-3)
        })
        .map_or(9, |decimals| decimals as usize)
}

const ROUNDING: f64 = 1e-9;
/// Steps of a decade that look about evenly spaced.
const FACTORS: &[f64] = &[1.0, 2.0, 5.0];
const WHOLE: &[f64] = &[1.0];

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_numbers_that_people_would_choose() {
        let of = |least, most| labels(&Scale::linear(Extent { least, most }, Unit::Plain, 5.0));

        assert_eq!(of(0.0, 0.93), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(of(0.0, 12_345.0), ["0", "2,500", "5,000", "7,500", "10,000", "12,500"]);
        assert_eq!(of(7.0, 7.0), ["6.0", "6.5", "7.0", "7.5", "8.0"]);
        assert_eq!(of(-3.0, 3.0), ["-4", "-2", "0", "2", "4"]);
    }

    #[test]
    fn decades_are_written_out() {
        let scale = Scale::logarithmic(Extent { least: 0.000_1, most: 1.0 }, Unit::Percent, 10.0);

        assert_eq!(labels(&scale), ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"]);
        assert_eq!(
            labels(&Scale::logarithmic(Extent { least: 3.0, most: 45.0 }, Unit::Plain, 10.0)),
            ["2", "5", "10", "20", "50"]
        );
    }

    #[test]
    fn a_logarithmic_axis_ends_soon_after_its_values_and_has_few_ticks() {
        let scale = Scale::logarithmic(Extent { least: 0.4, most: 1500.0 }, Unit::Plain, 5.0).onto(0.0, 100.0);

        assert_eq!(labels(&scale), ["1", "10", "100", "1,000"]);
        assert_eq!((scale.place(0.2), scale.place(2000.0)), (0.0, 100.0));
        assert!(scale.place(0.4) > 5.0);
    }

    #[test]
    fn absurd_values_have_a_place_too() {
        for (least, most) in [(0.0, 0.0), (-1.0, -1.0), (1e300, 1e308), (0.0, 5e-324), (-1e308, 1e308)] {
            for scale in [
                Scale::linear(Extent { least, most }, Unit::Plain, 5.0),
                Scale::exact(Extent { least, most }, Unit::Percent, 5.0),
                Scale::logarithmic(Extent { least, most }, Unit::Plain, 5.0),
            ] {
                let scale = scale.onto(10.0, 20.0);
                for value in [least, most, f64::NAN, f64::INFINITY, -1.0] {
                    assert!((10.0..=20.0).contains(&scale.place(value)), "{scale:?} {value}");
                }
                assert!(labels(&scale).len() < 60);
            }
        }
        assert_eq!(Extent::of([f64::NAN]), None);
    }
}
