//! Whether the service itself has a problem: its API, its scheduler, its store.

use muster_model::alert::{Alert, Topic};
use muster_model::slo::Objective;

/// Is an alert about the service itself? Then everybody is affected, whether a job of theirs is or not.
/// `objectives` are those in force.
#[must_use]
pub fn concerns_service(a: &Alert, objectives: &[Objective]) -> bool {
    match a.topic {
        Topic::ControlPlane => true,
        Topic::Objective => objectives
            .iter()
            .any(|o| o.name.as_str() == a.kind && o.scope.is_site() && o.sli.is_of_service()),
        Topic::Finding
        | Topic::Incident
        | Topic::Capacity
        | Topic::Budget
        | Topic::Certificate
        | Topic::Drift
        | Topic::Automation => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults;
    use serde_json::json;

    #[test]
    fn an_alert_about_the_api_or_the_store_is_about_the_service() {
        let concerns = |topic: &str, kind: &str| {
            let a: Alert = serde_json::from_value(json!({"id": "a", "group": "g", "topic": topic,
                "kind": kind, "cause": "site", "urgency": "page", "state": "firing",
                "summary": "", "count": 1, "since": 0, "raised_at": 0, "changed_at": 0}))
            .unwrap();
            concerns_service(&a, &defaults::set(1))
        };
        assert!(concerns("control_plane", "cannot-write"));
        assert!(concerns("objective", "api-availability"));
        assert!(concerns("objective", "api-latency"));
        assert!(!concerns("objective", "goodput"), "that is about hardware and jobs");
        assert!(!concerns("objective", "not-in-force"));
        assert!(!concerns("finding", "gpu-off-bus"));
    }
}
