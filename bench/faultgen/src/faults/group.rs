//! What many nodes share: storage, switches, power.

use crate::fleet::node::MOUNTS;
use crate::fleet::{FaultFleet, Start};

/// Nodes that see a file system fail; the others do not use it now.
fn mounted(w: &mut FaultFleet) -> Option<(Vec<usize>, usize)> {
    let now = w.now;
    let share = w.rng.range(0.3, 1.0);
    let free: Vec<usize> = (0..w.nodes.len())
        .filter(|i| {
            let n = &w.nodes[*i];
            let calm = |k| w.gangs.get(k).is_some_and(|g| g.episode.is_none());
            n.free(now) && n.work.keys().all(calm)
        })
        .collect();
    let mut hit = Vec::new();
    for i in free {
        if w.rng.chance(share * 0.4) {
            hit.push(i);
        }
    }
    (hit.len() >= 6).then(|| (hit, w.rng.below(MOUNTS.len())))
}

pub(super) fn storage_stall(w: &mut FaultFleet) -> Option<Start> {
    let (nodes, mount) = mounted(w)?;
    let since = w.now;
    for n in &nodes {
        w.nodes[*n].fx.stalled = Some((mount, since));
    }
    let length_s = w.rng.range(240.0, 420.0);
    let mount = Some(MOUNTS[mount].to_string());
    Some(Start { nodes, mount, length_s, ..Start::default() })
}

pub(super) fn storage_slow(w: &mut FaultFleet) -> Option<Start> {
    let (nodes, mount) = mounted(w)?;
    let by = w.rng.scale(8.0, 60.0);
    for n in &nodes {
        w.nodes[*n].fx.slow_fs = Some((mount, by));
    }
    let length_s = w.rng.range(420.0, 600.0);
    let mount = Some(MOUNTS[mount].to_string());
    Some(Start { nodes, mount, length_s, ..Start::default() }.with("by", by))
}

fn members(
    w: &mut FaultFleet,
    of: impl Fn(&crate::fleet::node::Node) -> String,
) -> Option<(String, Vec<usize>)> {
    let now = w.now;
    let any = w.rng.below(w.nodes.len());
    let group = of(&w.nodes[any]);
    let share = w.rng.range(0.75, 1.0);
    let all: Vec<usize> = (0..w.nodes.len()).filter(|i| of(&w.nodes[*i]) == group).collect();
    let free: Vec<usize> = all.iter().copied().filter(|i| w.nodes[*i].free(now)).collect();
    if free.len() * 10 < all.len() * 6 {
        return None;
    }
    let hit: Vec<usize> = free.into_iter().filter(|_| w.rng.chance(share)).collect();
    (hit.len() >= 3).then_some((group, hit))
}

/// A switch dies: the nodes behind it lose their ports, or are not heard at all.
pub(super) fn leaf_loss(w: &mut FaultFleet) -> Option<Start> {
    let (leaf, nodes) = members(w, |n| n.leaf.clone())?;
    let length_s = w.rng.range(300.0, 420.0);
    let silent = w.rng.chance(0.5);
    for n in &nodes {
        if silent {
            w.hang_up(*n, length_s - 20.0);
        } else {
            w.nodes[*n].ports.iter_mut().for_each(|p| p.fx.down = true);
        }
    }
    let group = Some(("leaf".to_string(), leaf));
    let start = Start { nodes, group, length_s, ..Start::default() };
    Some(start.with("silent", f64::from(u8::from(silent))))
}

/// Power of many racks goes.
pub(super) fn feed_loss(w: &mut FaultFleet) -> Option<Start> {
    let (feed, nodes) = members(w, |n| n.feed.clone())?;
    let length_s = w.rng.range(300.0, 420.0);
    for n in &nodes {
        w.hang_up(*n, length_s - 20.0);
    }
    let group = Some(("feed".to_string(), feed));
    Some(Start { nodes, group, length_s, ..Start::default() })
}
