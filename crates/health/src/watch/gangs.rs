//! Gangs: ranks beside each other, window by window.

use super::active_findings::{FindingSubject, PendingFindings};
use super::fs::Fleet;
use super::gpu::Gpu;
use super::job::{Attempt, Member};
use super::node::Node;
use crate::config::{WatchConfig, ms};
use crate::detect::DetectorVerdict;
use crate::detect::gang::{self, Cause, Pace, SlowRank};
use crate::detect::robust::PeerBaseline;
use muster_model::FailureMode;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What an attempt is judged with.
pub(super) struct View<'a> {
    pub(super) config: &'a WatchConfig,
    pub(super) nodes: &'a mut [Option<Node>],
    pub(super) storage: &'a Fleet,
    pub(super) news: &'a mut PendingFindings,
    /// What a node reported before this is too old to be compared.
    pub(super) fresh: Option<Time>,
}

/// Rows older than this, by the clock of the nodes, say nothing of now.
const STALE: Span = Span::secs(45);

impl View<'_> {
    pub(super) fn node(&self, m: &Member) -> Option<&Node> {
        self.nodes.get(m.node?).and_then(Option::as_ref)
    }

    /// The GPUs of a rank that report figures.
    pub(super) fn gpus<'b>(&'b self, m: &'b Member) -> impl Iterator<Item = &'b Gpu> {
        let all = self.node(m).map_or(&[][..], |n| &n.gpus[..]);
        let of = m.gpus.iter().filter_map(|i| all.get(i as usize));
        let old = self.node(m).is_some_and(|n| n.at < self.fresh);
        of.filter(move |g| g.reported && g.without == 0 && !old)
    }
}

/// How often, by the clock of its nodes, a job is judged for hangs and clocks, in milliseconds.
const EVERY: i64 = 5000;
/// A rank slower than this since its start is not so by design.
const NOT_BY_DESIGN: f64 = 1.5;

impl Attempt {
    /// Judges an attempt that runs.
    pub(super) fn evaluate_attempt(&mut self, now: Time, view: &mut View<'_>) {
        self.update_clock(now, view);
        view.fresh = self.clock.map(|c| c - STALE);
        if let Some((paces, at)) = self.window(ms(view.config.step_window)) {
            self.evaluate_window(&paces, at, view);
        }
        let Some(clock) = self.clock else { return };
        if clock.0.saturating_sub(self.judged.0) < EVERY {
            return;
        }
        let dt = clock.since(self.judged).0 as f32 / 1000.0;
        self.judged = clock;
        self.evaluate_hang(clock, dt.min(600.0), view);
        self.evaluate_clocks(clock, view);
    }

    /// The clock of its nodes: of their rows, else of when they were heard, else of the caller.
    /// Steps and words are placed on it when they are first seen, so that no two clocks are ever
    /// compared.
    fn update_clock(&mut self, now: Time, view: &View<'_>) {
        let newest = |of: &dyn Fn(&Node) -> Option<Time>| {
            self.members.iter().filter_map(|m| view.node(m)).filter_map(of).max()
        };
        let clock = newest(&|n| n.at).or_else(|| newest(&|n| n.heard)).unwrap_or(now);
        if self.clock.is_none_or(|c| clock < c) {
            self.step_clock = clock;
            self.word_clock = self.word_clock.map(|_| clock);
            self.judged = Time(clock.0.saturating_sub(EVERY));
        }
        self.clock = Some(clock);
        if self.reported != self.reported_before {
            (self.reported_before, self.step_clock) = (self.reported, clock);
        }
        if self.words != self.words_before {
            (self.words_before, self.word_clock) = (self.words, Some(clock));
        }
    }

    pub(super) fn hit(&self, rank: Option<u32>) -> FindingSubject {
        FindingSubject { attempt: Some(self.key), rank }
    }

    pub(super) fn about_job(
        &mut self,
        kind: FailureMode,
        say: DetectorVerdict,
        when: (Time, i64),
        rank: Option<u32>,
        news: &mut PendingFindings,
    ) {
        let (job, hit) = (self.key.job, self.hit(rank));
        self.findings.settle(news, kind, || Entity::Job(job), say, when, hit);
    }

    fn evaluate_window(&mut self, paces: &[Pace], at: Time, view: &mut View<'_>) {
        let c = view.config;
        let window = gang::evaluate(c, paces);
        let slow: BTreeMap<u32, SlowRank> = if window.job {
            BTreeMap::new()
        } else {
            window.slow.iter().map(|s| (s.rank, *s)).collect()
        };
        self.learn_uneven(paces);
        let open = paces.iter().any(|p| self.ranks[p.rank as usize].open());
        let from = Time(at.0.saturating_sub(ms(c.step_window)));
        for p in paces {
            let rank = &mut self.ranks[p.rank as usize];
            let found = slow.get(&p.rank).map(|s| s.cause);
            if rank.slow == [0; 4] {
                rank.since = from;
            }
            for (i, cause) in
                [Cause::Own, Cause::FromStart, Cause::Network, Cause::Reading].iter().enumerate()
            {
                let again = found == Some(*cause);
                rank.slow[i] = if again { rank.slow[i].saturating_add(1) } else { 0 };
            }
            rank.close(p.own, found == Some(Cause::Own));
        }
        self.stragglers(&slow, at, view);
        self.evaluate_pace(paces, &slow, at, view);
        if !open {
            self.evaluate_stragglers(at, view);
        }
    }

    /// Work that is uneven by itself has another rank as the slowest each time: how far that one
    /// usually is from the others. What is the slowest for as long as it lasts teaches nothing,
    /// and one that nobody follows teaches little.
    fn learn_uneven(&mut self, paces: &[Pace]) {
        let grown = |p: &Pace| p.base.map(|b| (p.rank, p.own / b));
        let worst = paces.iter().filter_map(grown).max_by(|a, b| a.1.total_cmp(&b.1));
        let Some(usual) = PeerBaseline::of(paces.iter().filter_map(grown).map(|g| g.1)) else {
            return;
        };
        let Some((rank, most)) = worst.filter(|_| usual.median > 0.0) else { return };
        let far = (most / usual.median - 1.0).clamp(0.0, 10.0);
        let node = self.member(rank).and_then(|m| m.node);
        let alone = self.members.iter().all(|m| m.node == node);
        // The ranks of an unhealthy node take turns as well.
        let place = if alone { (None, Some(rank)) } else { (node, None) };
        let before = self.slowest.filter(|(was, _)| *was != place);
        let most = self.slowest.filter(|(was, _)| *was == place).map_or(far, |(_, m)| m.max(far));
        self.slowest = Some((place, most));
        let Some((_, ended)) = before else { return };
        let ended = ended.min(far * 2.0);
        let more = self.uneven.get().is_none_or(|u| ended > u);
        self.uneven.add(ended as f32, 1.0, if more { 0.25 } else { 40.0 });
    }

    /// Ranks that stood out for long enough, and are neither the job's doing nor its design.
    fn persistent(&self, c: &WatchConfig, slow: &BTreeMap<u32, SlowRank>) -> Vec<SlowRank> {
        let lasts = |s: &&SlowRank| {
            let i = match s.cause {
                Cause::Own => 0,
                Cause::FromStart => 1,
                Cause::Network => 2,
                Cause::Reading => return false,
            };
            let usual = self.uneven.get().unwrap_or(0.0);
            let uneven = s.cause == Cause::Own && s.ratio - 1.0 < usual * 1.5;
            !uneven && u16::from(self.ranks[s.rank as usize].slow[i]) >= c.step_windows
        };
        let nodes_of = |ranks: &[SlowRank]| {
            distinct(ranks.iter().map(|s| self.member(s.rank).and_then(|m| m.node)))
        };
        let all: Vec<SlowRank> = slow.values().filter(lasts).copied().collect();
        let of = |from_start: bool| -> Vec<SlowRank> {
            let fits = |s: &&SlowRank| (s.cause == Cause::FromStart) == from_start;
            all.iter().filter(fits).copied().collect()
        };
        let (mut out, start) = (of(false), of(true));
        // Many ranks on many nodes: the work is uneven, not the nodes.
        if out.len() * 4 > self.members.len() && nodes_of(&out).len() >= 3 {
            out.clear();
        }
        // Some ranks have more to do than others, by design: the first one, or a last stage.
        let alone = |s: &SlowRank| s.rank != 0 || s.ratio >= NOT_BY_DESIGN;
        let one_node = nodes_of(&start).len() == 1;
        match start[..] {
            [only] if alone(&only) => out.push(only),
            [_, _, ..] if one_node && start.iter().all(|s| s.ratio >= NOT_BY_DESIGN) => {
                out.extend(start);
            }
            _ => {}
        }
        out
    }

    fn stragglers(&mut self, slow: &BTreeMap<u32, SlowRank>, at: Time, view: &mut View<'_>) {
        let c = view.config;
        let found = self.persistent(c, slow);
        let mut reported: BTreeSet<Entity> = BTreeSet::new();
        for s in &found {
            let Some((entity, ranks)) = self.whose(s, &found) else { continue };
            if !reported.insert(entity.clone()) {
                continue;
            }
            let since = self.ranks[s.rank as usize].since;
            let (what, sure) = match s.cause {
                Cause::Own => ("its own work is slower than it was", 880),
                Cause::FromStart => ("its own work is slower since its start", 620),
                Cause::Network => ("its exchange with others is slower", 700),
                Cause::Reading => continue,
            };
            let ratio = s.ratio;
            let why = format!("rank {}: {ratio:.2} times the others, {what} ({ranks})", s.rank);
            // Ranks without GPUs say nothing of the node's: at most its processors are busy.
            let none = self.member(s.rank).is_none_or(|m| m.gpus.is_empty());
            let severity = if none { Severity::Info } else { Severity::Degraded };
            let say = DetectorVerdict::bad(severity, sure, why).since(since);
            let hit = self.hit(Some(s.rank));
            let when = (at, ms(c.over_after));
            self.findings.settle(view.news, FailureMode::STRAGGLER, || entity, say, when, hit);
        }
        // Good again: not one of the ranks there stands out.
        let still: BTreeSet<Entity> =
            slow.values().filter_map(|s| self.whose(s, &found)).map(|w| w.0).collect();
        for entity in self.findings.about(FailureMode::STRAGGLER) {
            let node = |e: &Entity| e.node().cloned();
            let there = still.iter().any(|s| *s == entity || node(s) == node(&entity));
            if !there && !reported.contains(&entity) && !self.waited(&entity) {
                let when = (at, ms(c.over_after));
                let hit = FindingSubject::default();
                self.findings.settle(
                    view.news,
                    FailureMode::STRAGGLER,
                    || entity,
                    DetectorVerdict::Good,
                    when,
                    hit,
                );
            }
        }
    }

    /// What a slow rank is about: its GPU, or its node where half of the ranks there are slow.
    pub(super) fn whose(&self, s: &SlowRank, found: &[SlowRank]) -> Option<(Entity, String)> {
        let m = self.member(s.rank)?;
        let name = self.node_name(m)?.clone();
        let there = |rank: u32| {
            self.member(rank).and_then(|o| self.node_name(o)).is_some_and(|n| *n == name)
        };
        let slow = found.iter().filter(|f| there(f.rank)).count();
        let words = format!("{slow} slow ranks on {name}");
        if m.gpus.len() != 1 || s.cause == Cause::Network {
            return Some((Entity::Node(name), words));
        }
        let all = if slow < 2 { 0 } else { self.members.iter().filter(|o| there(o.rank)).count() };
        if slow >= 2 && slow * 2 >= all {
            return Some((Entity::Node(name), words));
        }
        let gpu = m.gpus.iter().next()?;
        Some((Entity::Gpu(name, gpu), words))
    }
}
