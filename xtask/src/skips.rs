//! What the tests did without, read back and counted.

pub use muster_testkit::{Kind, SKIPS, Skip};

use crate::{root, target_dir};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the tests write it: the value of [`SKIPS`] for whoever starts them.
#[must_use]
pub fn file() -> PathBuf {
    // Tests run in directories of their own, so the path has to be whole.
    root().join(target_dir()).join("test-skips.txt")
}

/// Forgets the skips of earlier runs, which would be counted again otherwise.
pub fn clear() -> Result<()> {
    match std::fs::remove_file(file()) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", file().display()))
        }
        _ => Ok(()),
    }
}

/// Every skip since the last [`clear`], each once: a test that asks twice was skipped once.
#[must_use]
pub fn read() -> Vec<Skip> {
    read_from(&file())
}

fn read_from(file: &Path) -> Vec<Skip> {
    let text = match std::fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => return Vec::new(),
    };
    let all: BTreeSet<Skip> =
        text.lines().map(|l| Skip::parse(l).unwrap_or_else(|| torn(l))).collect();
    all.into_iter().collect()
}

/// A line that nobody understands still stands for something that did not run.
fn torn(line: &str) -> Skip {
    Skip { kind: Kind::Component, test: "unknown".into(), why: line.to_owned() }
}

/// How many of a kind there are.
#[must_use]
pub fn count(skips: &[Skip], kind: Kind) -> usize {
    skips.iter().filter(|s| s.kind == kind).count()
}

/// For people: one line for each, and how many of which kind.
#[must_use]
pub fn report(skips: &[Skip]) -> String {
    let mut text: String = skips.iter().map(|s| format!("{s}\n")).collect();
    let of = |kind| count(skips, kind);
    text += &format!(
        "not run: {} for components that can be installed, {} for what this machine cannot do, \
         {} for data that is not here",
        of(Kind::Component),
        of(Kind::Machine),
        of(Kind::Data)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::TempDir;

    #[test]
    fn skips_are_read_back_once_each_and_counted() {
        let dir = TempDir::in_dir(&std::env::temp_dir(), "skips").unwrap();
        let file = dir.path().join("skips");
        assert!(read_from(&file).is_empty());
        let nft = Skip { kind: Kind::Component, test: "a b".into(), why: "nft is missing".into() };
        let gpu = Skip { kind: Kind::Machine, test: "a c".into(), why: "no GPU".into() };
        let lines = [nft.line(), gpu.line(), nft.line(), "half a li".to_owned()];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let all = read_from(&file);
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all.contains(&nft) && all.contains(&gpu));
        assert_eq!(count(&all, Kind::Component), 2, "a torn line counts");
        let said = report(&all);
        assert!(said.contains("skipped: a c: no GPU (machine)\n"), "{said}");
        assert!(said.ends_with("2 for components that can be installed, 1 for what this machine cannot do, 0 for data that is not here"), "{said}");
    }

    #[test]
    fn the_file_is_the_same_from_every_directory() {
        assert!(file().is_absolute());
    }
}
