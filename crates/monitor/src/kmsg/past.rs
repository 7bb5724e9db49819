//! What the kernel's log holds already, for whoever asks about the past.

use super::Lines;
use muster_model::units::{Span, Time};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Most bytes read of a journal; the kernel's own buffer is far smaller.
const MOST: u64 = 64 << 20;
/// No log is worth waiting longer for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was read of the past.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastLogSummary {
    /// Where it was read.
    pub from: Option<String>,
    /// Why nothing was.
    pub why_not: Option<String>,
    /// Lines that were looked at.
    pub lines: u64,
}

/// Reads what the log holds, calling `each` with when a line was written and the line. Records of
/// `/dev/kmsg` count from boot; `uptime` and `now` turn that into a time of day.
pub fn past(
    path: Option<&Path>,
    now: Time,
    root: &Path,
    each: &mut dyn FnMut(Time, &[u8]),
) -> PastLogSummary {
    let boot = now - uptime(root).unwrap_or(Span(0));
    let given = path.is_some();
    let path = path.unwrap_or(Path::new("/dev/kmsg"));
    match kmsg(path, boot, now, each) {
        Ok(lines) => {
            PastLogSummary { from: Some(path.display().to_string()), why_not: None, lines }
        }
        Err(why) if given => PastLogSummary { why_not: Some(why), ..PastLogSummary::default() },
        Err(why) => match journal(now, each) {
            Ok(lines) => PastLogSummary { from: Some("journalctl".into()), why_not: None, lines },
            Err(other) => PastLogSummary {
                why_not: Some(format!("{why}; {other}")),
                ..PastLogSummary::default()
            },
        },
    }
}

fn uptime(root: &Path) -> Option<Span> {
    let text = std::fs::read_to_string(root.join("proc/uptime")).ok()?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    Some(Span((seconds.max(0.0) * 1000.0) as u64))
}

fn kmsg(
    path: &Path,
    boot: Time,
    now: Time,
    each: &mut dyn FnMut(Time, &[u8]),
) -> Result<u64, String> {
    let cannot = |e: std::io::Error| format!("{} cannot be read: {e}", path.display());
    let mut file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(cannot)?;
    let mut buffer = vec![0_u8; 16 << 10];
    let (mut lines, mut count, mut bytes) = (Lines::default(), 0, 0);
    let began = Instant::now();
    while bytes < MOST && began.elapsed() < PATIENCE {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                bytes += n as u64;
                lines.feed(&buffer[..n], |r| {
                    count += 1;
                    let at = r.usec.map_or(now, |usec| boot + Span(usec / 1000));
                    each(at, r.text);
                });
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // Overwritten while we read: the next read goes on with what is there.
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::BrokenPipe) => {}
            Err(e) => return Err(cannot(e)),
        }
    }
    Ok(count)
}

fn journal(now: Time, each: &mut dyn FnMut(Time, &[u8])) -> Result<u64, String> {
    let cannot = |e: std::io::Error| format!("journalctl cannot be started: {e}");
    let mut child = muster_supervise::foreign("journalctl")
        .args(["--dmesg", "--boot", "--output=cat", "--no-pager", "--quiet", "--lines=200000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot)?;
    let (mut lines, mut count) = (Lines::default(), 0);
    if let Some(out) = child.stdout.take() {
        let mut out = out.take(MOST);
        let mut buffer = vec![0_u8; 16 << 10];
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match out.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => lines.feed(&buffer[..n], |r| {
                    count += 1;
                    each(now, r.text);
                }),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    // Every boot writes hundreds of lines: none means that this user may not see them.
    if count == 0 {
        return Err("journalctl shows nothing of this boot to this user".into());
    }
    Ok(count)
}
