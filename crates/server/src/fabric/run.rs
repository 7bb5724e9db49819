//! One test from its turn to its findings.

use super::choose::{self, Chosen, FabricTestRequest};
use super::pair::{self, Lanes, Outcome};
use super::{Inner, lock};
use futures::future::join_all;
use muster_api::{FabricNode, FabricNodeHealth, FabricPair, FabricState, FabricVerdict};
use muster_health::fabric::isolate::{FabricNodeStatus, Isolate};
use muster_health::fabric::pairs::Pair;
use muster_health::fabric::path_history::{Baseline, Path, Reading};
use muster_health::fabric::verdict::{self, PairVerdict};
use muster_link::messages::FabricMeasurement;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::ObservedFinding;
use muster_model::names::NodeName;
use muster_model::node::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What looks slow is measured again so often in any case, and so often at most.
pub(super) const AGAIN_LEAST: u32 = 1;
pub(super) const AGAIN_MOST: u32 = 4;

/// Machines that were held up for so many thousandths of the time were busy.
const BUSY: u16 = 100;

/// A test that goes on.
pub(super) struct RunningFabricTest {
    pub(super) inner: Arc<Inner>,
    id: u64,
    pub(super) wish: FabricTestRequest,
    pub(super) lanes: Lanes,
    round: u32,
    /// Everybody is tested at once: such figures are compared with each other only.
    pub(super) ring: bool,
    /// Figures so far, by class.
    figures: BTreeMap<String, Vec<f64>>,
    judged: Vec<PairVerdict>,
    away: BTreeMap<NodeName, String>,
}

/// What became of a hunt in one cluster.
pub(super) struct HuntResult {
    pub(super) statuses: Vec<FabricNodeStatus>,
    pub(super) paths: Vec<Pair>,
    pub(super) together: Vec<Vec<usize>>,
}

/// What the test of a pair says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairResult {
    /// It passed, or it did not.
    Passed(bool),
    /// One of the two has left.
    Left(usize),
}

/// A pair that was tested in this round.
pub(super) struct Tested {
    pub(super) pair: Pair,
    outcome: Outcome,
    times: u32,
}

impl Tested {
    pub(super) fn once((pair, outcome): (Pair, Outcome)) -> Tested {
        Tested { pair, outcome, times: 1 }
    }

    /// Figures, where something came through.
    fn measurement(&self) -> Option<&FabricMeasurement> {
        match &self.outcome {
            Outcome::Measured(f) if f.error.is_none() => Some(f),
            _ => None,
        }
    }

    /// What came of another test. Who has left since is left out from now on.
    pub(super) fn more(&mut self, outcome: Outcome) {
        self.times += 1;
        let better = match (self.measurement(), &outcome) {
            (_, Outcome::Away { .. }) | (None, _) => true,
            (Some(old), Outcome::Measured(new)) => new.error.is_none() && new.mbps > old.mbps,
        };
        if better {
            self.outcome = outcome;
        }
    }
}

/// How long the machines of a test were held up, of a thousand parts of the time: both, as either
/// alone keeps the other waiting.
fn held(f: &FabricMeasurement) -> u16 {
    f.held[0].saturating_add(f.held[1]).min(1000)
}

pub(super) async fn run(inner: Arc<Inner>, id: u64, wish: FabricTestRequest, seed: u64) {
    let turn = inner.turn.lock().await;
    let chosen = inner.brain.read(|s| choose::choose(s, &inner.agents, &wish));
    let chosen = match chosen {
        Ok(c) => c,
        Err(e) => {
            inner.failed(id, e.to_string());
            return;
        }
    };
    inner.change(id, |t| t.state = FabricState::Running);
    let mut going = RunningFabricTest {
        inner: inner.clone(),
        id,
        wish,
        lanes: Lanes::default(),
        round: 0,
        ring: false,
        figures: BTreeMap::new(),
        judged: Vec::new(),
        away: BTreeMap::new(),
    };
    going.all(chosen, seed).await;
    drop(turn);
}

impl RunningFabricTest {
    async fn all(&mut self, chosen: Chosen, seed: u64) {
        self.away.extend(chosen.skipped);
        let mut nodes: Vec<FabricNode> = Vec::new();
        let mut paths: Vec<[String; 2]> = Vec::new();
        let mut together: Vec<Vec<String>> = Vec::new();
        let mut findings: Vec<ObservedFinding> = Vec::new();
        for group in &chosen.groups {
            let found = match self.wish.group {
                true => self.whole(group, seed).await,
                false => self.in_pairs(group, seed).await,
            };
            for (node, status) in group.iter().zip(found.statuses) {
                nodes.push(self.node_result(node, status, &mut findings));
            }
            let name = |i: usize| group[i].name.to_string();
            paths.extend(found.paths.into_iter().map(|(a, b)| [name(a), name(b)]));
            together.extend(found.together.into_iter().map(|g| g.into_iter().map(name).collect()));
        }
        let shown: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
        for (name, why) in self.away.iter().filter(|(n, _)| !shown.contains(&n.to_string())) {
            nodes.push(skipped(name, why));
        }
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        self.inner.save().await;
        if !findings.is_empty()
            && let Err(e) = self.inner.brain.system(Command::FindingsSeen { findings }).await
        {
            tracing::warn!(error = %e, "what a test of the network found is not in the log");
        }
        let at = self.inner.brain.now();
        self.inner.change(self.id, |t| {
            t.nodes = nodes;
            t.paths = paths;
            t.together = together;
            t.state = FabricState::Done;
            t.ended_at = Some(at.into());
        });
    }

    /// Another round begins.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
        let round = self.round;
        self.inner.change(self.id, |t| t.rounds = round);
    }

    pub(super) async fn in_pairs(&mut self, group: &[Arc<Node>], seed: u64) -> HuntResult {
        let rounds = match self.wish.rounds {
            0 => usize::MAX,
            n => n as usize,
        };
        let mut hunt = Isolate::new(group.len(), rounds, seed);
        loop {
            let round = hunt.next_tests();
            if round.is_empty() {
                let statuses = (0..group.len()).map(|i| hunt.status(i)).collect();
                return HuntResult { statuses, paths: hunt.paths(), together: Vec::new() };
            }
            for (pair, reported) in self.pairs(group, &round).await {
                match reported {
                    PairResult::Passed(passed) => hunt.result(pair, passed),
                    PairResult::Left(i) => hunt.leave(i),
                }
            }
        }
    }

    /// A round of pairs.
    async fn pairs(&mut self, group: &[Arc<Node>], round: &[Pair]) -> Vec<(Pair, PairResult)> {
        self.next_round();
        let tests = round.iter().map(|&(a, b)| {
            pair::test(&self.inner, &self.lanes, (&group[a], &group[b]), &self.wish, false)
        });
        let outcomes = join_all(tests).await;
        let mut all: Vec<Tested> = round.iter().copied().zip(outcomes).map(Tested::once).collect();
        self.again(group, &mut all).await;
        self.evaluate(group, all)
    }

    /// What looks slow is measured again before it is judged, with fewer others beside it: once in
    /// any case, and more often while busy machines may be the reason. The best figure counts: a
    /// path that has carried so much can carry it.
    async fn again(&self, group: &[Arc<Node>], all: &mut [Tested]) {
        for time in 0..AGAIN_MOST {
            let doubted = self.pairs_to_retest(group, all, time >= AGAIN_LEAST);
            if doubted.is_empty() {
                return;
            }
            let tests = doubted.iter().map(|&i| {
                let (a, b) = all[i].pair;
                pair::test(&self.inner, &self.lanes, (&group[a], &group[b]), &self.wish, false)
            });
            let outcomes = join_all(tests).await;
            for (i, outcome) in doubted.into_iter().zip(outcomes) {
                all[i].more(outcome);
            }
        }
    }

    /// Which of a round are worth another test.
    pub(super) fn pairs_to_retest(
        &self,
        group: &[Arc<Node>],
        all: &[Tested],
        only_unsure: bool,
    ) -> Vec<usize> {
        let mut figures = self.figures.clone();
        for t in all {
            if let Some(f) = t.measurement() {
                let class = self.class(&group[t.pair.0], &group[t.pair.1]);
                figures.entry(class).or_default().push(f.mbps);
            }
        }
        let doubted = |t: &Tested| {
            let (a, b) = (&group[t.pair.0], &group[t.pair.1]);
            match (&t.outcome, t.measurement()) {
                (_, Some(f)) => {
                    let class = self.class(a, b);
                    let peers = figures.get(&class).map_or(&[][..], Vec::as_slice);
                    let held_to = self.baseline(&self.path(a, b), &class, peers);
                    match held_to.reads(f.mbps, held(f)) {
                        Reading::Fast => false,
                        Reading::Slow => !only_unsure,
                        Reading::Unsure => true,
                    }
                }
                (Outcome::Measured(_), None) => !only_unsure,
                (Outcome::Away { .. }, None) => false,
            }
        };
        (0..all.len()).filter(|i| doubted(&all[*i])).collect()
    }

    /// A round is judged as a whole: its paths are each other's peers.
    pub(super) fn evaluate(
        &mut self,
        group: &[Arc<Node>],
        round: Vec<Tested>,
    ) -> Vec<(Pair, PairResult)> {
        for t in &round {
            if let Some(f) = t.measurement() {
                let class = self.class(&group[t.pair.0], &group[t.pair.1]);
                self.figures.entry(class).or_default().push(f.mbps);
            }
        }
        round.into_iter().map(|t| (t.pair, self.evaluate_one(group, t))).collect()
    }

    fn evaluate_one(&mut self, group: &[Arc<Node>], tested: Tested) -> PairResult {
        let Tested { pair: (ia, ib), outcome, times } = tested;
        let (a, b) = (&group[ia], &group[ib]);
        let mut shown = self.shown(a, b);
        shown.times = times;
        let f = match outcome {
            Outcome::Away { first, why } => {
                let i = if first { ia } else { ib };
                return self.leaves(shown, group, i, why);
            }
            Outcome::Measured(f) => f,
        };
        let measured = f.error.is_none();
        let peers = self.figures.get(&shown.class).map_or(&[][..], Vec::as_slice);
        let baseline = self.baseline(&self.path(a, b), &shown.class, peers);
        let reading = match measured {
            true => baseline.reads(f.mbps, held(&f)),
            false => Reading::Slow,
        };
        if measured {
            shown.mbps = Some(f.mbps);
            shown.rtt_us = Some(f.rtt_us);
            shown.rtt_p99_us = Some(f.rtt_p99_us);
            shown.resent = Some(f.resent);
            shown.held = Some(held(&f));
        }
        shown.baseline_mbps = baseline.mbps;
        shown.past_mbps = baseline.own;
        shown.peers_mbps = baseline.peers;
        if reading == Reading::Unsure {
            // The second node is the one that measures. Who was held up longer is left out, and
            // the other is paired anew.
            let i = if f.held[1] > f.held[0] { ia } else { ib };
            let busy = held(&f) / 10;
            let why = format!("its machine was too busy to measure ({busy} % of the time)");
            return self.leaves(shown, group, i, why);
        }
        let slow = reading == Reading::Slow;
        // What a busy machine could do is nothing to hold the path to.
        if !slow && held(&f) < BUSY && shown.class != choose::ONE_MACHINE {
            lock(&self.inner.book).note(&self.path(a, b), &shown.class, f.mbps);
        }
        shown.verdict = match (measured, slow) {
            (false, _) => FabricVerdict::Failed,
            (true, true) => FabricVerdict::Slow,
            (true, false) => FabricVerdict::Ok,
        };
        shown.error.clone_from(&f.error);
        self.judged.push(PairVerdict {
            a: shown.a.clone(),
            b: shown.b.clone(),
            mbps: f.mbps,
            rtt_us: (f.rtt_us, f.rtt_p99_us),
            resent: f.resent,
            error: f.error,
            baseline,
            slow,
        });
        self.inner.change(self.id, |t| t.pairs.push(shown));
        PairResult::Passed(!slow)
    }

    /// A node cannot be tested any more.
    fn leaves(
        &mut self,
        mut shown: FabricPair,
        group: &[Arc<Node>],
        i: usize,
        why: String,
    ) -> PairResult {
        let name = &group[i].name;
        shown.error = Some(format!("{name}: {why}"));
        self.away.insert(name.clone(), why);
        self.inner.change(self.id, |t| t.pairs.push(shown));
        PairResult::Left(i)
    }

    /// Paths of one class are peers.
    fn class(&self, a: &Node, b: &Node) -> String {
        let class = choose::class(a, b);
        if self.ring && class != choose::ONE_MACHINE { format!("{class} ring") } else { class }
    }

    fn path(&self, a: &Node, b: &Node) -> Path {
        Path::between(a.name.as_str(), b.name.as_str(), self.ring.then_some("ring"))
    }

    fn shown(&self, a: &Node, b: &Node) -> FabricPair {
        FabricPair {
            round: self.round,
            a: a.name.to_string(),
            b: b.name.to_string(),
            class: self.class(a, b),
            mbps: None,
            baseline_mbps: None,
            past_mbps: None,
            peers_mbps: None,
            rtt_us: None,
            rtt_p99_us: None,
            resent: None,
            held: None,
            times: 1,
            verdict: FabricVerdict::Skipped,
            error: None,
        }
    }

    /// What a path is held to.
    fn baseline(&self, path: &Path, class: &str, peers: &[f64]) -> Baseline {
        if class == choose::ONE_MACHINE {
            // There is no network between them: whatever else the machine does is measured.
            return Baseline::default();
        }
        let mut book = lock(&self.inner.book);
        if self.wish.forget {
            book.forget(path);
        }
        book.baseline(path, class, peers)
    }

    fn node_result(
        &self,
        node: &Node,
        status: FabricNodeStatus,
        findings: &mut Vec<ObservedFinding>,
    ) -> FabricNode {
        let (name, at) = (node.name.as_str(), self.inner.brain.now());
        let mut shown = FabricNode {
            name: name.to_owned(),
            health: FabricNodeHealth::Undecided,
            why: Vec::new(),
            entity: None,
            confidence: None,
        };
        match status {
            FabricNodeStatus::Bad => {
                lock(&self.inner.book).bad(name);
                let f = verdict::slow(name, choose::entity(node), &self.judged, at);
                shown.health = FabricNodeHealth::Slow;
                shown.why.clone_from(&f.evidence);
                shown.entity = Some(f.entity.to_string());
                shown.confidence = Some(f.confidence);
                findings.push(f);
            }
            FabricNodeStatus::Good => {
                lock(&self.inner.book).good(name, at);
                shown.health = FabricNodeHealth::Good;
                let open: Vec<Entity> = self.inner.brain.read(|s| {
                    let open = s.health.open_on(&node.name);
                    let mine = open.filter(|f| f.seen.kind == verdict::KIND);
                    mine.map(|f| f.seen.entity.clone()).collect()
                });
                findings.extend(
                    open.into_iter().map(|e| verdict::recovered_finding(name, e, &self.judged, at)),
                );
            }
            FabricNodeStatus::Away => {
                let why = self.away.get(&node.name).map_or("it left", String::as_str);
                return skipped(&node.name, why);
            }
            FabricNodeStatus::Unknown => {
                shown.why.push("nobody is known to be good whom it could be tested with".into());
            }
        }
        shown
    }
}

fn skipped(name: &NodeName, why: &str) -> FabricNode {
    FabricNode {
        name: name.to_string(),
        health: FabricNodeHealth::Skipped,
        why: vec![why.to_owned()],
        entity: None,
        confidence: None,
    }
}
