//! How often to look again at something that is over in a moment, nearly always.

use std::time::Duration;

/// The first pauses: most groups and processes are gone before a millisecond has passed.
const FIRST_MICROS: [u64; 3] = [200, 500, 1000];
/// Every further one.
const LATER_MICROS: u64 = 2000;

/// The pauses between two looks, until they are `most` together; at least one.
pub(crate) fn pauses(most: Duration) -> impl Iterator<Item = Duration> {
    let mut before = Duration::ZERO;
    let all = FIRST_MICROS.into_iter().chain(std::iter::repeat(LATER_MICROS));
    all.map(Duration::from_micros).map_while(move |pause| {
        let more = before.is_zero() || before < most;
        before += pause;
        more.then_some(pause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(most: Duration) -> Vec<u128> {
        pauses(most).map(|p| p.as_micros()).collect()
    }

    #[test]
    fn pauses_are_short_at_first_and_never_longer_than_two_milliseconds() {
        assert_eq!(micros(Duration::from_millis(6)), [200, 500, 1000, 2000, 2000, 2000]);
    }

    #[test]
    fn they_end_when_the_time_is_over() {
        assert_eq!(micros(Duration::from_micros(700)), [200, 500]);
        let total: Duration = pauses(Duration::from_secs(5)).sum();
        assert!(
            total >= Duration::from_secs(5) && total < Duration::from_millis(5002),
            "{total:?}"
        );
    }

    #[test]
    fn there_is_always_a_second_look() {
        assert_eq!(micros(Duration::ZERO), [200]);
    }
}
