//! The files of the tree: what is there, without what was built.
//!
//! The folder is walked instead of asking git, so that the rules hold in an unpacked archive and for files that are
//! not committed yet. Links are not followed.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The root of the tree: two folders above this package.
///
/// # Panics
/// When the package was built in a folder that is gone.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("this package is at crates/tidy").to_path_buf()
}

/// Every file of the tree, relative to its root, in order of path.
pub fn files() -> Vec<PathBuf> {
    files_under(&root())
}

/// Every `.rs` file of the tree, relative to its root, in order of path.
pub fn rust_files() -> Vec<PathBuf> {
    files().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Every file below `root`, relative to it, in order of path.
///
/// # Panics
/// When a folder below `root` cannot be read.
pub fn files_under(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).expect("a folder of the tree can be listed");
        for entry in entries {
            let entry = entry.expect("an entry of the tree can be read");
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().expect("an entry of the tree has a type");
            if kind.is_dir() && !is_skipped(&path) {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text of a file of the tree; `None` if it is not UTF-8, as pictures are not.
///
/// # Panics
/// When the file cannot be read.
pub fn text(file: &Path) -> Option<String> {
    let path = root().join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    String::from_utf8(bytes).ok()
}

/// The text of a file of the tree if it is there; a path that leads out of the tree is not.
pub fn text_if_there(file: &Path) -> Option<String> {
    let is_inside = file.components().all(|part| matches!(part, Component::Normal(_)));
    if is_inside && root().join(file).is_file() { text(file) } else { None }
}

/// Folders that hold no source: what git keeps for itself, and what `.gitignore` names.
fn is_skipped(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let at_root = folder.components().count() == 1;
    name == ".git" || name == "target" || (at_root && (name.starts_with("target") || name == "out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_this_file_and_no_built_one() {
        let files = files();

        assert!(files.contains(&PathBuf::from("crates/tidy/src/tree.rs")));
        assert!(files.iter().all(|file| file.components().all(|part| part.as_os_str() != "target")));
    }

    #[test]
    fn only_built_folders_are_skipped() {
        assert!(is_skipped(Path::new("target")));
        assert!(is_skipped(Path::new("target-model")));
        assert!(is_skipped(Path::new("bench/target")));
        assert!(is_skipped(Path::new(".git")));
        assert!(!is_skipped(Path::new("crates/sim/src/targets")));
        assert!(!is_skipped(Path::new(".ci")));
    }
}
