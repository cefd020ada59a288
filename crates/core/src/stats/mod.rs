//! Numbers over time, without any policy in them.

mod ewma;
mod spread;
mod window;

pub use ewma::{DecayingMean, Rate, decay};
pub use spread::Spread;
pub use window::Window;
