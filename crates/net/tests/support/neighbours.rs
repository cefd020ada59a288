//! Processes that want every processor for themselves.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Child, Command, Stdio};

/// They end with this, or by themselves after a minute or so, should the test be killed.
pub(crate) struct Neighbours(Vec<Child>);

impl Neighbours {
    pub(crate) fn start(count: usize) -> Self {
        let start = || Command::new("sh").args(["-c", COUNT]).stdin(Stdio::null()).spawn().unwrap();
        Neighbours(std::iter::repeat_with(start).take(count).collect())
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already cannot be killed.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

const COUNT: &str = "i=0; while [ $i -lt 20000000 ]; do i=$((i+1)); done";
