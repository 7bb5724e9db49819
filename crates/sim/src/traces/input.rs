//! From bytes to text: gzip is known by its first bytes.

use super::error::{OnBadRow, TraceError};
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

/// No trace is larger; a file that unpacks to more is not one.
const LARGEST: u64 = 1 << 30;

/// What a file's bytes hold.
pub(super) struct Unpacked<'a> {
    /// Everything that could be unpacked.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Why there is no more.
    pub(super) cut: Option<String>,
}

/// Unpacks gzip, or gives the bytes back. Damage ends the text; it is reported in `cut`.
pub(super) fn open(bytes: &[u8]) -> Unpacked<'_> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Unpacked { bytes: Cow::Borrowed(bytes), cut: None };
    }
    let mut out = Vec::new();
    let ended = MultiGzDecoder::new(bytes).take(LARGEST).read_to_end(&mut out);
    let cut = match ended {
        Ok(_) if out.len() as u64 == LARGEST => Some("it unpacks to more than 1 GiB".into()),
        Ok(_) => None,
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Some(format!(
            "the gzip data ends early, after {} bytes of text; the file may be cut off",
            out.len()
        )),
        Err(e) => Some(format!("the gzip data is damaged after {} bytes of text: {e}", out.len())),
    };
    Unpacked { bytes: Cow::Owned(out), cut }
}

/// The text of a file, for a reader: what is damaged is an error, or with [`OnBadRow::Skip`] the
/// second part of the answer, and the last line is then left out if it has no end.
pub(super) fn text<'a>(
    file: &str,
    bytes: &'a [u8],
    on_bad: OnBadRow,
) -> Result<(Cow<'a, [u8]>, Option<String>), TraceError> {
    let Unpacked { bytes, cut } = open(bytes);
    match (cut, on_bad) {
        (None, _) => Ok((bytes, None)),
        (Some(cut), OnBadRow::Stop) => Err(damaged(file, &cut)),
        (Some(cut), OnBadRow::Skip) => {
            let mut whole = bytes.into_owned();
            whole.truncate(whole.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
            Ok((Cow::Owned(whole), Some(cut)))
        }
    }
}

fn damaged(file: &str, cut: &str) -> TraceError {
    TraceError::new(file, cut)
        .hint("fetch it again, or skip bad rows to use what can be read of it")
}

/// Unpacks a whole file that is gzip (known by its first bytes) or plain text. What is cut off or
/// damaged, and what is not text, is an error; the readers below do the same and can skip.
pub fn unpack(bytes: Vec<u8>) -> Result<String, TraceError> {
    let bytes = match open(&bytes) {
        Unpacked { cut: Some(cut), .. } => return Err(damaged("trace", &cut)),
        Unpacked { bytes: Cow::Owned(bytes), cut: None } => bytes,
        Unpacked { bytes: Cow::Borrowed(_), cut: None } => bytes,
    };
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        TraceError::new("trace", format!("line {line} is not text (UTF-8)"))
    })
}

/// Reads and unpacks one file.
#[allow(clippy::disallowed_methods, reason = "files of a scenario are read here, before it runs")]
pub fn read_file(path: &Path) -> Result<String, TraceError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|e| TraceError::new(&name, format!("it cannot be read: {e}")))?;
    unpack(bytes).map_err(|e| TraceError { file: name, ..e })
}

#[cfg(test)]
pub(super) fn packed(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text).unwrap();
    gz.finish().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_known_by_its_first_bytes() {
        assert_eq!(unpack(b"a,b\n1,2\n".to_vec()).unwrap(), "a,b\n1,2\n");
        assert_eq!(unpack(packed(b"a,b\n1,2\n")).unwrap(), "a,b\n1,2\n");
        let mut two = packed(b"a\n");
        two.extend(packed(b"b\n"));
        assert_eq!(unpack(two).unwrap(), "a\nb\n");
    }

    #[test]
    fn a_cut_off_file_says_so() {
        let gz = packed("some words of a trace\n".repeat(1000).as_bytes());
        let e = unpack(gz[..gz.len() - 9].to_vec()).unwrap_err().to_string();
        assert!(e.contains("ends early") && e.contains("cut off"), "{e}");
        let e = unpack(b"ok\nfine\n\xff\xfe\n".to_vec()).unwrap_err().to_string();
        assert_eq!(e, "trace: line 3 is not text (UTF-8)");
        let e = read_file(Path::new("no/such.csv")).unwrap_err();
        assert_eq!(e.file, "no/such.csv");
    }
}
