//! Default objectives: sets that come with Muster. A set never
//! changes once it was shipped; another version is another set.

use muster_model::alert::Urgency;
use muster_model::names::Label;
use muster_model::slo::{
    Attribution, BurnRule, Gate, Objective, Objectives, Ppm, Scope, Sli, Window,
};
use muster_model::spec::Tier;
use muster_model::units::Span;

fn objective(
    name: &str,
    owner: &str,
    description: &str,
    sli: Sli,
    target: u32,
) -> Option<Objective> {
    Some(Objective {
        name: name.parse::<Label>().ok()?,
        owner: owner.to_owned(),
        description: description.to_owned(),
        sli,
        scope: Scope::default(),
        target: Ppm(target),
        window: Window::default(),
        burn: None,
        gates: [].into(),
    })
}

/// A set that came with Muster; empty where there is none of this version.
#[must_use]
pub fn set(version: u32) -> Vec<Objective> {
    if version == 1 { first() } else { Vec::new() }
}

fn first() -> Vec<Objective> {
    let wait = |under, tier| Sli::QueueWait { under, class: None, tier: Some(tier) };
    let success = |first| Sli::JobSuccess { attribution: Attribution::Platform, first };
    let mut out: Vec<Objective> = [
        objective(
            "admission",
            "control-plane",
            "A submission is durably accepted within a second",
            Sli::Admission { under: Span::secs(1) },
            999_000,
        ),
        objective(
            "api-availability",
            "control-plane",
            "The API answers",
            Sli::ApiAvailability,
            999_000,
        ),
        objective(
            "api-latency",
            "control-plane",
            "The API answers within a second",
            Sli::ApiLatency { under: Span::secs(1) },
            990_000,
        ),
        objective(
            "queue-wait-on-demand",
            "scheduling",
            "On-demand work gets its nodes within ten minutes",
            wait(Span::mins(10), Tier::OnDemand),
            900_000,
        ),
        objective(
            "queue-wait-reserved",
            "scheduling",
            "Reserved work gets its nodes within five minutes",
            wait(Span::mins(5), Tier::Reserved),
            950_000,
        ),
        objective(
            "start",
            "scheduling",
            "Ranks are up within two minutes after a gang got its nodes",
            Sli::Start { under: Span::mins(2) },
            950_000,
        ),
        objective(
            "job-success",
            "platform",
            "Jobs do not fail through hardware or Muster",
            success(false),
            990_000,
        ),
        objective(
            "first-attempts",
            "platform",
            "First attempts do not fail through hardware or Muster, retries aside",
            success(true),
            950_000,
        ),
        objective(
            "recovery",
            "platform",
            "A gang that hardware failed runs again within ten minutes",
            Sli::Recovery { under: Span::mins(10) },
            900_000,
        ),
        objective(
            "node-availability",
            "fleet",
            "Nodes are in service",
            Sli::NodeAvailability,
            980_000,
        ),
        objective(
            "goodput",
            "platform",
            "GPU time that is allocated ends as progress",
            Sli::Goodput,
            900_000,
        ),
        objective(
            "interruptions",
            "fleet",
            "Gangs run for a day between interruptions, each counted as 15 minutes",
            Sli::Interruptions { cost: Span::mins(15) },
            990_000,
        ),
        objective(
            "inference-p95",
            "serving",
            "Services answer within 200 ms, 95 times of 100",
            Sli::InferenceLatency { under: Span(200) },
            950_000,
        ),
        objective(
            "inference-p99",
            "serving",
            "Services answer within 300 ms, 99 times of 100",
            Sli::InferenceLatency { under: Span(300) },
            990_000,
        ),
        objective(
            "inference-availability",
            "serving",
            "Services answer",
            Sli::InferenceAvailability,
            999_000,
        ),
        objective(
            "telemetry",
            "fleet",
            "What is shown of nodes is not older than a minute",
            Sli::TelemetryFreshness { under: Span::mins(1) },
            990_000,
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    for o in &mut out {
        match o.name.as_str() {
            "job-success" => o.gates = [Gate::Rollouts].into(),
            "node-availability" => o.gates = [Gate::Automation, Gate::Rollouts].into(),
            // Nobody is woken for what retries repair, nor for a figure of weeks.
            "first-attempts" | "interruptions" | "goodput" => {
                let calm = |r: BurnRule| BurnRule { urgency: Urgency::Ticket, ..r };
                o.burn = Some(crate::burn::rules(o).into_iter().map(calm).collect());
            }
            _ => {}
        }
    }
    out
}

/// The objectives that hold: those of the set, less what is left out or replaced, then the site's
/// own.
#[must_use]
pub fn in_force(site: &Objectives) -> Vec<Objective> {
    // Of two with one name the last counts.
    let defaults = set(site.defaults).into_iter().filter(|o| !site.without.contains(&o.name));
    let mut all: Vec<Objective> = defaults.chain(site.objectives.iter().cloned()).rev().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup_by(|next, kept| next.name == kept.name);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::slo::DEFAULTS;

    #[test]
    fn the_set_is_sound_and_never_changes() {
        for version in 1..=DEFAULTS {
            let site = Objectives { defaults: 0, without: vec![], objectives: set(version) };
            assert_eq!(site.check(), Ok(()));
            assert!(!site.objectives.is_empty());
        }
        let names: Vec<Label> = set(1).into_iter().map(|o| o.name).collect();
        assert_eq!(names.len(), 16, "a set never changes: make another version");
        assert!(set(1).iter().all(|o| !o.owner.is_empty()));
        // The text of a set is fixed as well.
        let text = serde_json::to_string(&set(1)).unwrap();
        let sum = text.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
        assert_eq!(sum, FIRST_SUM, "a set never changes: make another version");
    }

    const FIRST_SUM: u32 = 4_042_824_423;

    #[test]
    fn a_site_leaves_out_and_replaces() {
        let own = r#"{"without":["goodput"],"objectives":[
            {"name":"job-success","sli":{"job_success":{"attribution":"any"}},"target":"90%"},
            {"name":"mine","sli":"node_availability","scope":{"pool":"train"},"target":"99%"}]}"#;
        let site: Objectives = serde_json::from_str(own).unwrap();
        let all = in_force(&site);
        assert_eq!(all.len(), 16, "one less, one more");
        let find = |n: &str| all.iter().find(|o| o.name.as_str() == n);
        assert!(find("goodput").is_none());
        assert_eq!(find("job-success").unwrap().target, Ppm(900_000));
        assert!(find("mine").is_some());
        let none = Objectives { defaults: 0, ..Objectives::default() };
        assert!(in_force(&none).is_empty());
    }
}
