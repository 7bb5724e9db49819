//! What time it is where rows come from, and when it was that time here. Simulated nodes have
//! clocks of their own, which may run faster than this server's.

use muster_model::units::{Span, Time};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What was reported longer ago says nothing of a clock.
const LATELY: Duration = Duration::from_secs(30);
/// Moments are remembered this far apart,
const APART: Duration = Duration::from_millis(250);
/// and so many of them.
const KEPT: usize = 2400;

/// The newest time that was reported lately, and what passed since. Lately, because simulated nodes
/// may be gone, and others begin with an earlier time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    began: Option<Instant>,
    /// In this stretch of time, and in the one before.
    newest: [Option<(Time, Instant)>; 2],
    /// When times were first heard of, both in ascending order.
    past: VecDeque<(Time, Instant)>,
}

fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// `part` of `whole`, applied to `of`.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Clock {
    pub(super) fn note_time(&mut self, at: Time, now: Instant) {
        if self.began.is_none_or(|b| now.duration_since(b) >= LATELY) {
            self.began = Some(now);
            self.newest = [None, self.newest[0]];
        }
        if self.newest[0].is_none_or(|(t, _)| at > t) {
            self.newest[0] = Some((at, now));
            self.remember(at, now);
        }
    }

    fn remember(&mut self, at: Time, now: Instant) {
        if self.newest[1].is_some_and(|(t, _)| at <= t) {
            // Behind what was heard a moment ago: one of many, or another beginning. Which of the
            // two shows when nobody reports the later time any more.
            return;
        }
        while self.past.back().is_some_and(|(t, _)| *t >= at) {
            self.past.pop_back();
        }
        if self.past.back().is_none_or(|(_, i)| now.duration_since(*i) >= APART) {
            self.past.push_back((at, now));
        }
        if self.past.len() > KEPT {
            self.past.pop_front();
        }
    }

    /// Never behind this server's.
    pub(super) fn now(&self, server: Time, now: Instant) -> Time {
        let passed = |i: Instant| Span(ms(now.duration_since(i)));
        let reported = self.newest.iter().flatten().map(|(t, i)| *t + passed(*i));
        reported.fold(server, Time::max)
    }

    /// When it was `t` there, by the clock of this server, where it is `server` now.
    pub(super) fn to_server_time(&self, t: Time, server: Time, now: Instant) -> Time {
        let ago = |i: Instant| ms(now.duration_since(i));
        let after = self.past.partition_point(|(at, _)| *at < t);
        let before = after.checked_sub(1).and_then(|i| self.past.get(i));
        let back = match (before, self.past.get(after)) {
            (Some((a, from)), Some((b, to))) => {
                let took = ms(to.duration_since(*from));
                ago(*from).saturating_sub(share(took, t.since(*a).0, b.since(*a).0))
            }
            // Between two rows all clocks are taken to run alike, as `now` does.
            (Some((a, from)), None) => ago(*from).saturating_sub(t.since(*a).0),
            // Before anybody reported anything: as if the clock had run as fast as later on.
            (None, Some((first, from))) => {
                let (last, to) = self.past.back().copied().unwrap_or((*first, *from));
                let (there, here) = (last.since(*first).0, ms(to.duration_since(*from)));
                let earlier = first.since(t).0;
                ago(*from).saturating_add(match there {
                    0 => earlier,
                    there => share(here, earlier, there),
                })
            }
            (None, None) => server.since(t).0,
        };
        server - Span(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_ahead_is_forgotten_once_nobody_reports_it_any_more() {
        let (mut c, start) = (Clock::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        let t = |s: u64| Time(1_000_000) + Span::secs(s);
        assert_eq!(c.now(t(0), at(0)), t(0));
        c.note_time(t(90_000), at(0));
        assert_eq!(c.now(t(5), at(5)), t(90_005), "it goes on between two rows");
        c.note_time(t(6), at(6));
        assert_eq!(c.now(t(6), at(6)), t(90_006), "one that is behind holds nobody back");
        for s in 30..95 {
            c.note_time(t(s), at(s));
        }
        assert_eq!(c.now(t(95), at(95)), t(95));
        c.note_time(t(50), at(96));
        assert_eq!(c.now(t(96), at(96)), t(96), "never behind the server");
    }

    #[test]
    fn a_minute_of_a_fast_clock_is_three_seconds_here() {
        let (mut c, start) = (Clock::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (there, here) = (Time(50_000_000), Time(1_000_000));
        // Two nodes report, one a little behind the other, for longer than is remembered of
        // `newest`.
        for ms in (0..=100_000).step_by(500) {
            c.note_time(there + Span(ms * 20), at(ms));
            c.note_time(there + Span(ms * 20) - Span(400), at(ms + 1));
        }
        let (server, now) = (here + Span(100_200), at(100_200));
        let heard = |ms: u64| c.to_server_time(there + Span(ms), server, now);
        assert_eq!(heard(2_000_000), here + Span(100_000), "the newest row");
        assert_eq!(heard(2_000_000 - 60_000), here + Span(97_000));
        assert_eq!(heard(2_000_000 - 65_000), here + Span(96_750), "between two rows");
        assert_eq!(heard(2_001_000), server, "not reported yet");
        assert_eq!(c.to_server_time(there - Span(20_000), server, now), here - Span(1_000));
    }

    #[test]
    fn without_a_word_there_is_one_clock() {
        let (c, now) = (Clock::default(), Instant::now());
        assert_eq!(c.to_server_time(Time(4_000), Time(9_000), now), Time(4_000));
        assert_eq!(c.to_server_time(Time(10_000), Time(9_000), now), Time(9_000));
    }

    #[test]
    fn a_fleet_that_begins_anew_has_its_own_past() {
        let (mut c, start) = (Clock::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        let t = |s: u64| Time(1_000_000) + Span::secs(s);
        for s in 0..40 {
            c.note_time(t(100_000 + 20 * s), at(s));
        }
        for s in 40..140 {
            c.note_time(t(20 * (s - 40)), at(s));
        }
        let server = Time(7_000_000);
        assert_eq!(c.to_server_time(t(20 * 90), server, at(139)), server - Span::secs(9));
    }
}
