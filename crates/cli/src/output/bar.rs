//! How full something is.

/// `██░░░░░░ 2/8`; always eight cells, so that columns line up.
pub(crate) fn bar(used: u32, total: u32) -> String {
    const CELLS: u32 = 8;
    if total == 0 {
        return "-".into();
    }
    let exact = u64::from(used.min(total)) * u64::from(CELLS);
    // A little use is never shown as none, and a little room never as none.
    let mut full = u32::try_from(exact / u64::from(total)).unwrap_or(CELLS);
    if full == 0 && used > 0 {
        full = 1;
    }
    let cells: String = (0..CELLS).map(|n| if n < full { '█' } else { '░' }).collect();
    format!("{cells} {used}/{total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_honest_at_both_ends() {
        assert_eq!(bar(0, 8), "░░░░░░░░ 0/8");
        assert_eq!(bar(2, 8), "██░░░░░░ 2/8");
        assert_eq!(bar(8, 8), "████████ 8/8");
        assert_eq!(bar(1, 72), "█░░░░░░░ 1/72");
        assert_eq!(bar(71, 72), "███████░ 71/72");
        assert_eq!(bar(0, 0), "-");
    }
}
