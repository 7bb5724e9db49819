use super::*;

#[test]
fn who_cancels_their_own_job_is_no_operator() {
    let cancelled = |by: &str| StopReason::Cancelled { by: by.into() };
    let ended = |verdict, stopped_for: Option<StopReason>| PastAttempt {
        no: 1,
        nodes: Vec::new(),
        placed_at: Time(0),
        started_at: None,
        ended_at: Time(1),
        freed_at: None,
        stopped_at: None,
        verdict,
        reason: stopped_for.as_ref().map(ToString::to_string).unwrap_or_default(),
        findings: Vec::new(),
        stopped_for,
    };
    for (verdict, why, word) in [
        (Verdict::Operator, cancelled("user:bo"), "user"),
        (Verdict::Operator, cancelled("bo"), "user"),
        (Verdict::Operator, cancelled("user:ops"), "operator"),
        (Verdict::Operator, StopReason::Requeued { by: "user:bo".into() }, "operator"),
        (Verdict::Application, cancelled("user:bo"), "application"),
    ] {
        let past = ended(verdict, Some(why));
        assert_eq!(past.attributed_to("bo"), word, "{past:?}");
        // A snapshot of an older version has the text alone.
        let mut old = PastAttempt { stopped_for: None, ..past };
        old.read_canceller();
        assert_eq!(old.attributed_to("bo"), word, "{old:?}");
    }
    // Since it is written down what it was stopped for, words say nothing.
    let mut other = ended(Verdict::Operator, Some(StopReason::Requeued { by: "ops".into() }));
    other.reason = "cancelled by user:bo".into();
    other.read_canceller();
    assert_eq!(other.attributed_to("bo"), "operator");
}

#[test]
fn why_an_attempt_ended_is_reported_as_past() {
    let reason = StopReason::Unhealthy {
        node: "n1".parse().unwrap(),
        finding: 193,
        mode: "gpu-off-bus".into(),
    };
    let past = past_reason(&reason.to_string());
    assert_eq!(past, "node n1 was unhealthy: gpu-off-bus (finding 193)");
    assert_eq!(past_reason("node n1 was lost"), "node n1 was lost");
}
