//! Examples in the documentation of libraries that would be run if anybody ran them. Nobody does:
//! to start rustdoc for every library costs minutes, and a test says the same.

use super::{Finding, files};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Words after the opening fence that leave the block an example in Rust. Any other word (`text`,
/// `yaml`) makes it something to read, and so does `ignore`.
const STILL_RUST: &[&str] =
    &["rust", "no_run", "should_panic", "compile_fail", "test_harness", "standalone_crate"];

/// Those of a package that is a library.
pub(super) fn runnable(dir: &Path) -> Result<Vec<Finding>> {
    if !dir.join("src/lib.rs").is_file() {
        return Ok(Vec::new());
    }
    let root = crate::root();
    let mut findings = Vec::new();
    for file in files::sources(&dir.join("src"))? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        findings.extend(lines(&text).into_iter().map(|line| Finding {
            place: format!("{shown}:{line}"),
            what: "an example in a doc comment that nothing runs".into(),
            why: "write it as a test, or say what it is after the fence: ```text, ```ignore".into(),
        }));
    }
    Ok(findings)
}

/// What stands in a doc comment on this line.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // Four slashes are no documentation.
    let words = line.strip_prefix("///").filter(|rest| !rest.starts_with('/'));
    let words = words.or_else(|| line.strip_prefix("//!"))?;
    Some(words.strip_prefix(' ').unwrap_or(words))
}

/// Where such examples begin, counted from 1.
fn lines(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // The fence of the block that we are in.
    let mut open: Option<String> = None;
    // Four blanks begin an example too, after an empty line and outside of a list.
    let (mut after_empty, mut in_list) = (true, false);
    for (number, line) in text.lines().enumerate() {
        let Some(words) = doc(line) else {
            (open, after_empty, in_list) = (None, true, false);
            continue;
        };
        let trimmed = words.trim();
        if let Some(fence) = &open {
            if trimmed.starts_with(fence.as_str())
                && trimmed.trim_start_matches(&fence[..1]).is_empty()
            {
                open = None;
            }
        } else if let Some(fence) = fence(trimmed) {
            if is_rust(&trimmed[fence.len()..]) {
                found.push(number + 1);
            }
            open = Some(fence.to_string());
        } else if !trimmed.is_empty() {
            let indented = words.starts_with("    ") || words.starts_with('\t');
            if indented && after_empty && !in_list {
                found.push(number + 1);
            }
            if begins_item(trimmed) {
                in_list = true;
            } else if !words.starts_with(' ') {
                in_list = false;
            }
        }
        // One finding for a block: the lines after its first are not after an empty one.
        after_empty = trimmed.is_empty();
    }
    found
}

/// The fence that a line begins with.
fn fence(line: &str) -> Option<&str> {
    ['`', '~'].into_iter().find_map(|mark| {
        let length = line.len() - line.trim_start_matches(mark).len();
        (length >= 3).then(|| &line[..length])
    })
}

fn is_rust(info: &str) -> bool {
    info.split([',', ' ', '\t']).filter(|word| !word.is_empty()).all(|word| {
        STILL_RUST.contains(&word)
            || word.starts_with("edition")
            || word.strip_prefix('E').is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

fn begins_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || (after_number.len() < line.len()
            && (after_number.starts_with(". ") || after_number.starts_with(") ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rustdoc_would_run_is_found_where_it_begins() {
        assert_eq!(lines("/// Adds.\n///\n/// ```\n/// add(1, 2);\n/// ```\nfn add() {}\n"), [3]);
        for kind in ["rust", "no_run", "should_panic", "compile_fail,E0277", "rust,edition2024"] {
            assert_eq!(lines(&format!("//! ```{kind}\n//! x\n//! ```\n")), [1], "{kind}");
        }
        assert_eq!(lines("    /// ~~~~\n    /// x\n    /// ~~~~\n"), [1]);
        assert_eq!(lines("/// Adds.\n///\n///     add(1, 2);\n///     add(2, 3);\n"), [3]);
    }

    #[test]
    fn what_is_only_read_is_fine() {
        for kind in ["text", "yaml", "toml", "ignore", "ignore,rust", "rust,ignore", "sh"] {
            assert_eq!(lines(&format!("/// ```{kind}\n/// x\n///\n///     y\n/// ```\n")), [0; 0]);
        }
        // No documentation, and code that is in no block.
        assert_eq!(lines("// ```\n// x\n// ```\nlet a = \"```\";\n//// ```\n"), [0; 0]);
        // A line that goes on, and an item of a list that does.
        assert_eq!(lines("/// A sentence\n///     that goes on\n"), [0; 0]);
        assert_eq!(
            lines("/// 1. one\n///\n///     more of it\n/// - two\n///\n///     more\n"),
            [0; 0]
        );
    }

    #[test]
    fn the_end_of_one_block_is_not_the_beginning_of_another() {
        assert_eq!(lines("/// ```text\n/// ``` x\n/// ```\n///\n/// ```\n/// y\n/// ```\n"), [5]);
        // A block that is left open ends with its comment.
        assert_eq!(lines("/// ```text\n/// x\nfn f() {}\n/// ```\n/// y\n/// ```\n"), [4]);
    }

    #[test]
    fn only_libraries_have_examples_that_could_be_run() {
        let dir = crate::proc::TempDir::new("layers-test").unwrap();
        let src = dir.sub("src").unwrap();
        fs::write(src.join("main.rs"), "/// ```\n/// x\n/// ```\n").unwrap();
        assert_eq!(runnable(dir.path()).unwrap(), []);
        fs::write(src.join("lib.rs"), "mod main;\n").unwrap();
        assert_eq!(runnable(dir.path()).unwrap().len(), 1);
    }

    #[test]
    fn no_library_of_ours_has_one() {
        for room in ["crates", "bench"] {
            for entry in fs::read_dir(crate::root().join(room)).unwrap() {
                assert_eq!(runnable(&entry.unwrap().path()).unwrap(), []);
            }
        }
    }
}
