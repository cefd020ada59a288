//! What admission costs: the decisions alone in ns, and a whole server in µs of CPU for each call it serves or refuses.

mod gate;
mod served;

pub use gate::{FULL, QUICK, aims, subjects};
pub use served::{Row, figures, rows};
