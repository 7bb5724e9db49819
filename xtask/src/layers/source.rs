//! Looks through the sources of a pure crate for what it must not touch.

use super::{Finding, files, rules};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Scans a crate's `src`, its tests left out.
pub(super) fn scan_crate(dir: &Path) -> Result<Vec<Finding>> {
    let root = crate::root();
    let mut of_tests = BTreeSet::new();
    let mut texts = Vec::new();
    for file in files::sources(&dir.join("src"))? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let code = without_tests(&blank_out(&text));
        for module in &code.test_modules {
            let home = module_dir(&file);
            of_tests.insert(home.join(format!("{module}.rs")));
            of_tests.insert(home.join(module));
        }
        texts.push((file, code.text));
    }
    let mut findings = Vec::new();
    for (file, code) in texts {
        if file.ancestors().any(|a| of_tests.contains(a)) {
            continue;
        }
        let shown = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        findings.extend(scan(&shown, &code));
    }
    Ok(findings)
}

/// Where the child modules of a file live.
fn module_dir(file: &Path) -> PathBuf {
    let parent = file.parent().unwrap_or(file);
    match file.file_stem().and_then(|s| s.to_str()) {
        Some("lib" | "main" | "mod") | None => parent.to_path_buf(),
        Some(stem) => parent.join(stem),
    }
}

/// Comments, strings and characters become blanks; lines and columns stay.
pub(crate) fn blank_out(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let blank = |out: &mut String, from: usize, to: usize| {
        for c in &chars[from..to.min(chars.len())] {
            out.push(if *c == '\n' { '\n' } else { ' ' });
        }
    };
    while i < chars.len() {
        let end = match (chars[i], at(i + 1)) {
            ('/', '/') => Some((i..chars.len()).find(|j| chars[*j] == '\n').unwrap_or(chars.len())),
            ('/', '*') => Some(end_of_comment(&chars, i)),
            ('"', _) => Some(end_of_string(&chars, i + 1)),
            ('r', '"' | '#') if !follows_word(&chars, i) => end_of_raw_string(&chars, i + 1),
            ('b' | 'c', 'r') if !follows_word(&chars, i) => end_of_raw_string(&chars, i + 2),
            ('\'', '\\') => Some(
                (i + 3..chars.len()).find(|j| chars[*j] == '\'').map_or(chars.len(), |j| j + 1),
            ),
            // A character, not a lifetime.
            ('\'', _) if at(i + 2) == '\'' => Some(i + 3),
            _ => None,
        };
        match end {
            Some(end) => {
                blank(&mut out, i, end);
                i = end;
            }
            None => {
                out.push(chars[i]);
                i += 1;
            }
        }
    }
    out
}

fn follows_word(chars: &[char], i: usize) -> bool {
    i > 0 && is_word(chars[i - 1])
}

fn end_of_comment(chars: &[char], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                i += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut i = from;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `from` is just after the `r`; none when it is a raw identifier and no string.
fn end_of_raw_string(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    if chars.get(from + hashes) != Some(&'"') {
        return None;
    }
    let mut i = from + hashes + 1;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

struct Code {
    text: String,
    /// Modules in files of their own that only tests have.
    test_modules: Vec<String>,
}

/// Blanks the items behind `#[cfg(test)]`.
fn without_tests(blanked: &str) -> Code {
    const MARK: &str = "#[cfg(test)]";
    let mut text = blanked.to_string();
    let mut test_modules = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(MARK).map(|p| p + from) {
        let item = start + MARK.len();
        let end = end_of_item(&text, item);
        let words: Vec<&str> = text[item..end].split_whitespace().collect();
        if let Some(place) = words.iter().position(|w| *w == "mod")
            && let Some(name) = words.get(place + 1).and_then(|w| w.strip_suffix(';'))
        {
            test_modules.push(name.to_string());
        }
        let blank: String =
            text[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        let length = blank.len();
        text.replace_range(start..end, &blank);
        from = start + length;
    }
    Code { text, test_modules }
}

/// The end of the item that begins here: its `;`, or the `}` that closes its first `{`.
fn end_of_item(text: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (i, c) in text[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return from + i + 1;
                }
            }
            ';' if depth == 0 => return from + i + 1,
            _ => {}
        }
    }
    text.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Looks for forbidden paths and words in code without comments, strings and tests.
fn scan(place: &str, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |offset: usize, what: String, why: &str| {
        let line = code[..offset].matches('\n').count() + 1;
        findings.push(Finding {
            place: format!("{place}:{line}"),
            what,
            why: format!("a pure crate must not touch this: {why}"),
        });
    };
    for (offset, path) in paths(code) {
        if let Some(why) = rules::forbidden_path(&path) {
            found(offset, format!("`{path}`"), why);
        }
    }
    for (word, why) in rules::FORBIDDEN_WORDS {
        for (offset, _) in code.match_indices(word) {
            let before = code[..offset].chars().next_back();
            let after = code[offset + word.len()..].chars().next();
            // `eprintln!` contains `println!`, `FxHashMap` is another type.
            if !before.is_some_and(is_word) && (word.ends_with('!') || !after.is_some_and(is_word))
            {
                found(offset, format!("`{word}`"), why);
            }
        }
    }
    findings
}

/// All paths from `std` (or `core`, `alloc`), those in braces spelled out.
fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (offset, _) in code.match_indices("std") {
        let before = code[..offset].chars().next_back();
        let rest = &code[offset + 3..];
        if before.is_some_and(is_word) || !rest.trim_start().starts_with("::") {
            continue;
        }
        let mut expanded = Vec::new();
        let compact: String = tree(rest);
        expand("std", &compact, &mut expanded);
        found.extend(expanded.into_iter().map(|path| (offset, path)));
    }
    found
}

/// The rest of a path or use tree, blanks removed (` as name` cut off).
fn tree(rest: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => break,
            ':' | '*' | ',' => {}
            c if is_word(c) => {}
            c if c.is_whitespace() => {
                // Outside braces, a blank between two words ends the path.
                let next = chars.peek().copied();
                if depth == 0 && out.ends_with(is_word) && next != Some(':') {
                    break;
                }
                if depth > 0 && out.ends_with(is_word) && next.is_some_and(is_word) {
                    out.push(' ');
                }
                continue;
            }
            _ => break,
        }
        out.push(c);
        if c == '}' && depth == 0 {
            break;
        }
    }
    out
}

fn expand(prefix: &str, rest: &str, out: &mut Vec<String>) {
    let rest = rest.strip_prefix("::").unwrap_or(rest);
    if let Some(inner) = rest.strip_prefix('{') {
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let (mut depth, mut start) = (0, 0);
        for (i, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let branch = inner[start..i].trim();
                    if branch == "self" {
                        out.push(prefix.to_string());
                    } else if !branch.is_empty() {
                        expand(prefix, branch, out);
                    }
                    start = i + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let rest = rest.split(' ').next().unwrap_or(rest);
    match rest.split_once("::") {
        Some((head, tail)) if !tail.is_empty() => expand(&format!("{prefix}::{head}"), tail, out),
        Some((head, _)) => out.push(format!("{prefix}::{head}")),
        None if rest.is_empty() || rest == "*" => out.push(prefix.to_string()),
        None => out.push(format!("{prefix}::{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let code = without_tests(&blank_out(text));
        scan("a.rs", &code.text)
            .into_iter()
            .map(|f| format!("{} {}", f.place.trim_start_matches("a.rs:"), f.what))
            .collect()
    }

    #[test]
    fn a_clock_is_found_however_it_is_imported() {
        assert_eq!(findings("use std::time::Instant;"), ["1 `std::time::Instant`"]);
        assert_eq!(
            findings("\nuse std::{fmt, time::{Duration, SystemTime as Now}};"),
            ["2 `std::time::SystemTime`"]
        );
        assert_eq!(findings("let t = std::time::Instant::now();").len(), 1);
        assert_eq!(findings("use std::time;"), ["1 `std::time`"]);
        assert_eq!(findings("use std::time::{self, Duration};"), ["1 `std::time`"]);
        assert_eq!(findings("use std::time::*;"), ["1 `std::time`"]);
    }

    #[test]
    fn a_length_of_time_is_fine() {
        assert_eq!(findings("use std::time::Duration;\nfn f(d: std::time::Duration) {}"), [""; 0]);
    }

    #[test]
    fn files_network_environment_processes_and_threads_are_found() {
        for root in ["fs", "net", "env", "process", "thread"] {
            assert_eq!(findings(&format!("use std::{root}::x;")), [format!("1 `std::{root}::x`")]);
        }
        assert_eq!(findings("let a = std :: fs :: read(p)?;").len(), 1);
    }

    #[test]
    fn unordered_maps_output_and_unsafe_are_found_as_whole_words() {
        assert_eq!(findings("let m: HashMap<u8, u8> = HashMap::new();").len(), 2);
        assert_eq!(findings("struct MyHashMapLike; fn unsafely() {}"), [""; 0]);
        assert_eq!(findings("eprintln!(\"x\");"), ["1 `eprintln!`"]);
        assert_eq!(findings("unsafe { f() }"), ["1 `unsafe`"]);
    }

    #[test]
    fn comments_strings_and_characters_do_not_count() {
        let text = r##"
            // std::fs and HashMap
            /* unsafe /* std::net */ println!() */
            /// std::env
            let a = "std::process \" unsafe";
            let b = r#"HashMap " unsafe"#;
            let c = ('"', '\'', '\u{22}');
            let d: &'static str = b"unsafe";
        "##;
        assert_eq!(findings(text), [""; 0]);
        assert_eq!(findings("let c = '\"'; unsafe {} let d = '\"';"), ["1 `unsafe`"]);
    }

    #[test]
    fn tests_may_do_what_they_like_and_the_code_after_them_may_not() {
        let text = "#[cfg(test)]\nmod tests {\n use std::fs;\n fn f() { { } }\n}\nuse std::net;\n\
                    #[cfg(test)]\nmod more;\n";
        assert_eq!(findings(text), ["6 `std::net`"]);
        assert_eq!(without_tests(&blank_out(text)).test_modules, ["more"]);
    }

    #[test]
    fn a_module_of_tests_in_its_own_file_is_left_out() {
        let dir = crate::proc::TempDir::new("layers-test").unwrap();
        let src = dir.sub("src/room").unwrap();
        fs::write(dir.path().join("src/lib.rs"), "mod room;").unwrap();
        fs::write(dir.path().join("src/room.rs"), "#[cfg(test)]\nmod checks;").unwrap();
        fs::write(src.join("checks.rs"), "use std::fs;").unwrap();
        assert_eq!(scan_crate(dir.path()).unwrap(), []);
        fs::write(dir.path().join("src/room.rs"), "mod checks;").unwrap();
        assert_eq!(scan_crate(dir.path()).unwrap().len(), 1);
    }
}
