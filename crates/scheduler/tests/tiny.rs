//! Every sequence of events on tiny clusters, to a depth: all that must hold, holds in every
//! state that can be reached.

use crate::common;

use common::{Build, ClusterRun, fleet, gang, name, with_gpus};
use muster_model::topology::Level;
use muster_model::units::Span;
use muster_scheduler::NodeFacts;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What may happen.
#[derive(Debug, Clone, Copy)]
enum Act {
    Submit(usize),
    EndOldest,
    EndNewest,
    Hour,
    Toggle,
}

const ACTS: [Act; 8] = [
    Act::Submit(0),
    Act::Submit(1),
    Act::Submit(2),
    Act::Submit(3),
    Act::EndOldest,
    Act::EndNewest,
    Act::Hour,
    Act::Toggle,
];

/// Jobs alive at once; more only repeat what fewer show.
const ALIVE: usize = 5;

fn step(life: &mut ClusterRun, shapes: &[Build; 4], act: Act) -> bool {
    match act {
        Act::Submit(i) => {
            if life.c.running.len() + life.c.queue.len() >= ALIVE {
                return false;
            }
            life.submit(shapes[i].clone());
        }
        Act::EndOldest | Act::EndNewest => {
            let by_age = life.c.running.iter().map(|(id, r)| (r.placed, *id));
            let id = match act {
                Act::EndOldest => by_age.min(),
                _ if life.c.running.len() < 2 => None,
                _ => by_age.max(),
            };
            let Some((_, id)) = id else { return false };
            life.finish(id);
            life.cycle();
        }
        Act::Hour => life.pass(Span::hours(1)),
        Act::Toggle => {
            let n = name("n000");
            if life.nodes[&n].block.is_some() {
                life.heal(&n);
            } else {
                // What was reserved may move from here on.
                life.reserved_starts_hold = false;
                life.fail(&n);
            }
            life.cycle();
        }
    }
    true
}

/// A state in words: times count from now, names of jobs do not matter.
fn digest(life: &ClusterRun) -> String {
    let mut out = String::new();
    let ago = |t: muster_model::units::Time, most: Span| life.now.since(t).0.min(most.0);
    let kind = |id| {
        let w = &life.jobs[&id].work;
        format!("{}{:?}{:?}", w.demand.gpus(), w.limit, w.priority)
    };
    for (id, r) in &life.c.running {
        let on: Vec<_> = r.slots().iter().map(|s| (s.node.as_str(), s.gpus.0)).collect();
        let left = r.until.since(life.now).0;
        let ran = ago(r.placed, Span::mins(5));
        write!(out, "R{} {on:?} {left} {ran} {};", kind(*id), r.stopping).unwrap();
    }
    for t in life.c.queue.iter() {
        let since = life.jobs[&t.job].work.since;
        write!(out, "Q{} {}", kind(t.job), ago(since, Span::hours(1))).unwrap();
        if let Some(p) = life.reported.get(&t.job) {
            let on: Vec<_> = p.nodes.iter().map(|n| n.as_str()).collect();
            write!(out, "P{} {on:?} {:?}", p.at.0 - life.now.0, p.basis).unwrap();
        }
    }
    for n in life.nodes.values() {
        write!(out, "{}", u8::from(n.block.is_some())).unwrap();
    }
    write!(out, "{}", life.reserved_starts_hold).unwrap();
    out
}

struct Search {
    /// States seen, and how deep was searched below them.
    seen: BTreeMap<String, u32>,
    steps: u64,
    shapes: [Build; 4],
}

impl Search {
    fn walk(&mut self, life: &ClusterRun, depth: u32) {
        for act in ACTS {
            let mut next = life.clone();
            if !step(&mut next, &self.shapes, act) {
                continue;
            }
            self.steps += 1;
            let d = digest(&next);
            if self.seen.get(&d).is_some_and(|below| *below + 1 >= depth) {
                continue;
            }
            self.seen.insert(d, depth - 1);
            if depth > 1 {
                self.walk(&next, depth - 1);
            }
        }
    }
}

/// `MUSTER_DEPTH` goes deeper: six takes minutes.
fn search(label: &str, nodes: Vec<NodeFacts>, shapes: [Build; 4], depth: u32) {
    let depth = std::env::var("MUSTER_DEPTH").ok().and_then(|d| d.parse().ok()).unwrap_or(depth);
    let mut life = ClusterRun::new(nodes);
    life.reserved_starts_hold = true;
    let mut s = Search { seen: BTreeMap::new(), steps: 0, shapes };
    s.walk(&life, depth);
    println!("{label}: {} states by {} steps, depth {depth}", s.seen.len(), s.steps);
    assert!(s.seen.len() > 500, "{} states are too few to show anything", s.seen.len());
}

fn two() -> Vec<NodeFacts> {
    fleet(2, 1, 2)
}

fn three() -> Vec<NodeFacts> {
    let mut all = fleet(1, 2, 2);
    all.push(with_gpus(common::node("n100", "l1", "k1-0"), 2));
    all
}

#[test]
fn gangs_with_limits_on_two_nodes() {
    let shapes = [
        gang(1, 1).limit(60),
        gang(2, 2).limit(120),
        gang(2, 1).limit(90),
        gang(1, 2).limit(60).high(),
    ];
    search("limits, 2 nodes", two(), shapes, 5);
}

#[test]
fn work_without_limits_on_two_nodes() {
    let shapes = [gang(1, 1).low(), gang(2, 2).limit(120), gang(1, 2).spot(), gang(1, 2).high()];
    search("no limits, 2 nodes", two(), shapes, 5);
}

#[test]
fn bound_gangs_on_three_nodes() {
    let shapes = [
        gang(1, 1).limit(60).low(),
        gang(2, 2).limit(60).required(Level::Leaf),
        gang(3, 1).limit(120),
        gang(2, 1).elastic(1, 3),
    ];
    search("bound and elastic, 3 nodes", three(), shapes, 5);
}
