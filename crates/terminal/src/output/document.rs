//! Documents for programs: JSON and YAML, both made from one compact JSON text. A type is then
//! written by one piece of code, whatever the format is.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A compact JSON text, indented by two spaces. Numbers and strings stay as they are written.
#[must_use]
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                match chars.next_if(|end| matches!(end, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => out.push(other),
        }
    }
    out
}

/// The same JSON text without control characters. Those below the blank are written out already;
/// the others stand in strings alone, where an escape means the same.
pub(super) fn escape_controls(json: &str) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\n';
    if !json.contains(control) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A JSON text as YAML, in the same order.
///
/// # Errors
/// When the text is not JSON.
pub fn yaml(json: &str) -> Result<String, String> {
    let tree: Tree = serde_json::from_str(json).map_err(|e| e.to_string())?;
    serde_saphyr::to_string(&tree).map_err(|e| e.to_string())
}

/// Any JSON value, with its fields in the order they came in.
enum Tree {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => to.serialize_unit(),
            Tree::Bool(b) => to.serialize_bool(*b),
            Tree::Signed(n) => to.serialize_i64(*n),
            Tree::Unsigned(n) => to.serialize_u64(*n),
            Tree::Float(n) => to.serialize_f64(*n),
            Tree::Text(t) => to.serialize_str(t),
            Tree::List(all) => to.collect_seq(all),
            Tree::Map(all) => {
                let mut map = to.serialize_map(Some(all.len()))?;
                for (k, v) in all {
                    map.serialize_entry(k, v)?;
                }
                map.end()
            }
        }
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Tree, E> {
        Ok(Tree::Signed(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Tree, E> {
        Ok(Tree::Unsigned(n))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Tree, E> {
        Ok(Tree::Float(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = seq.next_element()? {
            all.push(value);
        }
        Ok(Tree::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = map.next_entry()? {
            all.push(entry);
        }
        Ok(Tree::Map(all))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(TreeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"b":[],"a":{"x":-1,"y":[1,2.5,null,true]},"t":"a \"{,:}\" \\","e":{},"n":18446744073709551615}"#;

    #[test]
    fn indented_text_is_what_serde_writes() {
        // The fields of a `Value` come sorted, so both sides begin with those.
        let value: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        let want = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(indented(&value.to_string()), want);
        assert_eq!(indented("[]"), "[]");
        assert_eq!(indented("7"), "7");
    }

    #[test]
    fn yaml_keeps_the_order_and_says_the_same() {
        let text = yaml(TEXT).unwrap();
        assert!(text.find("b:").unwrap() < text.find("a:").unwrap(), "{text}");
        let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, serde_json::from_str::<serde_json::Value>(TEXT).unwrap(), "{text}");
    }

    #[test]
    fn a_document_for_a_terminal_says_the_same() {
        let json = serde_json::json!({ "t": "a\x1b\x7f\u{9b}2Jé\n" }).to_string();
        let text = escape_controls(&json);
        assert!(!text.contains(char::is_control), "{text:?}");
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&text), same(&json));
        assert!(matches!(escape_controls("{}\n"), Cow::Borrowed(_)));
    }
}
