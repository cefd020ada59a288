//! What the world is made of that no decision of core touches: chance, demand and machines.

mod alias;
mod arrivals;
mod central;
mod draw;
mod machines;
mod rhythm;

pub use arrivals::{Arrival, Arrivals, Requests, draw_request};
pub use central::Central;
pub use draw::{exponential, standard_normal};
pub use machines::machines;
