//! Length of files, and lints that every package inherits or that a pure one has of its own.

use super::{Finding, graph::Member};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Longer than this fails.
const LONGEST: usize = 800;
/// Longer than this is asking to be two.
const LONG: usize = 500;
/// Directories that hold what people write.
const ROOMS: &[&str] = &["crates", "xtask", "bench"];

/// A package that does not take over the workspace's lints.
pub(super) fn lints_not_inherited(package: &Member) -> Result<Option<Finding>> {
    let manifest = package.dir.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    let table: toml::Table =
        toml::from_str(&text).with_context(|| format!("cannot parse {}", manifest.display()))?;
    Ok((!inherits_lints(&table)).then(|| Finding {
        place: format!("{}/Cargo.toml", package.name),
        what: "does not inherit the workspace's lints".into(),
        why: "add `[lints]` with `workspace = true`: one set of rules for all crates".into(),
    }))
}

fn inherits_lints(manifest: &toml::Table) -> bool {
    manifest
        .get("lints")
        .and_then(|l| l.get("workspace"))
        .and_then(toml::Value::as_bool)
        .unwrap_or(false)
}

/// Clippy's rules for pure crates, from the root.
const PURITY: &str = ".config/clippy-pure.toml";

/// A pure crate that Clippy does not hold to the rules of pure crates: it reads the `clippy.toml`
/// nearest to the package, and no other.
pub(super) fn purity_not_linted(root: &Path, dir: &Path) -> Result<Option<Finding>> {
    let rules =
        fs::read_to_string(root.join(PURITY)).with_context(|| format!("cannot read {PURITY}"))?;
    let own = dir.join("clippy.toml");
    let linted = fs::read_to_string(&own).is_ok_and(|text| text == rules);
    Ok((!linted).then(|| Finding {
        place: own.strip_prefix(root).unwrap_or(&own).display().to_string(),
        what: format!("is not {PURITY}"),
        why: format!("Clippy keeps pure crates pure: ln -s ../../{PURITY} clippy.toml"),
    }))
}

/// Source files that are too long, and those that soon will be.
pub(super) fn long_files(root: &Path) -> Result<(Vec<Finding>, Vec<String>)> {
    let (mut too_long, mut long) = (Vec::new(), Vec::new());
    for room in ROOMS {
        for file in sources(&root.join(room))? {
            let lines = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?
                .lines()
                .count();
            let place = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            if lines > LONGEST {
                too_long.push(Finding {
                    place,
                    what: format!("{lines} lines"),
                    why: format!("no file is longer than {LONGEST}: make it two rooms"),
                });
            } else if lines > LONG {
                long.push(format!("{place}: {lines} lines, asking to be two rooms"));
            }
        }
    }
    Ok((too_long, long))
}

/// All `.rs` files below a directory, sorted; none when it is not there.
pub(super) fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|n| n != "target") {
                    todo.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_inherited_in_either_spelling_and_not_by_half() {
        let inherits = |text: &str| inherits_lints(&toml::from_str(text).unwrap());
        assert!(inherits("[lints]\nworkspace = true"));
        assert!(inherits("lints.workspace = true"));
        assert!(!inherits("[lints]\nworkspace = false"));
        assert!(!inherits("[lints.rust]\nunsafe_code = \"deny\""));
        assert!(!inherits("[package]\nname = \"x\""));
    }

    #[test]
    fn a_pure_crate_has_the_rules_of_pure_crates_and_no_others() {
        let dir = crate::proc::TempDir::new("layers-test").unwrap();
        let own = dir.sub("crates/x").unwrap();
        let rules = dir.sub(".config").unwrap().join("clippy-pure.toml");
        fs::write(&rules, "disallowed-types = []\n").unwrap();
        let found = purity_not_linted(dir.path(), &own).unwrap().unwrap();
        assert_eq!(found.place, "crates/x/clippy.toml");
        std::os::unix::fs::symlink("../../.config/clippy-pure.toml", own.join("clippy.toml"))
            .unwrap();
        assert_eq!(purity_not_linted(dir.path(), &own).unwrap(), None);
        fs::remove_file(own.join("clippy.toml")).unwrap();
        fs::write(own.join("clippy.toml"), "msrv = \"1.95\"\n").unwrap();
        assert!(purity_not_linted(dir.path(), &own).unwrap().is_some());
    }

    #[test]
    fn a_file_may_have_800_lines_and_no_more() {
        let dir = crate::proc::TempDir::new("layers-test").unwrap();
        let src = dir.sub("crates/x/src").unwrap();
        fs::write(src.join("fine.rs"), "\n".repeat(500)).unwrap();
        fs::write(src.join("long.rs"), "\n".repeat(800)).unwrap();
        fs::write(src.join("too_long.rs"), "\n".repeat(801)).unwrap();
        let (too_long, long) = long_files(dir.path()).unwrap();
        assert_eq!(too_long.len(), 1);
        assert!(too_long[0].place.ends_with("too_long.rs"));
        assert_eq!(long.len(), 1);
        assert!(long[0].contains("long.rs: 800"));
    }
}
