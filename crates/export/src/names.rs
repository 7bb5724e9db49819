//! Which figures an expression names.

use std::collections::BTreeSet;

/// What the names of figures begin with.
const BEGINS: [&str; 3] = ["muster_", "muster:", "DCGM_"];

/// Figures that an expression of Prometheus names, recorded ones among them.
#[must_use]
pub fn named(expr: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let mut out = BTreeSet::new();
    let mut quoted = false;
    // What stands in quotes are values of labels.
    for part in expr.split('"') {
        if !quoted {
            let words = part.split(|c| !word(c));
            out.extend(
                words.filter(|w| BEGINS.iter().any(|b| w.starts_with(b))).map(str::to_owned),
            );
        }
        quoted = !quoted;
    }
    out
}

/// The name of the family that a figure belongs to: a histogram's lines have names of their own.
#[must_use]
pub fn family(name: &str) -> &str {
    ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_values_are_not() {
        let expr = "sum by (le) (rate(muster_cycle_seconds_bucket{a=\"muster_no\"}[5m])) / muster:x:y_5m > DCGM_A";
        let got: Vec<String> = named(expr).into_iter().collect();
        assert_eq!(got, ["DCGM_A", "muster:x:y_5m", "muster_cycle_seconds_bucket"]);
        assert_eq!(family("muster_cycle_seconds_bucket"), "muster_cycle_seconds");
    }
}
