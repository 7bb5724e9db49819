//! A file as a tree in which every value knows its line and column. YAML, JSON and TOML read
//! into the same tree, so whatever is found wrong later can be pointed at.

use crate::error::FileError;
use crate::scalar::bare;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_saphyr::{Error as YamlError, Spanned};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Line and column, from 1; zero when unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TextPosition {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it is.
    pub place: TextPosition,
    /// What stands there.
    pub value: Value,
    /// The byte where its text begins; for an alias that is elsewhere than its place.
    written: usize,
}

/// What stands there. Numbers and truth values stay text: only names and counts are read.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing, or what YAML and JSON write for it.
    Null,
    /// Text in quotes, or that can be nothing else.
    Text(String),
    /// Text that was not quoted and that the format took for a number or a truth value.
    Bare(String),
    /// Values in their order.
    List(Vec<Node>),
    /// Keys and values in the order of the file.
    Table(Vec<(Key, Node)>),
}

/// A key and where it stands.
#[derive(Debug, Clone)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Where it is.
    pub place: TextPosition,
}

impl Node {
    pub(crate) fn new(place: TextPosition, value: Value) -> Node {
        Node { place, value, written: 0 }
    }

    /// What kind of thing it is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Text(_) => "text",
            Value::Bare(_) => "a number or true/false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// A key of a table and its value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&(Key, Node)> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k.text == key),
            _ => None,
        }
    }

    /// Where the field at `path` (`gang.groups[1].name`) stands, or the nearest one above it.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<TextPosition> {
        let mut here = self;
        let mut place = None;
        let mut rest = path;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let Some((index, tail)) = after.split_once(']') else { return place };
                let Value::List(items) = &here.value else { return place };
                let Some(item) = index.parse().ok().and_then(|i: usize| items.get(i)) else {
                    return place;
                };
                (here, place) = (item, Some(item.place));
                rest = tail.strip_prefix('.').unwrap_or(tail);
                continue;
            }
            let Value::Table(entries) = &here.value else { return place };
            // Keys may hold dots (`tags.a.b`), so the longest one that fits is taken.
            let fits = |k: &str| {
                rest.strip_prefix(k).is_some_and(|t| t.is_empty() || t.starts_with(['.', '[']))
            };
            let hit = entries.iter().filter(|(k, _)| !k.text.is_empty() && fits(&k.text));
            let Some((key, node)) = hit.max_by_key(|(k, _)| k.text.len()) else { return place };
            (here, place) = (node, Some(key.place));
            rest = &rest[key.text.len()..];
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        place
    }

    /// Dotted path of what stands at `at`.
    pub(crate) fn path_at(&self, at: TextPosition) -> Option<String> {
        match &self.value {
            Value::Table(entries) => entries.iter().find_map(|(k, n)| {
                if k.place == at {
                    return Some(k.text.clone());
                }
                // A block begins where its first key does; the key is meant.
                let Some(inner) = n.path_at(at) else {
                    return (n.place == at).then(|| k.text.clone());
                };
                let dot = if inner.starts_with('[') { "" } else { "." };
                Some(format!("{}{dot}{inner}", k.text))
            }),
            Value::List(items) => items.iter().enumerate().find_map(|(i, n)| {
                let Some(inner) = n.path_at(at) else {
                    return (n.place == at).then(|| format!("[{i}]"));
                };
                let dot = if inner.starts_with('[') { "" } else { "." };
                Some(format!("[{i}]{dot}{inner}"))
            }),
            _ => None,
        }
    }

    /// Puts back what was written for values that the format took for numbers: `01` is a name.
    fn restore(&mut self, text: &str) {
        match &mut self.value {
            Value::Bare(normal) => {
                let rest = text.get(self.written..).unwrap_or_default();
                let signs =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
                let raw = &rest[..rest.find(|c| !signs(c)).unwrap_or(rest.len())];
                let same = match bare(raw) {
                    Unexpected::Bool(b) => b.to_string() == *normal,
                    Unexpected::Unsigned(n) => n.to_string() == *normal,
                    Unexpected::Signed(n) => n.to_string() == *normal,
                    Unexpected::Float(n) => n.to_string() == *normal,
                    _ => false,
                };
                if same {
                    *normal = raw.to_owned();
                }
            }
            Value::List(items) => items.iter_mut().for_each(|n| n.restore(text)),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, n)| n.restore(text)),
            Value::Null | Value::Text(_) => {}
        }
    }
}

/// Options for every YAML file: no duplicate keys, and nothing that grows without bound.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
        strict_booleans: true,
        // A name may look like a number that is too large.
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::PassThrough,
        budget: serde_saphyr::budget! {
            max_nodes: 1_000_000,
            max_events: 2_000_000,
            max_depth: 32,
            max_aliases: 1_000,
            max_recorded_anchor_events: 20_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 1_000,
        },
    }
}

/// Reads YAML (JSON included) into a tree.
pub(crate) fn yaml(text: &str, origin: &str) -> Result<Node, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Marked(mut node) = serde_saphyr::from_str_with_options(text, yaml_options())
        .map_err(|e| yaml_error(origin, &e))?;
    node.restore(text);
    Ok(node)
}

/// Reads TOML into a tree.
///
/// # Errors
/// When it is not TOML: what is wrong, and where.
pub fn toml(text: &str, origin: &str) -> Result<Node, FileError> {
    let places = TextPositions::new(text);
    let table = DeTable::parse(text).map_err(|e| {
        let place = places.of(e.span().map_or(0, |s| s.start));
        let message = e.message().lines().next().unwrap_or("not valid TOML").to_owned();
        FileError::new(origin, message).at(place.line, place.column)
    })?;
    let place = TextPosition { line: 1, column: 1 };
    Ok(Node::new(place, from_toml_table(table.get_ref(), &places)))
}

fn from_toml_table(table: &DeTable<'_>, places: &TextPositions<'_>) -> Value {
    let mut entries: Vec<(Key, Node)> = table
        .iter()
        .map(|(k, v)| {
            let key = Key { text: k.get_ref().to_string(), place: places.of(k.span().start) };
            (key, from_toml(v.get_ref(), places.of(v.span().start), places))
        })
        .collect();
    entries.sort_by_key(|(k, _)| k.place);
    Value::Table(entries)
}

fn from_toml(value: &DeValue<'_>, place: TextPosition, places: &TextPositions<'_>) -> Node {
    let value = match value {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(n) => Value::Bare(n.to_string()),
        DeValue::Float(n) => Value::Bare(n.to_string()),
        DeValue::Boolean(b) => Value::Bare(b.to_string()),
        DeValue::Datetime(d) => Value::Bare(d.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|v| from_toml(v.get_ref(), places.of(v.span().start), places))
                .collect(),
        ),
        DeValue::Table(t) => from_toml_table(t, places),
    };
    Node::new(place, value)
}

/// Turns byte offsets into lines and columns.
pub(crate) struct TextPositions<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> TextPositions<'a> {
    pub(crate) fn new(text: &'a str) -> TextPositions<'a> {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        TextPositions {
            text,
            starts: std::iter::once(0).chain(newlines.map(|(i, _)| i + 1)).collect(),
        }
    }

    pub(crate) fn of(&self, offset: usize) -> TextPosition {
        let line = self.starts.partition_point(|s| *s <= offset).max(1);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |t| t.chars().count()) + 1;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        TextPosition { line: small(line), column: small(column) }
    }
}

/// An error of the YAML reader in our words.
fn yaml_error(origin: &str, e: &YamlError) -> FileError {
    let place = e.location().map(place_of).unwrap_or_default();
    let out = match e.without_snippet() {
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            FileError::new(origin, format!("`{}` is given twice", crate::error::shown(key)))
                .hint("keep one of them")
        }
        YamlError::MultipleDocuments { .. } => {
            FileError::new(origin, "the file has several documents, but one job a file is allowed")
                .hint("put what follows `---` into a file of its own")
        }
        other => FileError::new(origin, plain_message(other)),
    };
    out.at(place.line, place.column)
}

/// The error for a field that has to be there.
pub(crate) fn missing_field(origin: &str, field: &str) -> FileError {
    FileError::new(origin, format!("`{field}` is missing here")).hint(format!("add `{field}: …`"))
}

/// The reader's message without its own mention of the place.
fn plain_message(e: &YamlError) -> String {
    let text = e.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.split(" at line ").next().unwrap_or(first);
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match first.strip_prefix("line ") {
        Some(rest) => rest.split_once(": ").map_or(first, |(_, m)| m),
        None => first,
    };
    first.trim().trim_end_matches(':').to_owned()
}

/// The error for a field that nobody knows.
pub(crate) fn unknown_field(origin: &str, field: &str, known: &[&str]) -> FileError {
    let field = crate::error::shown(field);
    FileError::new(origin, format!("unknown field `{field}`"))
        .hint(crate::error::did_you_mean(&field, known))
        .about(field)
}

fn place_of(l: serde_saphyr::Location) -> TextPosition {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    TextPosition { line: small(l.line()), column: small(l.column()) }
}

struct Marked(Node);

impl<'de> Deserialize<'de> for Marked {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = Spanned::<Raw>::deserialize(d)?;
        let written = s.defined.span().byte_offset().and_then(|b| usize::try_from(b).ok());
        Ok(Marked(Node {
            place: place_of(s.referenced),
            value: s.value.0,
            written: written.unwrap_or_default(),
        }))
    }
}

struct Raw(Value);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(RawVisitor).map(Raw)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_i128<E>(self, v: i128) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_u128<E>(self, v: u128) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value::Bare(v.to_string()))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::Text(v.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Marked(node)) = seq.next_element()? {
            items.push(node);
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let Marked(node) = map.next_value()?;
            entries.push((Key { text: key.value, place: place_of(key.referenced) }, node));
        }
        Ok(Value::Table(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_yaml() {
        let t = yaml("name: a\ngang:\n  groups:\n    - {name: x}\n    - name: y\n", "f").unwrap();
        assert_eq!(t.find("gang.groups[1].name"), Some(TextPosition { line: 5, column: 7 }));
        assert_eq!(t.find("gang.nodes"), Some(TextPosition { line: 2, column: 1 }));
        assert_eq!(t.find("tags"), None);
        assert_eq!(t.path_at(TextPosition { line: 5, column: 7 }).unwrap(), "gang.groups[1].name");
    }

    #[test]
    fn bare_values_keep_their_spelling() {
        let t = yaml("rack: 01\n", "f").unwrap();
        let Value::Table(entries) = &t.value else { panic!("a table") };
        assert!(matches!(&entries[0].1.value, Value::Bare(s) if s == "01"), "{:?}", entries[0].1);
        let text = "\u{feff}é: {a: &n 0x1_f, b: [*n, 1e999, .inf, True, 1.50, -7]}\n";
        let t = yaml(text, "f").unwrap();
        let Value::Table(entries) = &t.value else { panic!("a table") };
        let Value::Table(inner) = &entries[0].1.value else { panic!("a table") };
        let Value::List(items) = &inner[1].1.value else { panic!("a list") };
        let written = items.iter().map(|n| match &n.value {
            Value::Bare(s) => s.as_str(),
            other => panic!("{other:?}"),
        });
        let written: Vec<&str> = written.collect();
        assert_eq!(written, ["0x1_f", "1e999", ".inf", "True", "1.50", "-7"]);
    }

    #[test]
    fn toml_places_count_characters() {
        let t = toml("a = 1\n[b]\n\"é\" = 2\nc = { d = 3 }\n", "f").unwrap();
        assert_eq!(t.find("b.c.d"), Some(TextPosition { line: 4, column: 7 }));
    }
}
