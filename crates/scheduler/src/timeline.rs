//! When a gang can start at the latest: a walk along the moments at which something ends, until
//! some domain holds enough nodes for as long as the gang lasts.

use crate::fleet::{Fleet, level_ix};
use crate::frag::able;
use crate::place::Query;
use crate::work::FAR;
use muster_model::topology::Level;
use muster_model::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A start in time to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FutureStart {
    pub(crate) at: Time,
    /// Nodes in the order of the gang's groups.
    pub(crate) nodes: Vec<u32>,
}

/// Nodes looked at for one answer; beyond that the start is too far away to be reserved.
const MOST_LOOKS: usize = 100_000;

/// A node that can carry a share of a group, from a moment on until a last moment to begin.
#[derive(Debug, Clone, Copy)]
struct Free {
    ix: u32,
    from: Time,
    last: Time,
}

struct Walk<'a, 'q> {
    fleet: &'a Fleet,
    q: &'a Query<'q>,
    length: i64,
    /// By domain: for each group the nodes that are free for it.
    free: BTreeMap<u32, Vec<Vec<Free>>>,
    /// Nodes that become free at a moment to come: time, group, node, last moment.
    coming: BinaryHeap<Reverse<(Time, usize, u32, Time)>>,
    /// By number: was the node looked at?
    seen: Vec<bool>,
    /// Domains in which something became free since they were last looked at.
    touched: BTreeSet<u32>,
    looks: usize,
}

/// The earliest moment from `from` on at which the gang fits for as long as it lasts, without
/// taking anything that is kept for others.
pub(crate) fn earliest(fleet: &Fleet, q: &Query<'_>, from: Time) -> Option<FutureStart> {
    let length = q.end.0.saturating_sub(q.now.0);
    let mut w = Walk {
        fleet,
        q,
        length,
        free: BTreeMap::new(),
        coming: BinaryHeap::new(),
        seen: vec![false; fleet.numbers()],
        touched: BTreeSet::new(),
        looks: 0,
    };
    w.seed(from);
    let mut ends = fleet.ends.range((from, u32::MAX)..).peekable();
    let mut t = from;
    loop {
        if let Some(nodes) = w.settled(t) {
            return Some(FutureStart { at: t, nodes });
        }
        if w.looks > MOST_LOOKS {
            return None;
        }
        let next_end = ends.peek().map(|((t, _), _)| *t);
        let next_free = w.coming.peek().map(|Reverse((t, ..))| *t);
        t = match (next_end, next_free) {
            (None, None) => return None,
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
        };
        if t >= FAR {
            return None;
        }
        while let Some(((_, ix), _)) = ends.next_if(|((at, _), _)| *at == t) {
            w.probe_once(*ix, t);
        }
        while let Some(Reverse((at, gi, ix, last))) = w.coming.peek().copied() {
            if at > t {
                break;
            }
            w.coming.pop();
            w.add(gi, Free { ix, from: at, last });
        }
    }
}

impl Walk<'_, '_> {
    /// Nodes on which the shares fit as things are, and those that only a reservation closes.
    fn seed(&mut self, from: Time) {
        let fleet = self.fleet;
        for (class, members) in &fleet.classes {
            if self.q.asks.iter().any(|a| able(class, a)) {
                for p in members {
                    self.probe_once(p.ix, from);
                }
            }
        }
        // What ended before `from` or ends just then counts as free at `from`.
        let due: Vec<u32> = fleet.ends.range(..=(from, u32::MAX)).map(|((_, ix), _)| *ix).collect();
        for ix in due {
            self.probe_once(ix, from);
        }
    }

    fn probe_once(&mut self, ix: u32, t: Time) {
        if let Some(seen) = self.seen.get_mut(ix as usize)
            && !*seen
        {
            *seen = true;
            self.look_at_node(ix, t);
        }
    }

    fn look_at_node(&mut self, ix: u32, t: Time) {
        self.looks += 1;
        let e = self.fleet.entry(ix);
        for (gi, a) in self.q.asks.iter().enumerate() {
            let w = self.fleet.first_window(e, a, self.q.who, self.q.now, t, self.length);
            if let Some((from, last)) = w {
                if from <= t {
                    self.add(gi, Free { ix, from, last });
                } else {
                    self.coming.push(Reverse((from, gi, ix, last)));
                }
            }
        }
    }

    fn add(&mut self, gi: usize, f: Free) {
        let groups = self.q.asks.len();
        let key = match self.q.demand.widest() {
            Level::Node => f.ix,
            l => self.fleet.entry(f.ix).domains[level_ix(l)],
        };
        let d = self.free.entry(key).or_insert_with(|| vec![Vec::new(); groups]);
        d[gi].push(f);
        self.touched.insert(key);
    }

    /// A domain that holds the gang at `t`, and the nodes there.
    fn settled(&mut self, t: Time) -> Option<Vec<u32>> {
        let need: Vec<usize> = self.q.asks.iter().map(|a| a.nodes as usize).collect();
        let enough = |d: &u32| {
            let groups = self.free.get(d);
            groups.is_some_and(|g| g.iter().zip(&need).all(|(g, n)| g.len() >= *n))
        };
        let mut ready: Vec<u32> =
            std::mem::take(&mut self.touched).into_iter().filter(enough).collect();
        // By name, since numbers follow the order in which nodes joined.
        ready.sort_by_key(|d| match self.q.demand.widest() {
            Level::Node => self.fleet.entry(*d).pos.order,
            _ => self.fleet.domains[*d as usize].order,
        });
        let mut stale = Vec::new();
        for d in ready {
            let groups = self.free.get_mut(&d)?;
            for (gi, g) in groups.iter_mut().enumerate() {
                // Some could only have begun earlier: they are asked again.
                let gone: Vec<Free> = g.extract_if(.., |f| f.last < t).collect();
                stale.extend(gone.into_iter().map(|f| (gi, f.ix)));
            }
            if let Some(nodes) = self.choose(d, &need) {
                return Some(nodes);
            }
        }
        for (gi, ix) in stale {
            self.looks += 1;
            let e = self.fleet.entry(ix);
            let a = &self.q.asks[gi];
            if let Some((from, last)) =
                self.fleet.first_window(e, a, self.q.who, self.q.now, t, self.length)
            {
                self.coming.push(Reverse((from.max(t), gi, ix, last)));
            }
        }
        None
    }

    /// Nodes for every group: those that became free last, so that what is free now stays for
    /// those who can use it until then.
    fn choose(&self, domain: u32, need: &[usize]) -> Option<Vec<u32>> {
        let groups = self.free.get(&domain)?;
        let mut order: Vec<usize> = (0..need.len()).collect();
        order.sort_by_key(|&i| Reverse((self.q.asks[i].gpus, self.q.asks[i].memory)));
        let mut used: BTreeSet<u32> = BTreeSet::new();
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); need.len()];
        for gi in order {
            let mut able: Vec<&Free> =
                groups[gi].iter().filter(|f| !used.contains(&f.ix)).collect();
            if able.len() < need[gi] {
                return None;
            }
            able.sort_by_key(|f| (Reverse(f.from), Reverse(self.fleet.entry(f.ix).pos)));
            let picked = match self.q.demand.segment {
                Some(size) => self.in_segments(&able, need[gi], size as usize)?,
                None => able.iter().take(need[gi]).map(|f| f.ix).collect(),
            };
            used.extend(picked.iter().copied());
            out[gi] = picked;
        }
        Some(out.concat())
    }

    fn in_segments(&self, able: &[&Free], n: usize, size: usize) -> Option<Vec<u32>> {
        let order = |f: &Free| {
            let domain = self.fleet.entry(f.ix).domains[0];
            self.fleet.domains[domain as usize].order
        };
        let mut by: Vec<(u64, u32)> = able.iter().map(|f| (order(f), f.ix)).collect();
        by.sort_by_key(|(domain, _)| *domain);
        let mut out = Vec::with_capacity(n);
        for nodes in by.chunk_by(|a, b| a.0 == b.0) {
            let k = (nodes.len() / size * size).min(n - out.len());
            out.extend(nodes.iter().take(k).map(|(_, ix)| *ix));
        }
        (out.len() == n).then_some(out)
    }
}
