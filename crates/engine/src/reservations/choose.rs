//! Which nodes a reservation of GPUs gets: idle ones near each other first.

use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::topology::Level;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A node that a reservation may cover.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    pub(super) node: &'a Node,
    /// GPUs that jobs may use.
    pub(super) gpus: u64,
    /// It takes work now.
    pub(super) serves: bool,
    /// It may be taken out of service soon, or is reserved for a job that waits.
    pub(super) doubtful: bool,
    /// Work of others that is still there when the window begins.
    pub(super) displaced: BTreeSet<JobId>,
}

impl Candidate<'_> {
    /// Takes work, and nobody's is in the way when the window begins.
    fn is_free(&self) -> bool {
        self.serves && self.displaced.is_empty()
    }

    fn path(&self, level: Level) -> Vec<&str> {
        self.node.location.path(&self.node.name, level)
    }
}

/// Whole nodes with so many GPUs in all: free ones in the narrowest domain that has enough, then
/// free ones anywhere, then those where the fewest jobs must be stopped, then those that take no
/// work now. None when all of them together have fewer.
pub(super) fn choose_nodes(mut all: Vec<Candidate<'_>>, count: u64) -> Option<Vec<NodeName>> {
    all.sort_by(|a, b| a.path(Level::Node).cmp(&b.path(Level::Node)));
    let sound: Vec<&Candidate<'_>> = all.iter().filter(|c| c.is_free() && !c.doubtful).collect();
    let free: Vec<&Candidate<'_>> = all.iter().filter(|c| c.is_free()).collect();
    let chosen = narrowest(&sound, count)
        .or_else(|| narrowest(&free, count))
        .or_else(|| with_stops(&all, &free, count))?;
    Some(chosen.into_iter().map(|c| c.node.name.clone()).collect())
}

/// Enough of them in order; none when there are fewer.
fn enough<'c, 'a>(
    from: impl IntoIterator<Item = &'c Candidate<'a>>,
    count: u64,
) -> Option<Vec<&'c Candidate<'a>>> {
    let mut have = 0;
    let mut out = Vec::new();
    for c in from {
        if have >= count {
            break;
        }
        have += c.gpus;
        out.push(c);
    }
    (have >= count).then_some(out)
}

/// Nodes of the narrowest domain that has enough; of several the one with the least to spare, so
/// that large domains stay whole. Across domains when none has.
fn narrowest<'c, 'a>(pool: &[&'c Candidate<'a>], count: u64) -> Option<Vec<&'c Candidate<'a>>> {
    for level in Level::ALL.into_iter().rev() {
        let mut all: Vec<(Vec<&str>, &'c Candidate<'a>)> =
            pool.iter().map(|c| (c.path(level), *c)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let domains = all.chunk_by(|a, b| a.0 == b.0);
        let domains = domains.map(|d| (d.iter().map(|(_, c)| c.gpus).sum::<u64>(), d));
        if let Some((_, best)) = domains.filter(|d| d.0 >= count).min_by_key(|d| d.0) {
            return enough(best.iter().map(|(_, c)| *c), count);
        }
    }
    enough(pool.iter().copied(), count)
}

/// All free ones, then those where the fewest more jobs must be stopped, then the others.
fn with_stops<'c, 'a>(
    all: &'c [Candidate<'a>],
    free: &[&'c Candidate<'a>],
    count: u64,
) -> Option<Vec<&'c Candidate<'a>>> {
    let busy: Vec<&Candidate<'a>> =
        all.iter().filter(|c| c.serves && !c.displaced.is_empty()).collect();
    let mut on: BTreeMap<JobId, Vec<usize>> = BTreeMap::new();
    for (i, c) in busy.iter().enumerate() {
        for job in &c.displaced {
            on.entry(*job).or_default().push(i);
        }
    }
    // How many more jobs each would cost: a gang that is stopped leaves all its nodes.
    let mut more: Vec<usize> = busy.iter().map(|c| c.displaced.len()).collect();
    let mut queue: BinaryHeap<Reverse<(usize, usize)>> =
        more.iter().copied().zip(0..).map(Reverse).collect();
    let mut taken = vec![false; busy.len()];
    let mut order: Vec<&'c Candidate<'a>> = free.to_vec();
    while let Some(Reverse((n, i))) = queue.pop() {
        // One that costs less by now has come again, and before.
        if taken[i] || n != more[i] {
            continue;
        }
        taken[i] = true;
        order.push(busy[i]);
        for job in &busy[i].displaced {
            for other in on.remove(job).into_iter().flatten().filter(|other| !taken[*other]) {
                more[other] -= 1;
                queue.push(Reverse((more[other], other)));
            }
        }
    }
    order.extend(all.iter().filter(|c| !c.serves));
    enough(order, count)
}
