//! How fast evenkeel decides, calls and simulates, and what idle backends cost, beside its peers. One binary a bench; `./bench --list` at the root
//! names them.

pub mod admit;
pub mod clock;
pub mod decide;
pub mod figure;
pub mod idle;
pub mod meter;
pub mod overload;
pub mod policies;
pub mod process;
pub mod report;
pub mod rounds;
pub mod rpc;
pub mod sim;
pub mod subset;
