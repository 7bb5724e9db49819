//! A file as a tree in which every value knows its line and column. YAML, JSON and TOML read
//! into the same tree, so whatever is found wrong later can be pointed at.

use crate::error::FileError;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error as YamlError, Spanned};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Line and column, from 1; zero when unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What stands there. Numbers and truth values stay text: only names and counts are read.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Text(String),
    /// Text that was not quoted and that the format took for a number or a truth value.
    Bare(String),
    List(Vec<Node>),
    Table(Vec<(Key, Node)>),
}

/// A key and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) place: Place,
}

impl Node {
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

    /// Where the field at `path` (`gang.groups[1].name`) stands, or the nearest one above it.
    pub(crate) fn find(&self, path: &str) -> Option<Place> {
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
    pub(crate) fn path_at(&self, at: Place) -> Option<String> {
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
    fn restore(&mut self, lines: &[&str]) {
        match &mut self.value {
            Value::Bare(text) => {
                let line = lines.get(self.place.line.saturating_sub(1) as usize);
                let Some(line) = line else { return };
                let from = line.chars().skip(self.place.column.saturating_sub(1) as usize);
                let raw: String = from
                    .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_'))
                    .collect();
                if !raw.is_empty() {
                    *text = raw;
                }
            }
            Value::List(items) => items.iter_mut().for_each(|n| n.restore(lines)),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, n)| n.restore(lines)),
            Value::Null | Value::Text(_) => {}
        }
    }
}

/// Options for every YAML file: no duplicate keys, and nothing that grows without bound.
pub(crate) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
        strict_booleans: true,
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
    let marked: Marked = serde_saphyr::from_str_with_options(text, yaml_options())
        .map_err(|e| yaml_error(origin, &e))?;
    let mut node = marked.0;
    let lines: Vec<&str> = text.lines().collect();
    node.restore(&lines);
    Ok(node)
}

/// Reads TOML into a tree.
pub(crate) fn toml(text: &str, origin: &str) -> Result<Node, FileError> {
    let places = Places::new(text);
    let table = DeTable::parse(text).map_err(|e| {
        let place = places.of(e.span().map_or(0, |s| s.start));
        let message = e.message().lines().next().unwrap_or("not valid TOML").to_owned();
        FileError::new(origin, message).at(place.line, place.column)
    })?;
    let place = Place { line: 1, column: 1 };
    Ok(Node { place, value: from_toml_table(table.get_ref(), &places) })
}

fn from_toml_table(table: &DeTable<'_>, places: &Places<'_>) -> Value {
    let mut entries: Vec<(Key, Node)> = table
        .iter()
        .map(|(k, v)| {
            let key = Key { text: k.get_ref().to_string(), place: places.of(k.span().start) };
            (key, from_toml(v.get_ref(), places.of(v.span().start), places))
        })
        .collect();
    entries.sort_by_key(|(k, _)| (k.place.line, k.place.column));
    Value::Table(entries)
}

fn from_toml(value: &DeValue<'_>, place: Place, places: &Places<'_>) -> Node {
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
    Node { place, value }
}

/// Turns byte offsets into lines and columns.
pub(crate) struct Places<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(text: &'a str) -> Places<'a> {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Places { text, starts: std::iter::once(0).chain(newlines.map(|(i, _)| i + 1)).collect() }
    }

    pub(crate) fn of(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|s| *s <= offset).max(1);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |t| t.chars().count()) + 1;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: small(line), column: small(column) }
    }
}

/// An error of the YAML reader in our words.
pub(crate) fn yaml_error(origin: &str, e: &YamlError) -> FileError {
    let place = e.location().map(place_of).unwrap_or_default();
    let out = match e.without_snippet() {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            unknown_field(origin, field, expected)
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            FileError::new(origin, format!("`{variant}` is not one of {}", expected.join(", ")))
                .hint(
                    crate::error::closest(variant, expected)
                        .map_or(String::new(), |k| format!("did you mean `{k}`?")),
                )
        }
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            FileError::new(origin, format!("`{}` is given twice", crate::error::shown(key)))
                .hint("keep one of them")
        }
        YamlError::MultipleDocuments { .. } => FileError::new(
            origin,
            "the file holds several documents, but one job a file is allowed",
        )
        .hint("put what follows `---` into a file of its own"),
        YamlError::SerdeMissingField { field, .. } => missing_field(origin, field),
        YamlError::InvalidScalar { ty, .. } => FileError::new(origin, not_a(ty)),
        YamlError::InvalidBooleanStrict { .. } => {
            FileError::new(origin, "this is neither `true` nor `false`")
        }
        YamlError::Unexpected { expected: "mapping start", .. } => {
            FileError::new(origin, "expected fields here").hint("write them like {name: value}")
        }
        other => FileError::new(origin, plain_message(other)),
    };
    out.at(place.line, place.column)
}

/// The error for a field that has to be there.
pub(crate) fn missing_field(origin: &str, field: &str) -> FileError {
    FileError::new(origin, format!("`{field}` is missing here")).hint(format!("add `{field}: …`"))
}

/// What a number's type asks for.
fn not_a(ty: &str) -> String {
    match ty {
        "u8" => "this is not a whole number from 0 to 255".into(),
        "u16" | "u32" | "u64" | "usize" => "this is not a whole number of at least 0".into(),
        "i32" | "i64" => "this is not a whole number".into(),
        other => format!("this is not a valid {other}"),
    }
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

fn place_of(l: serde_saphyr::Location) -> Place {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Place { line: small(l.line()), column: small(l.column()) }
}

struct Marked(Node);

impl<'de> Deserialize<'de> for Marked {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = Spanned::<Raw>::deserialize(d)?;
        Ok(Marked(Node { place: place_of(s.referenced), value: s.value.0 }))
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
        assert_eq!(t.find("gang.groups[1].name"), Some(Place { line: 5, column: 7 }));
        assert_eq!(t.find("gang.nodes"), Some(Place { line: 2, column: 1 }));
        assert_eq!(t.find("tags"), None);
        assert_eq!(t.path_at(Place { line: 5, column: 7 }).unwrap(), "gang.groups[1].name");
    }

    #[test]
    fn bare_values_keep_their_spelling() {
        let t = yaml("rack: 01\n", "f").unwrap();
        let Value::Table(entries) = &t.value else { panic!("a table") };
        assert!(matches!(&entries[0].1.value, Value::Bare(s) if s == "01"), "{:?}", entries[0].1);
    }

    #[test]
    fn toml_places_count_characters() {
        let t = toml("a = 1\n[b]\n\"é\" = 2\nc = { d = 3 }\n", "f").unwrap();
        assert_eq!(t.find("b.c.d"), Some(Place { line: 4, column: 7 }));
    }
}
