//! When output came. Next to a segment a small file has it: a moment, then rows of eight bytes, each an
//! offset in the segment and how long after that moment what begins there came. A row holds until the
//! next one. What is before the first row has no time, nor has a segment without such a file: an older
//! server kept it, or nobody looked when it was written.

use muster_model::units::Time;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Milliseconds of the unit that times are kept in: what comes within one has one row.
const UNIT: i64 = 100;
/// Bytes of a row, and of the moment before the first.
const ROW: u64 = 8;
/// In place of a time: nobody knows when it came.
const NO_TIME: u32 = u32::MAX;
/// From so many rows on they are a second apart at least, so that a rank that never stops printing does
/// not fill the disk with times.
const MANY: u64 = 1 << 17;
/// Rows that are read at once.
const BLOCK: u64 = 4096;

/// From an offset on, the time that holds.
pub(super) type Stretch = (u64, Option<Time>);

/// The times of the segment that is written to.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Its file; none: not looked at yet, or not there.
    file: Option<TimesFile>,
    /// What begins here has no row, because that could not be written.
    failed: Option<u64>,
}

impl Times {
    /// Notes when what begins at `from` came, before it is written. Gives the length of the file; 0 where
    /// there is none.
    pub(super) fn note(&mut self, from: u64, at: Option<Time>, path: impl Fn() -> PathBuf) -> u64 {
        self.try_note(from, at, &path).unwrap_or_else(|e| {
            let path = path();
            tracing::debug!(path = %path.display(), error = %e, "times of output cannot be stored");
            // The times that are there stay; the next row that can be written says that these are unknown.
            self.file = None;
            self.failed.get_or_insert(from);
            fs::metadata(&path).map_or(0, |m| m.len())
        })
    }

    fn try_note(
        &mut self,
        from: u64,
        at: Option<Time>,
        path: &impl Fn() -> PathBuf,
    ) -> io::Result<u64> {
        if self.file.is_none() {
            self.file = match (TimesFile::open(&path())?, at) {
                (None, Some(at)) => Some(TimesFile::create(&path(), at)?),
                (file, _) => file,
            };
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        // Without a row of its own it would have the time of what came before it.
        if let Some(failed) = self.failed.filter(|failed| *failed < from) {
            file.note(failed, None)?;
        }
        let length = file.note(from, at)?;
        self.failed = None;
        Ok(length)
    }
}

/// A file of times, open for writing.
#[derive(Debug)]
pub(super) struct TimesFile {
    file: File,
    /// The moment that rows count from, in units since 1970.
    base: i64,
    rows: u64,
    /// The time of the last row.
    last: u32,
    /// The latest time of a row that has one.
    latest: u32,
}

impl TimesFile {
    fn create(path: &Path, at: Time) -> io::Result<TimesFile> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let base = at.0.div_euclid(UNIT);
        file.write_all_at(&base.to_be_bytes(), 0)?;
        Ok(TimesFile { file, base, rows: 0, last: NO_TIME, latest: 0 })
    }

    /// None where there is no row, so that it is made anew.
    fn open(path: &Path) -> io::Result<Option<TimesFile>> {
        let Some((file, base, count)) = open(path, true)? else { return Ok(None) };
        // Two rows without a time never follow each other.
        let first = count.saturating_sub(2);
        let newest = rows(&file, first, count - first)?;
        let last = newest.last().map_or(NO_TIME, |row| row.1);
        let latest = newest.iter().map(|row| row.1).filter(|t| *t != NO_TIME).max().unwrap_or(0);
        Ok(Some(TimesFile { file, base, rows: count, last, latest }))
    }

    fn note(&mut self, from: u64, at: Option<Time>) -> io::Result<u64> {
        let now = at.map_or(NO_TIME, |at| {
            // Of a clock that was set back the later time stays: times of a stream never fall.
            let units = at.0.div_euclid(UNIT).saturating_sub(self.base).max(0);
            u32::try_from(units).unwrap_or(NO_TIME).min(NO_TIME - 1).max(self.latest)
        });
        let apart = if self.rows < MANY { 1 } else { 10 };
        let holds = match (self.last, now) {
            _ if self.rows == 0 => false,
            (NO_TIME, NO_TIME) => true,
            (NO_TIME, _) | (_, NO_TIME) => false,
            (last, now) => now.saturating_sub(last) < apart,
        };
        if !holds {
            let from = u32::try_from(from).map_err(io::Error::other)?;
            let row = (u64::from(from) << 32) | u64::from(now);
            self.file.write_all_at(&row.to_be_bytes(), ROW + self.rows * ROW)?;
            self.rows += 1;
            self.last = now;
            if now != NO_TIME {
                self.latest = now;
            }
        }
        Ok(ROW + self.rows * ROW)
    }
}

/// The file, its moment and how many rows it has; none where there is no row.
fn open(path: &Path, write: bool) -> io::Result<Option<(File, i64, u64)>> {
    let file = match OpenOptions::new().read(true).write(write).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    // A crash may have left a part of a row.
    let count = (file.metadata()?.len() / ROW).saturating_sub(1);
    if count == 0 {
        return Ok(None);
    }
    let mut base = [0; 8];
    file.read_exact_at(&mut base, 0)?;
    Ok(Some((file, i64::from_be_bytes(base), count)))
}

fn rows(file: &File, first: u64, count: u64) -> io::Result<Vec<(u64, u32)>> {
    let mut bytes = vec![0; usize::try_from(count * ROW).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, ROW + first * ROW)?;
    let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(8).map(|row| (u64::from(word(row)), word(&row[4..]))).collect())
}

/// When the bytes `from..to` of a segment came, in order; the first stretch begins at `from`.
pub(super) fn stretches(path: &Path, from: u64, to: u64) -> io::Result<Vec<Stretch>> {
    let mut out = vec![(from, None)];
    let Some((file, base, count)) = open(path, false)? else { return Ok(out) };
    // Rows that begin at or before the first byte: the last of them holds for it.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if rows(&file, middle, 1)?.first().is_some_and(|row| row.0 <= from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut next = low.saturating_sub(1);
    while next < count {
        let block = rows(&file, next, (count - next).min(BLOCK))?;
        next += block.len() as u64;
        for (at, units) in block {
            if at >= to {
                return Ok(out);
            }
            let moment = || Time(base.saturating_add(i64::from(units)).saturating_mul(UNIT));
            let time = (units != NO_TIME).then(moment);
            match out.last_mut() {
                Some(last) if last.0 >= at => last.1 = time,
                _ => out.push((at, time)),
            }
        }
    }
    Ok(out)
}

/// Where in a segment the first output of a moment or later begins, and whether some before that has no
/// time.
pub(super) fn since(path: &Path, moment: Time) -> io::Result<(Option<u64>, bool)> {
    let all = stretches(path, 0, u64::MAX)?;
    let late = |(_, at): &Stretch| at.is_some_and(|at| at.0.saturating_add(UNIT) > moment.0);
    let found = all.iter().position(late).unwrap_or(all.len());
    let untimed = all[..found].iter().any(|(_, at)| at.is_none());
    Ok((all.get(found).map(|(from, _)| *from), untimed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chunks with the milliseconds since the one before, or without a time; and whether the server is
    /// started again before it.
    fn chunks() -> impl Strategy<Value = Vec<(u64, Option<i64>, bool)>> {
        let gap = prop_oneof![0..300i64, 0..5_000_000i64, -1000..0i64];
        let at = prop_oneof![1 => Just(None), 6 => gap.prop_map(Some)];
        prop::collection::vec((1..200u64, at, prop::bool::weighted(0.1)), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_byte_has_the_time_of_its_chunk(chunks in chunks(), cut in 1..50u64) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("0.out.at");
            let (mut times, mut end, mut now) = (Times::default(), 0, 1_769_860_800_123);
            let (mut wanted, mut latest) = (Vec::new(), i64::MIN);
            for (len, gap, restarted) in chunks {
                if restarted {
                    times = Times::default();
                }
                now += gap.unwrap_or(0);
                let at = gap.map(|_| {
                    latest = latest.max(now.div_euclid(UNIT));
                    Time(latest * UNIT)
                });
                let length = times.note(end, gap.map(|_| Time(now)), || path.clone());
                prop_assert_eq!(length, fs::metadata(&path).map_or(0, |m| m.len()));
                wanted.extend((end..end + len).map(|_| at));
                end += len;
            }
            // Read in pieces of any length, as a reader does.
            let mut got = Vec::new();
            let mut from = 0;
            while from < end {
                let to = (from + cut).min(end);
                let found = stretches(&path, from, to).unwrap();
                prop_assert_eq!(found[0].0, from);
                let ends = found.iter().skip(1).map(|s| s.0).chain([to]);
                for ((from, at), to) in found.iter().zip(ends) {
                    prop_assert!(*from < to);
                    got.extend((*from..to).map(|_| *at));
                }
                from = to;
            }
            prop_assert_eq!(&got, &wanted);
            // What is asked for by time begins with the first byte of that time.
            if let Some((first, at)) = wanted.iter().enumerate().find_map(|(i, at)| Some((i, (*at)?))) {
                let before = wanted[..first].iter().any(Option::is_none);
                prop_assert_eq!(since(&path, at).unwrap(), (Some(first as u64), before));
            }
            prop_assert_eq!(since(&path, Time(i64::MAX)).unwrap().0, None);
        }

        #[test]
        fn a_damaged_file_is_read_without_a_panic(bytes in any::<Vec<u8>>(), from in 0..1000u64) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("0.out.at");
            fs::write(&path, bytes).unwrap();
            let found = stretches(&path, from, from + 100).unwrap();
            prop_assert!(found.windows(2).all(|w| w[0].0 < w[1].0));
            prop_assert!(found.iter().all(|s| (from..from + 100).contains(&s.0)));
            Times::default().note(2000, Some(Time(1_769_860_800_123)), || path.clone());
        }
    }

    #[test]
    fn a_line_every_tenth_of_a_second_has_a_row_and_lines_in_between_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out.at");
        let mut times = Times::default();
        let mut now = Time(1_769_860_800_000);
        for i in 0..100 {
            times.note(i * 50, Some(now), || path.clone());
            now.0 += 10;
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), ROW + 10 * ROW);
    }

    #[test]
    fn a_row_that_cannot_be_written_costs_its_own_time_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out.at");
        // A directory cannot be opened for writing, whoever runs this.
        let other = dir.path().to_path_buf();
        let (first, next) = (Time(1_769_860_800_000), Time(1_769_860_900_000));
        let mut times = Times::default();
        times.note(0, Some(first), || path.clone());
        times.file = None;
        times.note(50, Some(next), || other.clone());
        times.note(60, Some(next), || other.clone());
        assert!(path.exists() && other.exists());
        let length = times.note(70, Some(next), || path.clone());
        assert_eq!(length, ROW + 3 * ROW);
        let known = [(0, Some(first)), (50, None), (70, Some(next))];
        assert_eq!(stretches(&path, 0, 100).unwrap(), known);
    }

    #[test]
    fn without_a_file_nothing_has_a_time_and_none_is_made_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.out.at");
        assert_eq!(stretches(&path, 7, 9).unwrap(), [(7, None)]);
        assert_eq!(since(&path, Time(0)).unwrap(), (None, true));
        assert_eq!(Times::default().note(7, None, || path.clone()), 0);
        assert!(!path.exists());
    }
}
