//! "Did you mean": the known word that is nearest to a mistyped one.

/// The known name that `given` is most likely a slip of.
#[must_use]
pub fn closest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |s: &str| -> Vec<char> {
        let lower = s.chars().take(64).flat_map(char::to_lowercase);
        lower.map(|c| if c == '-' { '_' } else { c }).collect()
    };
    let g = plain(given);
    let near = |k: &&'a str| {
        let p = plain(k);
        let d = distance(&g, &p);
        // A third of the letters may be wrong; a common beginning is worth one more.
        let begins = g.len() >= 3 && (p.starts_with(&g) || g.starts_with(&p));
        let allowed = (g.len().max(p.len()) / 3).max(1);
        (d <= allowed || begins).then_some((if begins { d.min(allowed) } else { d }, *k))
    };
    known.iter().filter_map(near).min().map(|(_, k)| k)
}

/// Edits between two words, a swap of neighbours counting as one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_are_recognised() {
        let known = ["name", "gang", "nodes", "gpus_per_node", "time_limit", "topology"];
        assert_eq!(closest("nmae", &known), Some("name"));
        assert_eq!(closest("node", &known), Some("nodes"));
        assert_eq!(closest("gpus-per-node", &known), Some("gpus_per_node"));
        assert_eq!(closest("time", &known), Some("time_limit"));
        assert_eq!(closest("frobnicate", &known), None);
        assert_eq!(closest("", &known), None);
    }
}
