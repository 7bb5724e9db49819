//! A TOML file as a tree in which every key and value knows where it stands.

use muster_specs::FileError;
use toml::de::{DeTable, DeValue};

/// Line and column in characters, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) item: Item,
}

/// What stands there.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Text(String),
    Whole(i64),
    /// A whole number that no type holds.
    Huge(String),
    Real(f64),
    Truth(bool),
    Date(toml::value::Datetime),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Place,
    pub(super) node: Node,
}

impl Node {
    /// What it is, for messages.
    pub(super) fn shown(&self) -> String {
        match &self.item {
            Item::Text(t) => format!("\"{}\"", muster_specs::error::shown(t)),
            Item::Whole(n) => n.to_string(),
            Item::Huge(n) => muster_specs::error::shown(n),
            Item::Real(n) => n.to_string(),
            Item::Truth(b) => b.to_string(),
            Item::Date(d) => d.to_string(),
            Item::List(_) => "a list".into(),
            Item::Table(_) => "a table".into(),
        }
    }

    /// The value of a key, when this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.item {
            Item::Table(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// Where the field at `path` (`workload[1].saving.cost`) stands, or the nearest one above it.
    pub(super) fn find(&self, path: &str) -> Option<Place> {
        let (mut here, mut place, mut rest) = (self, None, path);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let Some((index, tail)) = after.split_once(']') else { return place };
                let Item::List(items) = &here.item else { return place };
                let Some(item) = index.parse::<usize>().ok().and_then(|i| items.get(i)) else {
                    return place;
                };
                (here, place) = (item, Some(item.at));
                rest = tail.strip_prefix('.').unwrap_or(tail);
                continue;
            }
            let Item::Table(entries) = &here.item else { return place };
            // A quoted key may hold dots, so the longest one that fits is taken.
            let fits = |k: &str| {
                rest.strip_prefix(k).is_some_and(|t| t.is_empty() || t.starts_with(['.', '[']))
            };
            let hit = entries.iter().filter(|e| !e.key.is_empty() && fits(&e.key));
            let Some(entry) = hit.max_by_key(|e| e.key.len()) else { return place };
            (here, place) = (&entry.node, Some(entry.at));
            rest = &rest[entry.key.len()..];
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        place
    }

    /// The same without places.
    pub(super) fn value(&self) -> toml::Value {
        match &self.item {
            Item::Text(t) => toml::Value::String(t.clone()),
            Item::Whole(n) => toml::Value::Integer(*n),
            Item::Huge(n) => toml::Value::String(n.clone()),
            Item::Real(n) => toml::Value::Float(*n),
            Item::Truth(b) => toml::Value::Boolean(*b),
            Item::Date(d) => toml::Value::Datetime(*d),
            Item::List(items) => toml::Value::Array(items.iter().map(Node::value).collect()),
            Item::Table(entries) => toml::Value::Table(
                entries.iter().map(|e| (e.key.clone(), e.node.value())).collect(),
            ),
        }
    }
}

/// Reads TOML into a tree.
pub(super) fn parse(text: &str, origin: &str) -> Result<Node, FileError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|e| {
        let place = lines.of(e.span().map_or(0, |s| s.start));
        let message = e.message().lines().next().unwrap_or_default();
        let message = if message.is_empty() { "this is not TOML" } else { message };
        let hint = syntax_hint(lines.line(place), message);
        FileError::new(origin, message).at(place.line, place.column).hint(hint)
    })?;
    Ok(Node { at: Place { line: 1, column: 1 }, item: table_of(table.get_ref(), &lines) })
}

fn table_of(table: &DeTable<'_>, lines: &Lines<'_>) -> Item {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(k, v)| Entry {
            key: k.get_ref().to_string(),
            at: lines.of(k.span().start),
            node: Node { at: lines.of(v.span().start), item: item_of(v.get_ref(), lines) },
        })
        .collect();
    entries.sort_by_key(|e| e.at);
    Item::Table(entries)
}

fn item_of(value: &DeValue<'_>, lines: &Lines<'_>) -> Item {
    match value {
        DeValue::String(s) => Item::Text(s.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
            .map_or_else(|_| Item::Huge(n.to_string()), Item::Whole),
        DeValue::Float(n) => Item::Real(n.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Item::Truth(*b),
        DeValue::Datetime(d) => Item::Date(*d),
        DeValue::Array(items) => Item::List(
            items
                .iter()
                .map(|v| Node { at: lines.of(v.span().start), item: item_of(v.get_ref(), lines) })
                .collect(),
        ),
        DeValue::Table(t) => table_of(t, lines),
    }
}

/// How a line that is not TOML was probably meant.
fn syntax_hint(line: &str, message: &str) -> String {
    if message.contains("duplicate key") {
        return "keep one of them".into();
    }
    let line = line.split(" #").next().unwrap_or(line).trim();
    if line.starts_with('[') {
        return "tables are written `[fleet]`, lists of tables `[[workload]]`".into();
    }
    let Some((key, value)) = line.split_once('=') else {
        return match line.split_once(':') {
            Some((key, value)) => format!("write `{} = {}`", plain(key), plain(value)),
            None => "write `key = value`".into(),
        };
    };
    if value.trim().starts_with(['"', '\'', '[', '{']) {
        return "a quote, a bracket or a brace may be missing".into();
    }
    let (key, value) = (plain(key), plain(value));
    if value.is_empty() {
        return format!("write a value after `{key} =`");
    }
    format!("text and lengths of time stand in quotes: `{key} = \"{value}\"`")
}

fn plain(text: &str) -> String {
    muster_specs::error::shown(text.trim())
}

/// Turns byte offsets into lines and columns.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Lines { text, starts: std::iter::once(0).chain(ends.map(|(i, _)| i + 1)).collect() }
    }

    fn of(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|s| *s <= offset).max(1);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |t| t.chars().count()) + 1;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: small(line), column: small(column) }
    }

    fn line(&self, place: Place) -> &'a str {
        let start = self.starts.get(place.line.saturating_sub(1) as usize);
        let rest = start.and_then(|s| self.text.get(*s..)).unwrap_or_default();
        rest.lines().next().unwrap_or_default()
    }
}
