//! The tree of a scenario's TOML with its values by their types, and how a line that is not TOML
//! was probably meant.

use muster_specs::FileError;
use muster_specs::tree::{self, Key, Node, Value};
use toml::Spanned;
use toml::de::DeValue;

/// A key with its value.
pub(super) type Entry = (Key, Node);

/// What stands somewhere.
#[derive(Debug, Clone)]
pub(super) enum Item<'a> {
    Text(&'a str),
    Whole(i64),
    /// A whole number that no type holds.
    Huge(&'a str),
    Real(f64),
    Truth(bool),
    Date(toml::value::Datetime),
    List(&'a [Node]),
    Table(&'a [Entry]),
}

/// What a node is.
pub(super) fn item(node: &Node) -> Item<'_> {
    let bare = match &node.value {
        Value::Text(text) => return Item::Text(text),
        Value::List(items) => return Item::List(items),
        Value::Table(entries) => return Item::Table(entries),
        Value::Bare(bare) => bare.as_str(),
        // TOML has none.
        Value::Null => "",
    };
    match DeValue::parse(bare).map(Spanned::into_inner) {
        Ok(DeValue::Integer(n)) => {
            i64::from_str_radix(n.as_str(), n.radix()).map_or(Item::Huge(bare), Item::Whole)
        }
        Ok(DeValue::Float(n)) => Item::Real(n.as_str().parse().unwrap_or(f64::NAN)),
        Ok(DeValue::Boolean(b)) => Item::Truth(b),
        Ok(DeValue::Datetime(d)) => Item::Date(d),
        _ => Item::Huge(bare),
    }
}

impl Item<'_> {
    /// What it is, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
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

    /// The same without places.
    pub(super) fn value(&self) -> toml::Value {
        match self {
            Item::Text(t) | Item::Huge(t) => toml::Value::String((*t).to_owned()),
            Item::Whole(n) => toml::Value::Integer(*n),
            Item::Real(n) => toml::Value::Float(*n),
            Item::Truth(b) => toml::Value::Boolean(*b),
            Item::Date(d) => toml::Value::Datetime(*d),
            Item::List(items) => {
                toml::Value::Array(items.iter().map(|n| item(n).value()).collect())
            }
            Item::Table(entries) => toml::Value::Table(
                entries.iter().map(|(k, n)| (k.text.clone(), item(n).value())).collect(),
            ),
        }
    }
}

/// Reads TOML into a tree.
pub(super) fn parse(text: &str, origin: &str) -> Result<Node, FileError> {
    tree::toml(text, origin).map_err(|e| {
        let before = e.line.map_or(0, |line| line.saturating_sub(1) as usize);
        let hint = syntax_hint(text.lines().nth(before).unwrap_or_default(), &e.message);
        e.hint(hint)
    })
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
    format!("text and lengths of time are in quotes: `{key} = \"{value}\"`")
}

fn plain(text: &str) -> String {
    muster_specs::error::shown(text.trim())
}
