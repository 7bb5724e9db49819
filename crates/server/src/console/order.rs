//! The order of the map.

use muster_model::node::Node;
use std::cmp::Ordering;

/// Names in the order people expect: `n2` before `n10`.
pub(super) fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        let (Some(c), Some(d)) = (x.first(), y.first()) else {
            return x.len().cmp(&y.len()).then_with(|| a.cmp(b));
        };
        if c.is_ascii_digit() && d.is_ascii_digit() {
            let digits = |s: &[u8]| s.iter().take_while(|b| b.is_ascii_digit()).count();
            let (n, m) = (digits(x), digits(y));
            let (p, q) = (significant(&x[..n]), significant(&y[..m]));
            let order = p.len().cmp(&q.len()).then_with(|| p.cmp(q));
            if order != Ordering::Equal {
                return order;
            }
            (x, y) = (&x[n..], &y[m..]);
        } else {
            if c != d {
                return c.cmp(d);
            }
            (x, y) = (&x[1..], &y[1..]);
        }
    }
}

/// Digits without leading zeros.
fn significant(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|b| **b == b'0').count()..]
}

/// Which of two nodes comes first.
pub(super) fn order(a: &Node, b: &Node) -> Ordering {
    let (l, m) = (&a.location, &b.location);
    let parts = [
        (&l.region, &m.region),
        (&l.cluster, &m.cluster),
        (&l.spine, &m.spine),
        (&l.leaf, &m.leaf),
        (&l.rack, &m.rack),
        (&l.nvlink, &m.nvlink),
    ];
    // Those of which nobody said where they stand come last.
    let placed = m.is_placed().cmp(&l.is_placed());
    let by_place = parts.iter().map(|(p, q)| natural(p, q)).find(|o| *o != Ordering::Equal);
    placed.then(by_place.unwrap_or_else(|| natural(a.name.as_str(), b.name.as_str())))
}
