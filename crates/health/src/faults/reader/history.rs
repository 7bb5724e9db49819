//! What was seen before, in bounded memory.

use super::super::catalogue::Repeat;
use super::super::code::Code;
use super::super::pci::Pci;
use muster_model::units::Span;
use std::collections::BTreeMap;

/// Things remembered at once; the one that was silent longest is forgotten first.
const MOST: usize = 2_048;
/// Incidents remembered of one thing.
const INCIDENTS: usize = Repeat::MOST as usize;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Bursts of a fault.
    Burst,
    /// Exceptions at a place in a GPU.
    Place,
    /// Page faults of a GPU.
    PageFault,
    /// Troubles of a link.
    Link,
}

/// What a count is about.
pub(super) type CountKey = (Kind, Code, Option<Pci>, u64);

#[derive(Debug, Default)]
struct Incidents {
    /// When each began, and by whose doing.
    began: Vec<(u64, Option<i32>)>,
    last: u64,
}

impl Incidents {
    fn forget(&mut self, within: Span, now: u64) {
        self.began.retain(|(at, _)| now.saturating_sub(*at) <= within.0);
    }

    fn begin(&mut self, who: Option<i32>, now: u64) {
        if self.began.len() >= INCIDENTS {
            self.began.remove(0);
        }
        self.began.push((now, who));
    }

    fn count(&self) -> u32 {
        u32::try_from(self.began.len()).unwrap_or(u32::MAX)
    }
}

/// What was seen before.
#[derive(Debug, Default)]
pub(super) struct History {
    counts: BTreeMap<CountKey, Incidents>,
    recent: BTreeMap<(u32, Option<Pci>), u64>,
}

impl History {
    /// Counts incidents: lines further apart than `gap`, or of different processes where both
    /// are known.
    pub(super) fn incident(
        &mut self,
        about: CountKey,
        who: Option<i32>,
        gap: u64,
        within: Span,
        now: u64,
    ) -> u32 {
        let i = self.of(about);
        i.forget(within, now);
        let other = match (who, i.began.last()) {
            (Some(who), Some((_, Some(before)))) => who != *before,
            _ => false,
        };
        if i.began.is_empty() || other || now.saturating_sub(i.last) > gap {
            i.begin(who, now);
        }
        i.last = now;
        i.count()
    }

    /// Counts different processes.
    pub(super) fn process(&mut self, about: CountKey, who: i32, within: Span, now: u64) -> u32 {
        let i = self.of(about);
        i.forget(within, now);
        match i.began.iter_mut().find(|(_, w)| *w == Some(who)) {
            Some(known) => known.0 = now,
            None => i.begin(Some(who), now),
        }
        i.last = now;
        i.count()
    }

    /// Whether the same was seen on another device.
    pub(super) fn elsewhere(&self, about: CountKey, within: Span, now: u64) -> bool {
        let (kind, code, pci, _) = about;
        let mut same = self
            .counts
            .range((kind, code, None, 0)..)
            .take_while(|((k, c, _, _), _)| *k == kind && *c == code);
        same.any(|((_, _, p, _), i)| *p != pci && now.saturating_sub(i.last) <= within.0)
    }

    /// Notes that an XID was seen.
    pub(super) fn remember(&mut self, what: (u32, Option<Pci>), now: u64) {
        if self.recent.len() >= MOST && !self.recent.contains_key(&what) {
            self.recent.clear();
        }
        self.recent.insert(what, now);
    }

    /// Whether an XID was seen not longer ago.
    pub(super) fn recent(&self, what: (u32, Option<Pci>), within: u64, now: u64) -> bool {
        self.recent.get(&what).is_some_and(|at| now.saturating_sub(*at) <= within)
    }

    fn of(&mut self, about: CountKey) -> &mut Incidents {
        if self.counts.len() >= MOST && !self.counts.contains_key(&about) {
            // Seldom, and a quarter at once, so that many different faults stay cheap.
            let mut lasts: Vec<u64> = self.counts.values().map(|i| i.last).collect();
            lasts.sort_unstable();
            let edge = lasts.get(MOST / 4).copied().unwrap_or(u64::MAX);
            self.counts.retain(|_, i| i.last > edge);
        }
        self.counts.entry(about).or_default()
    }
}
