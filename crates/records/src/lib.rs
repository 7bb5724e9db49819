//! Reads records of the log. Reading every kind of event is much code, and whoever calls
//! `serde_json` with a record gets another copy of it: so it is called here, once, in a crate that
//! is compiled for size.

use muster_model::event::Record;

/// Reads a record from a line of the log.
///
/// # Errors
/// When the text is not a record that this version knows.
pub fn read(line: &[u8]) -> Result<Record, serde_json::Error> {
    serde_json::from_slice(line)
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
    }
}
