//! Texts in Rust: literals, the help of commands, and the names that reach JSON. A small lexer and
//! a walk over its tokens are enough: whatever they do not understand, they read as text.

mod lex;

use super::Piece;
use lex::{Token, What, lex};
use std::collections::BTreeSet;

/// Derives whose doc comments are help.
const HELP: &[&str] = &["Parser", "Args", "Subcommand", "ValueEnum"];
/// Derives whose fields and variants reach JSON.
const JSON: &[&str] = &["Serialize", "Deserialize"];
/// Crates whose types are the API and the log.
const WIRE: &[&str] = &["crates/api/", "crates/model/", "crates/records/"];
/// Attributes whose strings people read.
const SHOWN: &[&str] = &["arg", "command", "clap", "value", "error", "schema", "doc"];
/// Functions whose string is the name of a type.
const DEBUG: &[&str] = &["debug_struct", "debug_tuple"];

/// The texts of a source file, without those of its tests.
pub(super) fn read(path: &str, text: &str) -> Vec<Piece> {
    let wire = WIRE.iter().any(|dir| path.starts_with(dir));
    let tokens = lex(text);
    let mut walk = Walk { tokens: &tokens, wire, out: Vec::new() };
    walk.file();
    for piece in &mut walk.out {
        piece.text = without_arguments(&piece.text);
    }
    walk.out
}

/// `JobState` and `job_state` are the same name.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && small {
            out.push('_');
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `{name:>8}` in a format is no word of the text.
fn without_arguments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open + 1);
        out.push_str(before);
        let of_an_argument = |c: char| c.is_ascii_alphanumeric() || "_.:<>^#?$*+-".contains(c);
        let end = from.find(|c: char| !of_an_argument(c)).unwrap_or(from.len());
        rest = if from[end..].starts_with('}') { &from[end..] } else { from };
    }
    out + rest
}

struct Walk<'a> {
    tokens: &'a [Token],
    wire: bool,
    out: Vec<Piece>,
}

/// Doc comments that wait for their item.
#[derive(Default)]
struct Docs {
    line: usize,
    text: String,
}

impl Docs {
    fn add(&mut self, token: &Token) {
        if self.text.is_empty() {
            self.line = token.line;
        } else {
            self.text.push(' ');
        }
        self.text.push_str(&token.text);
    }

    fn take(&mut self) -> Option<Piece> {
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then(|| Piece::text(self.line, text))
    }
}

impl Walk<'_> {
    fn file(&mut self) {
        let tokens = self.tokens;
        let (mut docs, mut derives) = (Docs::default(), BTreeSet::new());
        let mut i = 0;
        while let Some(token) = tokens.get(i) {
            match token.what {
                What::Doc => docs.add(token),
                What::Mark if token.is('#') && self.attribute_at(i).is_some() => {
                    let (from, end) = self.attribute_at(i).unwrap_or((i, i));
                    let attribute = &tokens[from..end];
                    i = end + 1;
                    if is_test(attribute) {
                        i = self.end_of_item(self.end_of_attributes(i));
                        (docs, derives) = (Docs::default(), BTreeSet::new());
                    } else {
                        self.attribute(attribute, &mut derives);
                    }
                    continue;
                }
                What::Word if token.text == "struct" || token.text == "enum" => {
                    i = self.item(i, &mut docs, &derives);
                    (docs, derives) = (Docs::default(), BTreeSet::new());
                    continue;
                }
                What::Str => {
                    let of = i.checked_sub(2).map(|i| tokens[i].text.as_str());
                    if of.is_none_or(|name| !DEBUG.contains(&name)) {
                        self.out.push(Piece::text(token.line, token.text.clone()));
                    }
                }
                // `pub(crate)` stands between what is said of an item and the item.
                What::Word | What::Mark => {
                    let visibility = ["pub", "crate", "super", "in", "(", ")"];
                    if !visibility.contains(&token.text.as_str()) {
                        (docs, derives) = (Docs::default(), BTreeSet::new());
                    }
                }
                What::Number => {}
            }
            i += 1;
        }
    }

    /// The tokens inside `#[…]` or `#![…]`.
    fn attribute_at(&self, hash: usize) -> Option<(usize, usize)> {
        let bang = self.tokens.get(hash + 1).is_some_and(|t| t.is('!'));
        let open = hash + 1 + usize::from(bang);
        self.tokens.get(open).filter(|t| t.is('['))?;
        Some((open + 1, self.end_of_group(open).saturating_sub(1).max(open + 1)))
    }

    fn end_of_attributes(&self, mut i: usize) -> usize {
        while let Some(token) = self.tokens.get(i) {
            match self.attribute_at(i) {
                Some((_, end)) if token.is('#') => i = end + 1,
                _ if token.what == What::Doc => i += 1,
                _ => break,
            }
        }
        i
    }

    /// Behind the bracket that closes the one here.
    fn end_of_group(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (i, token) in self.tokens.iter().enumerate().skip(open) {
            if ['(', '[', '{'].iter().any(|c| token.is(*c)) {
                depth += 1;
            } else if [')', ']', '}'].iter().any(|c| token.is(*c)) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i + 1;
                }
            }
        }
        self.tokens.len()
    }

    /// Behind an item, a field or a variant.
    fn end_of_item(&self, mut i: usize) -> usize {
        while let Some(token) = self.tokens.get(i) {
            if token.is('{') {
                return self.end_of_group(i);
            } else if token.is('(') || token.is('[') {
                i = self.end_of_group(i);
            } else if token.is(';') || token.is(',') {
                return i + 1;
            } else if token.is(')') || token.is(']') || token.is('}') {
                return i;
            } else {
                i += 1;
            }
        }
        i
    }

    /// Texts and names in an attribute, and what it derives.
    fn attribute(&mut self, tokens: &[Token], derives: &mut BTreeSet<String>) {
        let Some(head) = tokens.first().map(|t| t.text.as_str()) else { return };
        if head == "derive" || head == "cfg_attr" {
            let words = tokens.iter().filter(|t| t.what == What::Word);
            derives.extend(words.map(|t| t.text.clone()));
        }
        for (i, token) in tokens.iter().enumerate().filter(|(_, t)| t.what == What::Str) {
            let key = i.checked_sub(2).map_or("", |i| tokens[i].text.as_str());
            if head == "serde" && ["rename", "tag", "content"].contains(&key) {
                self.out.push(Piece::name(token.line, token.text.clone()));
            } else if SHOWN.contains(&head) && key != "value_parser" {
                self.out.push(Piece::text(token.line, token.text.clone()));
            }
        }
    }

    /// A type, from its keyword on: help, and names. Gives the token after what was read.
    fn item(&mut self, keyword: usize, docs: &mut Docs, derives: &BTreeSet<String>) -> usize {
        let has = |names: &[&str]| names.iter().any(|n| derives.contains(*n));
        let (help, names) = (has(HELP), self.wire && has(JSON));
        if help {
            self.out.extend(docs.take());
        }
        let mut i = keyword + 1;
        while self.tokens.get(i).is_some_and(|t| !t.is('{') && !t.is(';') && !t.is('(')) {
            i += 1;
        }
        if self.tokens.get(i).is_none_or(|t| !t.is('{')) || !(help || names) {
            return i;
        }
        let end = self.end_of_group(i);
        let variants = self.tokens[keyword].text == "enum";
        self.members(i + 1, end.saturating_sub(1), variants, (help, names));
        end
    }

    /// Fields, or variants and their fields.
    fn members(&mut self, mut i: usize, end: usize, variants: bool, (help, names): (bool, bool)) {
        let tokens = self.tokens;
        let mut docs = Docs::default();
        while i < end {
            let token = &tokens[i];
            if token.what == What::Doc {
                docs.add(token);
                i += 1;
            } else if token.is('#') {
                let (from, to) = self.attribute_at(i).unwrap_or((i, i));
                self.attribute(&tokens[from..to], &mut BTreeSet::new());
                i = to + 1;
            } else if token.text == "pub" {
                i += 1;
                if tokens.get(i).is_some_and(|t| t.is('(')) {
                    i = self.end_of_group(i);
                }
            } else if token.what == What::Word {
                let doc = docs.take();
                if help {
                    self.out.extend(doc);
                }
                if names {
                    self.out.push(Piece::name(token.line, snake(&token.text)));
                }
                i = self.member(i + 1, end, variants, (help, names));
            } else {
                i += 1;
            }
        }
    }

    /// The rest of a field or a variant, up to the comma behind it.
    fn member(&mut self, mut i: usize, end: usize, variants: bool, of: (bool, bool)) -> usize {
        let mut angles = 0_i32;
        while i < end {
            let token = &self.tokens[i];
            if token.is('{') && variants {
                let to = self.end_of_group(i);
                self.members(i + 1, to.saturating_sub(1), false, of);
                i = to;
            } else if ['(', '[', '{'].iter().any(|c| token.is(*c)) {
                i = self.end_of_group(i);
            } else if token.is(',') && angles <= 0 {
                return i + 1;
            } else {
                let arrow = i > 0 && self.tokens[i - 1].is('-');
                angles += i32::from(token.is('<')) - i32::from(token.is('>') && !arrow);
                i += 1;
            }
        }
        i
    }
}

/// Compiled for tests only.
fn is_test(attribute: &[Token]) -> bool {
    let text: String = attribute.iter().map(|t| t.text.as_str()).collect();
    text == "test"
        || ["cfg(test)", "cfg(all(test", "cfg(any(test"].iter().any(|t| text.starts_with(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        read(path, text).into_iter().map(|p| (p.line, p.text)).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        found("crates/cli/src/a.rs", text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn literals_are_read_and_those_of_tests_comments_and_lints_are_not() {
        let text = r##"
            // "comment"
            #[allow(dead_code, reason = "a lint")]
            fn a<'a>(c: &'a str) -> char { say("one \"two\" \
                three {name:>8} {}", r#"raw "x""#, '"'); 'c' }
            #[cfg(test)]
            mod tests { fn b() { say("in a test"); } }
            #[test]
            fn c() { say("in a test"); }
            const LAST: &str = "last";
        "##;
        assert_eq!(texts(text), ["one \"two\" three {} {}", "raw \"x\"", "last"]);
    }

    #[test]
    fn help_is_the_comment_of_what_clap_derives() {
        let text = "
            /// The verb.
            #[derive(Debug, clap::Args)]
            pub(crate) struct Verb {
                /// One flag
                /// of two lines.
                #[arg(long, help_heading = \"More\")]
                flag: BTreeMap<String, u32>,
                /// Another.
                other: Option<String>,
            }
            /// No help.
            struct Plain { /// nor this
                x: u8 }";
        assert_eq!(texts(text), ["The verb.", "More", "One flag of two lines.", "Another."]);
    }

    #[test]
    fn fields_and_variants_that_reach_json_are_names() {
        let text = "
            #[derive(Serialize)]
            pub enum Event {
                #[serde(rename = \"started\")]
                JobStarted { key: (u8, u8), r#type: Vec<u8> },
                Ended(u32),
            }
            #[derive(Debug)]
            struct Inner { hidden: u8 }";
        let names = ["started", "job_started", "key", "type", "ended"].map(String::from);
        let of = |path: &str| read(path, text).into_iter().map(|p| p.text).collect::<Vec<_>>();
        assert_eq!(of("crates/model/src/event.rs"), names);
        assert_eq!(of("crates/cli/src/event.rs"), ["started"]);
    }

    #[test]
    fn a_text_has_the_line_where_it_begins_and_the_name_of_a_type_is_none() {
        let text =
            "fn a() {\n    f.debug_struct(\"Fancy\");\n    say(\n        \"text\"\n    );\n}";
        assert_eq!(found("crates/cli/src/a.rs", text), [(4, "text".to_owned())]);
    }

    #[test]
    fn what_is_no_rust_is_read_without_an_end_of_it() {
        let halves = [
            "\"open",
            "#[",
            "#[derive(",
            "/* open",
            "r#\"open",
            "#[derive(Serialize)] enum X { A {",
            "#[derive(Serialize)] struct X { #",
            "'",
            "#",
            "struct",
        ];
        for text in halves {
            let _ = read("crates/model/src/a.rs", text);
        }
    }
}
