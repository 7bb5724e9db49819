//! Where in a JSON text something is: the path of fields and indices that leads there.

/// The path to what stands before `line` and `column`, as `serde_json` counts them, like
/// `groups[1].gpus`. Empty for the whole text. The text was read up to there without a fault.
pub(crate) fn path(text: &[u8], line: usize, column: usize) -> String {
    let begin = match line.checked_sub(2) {
        None => 0,
        Some(before) => text
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
            .nth(before)
            .map_or(text.len(), |(at, _)| at + 1),
    };
    let end = begin.saturating_add(column).min(text.len());
    let mut open = Vec::new();
    let mut rest = text.get(..end).unwrap_or_default();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
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
                let length = string(rest);
                if let Some(Step::Field(name @ None)) = open.last_mut() {
                    *name = Some(String::from_utf8_lossy(&rest[..length]).into_owned());
                }
                rest = rest.get(length + 1..).unwrap_or_default();
            }
            _ => {}
        }
    }
    shown(&open)
}

enum Step {
    /// In an object, at the field with this name.
    Field(Option<String>),
    /// In an array, at this index.
    Index(usize),
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

/// The path without its last step.
pub(crate) fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |at| &path[..at])
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
    }

    fn of(text: &str) -> String {
        let e = serde_json::from_str::<BTreeMap<String, Vec<Inner>>>(text).unwrap_err();
        path(text.as_bytes(), e.line(), e.column())
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
        assert_eq!(path(b"", 9, 9), "");
        assert_eq!(path(b"{\"a", 1, 99), "a");
    }

    #[test]
    fn the_last_step_can_be_left_out() {
        assert_eq!([parent("a.b[1]"), parent("a.b"), parent("a")], ["a.b", "a", ""]);
    }
}
