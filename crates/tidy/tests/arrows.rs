//! Who may depend on whom: arrows point down, core stands on nothing, the simulator never sees the network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_tidy::{Finding, assert_none, tree};
use toml::{Table, Value};

#[test]
fn arrows_between_packages_point_down() {
    let root = tree::root();
    let workspace = manifest(&root.join("Cargo.toml"));
    let renames = renames(&workspace);
    let packages = members(&root, &workspace);
    assert!(!packages.is_empty(), "the workspace has packages");

    let findings: Vec<Finding> = packages
        .iter()
        .flat_map(|path| {
            let file = path.strip_prefix(&root).expect("a member is below the root");
            check(&manifest(path), &renames).into_iter().map(|what| Finding::new(file, 1, what))
        })
        .collect();

    assert_none("packages depend only on what ARROWS in crates/tidy/tests/arrows.rs allows", &findings);
}

/// What is wrong with one package's dependencies, as sentences.
fn check(package: &Table, renames: &BTreeMap<String, String>) -> Vec<String> {
    let name = package["package"]["name"].as_str().expect("a package has a name");
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![format!("unknown package {name}: add its row to ARROWS in crates/tidy/tests/arrows.rs")];
    };
    let mut wrong = Vec::new();
    for dependency in dependencies(package, renames) {
        let to = dependency.name.as_str();
        if is_ours(to) && !allowed.contains(&to) {
            wrong.push(format!("{name} may not depend on {to} (in {})", dependency.table));
        }
        if NO_NETWORK.contains(&name) && NETWORK.iter().any(|family| is_of_family(to, family)) {
            wrong.push(format!("{name} has no network, so it may not depend on {to} (in {})", dependency.table));
        }
        if name == CORE && !dependency.is_dev && !CORE_MAY.contains(&(dependency.table.as_str(), to)) {
            wrong.push(format!("{CORE} depends on nothing, so not on {to} (in {})", dependency.table));
        }
    }
    wrong
}

struct Dependency {
    /// The package's name, whatever it is called here.
    name: String,
    /// The table it stands in, such as `dependencies` or `target.cfg(loom).dependencies`.
    table: String,
    is_dev: bool,
}

fn dependencies(package: &Table, renames: &BTreeMap<String, String>) -> Vec<Dependency> {
    let mut tables = vec![(String::new(), package)];
    for (target, table) in package.get("target").and_then(Value::as_table).into_iter().flatten() {
        tables.push((format!("target.{target}."), table.as_table().expect("a target is a table")));
    }
    let mut found = Vec::new();
    for (prefix, table) in tables {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (key, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                found.push(Dependency {
                    name: renamed(value).or_else(|| renames.get(key).cloned()).unwrap_or_else(|| key.clone()),
                    table: format!("{prefix}{kind}"),
                    is_dev: kind == "dev-dependencies",
                });
            }
        }
    }
    found
}

/// `short = { package = "long" }` means the package `long`.
fn renamed(value: &Value) -> Option<String> {
    value.get("package").and_then(Value::as_str).map(str::to_owned)
}

/// The renames of `[workspace.dependencies]`, which members inherit.
fn renames(workspace: &Table) -> BTreeMap<String, String> {
    let shared = workspace["workspace"].get("dependencies").and_then(Value::as_table);
    shared.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), renamed(value)?))).collect()
}

/// The manifests of all members; a pattern may end in `/*`.
fn members(root: &Path, workspace: &Table) -> Vec<PathBuf> {
    let patterns = workspace["workspace"]["members"].as_array().expect("the workspace lists its members");
    let mut found = Vec::new();
    for pattern in patterns {
        let pattern = pattern.as_str().expect("a member is a path");
        if let Some(folder) = pattern.strip_suffix("/*") {
            for entry in fs::read_dir(root.join(folder)).expect("the folder of members can be listed") {
                found.push(entry.expect("a member's folder can be read").path().join("Cargo.toml"));
            }
        } else {
            found.push(root.join(pattern).join("Cargo.toml"));
        }
    }
    found.retain(|path| path.is_file());
    found.sort();
    found
}

fn manifest(path: &Path) -> Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{} is not TOML: {error}", path.display()))
}

fn is_ours(name: &str) -> bool {
    is_of_family(name, "evenkeel")
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

const CORE: &str = "evenkeel-core";

/// Each package and those of ours it may depend on. A new package gets a row here.
const ARROWS: &[(&str, &[&str])] = &[
    (CORE, &[]),
    ("evenkeel", &[CORE]),
    ("evenkeel-sim", &[CORE]),
    ("evenkeel-proxy", &["evenkeel", CORE]),
    ("evenkeel-coordinator", &["evenkeel", CORE]),
    ("evenkeel-cli", &["evenkeel-proxy", "evenkeel-coordinator", "evenkeel-sim", "evenkeel", CORE]),
    // Compares the defaults of every library with their table.
    ("evenkeel-tidy", &["evenkeel-cli", "evenkeel", CORE]),
];

/// Core's only dependencies that are no development dependencies: the model checker, in its own build.
const CORE_MAY: &[(&str, &str)] = &[("target.cfg(loom).dependencies", "loom")];

/// Packages that hold or drive decisions without a network.
const NO_NETWORK: &[&str] = &[CORE, "evenkeel-sim"];

/// The network's families of crates: `hyper` also means `hyper-util`.
const NETWORK: &[&str] = &["tokio", "http", "tonic", "hyper"];

fn check_sample(text: &str) -> Vec<String> {
    let renames = BTreeMap::from([("engine".to_owned(), "evenkeel".to_owned())]);
    check(&text.parse().expect("the sample is TOML"), &renames)
}

#[test]
fn an_unknown_package_is_told_where_to_go() {
    let wrong = check_sample("[package]\nname = \"evenkeel-extra\"");

    let row = "unknown package evenkeel-extra: add its row to ARROWS in crates/tidy/tests/arrows.rs";
    assert_eq!(wrong, [row]);
}

#[test]
fn an_arrow_that_points_up_or_sideways_is_found() {
    let up = check_sample("[package]\nname = \"evenkeel\"\n[dependencies]\nevenkeel-cli = { workspace = true }");
    let sideways = check_sample("[package]\nname = \"evenkeel-sim\"\n[dev-dependencies]\nevenkeel = \"0.1\"");

    assert_eq!(up, ["evenkeel may not depend on evenkeel-cli (in dependencies)"]);
    assert_eq!(sideways, ["evenkeel-sim may not depend on evenkeel (in dev-dependencies)"]);
}

#[test]
fn a_rename_does_not_hide_an_arrow() {
    let own = check_sample(
        "[package]\nname = \"evenkeel-sim\"\n[dependencies]\nnet = { package = \"evenkeel\", path = \"../net\" }",
    );
    let inherited = check_sample("[package]\nname = \"evenkeel-sim\"\n[dependencies]\nengine = { workspace = true }");

    assert_eq!(own, ["evenkeel-sim may not depend on evenkeel (in dependencies)"]);
    assert_eq!(inherited, own);
}

#[test]
fn core_may_have_nothing_but_loom_in_its_own_build() {
    let sample = "[package]\nname = \"evenkeel-core\"\n[dependencies]\nserde = { version = \"1\", optional = true }\n\
                  [target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n[dev-dependencies]\nproptest = \"1\"\n\
                  [target.'cfg(unix)'.dependencies]\nloom = \"0.7\"";

    let wrong = check_sample(sample);

    let expected = [
        "evenkeel-core depends on nothing, so not on serde (in dependencies)",
        "evenkeel-core depends on nothing, so not on loom (in target.cfg(unix).dependencies)",
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn the_network_stays_out_of_the_simulator_even_in_its_tests() {
    let sample = "[package]\nname = \"evenkeel-sim\"\n[dependencies]\nevenkeel-core = \"0.1\"\nhyper-util = \"0.1\"\n\
                  httparse = \"1\"\n[dev-dependencies]\ntokio = \"1\"";

    let wrong = check_sample(sample);

    let expected = [
        "evenkeel-sim has no network, so it may not depend on hyper-util (in dependencies)",
        "evenkeel-sim has no network, so it may not depend on tokio (in dev-dependencies)",
    ];
    assert_eq!(wrong, expected);
}
