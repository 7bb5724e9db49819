//! What a check can look at, and what it is held to.

use std::fmt;

macro_rules! looks {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal $needs:expr, $of:literal;)*) => {
        /// Something that can be looked at.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Observable {
            $($(#[doc = $doc])* $name,)*
            /// A figure of a GPU, or of a node's host, as its agent reported it last.
            Telemetry(String),
        }
        /// Every look by its word, with the variable it needs and what it gives.
        const ALL: &[(&str, Observable, Option<&str>, &str)] =
            &[$(($word, Observable::$name, $needs, $of),)*];
    };
}

looks! {
    /// The stage of the node's life.
    NodeState "node.state" Some("node"), "ready, suspect, draining, drained, quarantined, repairing, qualifying";
    /// Is its agent heard?
    NodeReachable "node.reachable" Some("node"), "yes or no";
    /// Does it take no new work?
    NodeCordoned "node.cordoned" Some("node"), "yes or no";
    /// Jobs with ranks on it.
    NodeJobs "node.jobs" Some("node"), "a number";
    /// GPUs that can take work.
    NodeGpus "node.gpus" Some("node"), "a number";
    /// GPUs that it had and has not.
    NodeMissingGpus "node.gpus_missing" Some("node"), "a number";
    /// Open findings about it, its GPUs and its ports.
    NodeFindings "node.findings" Some("node"), "a number";
    /// The worst severity of them.
    NodeSeverity "node.severity" Some("node"), "none, info, warning, degraded, critical";
    /// What its remediation does.
    NodeRemediation "node.remediation" Some("node"), "none, watch, drain, reset_gpu, reboot, power_cycle, replace";
    /// How far that is. One that waits for an operator is at `approval`, whatever was done before.
    NodeRemediationStep "node.remediation_step" Some("node"), "none, watched, delayed, moving, approval, acting, repairing, testing";
    /// Is a remediation of it pending approval? One that a limit delays is not.
    NodeApproval "node.approval" Some("node"), "yes or no";
    /// How its last test ended.
    NodeTest "node.test" Some("node"), "none, running, passed, failed";
    /// Is it watched after its return?
    NodeProbation "node.probation" Some("node"), "yes or no";
    /// Does a breaker keep work away from it?
    NodeBreaker "node.breaker" Some("node"), "yes or no";
    /// Other nodes of its leaf that are not heard.
    LeafLost "leaf.lost" Some("node"), "a number";
    /// Other nodes of its rack that are not heard.
    RackLost "rack.lost" Some("node"), "a number";
    /// How a finding stands.
    FindingState "finding.state" Some("finding"), "open or closed";
    /// How an incident stands.
    IncidentState "incident.state" Some("incident"), "open or closed";
    /// Findings that are part of it.
    IncidentFindings "incident.findings" Some("incident"), "a number";
    /// Has somebody taken it on?
    IncidentOwned "incident.owned" Some("incident"), "yes or no";
    /// How a job stands.
    JobState "job.state" Some("job"), "queued, starting, running, stopping, succeeded, failed, cancelled";
    /// Attempts it made.
    JobAttempts "job.attempts" Some("job"), "a number";
    /// Is it held?
    JobHeld "job.held" Some("job"), "yes or no";
    /// Minutes since its last checkpoint.
    JobCheckpointAge "job.checkpoint_minutes" Some("job"), "a number, or none";
    /// How a breaker stands.
    BreakerState "breaker.state" Some("breaker"), "open, half_open or closed";
    /// The status of automation.
    AutomationState "automation.state" None, "running, stopped or off";
    /// Nodes that it has out of service.
    AutomationOut "automation.out" None, "a number";
    /// Remediations that are pending approval.
    AutomationApprovals "automation.approvals" None, "a number";
    /// Nodes that are not heard.
    FleetLost "fleet.lost" None, "a number";
    /// Nodes that are protected after a restored backup.
    FleetProtected "fleet.protected" None, "a number";
    /// Nodes that serve.
    FleetReady "fleet.ready" None, "a number";
    /// Spare nodes that serve and are idle.
    FleetSpares "fleet.spares" None, "a number";
    /// Findings that are open.
    FleetFindings "fleet.findings" None, "a number";
    /// Jobs that wait for room.
    QueueLength "queue.length" None, "a number";
    /// Minutes that the oldest of them has waited, since its last attempt where it had one.
    QueueOldest "queue.oldest_minutes" None, "a number";
}

impl Observable {
    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Observable> {
        if let Some(figure) = word.strip_prefix("telemetry.") {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            return (!figure.is_empty() && figure.len() <= 64 && figure.chars().all(fits))
                .then(|| Observable::Telemetry(figure.to_owned()));
        }
        ALL.iter().find(|(w, ..)| *w == word).map(|(_, l, ..)| l.clone())
    }

    /// The variable it is about.
    #[must_use]
    pub fn needs(&self) -> Option<&'static str> {
        match self {
            Observable::Telemetry(_) => Some("node"),
            l => ALL.iter().find(|(_, x, ..)| x == l).and_then(|(_, _, n, _)| *n),
        }
    }

    /// Is it reported by agents and not in the log?
    #[must_use]
    pub fn outside(&self) -> bool {
        matches!(self, Observable::Telemetry(_))
    }

    /// Every word, for people who write runbooks.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        let telemetry = ("telemetry.METRIC", "the number that the node's agent reported last");
        ALL.iter().map(|(w, _, _, of)| (*w, *of)).chain([telemetry])
    }
}

impl fmt::Display for Observable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observable::Telemetry(x) => write!(f, "telemetry.{x}"),
            l => f.write_str(ALL.iter().find(|(_, x, ..)| x == l).map_or("", |(w, ..)| w)),
        }
    }
}

/// What a look gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, such as a state.
    Word(String),
    /// A whole number, such as a count.
    Number(i64),
    /// Nothing is known.
    Unknown(String),
}

impl Value {
    /// Yes or no.
    #[must_use]
    pub fn yes(is: bool) -> Value {
        Value::Word(if is { "yes" } else { "no" }.into())
    }

    /// As an agent's figure is reported: a number, rounded, or a word.
    #[must_use]
    pub fn parse_reported(text: &str) -> Value {
        let text = text.trim();
        if text.is_empty() {
            return Value::Unknown("no data".into());
        }
        // Whole numbers suffice to hold a figure to a bound, and round alike everywhere.
        let whole = text.split('.').next().unwrap_or(text);
        match whole.parse() {
            Ok(n) => Value::Number(n),
            Err(_) => Value::Word(text.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Word(w) => f.write_str(w),
            Value::Number(n) => write!(f, "{n}"),
            Value::Unknown(why) => write!(f, "unknown ({why})"),
        }
    }
}

/// What a value is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// One of these.
    Is(Vec<String>),
    /// None of these.
    IsNot(Vec<String>),
    /// So much or more.
    AtLeast(i64),
    /// So much or less.
    AtMost(i64),
}

impl Bound {
    /// Does a value keep to it? What is unknown never does.
    #[must_use]
    pub fn holds(&self, v: &Value) -> bool {
        let word = v.to_string();
        match (self, v) {
            (_, Value::Unknown(_)) => false,
            (Bound::Is(any), _) => any.contains(&word),
            (Bound::IsNot(none), _) => !none.contains(&word),
            (Bound::AtLeast(n), Value::Number(v)) => v >= n,
            (Bound::AtMost(n), Value::Number(v)) => v <= n,
            (Bound::AtLeast(_) | Bound::AtMost(_), Value::Word(_)) => false,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Is(any) => write!(f, "is {}", any.join(" or ")),
            Bound::IsNot(none) => write!(f, "is not {}", none.join(" or ")),
            Bound::AtLeast(n) => write!(f, "is {n} or more"),
            Bound::AtMost(n) => write!(f, "is {n} or less"),
        }
    }
}
