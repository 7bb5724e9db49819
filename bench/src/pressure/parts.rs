//! The parts of the load, so that one can be left out or run alone.

use crate::Options;
use std::collections::BTreeSet;

/// Every part; those behind [`WORST`] belong to the tenant with the worst inputs.
pub(crate) const PARTS: [&str; 15] = [
    "idle",
    "watchers",
    "scrapers",
    "anonymous",
    WORST,
    "ranges",
    "specs",
    "gangs",
    "lists",
    "log",
    "reads",
    "explain",
    "openapi",
    "bodies",
    "unread",
];
/// Names all of the tenant's parts.
const WORST: &str = "worst";

/// The parts that run.
#[derive(Debug)]
pub(super) struct Parts(BTreeSet<&'static str>);

impl Parts {
    pub(super) fn of(options: &Options) -> Parts {
        let mut chosen = match options.parts.is_empty() {
            true => PARTS.into_iter().collect(),
            false => named(&options.parts),
        };
        for left_out in named(&options.without) {
            chosen.remove(left_out);
        }
        chosen.remove(WORST);
        Parts(chosen)
    }

    pub(super) fn have(&self, part: &str) -> bool {
        self.0.contains(part)
    }

    /// So many of this part, or none.
    pub(super) fn count(&self, part: &str, of: usize) -> usize {
        if self.have(part) { of } else { 0 }
    }

    /// The parts that do not run; none when all do.
    pub(super) fn missing(&self) -> Option<String> {
        let missing: Vec<&str> =
            PARTS.into_iter().filter(|p| *p != WORST && !self.have(p)).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

fn named(names: &[String]) -> BTreeSet<&'static str> {
    let worst = PARTS.iter().position(|p| *p == WORST).unwrap_or(PARTS.len());
    let all = names.iter().any(|n| n == WORST);
    let is = |i: usize, part: &str| (all && i > worst) || names.iter().any(|n| n == part);
    PARTS.into_iter().enumerate().filter(|(i, part)| is(*i, part)).map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn parts(args: &[&str]) -> Parts {
        let all = ["muster-bench", "pressure"].iter().chain(args);
        Parts::of(&Options::try_parse_from(all).unwrap())
    }

    #[test]
    fn parts_can_be_left_out_or_run_alone() {
        assert_eq!(parts(&[]).missing(), None);
        let some = parts(&["--without", "watchers,openapi"]);
        assert!(some.have("idle") && some.have("lists") && some.count("idle", 7) == 7);
        assert_eq!(some.missing().unwrap(), "watchers, openapi");
        let idle = parts(&["--parts", "idle"]);
        assert!(idle.have("idle") && !idle.have("bodies") && idle.count("watchers", 7) == 0);
        let worst = parts(&["--parts", "worst", "--without", "bodies"]);
        assert!(worst.have("ranges") && worst.have("reads") && worst.have("unread"));
        assert!(!worst.have("bodies") && !worst.have("idle") && !worst.have("worst"));
        let wrong = ["muster-bench", "pressure", "--without", "nothing"];
        assert!(Options::try_parse_from(wrong).is_err());
    }
}
