//! Nodes on which a share fits once some have left: which of them cost least, and who leaves then.

use crate::node::Pos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A place in a list, in four bytes.
pub(crate) fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A node on which the share fits once some have left.
pub(crate) struct Way {
    pub(crate) pos: Pos,
    /// Those who leave: from here to there in [`Ways::leave`].
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// All such nodes of a domain.
#[derive(Default)]
pub(crate) struct Ways {
    pub(crate) nodes: Vec<Way>,
    /// Who leaves the nodes, node by node, as places in `jobs`.
    pub(crate) leave: Vec<u32>,
    /// Those who are met in the domain: their numbers in the search.
    pub(crate) jobs: Vec<u32>,
    /// What each of them costs.
    pub(crate) costs: Vec<u128>,
    /// Where the nodes of each begin in `on`, and where those of the last end.
    begins: Vec<usize>,
    /// The nodes that each would leave, job by job, as places in `nodes`.
    on: Vec<u32>,
}

/// Nodes that are chosen and jobs that leave for it, by place in [`Ways`].
pub(crate) struct Choice {
    pub(crate) chosen: Vec<bool>,
    pub(crate) gone: Vec<bool>,
}

impl Ways {
    pub(crate) fn leavers(&self, node: usize) -> &[u32] {
        let w = &self.nodes[node];
        &self.leave[w.from..w.to]
    }

    pub(crate) fn nodes_of(&self, job: usize) -> &[u32] {
        &self.on[self.begins[job]..self.begins[job + 1]]
    }

    /// What is lost if the node is taken, beside those who are gone.
    pub(crate) fn cost(&self, node: usize, gone: &[bool]) -> u128 {
        let stay = self.leavers(node).iter().filter(|j| !gone[**j as usize]);
        stay.map(|j| self.costs[*j as usize]).sum()
    }

    /// Turns who leaves which node round: which nodes each leaves.
    pub(crate) fn turn(&mut self) {
        self.begins = vec![0; self.jobs.len() + 1];
        for j in &self.leave {
            self.begins[*j as usize + 1] += 1;
        }
        for j in 0..self.jobs.len() {
            self.begins[j + 1] += self.begins[j];
        }
        let mut next = self.begins.clone();
        self.on = vec![0; self.leave.len()];
        for (i, w) in self.nodes.iter().enumerate() {
            for j in &self.leave[w.from..w.to] {
                let at = &mut next[*j as usize];
                self.on[*at] = number(i);
                *at += 1;
            }
        }
    }

    pub(crate) fn nothing_chosen(&self) -> Choice {
        Choice { chosen: vec![false; self.nodes.len()], gone: vec![false; self.jobs.len()] }
    }

    /// The cheapest nodes, one after the other: who leaves one of them costs nothing more on the
    /// others.
    pub(crate) fn cheapest(&self, need: usize) -> Option<Choice> {
        let mut it = self.nothing_chosen();
        let mut costs: Vec<u128> = (0..self.nodes.len()).map(|i| self.cost(i, &it.gone)).collect();
        let first = self.nodes.iter().zip(&costs).enumerate();
        let mut heap: BinaryHeap<Reverse<(u128, Pos, usize)>> =
            first.map(|(i, (w, cost))| Reverse((*cost, w.pos, i))).collect();
        let mut have = 0;
        while have < need {
            let Reverse((cost, _, i)) = heap.pop()?;
            // What costs less by now was pushed once more.
            if it.chosen[i] || costs[i] < cost {
                continue;
            }
            it.chosen[i] = true;
            have += 1;
            for j in self.leavers(i).iter().map(|j| *j as usize) {
                if std::mem::replace(&mut it.gone[j], true) {
                    continue;
                }
                // Its other nodes cost less from here on.
                for other in self.nodes_of(j).iter().map(|o| *o as usize) {
                    costs[other] -= self.costs[j];
                    if !it.chosen[other] {
                        heap.push(Reverse((costs[other], self.nodes[other].pos, other)));
                    }
                }
            }
        }
        self.prune(&mut it, need);
        Some(it)
    }

    /// Nobody leaves for nothing: who is not needed after all stays, the dearest first.
    fn prune(&self, it: &mut Choice, need: usize) {
        let free = |i: usize| self.leavers(i).iter().all(|j| it.gone[*j as usize]);
        let mut usable: Vec<bool> = (0..self.nodes.len()).map(free).collect();
        let mut left = usable.iter().filter(|u| **u).count();
        let mut by_cost: Vec<usize> = (0..self.jobs.len()).filter(|j| it.gone[*j]).collect();
        by_cost.sort_by_key(|j| Reverse((self.costs[*j], self.jobs[*j])));
        for j in by_cost {
            let on = self.nodes_of(j);
            let lost = on.iter().filter(|i| usable[**i as usize]).count();
            if left - lost >= need {
                it.gone[j] = false;
                for i in on {
                    usable[*i as usize] = false;
                }
                left -= lost;
            }
        }
        let mut have = 0;
        for (chosen, usable) in it.chosen.iter_mut().zip(&usable) {
            *chosen &= *usable;
            have += usize::from(*chosen);
        }
        if have == need {
            return;
        }
        let mut more: Vec<usize> =
            (0..self.nodes.len()).filter(|i| usable[*i] && !it.chosen[*i]).collect();
        more.sort_by_key(|i| self.nodes[*i].pos);
        for i in more.into_iter().take(need - have) {
            it.chosen[i] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Numbers that look like chance and are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % n as u64).unwrap_or(0)
        }
    }

    /// Jobs on nodes by chance. Positions run against the order in which the nodes are looked at.
    fn any_ways(dice: &mut Dice) -> Ways {
        let (nodes, jobs) = (1 + dice.below(12), 1 + dice.below(8));
        let mut ways = Ways {
            jobs: (0..number(jobs)).rev().collect(),
            costs: (0..jobs).map(|_| dice.below(5) as u128).collect(),
            ..Ways::default()
        };
        for i in 0..nodes {
            let from = ways.leave.len();
            let on: BTreeSet<u32> = (0..dice.below(4)).map(|_| number(dice.below(jobs))).collect();
            ways.leave.extend(on);
            let pos = Pos { order: ((i * 5) % 13) as u64, ix: number(i) };
            ways.nodes.push(Way { pos, from, to: ways.leave.len() });
        }
        ways.turn();
        ways
    }

    /// The same, looked up node by node without any list that is kept.
    fn plain(ways: &Ways, need: usize) -> Option<(BTreeSet<usize>, BTreeSet<usize>)> {
        let on =
            |i: usize| -> BTreeSet<usize> { ways.leavers(i).iter().map(|j| *j as usize).collect() };
        let (mut chosen, mut gone) = (BTreeSet::new(), BTreeSet::new());
        while chosen.len() < need {
            let cost = |i: usize| -> u128 { on(i).difference(&gone).map(|j| ways.costs[*j]).sum() };
            let open = (0..ways.nodes.len()).filter(|i| !chosen.contains(i));
            let best = open.min_by_key(|i| (cost(*i), ways.nodes[*i].pos))?;
            chosen.insert(best);
            gone.extend(on(best));
        }
        let free = |gone: &BTreeSet<usize>| -> BTreeSet<usize> {
            (0..ways.nodes.len()).filter(|i| on(*i).is_subset(gone)).collect()
        };
        let mut usable = free(&gone);
        let mut dearest: Vec<usize> = gone.iter().copied().collect();
        dearest.sort_by_key(|j| Reverse((ways.costs[*j], ways.jobs[*j])));
        for j in dearest {
            let mut fewer = gone.clone();
            fewer.remove(&j);
            let left = free(&fewer);
            if left.len() >= need {
                (gone, usable) = (fewer, left);
            }
        }
        chosen.retain(|i| usable.contains(i));
        let mut more: Vec<usize> = usable.difference(&chosen).copied().collect();
        more.sort_by_key(|i| ways.nodes[*i].pos);
        let missing = need - chosen.len();
        chosen.extend(more.into_iter().take(missing));
        Some((chosen, gone))
    }

    #[test]
    fn lists_that_are_kept_choose_as_looking_at_every_node_does() {
        let mut found = 0;
        for seed in 1..=2_000u64 {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let ways = any_ways(&mut dice);
            let need = dice.below(ways.nodes.len() + 2);
            let set = |all: &[bool]| -> BTreeSet<usize> {
                all.iter().enumerate().filter(|(_, x)| **x).map(|(i, _)| i).collect()
            };
            let it = ways.cheapest(need).map(|it| (set(&it.chosen), set(&it.gone)));
            assert_eq!(it, plain(&ways, need), "seed {seed}, {need} nodes");
            found += usize::from(it.is_some());
        }
        assert!(found > 1_000, "{found}");
    }
}
