//! What requests cost in CPU time, in handlers that share threads (A18): DESIGN §6.10 and §6.11.
//!
//! Every poll of a handler, of its children and of its answer's body is timed and charged to the request's [`Account`];
//! the same wrapper wraps the waker, so that it is known how many of them run or are ready to run. What no poll of ours
//! sees, such as framing and system calls of connections, is left to the [`Remainder`].

mod account;
mod calibrate;
mod factor;
mod ledger;
mod metered;
mod remainder;
#[cfg_attr(
    all(target_os = "linux", target_arch = "x86_64", target_env = "gnu", target_pointer_width = "64"),
    expect(
        unsafe_code,
        reason = "the restartable sequence of a thread is shared with the kernel; argued for in there"
    )
)]
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu", target_pointer_width = "64")),
    path = "no_rseq.rs"
)]
mod rseq;
mod runners;
mod system;
mod task;
mod thread;
mod ticks;

pub use account::Account;
pub use calibrate::{Calibration, calibrate};
pub use factor::Factor;
pub use ledger::Ledger;
pub use metered::Metered;
pub use remainder::{Interval, Remainder};
pub use runners::Runners;
pub use system::{process_time, thread_time};
pub use task::Task;
pub use ticks::{Ticks, cpu_now, source};

pub(crate) use ledger::{on_bytes, on_request};
pub(crate) use metered::{Poller, run_blocking};
