//! How fast a counter rises, and for how long something has been so.

use muster_model::units::Time;

/// Places of a meter.
const MARKS: usize = 6;
/// A larger figure is no counter but garbage.
const ABSURD: f32 = 1e15;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Mark {
    end: i64,
    rise: f32,
}

/// A counter over the last while: how much it rose and in how many pieces. A counter that
/// restarted rose by nothing.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    last: f32,
    from: i64,
    marks: [Mark; MARKS],
    n: u8,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter { last: f32::NAN, from: 0, marks: [Mark::default(); MARKS], n: 0 }
    }
}

/// What a meter says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rise {
    /// By how much the counter rose.
    pub by: f64,
    /// Within so many seconds.
    pub secs: f64,
    /// In so many pieces: one burst is one piece.
    pub pieces: u32,
}

impl Rise {
    /// How fast it rose, in units a second.
    #[must_use]
    pub fn per_sec(&self) -> f64 {
        if self.secs > 0.0 { self.by / self.secs } else { 0.0 }
    }
}

/// What a counter did with this reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tick {
    /// No reading.
    Absent,
    /// The first one, or the same again.
    Still,
    /// It rose.
    Rose(f64),
    /// It is lower than before: what counts was reset.
    Restarted,
}

impl Meter {
    /// Takes in a reading. `window` is in milliseconds.
    pub fn add(&mut self, at: Time, value: f32, window: i64) -> Tick {
        if !(0.0..ABSURD).contains(&value) {
            return Tick::Absent;
        }
        let Time(at) = at;
        if self.last.is_nan() {
            (self.last, self.from) = (value, at);
            return Tick::Still;
        }
        let rise = value - self.last;
        self.last = value;
        let newest = self.newest();
        if at < newest {
            // The clock went back: begin anew, and keep what the counter says.
            (self.n, self.from) = (0, at);
            return Tick::Still;
        }
        self.note(at, rise.max(0.0), window);
        if rise < 0.0 {
            Tick::Restarted
        } else if rise > 0.0 {
            Tick::Rose(f64::from(rise))
        } else {
            Tick::Still
        }
    }

    fn newest(&self) -> i64 {
        match self.n {
            0 => self.from,
            n => self.marks[usize::from(n) - 1].end,
        }
    }

    fn note(&mut self, at: i64, rise: f32, window: i64) {
        let piece = window / (MARKS as i64 - 1);
        let n = usize::from(self.n);
        let begun = if n >= 2 { self.marks[n - 2].end } else { self.from };
        if n > 0 && at.saturating_sub(begun) < piece {
            let mark = &mut self.marks[n - 1];
            (mark.end, mark.rise) = (at, mark.rise + rise);
        } else {
            if n == MARKS {
                self.drop_first();
            }
            self.marks[usize::from(self.n)] = Mark { end: at, rise };
            self.n += 1;
        }
        // Two pieces stay even when rows come more slowly than the window.
        while self.n > 2 && at.saturating_sub(self.marks[0].end) >= window {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.from = self.marks[0].end;
        self.marks.copy_within(1.., 0);
        self.n -= 1;
    }

    /// What it did over the window.
    #[must_use]
    pub fn rise(&self) -> Rise {
        let marks = &self.marks[..usize::from(self.n)];
        let ms = self.newest().saturating_sub(self.from);
        Rise {
            by: marks.iter().map(|m| f64::from(m.rise)).sum(),
            secs: ms as f64 / 1000.0,
            pieces: marks.iter().filter(|m| m.rise > 0.0).count() as u32,
        }
    }

    /// Forgets the window, not the counter.
    pub fn forget(&mut self) {
        self.from = self.newest();
        self.n = 0;
    }
}

/// For how many rows and how long something has been so, without a break.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streak {
    since: i64,
    last: i64,
    rows: u16,
}

/// Rows further apart than this do not belong together, in milliseconds.
const APART: i64 = 900_000;

impl Streak {
    /// Takes in a row; `None` says nothing and changes nothing.
    pub fn add(&mut self, so: Option<bool>, at: Time) {
        let Time(at) = at;
        match so {
            None => {}
            Some(false) => self.rows = 0,
            Some(true) => {
                let far = at < self.last || at.saturating_sub(self.last) > APART;
                if self.rows == 0 || far {
                    (self.since, self.rows) = (at, 0);
                }
                self.last = at;
                self.rows = self.rows.saturating_add(1);
            }
        }
    }

    /// For at least so many rows and so many milliseconds?
    #[must_use]
    pub fn lasts(&self, rows: u16, ms: i64) -> bool {
        self.rows > 0 && self.rows >= rows && self.last.saturating_sub(self.since) >= ms
    }

    /// The time of the streak's first row.
    #[must_use]
    pub fn since(&self) -> Time {
        Time(self.since)
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> u16 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_reports_a_rate_and_its_pieces() {
        let mut m = Meter::default();
        for i in 0..=120i64 {
            m.add(Time(i * 1000), 7.0 + 2.0 * i as f32, 60_000);
        }
        let r = m.rise();
        assert!((r.per_sec() - 2.0).abs() < 1e-6, "{r:?}");
        assert!((50.0..=75.0).contains(&r.secs) && r.pieces >= 5, "{r:?}");
    }

    #[test]
    fn one_burst_is_one_piece_and_falls_out_of_the_window() {
        let mut m = Meter::default();
        for i in 0..10i64 {
            m.add(Time(i * 10_000), if i < 5 { 0.0 } else { 500.0 }, 60_000);
        }
        assert_eq!(m.rise().pieces, 1);
        for i in 10..20i64 {
            m.add(Time(i * 10_000), 500.0, 60_000);
        }
        assert_eq!(m.rise(), Rise { by: 0.0, secs: m.rise().secs, pieces: 0 });
    }

    #[test]
    fn a_restart_and_garbage_are_no_rise() {
        let mut m = Meter::default();
        assert_eq!(m.add(Time(0), 100.0, 60_000), Tick::Still);
        assert_eq!(m.add(Time(1000), f32::NAN, 60_000), Tick::Absent);
        assert_eq!(m.add(Time(1500), f32::INFINITY, 60_000), Tick::Absent);
        assert_eq!(m.add(Time(2000), 3.0, 60_000), Tick::Restarted);
        assert_eq!(m.add(Time(3000), 5.0, 60_000), Tick::Rose(2.0));
        assert_eq!(m.add(Time(i64::MIN), 9.0, 60_000), Tick::Still);
        assert_eq!(m.add(Time(i64::MAX), 9.0, 60_000), Tick::Still);
        assert_eq!(m.rise().by, 0.0);
    }

    #[test]
    fn slow_rows_still_make_two_pieces() {
        let mut m = Meter::default();
        for i in 0..6i64 {
            m.add(Time(i * 300_000), 100.0 * i as f32, 60_000);
        }
        assert_eq!(m.rise().pieces, 2);
        assert!((m.rise().per_sec() - 1.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_streak_needs_rows_and_time_and_breaks() {
        let mut s = Streak::default();
        for i in 0..3i64 {
            s.add(Some(true), Time(i * 10_000));
        }
        assert!(s.lasts(3, 20_000) && !s.lasts(4, 0) && !s.lasts(3, 21_000));
        s.add(None, Time(40_000));
        assert!(s.lasts(3, 20_000));
        s.add(Some(true), Time(5_000_000));
        assert!(!s.lasts(2, 0), "too far apart");
        s.add(Some(false), Time(5_001_000));
        assert!(!s.lasts(0, 0));
    }
}
