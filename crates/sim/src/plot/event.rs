//! What goes wrong or is changed while a run is drawn: shaded while it lasts, a line and its name where it begins.

use super::colour;
use super::panel::Panel;
use super::scale::{Extent, Scale};
use super::svg::{Anchor, Stroke, Svg, Type};
use crate::scenario::{FaultKind, Scenario};

/// One fault or change, in seconds from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    from: f64,
    until: Option<f64>,
    label: String,
}

impl Event {
    /// Those of a run that are seen in this time, first ones first.
    pub(super) fn all(scenario: &Scenario, time: Extent) -> Vec<Event> {
        let mut faults: Vec<_> = scenario.faults.iter().collect();
        faults.sort_by_key(|fault| fault.at);
        let mut policy = scenario.policy.as_str();
        let mut events = Vec::new();
        for fault in faults {
            let from = fault.at.seconds();
            let label = match &fault.kind {
                FaultKind::Policy { policy: next } => format!("{} → {next}", std::mem::replace(&mut policy, next)),
                FaultKind::Resize { change } => format!("resize {change}"),
                kind => kind.name().replace('_', " "),
            };
            events.push(Event { from, until: fault.lasts.map(|lasts| from + lasts.seconds()), label });
        }
        // A window's load is drawn at its end: the first one shows what began with it.
        let begin = time.least - scenario.window.seconds();
        events.retain(|event| event.from <= time.most && event.until.unwrap_or(event.from) >= begin);
        events
    }

    /// Whether it is shaded, which a legend has to say.
    pub(super) fn lasts(&self) -> bool {
        self.until.is_some()
    }
}

/// The times in which something lasts; drawn before everything else.
pub(super) fn shade(svg: &mut Svg, panel: &Panel, events: &[Event]) {
    for event in events {
        if let Some(until) = event.until {
            let left = panel.x.place(event.from);
            svg.rect((left, panel.area.top), panel.x.place(until) - left, panel.area.height, colour::SHADE);
        }
    }
}

/// A line where each begins, and its name at the top where there is room; drawn after the values.
pub(super) fn name(svg: &mut Svg, panel: &Panel, events: &[Event]) {
    let (top, right) = (panel.area.top, panel.area.right());
    let mut taken = [f64::NEG_INFINITY; ROWS];
    for event in events {
        let x = panel.x.place(event.from);
        svg.line((x, top), (x, panel.area.bottom()), &LINE);
        let width = LABEL.width(&event.label);
        let is_left = x + AWAY + width > right;
        let begin = if is_left { x - AWAY - width } else { x + AWAY };
        let free = taken.iter().position(|end| *end <= begin).filter(|_| begin >= panel.area.left);
        if let Some(row) = free {
            taken[row] = begin + width + AWAY;
            let (at, anchor) = if is_left { (x - AWAY, Anchor::End) } else { (x + AWAY, Anchor::Start) };
            svg.text((at, top + 13.0 + 15.0 * row as f64), &event.label, &LABEL.anchored(anchor));
        }
    }
}

/// The axis of values, with room above them for names.
pub(super) fn with_room(y: Scale, values: Extent, events: &[Event]) -> Scale {
    if events.is_empty() { y } else { y.up_to(values.most + (values.most - values.least) * ROOM) }
}

const LINE: Stroke = Stroke::solid(colour::TEXT_SOFT, 1.0);
const LABEL: Type = Type::SMALL.coloured(colour::TEXT).rimmed();
/// From a line to its name.
const AWAY: f64 = 4.0;
const ROWS: usize = 3;
/// In shares of the values' height.
const ROOM: f64 = 0.08;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_named_in_order_and_a_policy_by_the_one_before() {
        let text = "policy = \"round_robin\"\nduration = \"2m\"\n\
            [[fault]]\nkind = \"kill\"\nat = \"50s\"\nlasts = \"5s\"\n\
            [[fault]]\nkind = \"hang\"\nat = \"115s\"\n\
            [[fault]]\nkind = \"lame_duck\"\nat = \"2s\"\nlasts = \"30s\"\n\
            [[fault]]\nkind = \"slow\"\nspeed = 0.5\nat = \"2s\"\nlasts = \"3s\"\n\
            [[fault]]\nkind = \"policy\"\nat = \"40s\"\npolicy = \"p2c\"\n\
            [[fault]]\nkind = \"policy\"\nat = \"30s\"\npolicy = \"least_loaded\"\n";
        let scenario = Scenario::parse(text).unwrap();

        let events = Event::all(&scenario, Extent { least: 10.0, most: 100.0 });

        let labels: Vec<&str> = events.iter().map(|event| event.label.as_str()).collect();
        assert_eq!(labels, ["lame duck", "round_robin → least_loaded", "least_loaded → p2c", "kill"]);
        assert_eq!(events.iter().map(Event::lasts).collect::<Vec<_>>(), [true, false, false, true]);
    }
}
