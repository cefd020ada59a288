//! The worlds that are measured: requests of 10 ms of CPU, exponential, subsets of 20, nothing goes wrong.

/// Simulated seconds of each world.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub plain: f64,
    pub large: f64,
    pub huge: f64,
    pub seeds: f64,
}

pub const FULL: Scale = Scale { plain: 20.0, large: 5.0, huge: 5.0, seeds: 5.0 };
/// A smoke run.
pub const QUICK: Scale = Scale { plain: 1.0, large: 0.5, huge: 0.5, seeds: 0.5 };

/// 100 clients of 100 backends with 8 cores each, 70 % busy.
pub fn plain(policy: &str, seconds: f64) -> String {
    world(policy, seconds, "count = 100\nload = 0.7", "count = 100\ncores = 8")
}

/// 100,000 requests per second over 1,000 backends of 2 cores.
pub fn large(seconds: f64) -> String {
    world("least_loaded", seconds, "count = 1000\nrate = 100000.0", "count = 1000\ncores = 2")
}

/// As many requests over 10,000 backends.
pub fn huge(seconds: f64) -> String {
    world("least_loaded", seconds, "count = 10000\nrate = 100000.0", "count = 10000\ncores = 2")
}

fn world(policy: &str, seconds: f64, clients: &str, backends: &str) -> String {
    let duration = format!("{}us", (seconds * 1e6).round());
    // A run shorter than a second has no window of one.
    let window = if seconds < 1.0 { duration.as_str() } else { "1s" };
    format!(
        r#"
duration = "{duration}"
settle = "0s"
window = "{window}"
policy = "{policy}"
[subset]
size = 20
[clients]
{clients}
[backends]
{backends}
[[method]]
cpu = {{ kind = "exponential", mean = "10ms" }}
"#
    )
}
