//! How things are shown.

pub mod bar;
pub mod colour;
pub mod document;
pub mod facts;
pub mod table;
pub mod time;

use crate::clean;
use crate::fail::Fail;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Writes text for people to stdout, made harmless for their terminal. A reader that went away
/// (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Fail> {
    print_bytes(escape_controls(text).as_bytes())
}

/// Text for people, with whatever a terminal would obey written out but for this process's colours.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    clean::escape_controls(text, colour::on())
}

/// Writes JSON to stdout: the same document for programs, and harmless for a terminal too.
pub fn print_json(json: &str) -> Result<(), Fail> {
    print_bytes(document::escape_controls(json).as_bytes())
}

/// The same for bytes, as they are.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Fail> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Fail::failed(format!("cannot write the output: {e}"))),
        Ok(()) => Ok(()),
    }
}

/// A word beside the output; failures to say it do not matter.
pub fn note(text: &str) {
    let text = clean::escape_controls(text, colour::on() || is_terminal_err());
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Is stdout a terminal?
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Is stderr one that takes colours?
pub fn is_terminal_err() -> bool {
    std::io::stderr().is_terminal() && colour::wanted()
}

/// Columns of the terminal; none when the output goes elsewhere and need not fit.
pub fn width() -> Option<usize> {
    if !is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(w, _)| usize::from(w)).filter(|w| *w >= 20)
}

/// `512GiB`, `23.5GiB`: as people say it, where the exact number does not matter.
pub fn size(bytes: muster_model::Bytes) -> String {
    let units = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        let whole = bytes.0 >> shift;
        if whole > 0 {
            let tenths = ((bytes.0 & ((1 << shift) - 1)) * 10) >> shift;
            return if tenths == 0 {
                format!("{whole}{unit}")
            } else {
                format!("{whole}.{tenths}{unit}")
            };
        }
    }
    format!("{}B", bytes.0)
}

/// GPUs from thousandths: `8`, `0.25`.
pub fn gpus(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A part in thousandths as percent: `66.7%`.
pub fn percent(milli: u32) -> String {
    let tenths = if milli.is_multiple_of(10) { String::new() } else { format!(".{}", milli % 10) };
    format!("{}{tenths}%", milli / 10)
}

/// `1 node`, `2 nodes`.
pub fn plural(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

/// The text of a file that somebody names.
pub fn read_text(file: &std::path::Path) -> Result<String, Fail> {
    std::fs::read_to_string(file)
        .map_err(|e| Fail::usage(format!("cannot read {}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::{gpus, percent, size};
    use muster_model::Bytes;

    #[test]
    fn sizes_are_reported_in_their_largest_unit() {
        assert_eq!(size(Bytes(0)), "0B");
        assert_eq!(size(Bytes::gib(512)), "512GiB");
        assert_eq!(size(Bytes(24_682_416 << 10)), "23.5GiB");
        assert_eq!(size(Bytes((1 << 60) - 1)), "1023.9PiB");
    }

    #[test]
    fn thousandths_are_reported_as_people_say_them() {
        for (milli, text) in [(0, "0"), (250, "0.25"), (8000, "8"), (12_345, "12.345")] {
            assert_eq!(gpus(milli), text);
        }
        assert_eq!(
            (percent(667), percent(500), percent(0)),
            ("66.7%".into(), "50%".into(), "0%".into())
        );
    }
}
