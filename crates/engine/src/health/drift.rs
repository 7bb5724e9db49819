//! Nodes that are set up differently from their peers: a remark, and no more.

use crate::Engine;
use muster_health::drift::{Setup, by_cause, drift};
use muster_model::FailureMode;
use muster_model::finding::{Finding, ObservedFinding, Severity};
use muster_model::node::Stage;
use muster_model::units::{Span, Time};

const KIND: &str = FailureMode::CONFIG_DRIFT.code();
/// What evidence of this begins with: the driver's own word makes findings of the kind as well.
const MARK: &str = "differs from its peers: ";
/// How long after a node reported what it is made of all are compared: a fleet joins at once.
const AFTER: Span = Span::secs(60);

/// Is this line of evidence about nodes that differ? Such lines are reported whole each time.
pub(super) fn is_difference(line: &str) -> bool {
    line.starts_with(MARK)
}

impl Engine {
    /// Compares nodes with their peers, some time after one of them reported something new.
    pub(super) fn detect_drift(&mut self) {
        if self.next_drift().is_none_or(|t| t > self.state.now) {
            return;
        }
        self.work.inventoried = None;
        let serves = |s: Stage| !matches!(s, Stage::Enrolled | Stage::Retired);
        let nodes = self.state.nodes.values().filter(|n| serves(n.stage));
        let all = drift(nodes.map(|n| Setup {
            node: &n.name,
            pool: &n.inventory.pool,
            sku: n.inventory.gpus.first().map_or("", |g| g.sku.as_str()),
            versions: &n.inventory.versions,
        }));
        let all = by_cause(&all);
        let ours = |f: &Finding| {
            let marked = f.seen.evidence.first().is_some_and(|e| e.starts_with(MARK));
            f.seen.kind == KIND && marked && !all.contains_key(&f.seen.entity)
        };
        let over: Vec<u64> = self.state.health.open().filter(|f| ours(f)).map(|f| f.id).collect();
        for (entity, lines) in all {
            let now = self.state.now;
            let mut seen =
                ObservedFinding::new(KIND, entity, Severity::Warning, now).with_confidence(700);
            for line in lines {
                seen = seen.because(format!("{MARK}{line}"));
            }
            self.found(seen, true);
        }
        for id in over {
            self.close_finding(id, "like its peers again, or part of another finding", true);
        }
    }

    /// When nodes are compared next.
    pub(super) fn next_drift(&self) -> Option<Time> {
        self.work.inventoried.map(|t| t + AFTER)
    }
}
