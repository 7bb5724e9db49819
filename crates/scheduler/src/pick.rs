//! Which nodes of a domain a gang gets: whole sub-domains first, in equal pieces where NVLink
//! joins several nodes, or spread over what must not fail as one.

use crate::fleet::{DOMAIN_LEVELS, Fleet, level_ix};
use crate::node::Entry;
use crate::place::Query;
use muster_model::spec::Spread;
use muster_model::topology::Level;

/// Chooses `n` of the nodes, which are in the order of the topology.
pub(crate) fn pick(
    fleet: &Fleet,
    q: &Query<'_>,
    able: &[&Entry],
    n: usize,
    level: Level,
) -> Option<Vec<u32>> {
    if q.large {
        // Sound nodes alone, where there are enough of them.
        let sound: Vec<&Entry> = able.iter().copied().filter(|e| e.facts.hazard == 0).collect();
        if sound.len() < able.len()
            && let Some(picked) = pick_from(fleet, q, &sound, n, level)
        {
            return Some(picked);
        }
    }
    pick_from(fleet, q, able, n, level)
}

fn pick_from(
    fleet: &Fleet,
    q: &Query<'_>,
    able: &[&Entry],
    n: usize,
    level: Level,
) -> Option<Vec<u32>> {
    if able.len() < n {
        return None;
    }
    if let Some(size) = q.demand.segment {
        return segments(able, n, size as usize);
    }
    if let Some(over) = q.demand.spread {
        return Some(spread(able, n, over));
    }
    let mut out = Vec::with_capacity(n);
    narrow(fleet, q, able, n, level_ix(level), &mut out);
    Some(out)
}

/// Goes down the tree: as few sub-domains as can be, the fullest first.
fn narrow(
    fleet: &Fleet,
    q: &Query<'_>,
    able: &[&Entry],
    n: usize,
    level: usize,
    out: &mut Vec<u32>,
) {
    if able.len() == n {
        out.extend(able.iter().map(|e| e.pos.ix));
        return;
    }
    if level == 0 || fleet.largest[level - 1] <= 1 {
        let mut by: Vec<&&Entry> = able.iter().collect();
        // Holes before reserved starts first, for what is over by then; the most used next, so
        // that large holes stay whole; sound ones first for large gangs.
        by.sort_by_key(|e| {
            let hazard = if q.large { e.facts.hazard } else { 0 };
            (hazard, e.book.is_empty(), e.free_gpus(), e.pos)
        });
        out.extend(by.into_iter().take(n).map(|e| e.pos.ix));
        return;
    }
    let mut parts = children(able, level - 1);
    if parts.len() == 1 {
        narrow(fleet, q, able, n, level - 1, out);
        return;
    }
    if q.large {
        // Domains without hazard first among those that are as full.
        parts.sort_by_key(|p| p.iter().map(|e| u64::from(e.facts.hazard)).sum::<u64>());
    }
    // One that holds all: the smallest such.
    if let Some(best) = parts.iter().filter(|p| p.len() >= n).min_by_key(|p| p.len()) {
        narrow(fleet, q, best, n, level - 1, out);
        return;
    }
    parts.sort_by_key(|p| std::cmp::Reverse(p.len()));
    let mut m = 0;
    let mut have = 0;
    while have < n && m < parts.len() {
        have += parts[m].len();
        m += 1;
    }
    let child = DOMAIN_LEVELS[level - 1];
    let counts: Vec<usize> = parts[..m].iter().map(Vec::len).collect();
    // Pieces that NVLink joins wait for the smallest of them: even ones are fastest.
    let joined = fleet.largest[0] > 1
        && parts[..m].iter().all(|p| p.iter().all(|e| e.domains[0] == p[0].domains[0]));
    let even = joined || q.demand.preferred == Some(child);
    let shares = if even { level_out(&counts, n) } else { pack(&counts, n) };
    for (i, (part, k)) in parts[..m].iter().zip(shares.iter().copied()).enumerate() {
        let mut part = part;
        // The last, smaller piece goes where it fits best.
        if !even
            && i == m - 1
            && let Some(best) =
                parts[m - 1..].iter().filter(|p| p.len() >= k).min_by_key(|p| p.len())
        {
            part = best;
        }
        narrow(fleet, q, part, k, level - 1, out);
    }
}

/// The nodes by sub-domain; they come in the order of the topology, so each is a run.
fn children<'e>(able: &[&'e Entry], level: usize) -> Vec<Vec<&'e Entry>> {
    let mut out: Vec<Vec<&Entry>> = Vec::new();
    for e in able {
        match out.last_mut() {
            Some(run) if run[0].domains[level] == e.domains[level] => run.push(e),
            _ => out.push(vec![e]),
        }
    }
    out
}

/// As even as the counts allow: no piece is larger than it must be.
fn level_out(counts: &[usize], n: usize) -> Vec<usize> {
    let sum = |q: usize| counts.iter().map(|c| q.min(*c)).sum::<usize>();
    let q = (1..).find(|q| sum(*q) >= n).unwrap_or(n);
    let mut over = sum(q) - n;
    let mut out: Vec<usize> = counts.iter().map(|c| q.min(*c)).collect();
    for k in out.iter_mut().rev() {
        if over == 0 {
            break;
        }
        if *k == q {
            *k -= 1;
            over -= 1;
        }
    }
    out
}

/// Whole ones first, the rest in the last.
fn pack(counts: &[usize], n: usize) -> Vec<usize> {
    let mut left = n;
    counts
        .iter()
        .map(|c| {
            let k = left.min(*c);
            left -= k;
            k
        })
        .collect()
}

/// Pieces of equal size, each inside one NVLink domain; domains that hold most pieces first, and
/// among equals those that leave least over.
fn segments(able: &[&Entry], n: usize, size: usize) -> Option<Vec<u32>> {
    let mut need = n.checked_div(size)?;
    let mut domains = children(able, 0);
    domains.sort_by_key(|d| (std::cmp::Reverse(d.len() / size), d.len() % size));
    let mut out = Vec::with_capacity(n);
    for d in &domains {
        let k = need.min(d.len() / size);
        out.extend(d.iter().take(k * size).map(|e| e.pos.ix));
        need -= k;
    }
    (need == 0).then_some(out)
}

/// As evenly as can be over the domains that must not fail as one.
fn spread(able: &[&Entry], n: usize, over: Spread) -> Vec<u32> {
    let domain = |e: &Entry| {
        let l = &e.facts.location;
        match over {
            Spread::Feed => l.feed.clone(),
            Spread::Leaf => l.path(&e.facts.name, Level::Leaf).join("/"),
            Spread::Rack => l.path(&e.facts.name, Level::Rack).join("/"),
        }
    };
    let mut all: Vec<(String, &Entry)> = able.iter().map(|e| (domain(e), *e)).collect();
    all.sort_by(|(a, d), (b, e)| {
        a.cmp(b).then_with(|| (d.free_gpus(), d.pos).cmp(&(e.free_gpus(), e.pos)))
    });
    let groups: Vec<&[(String, &Entry)]> = all.chunk_by(|a, b| a.0 == b.0).collect();
    let counts: Vec<usize> = groups.iter().map(|g| g.len()).collect();
    let shares = level_out(&counts, n);
    groups.iter().zip(shares).flat_map(|(g, k)| g.iter().take(k).map(|(_, e)| e.pos.ix)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_even_where_asked() {
        assert_eq!(level_out(&[18, 18], 24), [12, 12]);
        assert_eq!(level_out(&[18, 18, 18], 40), [14, 13, 13]);
        assert_eq!(level_out(&[18, 4], 20), [16, 4]);
        assert_eq!(pack(&[18, 18], 24), [18, 6]);
    }
}
