//! Which nodes of a domain a gang gets when others leave, and who of them does. There may be more
//! than a hundred thousand nodes and as many jobs: all are numbered, and looked up by number.

use crate::cluster::Cluster;
use crate::node::{Ask, Entry, Pos};
use crate::place::Query;
use crate::preempt::{Candidate, PreemptionPlan};
use crate::ways::{Choice, Way, Ways, number};
use muster_model::ids::JobId;
use muster_model::spec::Tier;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// A job that was not met in the domain yet.
const NOT_MET: u32 = u32::MAX;

/// A search in one domain after the other.
pub(crate) struct Search<'a, 'q> {
    c: &'a Cluster,
    q: &'a Query<'q>,
    a: &'a Ask,
    /// Who could make room, in order: numbers below follow it.
    ids: Vec<JobId>,
    candidates: Vec<Candidate>,
    /// By number: the number in the domain that is looked at.
    met: Vec<u32>,
}

impl<'a, 'q> Search<'a, 'q> {
    pub(crate) fn new(
        c: &'a Cluster,
        q: &'a Query<'q>,
        a: &'a Ask,
        able: &BTreeMap<JobId, Candidate>,
    ) -> Search<'a, 'q> {
        Search {
            c,
            q,
            a,
            ids: able.keys().copied().collect(),
            candidates: able.values().copied().collect(),
            met: vec![NOT_MET; able.len()],
        }
    }

    /// The cheapest way to make room for the gang on these nodes.
    pub(crate) fn in_domain(
        &mut self,
        nodes: &mut dyn Iterator<Item = &Entry>,
    ) -> Option<PreemptionPlan> {
        let need = self.a.nodes as usize;
        let ways = self.ways(nodes);
        if ways.nodes.len() < need {
            return None;
        }
        let it = match self.q.demand.segment {
            Some(size) => self.in_pieces(&ways, need, size as usize)?,
            None => ways.cheapest(need)?,
        };
        Some(self.finish(&ways, &it))
    }

    fn ways(&mut self, nodes: &mut dyn Iterator<Item = &Entry>) -> Ways {
        let mut ways = Ways::default();
        let mut here = Vec::new();
        for e in nodes {
            let from = ways.leave.len();
            if !self.leaving(e, &mut here, &mut ways.leave) {
                ways.leave.truncate(from);
                continue;
            }
            for j in &mut ways.leave[from..] {
                let met = &mut self.met[*j as usize];
                if *met == NOT_MET {
                    *met = number(ways.jobs.len());
                    ways.jobs.push(*j);
                }
                *j = *met;
            }
            let to = ways.leave.len();
            ways.nodes.push(Way { pos: e.pos, from, to });
        }
        for j in &ways.jobs {
            self.met[*j as usize] = NOT_MET;
        }
        ways.costs = ways.jobs.iter().map(|j| self.candidates[*j as usize].cost).collect();
        ways.turn();
        ways
    }

    /// What must leave a node so that the share fits: the cheapest first, added to `out` by number.
    /// False when even all of it would not do. `here` is room to count in.
    fn leaving(&self, e: &Entry, here: &mut Vec<(u128, u32)>, out: &mut Vec<u32>) -> bool {
        let (c, q, a, f) = (self.c, self.q, self.a, &self.c.fleet);
        if !e.open() || !e.capable(a) {
            return false;
        }
        if f.free_until(e, a, q.who, q.now, q.end) {
            return true;
        }
        here.clear();
        here.extend(e.holds.iter().filter_map(|h| {
            let n = self.ids.binary_search(&h.job).ok()?;
            let cand = &self.candidates[n];
            if cand.tail > 0 {
                // A shrinking gang only gives its last nodes.
                let r = c.running.get(&h.job)?;
                let at = r.slots().iter().position(|s| s.node == e.facts.name)?;
                (at >= cand.tail).then_some(())?;
            }
            Some((cand.cost, number(n)))
        }));
        here.sort_unstable();
        here.dedup();
        let id = |n: u32| self.ids[n as usize];
        if e.book.is_empty() && e.reserved.is_empty() && q.who.tier != Tier::Reserved {
            // Nothing is kept and nothing closes there: only what is free counts.
            let mut room = e.room.clone();
            for (_, n) in here.iter() {
                for h in e.holds.iter().filter(|h| h.job == id(*n)) {
                    room.give(&e.facts, h);
                }
                out.push(*n);
                if room.holds(a, (0, 0, 0)) {
                    return true;
                }
            }
            return false;
        }
        let fits = |gone: &[u32]| {
            let mut without = e.clone();
            without.holds.retain(|h| !gone.iter().any(|n| id(*n) == h.job));
            without.recount();
            f.free_until(&without, a, q.who, q.now, q.end)
        };
        let mut leave: Vec<u32> = Vec::new();
        for (_, n) in here.iter() {
            leave.push(*n);
            if fits(&leave) {
                // The dear ones made room; the cheap ones before them may not be needed.
                for n in leave.clone().into_iter().rev().skip(1) {
                    let fewer: Vec<u32> = leave.iter().copied().filter(|j| *j != n).collect();
                    if fits(&fewer) {
                        leave = fewer;
                    }
                }
                out.extend(leave);
                return true;
            }
        }
        false
    }

    /// Pieces of equal size, each inside one NVLink domain: one piece after the other where it
    /// costs least.
    fn in_pieces(&self, ways: &Ways, need: usize, size: usize) -> Option<Choice> {
        let f = &self.c.fleet;
        let order = |i: usize| f.domains[f.entry(ways.nodes[i].pos.ix).domains[0] as usize].order;
        let mut all: Vec<(u64, usize)> = (0..ways.nodes.len()).map(|i| (order(i), i)).collect();
        all.sort_unstable();
        let by_domain = all.chunk_by(|a, b| a.0 == b.0);
        let mut left: Vec<Vec<usize>> =
            by_domain.map(|of| of.iter().map(|(_, i)| *i).collect()).collect();
        let mut it = ways.nothing_chosen();
        let mut have = 0;
        while have < need {
            let mut best: Option<(u128, usize, Vec<usize>)> = None;
            for (domain, nodes) in left.iter().enumerate().filter(|(_, n)| n.len() >= size) {
                let mut by: Vec<usize> = nodes.clone();
                by.sort_by_cached_key(|i| (ways.cost(*i, &it.gone), ways.nodes[*i].pos));
                by.truncate(size);
                let mut jobs: Vec<u32> =
                    by.iter().flat_map(|i| ways.leavers(*i).iter().copied()).collect();
                jobs.sort_unstable();
                jobs.dedup();
                let stay = jobs.iter().map(|j| *j as usize).filter(|j| !it.gone[*j]);
                let here: u128 = stay.map(|j| ways.costs[j]).sum();
                if best.as_ref().is_none_or(|(least, ..)| here < *least) {
                    best = Some((here, domain, by));
                }
            }
            let (_, domain, piece) = best?;
            left[domain].retain(|i| !piece.contains(i));
            have += piece.len();
            for i in piece {
                it.chosen[i] = true;
                for j in ways.leavers(i) {
                    it.gone[*j as usize] = true;
                }
            }
        }
        Some(it)
    }

    fn finish(&self, ways: &Ways, it: &Choice) -> PreemptionPlan {
        let mut plan = PreemptionPlan {
            victims: Vec::new(),
            shrinks: Vec::new(),
            nodes: Vec::new(),
            cost: 0,
            coming: Vec::new(),
            coming_by: Time(0),
        };
        let mut gone: Vec<usize> = (0..ways.jobs.len()).filter(|j| it.gone[*j]).collect();
        gone.sort_by_key(|j| ways.jobs[*j]);
        for j in gone {
            let n = ways.jobs[j] as usize;
            let (id, cand) = (self.ids[n], &self.candidates[n]);
            plan.cost += cand.cost;
            if let Some(by) = cand.gone_by {
                plan.coming.push(id);
                plan.coming_by = plan.coming_by.max(by);
                continue;
            }
            match cand.rank {
                Some(rank) => plan.victims.push((id, rank)),
                None => {
                    let on = ways.nodes_of(j).iter().map(|i| *i as usize);
                    let mut gives: Vec<u32> =
                        on.filter(|i| it.chosen[*i]).map(|i| ways.nodes[i].pos.ix).collect();
                    gives.sort_unstable();
                    plan.shrinks.push((id, gives));
                }
            }
        }
        let chosen = ways.nodes.iter().zip(&it.chosen).filter(|(_, chosen)| **chosen);
        let mut nodes: Vec<Pos> = chosen.map(|(w, _)| w.pos).collect();
        nodes.sort_unstable();
        plan.nodes = nodes.into_iter().map(|p| p.ix).collect();
        plan
    }
}
