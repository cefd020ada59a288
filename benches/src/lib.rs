//! How fast evenkeel decides, calls and simulates, beside its peers. One binary a bench; `./bench --list` at the root
//! names them.

pub mod clock;
pub mod decide;
pub mod report;
pub mod rounds;
pub mod rpc;
pub mod sim;
pub mod subset;
