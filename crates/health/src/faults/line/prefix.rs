//! What loggers put before the kernel's words: `dmesg`, `/dev/kmsg`, syslog, journald.

use super::text::{number, split};

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// A prefix may be made of a few parts, such as a syslog stamp and the kernel's own.
const PARTS: usize = 6;
/// Longest stamp in brackets.
const STAMP: usize = 48;

/// What the front of a line is.
enum Step<'a> {
    /// A prefix, and what follows it.
    Rest(&'a [u8]),
    /// No prefix: the kernel's words begin here.
    Words,
    /// The mark of another program.
    Foreign,
}

impl<'a> From<Option<&'a [u8]>> for Step<'a> {
    fn from(rest: Option<&'a [u8]>) -> Step<'a> {
        rest.map_or(Step::Words, Step::Rest)
    }
}

/// The kernel's own words; none where another program wrote the line.
pub(super) fn body(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line.trim_ascii();
    for _ in 0..PARTS {
        let step = match rest.first()? {
            b'<' => priority(rest),
            b'[' => stamp(rest).into(),
            b'0'..=b'9' => numbered(rest),
            b'A'..=b'Z' => dated(rest),
            b'k' => named(rest).into(),
            // `dmesg -x` of what a program wrote into the kernel's log.
            b'u' | b'd' | b'a' | b's' | b'c' | b'l' if facility(rest).is_some() => Step::Foreign,
            _ => Step::Words,
        };
        match step {
            Step::Rest(next) => rest = next.trim_ascii_start(),
            Step::Words => return Some(rest),
            Step::Foreign => return None,
        }
    }
    Some(rest)
}

/// `<3>`.
fn priority(line: &[u8]) -> Step<'_> {
    let Some((value, rest)) = number(&line[1..]) else { return Step::Words };
    let Some(rest) = rest.strip_prefix(b">") else { return Step::Words };
    if from_kernel(value) { Step::Rest(rest) } else { Step::Foreign }
}

/// Eight levels for each facility; the kernel is the first.
fn from_kernel(priority: u32) -> bool {
    priority < 8
}

/// `[  123.456789]`, `[Fri Aug 30 11:11:22 2024]`, `[  T123]`.
fn stamp(line: &[u8]) -> Option<&[u8]> {
    let (inside, rest) = split(line.get(1..STAMP.min(line.len()))?, b']')?;
    let inside = inside.trim_ascii();
    let time = inside.first()?.is_ascii_digit()
        && inside
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'<' | b'>' | b'+' | b' '));
    let caller = matches!(inside.first()?, b'T' | b'C') && inside.len() > 1;
    let caller = caller && inside.iter().skip(1).all(u8::is_ascii_digit);
    let day = DAYS.iter().any(|d| inside.starts_with(*d)) && inside.get(3) == Some(&b' ');
    let taken = line.len().min(STAMP) - rest.len();
    (time || caller || day).then(|| line.get(taken..)).flatten()
}

/// `6,1234,5678901,-;` of `/dev/kmsg`, or `2024-08-30T11:43:09.123456+00:00 `.
fn numbered(line: &[u8]) -> Step<'_> {
    let Some((value, rest)) = number(line) else { return Step::Words };
    match rest.first() {
        Some(b',') => {
            let Some((head, _)) = split(rest.get(..96).unwrap_or(rest), b';') else {
                return Step::Words;
            };
            let record = head.split(|b| *b == b',').skip(1).take(2);
            if !record.into_iter().all(|f| f.iter().all(u8::is_ascii_digit)) {
                return Step::Words;
            }
            match rest.get(head.len() + 1..) {
                Some(rest) if from_kernel(value) => Step::Rest(rest),
                _ => Step::Foreign,
            }
        }
        Some(b'-') if (1970..10_000).contains(&value) => {
            let Some((_, rest)) = split(line, b' ') else { return Step::Words };
            // `2024-08-30 11:43:09` has its time in a word of its own.
            let clock = rest.first().is_some_and(u8::is_ascii_digit) && rest.get(2) == Some(&b':');
            let rest = if clock { split(rest, b' ').map_or(rest, |(_, r)| r) } else { rest };
            logged(rest)
        }
        _ => Step::Words,
    }
}

/// `Feb 14 05:03:41 host kernel: `.
fn dated(line: &[u8]) -> Step<'_> {
    if line.get(3) != Some(&b' ') || !MONTHS.iter().any(|m| line.starts_with(*m)) {
        return Step::Words;
    }
    let rest = line[4..].trim_ascii_start();
    let Some((_, rest)) = number(rest) else { return Step::Words };
    let rest = rest.trim_ascii_start();
    let clock = rest.get(2) == Some(&b':') && rest.get(5) == Some(&b':');
    if !clock {
        return Step::Words;
    }
    let Some((_, rest)) = split(rest, b' ') else { return Step::Words };
    // Such a line always names a program; what is not the kernel's is not read.
    match logged(rest) {
        Step::Rest(rest) if kernel(line, rest) => Step::Rest(rest),
        _ => Step::Foreign,
    }
}

/// Whether `kernel:` ended right before `rest`.
fn kernel(line: &[u8], rest: &[u8]) -> bool {
    let before = line.get(..line.len() - rest.len()).unwrap_or_default();
    before.trim_ascii_end().ends_with(b"kernel:")
}

/// After a stamp: `host kernel: WORDS`, `host program[12]: WORDS`, or the words themselves.
fn logged(rest: &[u8]) -> Step<'_> {
    let Some((_, after_host)) = split(rest, b' ') else { return Step::Rest(rest) };
    if let Some(words) = after_host.strip_prefix(b"kernel:") {
        return Step::Rest(words);
    }
    let program = after_host.split(|b| *b == b' ').next().unwrap_or_default();
    let name = program.strip_suffix(b"]:").and_then(|p| split(p, b'['));
    match name {
        Some((_, pid)) if pid.iter().all(u8::is_ascii_digit) => Step::Foreign,
        _ => Step::Rest(rest),
    }
}

/// `kernel: ` alone, or `kern  :err   : ` of `dmesg -x`.
fn named(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"kernel: ").or_else(|| facility(line))
}

/// `kern  :err   : `: what follows it.
fn facility(line: &[u8]) -> Option<&[u8]> {
    let head = line.get(..15)?;
    let shape = head[6] == b':' && head[13] == b':' && head[14] == b' ';
    let word = |w: &[u8]| {
        let w = w.trim_ascii_end();
        !w.is_empty() && w.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    (shape && word(&head[..6]) && word(&head[7..13])).then(|| &line[15..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loggers_put_before_is_taken_off() {
        for line in [
            "NVRM: x",
            "  NVRM: x\n",
            "<3>NVRM: x",
            "<3>[   12.345678] NVRM: x",
            "[   12.345678] NVRM: x",
            "[1234567.345678][ T1234] NVRM: x",
            "[   12.345678] [  C12] NVRM: x",
            "[Fri Aug 30 11:11:22 2024] NVRM: x",
            "3,1234,567890123,-;NVRM: x",
            "3,1234,567890123,-,caller=T12;NVRM: x",
            "kern  :err   : [   12.345678] NVRM: x",
            "kern  :err   : 2025-01-25T10:34:54,859532+00:00 NVRM: x",
            "kern  :warn  : [Fri Aug 30 11:11:22 2024] NVRM: x",
            "2025-01-25T10:34:54,859532+00:00 NVRM: x",
            "2025-01-25T10:34:54.859532+00:00 host-1 kernel: NVRM: x",
            "2025-01-25 10:34:54 host-1 kernel: NVRM: x",
            "Feb 14 05:03:41 host-1 kernel: NVRM: x",
            "Feb  4 05:03:41 host-1 kernel: [   12.345678] NVRM: x",
            "Feb  4 05:03:41 host-1 kernel: [   12.345678][T12] NVRM: x",
            "kernel: NVRM: x",
        ] {
            let got = body(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(got.as_deref(), Some("NVRM: x"), "{line}");
        }
    }

    #[test]
    fn what_a_program_wrote_is_not_read() {
        for line in [
            "12,1234,567890123,-;NVRM: x",
            "<30>systemd[1]: NVRM: x",
            "user  :info  : [   12.345678] NVRM: x",
            "daemon:info  : [   12.345678] NVRM: x",
            "Feb 14 05:03:41 host-1 systemd[1]: NVRM: x",
            "Feb 14 05:03:41 host-1 app: kernel: NVRM: x",
            "2025-01-25T10:34:54.859532+00:00 host-1 app[12]: NVRM: x",
            "",
        ] {
            assert_eq!(body(line.as_bytes()).map(String::from_utf8_lossy), None, "{line}");
        }
    }

    #[test]
    fn brackets_of_the_kernel_itself_stay() {
        for line in ["[Hardware Error]: x", "[drm] x", "[  abc] x", "[", "[12.3", "6,7"] {
            let got = body(line.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(got.as_deref(), Some(line), "{line}");
        }
    }
}
