//! Small files of the kernel.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest file that is read; the kernel's are far shorter, and a wrong path may lead anywhere.
const LONGEST: u64 = 1 << 20;
/// Most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 4096;

/// The text of a file; none when it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The text without white space around it; none when it is empty.
pub(super) fn word(path: &Path) -> Option<String> {
    let text = text(path)?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

/// The whole number that a file holds.
pub(super) fn number(path: &Path) -> Option<u64> {
    word(path)?.parse().ok()
}

/// Names in a directory, sorted; none when it cannot be read.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.take(MOST_ENTRIES).filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}
