//! The same log always gives the same state; whatever happens, the invariants hold.

mod common;

use common::{World, gang, node, replay};
use muster_engine::State;
use muster_model::command::{Command, Observed};
use muster_model::ids::JobId;
use muster_model::job::{Exit, SlotEnd};
use muster_model::units::Span;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Op {
    Submit {
        nodes: u32,
        gpus: u32,
        hold: bool,
        after: Option<u8>,
        array: bool,
        ckpt: bool,
        limit: bool,
    },
    Cancel(u8),
    Hold(u8),
    Release(u8),
    Requeue(u8),
    Report {
        job: u8,
        slot: u8,
        how: u8,
    },
    Lose(u8),
    Back {
        node: u8,
        boot: bool,
        keep: bool,
    },
    Cordon(u8),
    Uncordon(u8),
    Drain(u8, bool),
    Undrain(u8),
    Pass(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u32..5, 0u32..9, any::<bool>(), proptest::option::of(any::<u8>()), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(nodes, gpus, hold, after, array, ckpt, limit)| Op::Submit { nodes, gpus, hold: hold && gpus == 0, after: after.filter(|a| a % 3 == 0), array: array && nodes == 1, ckpt, limit }),
        1 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<u8>().prop_map(Op::Hold),
        1 => any::<u8>().prop_map(Op::Release),
        1 => any::<u8>().prop_map(Op::Requeue),
        14 => (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(job, slot, how)| Op::Report { job, slot, how }),
        2 => (0u8..6).prop_map(Op::Lose),
        3 => (0u8..6, any::<bool>(), any::<bool>()).prop_map(|(node, boot, keep)| Op::Back { node, boot, keep }),
        1 => (0u8..6).prop_map(Op::Cordon),
        1 => (0u8..6).prop_map(Op::Uncordon),
        1 => (0u8..6, any::<bool>()).prop_map(|(n, s)| Op::Drain(n, s)),
        1 => (0u8..6).prop_map(Op::Undrain),
        3 => (0u32..200_000).prop_map(Op::Pass),
    ]
}

/// Some known job, chosen by a number.
fn pick(w: &World, n: u8) -> Option<JobId> {
    let jobs = &w.engine.state().jobs;
    let i = usize::from(n) % jobs.len().max(1);
    jobs.keys().nth(i).copied()
}

fn play(w: &mut World, op: &Op) {
    let _ = match op.clone() {
        Op::Submit { nodes, gpus, hold, after, array, ckpt, limit } => {
            let mut spec = gang(nodes, gpus);
            spec.hold = hold;
            spec.after =
                after.and_then(|a| pick(w, a)).map(|j| format!("{j}:any")).into_iter().collect();
            spec.array = array.then(|| "0-2".to_string());
            spec.time_limit = limit.then(|| Span::mins(1));
            if ckpt {
                spec.checkpoint = Some(muster_model::spec::CheckpointSpec {
                    dir: "/c".into(),
                    request: muster_model::spec::CheckpointRequest::default(),
                    grace: None,
                    interval: None,
                });
            }
            w.send(Command::Submit { spec: Arc::new(spec) })
        }
        Op::Cancel(n) => match pick(w, n) {
            Some(job) => w.send(Command::Cancel { job }),
            None => return,
        },
        Op::Hold(n) => match pick(w, n) {
            Some(job) => w.send(Command::Hold { job }),
            None => return,
        },
        Op::Release(n) => match pick(w, n) {
            Some(job) => w.send(Command::Release { job }),
            None => return,
        },
        Op::Requeue(n) => match pick(w, n) {
            Some(job) => w.send(Command::Requeue { job }),
            None => return,
        },
        Op::Report { job, slot, how } => {
            let active: Vec<JobId> = w
                .engine
                .state()
                .jobs
                .values()
                .filter(|j| j.attempt.is_some())
                .map(|j| j.id)
                .collect();
            let Some(&id) = active.get(usize::from(job) % active.len().max(1)) else { return };
            let nodes = w.nodes_of(id);
            let n = nodes[usize::from(slot) % nodes.len()].clone();
            if !w.engine.state().nodes[&n].reachable {
                return;
            }
            let observed = match how % 8 {
                0..=3 => Observed::Running,
                4 | 5 => Observed::Ended(SlotEnd::Ok),
                6 => Observed::Ended(SlotEnd::Failed {
                    exit: Exit { rank: 0, code: Some(1), signal: None, note: String::new() },
                }),
                _ => Observed::Ended(SlotEnd::NodeFault { reason: "x".into() }),
            };
            let key = w.key(id);
            w.send(Command::SlotReport { node: n, key, observed })
        }
        Op::Lose(n) => w.send(Command::NodeLost { node: node(n.into()), last_seen: w.now }),
        Op::Back { node: n, boot, keep } => {
            let name = node(n.into());
            let observed = if keep {
                w.engine
                    .state()
                    .jobs
                    .values()
                    .filter_map(|j| j.attempt_key())
                    .filter(|k| w.nodes_of(k.job).contains(&name))
                    .map(|k| (k, Observed::Running))
                    .collect()
            } else {
                Vec::new()
            };
            w.connect(n.into(), 8, if boot { "b1" } else { "boot" }, observed);
            return;
        }
        Op::Cordon(n) => w.send(Command::Cordon { node: node(n.into()), reason: "r".into() }),
        Op::Uncordon(n) => w.send(Command::Uncordon { node: node(n.into()) }),
        Op::Drain(n, stop) => {
            w.send(Command::Drain { node: node(n.into()), reason: "r".into(), stop })
        }
        Op::Undrain(n) => w.send(Command::Undrain { node: node(n.into()) }),
        Op::Pass(ms) => {
            w.pass(Span(ms.into()));
            return;
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Invariants are checked after every step by the world itself.
    #[test]
    fn a_log_replays_to_the_same_digest_and_two_lives_are_equal(ops in proptest::collection::vec(op(), 1..120)) {
        let mut a = World::new(6, 8);
        let mut b = World::new(6, 8);
        for o in &ops {
            play(&mut a, o);
            play(&mut b, o);
        }
        prop_assert_eq!(&a.log, &b.log);
        let digest = a.engine.state().digest();
        prop_assert_eq!(replay(&a.log).digest(), digest.clone());
        // Through text, as the store keeps it.
        let text: Vec<String> = a.log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
        let back: Vec<_> = text.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
        prop_assert_eq!(replay(&back).digest(), digest.clone());
        // Through a snapshot half way.
        let half = a.log.len() / 2;
        let bytes = replay(&a.log[..half]).to_bytes().unwrap();
        let mut s = State::from_bytes(1, &bytes).unwrap();
        for r in &a.log[half..] {
            s.apply(r).unwrap();
        }
        prop_assert_eq!(s.digest(), digest);
        prop_assert!(s.problems().is_empty(), "{:?}", s.problems());
    }

    #[test]
    fn an_early_tick_changes_nothing(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = World::new(6, 8);
        for o in &ops {
            play(&mut w, o);
            let n = w.log.len();
            w.tick();
            prop_assert_eq!(w.log.len(), n, "a second tick at the same time found something to do");
        }
    }

    #[test]
    fn every_waiting_job_can_say_why(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = World::new(6, 8);
        for o in &ops {
            play(&mut w, o);
        }
        for id in w.engine.state().jobs.keys() {
            let e = w.engine.state().explain(*id, w.now).unwrap();
            prop_assert!(!e.summary.is_empty());
        }
    }
}
