//! Where in a JSON text something is: the path of fields and indices that leads there.

use serde::de::IgnoredAny;

/// The path to what `e` says cannot be read, like `groups[1].gpus`; empty for the whole text.
/// `again` reads another text and says what is wrong with that one.
pub(crate) fn path(
    text: &[u8],
    e: &serde_json::Error,
    again: &dyn Fn(&[u8]) -> Option<serde_json::Error>,
) -> String {
    let message = plain(&e.to_string());
    let end = offset(text, e.line(), e.column());
    let before = &text[..end];
    // A value that has the right type and still is not what is wanted is noticed after the end of
    // what it stands in, when it stands there last. So is what is wrong with the whole of that. With
    // one more value behind it the first is noticed before that one.
    let more: &[u8] = match before.last() {
        Some(b'}') => b",\"\":0",
        Some(b']') => b",0",
        _ => return shown(&walk(before)),
    };
    let longer = [&text[..end - 1], more, &text[end - 1..]].concat();
    let value_is_bad = again(&longer).is_some_and(|e| {
        plain(&e.to_string()) == message && offset(&longer, e.line(), e.column()) < end
    });
    shown(&walk(if value_is_bad { &before[..end - 1] } else { before }))
}

/// Where something else is than one of some words, and which ones they are: a reader of words takes
/// anything but a text for no value at all. None where the text is no JSON.
pub(crate) fn no_word(
    text: &[u8],
    e: &serde_json::Error,
    again: &dyn Fn(&[u8]) -> Option<serde_json::Error>,
) -> Option<(String, String)> {
    if plain(&e.to_string()) != "expected value" {
        return None;
    }
    serde_json::from_slice::<IgnoredAny>(text).ok()?;
    let begin = offset(text, e.line(), e.column()).checked_sub(1)?;
    let mut rest = serde_json::Deserializer::from_slice(&text[begin..]).into_iter::<IgnoredAny>();
    rest.next()?.ok()?;
    let end = begin + rest.byte_offset();
    // With a word that nobody knows in its place the reader names those that it knows.
    let asked = again(&[&text[..begin], &b"\"\""[..], &text[end..]].concat())?;
    let asked = plain(&asked.to_string());
    let known = asked.strip_prefix("unknown variant ``, ")?;
    Some((shown(&walk(&text[..begin])), format!("this is not a text: {known}")))
}

/// What is wrong, without where.
fn plain(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(what, _)| what).to_owned()
}

/// The place that `serde_json` calls `line` and `column`.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let begin = match line.checked_sub(2) {
        None => 0,
        Some(before) => text
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
            .nth(before)
            .map_or(text.len(), |(at, _)| at + 1),
    };
    begin.saturating_add(column).min(text.len())
}

/// An object or array that is open.
enum Step {
    /// In an object, at the field with this name.
    Field(Option<String>),
    /// In an array, at this index.
    Index(usize),
}

/// What is open at the end of this beginning of a JSON text.
fn walk(text: &[u8]) -> Vec<Step> {
    let mut open: Vec<Step> = Vec::new();
    let mut at = 0;
    while let Some(first) = text.get(at) {
        at += 1;
        match first {
            b'{' => open.push(Step::Field(None)),
            b'[' => open.push(Step::Index(0)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(Step::Index(n)) => *n += 1,
                Some(Step::Field(name)) => *name = None,
                None => {}
            },
            b'"' => {
                let length = string(&text[at..]);
                if let Some(Step::Field(name @ None)) = open.last_mut() {
                    *name = Some(String::from_utf8_lossy(&text[at..at + length]).into_owned());
                }
                at += length + 1;
            }
            _ => {}
        }
    }
    open
}

/// The length of a string whose opening quote was read.
fn string(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(b) = text.get(at) {
        match b {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn shown(open: &[Step]) -> String {
    let mut out = String::new();
    for step in open {
        match step {
            Step::Index(n) => out.push_str(&format!("[{n}]")),
            Step::Field(None) => {}
            Step::Field(Some(name)) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only its type matters")]
        n: u8,
        #[serde(default)]
        #[allow(dead_code, reason = "only its type matters")]
        even: Option<Even>,
        #[serde(default)]
        #[allow(dead_code, reason = "only its type matters")]
        pair: Option<Pair>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Even;

    impl TryFrom<String> for Even {
        type Error = String;
        fn try_from(text: String) -> Result<Even, String> {
            if text.len().is_multiple_of(2) { Ok(Even) } else { Err(format!("`{text}` is odd")) }
        }
    }

    /// The two must differ.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "BTreeMap<String, u8>")]
    struct Pair;

    impl TryFrom<BTreeMap<String, u8>> for Pair {
        type Error = String;
        fn try_from(all: BTreeMap<String, u8>) -> Result<Pair, String> {
            if all.get("a") == all.get("b") { Err("they are the same".into()) } else { Ok(Pair) }
        }
    }

    fn of(text: &str) -> String {
        let read = |t: &[u8]| serde_json::from_slice::<BTreeMap<String, Vec<Inner>>>(t);
        let e = read(text.as_bytes()).unwrap_err();
        path(text.as_bytes(), &e, &|t| read(t).err())
    }

    #[test]
    fn a_path_leads_to_what_could_not_be_read() {
        assert_eq!(of(r#"{"a": [{"n": 1}, {"n": -5}]}"#), "a[1].n");
        assert_eq!(of("{\"a\": [],\n\n \"b,\\\"{\": [{\"n\":\n \"x\"}]}"), "b,\\\"{[0].n");
        assert_eq!(of(r#"{"a": [{"n": 1}, {"m": 5}]}"#), "a[1].m");
        assert_eq!(of(r#"{"a": 7}"#), "a");
        assert_eq!(of(r#"{"a": [3]}"#), "a[0]");
        assert_eq!(of("7"), "");
        // A field that is missing is noticed at the end of its object.
        assert_eq!(of(r#"{"a": [{"n": 1}, {}]}"#), "a[1]");
        assert_eq!(of(r#"{"a": [{"n": 1}, {"even": null}]}"#), "a[1]");
    }

    #[test]
    fn what_is_refused_for_its_value_is_found_wherever_it_stands() {
        assert_eq!(of(r#"{"a": [{"n": 1, "even": "odd"}]}"#), "a[0].even");
        assert_eq!(of(r#"{"a": [{"even": "odd", "n": 1}]}"#), "a[0].even");
        // The whole object is what is wrong.
        assert_eq!(of(r#"{"a": [{"pair": {"a": 1, "b": 1}, "n": 1}]}"#), "a[0].pair");
        assert_eq!(of(r#"{"a": [{"n": 1, "pair": {"a": 1, "b": 1}}]}"#), "a[0].pair");
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
        Large,
    }

    #[test]
    fn what_is_no_word_is_found_with_the_words_that_are_known() {
        let read = |t: &[u8]| serde_json::from_slice::<BTreeMap<String, Vec<Size>>>(t);
        let of = |text: &str| {
            let e = read(text.as_bytes()).unwrap_err();
            no_word(text.as_bytes(), &e, &|t| read(t).err())
        };
        for value in ["5", "-1.5e3", "true", "[[1], 2]"] {
            let (path, why) = of(&format!(r#"{{"a": ["small", {value}, "large"]}}"#)).unwrap();
            assert_eq!(path, "a[1]");
            assert_eq!(why, "this is not a text: expected `small` or `large`");
        }
        for no_json in [r#"{"a": [5}"#, r#"{"a": [!]}"#, r#"{"a": }"#, "", "7"] {
            assert_eq!(of(no_json), None, "{no_json}");
        }
    }

    #[test]
    fn no_place_is_outside_the_text() {
        assert_eq!(offset(b"", 9, 9), 0);
        assert_eq!(shown(&walk(b"{\"a")), "a");
    }
}
