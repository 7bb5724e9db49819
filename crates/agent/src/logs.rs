//! Following one stream of a rank's output. The file grows by the rank's own hand; what the
//! server keeps is cut out of it from the front, so that offsets stay what they were.

use crate::rank_file::{self, RankFile};
use bytes::Bytes;
use muster_model::units::Span;
use rustix::fs::{SeekFrom, seek};
use std::collections::VecDeque;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of one message.
const CHUNK: usize = 64 * 1024;
/// Space is given back in pieces of this size: smaller ones cost more than they free.
const PUNCH: u64 = 1 << 20;
/// Holes are looked for where more than this waits: a file system may take its time to answer.
const HOLE: u64 = 1 << 20;
/// What is written within this time counts as seen at one moment.
const MOMENT: Duration = Duration::from_millis(100);
/// What a gap counts as among bytes to be shipped: a rank can make as many as it likes.
const GAP: usize = 4 << 10;
/// What a rank's output says where the end of its file was set.
const CUT: &str = "muster: space that was reserved after the end of this output was freed; what was printed at that moment may be missing";
/// Moments that are noted of output that the server does not keep yet; beyond it every second one goes.
const MOMENTS: usize = 1024;

/// What a piece counts as among bytes to be shipped.
pub(crate) fn cost(data: &[u8]) -> usize {
    if data.is_empty() { GAP } else { data.len() }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Tail {
    file: RankFile,
    /// Next byte to ship.
    next: u64,
    /// Where the last piece that was shipped ended: what is between it and the next byte is a gap that the
    /// server does not know of.
    shipped: u64,
    /// How far the output went at the last look.
    end: u64,
    /// Everything before it is kept by the server.
    kept: u64,
    /// Everything before it has been cut out of the file.
    freed: u64,
    /// Added to positions in the file: grows when a rank empties its own output.
    base: u64,
    /// Most that may wait; the oldest is dropped beyond it.
    cap: u64,
    /// There is no hole between the next byte and this position in the file.
    solid: u64,
    dropped: u64,
    /// So much was dropped when that was last reported.
    reported: u64,
    /// Up to which offset output was there at which moment, for what is not kept yet. No moment where
    /// nobody looked before.
    seen: VecDeque<(u64, Option<Instant>)>,
}

impl Tail {
    pub(crate) fn new(path: &Path, kept: u64, cap: u64) -> Tail {
        Tail {
            file: RankFile::new(path, true),
            next: kept,
            shipped: kept,
            end: 0,
            kept,
            freed: 0,
            base: 0,
            cap,
            solid: 0,
            dropped: 0,
            reported: 0,
            seen: VecDeque::new(),
        }
    }

    /// It was written while no agent looked: nobody knows when.
    pub(crate) fn found_again(&mut self) {
        if let Ok(Some(found)) = self.stat_file()
            && found.len() > self.kept
        {
            self.seen.push_back((found.len(), None));
        }
    }

    /// Notes what has been written by now, and drops what is too much to wait: also while nothing can be
    /// shipped.
    pub(crate) fn look(&mut self, now: Instant) {
        if let Ok(Some(found)) = self.stat_file() {
            self.follow_cut(found.len());
            self.note(self.base.saturating_add(found.len()), now);
            self.bound(&found);
        }
    }

    /// Drops the oldest of what waits beyond the cap, and frees what a rank has put elsewhere in the
    /// file: before what was cut out, or after its end.
    fn bound(&mut self, found: &Metadata) {
        let size = found.len();
        let end = self.base.saturating_add(size);
        if end.saturating_sub(self.next) > self.cap {
            let to = end - self.cap / 2;
            self.pass_over(to);
            self.free(to);
        }
        let most = size.saturating_sub(self.freed).saturating_add(self.cap.saturating_mul(2));
        if rank_file::on_disk(found) > most
            && let Some(file) = self.file.opened()
        {
            let _ = rank_file::cut_out(file, 0, self.freed);
            // What is reserved after the end is freed by setting the length: only where that is needed,
            // and to the length of this moment. What a rank writes meanwhile is lost.
            if let Ok(now) = file.metadata()
                && rank_file::on_disk(&now) > most.saturating_add(now.len().saturating_sub(size))
                && file.set_len(now.len()).is_ok()
                && file.metadata().is_ok_and(|m| rank_file::on_disk(&m) < rank_file::on_disk(&now))
            {
                let _ = rank_file::append_line(self.file.path(), CUT);
            }
        }
    }

    /// Goes on counting where the rank made its output shorter, so that offsets never go back: what was
    /// seen and not shipped before is a gap.
    fn follow_cut(&mut self, size: u64) {
        let end = self.base.saturating_add(size);
        let position = self.file_position();
        let begin = match self.end.saturating_sub(end) {
            // Emptied, or as good as that.
            _ if position > size => Some(self.end.max(self.next)),
            cut if cut > 0 && position == 0 => Some(self.next.saturating_add(cut)),
            _ => None,
        };
        if let Some(begin) = begin {
            self.pass_over(begin);
            self.base = self.next;
            self.freed = 0;
            self.solid = 0;
            self.seen.clear();
        }
        self.end = self.base.saturating_add(size);
    }

    fn note(&mut self, end: u64, now: Instant) {
        // The rank cut off what was seen.
        while self.seen.back().is_some_and(|(to, _)| *to > end) {
            self.seen.pop_back();
        }
        let known = match self.seen.back_mut() {
            Some((to, _)) if *to == end => true,
            Some((to, Some(at))) if now.saturating_duration_since(*at) < MOMENT => {
                *to = end;
                true
            }
            _ => end <= self.kept,
        };
        if known {
            return;
        }
        self.seen.push_back((end, Some(now)));
        if self.seen.len() > MOMENTS {
            // The first and the last stay: what is before one that goes counts as seen a little later.
            let mut keep = false;
            self.seen.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    fn stat_file(&mut self) -> io::Result<Option<Metadata>> {
        self.file.get()?.map(|f| f.metadata()).transpose()
    }

    /// The next piece of output with its offset and how long ago it was seen, if there is one. An empty
    /// one says that there is nothing between the last and this offset.
    pub(crate) fn read(&mut self, now: Instant) -> io::Result<Option<(u64, Bytes, Option<Span>)>> {
        let Some(found) = self.stat_file()? else { return Ok(None) };
        let size = found.len();
        self.follow_cut(size);
        let end = self.base.saturating_add(size);
        self.note(end, now);
        self.bound(&found);
        let sparse = found.blocks().saturating_mul(512) < size.saturating_sub(self.freed);
        if sparse && end.saturating_sub(self.next) > HOLE && self.file_position() >= self.solid {
            self.skip_hole(size);
        }
        if end <= self.next {
            return Ok(self.gap());
        }
        let Some(file) = self.file.opened() else { return Ok(None) };
        let position = self.file_position();
        let waits = match self.solid {
            solid if solid > position => (end - self.next).min(solid - position),
            _ => end - self.next,
        };
        // A piece was seen at one moment.
        let moment = self.seen.partition_point(|(to, _)| *to <= self.next);
        let (to, at) = self.seen.get(moment).copied().unwrap_or((end, Some(now)));
        let waits = waits.min(to - self.next);
        let age = at.map(|at| now.saturating_duration_since(at)).map(|age| match age {
            age if age < MOMENT => Span(0),
            age => Span(u64::try_from(age.as_millis()).unwrap_or(u64::MAX - 1)),
        });
        let want = usize::try_from(waits).unwrap_or(CHUNK).min(CHUNK);
        let mut buffer = vec![0; want];
        let got = file.read_at(&mut buffer, position);
        if !matches!(got, Ok(1..)) {
            // What cannot be read can never be shipped; do not wait for it.
            self.pass_over(end);
        }
        buffer.truncate(got?);
        if buffer.is_empty() {
            return Ok(self.gap());
        }
        let offset = self.next;
        self.next += buffer.len() as u64;
        self.shipped = self.next;
        Ok(Some((offset, buffer.into(), age)))
    }

    /// The end of what was passed over, where the server does not know that something is missing.
    fn gap(&mut self) -> Option<(u64, Bytes, Option<Span>)> {
        let gap = self.shipped < self.next;
        self.shipped = self.next;
        gap.then(|| (self.next, Bytes::new(), Some(Span(0))))
    }

    /// Goes to where something was written: what is before that is no output, and may be larger than
    /// any disk.
    fn skip_hole(&mut self, size: u64) {
        let Some(file) = self.file.opened() else { return };
        let position = self.file_position();
        let data = match seek(file, SeekFrom::Data(position)) {
            Ok(at) => at.clamp(position, size.max(position)),
            Err(rustix::io::Errno::NXIO) => size.max(position),
            // A file system that does not know has no holes.
            Err(_) => position,
        };
        self.solid = seek(file, SeekFrom::Hole(data)).unwrap_or(size);
        self.pass_over(self.base.saturating_add(data));
    }

    /// Goes on from `to`; what is before it is never shipped.
    fn pass_over(&mut self, to: u64) {
        self.dropped = self.dropped.saturating_add(to.saturating_sub(self.next));
        self.next = to.max(self.next);
        // A rank can bring this about as often as it likes.
        if self.dropped / 2 >= self.reported.max(1) {
            self.reported = self.dropped;
            tracing::warn!(file = %self.file.path().display(), dropped = self.dropped,
                "output was written faster than it can be shipped, has holes or was cut off: some was dropped");
        }
    }

    fn file_position(&self) -> u64 {
        self.next - self.base.min(self.next)
    }

    /// Whether everything written so far has been shipped, and every gap in it.
    pub(crate) fn drained(&mut self) -> bool {
        match self.stat_file() {
            Ok(Some(found)) => {
                let end = self.base.saturating_add(found.len());
                end <= self.next && self.shipped == self.next
            }
            // What cannot be read can never be shipped; do not wait for it.
            Ok(None) | Err(_) => true,
        }
    }

    /// The server keeps everything before `offset`.
    pub(crate) fn keep(&mut self, offset: u64) {
        self.kept = self.kept.max(offset.min(self.next));
        // The last one stays: more may be of the same moment.
        while self.seen.len() > 1 && self.seen.front().is_some_and(|(to, _)| *to <= self.kept) {
            self.seen.pop_front();
        }
        if self.kept.saturating_sub(self.base) >= self.freed + PUNCH {
            self.free(self.kept);
        }
    }

    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Ships again from what is known to be kept.
    pub(crate) fn rewind(&mut self) {
        self.next = self.kept.max(self.base.saturating_add(self.freed));
        self.shipped = self.kept;
        self.solid = 0;
    }

    fn free(&mut self, before: u64) {
        let to = before.saturating_sub(self.base) & !4095;
        let Some(file) = self.file.opened().filter(|_| to > self.freed) else { return };
        // A file system that cannot do it only costs space.
        if rank_file::cut_out(file, self.freed, to).is_ok() {
            self.freed = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(tail: &mut Tail) -> Option<(u64, Bytes)> {
        tail.read(Instant::now()).unwrap().map(|(offset, data, _)| (offset, data))
    }

    fn all(tail: &mut Tail) -> Vec<(u64, Bytes)> {
        std::iter::from_fn(|| next(tail)).collect()
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
        assert_eq!(next(&mut tail).unwrap().0, 2 << 20);
    }

    #[test]
    fn too_much_unshipped_output_drops_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 16);
        let (offset, data) = next(&mut tail).unwrap();
        assert_eq!(offset + data.len() as u64, 1 << 20);
        assert_eq!(tail.dropped, offset);
    }

    #[test]
    fn what_waits_while_nothing_can_be_shipped_is_bounded_wherever_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let taken = || rank_file::on_disk(&std::fs::metadata(&path).unwrap());
        std::fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 20);
        tail.look(Instant::now());
        assert!(taken() <= 1 << 20, "{} bytes of 8 MiB are left", taken());
        // Where it was cut out, a rank can write again.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&vec![b'y'; 7 << 20], 0).unwrap();
        tail.look(Instant::now());
        assert!(taken() <= 1 << 20, "{} bytes are left", taken());
        // The newest is shipped on the next connection, at its offset.
        tail.rewind();
        let sent: Vec<u8> = all(&mut tail).into_iter().flat_map(|(_, data)| data).collect();
        assert!(sent.len() >= 1 << 19 && sent.iter().all(|b| *b == b'x'), "{}", sent.len());
        assert!(tail.drained());
    }

    #[test]
    fn what_a_rank_writes_while_its_output_is_cut_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 20);
        let found = tail.stat_file().unwrap().unwrap();
        // After the look at its length.
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"late\n").unwrap();
        tail.bound(&found);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (8 << 20) + 5);
        let sent: Vec<u8> = all(&mut tail).into_iter().flat_map(|(_, data)| data).collect();
        assert!(sent.ends_with(b"late\n"), "{} bytes", sent.len());
    }

    #[test]
    fn a_hole_is_passed_over_and_what_is_written_around_it_is_shipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let huge = 1 << 43;
        let file = std::fs::File::create(&path).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 30);
        assert_eq!(all(&mut tail).len(), 1);
        file.set_len(huge).unwrap();
        assert!(!tail.drained(), "the server does not know of the gap");
        assert_eq!(all(&mut tail), [(huge, Bytes::new())]);
        assert!(tail.drained());
        assert_eq!(tail.dropped, huge - 5);
        file.write_all_at(b"last", huge).unwrap();
        let (offset, data) = next(&mut tail).unwrap();
        assert_eq!((offset, &data[..]), (huge, &b"last"[..]));
        tail.rewind();
        let again: usize = all(&mut tail).iter().map(|(_, data)| data.len()).sum();
        assert!(again < CHUNK, "{again} bytes of a hole are shipped on a new connection");
        assert!(tail.drained());
    }

    #[test]
    fn between_two_holes_only_what_was_written_is_shipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let file = std::fs::File::create(&path).unwrap();
        for at in 1..9 {
            file.write_all_at(b"x", at << 20).unwrap();
        }
        file.set_len(64 << 20).unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 30);
        let sent: usize = all(&mut tail).iter().map(|(_, data)| data.len()).sum();
        assert!((8..1 << 20).contains(&sent), "{sent}");
        assert!(tail.drained());
    }

    #[test]
    fn output_emptied_by_its_rank_goes_on_at_a_later_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, "first line\n").unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 20);
        assert_eq!(all(&mut tail).len(), 1);
        std::fs::write(&path, "new\n").unwrap();
        let (offset, data) = next(&mut tail).unwrap();
        assert_eq!((offset, &data[..]), (11, &b"new\n"[..]));
        assert!(tail.drained());
    }

    #[test]
    fn a_hole_before_anything_was_read_is_a_gap_and_is_reported_again_until_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let huge = 1 << 33;
        std::fs::write(&path, "start\n").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(huge).unwrap();
        let mut tail = Tail::new(&path, 0, 256 << 20);
        tail.look(Instant::now());
        for _ in 0..2 {
            assert!(!tail.drained());
            let sent = all(&mut tail);
            let (end, last) = sent.last().unwrap();
            assert_eq!(end + last.len() as u64, huge);
            assert!(tail.drained());
            tail.rewind();
        }
        assert!(!all(&mut tail).is_empty());
        tail.keep(huge);
        tail.rewind();
        assert!(tail.drained(), "the server knows");
        assert!(all(&mut tail).is_empty());
    }

    #[test]
    fn what_a_rank_cut_off_before_it_was_shipped_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let now = Instant::now();
        std::fs::write(&path, "a long first line\n").unwrap();
        let mut tail = Tail::new(&path, 0, 1 << 20);
        tail.look(now);
        // Nothing of it was shipped when it went.
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(all(&mut tail), [(14, Bytes::from("new\n"))]);
        // Some was.
        std::fs::write(&path, "new\nand more\n").unwrap();
        tail.look(now);
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(all(&mut tail), [(27, Bytes::from("x\n"))]);
        assert_eq!(tail.dropped, 14 + 9);
        assert!(tail.drained());
    }

    #[test]
    fn output_says_where_space_after_its_end_was_freed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, "start\n").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let reserved = rustix::fs::FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&file, reserved, 0, 8 << 20).is_err() {
            return;
        }
        let mut tail = Tail::new(&path, 0, 1 << 20);
        tail.look(Instant::now());
        assert!(rank_file::on_disk(&file.metadata().unwrap()) <= 1 << 20);
        let sent: Vec<u8> = all(&mut tail).into_iter().flat_map(|(_, data)| data).collect();
        assert_eq!(String::from_utf8(sent).unwrap(), format!("start\n{CUT}\n"));
    }

    #[test]
    fn a_file_that_never_appears_is_drained() {
        let mut tail = Tail::new(Path::new("/nonexistent/0.out"), 0, 1);
        assert!(tail.drained());
        assert!(next(&mut tail).is_none());
    }

    /// Pieces with their age in seconds.
    fn aged(tail: &mut Tail, now: Instant) -> Vec<(Bytes, Option<u64>)> {
        let mut out = Vec::new();
        while let Some((_, data, age)) = tail.read(now).unwrap() {
            out.push((data, age.map(|age| age.0 / 1000)));
        }
        out
    }

    #[test]
    fn output_that_waited_is_shipped_with_the_age_of_each_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        let mut tail = Tail::new(&path, 0, 1 << 20);
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        std::fs::write(&path, "one\n").unwrap();
        tail.look(at(0));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        tail.look(at(10));
        tail.look(at(20));
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let parts = [("one\n", 60u64), ("two\n", 50), ("three\n", 0)];
        let parts = parts.map(|(text, age)| (Bytes::from(text), Some(age)));
        assert_eq!(aged(&mut tail, at(60)), parts);
        // The same parts are as old as before when they are shipped again, and gone once kept.
        tail.keep(4);
        tail.rewind();
        let parts = [("two\n", 51u64), ("three\n", 1)];
        let parts = parts.map(|(text, age)| (Bytes::from(text), Some(age)));
        assert_eq!(aged(&mut tail, at(61)), parts);
        tail.keep(14);
        assert_eq!(tail.seen.len(), 1);
    }

    #[test]
    fn what_was_written_while_no_agent_looked_has_no_age() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out");
        std::fs::write(&path, "kept\nunseen\n").unwrap();
        let mut tail = Tail::new(&path, 5, 1 << 20);
        tail.found_again();
        std::fs::write(&path, "kept\nunseen\nseen\n").unwrap();
        let parts = [(Bytes::from("unseen\n"), None), (Bytes::from("seen\n"), Some(0))];
        assert_eq!(aged(&mut tail, Instant::now()), parts);
    }

    #[test]
    fn moments_of_output_that_waits_long_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(&dir.path().join("0.out"), 0, 1 << 20);
        let begin = Instant::now();
        for s in 1..=10_000 {
            tail.note(s, begin + Duration::from_secs(s));
        }
        assert!(tail.seen.len() <= MOMENTS);
        assert!(tail.seen.iter().is_sorted());
        assert_eq!(tail.seen.back().map(|(to, _)| *to), Some(10_000));
    }
}
