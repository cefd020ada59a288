//! Memory in use over memory there is (B10): of a limit the program gave, else of the cgroups, else of the machine.

use std::path::Path;

use super::cgroup::MemoryLimit;

/// Against what memory is counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Bytes of this process.
    Process(u64),
    /// Every cgroup with a limit; the fullest counts, since whichever is full first ends the process.
    Cgroups(Vec<MemoryLimit>),
}

impl Bound {
    /// Limits above what the machine has limit nothing.
    pub(crate) fn choose(given: Option<u64>, limits: Vec<MemoryLimit>, machine: Option<u64>) -> Option<Bound> {
        if let Some(bytes) = given {
            return Some(Bound::Process(bytes));
        }
        let binding = |limit: &MemoryLimit| machine.is_none_or(|machine| limit.bytes < machine);
        let binding: Vec<_> = limits.into_iter().filter(binding).collect();
        if binding.is_empty() { machine.map(Bound::Process) } else { Some(Bound::Cgroups(binding)) }
    }

    /// In use over limit now, or why that cannot be said.
    pub(crate) fn in_use(&self) -> Result<f64, String> {
        match self {
            Bound::Process(bytes) => share(resident()?, *bytes),
            Bound::Cgroups(limits) => {
                let shares = limits.iter().map(|limit| share(limit.in_use()?, limit.bytes));
                shares.reduce(fullest).unwrap_or_else(|| Err("nothing limits memory".to_owned()))
            }
        }
    }
}

/// One that can be read counts also if another cannot.
fn fullest(one: Result<f64, String>, other: Result<f64, String>) -> Result<f64, String> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.max(other)),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
        (Err(reason), Err(_)) => Err(reason),
    }
}

fn share(used: u64, limit: u64) -> Result<f64, String> {
    if limit == 0 {
        return Err("its limit is zero".to_owned());
    }
    let share = used as f64 / limit as f64;
    // Nobody can have meant it: believing that, a task would refuse nearly everything for ever.
    if share > BELIEVED_MOST { Err(format!("{used} bytes are in use of a limit of {limit}")) } else { Ok(share) }
}

/// Times its limit that a process can use: more than a leak, or a soft limit, ever comes to.
const BELIEVED_MOST: f64 = 100.0;

/// Memory of the machine.
pub(crate) fn of_machine() -> Option<u64> {
    total(&std::fs::read_to_string(Path::new("/proc/meminfo")).ok()?)
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024).filter(|bytes| *bytes > 0)
}

/// Memory this process has in the machine.
#[cfg(target_os = "linux")]
fn resident() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|error| format!("/proc/self/statm: {error}"))?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let bytes = pages.and_then(|pages| pages.checked_mul(rustix::param::page_size() as u64));
    bytes.ok_or_else(|| "/proc/self/statm says nothing of memory in use".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn resident() -> Result<u64, String> {
    Err("this system does not say how much memory a process uses".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::Cgroups;
    use super::*;

    fn limits(fixture: &str) -> Vec<MemoryLimit> {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cgroup").join(fixture);
        let membership = std::fs::read_to_string(tree.join("membership")).unwrap();
        Cgroups::find(&membership, &tree.join("sys")).memory_limits().held
    }

    #[test]
    fn what_the_program_gave_comes_first_then_cgroups_then_the_machine() {
        let (v1, machine) = (limits("v1"), Some(16 << 30));

        assert_eq!(Bound::choose(Some(5), v1.clone(), machine), Some(Bound::Process(5)));
        assert_eq!(Bound::choose(None, v1.clone(), machine), Some(Bound::Cgroups(v1.clone())));
        assert_eq!(Bound::choose(None, v1, Some(1 << 20)), Some(Bound::Process(1 << 20)), "more than there is");
        assert_eq!(Bound::choose(None, limits("v1_unlimited"), machine), Some(Bound::Process(16 << 30)));
        assert_eq!(Bound::choose(None, vec![], None), None);
    }

    #[test]
    fn the_fullest_of_all_cgroups_counts() {
        // 512 of 768 MB, and 2 of 8 GB above.
        let Ok(in_use) = Bound::Cgroups(limits("v2_nested")).in_use() else { panic!("can be read") };
        assert!((in_use - 2.0 / 3.0).abs() < 1e-9, "{in_use}");

        assert_eq!(Bound::Cgroups(limits("v1")).in_use(), Ok(0.5));
    }

    #[test]
    fn a_limit_of_zero_or_files_that_are_gone_have_a_reason() {
        assert_eq!(Bound::Process(0).in_use(), Err("its limit is zero".to_owned()));
        let too_small = Bound::Process(1).in_use().unwrap_err();
        assert!(too_small.ends_with("bytes are in use of a limit of 1"), "{too_small}");
        assert!(Bound::Cgroups(limits("broken_v2")).in_use().is_err(), "no memory.current");
        assert!(Bound::Cgroups(vec![]).in_use().is_err());
        assert_eq!(fullest(Err(String::new()), Ok(0.5)), Ok(0.5));
    }

    #[test]
    fn machines_say_how_much_they_have() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        for nonsense in ["", "MemTotal: 0 kB", "MemTotal: many kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(total(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_uses_some_of_this_machine() {
        let bound = Bound::choose(None, vec![], of_machine()).unwrap();

        let share = bound.in_use().unwrap();

        assert!(share > 0.0 && share < 1.0, "{share}");
    }
}
