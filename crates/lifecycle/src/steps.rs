//! Which remediation a finding calls for: the lightest that has not failed yet. What did not help
//! lately is followed by the next heavier one.

use muster_health::modes;
use muster_model::finding::Severity;
use muster_model::remediation::{Action, Leave, Mode, Remediations};
use muster_model::units::{Span, Time};

/// A finding that asks for something to be done to a node.
#[derive(Debug, Clone, Copy)]
pub struct ActionableFinding<'a> {
    /// The failure mode.
    pub kind: &'a str,
    /// How bad it is.
    pub severity: Severity,
    /// How sure the detector is, in thousandths.
    pub confidence: u16,
    /// Pool of the node.
    pub pool: &'a str,
    /// SKU of the node.
    pub sku: &'a str,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// The heaviest that what it rests on carries, and why no more; none: anything.
    pub most: Option<(Action, &'a str)>,
}

/// A remediation that was chosen before for the same node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastAction<'a> {
    /// For which failure mode.
    pub kind: &'a str,
    /// On which GPU.
    pub gpu: Option<u32>,
    /// What was done.
    pub action: Action,
    /// When it was chosen.
    pub at: Time,
    /// Something was really done, and not taken back.
    pub done: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is done to the node.
    pub action: Action,
    /// Its index in the steps.
    pub step_index: u32,
    /// Who decides on it.
    pub mode: Mode,
    /// How work leaves.
    pub leave: Leave,
    /// Why this and not something lighter.
    pub why: String,
}

/// So often something is only watched before the next step.
const WATCHES: usize = 3;
/// So many remediations of a node within a week call for people.
const TOO_MANY: usize = 5;
/// Below this a detector's word is enough for a test, not for touching the hardware.
pub const SURE: u16 = 600;

/// What a finding calls for under a policy, after what was done before.
#[must_use]
pub fn choose(
    policy: &Remediations,
    asked: &ActionableFinding<'_>,
    before: &[PastAction<'_>],
    now: Time,
) -> Choice {
    let mode = modes::mode(asked.kind);
    let rule = policy.rules.iter().find(|r| r.fits(asked.kind, asked.pool, asked.sku));
    let steps: &[Action] = match (rule, mode) {
        (Some(r), _) => &r.steps,
        (None, Some(m)) => m.steps,
        (None, None) => &[Action::Watch],
    };
    let (mut step_index, mut why) = climb(steps, asked, before, policy.escalate_within, now);
    let week = |b: &&PastAction<'_>| b.done && now.since(b.at) < Span::hours(7 * 24);
    let often = before.iter().filter(week).filter(|b| b.action.takes_node()).count();
    if often >= TOO_MANY && steps.last() == Some(&Action::Replace) {
        step_index = steps.len() - 1;
        why = format!("{often} remediations of this node within a week");
    }
    // A guess is never a reason to touch the hardware: it is tested instead.
    let unsure = asked.confidence < SURE || asked.severity < Severity::Degraded;
    let light = steps.iter().take(step_index + 1).rposition(|a| *a <= Action::Drain);
    let first_is_heavy = steps.first().is_some_and(|a| *a > Action::Drain);
    let mut action = steps.get(step_index).copied().unwrap_or(Action::Watch);
    if asked.severity == Severity::Info {
        (action, step_index) = (Action::Watch, 0);
        "nothing follows from it".clone_into(&mut why);
    } else if asked.confidence < SURE && action > Action::Drain {
        action = Action::Drain;
        why = format!("sure to {} in 1000 only: tested first", asked.confidence);
    } else if unsure && !first_is_heavy && action > Action::Drain {
        step_index = light.unwrap_or(0);
        action = steps.get(step_index).copied().unwrap_or(Action::Watch);
    }
    if let Some((most, because)) = asked.most.filter(|(most, _)| action > *most) {
        step_index = steps.iter().take(step_index + 1).rposition(|a| *a <= most).unwrap_or(0);
        action = steps.get(step_index).copied().filter(|a| *a <= most).unwrap_or(Action::Watch);
        because.clone_into(&mut why);
    }
    // A warning that may well be wrong stops nobody's work.
    let guess = asked.confidence < SURE
        && asked.severity < Severity::Degraded
        && action > Action::RestartJob;
    let usual = if guess { Some(Leave::Finish) } else { mode.map(|m| m.leave) };
    let leave = rule.and_then(|r| r.leave).or(usual).unwrap_or_default();
    let mode = rule.and_then(|r| r.mode).unwrap_or_else(|| policy.mode(action));
    Choice { action, step_index: u32::try_from(step_index).unwrap_or(u32::MAX), mode, leave, why }
}

/// The first step that was not tried lately without lasting success.
fn climb(
    steps: &[Action],
    asked: &ActionableFinding<'_>,
    before: &[PastAction<'_>],
    within: Span,
    now: Time,
) -> (usize, String) {
    let same = |b: &&PastAction<'_>| {
        b.kind == asked.kind && b.gpu == asked.gpu && b.done && now.since(b.at) < within
    };
    let tried = before.iter().filter(same);
    let watched = tried.clone().filter(|b| b.action == Action::Watch).count();
    let heaviest = tried.filter(|b| b.action > Action::Watch).map(|b| b.action).max();
    let last = steps.len().saturating_sub(1);
    match heaviest {
        Some(h) => {
            let next = steps.iter().position(|a| *a > h).unwrap_or(last);
            (next, format!("{} did not last", h.words()))
        }
        None if steps.first() == Some(&Action::Watch) && last > 0 => {
            // What is severe is not watched for long.
            let enough = if asked.severity >= Severity::Degraded { 1 } else { WATCHES };
            if watched >= enough {
                (1, format!("seen {} times", watched + 1))
            } else {
                (0, "remediation step 1".into())
            }
        }
        None => (0, "remediation step 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::remediation::Rule;

    fn asked(kind: &str, severity: Severity) -> ActionableFinding<'_> {
        let (pool, sku) = ("default", "h100-sxm");
        ActionableFinding { kind, severity, confidence: 1000, pool, sku, gpu: Some(3), most: None }
    }

    fn done(kind: &str, action: Action, at: u64) -> PastAction<'_> {
        PastAction { kind, gpu: Some(3), action, at: Time(0) + Span::hours(at), done: true }
    }

    fn at(h: u64) -> Time {
        Time(0) + Span::hours(h)
    }

    #[test]
    fn a_lost_gpu_climbs_from_reboot_to_replacement() {
        let p = Remediations::default();
        let a = asked("gpu-off-bus", Severity::Critical);
        let first = choose(&p, &a, &[], at(1));
        assert_eq!(
            (first.action, first.mode, first.leave),
            (Action::Reboot, Mode::Approve, Leave::Now)
        );
        let one = [done("gpu-off-bus", Action::Reboot, 0)];
        assert_eq!(choose(&p, &a, &one, at(2)).action, Action::PowerCycle);
        let two = [one[0], done("gpu-off-bus", Action::PowerCycle, 1)];
        assert_eq!(choose(&p, &a, &two, at(3)).action, Action::Replace);
        assert_eq!(choose(&p, &a, &two, at(24 * 30)).action, Action::Reboot, "long ago");
        let other = [PastAction { gpu: Some(4), ..one[0] }];
        assert_eq!(choose(&p, &a, &other, at(2)).action, Action::Reboot, "another GPU");
    }

    #[test]
    fn what_is_no_hardware_is_never_touched() {
        let p = Remediations::default();
        for kind in ["app-fault", "app-spray", "job-slow", "loader-starved", "oom", "nobody-knows"]
        {
            let many = [done(kind, Action::Watch, 0); 9];
            let c = choose(&p, &asked(kind, Severity::Critical), &many, at(1));
            assert!(c.action <= Action::RestartJob, "{kind}: {c:?}");
        }
        let c = choose(&p, &asked("gpu-off-bus", Severity::Info), &[], at(1));
        assert_eq!(c.action, Action::Watch);
    }

    #[test]
    fn a_guess_leads_to_a_test_only() {
        let p = Remediations::default();
        let mut a = asked("gpu-off-bus", Severity::Critical);
        a.confidence = 400;
        let c = choose(&p, &a, &[], at(1));
        assert_eq!((c.action, c.mode), (Action::Drain, Mode::Automatic));
    }

    #[test]
    fn a_warning_that_may_be_wrong_lets_work_finish() {
        let p = Remediations::default();
        let of = |severity, confidence| {
            let a = ActionableFinding { confidence, ..asked("thermal", severity) };
            let c = choose(&p, &a, &[], at(1));
            (c.action, c.leave)
        };
        assert_eq!(of(Severity::Warning, 500), (Action::Drain, Leave::Finish));
        assert_eq!(of(Severity::Warning, 700), (Action::Drain, Leave::Checkpoint));
        assert_eq!(of(Severity::Degraded, 500), (Action::Drain, Leave::Checkpoint));
    }

    #[test]
    fn no_more_is_done_than_the_evidence_carries() {
        let p = Remediations::default();
        let of = |most| ActionableFinding {
            most: Some((most, "only a job says so")),
            ..asked("straggler", Severity::Degraded)
        };
        let c = choose(&p, &of(Action::RestartJob), &[], at(1));
        assert_eq!((c.action, &c.why[..]), (Action::Watch, "only a job says so"));
        let drained = [done("straggler", Action::Drain, 0)];
        assert_eq!(choose(&p, &of(Action::Drain), &[], at(1)).action, Action::Drain);
        assert_eq!(choose(&p, &of(Action::Drain), &drained, at(1)).action, Action::Drain);
        let shown = asked("straggler", Severity::Degraded);
        assert_eq!(choose(&p, &shown, &drained, at(1)).action, Action::Replace);
        let rule = Rule {
            kind: Some("straggler".into()),
            pool: None,
            sku: None,
            steps: vec![Action::RestartJob, Action::Replace],
            mode: None,
            leave: None,
        };
        let p = Remediations { rules: vec![rule], ..Remediations::default() };
        let again = [done("straggler", Action::RestartJob, 0)];
        let c = choose(&p, &of(Action::RestartJob), &again, at(1));
        assert_eq!(c.action, Action::RestartJob, "its own gang is all that it may touch");
    }

    #[test]
    fn a_warning_is_watched_three_times() {
        let p = Remediations::default();
        let a = asked("pcie-replay", Severity::Warning);
        let w = |n: usize| vec![done("pcie-replay", Action::Watch, 0); n];
        assert_eq!(choose(&p, &a, &w(2), at(1)).action, Action::Watch);
        assert_eq!(choose(&p, &a, &w(3), at(1)).action, Action::Drain);
        let drained = [done("pcie-replay", Action::Drain, 0)];
        assert_eq!(choose(&p, &a, &drained, at(1)).action, Action::Drain, "a warning is no proof");
        let worse = asked("pcie-replay", Severity::Degraded);
        assert_eq!(choose(&p, &worse, &drained, at(1)).action, Action::Replace);
    }

    #[test]
    fn a_node_that_is_repaired_too_often_goes_to_people() {
        let p = Remediations::default();
        let kinds = ["thermal", "link-flap", "clocks-low", "straggler", "power-brake"];
        let before: Vec<_> = kinds.iter().map(|k| done(k, Action::Drain, 1)).collect();
        let c = choose(&p, &asked("gpu-off-bus", Severity::Critical), &before, at(2));
        assert_eq!(c.action, Action::Replace);
    }

    #[test]
    fn the_sites_own_rules_come_first() {
        let rule = |kind: Option<&str>, pool: Option<&str>, steps: &[Action]| Rule {
            kind: kind.map(str::to_owned),
            pool: pool.map(str::to_owned),
            sku: None,
            steps: steps.to_vec(),
            mode: Some(Mode::DetectOnly),
            leave: Some(Leave::Finish),
        };
        let rules = vec![
            rule(Some("gpu-*"), Some("lab"), &[Action::Watch]),
            rule(Some("ecc-*"), None, &[Action::IsolateGpu, Action::Replace]),
        ];
        let p = Remediations { rules, ..Remediations::default() };
        let a = asked("ecc-uncorrectable", Severity::Critical);
        let c = choose(&p, &a, &[], at(1));
        assert_eq!(
            (c.action, c.mode, c.leave),
            (Action::IsolateGpu, Mode::DetectOnly, Leave::Finish)
        );
        let lab = ActionableFinding { pool: "lab", ..asked("gpu-off-bus", Severity::Critical) };
        assert_eq!(choose(&p, &lab, &[], at(1)).action, Action::Watch);
        assert_eq!(
            choose(&p, &asked("gpu-off-bus", Severity::Critical), &[], at(1)).action,
            Action::Reboot
        );
    }
}
