//! Is a site ready for its objectives? The checklists of operators, each point answered from what
//! is known. What Muster cannot know is said to be unknown, never taken for good.

use muster_model::slo::{Gate, Objective};

/// What has to be known of a site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// The site set its objectives itself.
    pub stated: bool,
    /// The objectives that hold.
    pub objectives: Vec<Objective>,
    /// Those of them that have data.
    pub counted: u64,
    /// Nodes that serve or would.
    pub nodes: u64,
    /// Of them, those that report figures.
    pub reporting: u64,
    /// Those that passed a test.
    pub tested: u64,
    /// Those whose versions differ from nodes like them.
    pub drifted: u64,
    /// Those that no topology places.
    pub unplaced: u64,
    /// Those that are protected after a restored backup.
    pub protected: u64,
    /// Nodes held as spares.
    pub spares: u64,
    /// Those of them that could step in now.
    pub spares_left: u64,
    /// Jobs that ended well, of those that are remembered.
    pub succeeded: u64,
    /// Receivers of alerts.
    pub receivers: u64,
    /// Those of them that cannot be notified at the moment.
    pub failing: Vec<String>,
    /// A page reaches somebody.
    pub paged: bool,
    /// Open alerts.
    pub alerts: u64,
    /// Those of them without a runbook.
    pub without_runbook: u64,
    /// Projects have quotas.
    pub quotas: bool,
    /// Jobs without a time limit get one.
    pub limits: bool,
    /// Work may be preempted or stopped as spot.
    pub preemption: bool,
    /// Remediations are taken by themselves.
    pub automation: bool,
    /// Failure modes that can be drilled, and those that were.
    pub drills: Option<(u64, u64)>,
}

/// How a point stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is so.
    Ok,
    /// It is not so.
    Missing,
    /// Nobody reported it.
    Unknown,
}

impl State {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Unknown => "unknown",
        }
    }
}

/// A point of a checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `before` or `in` production.
    pub list: &'static str,
    /// A stable code.
    pub code: &'static str,
    /// The question.
    pub what: &'static str,
    /// Its status.
    pub state: State,
    /// What was found.
    pub found: String,
    /// How to fix it; empty where nothing is to be fixed.
    pub fix: String,
}

fn check(
    (list, code, what): (&'static str, &'static str, &'static str),
    good: Option<bool>,
    found: String,
    fix: &str,
) -> Check {
    let state = match good {
        Some(true) => State::Ok,
        Some(false) => State::Missing,
        None => State::Unknown,
    };
    let fix = if state == State::Ok { String::new() } else { fix.to_owned() };
    Check { list, code, what, state, found, fix }
}

const BEFORE: &str = "before production";
const IN: &str = "in production";

/// Every point of the checklists.
#[must_use]
pub fn checks(s: &Site) -> Vec<Check> {
    let all = |n: u64| if s.nodes == 0 { None } else { Some(n >= s.nodes) };
    let of = |n: u64| format!("{n} of {} nodes", s.nodes);
    let orphans: Vec<&str> =
        s.objectives.iter().filter(|o| o.owner.is_empty()).map(|o| o.name.as_str()).collect();
    let gates = s.objectives.iter().any(|o| o.gates.contains(&Gate::Automation));
    let owned = match &orphans[..] {
        [] => "every objective has an owner".to_owned(),
        names => format!("nobody answers for {}", names.join(", ")),
    };
    let reached = match &s.failing[..] {
        [] => format!("{} can be notified", s.receivers),
        names => format!("{} cannot be notified", names.join(", ")),
    };
    vec![
        check(
            (BEFORE, "owners", "owners are assigned"),
            (!s.objectives.is_empty()).then_some(orphans.is_empty()),
            owned,
            "give each objective an `owner`: muster slo apply FILE",
        ),
        check(
            (BEFORE, "telemetry", "there is a baseline of telemetry"),
            all(s.reporting),
            format!("{} reported metrics in the last minute", of(s.reporting)),
            "look at the agents of nodes that are silent: muster nodes, muster doctor",
        ),
        check(
            (BEFORE, "tested", "nodes passed a test before they serve"),
            all(s.tested),
            format!("{} passed one", of(s.tested)),
            "muster node qualify NODE, and `qualification.on_join` in the policy",
        ),
        check(
            (BEFORE, "jobs", "representative jobs pass"),
            Some(s.succeeded > 0),
            format!("{} jobs succeeded lately", s.succeeded),
            "run what will run here: muster submit FILE",
        ),
        check(
            (BEFORE, "versions", "nodes have the versions they should have"),
            (s.nodes > 0).then_some(s.drifted == 0),
            format!("{} differ from nodes like them", of(s.drifted)),
            "muster findings names them (config-drift)",
        ),
        check(
            (BEFORE, "topology", "the topology is known"),
            (s.nodes > 0).then_some(s.unplaced == 0),
            format!("{} are in no topology", of(s.unplaced)),
            "muster topology apply FILE",
        ),
        check(
            (BEFORE, "images", "images are scanned"),
            None,
            "Muster does not look into images".to_owned(),
            "scan them where they are built",
        ),
        check(
            (IN, "reconciled", "no node is protected after a restored backup"),
            (s.nodes > 0).then_some(s.protected == 0),
            format!("{} are protected: nothing starts there", of(s.protected)),
            "muster nodes --state protected, then muster node reconcile NODE",
        ),
        check(
            (IN, "objectives", "SLOs are measured"),
            Some(s.stated && s.counted > 0),
            match s.stated {
                true => format!("{} of {} have data", s.counted, s.objectives.len()),
                false => "only the objectives that come with Muster are set".to_owned(),
            },
            "set objectives: muster slo apply FILE",
        ),
        check(
            (IN, "pages", "a page reaches somebody"),
            Some(s.paged),
            format!("{} receivers", s.receivers),
            "set receivers: muster routing apply FILE",
        ),
        check(
            (IN, "receivers", "receivers can be reached"),
            (s.receivers > 0).then_some(s.failing.is_empty()),
            reached,
            "muster routing shows what they answered",
        ),
        check(
            (IN, "runbooks", "alerts have runbooks"),
            Some(s.without_runbook == 0),
            format!("{} of {} open alerts have none", s.without_runbook, s.alerts),
            "write one for each: muster failure-modes names them",
        ),
        check(
            (IN, "automation", "hardware that fails is taken out of service automatically"),
            Some(s.automation),
            if s.automation { "automation is on" } else { "automation is off or stopped" }.into(),
            "muster automation resume, or `remediations.enabled` in the policy",
        ),
        check(
            (IN, "gates", "an exhausted error budget stops automation"),
            s.stated.then_some(gates),
            if gates { "an objective does" } else { "no objective does" }.into(),
            "`gates: [automation]` with an objective",
        ),
        check(
            (IN, "spares", "there are spares for what fails"),
            (s.nodes > 0).then_some(s.spares_left > 0),
            match s.spares - s.spares_left.min(s.spares) {
                0 => format!("{} are reserved as spares", of(s.spares)),
                _ => format!("{} are reserved as spares, {} left", of(s.spares), s.spares_left),
            },
            "muster node mark NODE --role spare",
        ),
        check(
            (IN, "costs", "nobody can take everything"),
            Some(s.quotas && s.limits),
            match (s.quotas, s.limits) {
                (true, true) => "quotas and time limits are set",
                (true, false) => "jobs need no time limit",
                (false, true) => "there are no quotas",
                (false, false) => "there are neither quotas nor time limits",
            }
            .into(),
            "muster quota apply FILE, and `limits` in the policy",
        ),
        check(
            (IN, "preemptible", "there is a plan for preemptible work"),
            Some(s.preemption),
            if s.preemption { "urgent work may preempt" } else { "nothing is preempted" }.into(),
            "`preemption` in the policy",
        ),
        check(
            (IN, "drills", "failures were drilled"),
            s.drills.map(|(all, done)| all > 0 && done >= all),
            s.drills.map_or_else(
                || "when a mode was last drilled is not recorded".to_owned(),
                |(all, done)| format!("{done} of {all}"),
            ),
            "muster gameday run NAME",
        ),
        check(
            (IN, "autoscaling", "growing and shrinking was tried under load"),
            None,
            "this version changes no capacity automatically".to_owned(),
            "muster whatif --from live --change nodes=+N says what more nodes would do",
        ),
    ]
}

/// Is nothing missing? What is unknown keeps nobody from being ready.
#[must_use]
pub fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|c| c.state != State::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_site_is_not_ready_and_says_how_to_be() {
        let all = checks(&Site::default());
        assert!(!is_ready(&all));
        let missing: Vec<_> = all.iter().filter(|c| c.state == State::Missing).collect();
        assert!(missing.iter().all(|c| !c.fix.is_empty() && !c.found.is_empty()));
        let of = |code: &str| all.iter().find(|c| c.code == code).unwrap().state;
        assert_eq!(of("pages"), State::Missing);
        assert_eq!(of("telemetry"), State::Unknown, "there is no node that could report");
        let mut codes: Vec<_> = all.iter().map(|c| c.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all.len());
    }

    #[test]
    fn a_site_with_everything_is_ready_although_some_is_unknown() {
        let site = Site {
            stated: true,
            objectives: crate::defaults::set(1),
            counted: 5,
            nodes: 4,
            reporting: 4,
            tested: 4,
            spares: 1,
            spares_left: 1,
            succeeded: 9,
            receivers: 1,
            paged: true,
            quotas: true,
            limits: true,
            preemption: true,
            automation: true,
            ..Site::default()
        };
        let all = checks(&site);
        let missing: Vec<_> = all.iter().filter(|c| c.state == State::Missing).collect();
        assert!(is_ready(&all), "{missing:#?}");
        assert!(all.iter().any(|c| c.state == State::Unknown));
        let failing = Site {
            failing: vec!["am".into()],
            drifted: 1,
            protected: 2,
            spares: 2,
            spares_left: 0,
            ..site
        };
        let all = checks(&failing);
        let found = |code: &str| all.iter().find(|c| c.code == code).unwrap().found.clone();
        assert_eq!(found("receivers"), "am cannot be notified");
        assert_eq!(found("reconciled"), "2 of 4 nodes are protected: nothing starts there");
        assert_eq!(found("versions"), "1 of 4 nodes differ from nodes like them");
        // Those that are all in use are no spares for what fails next.
        assert_eq!(found("spares"), "2 of 4 nodes are reserved as spares, 0 left");
        assert!(all.iter().any(|c| c.code == "spares" && c.state == State::Missing));
        assert!(!is_ready(&all));
    }
}
