//! How full something is.

/// `██░░░░░░ 2/8`; always eight cells, so that columns line up.
pub fn bar(used: u32, total: u32) -> String {
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

/// A part of a whole as a bar of so many cells, exact to an eighth of one.
pub fn part(share: f64, cells: u32) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8n")]
    let mut eighths = (share * f64::from(cells * 8)).round() as u32;
    // A little is never shown as nothing.
    if share > 0.0 {
        eighths = eighths.max(1);
    }
    let (full, rest) = ((eighths / 8) as usize, EIGHTHS[(eighths % 8) as usize]);
    let used = full + usize::from(!rest.is_empty());
    format!("{}{rest}{}", "█".repeat(full), " ".repeat((cells as usize).saturating_sub(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_their_cells() {
        assert_eq!(part(0.0, 4), "    ");
        assert_eq!(part(0.0001, 4), "▏   ");
        assert_eq!(part(0.5, 4), "██  ");
        assert_eq!(part(0.625, 4), "██▌ ");
        assert_eq!(part(1.0, 4), "████");
        assert_eq!(part(f64::NAN, 2), "  ");
    }

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
