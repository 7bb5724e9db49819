//! Where in an attempt's output free space on the disk was short, so that a reader learns why a
//! part is missing. A small file next to the segments names the offsets at which that began.

use super::names::{make_private, parse_name, segment_name};
use muster_link::messages::Stream;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const FILE: &str = "no-space";
/// Longest such file; later places have no reason.
const LONGEST: u64 = 64 << 10;

/// Notes that output of a stream is not stored from here on. Gives what that takes of the disk.
pub(super) fn note(dir: &Path, rank: u32, stream: Stream, from: u64) -> io::Result<u64> {
    make_private(dir)?;
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(dir.join(FILE))?;
    let line = segment_name(rank, stream, from) + "\n";
    let length = line.len() as u64;
    if file.metadata()?.len() + length > LONGEST {
        return Ok(0);
    }
    file.write_all(line.as_bytes())?;
    Ok(length)
}

/// Whether it was noted of a stream in this range.
pub(super) fn noted(dir: &Path, rank: u32, stream: Stream, range: &Range<u64>) -> bool {
    let text = fs::read_to_string(dir.join(FILE)).unwrap_or_default();
    text.lines()
        .filter_map(parse_name)
        .any(|(of, kind, from)| (of, kind) == (rank, stream) && range.contains(&from))
}
