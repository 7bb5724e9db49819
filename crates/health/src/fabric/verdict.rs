//! What tests between nodes say of the nodes, as findings.

use super::path_history::Baseline;
use muster_model::FailureMode;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::units::Time;

/// The failure mode.
pub const KIND: &str = FailureMode::LINK_SLOW.code();

/// One test as it was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct PairVerdict {
    /// One node.
    pub a: String,
    /// The other node.
    pub b: String,
    /// Megabits a second, the slower way.
    pub mbps: f64,
    /// Microseconds there and back, the middle and the ninety-ninth of a hundred.
    pub rtt_us: (u64, u64),
    /// Packets that were sent again.
    pub resent: u64,
    /// Why nothing was measured.
    pub error: Option<String>,
    /// What it was held to.
    pub baseline: Baseline,
    /// It failed.
    pub slow: bool,
}

impl PairVerdict {
    /// Whether a node was part of it.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.a == node || self.b == node
    }

    /// In a line.
    #[must_use]
    pub fn line(&self) -> String {
        let PairVerdict { a, b, mbps, rtt_us: (p50, p99), resent, .. } = self;
        if let Some(e) = &self.error {
            return format!("{a} and {b}: nothing came through: {e}");
        }
        let figure = |v: Option<f64>| v.map_or_else(|| "none".into(), |v| format!("{v:.0}"));
        let against = figure(self.baseline.mbps);
        let (own, peers) = (figure(self.baseline.own), figure(self.baseline.peers));
        format!(
            "{a} and {b}: {mbps:.0} Mbit/s against {against} (its past {own}, its peers {peers}); \
             round trip {p50} us, p99 {p99} us; {resent} packets sent again"
        )
    }
}

/// A node to which slow pairs were traced. `tests` are all of the hunt; those with the node that
/// failed are the evidence.
#[must_use]
pub fn slow(node: &str, entity: Entity, tests: &[PairVerdict], at: Time) -> ObservedFinding {
    let failed: Vec<&PairVerdict> = tests.iter().filter(|t| t.slow && t.has(node)).collect();
    // Several partners are better than one, and a path's own past is better than its peers'.
    let mut sure: u16 = if failed.len() > 1 { 950 } else { 800 };
    let by_past = |t: &&PairVerdict| {
        t.error.is_some() || t.baseline.own.is_some_and(|own| t.mbps * 100.0 < own * 90.0)
    };
    if !failed.iter().any(by_past) {
        sure -= 100;
    }
    let mut finding =
        ObservedFinding::new(KIND, entity, Severity::Degraded, at).with_confidence(sure);
    fn partner<'a>(t: &'a PairVerdict, node: &str) -> &'a str {
        if t.a == node { &t.b } else { &t.a }
    }
    let partners: Vec<&str> = distinct(failed.iter().map(|t| partner(t, node)));
    let all = distinct(tests.iter().filter(|t| t.has(node)).map(|t| partner(t, node)));
    let well = |p: &&str| tests.iter().any(|t| !t.slow && t.has(p));
    let slow_with = partners.len();
    let cleared: Vec<&str> = partners.into_iter().filter(well).collect();
    finding.count = u64::try_from(failed.len()).unwrap_or(1).max(1);
    finding = finding.because(format!(
        "slow with {slow_with} of {} partners; not slow without it: {}",
        all.len(),
        if cleared.is_empty() { "none yet".into() } else { cleared.join(", ") }
    ));
    failed.into_iter().fold(finding, |f, t| f.because(t.line())).bounded()
}

/// A node that was named slow and is not any more.
#[must_use]
pub fn recovered_finding(
    node: &str,
    entity: Entity,
    tests: &[PairVerdict],
    at: Time,
) -> ObservedFinding {
    let mut finding = ObservedFinding::new(KIND, entity, Severity::Info, at);
    finding.over = true;
    let passed = tests.iter().filter(|t| !t.slow && t.has(node));
    passed.fold(finding, |f, t| f.because(t.line())).bounded()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(a: &str, b: &str, mbps: f64, own: Option<f64>) -> PairVerdict {
        let baseline = Baseline { mbps: Some(100.0), own, peers: Some(100.0), floor: Some(90.0) };
        PairVerdict {
            a: a.into(),
            b: b.into(),
            mbps,
            rtt_us: (120, 900),
            resent: 7,
            error: None,
            slow: baseline.is_slow(mbps),
            baseline,
        }
    }

    #[test]
    fn the_evidence_names_figures_and_who_is_well_without_it() {
        let tests = [
            test("n1", "n3", 30.0, None),
            test("n2", "n4", 100.0, None),
            test("n3", "n2", 31.0, None),
            test("n1", "n4", 99.0, None),
        ];
        let entity: Entity = "port:n3/eth0".parse().unwrap();
        let f = slow("n3", entity.clone(), &tests, Time(5));
        assert_eq!((f.kind.as_str(), &f.entity, f.confidence, f.count), (KIND, &entity, 850, 2));
        assert_eq!(f.severity, crate::modes::mode(KIND).unwrap().severity);
        assert_eq!(f.evidence[0], "slow with 2 of 2 partners; not slow without it: n1, n2");
        assert_eq!(
            f.evidence[1],
            "n1 and n3: 30 Mbit/s against 100 (its past none, its peers 100); round trip 120 us, \
             p99 900 us; 7 packets sent again"
        );
        assert_eq!(f.evidence.len(), 3);
        assert!(recovered_finding("n1", entity, &tests, Time(6)).over);
    }

    #[test]
    fn its_own_past_makes_it_surer() {
        let e = || "node:n3".parse::<Entity>().unwrap();
        let two = [test("n1", "n3", 30.0, Some(100.0)), test("n3", "n2", 30.0, None)];
        assert_eq!(slow("n3", e(), &two, Time(0)).confidence, 950);
        assert_eq!(slow("n3", e(), &two[..1], Time(0)).confidence, 800);
        let mut dead = test("n1", "n3", 0.0, None);
        dead.error = Some("no route".into());
        let f = slow("n3", e(), &[dead], Time(0));
        assert_eq!(f.confidence, 800);
        assert!(f.evidence[1].ends_with("nothing came through: no route"));
    }
}
