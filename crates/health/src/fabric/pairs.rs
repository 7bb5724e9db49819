//! Rounds of pairs. Nodes are numbers from zero; a pair's smaller number comes first.

/// Two nodes, the smaller number first.
pub type Pair = (usize, usize);

/// The pair of two nodes.
#[must_use]
pub fn pair(a: usize, b: usize) -> Pair {
    (a.min(b), a.max(b))
}

/// How many rounds it takes until everybody was paired with everybody.
#[must_use]
pub fn all_rounds(nodes: usize) -> usize {
    match nodes {
        0 | 1 => 0,
        n if n.is_multiple_of(2) => n - 1,
        // With an odd number, one node sits out each round.
        n => n,
    }
}

/// Rounds in which every node is in one pair at most, and no pair comes twice: all pairs in `n-1`
/// rounds for an even number of nodes and in `n` for an odd one (the circle method for colouring
/// the edges of a complete graph). At most `most` rounds. The seed says who meets whom first.
#[must_use]
pub fn rounds(nodes: usize, most: usize, seed: u64) -> Vec<Vec<Pair>> {
    let order = shuffled(nodes, seed);
    (0..all_rounds(nodes).min(most)).map(|r| round(&order, r)).collect()
}

/// One of these rounds, for nodes that are seated in this order.
#[must_use]
pub fn round(order: &[usize], number: usize) -> Vec<Pair> {
    let nodes = order.len();
    let seats = nodes + nodes % 2;
    if number >= all_rounds(nodes) {
        return Vec::new();
    }
    let turning = seats - 1;
    let seat = |k: usize| match k {
        0 => turning,
        k => (number + k) % turning,
    };
    // One stays opposite the first of those that turn, then one from either side.
    let opposite = |k: usize| (number + turning - k) % turning;
    let all = (0..seats / 2).map(|k| (seat(k), opposite(k)));
    let seated = all.filter(|(a, b)| *a < nodes && *b < nodes);
    seated.map(|(a, b)| pair(order[a], order[b])).collect()
}

/// The numbers below `n` in an order that follows from the seed alone.
#[must_use]
pub fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = seed;
    for i in (1..n).rev() {
        let below = u64::try_from(i).unwrap_or(u64::MAX).saturating_add(1);
        let j = usize::try_from(mix(&mut state) % below).unwrap_or(i);
        order.swap(i, j);
    }
    order
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn everybody_meets_everybody_once_and_one_at_a_time(n in 0usize..41, seed: u64) {
            let all = rounds(n, usize::MAX, seed);
            prop_assert_eq!(all.len(), all_rounds(n));
            let mut met = BTreeSet::new();
            for round in &all {
                prop_assert_eq!(round.len(), n / 2);
                let mut here = BTreeSet::new();
                for &(a, b) in round {
                    prop_assert!(a < b && b < n);
                    prop_assert!(here.insert(a) && here.insert(b), "{} {}", a, b);
                    prop_assert!(met.insert((a, b)), "{} {} twice", a, b);
                }
            }
            prop_assert_eq!(met.len(), n * n.saturating_sub(1) / 2);
            prop_assert_eq!(&rounds(n, 2, seed)[..], &all[..all.len().min(2)]);
        }

        #[test]
        fn an_order_holds_everybody(n in 0usize..200, seed: u64) {
            let mut order = shuffled(n, seed);
            prop_assert_eq!(&order, &shuffled(n, seed));
            order.sort_unstable();
            prop_assert_eq!(order, (0..n).collect::<Vec<_>>());
        }
    }
}
