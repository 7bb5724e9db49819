//! Reads records of the log. Reading every kind of event is much code, and whoever calls
//! `serde_json` with a record gets another copy of it: so it is called here, once, in a crate that
//! is compiled for size.

#![forbid(unsafe_code)]

use muster_model::event::{Event, Record, SCHEMA};

/// Reads a record from a line of the log.
///
/// # Errors
/// When the text is not a record that this version knows.
pub fn read(line: &[u8]) -> Result<Record, serde_json::Error> {
    let mut kind = None;
    match attempt(line, &mut kind) {
        // `data` stands before `kind`: no log is written so, but a JSON object whose fields were
        // sorted has them so.
        Err(_) if kind.is_some() => attempt(line, &mut kind),
        done => done,
    }
}

/// Reads an event from its kind and its data, as the API shows them.
///
/// # Errors
/// When this version knows no such event.
pub fn event(kind: &str, data: &serde_json::Value) -> Result<Event, serde_json::Error> {
    let line = serde_json::json!({
        "seq": 1, "at": 0, "v": SCHEMA, "org": "", "actor": "", "kind": kind, "data": data,
    });
    read(line.to_string().as_bytes()).map(|r| r.event)
}

fn attempt(line: &[u8], kind: &mut Option<String>) -> Result<Record, serde_json::Error> {
    let mut from = serde_json::Deserializer::from_slice(line);
    let record = Record::read(&mut from, kind)?;
    from.end()?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"seq":2,"at":5,"v":1,"org":"o","project":"p","actor":"a","kind":"site_created","data":{"site":"x"}}"#;

    #[test]
    fn fields_may_stand_in_any_order() {
        let r = read(LINE.as_bytes()).unwrap();
        let mixed = r#"{"data":{"site":"x"},"new":[1],"v":1,"kind":"site_created","seq":2,"actor":"a","org":"o","at":5,"project":"p"}"#;
        assert_eq!(read(mixed.as_bytes()).unwrap(), r);
        assert_eq!(r.to_json().unwrap(), LINE.as_bytes());
        assert_eq!(event("site_created", &serde_json::json!({"site": "x"})).unwrap(), r.event);
        assert!(event("gpu_melted", &serde_json::json!({})).is_err());
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        let with = |kind: &str, data: &str, data_first: bool| {
            let (kind, data) = (format!(r#""kind":"{kind}""#), format!(r#""data":{data}"#));
            let (one, two) = if data_first { (&data, &kind) } else { (&kind, &data) };
            format!(r#"{{"seq":3,"at":5,"v":1,"org":"o","actor":"a",{one},{two}}}"#)
        };
        for (kind, data) in [
            ("leader_changed", r#"{"epoch":2,"server":"s"}"#),
            ("leader_changed", r#"{"epoch":2,"server":"s","first_job":9}"#),
            ("job_released", r#"{"job":4}"#),
            ("job_released", r#"{"job":4,"decided":true}"#),
            ("attempt_started", r#"{"key":{"job":4,"attempt":1},"deadline":null}"#),
            ("clock_stepped", r#"{"by_ms":-5,"since_boot":"9ms","before":7,"after":2}"#),
            (
                "clock_stepped",
                r#"{"node":"n1","by_ms":-5,"since_boot":"9ms","before":7,"after":2}"#,
            ),
        ] {
            let line = with(kind, data, false);
            let r = read(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(r.to_json().unwrap()).unwrap(), line);
            assert_eq!(read(with(kind, data, true).as_bytes()).unwrap(), r);
        }
        // Letters that the text does not hold as they are.
        let escaped = LINE.replace("site_created", "site\\u005fcreated");
        assert_eq!(read(escaped.as_bytes()).unwrap(), read(LINE.as_bytes()).unwrap());
    }

    #[test]
    fn what_is_missing_twice_or_unknown_is_named() {
        let says = |text: &str, word: &str| {
            let e = read(text.as_bytes()).unwrap_err().to_string();
            assert!(e.contains(word), "{word}: {e}");
        };
        for field in ["seq", "at", "v", "org", "actor", "kind", "data"] {
            says(&LINE.replace(&format!("\"{field}\""), "\"other\""), field);
        }
        says(&LINE.replace("\"at\":5", "\"seq\":5"), "seq");
        says(&LINE.replace("site_created", "gpu_melted"), "gpu_melted");
        for (text, word) in [
            (r#""data":{"site":"x"},"kind":"gpu_melted""#, "gpu_melted"),
            (r#""kind":"gpu_melted""#, "gpu_melted"),
            (r#""kind":"site_created""#, "missing field `data`"),
            (r#""kind":"clock_stepped""#, "missing field `data`"),
            (r#""data":{"site":"x"}"#, "missing field `kind`"),
            (r#""data":{},"kind":"site_created""#, "missing field `site`"),
            (r#""kind":"site_created","data":["x"]"#, "invalid type: sequence"),
            (r#""kind":"site_created","data":{"site":"x"},"data":1"#, "duplicate field `data`"),
            (r#""data":1,"data":{"site":"x"},"kind":"site_created""#, "duplicate field `data`"),
            (r#""kind":"site_created","kind":"x","data":1"#, "duplicate field `kind`"),
            (r#""data":1,"kind":"site_created","kind":"x""#, "duplicate field `kind`"),
        ] {
            let text = format!(r#"{{"seq":2,"at":5,"v":1,"org":"o","actor":"a",{text}}}"#);
            says(&text, word);
        }
        says(&format!("{LINE} {LINE}"), "trailing");
    }
}
