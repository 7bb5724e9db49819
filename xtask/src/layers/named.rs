//! Files that the documents for whoever changes Muster name, and that are not there.

use super::Finding;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The documents.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];
/// What a name ends with that is a file, also without a directory before it.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".json"];
/// Directories without anything that people write.
const MADE: &[&str] = &[".git", "target", "node_modules", "dist"];
/// What programs write when they run; a `/` at the end stands for all that is in there.
const WRITTEN: &[&str] = &["target/", "DATA_DIR/", "shim.json"];

/// Names of files and directories in the documents that nothing has.
pub(super) fn missing(root: &Path) -> Result<Vec<Finding>> {
    let mut there = BTreeSet::new();
    collect(root, root, &mut there)?;
    let mut findings = Vec::new();
    for document in DOCUMENTS {
        let text =
            fs::read_to_string(root.join(document)).with_context(|| format!("no {document}"))?;
        for (line, name) in named(&text) {
            if !exists(&there, name) {
                findings.push(Finding {
                    place: format!("{document}:{line}"),
                    what: format!("names `{name}`, which is not there"),
                    why: "whoever follows it finds nothing: name the file that has it now".into(),
                });
            }
        }
    }
    Ok(findings)
}

/// Everything below a directory, as it is written from the root.
fn collect(root: &Path, dir: &Path, there: &mut BTreeSet<String>) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        // What tools write meanwhile goes again before it is looked at.
        Err(e) if e.kind() == ErrorKind::NotFound && dir != root => return Ok(()),
        read => read.with_context(|| format!("cannot read {}", dir.display()))?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if let Ok(name) = path.strip_prefix(root) {
            there.insert(name.display().to_string());
        }
        let made = MADE.iter().any(|m| entry.file_name() == *m);
        // What a link leads to is somewhere else.
        if !made && entry.file_type()?.is_dir() {
            collect(root, &path, there)?;
        }
    }
    Ok(())
}

/// Names of files and directories in a text with their lines: those in code, and where links lead. Blocks
/// of code have commands and pictures.
fn named(text: &str) -> Vec<(usize, &str)> {
    let (mut out, mut block) = (Vec::new(), false);
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if !block {
            let code = line.split('`').skip(1).step_by(2).filter(|name| is_file(name));
            let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let links = links.filter_map(|to| to.split('#').next());
            let links = links.filter(|to| !to.is_empty() && !to.contains(':'));
            out.extend(code.chain(links).map(|name| (n + 1, name)));
        }
    }
    out
}

fn is_file(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is = |w: &&str| if w.ends_with('/') { name.starts_with(*w) } else { name == *w };
    let written = WRITTEN.iter().any(is);
    // Of the machine, or of the API.
    let elsewhere = name.starts_with('/');
    let file = name.contains('/') || ENDINGS.iter().any(|e| name.ends_with(e));
    file && !written && !elsewhere && name.chars().all(plain)
}

/// Is there a file or a directory of this name? The directories before it may be left out, and so may `.rs`
/// and, after a crate, `src`.
fn exists(there: &BTreeSet<String>, name: &str) -> bool {
    let name = name.trim_end_matches('/');
    let ends = |path: &str, with: &str| {
        path.strip_suffix(with).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let in_crate = name.split_once('/').map(|(c, rest)| format!("crates/{c}/src/{rest}"));
    there.iter().any(|path| {
        let module = path.strip_suffix(".rs").unwrap_or(path);
        ends(path, name)
            || ends(module, name)
            || in_crate.as_ref().is_some_and(|full| path == full || module == full)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_documents_name_is_there() {
        assert_eq!(missing(&crate::root()).unwrap(), []);
    }

    #[test]
    fn names_are_those_of_files_and_where_links_lead() {
        let text = "see `engine/src/tick.rs`, `tick`, `/v1/jobs`, `a b/c.rs`,\n\
            ```\n`no/such.rs`\n```\n[more](docs/x.md#part), [site](https://x/y), `target/debug`";
        assert_eq!(named(text), [(1, "engine/src/tick.rs"), (5, "docs/x.md")]);
    }

    #[test]
    fn a_name_that_nothing_has_is_found() {
        let dir = crate::proc::TempDir::new("layers-test").unwrap();
        let src = dir.sub("crates/x/src/room").unwrap();
        fs::write(src.join("own.rs"), "").unwrap();
        fs::write(dir.path().join("CONTRIBUTING.md"), "`crates/x`, `asked.rs`").unwrap();
        let named = "`own.rs`, `x/src/room/`, `room/own`, `x/room`,\n`wn.rs`, `x/gone.rs`";
        fs::write(dir.path().join("ARCHITECTURE.md"), named).unwrap();
        let found = missing(dir.path()).unwrap();
        let found: Vec<_> = found.iter().map(|f| (f.place.as_str(), f.what.as_str())).collect();
        assert_eq!(
            found,
            [
                ("ARCHITECTURE.md:2", "names `wn.rs`, which is not there"),
                ("ARCHITECTURE.md:2", "names `x/gone.rs`, which is not there"),
                ("CONTRIBUTING.md:1", "names `asked.rs`, which is not there"),
            ]
        );
    }
}
