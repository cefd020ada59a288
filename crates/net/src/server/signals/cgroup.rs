//! What the system grants this process by its cgroups (B10): CPU quota, time throttled, memory in use and its limit.
//!
//! Version 2, version 1 and both at once, in which case each controller is in one of them. A limit binds everything
//! below it, so parents count too. Reads below a root that is given, and believes nothing: a limit of zero, or one that is
//! no number, is left out with a reason.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cgroups of a process, by controller.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    cpu: Option<Chain>,
    memory: Option<Chain>,
}

/// A cgroup and those above it, its own first.
#[derive(Debug)]
struct Chain {
    version: Version,
    levels: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Limits that hold, and why others are left out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits<T> {
    pub(crate) held: Vec<T>,
    pub(crate) left_out: Vec<String>,
}

/// CPU that a cgroup may use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    pub(crate) processors: f64,
    version: Version,
    level: PathBuf,
}

/// Memory that a cgroup may use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    version: Version,
    level: PathBuf,
}

impl Cgroups {
    /// Those of this process.
    pub(crate) fn own() -> Self {
        match std::fs::read_to_string("/proc/self/cgroup") {
            Ok(membership) => Cgroups::find(&membership, Path::new("/sys/fs/cgroup")),
            Err(_) => Cgroups::default(),
        }
    }

    /// `membership` is what the system says of a process, `root` where cgroups are mounted.
    pub(crate) fn find(membership: &str, root: &Path) -> Self {
        Cgroups { cpu: Chain::find(membership, root, "cpu"), memory: Chain::find(membership, root, "memory") }
    }

    /// Whether anybody knows of CPU quotas: without, there may be one that is not seen.
    pub(crate) fn knows_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Every quota that binds this process.
    pub(crate) fn quotas(&self) -> Limits<Quota> {
        collect(self.cpu.as_ref(), |version, level| {
            let processors = match version {
                Version::Two => quota_of_two(&level.join("cpu.max")),
                Version::One => quota_of_one(&level.join("cpu.cfs_quota_us"), &level.join("cpu.cfs_period_us")),
            };
            let quota = |processors| Quota { processors, version, level: level.to_owned() };
            vec![processors.map(|found| found.map(quota))]
        })
    }

    /// Every limit of memory that binds this process, one for each cgroup: its lower one.
    pub(crate) fn memory_limits(&self) -> Limits<MemoryLimit> {
        let mut limits = collect(self.memory.as_ref(), |version, level| {
            let files: &[&str] = match version {
                // Beyond `high` the cgroup is slowed down until it has given some back: as good as the end.
                Version::Two => &["memory.max", "memory.high"],
                Version::One => &["memory.limit_in_bytes"],
            };
            let limit = |bytes| MemoryLimit { bytes, version, level: level.to_owned() };
            files.iter().map(|file| bytes_limit(&level.join(file)).map(|found| found.map(limit))).collect()
        });
        limits.held.dedup_by(|next, kept| {
            let is_same = next.level == kept.level;
            if is_same {
                kept.bytes = kept.bytes.min(next.bytes);
            }
            is_same
        });
        limits
    }
}

impl Quota {
    /// Time its cgroup was throttled so far, added up over processors.
    pub(crate) fn throttled(&self) -> Result<Duration, String> {
        let file = self.level.join("cpu.stat");
        match self.version {
            Version::Two => field(&file, "throttled_usec").map(Duration::from_micros),
            Version::One => field(&file, "throttled_time").map(Duration::from_nanos),
        }
    }
}

impl MemoryLimit {
    /// Memory its cgroup uses and could not give back at once: without the page cache that nobody used lately, as
    /// Kubernetes has it.
    pub(crate) fn in_use(&self) -> Result<u64, String> {
        let (used, cached) = match self.version {
            Version::Two => ("memory.current", "inactive_file"),
            Version::One => ("memory.usage_in_bytes", "total_inactive_file"),
        };
        let used = number(&self.level.join(used))?;
        // Without it there is still the whole, which is too much rather than too little.
        let cached = field(&self.level.join("memory.stat"), cached).unwrap_or(0);
        Ok(used.saturating_sub(cached))
    }
}

impl Chain {
    fn find(membership: &str, root: &Path, controller: &str) -> Option<Chain> {
        // Where version 2 stands beside version 1, it has a place of its own.
        let second = [root.to_owned(), root.join("unified")].into_iter().find(|mount| {
            let controllers = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|listed| listed == controller)
        });
        if let Some(mount) = second {
            return Some(Chain { version: Version::Two, levels: levels(&mount, path_of(membership, "")) });
        }
        // Distributions mount controllers alone or several at one place, named after all of them.
        let mut mounts: Vec<PathBuf> = std::fs::read_dir(root).ok()?.flatten().map(|entry| entry.path()).collect();
        mounts.sort();
        let mount = mounts.into_iter().find(|mount| {
            let name = mount.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            mount.is_dir() && name.split(',').any(|listed| listed == controller)
        })?;
        Some(Chain { version: Version::One, levels: levels(&mount, path_of(membership, controller)) })
    }
}

/// Where a process is in the hierarchy of a controller; version 2 has none in its name.
fn path_of<'a>(membership: &'a str, controller: &str) -> &'a str {
    let mut paths = membership.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|listed| listed == controller).then_some(path)
    });
    paths.next().unwrap_or("/")
}

/// From the process's own cgroup up to the mount. In a container its path may be one of the host, which is not there:
/// then what is mounted is its own.
fn levels(mount: &Path, path: &str) -> Vec<PathBuf> {
    let path = path.trim_start_matches('/').trim_end_matches(" (deleted)");
    // A path that leads out of the mount is somebody else's.
    let path = if path.split('/').any(|part| part == "..") { "" } else { path };
    let own = mount.join(path);
    own.ancestors()
        .take_while(|level| level.starts_with(mount))
        .filter(|level| level.is_dir())
        .map(Into::into)
        .collect()
}

/// What a limit is: none, a value, or not to be believed.
type Found<T> = Result<Option<T>, String>;

fn collect<T>(chain: Option<&Chain>, read: impl Fn(Version, &Path) -> Vec<Found<T>>) -> Limits<T> {
    let mut limits = Limits { held: Vec::new(), left_out: Vec::new() };
    for level in chain.iter().flat_map(|chain| &chain.levels) {
        for found in chain.map(|chain| read(chain.version, level)).unwrap_or_default() {
            match found {
                Ok(limit) => limits.held.extend(limit),
                Err(reason) => limits.left_out.push(reason),
            }
        }
    }
    limits
}

/// `max 100000` or `150000 100000`. A file that is missing limits nothing: the topmost cgroup has none.
fn quota_of_two(file: &Path) -> Found<f64> {
    let Some(text) = read(file)? else { return Ok(None) };
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("max"), _) => Ok(None),
        (Some(quota), period) => processors(file, quota, period.unwrap_or("100000")),
        (None, _) => Err(format!("{} is empty", file.display())),
    }
}

fn quota_of_one(quota_file: &Path, period_file: &Path) -> Found<f64> {
    let Some(quota) = read(quota_file)? else { return Ok(None) };
    if quota.trim() == "-1" {
        return Ok(None);
    }
    let Some(period) = read(period_file)? else { return Err(format!("{} is missing", period_file.display())) };
    processors(quota_file, &quota, &period)
}

fn processors(file: &Path, quota: &str, period: &str) -> Found<f64> {
    let parse = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    let share = parse(quota).zip(parse(period)).map(|(quota, period)| quota / period);
    let possible = share.filter(|share| (PROCESSORS_LEAST..=PROCESSORS_MOST).contains(share));
    let said = || format!("{} says {} of {}, which is no quota", file.display(), shown(quota), shown(period));
    possible.map(Some).ok_or_else(said)
}

fn bytes_limit(file: &Path) -> Found<u64> {
    let Some(text) = read(file)? else { return Ok(None) };
    if matches!(text.trim(), "max" | "-1") {
        return Ok(None);
    }
    match text.trim().parse::<u64>() {
        Ok(0) | Err(_) => Err(format!("{} says {}, which is no limit", file.display(), shown(&text))),
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| *bytes < UNLIMITED)),
    }
}

/// Nothing where there is no such file.
fn read(file: &Path) -> Found<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", file.display())),
    }
}

fn number(file: &Path) -> Result<u64, String> {
    let text = read(file)?.ok_or_else(|| format!("{} is missing", file.display()))?;
    text.trim().parse().map_err(|_| format!("{} says {}, which is no number", file.display(), shown(&text)))
}

/// A line `name 123` of a file.
fn field(file: &Path, name: &str) -> Result<u64, String> {
    let text = read(file)?.ok_or_else(|| format!("{} is missing", file.display()))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
    value.ok_or_else(|| format!("{} does not say {name}", file.display()))
}

/// Enough of it to recognise.
fn shown(text: &str) -> String {
    format!("{:?}", text.trim().chars().take(40).collect::<String>())
}

/// Version 1 says "unlimited" as the largest number of whole pages; nobody has an exabyte.
const UNLIMITED: u64 = 1 << 60;
/// The system refuses quotas below 1 ms in a period of at most 1 s.
const PROCESSORS_LEAST: f64 = 0.001;
/// More than any machine has.
const PROCESSORS_MOST: f64 = 65_536.0;

#[cfg(test)]
mod tests;
