//! One test from its turn to its findings.

use super::choose::{self, Chosen, Wish};
use super::pair::{self, Lanes, Outcome};
use super::{Inner, lock};
use futures::future::join_all;
use muster_api::{FabricNode, FabricPair, FabricStanding, FabricState, FabricVerdict};
use muster_health::fabric::book::{Baseline, Path};
use muster_health::fabric::isolate::{Isolate, Standing};
use muster_health::fabric::pairs::Pair;
use muster_health::fabric::verdict::{self, Judged};
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::SeenFinding;
use muster_model::names::NodeName;
use muster_model::node::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A test that goes on.
struct Going {
    inner: Arc<Inner>,
    id: u64,
    wish: Wish,
    lanes: Lanes,
    round: u32,
    /// Figures so far, by class.
    figures: BTreeMap<String, Vec<f64>>,
    judged: Vec<Judged>,
    away: BTreeMap<NodeName, String>,
}

pub(super) async fn run(inner: Arc<Inner>, id: u64, wish: Wish, seed: u64) {
    let turn = inner.turn.lock().await;
    let chosen = inner.brain.read(|s| choose::choose(s, &inner.agents, &wish));
    let chosen = match chosen {
        Ok(c) => c,
        Err(e) => {
            let at = inner.brain.now();
            inner.change(id, |t| {
                t.state = FabricState::Failed;
                t.error = Some(e.to_string());
                t.ended_at = Some(at.into());
            });
            return;
        }
    };
    inner.change(id, |t| t.state = FabricState::Running);
    let mut going = Going {
        inner: inner.clone(),
        id,
        wish,
        lanes: Lanes::default(),
        round: 0,
        figures: BTreeMap::new(),
        judged: Vec::new(),
        away: BTreeMap::new(),
    };
    going.all(chosen, seed).await;
    drop(turn);
}

impl Going {
    async fn all(&mut self, chosen: Chosen, seed: u64) {
        self.away.extend(chosen.skipped);
        let mut nodes: Vec<FabricNode> = Vec::new();
        let mut paths: Vec<[String; 2]> = Vec::new();
        let mut findings: Vec<SeenFinding> = Vec::new();
        for group in &chosen.groups {
            let hunt = self.group(group, seed).await;
            for (i, node) in group.iter().enumerate() {
                nodes.push(self.stands(node, hunt.standing(i), &mut findings));
            }
            let name = |i: usize| group[i].name.to_string();
            paths.extend(hunt.paths().into_iter().map(|(a, b)| [name(a), name(b)]));
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
            t.state = FabricState::Done;
            t.ended_at = Some(at.into());
        });
    }

    async fn group(&mut self, group: &[Arc<Node>], seed: u64) -> Isolate {
        let rounds = match self.wish.rounds {
            0 => usize::MAX,
            n => n as usize,
        };
        let mut hunt = Isolate::new(group.len(), rounds, seed);
        loop {
            let round = hunt.next_tests();
            if round.is_empty() {
                return hunt;
            }
            self.round += 1;
            let round_no = self.round;
            self.inner.change(self.id, |t| t.rounds = round_no);
            let tests = round.iter().map(|&(a, b)| {
                pair::test(&self.inner, &self.lanes, (&group[a], &group[b]), &self.wish)
            });
            let outcomes = join_all(tests).await;
            self.judge(group, round.into_iter().zip(outcomes).collect(), &mut hunt);
        }
    }

    /// A round is judged as a whole: its paths are each other's peers.
    fn judge(&mut self, group: &[Arc<Node>], round: Vec<(Pair, Outcome)>, hunt: &mut Isolate) {
        for ((a, b), outcome) in &round {
            if let Outcome::Measured(f) = outcome
                && f.error.is_none()
            {
                let class = choose::class(&group[*a], &group[*b]);
                self.figures.entry(class).or_default().push(f.mbps);
            }
        }
        for ((ia, ib), outcome) in round {
            let (a, b) = (&group[ia], &group[ib]);
            let mut shown = self.shown(a, b);
            let f = match outcome {
                Outcome::Away { first, why } => {
                    let (node, i) = if first { (a, ia) } else { (b, ib) };
                    hunt.leave(i);
                    shown.error = Some(format!("{}: {why}", node.name));
                    self.away.insert(node.name.clone(), why);
                    self.inner.change(self.id, |t| t.pairs.push(shown));
                    continue;
                }
                Outcome::Measured(f) => f,
            };
            let path = Path::between(a.name.as_str(), b.name.as_str(), None);
            let baseline = self.baseline(&path, &shown.class, f.mbps, f.error.is_none());
            let slow = f.error.is_some() || baseline.is_slow(f.mbps);
            hunt.result((ia, ib), !slow);
            let measured = f.error.is_none();
            shown.verdict = match (measured, slow) {
                (false, _) => FabricVerdict::Failed,
                (true, true) => FabricVerdict::Slow,
                (true, false) => FabricVerdict::Ok,
            };
            shown.mbps = measured.then_some(f.mbps);
            shown.rtt_us = measured.then_some(f.rtt_us);
            shown.rtt_p99_us = measured.then_some(f.rtt_p99_us);
            shown.resent = measured.then_some(f.resent);
            shown.error.clone_from(&f.error);
            shown.baseline_mbps = baseline.mbps;
            shown.past_mbps = baseline.own;
            shown.peers_mbps = baseline.peers;
            self.judged.push(Judged {
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
        }
    }

    fn shown(&self, a: &Node, b: &Node) -> FabricPair {
        FabricPair {
            round: self.round,
            a: a.name.to_string(),
            b: b.name.to_string(),
            class: choose::class(a, b),
            mbps: None,
            baseline_mbps: None,
            past_mbps: None,
            peers_mbps: None,
            rtt_us: None,
            rtt_p99_us: None,
            resent: None,
            verdict: FabricVerdict::Skipped,
            error: None,
        }
    }

    /// What a path is held to; what is not slow becomes part of its past.
    fn baseline(&self, path: &Path, class: &str, mbps: f64, measured: bool) -> Baseline {
        if class == choose::ONE_MACHINE {
            // There is no network between them: whatever else the machine does is measured.
            return Baseline::default();
        }
        let mut book = lock(&self.inner.book);
        if self.wish.forget {
            book.forget(path);
        }
        let peers = self.figures.get(class).map_or(&[][..], Vec::as_slice);
        let baseline = book.baseline(path, class, peers);
        if measured && !baseline.is_slow(mbps) {
            book.note(path, class, mbps);
        }
        baseline
    }

    fn stands(
        &self,
        node: &Node,
        standing: Standing,
        findings: &mut Vec<SeenFinding>,
    ) -> FabricNode {
        let (name, at) = (node.name.as_str(), self.inner.brain.now());
        let mut shown = FabricNode {
            name: name.to_owned(),
            standing: FabricStanding::Undecided,
            why: Vec::new(),
            entity: None,
            confidence: None,
        };
        match standing {
            Standing::Bad => {
                let f = verdict::slow(name, choose::entity(node), &self.judged, at);
                shown.standing = FabricStanding::Slow;
                shown.why.clone_from(&f.evidence);
                shown.entity = Some(f.entity.to_string());
                shown.confidence = Some(f.confidence);
                findings.push(f);
            }
            Standing::Good => {
                shown.standing = FabricStanding::Good;
                let open: Vec<Entity> = self.inner.brain.read(|s| {
                    let open = s.health.open_on(&node.name);
                    let mine = open.filter(|f| f.seen.kind == verdict::KIND);
                    mine.map(|f| f.seen.entity.clone()).collect()
                });
                findings.extend(open.into_iter().map(|e| verdict::well(name, e, &self.judged, at)));
            }
            Standing::Away => {
                let why = self.away.get(&node.name).map_or("it left", String::as_str);
                return skipped(&node.name, why);
            }
            Standing::Unknown => {
                shown.why.push("nobody is known to be good whom it could be tested with".into());
            }
        }
        shown
    }
}

fn skipped(name: &NodeName, why: &str) -> FabricNode {
    FabricNode {
        name: name.to_string(),
        standing: FabricStanding::Skipped,
        why: vec![why.to_owned()],
        entity: None,
        confidence: None,
    }
}
