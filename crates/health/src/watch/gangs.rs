//! Gangs: ranks beside each other, a job beside its own past.

use super::config::{WatchConfig, ms};
use super::fs::Fleet;
use super::gpu::Gpu;
use super::job::{Attempt, Member};
use super::layout::Col;
use super::node::Node;
use super::standing::{Hit, News};
use crate::detect::gang::{self, Cause, Pace, SlowRank};
use crate::detect::hang::{self, Stillness, Stopped};
use crate::detect::robust::{Usual, median};
use crate::detect::{Because, Say, heat, pace};
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What an attempt is judged with.
pub(super) struct View<'a> {
    pub(super) config: &'a WatchConfig,
    pub(super) nodes: &'a mut [Option<Node>],
    pub(super) storage: &'a Fleet,
    pub(super) news: &'a mut News,
}

impl View<'_> {
    fn node(&self, m: &Member) -> Option<&Node> {
        self.nodes.get(m.node?).and_then(Option::as_ref)
    }

    /// The GPUs of a rank that tell figures.
    fn gpus<'b>(&'b self, m: &'b Member) -> impl Iterator<Item = &'b Gpu> {
        let all = self.node(m).map_or(&[][..], |n| &n.gpus[..]);
        let of = m.gpus.iter().filter_map(|i| all.get(i as usize));
        of.filter(|g| g.told && g.without == 0)
    }
}

/// How often, by the clock of its nodes, a job is judged for hangs and clocks, in milliseconds.
const EVERY: i64 = 5000;
/// Windows that make a past of the whole job.
const LEARN: u32 = 6;
/// A rank slower than this since its start is not so by design.
const NOT_BY_DESIGN: f64 = 1.5;

impl Attempt {
    /// Judges an attempt that runs.
    pub(super) fn look(&mut self, now: Time, view: &mut View<'_>) {
        self.tell_time(now, view);
        if let Some((paces, at)) = self.window(ms(view.config.step_window)) {
            self.judge_window(&paces, at, view);
        }
        let Some(clock) = self.clock else { return };
        if clock.0.saturating_sub(self.judged.0) < EVERY {
            return;
        }
        let dt = clock.since(self.judged).0 as f32 / 1000.0;
        self.judged = clock;
        self.judge_hang(clock, dt.min(600.0), view);
        self.judge_clocks(clock, view);
    }

    /// The clock of its nodes: of their rows, else of when they were heard, else of the caller.
    /// Steps and words are placed on it when they are first seen, so that no two clocks are ever
    /// compared.
    fn tell_time(&mut self, now: Time, view: &View<'_>) {
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
        if self.told != self.told_before {
            (self.told_before, self.step_clock) = (self.told, clock);
        }
        if self.words != self.words_before {
            (self.words_before, self.word_clock) = (self.words, Some(clock));
        }
    }

    fn hit(&self, rank: Option<u32>) -> Hit {
        Hit { attempt: Some(self.key), rank }
    }

    fn about_job(
        &mut self,
        kind: &'static str,
        say: Say,
        when: (Time, i64),
        rank: Option<u32>,
        news: &mut News,
    ) {
        let (job, hit) = (self.key.job, self.hit(rank));
        self.findings.settle(news, kind, || Entity::Job(job), say, when, hit);
    }

    fn judge_window(&mut self, paces: &[Pace], at: Time, view: &mut View<'_>) {
        let c = view.config;
        let window = gang::judge(c, paces);
        let slow: BTreeMap<u32, SlowRank> = if window.job {
            BTreeMap::new()
        } else {
            window.slow.iter().map(|s| (s.rank, *s)).collect()
        };
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
        self.judge_pace(paces, &slow, at, view);
        if !open {
            self.judge_waited_for(at, view);
        }
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
            u16::from(self.ranks[s.rank as usize].slow[i]) >= c.step_windows
        };
        let nodes_of = |ranks: &[SlowRank]| -> BTreeSet<Option<usize>> {
            ranks.iter().map(|s| self.member(s.rank).and_then(|m| m.node)).collect()
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
        let mut told: BTreeSet<Entity> = BTreeSet::new();
        for s in &found {
            let Some((entity, ranks)) = self.whose(s, &found) else { continue };
            if !told.insert(entity.clone()) {
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
            let say = Say::bad(Severity::Degraded, sure, why).since(since);
            let hit = self.hit(Some(s.rank));
            let when = (at, ms(c.over_after));
            self.findings.settle(view.news, "straggler", || entity, say, when, hit);
        }
        // Good again: not one of the ranks there stands out.
        let still: BTreeSet<Entity> =
            slow.values().filter_map(|s| self.whose(s, &found)).map(|w| w.0).collect();
        for entity in self.findings.about("straggler") {
            let node = |e: &Entity| e.node().cloned();
            let there = still.iter().any(|s| *s == entity || node(s) == node(&entity));
            if !there && !told.contains(&entity) && !self.waited(&entity) {
                let when = (at, ms(c.over_after));
                let hit = Hit::default();
                self.findings.settle(view.news, "straggler", || entity, Say::Good, when, hit);
            }
        }
    }

    /// What a slow rank is about: its GPU, or its node where half of the ranks there are slow.
    fn whose(&self, s: &SlowRank, found: &[SlowRank]) -> Option<(Entity, String)> {
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

    fn judge_pace(
        &mut self,
        paces: &[Pace],
        slow: &BTreeMap<u32, SlowRank>,
        at: Time,
        view: &mut View<'_>,
    ) {
        let c = view.config;
        let Some(t) = median(&mut paces.iter().map(|p| p.t).collect()) else { return };
        let shares = paces.iter().map(|p| p.read / p.t).collect();
        let share = median(&mut { shares }).unwrap_or(0.0);
        self.windows = self.windows.saturating_add(1);
        let base = self.base_t.get();
        let is_slow = base.is_some_and(|b| t > b * (1.0 + c.job_slow));
        self.slow_job.add(Some(is_slow && self.windows > LEARN), at);
        let lasts = self.slow_job.lasts(c.step_windows, 0);
        let alone = slow.is_empty() && self.findings.about("straggler").is_empty();
        let say = match base {
            Some(b) if alone && self.windows > LEARN => {
                let spread = self.base_spread.get().unwrap_or(0.0);
                pace::job_slow(c, t, b, spread, lasts).since(self.slow_job.since())
            }
            _ => Say::Unknown,
        };
        let when = (at, ms(c.over_after));
        self.about_job("job-slow", say, when, None, view.news);
        if !(is_slow && self.windows > LEARN) {
            let ratio = base.map_or(1.0, |b| t / b);
            // Quickly down, slowly up: the first steps of a job are its slowest.
            let tau = match ratio {
                _ if self.windows <= LEARN => 1.0,
                r if r < 0.95 => 2.0,
                r if r > 1.05 => 60.0,
                _ => 20.0,
            };
            self.base_t.add(t as f32, 1.0, tau);
            if let Some(b) = base.filter(|_| self.windows > 2) {
                self.base_spread.add((t - b).abs() as f32, 1.0, 10.0);
            }
        }
        let reading = self.ranks.iter().position(|r| u16::from(r.slow[3]) >= c.step_windows);
        self.starving.add(Some(share > c.read_share), at);
        let lasts = self.starving.lasts(c.step_windows, 0);
        let say = match reading {
            Some(rank) if share <= c.read_share => {
                let why = format!("rank {rank} waits for its data, and the others for it");
                Say::bad(Severity::Info, 700, why)
            }
            _ => pace::starved(c, share, lasts).since(self.starving.since()),
        };
        let rank = reading.and_then(|r| u32::try_from(r).ok());
        self.about_job("loader-starved", say, when, rank, view.news);
    }

    /// Steps tell nothing of who waits for whom: the straggler is the one that works, or whose
    /// clocks are low, while the others wait and the job is slower than it was.
    fn judge_waited_for(&mut self, at: Time, view: &mut View<'_>) {
        let c = view.config;
        let slow = self.slow_job.rows() > 0;
        let figures: Vec<(u32, f64, f64)> = self
            .members
            .iter()
            .map(|m| {
                let mean = |f: &dyn Fn(&Gpu) -> Option<f64>| {
                    let all: Vec<f64> = view.gpus(m).filter_map(f).collect();
                    let n = all.len() as f64;
                    if all.is_empty() { f64::NAN } else { all.iter().sum::<f64>() / n }
                };
                (m.rank, mean(&|g| g.sm.get()), mean(&|g| g.clock.get()))
            })
            .collect();
        let sm = Usual::of(figures.iter().map(|f| f.1)).filter(|u| u.count >= 3);
        let clock = Usual::of(figures.iter().map(|f| f.2)).filter(|u| u.count >= 3);
        let out = |f: &&(u32, f64, f64)| {
            sm.is_some_and(|u| u.above(f.1, c.deviations, 0.15))
                || clock.is_some_and(|u| u.below(f.2, c.deviations, 0.05))
        };
        let found: Vec<u32> = figures.iter().filter(out).map(|f| f.0).collect();
        let one = if slow && found.len() == 1 { found.first().copied() } else { None };
        self.waited_for.retain(|rank, _| Some(*rank) == one);
        let Some(rank) = one else { return };
        let streak = self.waited_for.entry(rank).or_default();
        streak.add(Some(true), at);
        if !streak.lasts(c.step_windows, 2 * ms(c.step_window)) {
            return;
        }
        let since = streak.since();
        let s = SlowRank { rank, ratio: 1.0, cause: Cause::Own };
        let Some((entity, _)) = self.whose(&s, &[s]) else { return };
        let why = format!("rank {rank} works while the others wait for it; steps are slower");
        let say = Say::bad(Severity::Degraded, 650, why).since(since);
        let hit = self.hit(Some(rank));
        let when = (at, ms(c.over_after));
        self.findings.settle(view.news, "straggler", || entity, say, when, hit);
    }

    fn waited(&self, entity: &Entity) -> bool {
        let of = |rank: &u32| self.member(*rank).and_then(|m| self.node_name(m));
        self.waited_for.keys().filter_map(of).any(|n| Some(n) == entity.node())
    }

    /// Whole nodes whose clocks are below those of the other nodes of the job.
    fn judge_clocks(&mut self, at: Time, view: &mut View<'_>) {
        let c = view.config;
        let mut clocks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for m in &self.members {
            let Some(node) = m.node else { continue };
            let good = |g: &&Gpu| g.busy && !g.explained();
            let of = view.gpus(m).filter(good).filter_map(|g| g.clock.get());
            clocks.entry(node).or_default().extend(of);
        }
        let of_node: Vec<(usize, f64)> =
            clocks.iter_mut().filter_map(|(n, all)| Some((*n, median(all)?))).collect();
        let usual = Usual::of(of_node.iter().map(|n| n.1)).filter(|u| u.count >= 4);
        let Some(usual) = usual else { return };
        for (node, clock) in of_node {
            let low = usual.below(clock, c.deviations, c.clocks_share);
            let streak = self.low_nodes.get(&node).copied();
            if !low && streak.is_none() {
                continue;
            }
            let streak = self.low_nodes.entry(node).or_default();
            streak.add(Some(low), at);
            let (lasts, since) = (streak.lasts(3, ms(c.load_for)), streak.since());
            let Some(m) = self.members.iter().find(|m| m.node == Some(node)) else { continue };
            let Some(name) = self.node_name(m).cloned() else { continue };
            let there = self.members.iter().filter(|m| m.node == Some(node));
            let gpus: Vec<u32> = there.flat_map(|m| m.gpus.iter()).collect();
            let entity = match gpus[..] {
                [gpu] => Entity::Gpu(name, gpu),
                _ => Entity::Node(name),
            };
            let say = match low {
                true => heat::clocks_low(clock, usual.median, true, lasts).since(since),
                false => Say::Good,
            };
            let (when, hit) = ((at, ms(c.over_after)), self.hit(None));
            self.findings.settle(view.news, "clocks-low", || entity.clone(), say, when, hit);
            if !low && !self.findings.stands("clocks-low", &entity) {
                self.low_nodes.remove(&node);
            }
        }
    }

    fn judge_hang(&mut self, clock: Time, dt: f32, view: &mut View<'_>) {
        let c = view.config;
        let mut still = Stillness {
            since_step: clock.0.saturating_sub(self.step_clock.0),
            since_output: self.word_clock.map(|w| clock.0.saturating_sub(w.0)),
            usual_gap: self.usual_gap(),
            saving: self.under_way,
            ..Stillness::default()
        };
        let usual = self.usual_power.get();
        let (mut watts, mut drawing) = (0.0, 0u32);
        for m in &self.members {
            for g in view.gpus(m) {
                let (util, power) = (g.get(Col::Util), g.get(Col::Power));
                if !(util >= 0.0 && power >= 0.0 && power < 1e5) {
                    continue;
                }
                let power = f64::from(power);
                (watts, drawing) = (watts + power, drawing + 1);
                let below = |share: f64| usual.is_some_and(|u| power < u * share);
                let used = f64::from(util) >= c.busy_util;
                still.gpus += 1;
                still.spinning += u32::from(used && below(c.hang_power));
                still.less += u32::from(used && below(0.7));
                still.idle += u32::from(util < 5.0);
            }
            still.storage_stalls |= view
                .node(m)
                .is_some_and(|n| n.mounts.iter().any(|f| f.stalled && view.storage.stalls(f.fs)));
        }
        let steps = || self.ranks.iter().filter_map(|r| r.step);
        still.apart = steps().max().unwrap_or(0) - steps().min().unwrap_or(0);
        if drawing > 0 {
            let mean = watts / f64::from(drawing);
            let told = still.usual_gap.is_some();
            let moving = told && still.since_step < ms(c.hang_floor) / 4;
            // Without steps only what was drawn before can tell, so it fades slowly.
            let tau = match usual {
                _ if moving => Some(120.0),
                Some(u) if told || mean < u => (!told).then_some(7200.0),
                _ => Some(60.0),
            };
            if let Some(tau) = tau {
                self.usual_power.add(mean as f32, dt.max(1.0), tau);
            }
        }
        let say = hang::hang(c, &still);
        if still.usual_gap.is_none() && say == Say::Good {
            self.step_clock = clock;
        }
        let when = (clock, ms(c.over_after));
        let Say::Bad(because) = say else {
            self.about_job("hang", say, when, None, view.news);
            return;
        };
        let (who, rank) = self.stopped(view);
        let because = Because { why: format!("{}{who}", because.why), ..because };
        let say = Say::Bad(because).since(self.step_clock);
        self.about_job("hang", say, when, rank, view.news);
    }

    /// Who stopped first, in words.
    fn stopped(&self, view: &View<'_>) -> (String, Option<u32>) {
        let of = |m: &Member| {
            let mean = |col: Col| {
                let all: Vec<f32> = view.gpus(m).map(|g| g.get(col)).collect();
                f64::from(all.iter().sum::<f32>() / all.len() as f32)
            };
            let step = self.ranks.get(m.rank as usize).and_then(|r| r.step);
            Stopped { rank: m.rank, step, power: mean(Col::Power), util: mean(Col::Util) }
        };
        let ranks: Vec<Stopped> = self.members.iter().map(of).collect();
        match hang::stopped_first(&ranks) {
            Some((rank, why)) => {
                let node = self.member(rank).and_then(|m| self.node_name(m));
                let node = node.map_or(String::new(), |n| format!(" on {n}"));
                (format!("; rank {rank}{node} stopped first: {why}"), Some(rank))
            }
            None => (String::new(), None),
        }
    }
}
