//! Files that a rank writes and the agent reads. A rank that is not isolated can put anything in
//! their place: a pipe that never opens, a link to somewhere else, a directory.

use rustix::fs::FallocateFlags;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a regular file, and nothing else; never waits for anybody.
///
/// # Errors
/// It cannot be opened; with `InvalidInput` when it is something else than a regular file.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    open_as(path, OpenOptions::new().read(true).write(write))
}

fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let other = || {
        let why = format!("{} is not a regular file: it was replaced", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    let file = opened.map_err(|e| match e.raw_os_error() {
        // A link, a socket, a directory that is to be written.
        Some(libc::ELOOP | libc::ENXIO | libc::EISDIR) => other(),
        _ => e,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// All of a file that is no longer than `most`.
///
/// # Errors
/// It cannot be opened or read, is something else than a regular file, or is longer.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open(path, false)?.take(most.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        let why = format!("{} is longer than {most} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// How much of the disk a file takes, whatever its length says.
pub(crate) fn on_disk(meta: &Metadata) -> u64 {
    meta.blocks().saturating_mul(512)
}

/// Cuts a part out of a file, so that the rest stays where it is.
pub(crate) fn cut_out(file: &File, from: u64, to: u64) -> io::Result<()> {
    if to <= from {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, from, to - from).map_err(Into::into)
}

/// Appends a line of the agent's own to what a rank prints.
///
/// # Errors
/// The file is not there or cannot be written.
pub(crate) fn append_line(path: &Path, text: &str) -> io::Result<()> {
    let mut file = open_as(path, OpenOptions::new().read(true).append(true))?;
    let mut last = [b'\n'];
    if let Some(end) = file.metadata()?.len().checked_sub(1) {
        file.read_at(&mut last, end)?;
    }
    let begin = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{begin}{text}\n").as_bytes())
}

/// One of them, opened once it is there and held from then on.
#[derive(Debug)]
pub(crate) struct RankFile {
    path: PathBuf,
    write: bool,
    file: Option<File>,
    refused: bool,
}

impl RankFile {
    pub(crate) fn new(path: &Path, write: bool) -> RankFile {
        RankFile { path: path.to_path_buf(), write, file: None, refused: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, if it has been opened.
    pub(crate) fn opened(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The file; none while it is not there.
    ///
    /// # Errors
    /// It cannot be opened. What is no regular file is reported once, and is not there from then
    /// on.
    pub(crate) fn get(&mut self) -> io::Result<Option<&File>> {
        if self.file.is_none() && !self.refused {
            let opened = open(&self.path, self.write).or_else(|e| match e.kind() {
                // It can be read all the same; only its space cannot be given back.
                io::ErrorKind::PermissionDenied if self.write => open(&self.path, false),
                _ => Err(e),
            });
            match opened {
                Ok(file) => self.file = Some(file),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => {
                    self.refused = e.kind() == io::ErrorKind::InvalidInput;
                    return Err(e);
                }
            }
        }
        Ok(self.file.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_and_the_rest_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        for name in ["link", "directory", "socket", "pipe"] {
            for write in [false, true] {
                let mut theirs = RankFile::new(&at(name), write);
                let refused = theirs.get().unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name}: {refused}");
                assert!(theirs.get().unwrap().is_none(), "{name} again");
            }
        }
        let mut theirs = RankFile::new(&at("later"), false);
        assert!(theirs.get().unwrap().is_none());
        std::fs::write(at("later"), "").unwrap();
        assert!(theirs.get().unwrap().is_some());
        assert_eq!(read(&at("file"), 4).unwrap(), b"text");
        assert_eq!(read(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_line_of_the_agent_begins_a_line_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.err");
        assert_eq!(append_line(&path, "x").unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "").unwrap();
        append_line(&path, "one").unwrap();
        std::fs::write(&path, "half").unwrap();
        append_line(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "half\ntwo\n");
        let link = dir.path().join("1.err");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        append_line(&link, "three").unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "half\ntwo\n");
    }
}
