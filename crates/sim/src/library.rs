//! The scenarios that come with the product: those of `scenarios/` in the repository.

use crate::scenario::{self, Scenario};

/// Name and text of each, by name.
const TEXTS: [(&str, &str); 11] = [
    ("checkpoint-storm", include_str!("../../../scenarios/checkpoint-storm.toml")),
    ("driver-regression", include_str!("../../../scenarios/driver-regression.toml")),
    ("lemon-nodes", include_str!("../../../scenarios/lemon-nodes.toml")),
    ("llama3-54d", include_str!("../../../scenarios/llama3-54d.toml")),
    ("llama3-54d-naive", include_str!("../../../scenarios/llama3-54d-naive.toml")),
    ("neocloud-week", include_str!("../../../scenarios/neocloud-week.toml")),
    ("nvl72-rack-loss", include_str!("../../../scenarios/nvl72-rack-loss.toml")),
    ("quota-war", include_str!("../../../scenarios/quota-war.toml")),
    ("rsc1-year", include_str!("../../../scenarios/rsc1-year.toml")),
    ("soak-year", include_str!("../../../scenarios/soak-year.toml")),
    ("spares", include_str!("../../../scenarios/spares.toml")),
];

/// All of them with their names, which are those of their files.
pub fn all() -> impl Iterator<Item = (&'static str, Scenario)> {
    let read = |(name, text): (&'static str, &str)| Some((name, scenario::parse(text, name).ok()?));
    TEXTS.into_iter().filter_map(read)
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.into_iter().map(|(name, _)| name)
}

/// The text of the one of this name.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    TEXTS.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<Scenario> {
    scenario::parse(text(name)?, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "compares with the directory")]
    fn every_scenario_of_the_repository_is_in_it_and_needs_no_other_file() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .filter_map(|e| {
                e.unwrap().file_name().into_string().ok()?.strip_suffix(".toml").map(str::to_owned)
            })
            .collect();
        files.sort();
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        assert_eq!(names, files);
        for (name, mut s) in all() {
            assert_eq!(find(name).as_ref(), Some(&s));
            assert_eq!(scenario::check(&s).len(), 0, "{name}");
            assert_eq!(scenario::files(&mut s).count(), 0, "{name}");
        }
        assert_eq!(find("../spares"), None);
    }

    #[test]
    fn a_run_ends_where_it_may_not_go_on() {
        let mut s = find("spares").unwrap();
        s.length = muster_model::units::Span::hours(1);
        let run = |goes_on: &dyn Fn() -> bool| {
            let dir = std::path::Path::new("");
            crate::run_while(&s, dir, crate::Options::default(), goes_on, |_| {})
        };
        assert!(matches!(run(&|| false), Err(crate::SimError::Stopped)));
        let (outcome, _) = run(&|| true).unwrap();
        assert_eq!((outcome.scenario.as_str(), outcome.nodes), ("spares", 1000));
    }
}
