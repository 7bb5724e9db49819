//! Time on one node: when a share fits there, and for how long.

use crate::fleet::Fleet;
use crate::node::{Ask, Booking, Entry};
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::reservation::{Overrun, Reservation};
use muster_model::spec::{Priority, Tier};
use muster_model::units::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A reservation and the nodes it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedNodes {
    /// What was asked for.
    pub reservation: Arc<Reservation>,
    /// The nodes it covers.
    pub nodes: BTreeSet<NodeName>,
}

/// Windows of a recurring reservation that are looked at ahead.
const WINDOWS_AHEAD: usize = 64;

/// For whom a question about time is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) job: JobId,
    pub(crate) project: &'a ProjectName,
    pub(crate) tier: Tier,
    /// Has no time limit.
    pub(crate) endless: bool,
    /// Reserved starts of classes below this one stand in nobody's way; none: all do.
    pub(crate) above: Option<Priority>,
}

impl<'a> Asker<'a> {
    pub(crate) fn of(w: &'a Work) -> Asker<'a> {
        Asker {
            job: w.job,
            project: &w.project,
            tier: w.tier,
            endless: w.limit.is_none(),
            above: None,
        }
    }

    /// Does what is reserved for another job stand in its way?
    pub(crate) fn respects_booking(self, b: &Booking) -> bool {
        b.job != self.job && self.above.is_none_or(|above| b.class.is_none_or(|c| c >= above))
    }
}

impl Fleet {
    /// The reservations are these now.
    pub fn set_reservations(&mut self, all: Vec<ReservedNodes>) {
        self.closed = all;
        let ixs: Vec<u32> = self.ixs().collect();
        for ix in ixs {
            self.cover(ix);
        }
        self.note_rules();
        self.forget_failures();
    }

    /// A window that began or ended since the last cycle lets others fit: all are asked again.
    /// Returns the next such moment.
    pub(crate) fn recheck_at_window_edges(&mut self, now: Time) -> Option<Time> {
        if self.edge.is_some_and(|e| e <= now) {
            self.forget_failures();
        }
        let windows = self.closed.iter().filter_map(|c| c.reservation.window(now));
        self.edge = windows.flat_map(|(start, end)| [start, end]).filter(|t| *t > now).min();
        self.edge
    }

    /// Which reservations cover a node.
    pub(crate) fn cover(&mut self, ix: u32) {
        let name = &self.entry(ix).facts.name;
        let by = self
            .closed
            .iter()
            .enumerate()
            .filter(|(_, c)| c.nodes.contains(name))
            .filter_map(|(i, _)| u16::try_from(i).ok())
            .collect();
        self.set_reserved(ix, by);
    }

    /// May this asker's work be on nodes of the reservation while it goes on?
    fn admits(r: &Reservation, who: Asker<'_>) -> bool {
        r.projects.contains(who.project) || (r.lend && who.tier == Tier::Spot)
    }

    /// Does a window still begin somewhere that stops work of an asker who has no limit?
    pub(crate) fn is_any_window_ahead(&self, who: Asker<'_>, now: Time) -> bool {
        self.closed.iter().any(|c| {
            let r = &c.reservation;
            let ahead = |(start, _): (Time, Time)| start > now || r.every.is_some();
            let stops = r.overrun == Overrun::Stop && !Fleet::admits(r, who);
            stops && !c.nodes.is_empty() && r.window(now).is_some_and(ahead)
        })
    }

    /// Times in which a node is closed to the asker, from `now` on.
    pub(crate) fn closed_times(&self, e: &Entry, who: Asker<'_>, now: Time) -> Vec<(Time, Time)> {
        let mut out = Vec::new();
        for r in e.reserved.iter().filter_map(|i| self.closed.get(usize::from(*i))) {
            Fleet::add_closed(&mut out, &r.reservation, who, now);
        }
        if who.tier == Tier::Reserved {
            out.extend(self.outside_own(e, who, now));
        }
        out
    }

    /// Times in which one reservation closes its nodes to the asker.
    fn add_closed(out: &mut Vec<(Time, Time)>, r: &Reservation, who: Asker<'_>, now: Time) {
        if Fleet::admits(r, who) {
            return;
        }
        let mut t = now;
        for _ in 0..WINDOWS_AHEAD {
            let Some((start, end)) = r.window(t) else { break };
            // Work without a limit may be there until the window begins: it is stopped then.
            if !(start > now && who.endless && r.overrun == Overrun::Stop) {
                out.push((start, end));
            }
            if r.every.is_none() {
                break;
            }
            t = end;
        }
    }

    /// Does a reservation close its nodes to the asker at some time before `end`?
    pub(crate) fn closes(r: &Reservation, who: Asker<'_>, (now, end): (Time, Time)) -> bool {
        let mut times = Vec::new();
        Fleet::add_closed(&mut times, r, who, now);
        times.iter().any(|(s, t)| *s < end && *t > now)
    }

    /// Is it reserved work of a project that has no reservation, neither now nor later?
    pub(crate) fn lacks_reservation(&self, w: &Work, now: Time) -> bool {
        let mut all = self.closed.iter().map(|c| &c.reservation);
        w.tier == Tier::Reserved
            && !all.any(|r| r.projects.contains(&w.project) && r.window(now).is_some())
    }

    /// May [`explain`](fn@crate::explain) say of waiting work that a window stops it, or that it
    /// lacks a reservation? Where the work would go is not looked for, so that it costs little: a
    /// window may be elsewhere.
    #[must_use]
    pub fn may_warn(&self, w: &Work, now: Time) -> bool {
        // Work with a limit never runs into a window.
        let endless = w.limit.is_none();
        self.lacks_reservation(w, now) || endless && self.is_any_window_ahead(Asker::of(w), now)
    }

    /// The first window of others that begins before `end` on one of these nodes and stops what
    /// runs there: when, of which reservation where the job's project may know it, and on which node.
    #[must_use]
    pub fn window_ahead<'n>(
        &self,
        w: &Work,
        nodes: impl IntoIterator<Item = &'n NodeName>,
        (now, end): (Time, Time),
    ) -> Option<(Time, Option<Label>, NodeName)> {
        let who = Asker::of(w);
        let mut first: Option<(Time, Option<Label>, NodeName)> = None;
        for e in nodes.into_iter().filter_map(|n| self.find(n)).map(|ix| self.entry(ix)) {
            for c in e.reserved.iter().filter_map(|i| self.closed.get(usize::from(*i))) {
                let r = &c.reservation;
                if r.overrun != Overrun::Stop || Fleet::admits(r, who) {
                    continue;
                }
                let ahead = r.window(now).map(|(start, _)| start);
                let Some(start) = ahead.filter(|t| *t > now && *t < end) else { continue };
                let found = (start, r.name_for(who.project).cloned(), e.facts.name.clone());
                if first.as_ref().is_none_or(|f| found < *f) {
                    first = Some(found);
                }
            }
        }
        first
    }

    /// The reservation that keeps a job off one of these nodes now, where its project may know it, and
    /// the node.
    #[must_use]
    pub fn closed_now<'n>(
        &self,
        w: &Work,
        nodes: impl IntoIterator<Item = &'n NodeName>,
        now: Time,
    ) -> Option<(Option<Label>, NodeName)> {
        let who = Asker::of(w);
        for e in nodes.into_iter().filter_map(|n| self.find(n)).map(|ix| self.entry(ix)) {
            for c in e.reserved.iter().filter_map(|i| self.closed.get(usize::from(*i))) {
                let r = &c.reservation;
                let goes_on = r.window(now).is_some_and(|(start, _)| start <= now);
                if goes_on && !Fleet::admits(r, who) {
                    return Some((r.name_for(who.project).cloned(), e.facts.name.clone()));
                }
            }
        }
        None
    }

    /// Reserved work runs inside a reservation of its project only.
    fn outside_own(&self, e: &Entry, who: Asker<'_>, now: Time) -> Vec<(Time, Time)> {
        let mut own: Vec<(Time, Time)> = e
            .reserved
            .iter()
            .filter_map(|i| self.closed.get(usize::from(*i)))
            .filter(|c| c.reservation.projects.contains(who.project))
            .filter_map(|c| c.reservation.window(now))
            .collect();
        own.sort_unstable();
        let mut out = Vec::new();
        let mut at = now;
        for (start, end) in own {
            if start > at {
                out.push((at, start));
            }
            at = at.max(end);
        }
        // Work without a limit may stay until its window is over.
        if !who.endless || at == now {
            out.push((at, FAR));
        }
        out
    }

    /// Can the node carry the share from `now` until `end`, with all that is kept for others
    /// and closed to the asker?
    pub(crate) fn free_until(
        &self,
        e: &Entry,
        a: &Ask,
        who: Asker<'_>,
        now: Time,
        end: Time,
    ) -> bool {
        if !e.fits(a) {
            return false;
        }
        if !e.reserved.is_empty() || who.tier == Tier::Reserved {
            let closed = self.closed_times(e, who, now);
            if closed.iter().any(|(s, t)| *s < end && *t > now) {
                return false;
            }
        }
        if e.book.iter().all(|b| !who.respects_booking(b) || b.start >= end || b.end <= now) {
            return true;
        }
        // Room only grows by what ends; it shrinks where something kept begins.
        let mut at: Vec<Time> = e
            .book
            .iter()
            .filter(|b| who.respects_booking(b) && b.start < end && b.end > now)
            .map(|b| b.start.max(now))
            .collect();
        at.sort_unstable();
        at.dedup();
        at.into_iter().all(|t| Fleet::holds_at(e, a, who, t, now))
    }

    /// Does the share fit at the moment `t`, beside what is kept then?
    pub(crate) fn holds_at(e: &Entry, a: &Ask, who: Asker<'_>, t: Time, now: Time) -> bool {
        Fleet::fits_with(e, a, (t, now), |b| who.respects_booking(b))
    }

    /// The same beside those bookings that stand in the way.
    pub(crate) fn fits_with(
        e: &Entry,
        a: &Ask,
        (t, now): (Time, Time),
        heeds: impl Fn(&Booking) -> bool,
    ) -> bool {
        let mut kept = (0u32, 0u32, 0u64);
        for b in e.book.iter().filter(|b| heeds(b) && b.start.max(now) <= t && b.end > t) {
            kept.0 += b.gpus + Fleet::kept_parts(b);
            kept.1 += b.cpus;
            kept.2 += b.memory;
        }
        if !e.holds.iter().any(|h| h.until <= t) {
            return e.room.holds(a, kept);
        }
        let mut room = e.room.clone();
        for h in e.holds.iter().filter(|h| h.until <= t) {
            room.give(&e.facts, h);
        }
        room.holds(a, kept)
    }

    /// From which moment at or after `from` the node can carry the share for `end - start`, and
    /// the last moment at which it could still begin. None when never.
    pub(crate) fn first_window(
        &self,
        e: &Entry,
        a: &Ask,
        who: Asker<'_>,
        now: Time,
        from: Time,
        length: i64,
    ) -> Option<(Time, Time)> {
        if !e.open() || !e.capable(a) {
            return None;
        }
        let closed = if e.reserved.is_empty() && who.tier != Tier::Reserved {
            Vec::new()
        } else {
            self.closed_times(e, who, now)
        };
        let plain = closed.is_empty() && !e.book.iter().any(|b| who.respects_booking(b));
        if plain {
            // Nothing is ever taken away: the first moment at which it fits is good for ever.
            if let Some(t) = whole_from(e, a, from) {
                return t.map(|t| (t, FAR));
            }
            if Fleet::holds_at(e, a, who, from, now) {
                return Some((from, FAR));
            }
            let t = e.changes(from).into_iter().find(|t| Fleet::holds_at(e, a, who, *t, now))?;
            return Some((t, FAR));
        }
        let mut times = vec![from];
        times.extend(e.changes(from));
        times.extend(closed.iter().flat_map(|(s, t)| [*s, *t]).filter(|t| *t > from && *t < FAR));
        times.sort_unstable();
        times.dedup();
        let good = |t: Time| {
            !closed.iter().any(|(s, z)| *s <= t && t < *z) && Fleet::holds_at(e, a, who, t, now)
        };
        let mut begin: Option<Time> = None;
        for t in times {
            match (good(t), begin) {
                (true, None) => begin = Some(t),
                (false, Some(b)) => {
                    if t.0.saturating_sub(b.0) >= length {
                        return Some((b, Time(t.0.saturating_sub(length))));
                    }
                    begin = None;
                }
                _ => {}
            }
        }
        begin.map(|b| (b, FAR))
    }
}

/// Slots on a node that are added up without a list of their own.
const FEW: usize = 16;

/// The first moment from `from` on at which whole GPUs, processors and memory are enough, by adding
/// up what ends. None where parts of GPUs make that too simple; `Some(None)` for never.
fn whole_from(e: &Entry, a: &Ask, from: Time) -> Option<Option<Time>> {
    let n = e.holds.len();
    if a.part.is_some() || n > FEW || e.holds.iter().any(|h| h.part.is_some()) {
        return None;
    }
    let usable = e.facts.gpus.minus(e.facts.mig);
    let mut ends = [(FAR, 0u32, 0u32, 0u64); FEW];
    for (slot, h) in ends.iter_mut().zip(&e.holds) {
        *slot = (h.until, h.gpus.and(usable).len(), h.cpus, h.memory);
    }
    let ends = &mut ends[..n];
    ends.sort_unstable();
    let (mut gpus, mut cpus, mut memory) = (e.free_gpus(), e.room.cpus, e.room.memory);
    let fits = |g: u32, c: u32, m: u64| g >= a.gpus && c >= a.cpus && m >= a.memory;
    let mut at = from;
    let mut i = 0;
    loop {
        while let Some((until, g, c, m)) = ends.get(i)
            && *until <= at
        {
            gpus += g;
            cpus = (cpus + c).min(e.facts.cpus);
            memory = (memory + m).min(e.facts.memory.0);
            i += 1;
        }
        if fits(gpus, cpus, memory) {
            return Some(Some(at));
        }
        match ends.get(i) {
            Some((until, ..)) if *until < FAR => at = *until,
            _ => return Some(None),
        }
    }
}
