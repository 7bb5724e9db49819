//! Which tests are properties: they hold for random cases, and so for fresh ones.

use crate::layers::source::blank_out;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Properties that are not written with `proptest!`.
const OTHERS: &[&str] = &["random_batches_are_read_back_equal"];

/// A filter of nextest that matches them all.
pub(super) fn filter(crates: &Path) -> Result<String> {
    let mut names: BTreeSet<String> = OTHERS.iter().map(ToString::to_string).collect();
    let mut todo = vec![crates.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                names.extend(properties(&text));
            }
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    Ok(format!("test(/(^|::)({})$/)", names.join("|")))
}

/// The functions of a file's `proptest!` blocks.
fn properties(text: &str) -> Vec<String> {
    if !text.contains("proptest!") {
        return Vec::new();
    }
    let code = blank_out(text);
    let mut found = Vec::new();
    for block in code.split("proptest!").skip(1).filter(|b| b.trim_start().starts_with('{')) {
        let mut depth = 0_u32;
        let mut word = String::new();
        let mut after_fn = false;
        for c in block.chars() {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            // A function inside of another is none of the block's.
            if after_fn && !word.is_empty() {
                found.push(word.clone());
            }
            after_fn = (after_fn && word.is_empty()) || (word == "fn" && depth == 1);
            word.clear();
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => break,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_a_block_are_found_and_no_others() {
        let text = r##"
            fn before() {}
            // proptest! { fn comment() {} }
            proptest! {
                #![proptest_config(ProptestConfig::with_cases(24))]
                /// It holds. }
                #[test]
                fn holds(x in 0..9u32, s in "[a-z}]{3}") {
                    fn inner() {}
                    prop_assert!(x < 9, "{x}");
                }
                #[test]
                fn  holds_too((a, b) in pair()) { if a { b } }
            }
            fn between() {}
            proptest! { #[test] fn third(x in any::<u8>()) {} }
            fn after() {}
        "##;
        assert_eq!(properties(text), ["holds", "holds_too", "third"]);
        assert_eq!(properties("use proptest::prelude::*;\nfn a() {}"), [""; 0]);
    }

    #[test]
    fn those_of_the_crates_are_found() {
        let filter = filter(&crate::root().join("crates")).unwrap();
        assert!(filter.matches('|').count() > 40, "{filter}");
        for name in OTHERS {
            assert!(filter.contains(name));
        }
    }
}
