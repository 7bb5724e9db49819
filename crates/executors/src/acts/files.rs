//! Files that are there as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a directory that only the server reads.
pub(super) fn dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file as a whole; it is durable when this returns.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut f =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    f.write_all(bytes)?;
    f.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Appends a line to a file unless `same` says of one that it is there already; true when it was
/// appended. A line that a crash cut short is ended first.
pub(super) fn append_once(
    path: &Path,
    line: &str,
    same: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    let mut cut = false;
    match File::open(path) {
        Ok(f) => {
            let mut lines = BufReader::new(f);
            let mut bytes = Vec::new();
            while lines.read_until(b'\n', &mut bytes)? > 0 {
                if same(&String::from_utf8_lossy(&bytes)) {
                    return Ok(false);
                }
                cut = bytes.last() != Some(&b'\n');
                bytes.clear();
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let mut f = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let start = if cut { "\n" } else { "" };
    f.write_all(format!("{start}{line}\n").as_bytes())?;
    f.sync_all()?;
    Ok(true)
}
