//! What the world is made of that no decision of core touches: chance, demand and machines.

mod alias;
mod arrivals;
mod central;
mod draw;
mod machine;
mod machines;
mod rhythm;

pub use arrivals::{Arrival, Arrivals, Requests};
pub(crate) use central::Central;
pub use draw::{exponential, standard_normal};
pub(crate) use machine::{Job, Machine};
pub use machines::machines;
