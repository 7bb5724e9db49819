//! Files that a rank writes and the agent reads. A rank that is not isolated can put anything in
//! their place: a pipe that never opens, a link to somewhere else, a directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Opens a regular file, and nothing else; never waits for anybody.
///
/// # Errors
/// It cannot be opened; with `InvalidInput` when it is something else than a regular file.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
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
    /// It cannot be opened. What is no regular file is told once, and is not there from then on.
    pub(crate) fn get(&mut self) -> io::Result<Option<&File>> {
        if self.file.is_none() && !self.refused {
            match open(&self.path, self.write) {
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
    fn only_a_regular_file_is_opened_and_the_rest_is_told_once() {
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
}
