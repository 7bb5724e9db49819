//! `cargo xtask words`: every text that people read, in one list, and the banned words among them.
//! The rules are the tables of `docs/words.md`, which people read too.

mod plain;
mod rust;
mod table;
mod typescript;

use crate::root;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use table::Table;

/// What `cargo xtask words` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Print every text, file by file, instead of the banned words.
    #[arg(long)]
    list: bool,
}

/// The page with the rules.
const RULES: &str = "docs/words.md";
/// Directories with texts for people.
const PLACES: &[&str] = &[
    "bench/faultgen/src",
    "bench/src",
    "crates",
    "docs",
    "examples",
    "python",
    "scenarios",
    "web/src",
    "xtask/src",
];
/// Single files with texts for people.
const FILES: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "bench/README.md",
    "web/index.html",
];
/// Crates that only tests use.
const FOR_TESTS: &[&str] = &["crates/testkit/", "crates/guard/"];

/// Prose, or a name that programs use too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Name,
}

/// Something that people read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    line: usize,
    kind: Kind,
    text: String,
}

impl Piece {
    fn text(line: usize, text: impl Into<String>) -> Piece {
        Piece { line, kind: Kind::Text, text: text.into() }
    }

    fn name(line: usize, text: impl Into<String>) -> Piece {
        Piece { line, kind: Kind::Name, text: text.into() }
    }
}

/// A file with its pieces.
#[derive(Debug)]
struct Page {
    path: String,
    pieces: Vec<Piece>,
}

/// Lists, or checks.
pub fn run(options: &Options) -> Result<ExitCode> {
    let pages = pages(&root())?;
    let pieces: usize = pages.iter().map(|p| p.pieces.len()).sum();
    if options.list {
        print!("{}", listing(&pages));
        eprintln!("{pieces} texts and names in {} files", pages.len());
        return Ok(ExitCode::SUCCESS);
    }
    let found = findings(&root(), &pages)?;
    for line in &found {
        println!("{line}");
    }
    eprintln!("{pieces} texts and names, {} banned words; the rules are in {RULES}", found.len());
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn findings(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let rules = fs::read_to_string(root.join(RULES))
        .with_context(|| format!("cannot read {RULES}, which has the rules"))?;
    let table = Table::read(&rules).with_context(|| format!("in {RULES}"))?;
    let mut found = Vec::new();
    for page in pages {
        for piece in &page.pieces {
            for hit in table.find(&piece.text, piece.kind) {
                let before = piece.text.get(..hit.from).unwrap_or_default();
                let line = piece.line + before.matches('\n').count();
                let (word, text) = (one_line(&hit.word), one_line(&piece.text));
                found.push(format!(
                    "{}:{line}: '{word}' -> write '{}': {text}",
                    page.path, hit.write
                ));
            }
        }
    }
    Ok(found)
}

/// Every page, in order of the paths.
fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut paths: BTreeSet<String> = FILES.iter().map(|f| (*f).to_owned()).collect();
    for place in PLACES {
        below(root, place, &mut paths)?;
    }
    let mut pages = Vec::new();
    for path in paths {
        let Some(read) = reader(&path) else { continue };
        let text =
            fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        let mut pieces: Vec<Piece> = read(&path, &text).into_iter().filter_map(sorted).collect();
        let mut seen = BTreeSet::new();
        // Names repeat on nearly every line of a description of an API.
        pieces.retain(|p| p.kind == Kind::Text || seen.insert(p.text.clone()));
        pages.push(Page { path, pieces });
    }
    Ok(pages)
}

/// The files below a directory, as paths from the root.
fn below(root: &Path, place: &str, paths: &mut BTreeSet<String>) -> Result<()> {
    let dir = root.join(place);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{place}/{name}");
        if name.starts_with('.') || name == "node_modules" || name == "target" {
            continue;
        }
        if entry.file_type().with_context(|| format!("cannot read {path}"))?.is_dir() {
            below(root, &path, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

type Reader = fn(&str, &str) -> Vec<Piece>;

/// How a file is read; none for files without texts for people.
fn reader(path: &str) -> Option<Reader> {
    let ends = |ending: &str| path.ends_with(ending);
    let own = path.starts_with("xtask/src/words");
    if path == RULES || own || FOR_TESTS.iter().any(|dir| path.starts_with(dir)) {
        return None;
    }
    if ends(".md") {
        return (!path.starts_with("crates/")).then_some(plain::markdown as Reader);
    }
    if ends(".rs") {
        let inside = !path.starts_with("crates/") || path.split('/').nth(2) == Some("src");
        return (inside && !is_test(path)).then_some(rust::read as Reader);
    }
    if path.starts_with("web/src/") {
        let source = (ends(".ts") || ends(".tsx")) && !ends(".d.ts") && !path.contains(".test.");
        return source.then_some(typescript::read as Reader);
    }
    if path == "crates/http/openapi.json" {
        return Some(plain::openapi);
    }
    if path == "crates/sim/src/report/tip.js" || path == "crates/console/assets/ui/app.js" {
        return Some(typescript::read);
    }
    if ends(".html") {
        return Some(plain::html);
    }
    let shipped = ["crates/health/data/", "crates/sim/src/demo/", "crates/gpu/data/expect.toml"];
    let shown = ["examples/", "python/", "scenarios/"];
    let known = [".toml", ".psv", ".yaml", ".py", ".sh"].iter().any(|e| ends(e));
    let read = shipped.iter().chain(&shown).any(|at| path.starts_with(at));
    (known && read).then_some(plain::lines as Reader)
}

fn is_test(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    let named = ["test.rs", "tests.rs"].contains(&file)
        || file.ends_with("_test.rs")
        || file.ends_with("_tests.rs")
        || file.starts_with("testing");
    named || parts.any(|dir| dir == "test" || dir == "tests" || dir.starts_with("testing"))
}

/// A text that is one word of the kind that programs use is a name; what has no letters is nothing.
fn sorted(mut piece: Piece) -> Option<Piece> {
    let mut pairs = piece.text.as_bytes().windows(2);
    if !pairs.any(|two| two.iter().all(u8::is_ascii_alphabetic)) {
        return None;
    }
    let of_a_name =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_./{}:?&=<>[]$*-".contains(c);
    if piece.text.chars().all(of_a_name) {
        piece.kind = Kind::Name;
    }
    Some(piece)
}

/// For one sitting: each text once in a file, the names of a file in one line.
fn listing(pages: &[Page]) -> String {
    let mut out = String::new();
    for page in pages.iter().filter(|p| !p.pieces.is_empty()) {
        out += &format!("{}\n", page.path);
        let mut seen = BTreeSet::new();
        for piece in page.pieces.iter().filter(|p| p.kind == Kind::Text) {
            let text = one_line(&piece.text);
            if seen.insert(text.clone()) {
                out += &format!("{:>6}  {text}\n", piece.line);
            }
        }
        let names: Vec<&str> =
            page.pieces.iter().filter(|p| p.kind == Kind::Name).map(|p| p.text.as_str()).collect();
        if !names.is_empty() {
            out += &format!(" names  {}\n", names.join(", "));
        }
        out.push('\n');
    }
    out
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_that_people_read_has_a_banned_word() {
        let found = findings(&root(), &pages(&root()).unwrap()).unwrap();
        assert!(found.is_empty(), "{} banned words:\n{}", found.len(), found.join("\n"));
    }

    #[test]
    fn product_code_documents_and_pages_are_read_and_tests_are_not() {
        let read = |path: &str| reader(path).is_some();
        for path in [
            "bench/src/main.rs",
            "crates/cli/src/cmd/slo.rs",
            "crates/health/data/xids.psv",
            "crates/http/openapi.json",
            "docs/runbooks/hang.md",
            "examples/train-toy.yaml",
            "web/index.html",
            "web/src/pages/node.tsx",
            "xtask/src/bench.rs",
        ] {
            assert!(read(path), "{path}");
        }
        for path in [
            "crates/http/src/tests/health.rs",
            "crates/slo/src/decide_tests.rs",
            "crates/cli/tests/it.rs",
            "crates/testkit/src/lib.rs",
            "crates/specs/tests/sbatch/03-array-sweep.yaml",
            "web/src/words.test.ts",
            "web/src/api/schema.d.ts",
            "xtask/src/words/table.rs",
            RULES,
        ] {
            assert!(!read(path), "{path}");
        }
    }

    #[test]
    fn a_list_has_each_text_once_and_names_in_one_line() {
        let pieces = [
            Piece::text(1, "Two\nlines"),
            Piece::text(2, "job_ended"),
            Piece::text(3, "Two lines"),
            Piece::text(4, "node"),
            Piece::text(5, "= 1"),
        ];
        let pieces = pieces.into_iter().filter_map(sorted).collect();
        let pages = [Page { path: "a.rs".into(), pieces }];
        assert_eq!(listing(&pages), "a.rs\n     1  Two lines\n names  job_ended, node\n\n");
    }
}
