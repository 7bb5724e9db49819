//! Following one stream of a rank's output. The file grows by the rank's own hand; what the
//! server keeps is cut out of it from the front, so that offsets stay what they were.

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of one message.
const CHUNK: usize = 64 * 1024;
/// Space is given back in pieces of this size: smaller ones cost more than they free.
const PUNCH: u64 = 1 << 20;

/// One stream.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// Next byte to ship.
    next: u64,
    /// Everything before it is kept by the server.
    kept: u64,
    /// Everything before it has been cut out of the file.
    freed: u64,
    /// Added to positions in the file: grows when a rank empties its own output.
    base: u64,
    /// Most that may wait; the oldest is dropped beyond it.
    cap: u64,
    dropped: u64,
}

impl Tail {
    pub(crate) fn new(path: &Path, kept: u64, cap: u64) -> Tail {
        Tail {
            path: path.to_path_buf(),
            file: None,
            next: kept,
            kept,
            freed: 0,
            base: 0,
            cap,
            dropped: 0,
        }
    }

    fn size(&mut self) -> io::Result<Option<u64>> {
        if self.file.is_none() {
            match File::options().read(true).write(true).open(&self.path) {
                Ok(f) => self.file = Some(f),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        let Some(file) = &self.file else { return Ok(None) };
        Ok(Some(file.metadata()?.len()))
    }

    /// The next piece of output with its offset, if there is one.
    pub(crate) fn read(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        let Some(size) = self.size()? else { return Ok(None) };
        if self.base + size < self.next && self.file_position() > size {
            // The rank emptied its output; go on counting, so that offsets never go back.
            self.base = self.next;
            self.freed = 0;
        }
        let end = self.base + size;
        if end.saturating_sub(self.next) > self.cap {
            let to = end - self.cap / 2;
            self.dropped += to - self.next;
            tracing::warn!(file = %self.path.display(), dropped = to - self.next,
                "output is written faster than it can be shipped: the oldest was dropped");
            self.next = to;
            self.free(to);
        }
        if end <= self.next {
            return Ok(None);
        }
        let Some(file) = &self.file else { return Ok(None) };
        let want = usize::try_from(end - self.next).unwrap_or(CHUNK).min(CHUNK);
        let mut buffer = vec![0; want];
        let got = file.read_at(&mut buffer, self.file_position())?;
        if got == 0 {
            return Ok(None);
        }
        buffer.truncate(got);
        let offset = self.next;
        self.next += got as u64;
        Ok(Some((offset, buffer.into())))
    }

    fn file_position(&self) -> u64 {
        self.next - self.base.min(self.next)
    }

    /// Whether everything written so far has been shipped.
    pub(crate) fn drained(&mut self) -> bool {
        let end = match self.size() {
            Ok(Some(size)) => self.base + size,
            // What cannot be read can never be shipped; do not wait for it.
            Ok(None) | Err(_) => 0,
        };
        end <= self.next
    }

    /// The server keeps everything before `offset`.
    pub(crate) fn keep(&mut self, offset: u64) {
        self.kept = self.kept.max(offset.min(self.next));
        if self.kept.saturating_sub(self.base) >= self.freed + PUNCH {
            self.free(self.kept);
        }
    }

    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Ships again from what is known to be kept.
    pub(crate) fn rewind(&mut self) {
        self.next = self.kept.max(self.base + self.freed);
    }

    fn free(&mut self, before: u64) {
        let to = before.saturating_sub(self.base) & !4095;
        let Some(file) = self.file.as_ref().filter(|_| to > self.freed) else { return };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system that cannot do it only costs space.
        if rustix::fs::fallocate(file, flags, self.freed, to - self.freed).is_ok() {
            self.freed = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn all(tail: &mut Tail) -> Vec<(u64, Bytes)> {
        std::iter::from_fn(|| tail.read().unwrap()).collect()
    }

    #[test]
    fn what_is_kept_is_cut_out_and_offsets_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, vec![b'x'; 3 << 20]).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 30);
        let sent: usize = all(&mut tail).iter().map(|(_, b)| b.len()).sum();
        assert_eq!(sent, 3 << 20);
        assert!(tail.drained());
        let before = std::fs::metadata(&path).unwrap().blocks();
        tail.keep(2 << 20);
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(after.len(), 3 << 20);
        assert!(after.blocks() < before, "{} < {before}", after.blocks());
        tail.rewind();
        assert_eq!(tail.read().unwrap().unwrap().0, 2 << 20);
    }

    #[test]
    fn too_much_unshipped_output_drops_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 16);
        let (offset, data) = tail.read().unwrap().unwrap();
        assert_eq!(offset + data.len() as u64, 1 << 20);
        assert_eq!(tail.dropped, offset);
    }

    #[test]
    fn output_emptied_by_its_rank_goes_on_at_a_later_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, "first line\n").unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 20);
        assert_eq!(all(&mut tail).len(), 1);
        std::fs::write(&path, "new\n").unwrap();
        let (offset, data) = tail.read().unwrap().unwrap();
        assert_eq!((offset, &data[..]), (11, &b"new\n"[..]));
        assert!(tail.drained());
    }

    #[test]
    fn a_file_that_never_appears_is_drained() {
        let mut tail = Tail::new(Path::new("/nonexistent/0.out"), 0, 1);
        assert!(tail.drained());
        assert!(tail.read().unwrap().is_none());
    }
}
