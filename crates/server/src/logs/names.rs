//! How the files of an attempt's output are named, and how their directories are made.

use muster_link::messages::Stream;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Makes a directory, and those above it, for this user alone: what ranks print is their project's.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The file in its attempt's directory.
pub(super) fn segment_name(rank: u32, stream: Stream, start: u64) -> String {
    let kind = match stream {
        Stream::Stdout => "out",
        Stream::Stderr => "err",
    };
    if start == 0 { format!("{rank}.{kind}") } else { format!("{rank}.{kind}.{start}") }
}

/// What the file with a segment's times has after the segment's name.
pub(super) const TIMES: &str = ".at";

/// The file with the times of a segment.
pub(super) fn times_name(rank: u32, stream: Stream, start: u64) -> String {
    segment_name(rank, stream, start) + TIMES
}

/// What a file's name says: its rank, its stream and where it begins.
pub(super) fn parse_name(name: &str) -> Option<(u32, Stream, u64)> {
    let mut parts = name.split('.');
    let rank = parts.next()?.parse().ok()?;
    let stream = match parts.next()? {
        "out" => Stream::Stdout,
        "err" => Stream::Stderr,
        _ => return None,
    };
    let start = parts.next().map_or(Some(0), |s| s.parse().ok())?;
    parts.next().is_none().then_some((rank, stream, start))
}
