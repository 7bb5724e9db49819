//! Which tier gives a file up when all together take more than they may.
//!
//! Each tier has a share of the bytes. Nothing is deleted while all fit: a tier may use what the
//! others leave. Then the finest tier that has more than its share gives its oldest file. So fine
//! steps go before coarse ones, and the coarsest tier loses a file only while the others are within
//! their shares.

/// What a tier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// Bytes of its files, and of what is to be written next.
    pub(crate) bytes: u64,
    /// How many files it has.
    pub(crate) files: usize,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// Nothing: everything fits.
    Enough,
    /// The oldest file of this tier goes.
    OldestOf(usize),
    /// Nothing is left to be deleted.
    None,
}

/// Of 100 bytes, those of the coarsest tier; the others have the rest.
const COARSEST: u64 = 85;

/// The shares of so many tiers, finest first. Each has twice that of the one that is finer, except
/// the coarsest.
fn shares(tiers: usize, bytes: u64) -> Vec<u64> {
    let Some(finer) = tiers.checked_sub(1) else { return Vec::new() };
    if finer == 0 {
        return vec![bytes];
    }
    let part = |of: u64, all: u64| {
        let part = u128::from(bytes) * u128::from(of) / u128::from(all);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    // 1 + 2 + 4 and so on.
    let weight = |i: usize| 1_u64 << i.min(16);
    let whole: u64 = (0..finer).map(weight).sum();
    let mut out: Vec<u64> =
        (0..finer).map(|i| part((100 - COARSEST) * weight(i), 100 * whole)).collect();
    out.push(part(COARSEST, 100));
    out
}

/// What is to be done so that all tiers, finest first, fit into so many bytes.
pub(crate) fn next(used: &[Used], bytes: u64) -> Space {
    let all = used.iter().fold(0_u64, |sum, u| sum.saturating_add(u.bytes));
    if all <= bytes {
        return Space::Enough;
    }
    let shares = shares(used.len(), bytes);
    let over = used.iter().zip(&shares).position(|(u, share)| u.files > 0 && u.bytes > *share);
    // What is over its share may have no file yet: then any file goes.
    match over.or_else(|| used.iter().position(|u| u.files > 0)) {
        Some(tier) => Space::OldestOf(tier),
        None => Space::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn used(all: &[(u64, usize)]) -> Vec<Used> {
        all.iter().map(|(bytes, files)| Used { bytes: *bytes, files: *files }).collect()
    }

    #[test]
    fn the_coarsest_has_most_and_all_shares_together_are_no_more_than_the_whole() {
        assert_eq!(shares(0, 100), [0; 0]);
        assert_eq!(shares(1, 100), [100]);
        assert_eq!(shares(2, 100), [15, 85]);
        assert_eq!(shares(3, 100), [5, 10, 85]);
        let most = shares(3, u64::MAX);
        assert!(most.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n)).is_some());
    }

    #[test]
    fn the_finest_that_has_more_than_its_share_gives_its_oldest_file() {
        let next = |all: &[(u64, usize)]| next(&used(all), 100);
        assert_eq!(next(&[(60, 9), (40, 9)]), Space::Enough, "all fits, whatever the shares");
        assert_eq!(next(&[(60, 9), (41, 9)]), Space::OldestOf(0));
        assert_eq!(next(&[(15, 9), (86, 9)]), Space::OldestOf(1), "the fine one is in its share");
        assert_eq!(next(&[(4, 9), (12, 9), (85, 9)]), Space::OldestOf(1));
        assert_eq!(next(&[(16, 0), (85, 9)]), Space::OldestOf(1), "no file of the fine one yet");
        assert_eq!(next(&[(200, 0), (0, 0)]), Space::None);
        assert_eq!(next(&[]), Space::Enough);
    }

    proptest! {
        #[test]
        fn files_go_until_all_fits_and_never_from_a_tier_within_its_share(
            tiers in prop::collection::vec(prop::collection::vec(1u64..1000, 0..12), 1..4),
            bytes in 0u64..12_000,
        ) {
            let mut files = tiers;
            let shares = shares(files.len(), bytes);
            let sum = |all: &[u64]| all.iter().sum::<u64>();
            let largest = files.last().and_then(|f| f.iter().max().copied()).unwrap_or(0);
            let coarsest = files.last().map_or(0, |f| sum(f));
            loop {
                let used: Vec<Used> =
                    files.iter().map(|f| Used { bytes: sum(f), files: f.len() }).collect();
                let all: u64 = used.iter().map(|u| u.bytes).sum();
                match next(&used, bytes) {
                    Space::Enough => {
                        prop_assert!(all <= bytes);
                        break;
                    }
                    // Bytes are only those of files here: some tier is over its share.
                    Space::None => return Err(TestCaseError::fail(format!("{files:?}"))),
                    Space::OldestOf(t) => {
                        prop_assert!(all > bytes && used[t].bytes > shares[t], "{used:?}");
                        let mut finer = used.iter().zip(&shares).take(t);
                        prop_assert!(finer.all(|(u, share)| u.bytes <= *share), "{used:?}");
                        files[t].remove(0);
                    }
                }
            }
            // The coarsest has its share, or all that it had, less one file at most.
            let kept = files.last().map_or(0, |f| sum(f));
            let share = shares.last().copied().unwrap_or(0);
            prop_assert!(kept + largest >= share.min(coarsest), "{kept} of {coarsest}");
        }
    }
}
