//! JSON as a tree. JSON's own reader judges the text first; here it is only walked along, for the
//! places.

use crate::error::{FileError, shown};
use crate::tree::{Key, Node, TextPosition, Value};
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::str::Chars;

/// Deepest nesting, as in YAML.
const DEEPEST: u32 = 32;

/// Reads JSON into a tree.
pub(crate) fn read(text: &str, origin: &str) -> Result<Node, FileError> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|e| {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        FileError::new(origin, message(&e)).at(small(e.line()), small(e.column()))
    })?;
    Walk::new(text, origin).value(0)
}

/// Where the value that begins at a place ends.
pub(crate) fn end_of(text: &str, begin: TextPosition) -> TextPosition {
    let mut walk = Walk::new(text, "");
    while walk.here != begin && walk.step().is_some() {}
    // It was read before: what was wrong was reported then.
    let _ = walk.value(0);
    walk.last
}

/// The reader's message without its own mention of the place.
fn message(e: &serde_json::Error) -> String {
    let full = e.to_string();
    full.split(" at line ").next().unwrap_or(&full).to_owned()
}

struct Walk<'a> {
    rest: Chars<'a>,
    origin: &'a str,
    here: TextPosition,
    /// Where the last sign stood.
    last: TextPosition,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str, origin: &'a str) -> Walk<'a> {
        let here = TextPosition { line: 1, column: 1 };
        Walk { rest: text.chars(), origin, here, last: here }
    }

    fn fail(&self, place: TextPosition, message: impl Into<String>) -> FileError {
        FileError::new(self.origin, message).at(place.line, place.column)
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn step(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.last = self.here;
        match c {
            '\n' => self.here = TextPosition { line: self.here.line.saturating_add(1), column: 1 },
            _ => self.here.column = self.here.column.saturating_add(1),
        }
        Some(c)
    }

    /// Goes to where the next key or value begins, or the list or table ends.
    fn ahead(&mut self) -> Option<char> {
        while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n' | ',' | ':')) {
            self.step();
        }
        self.peek()
    }

    fn value(&mut self, depth: u32) -> Result<Node, FileError> {
        let first = self.ahead();
        let place = self.here;
        if depth > DEEPEST {
            return Err(self.fail(place, format!("this is nested more than {DEEPEST} deep")));
        }
        let value = match first {
            Some('{') => self.table(depth)?,
            Some('[') => {
                self.step();
                let mut items = Vec::new();
                while !matches!(self.ahead(), Some(']') | None) {
                    items.push(self.value(depth + 1)?);
                }
                self.step();
                Value::List(items)
            }
            Some('"') => Value::Text(self.text()?),
            _ => {
                let from = self.rest.as_str();
                self.step();
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
                    self.step();
                }
                match self.since(from) {
                    "null" => Value::Null,
                    written => Value::Bare(written.to_owned()),
                }
            }
        };
        Ok(Node::new(place, value))
    }

    fn table(&mut self, depth: u32) -> Result<Value, FileError> {
        self.step();
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        while self.ahead() == Some('"') {
            let place = self.here;
            let text = self.text()?;
            if !seen.insert(text.clone()) {
                let message = format!("`{}` is given twice", shown(&text));
                return Err(self.fail(place, message).hint("keep one of them"));
            }
            entries.push((Key { text, place }, self.value(depth + 1)?));
        }
        self.step();
        Ok(Value::Table(entries))
    }

    fn text(&mut self) -> Result<String, FileError> {
        let (from, place) = (self.rest.as_str(), self.here);
        self.step();
        loop {
            match self.step() {
                Some('\\') => {
                    self.step();
                }
                Some('"') | None => break,
                Some(_) => {}
            }
        }
        serde_json::from_str(self.since(from)).map_err(|e| self.fail(place, message(&e)))
    }

    fn since<'t>(&self, from: &'t str) -> &'t str {
        &from[..from.len() - self.rest.as_str().len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_place_and_its_end() {
        let text = "{\n\t\"é\": [1.0, {\"b\": \"\\ud83d\\ude00\\\"\"}],\n \"n\" : null\n}";
        let root = read(text, "f").unwrap();
        assert_eq!(root.find("é[1].b"), Some(TextPosition { line: 2, column: 14 }));
        let Value::Table(entries) = &root.value else { panic!("a table") };
        let Value::List(items) = &entries[0].1.value else { panic!("a list") };
        assert!(matches!(&items[0].value, Value::Bare(t) if t == "1.0"));
        let Value::Table(inner) = &items[1].value else { panic!("a table") };
        assert!(matches!(&inner[0].1.value, Value::Text(t) if t == "😀\""));
        assert_eq!(end_of(text, items[0].place), TextPosition { line: 2, column: 10 });
        assert_eq!(end_of(text, items[1].place), TextPosition { line: 2, column: 35 });
        assert_eq!(end_of(text, root.place), TextPosition { line: 4, column: 1 });
        assert!(matches!(entries[1].1.value, Value::Null));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert!(read(&deep, "f").unwrap_err().message.contains("more than 32 deep"));
    }
}
