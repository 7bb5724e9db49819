//! Circles between the modules of a crate. What goes in a circle can only be read, moved and
//! changed together.
//!
//! Looks at paths as they are written, without tests: a call of a method on a type that others
//! extend is not seen. A module and those inside it are one thing here.

use super::source::blank_out;
use super::{Finding, files};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

/// Crates whose modules form circles still, mostly because several give methods to one type. All
/// others form none.
const LEFT: &[&str] = &["scheduler", "sim", "top"];
/// Re-exports of re-exports that are followed.
const PATIENCE: usize = 8;

/// The names on the way to a module or to something in it; none for the crate itself.
type Names = Vec<String>;

#[derive(Clone)]
struct Token {
    line: usize,
    text: String,
}

/// What a module's code says of the crate it is in.
struct Source {
    file: String,
    /// What it names, and on which line.
    named: Vec<(usize, Names)>,
    /// What it imports, by the name it has then: whoever names that means the other.
    imports: BTreeMap<String, Names>,
}

/// One module uses another.
struct ModuleUse {
    from: Names,
    to: Names,
    place: String,
}

/// What goes in circles in all crates but those that are left, and what is left without need.
pub(super) fn between_modules(root: &Path) -> Result<Vec<Finding>> {
    let crates = root.join("crates");
    let mut names = Vec::new();
    let listed =
        fs::read_dir(&crates).with_context(|| format!("cannot read {}", crates.display()))?;
    for entry in listed {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut findings = Vec::new();
    for name in &names {
        let src = crates.join(name).join("src");
        if !src.is_dir() {
            continue;
        }
        let found = circles(&arrows(&read(root, &src)?));
        if !LEFT.contains(&name.as_str()) {
            findings.extend(found);
        } else if found.is_empty() {
            findings.push(Finding {
                place: format!("crates/{name}"),
                what: "its modules form no cycles any more".into(),
                why: "take it off the list `LEFT`, so that it stays so".into(),
            });
        }
    }
    Ok(findings)
}

/// Reads all modules of a crate but those of tests.
fn read(root: &Path, src: &Path) -> Result<BTreeMap<Names, Source>> {
    let mut code: BTreeMap<Names, (String, Vec<Token>)> = BTreeMap::new();
    let mut of_tests: BTreeSet<Names> = BTreeSet::new();
    for file in files::sources(src)? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let module = module_of(file.strip_prefix(src).unwrap_or(&file));
        let (tokens, tests) = without_tests(&tokens(&text));
        of_tests.extend(tests.into_iter().map(|t| [module.as_slice(), &[t]].concat()));
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        code.insert(module, (shown, tokens));
    }
    let tested = |m: &Names| (1..=m.len()).any(|n| of_tests.contains(&m[..n]));
    code.retain(|m, _| !tested(m));
    let mut sources = BTreeMap::new();
    for (module, (file, tokens)) in &code {
        let mut source = Source { file: file.clone(), named: Vec::new(), imports: BTreeMap::new() };
        for (line, import, path) in paths(tokens) {
            let Some(whole) = from_root(module, &path, |m| code.contains_key(m)) else { continue };
            if let Some(name) = path.last().filter(|_| import) {
                source.imports.insert(name.clone(), whole.clone());
            }
            source.named.push((line, whole));
        }
        sources.insert(module.clone(), source);
    }
    Ok(sources)
}

/// The module of a file, by its path below `src`.
fn module_of(file: &Path) -> Names {
    let mut names: Names =
        file.with_extension("").iter().map(|n| n.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|n| matches!(n.as_str(), "lib" | "main" | "mod")) {
        names.pop();
    }
    names
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Words and signs; `::` is one.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = blank_out(text).chars().collect();
    let (mut out, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let word = |c: &&char| c.is_alphanumeric() || **c == '_';
        let length = match chars[i] {
            ':' if chars.get(i + 1) == Some(&':') => 2,
            _ => chars[i..].iter().take_while(word).count().max(1),
        };
        if chars[i] == '\n' {
            line += 1;
        } else if !chars[i].is_whitespace() {
            out.push(Token { line, text: chars[i..i + length].iter().collect() });
        }
        i += length;
    }
    out
}

/// The code without what is behind `#[cfg(test)]`, and the modules in files of their own that are.
fn without_tests(all: &[Token]) -> (Vec<Token>, Vec<String>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut tests, mut i) = (Vec::new(), Vec::new(), 0);
    while i < all.len() {
        if all[i..].iter().take(MARK.len()).map(|t| t.text.as_str()).eq(MARK) {
            let end = end_of_item(all, i + MARK.len());
            if let [.., word, name, last] = &all[i..end]
                && (word.text.as_str(), last.text.as_str()) == ("mod", ";")
            {
                tests.push(name.text.clone());
            }
            i = end;
        } else {
            kept.push(all[i].clone());
            i += 1;
        }
    }
    (kept, tests)
}

/// Where the item that begins here ends: behind its `;`, or the `}` that closes its first `{`.
fn end_of_item(all: &[Token], from: usize) -> usize {
    let mut depth = 0_i32;
    for (i, token) in all.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            ";" => {}
            _ => continue,
        }
        if depth <= 0 {
            return i + 1;
        }
    }
    all.len()
}

/// Every path: its line, whether it is imported, its names. Those in braces are spelled out.
fn paths(all: &[Token]) -> Vec<(usize, bool, Names)> {
    let text = |i: usize| all.get(i).map_or("", |t| t.text.as_str());
    let (mut out, mut i) = (Vec::new(), 0);
    while i < all.len() {
        let before = i.checked_sub(1).map_or("", text);
        let import = before == "use";
        let begins = is_word(text(i)) && !matches!(before, "::" | ".");
        if begins && (import || text(i + 1) == "::") {
            let mut found = Vec::new();
            let end = tree(all, i, &[], &mut found);
            out.extend(found.into_iter().map(|path| (all[i].line, import, path)));
            i = end.max(i + 1);
        } else {
            i += 1;
        }
    }
    out
}

/// Reads the path that begins at `i`, or all of a tree of them; says where it ends.
fn tree(all: &[Token], mut i: usize, before: &[String], out: &mut Vec<Names>) -> usize {
    let mut path = before.to_vec();
    loop {
        let text = all.get(i).map_or("", |t| t.text.as_str());
        if text == "{" {
            i += 1;
            while let Some(token) = all.get(i) {
                match token.text.as_str() {
                    "}" => return i + 1,
                    "," => i += 1,
                    "as" => i += 2,
                    _ => i = tree(all, i, &path, out).max(i + 1),
                }
            }
            return i;
        }
        if !is_word(text) {
            // All of it, or the arguments of a generic.
            out.push(path);
            return i + usize::from(text == "*");
        }
        path.push(text.to_owned());
        i += 1;
        if all.get(i).is_none_or(|t| t.text != "::") {
            out.push(path);
            return i;
        }
        i += 1;
    }
}

/// A path as it is from the crate's root; none for what is of another crate, or local.
fn from_root(
    module: &[String],
    path: &[String],
    is_module: impl Fn(&[String]) -> bool,
) -> Option<Names> {
    let above = path.iter().take_while(|n| *n == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (&module[..module.len().checked_sub(above)?], &path[above..]),
        child if is_module(&[module, &[child.to_owned()]].concat()) => (module, path),
        _ => return None,
    };
    Some(base.iter().chain(rest.iter().filter(|n| *n != "self")).cloned().collect())
}

/// The module in which something is, wherever it was named.
fn home(sources: &BTreeMap<Names, Source>, path: &[String], patience: usize) -> Names {
    let known = |n: &usize| sources.contains_key(&path[..*n]);
    let depth = (0..=path.len()).rev().find(known).unwrap_or(0);
    let module = &path[..depth];
    let import = path.get(depth).and_then(|name| sources.get(module)?.imports.get(name));
    match import {
        Some(other) if patience > 0 && other[..] != path[..=depth] => {
            home(sources, &[&other[..], &path[depth + 1..]].concat(), patience - 1)
        }
        _ => module.to_vec(),
    }
}

fn arrows(sources: &BTreeMap<Names, Source>) -> Vec<ModuleUse> {
    let mut out = Vec::new();
    for (from, source) in sources {
        for (line, path) in &source.named {
            let to = home(sources, path, PATIENCE);
            if to != *from {
                let place = format!("{}:{line}", source.file);
                out.push(ModuleUse { from: from.clone(), to, place });
            }
        }
    }
    out
}

/// Every arrow between two modules of one folder whose end leads back to its beginning.
fn circles(arrows: &[ModuleUse]) -> Vec<Finding> {
    let ends = arrows.iter().flat_map(|a| [&a.from, &a.to]);
    let folders: BTreeSet<&[String]> =
        ends.filter_map(|m| m.split_last().map(|(_, folder)| folder)).collect();
    let mut findings = Vec::new();
    for folder in folders {
        let mut between: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for arrow in arrows {
            let inside = |m: &Names| m.strip_prefix(folder).is_some_and(|rest| !rest.is_empty());
            if inside(&arrow.from) && inside(&arrow.to) {
                let pair = (arrow.from[folder.len()].as_str(), arrow.to[folder.len()].as_str());
                if pair.0 != pair.1 {
                    between.entry(pair).or_insert(&arrow.place);
                }
            }
        }
        for (&(from, to), place) in &between {
            if let Some(back) = way(&between, to, from) {
                findings.push(Finding {
                    place: (*place).to_owned(),
                    what: format!("a circle of modules: {from} -> {}", back.join(" -> ")),
                    why: "move what both need below them, or a function to who calls it".into(),
                });
            }
        }
    }
    findings
}

/// The shortest way along the arrows.
fn way<'a>(
    between: &BTreeMap<(&'a str, &'a str), &str>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut todo = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(so_far) = todo.pop_front() {
        let last = *so_far.last()?;
        if last == to {
            return Some(so_far);
        }
        for (_, next) in between.keys().filter(|(a, _)| *a == last) {
            if seen.insert(*next) {
                todo.push_back(so_far.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let dir = crate::proc::TempDir::new("circles-test").unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let sources = read(dir.path(), dir.path()).unwrap();
        let all = circles(&arrows(&sources));
        all.iter().map(|f| format!("{} {}", f.place, f.what)).collect()
    }

    #[test]
    fn two_modules_that_name_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "\nuse crate::{c, b::{B, self}};"),
            ("b.rs", "fn f() { super::a::g(); }"),
            ("c.rs", "use std::fmt;"),
        ];
        let circle =
            ["a.rs:2 a circle of modules: a -> b -> a", "b.rs:1 a circle of modules: b -> a -> b"];
        assert_eq!(found(&files), circle);
    }

    #[test]
    fn a_longer_way_back_is_reported_whole() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "mod deep;"),
            ("a/deep.rs", "use crate::b;"),
            ("b.rs", "use crate::c::x as y;"),
            ("c.rs", "fn f(a: &crate::a::deep::T) {}"),
        ];
        assert_eq!(found(&files)[0], "a/deep.rs:1 a circle of modules: a -> b -> c -> a");
    }

    #[test]
    fn what_is_exported_elsewhere_belongs_to_the_module_that_makes_it() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(found(&files).len(), 2);
    }

    #[test]
    fn modules_of_one_folder_are_looked_at_too() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod x; mod y;"),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "use super::x::X;"),
        ];
        assert_eq!(found(&files).len(), 2);
    }

    #[test]
    fn parents_tests_comments_and_strings_make_no_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; pub struct Root;"),
            ("a.rs", "mod x; use crate::{Root, b::B}; use x::X;\n#[cfg(test)]\nmod tests;"),
            ("a/x.rs", "use super::A;"),
            ("a/tests.rs", "use crate::b;"),
            (
                "b.rs",
                "use crate::Root; // crate::a\n#[cfg(test)]\nmod t { use crate::a::A; }\nfn f() { \"crate::a\" }",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn this_workspace_has_none() {
        let all = between_modules(&crate::root()).unwrap();
        assert!(all.is_empty(), "{}", all.iter().map(|f| format!("{f}\n")).collect::<String>());
    }
}
