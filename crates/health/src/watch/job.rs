//! What is remembered of one attempt and its ranks.

use super::rank::{Parts, Rank, STEP_MAX};
use super::{Running, StepObservation};
use crate::detect::gang::Pace;
use crate::detect::meter::Streak;
use crate::detect::robust::FadingAverage;
use crate::watch::active_findings::Findings;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rank beyond this is no rank.
const RANK_END: u32 = 1 << 20;

/// A rank and where it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) rank: u32,
    /// Place of its node; none while nothing was heard of it.
    pub(super) node: Option<usize>,
    pub(super) gpus: GpuSet,
    /// Its place in what was asked to run.
    pub(super) reported: usize,
}

/// The slowest of a window: its node, or its rank where there is one node; and how far it was
/// from the others.
pub(super) type Slowest = ((Option<usize>, Option<u32>), f64);

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) key: AttemptKey,
    pub(super) running: Option<Arc<Running>>,
    pub(super) epoch: u64,
    pub(super) members: Vec<Member>,
    pub(super) ranks: Vec<Rank>,
    pub(super) missed: u8,
    pub(super) findings: Findings,
    /// Steps and words so far, to see at a look whether there was one.
    pub(super) reported: u64,
    pub(super) reported_before: u64,
    pub(super) words: u64,
    pub(super) words_before: u64,
    newest_step: Option<u64>,
    newest_at: Time,
    window_from: Option<Time>,
    pub(super) gap: FadingAverage,
    pub(super) gaps: u32,
    /// By the clock of its nodes: now, at its last step, at its last word, at the last judgement.
    pub(super) clock: Option<Time>,
    pub(super) step_clock: Time,
    pub(super) word_clock: Option<Time>,
    pub(super) judged: Time,
    pub(super) under_way: bool,
    saving_since: Option<u64>,
    /// What its GPUs usually draw while it makes progress.
    pub(super) usual_power: FadingAverage,
    pub(super) base_t: FadingAverage,
    pub(super) base_spread: FadingAverage,
    /// Steps took longer than they used to in the last window.
    pub(super) slower: bool,
    /// How much its GPUs are in use, now and usually.
    pub(super) util: Option<f64>,
    pub(super) usual_util: FadingAverage,
    /// How many steps its ranks are apart while all is well.
    pub(super) usual_apart: u64,
    pub(super) windows: u32,
    /// How far the slowest rank of a window usually is from the others, whichever it is.
    pub(super) uneven: FadingAverage,
    /// The slowest of the last window, by node or rank, and how far it was from the others.
    pub(super) slowest: Option<Slowest>,
    pub(super) slow_job: Streak,
    pub(super) starving: Streak,
    /// Nodes whose clocks are low beside the others.
    pub(super) low_nodes: BTreeMap<usize, Streak>,
    /// Ranks that look like the one the others wait for.
    pub(super) waited_for: BTreeMap<u32, Streak>,
}

impl Attempt {
    pub(super) fn new(key: AttemptKey) -> Attempt {
        Attempt {
            key,
            running: None,
            epoch: 0,
            members: Vec::new(),
            ranks: Vec::new(),
            missed: 0,
            findings: Findings::default(),
            reported: 0,
            reported_before: 0,
            words: 0,
            words_before: 0,
            newest_step: None,
            newest_at: Time(0),
            window_from: None,
            gap: FadingAverage::default(),
            gaps: 0,
            clock: None,
            step_clock: Time(0),
            word_clock: None,
            judged: Time(i64::MIN),
            under_way: false,
            saving_since: None,
            usual_power: FadingAverage::default(),
            base_t: FadingAverage::default(),
            base_spread: FadingAverage::default(),
            slower: false,
            util: None,
            usual_util: FadingAverage::default(),
            usual_apart: 0,
            windows: 0,
            uneven: FadingAverage::default(),
            slowest: None,
            slow_job: Streak::default(),
            starving: Streak::default(),
            low_nodes: BTreeMap::new(),
            waited_for: BTreeMap::new(),
        }
    }

    /// Takes in a step; `room` is how many more ranks may be remembered.
    pub(super) fn step(&mut self, s: &StepObservation<'_>, parts: Parts, room: usize) {
        let i = s.rank as usize;
        if s.rank >= RANK_END || (i >= self.ranks.len() && i + 1 - self.ranks.len() > room) {
            return;
        }
        if i >= self.ranks.len() {
            self.ranks.resize_with(i + 1, Rank::default);
        }
        let rank = &mut self.ranks[i];
        let last = rank.step.replace(s.step);
        if last == Some(s.step) {
            return;
        }
        self.reported += 1;
        let steps = last.map_or(0, |l| s.step.saturating_sub(l));
        let between = s.at.since(rank.at).0 as f64 / 1000.0 / steps.max(1) as f64;
        rank.at = s.at;
        let good = |t: &f64| *t > 0.0 && *t < STEP_MAX;
        let t = s.t.filter(good).or_else(|| Some(between).filter(|b| steps > 0 && good(b)));
        let others = parts.wait + parts.exchange + parts.read + parts.save;
        let whole = t.unwrap_or(parts.own + others);
        let reported = parts.waits_reported || parts.exchange_reported;
        let own = if reported || parts.own <= 0.0 {
            whole - others
        } else {
            // What is left of the step is waiting that nobody named.
            parts.own
        };
        if good(&whole) && good(&own) {
            rank.take(own, whole - parts.save.min(whole), parts);
        }
        // Steps that begin anew, from a checkpoint, are as new as any.
        let anew = self.newest_step.is_some_and(|n| n.saturating_sub(s.step) > 1000);
        if anew || self.newest_step.is_none_or(|n| s.step > n) {
            let gap = s.at.since(self.newest_at).0 as f32;
            if self.newest_step.is_some() && gap > 0.0 {
                // One long pause does not make the next one usual.
                let most = self.gap.get().map_or(gap, |g| g as f32 * 10.0);
                self.gap.add(gap.min(most), 1.0, 8.0);
                self.gaps = self.gaps.saturating_add(1);
            }
            (self.newest_step, self.newest_at) = (Some(s.step), s.at);
            // Steps go on meanwhile, or nobody reported its end: it does not hold the job up.
            if self.saving_since.is_none_or(|b| s.step.saturating_sub(b) > 10) {
                self.under_way = false;
            }
        }
        if self.window_from.is_none_or(|f| s.at < f) {
            self.window_from = Some(s.at);
        }
    }

    /// Takes in that it wrote something.
    pub(super) fn wrote(&mut self, _at: Time) {
        self.words += 1;
    }

    /// It writes a checkpoint, or has done so: both is progress.
    pub(super) fn saving(&mut self, under_way: bool) {
        self.under_way = under_way;
        self.saving_since = self.newest_step;
        self.reported += 1;
    }

    /// Who runs where.
    pub(super) fn place(
        &mut self,
        running: &Arc<Running>,
        names: &BTreeMap<NodeName, usize>,
        epoch: u64,
    ) {
        self.members = running
            .ranks
            .iter()
            .enumerate()
            .map(|(reported, r)| Member {
                rank: r.rank,
                node: names.get(&r.node).copied(),
                gpus: r.gpus,
                reported,
            })
            .collect();
        self.members.sort_by_key(|m| m.rank);
        (self.running, self.epoch) = (Some(Arc::clone(running)), epoch);
        // Places may have been given to others.
        self.low_nodes.clear();
    }

    /// The name of a member's node.
    pub(super) fn node_name(&self, m: &Member) -> Option<&NodeName> {
        self.running.as_ref()?.ranks.get(m.reported).map(|r| &r.node)
    }

    pub(super) fn member(&self, rank: u32) -> Option<&Member> {
        let i = self.members.binary_search_by_key(&rank, |m| m.rank).ok()?;
        self.members.get(i)
    }

    /// The usual time between two steps, in milliseconds, once it is known.
    pub(super) fn usual_gap(&self) -> Option<f64> {
        let steps = self.base_t.get().unwrap_or(0.0) * 1000.0;
        self.gap.get().filter(|_| self.gaps >= 5).map(|g| g.max(steps))
    }

    /// Ends the window of steps where it is full: ranks of it and when it ended.
    pub(super) fn window(&mut self, long: i64) -> Option<(Vec<Pace>, Time)> {
        let from = self.window_from?;
        if self.newest_at.0.saturating_sub(from.0) < long {
            return None;
        }
        let reported = self.ranks.iter().filter(|r| r.step.is_some()).count();
        // Where steps are reported seldom, two of them have to do.
        let long = self.newest_at.0.saturating_sub(from.0) >= long.saturating_mul(3);
        let least = if long { 2 } else { 3 };
        let enough = self.ranks.iter().filter(|r| r.steps() >= least).count();
        if enough == 0 || enough * 2 < reported {
            return None;
        }
        let of = |(i, r): (usize, &Rank)| (r.steps() >= 2).then(|| r.pace(i as u32));
        let paces = self.ranks.iter().enumerate().filter_map(of).collect();
        self.window_from = Some(self.newest_at);
        Some((paces, self.newest_at))
    }
}
