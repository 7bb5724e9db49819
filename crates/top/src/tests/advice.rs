//! What is advised follows from the state, and from what somebody may do.

use super::*;
use muster_api::{CauseRunbook, OpenCause};
use muster_model::breaker::BreakerState;

/// The leaf whose nodes are lost, with everything that is open about it.
pub(super) fn cause() -> OpenCause {
    let h = health();
    OpenCause {
        id: "incident:40".into(),
        kind: "leaf-loss".into(),
        title: "Many nodes of one leaf fail at once".into(),
        entity: "leaf:eu/c1/s1/l2".into(),
        summary: "6 of 8 nodes of leaf eu/c1/s1/l2 are lost within 40 s".into(),
        severity: None,
        urgency: Some(Urgency::Page),
        since: ago(Span::mins(7)),
        alerts: vec![alert()],
        incidents: h.incidents,
        breakers: h.breakers,
        findings: h.findings,
        findings_open: 6,
        remediations: h.waiting,
        pending: vec!["31".into()],
        pending_jobs: Vec::new(),
        pending_jobs_count: 0,
        nodes: Vec::new(),
        nodes_count: 0,
        jobs: Vec::new(),
        jobs_affected: 0,
        ended_attempts: Vec::new(),
        ended_attempts_count: 0,
        projects: Vec::new(),
        runbook: Some(CauseRunbook {
            name: "leaf-loss".into(),
            title: "Many nodes of one leaf fail at once".into(),
            step: Some(2),
            step_title: "Look at the switch".into(),
            vars: Default::default(),
            run: None,
        }),
    }
}

/// The page of the row after so many others.
fn page(m: &mut Model, row: usize) -> String {
    press(m, "3g");
    press(m, &"j".repeat(row));
    press(m, "\n");
    text(m, 120, 60)
}

/// Rows: an alert, a remediation, an incident, a breaker, a finding.
const ROWS: usize = 5;

#[test]
fn what_is_to_be_done_is_what_the_server_says_is_left() {
    let mut m = incidents();
    assert!(page(&mut m, 0).contains("reading it"), "nothing is advised before it is known");
    assert!(m.due().contains(&ReadRequest::Causes));
    let mut cause = cause();
    m.update(Msg::Causes(vec![cause.clone()]));
    for row in 0..ROWS {
        let shown = page(&mut m, row);
        assert!(shown.contains("  Step 2: Look at the switch"), "row {row}: {shown}");
        assert!(shown.contains("muster runbook show leaf-loss"), "row {row}: {shown}");
    }
    let book = cause.runbook.take().expect("a runbook");
    let left = |book: CauseRunbook| OpenCause { runbook: Some(book), ..cause.clone() };
    let run = Some("7".to_owned());
    m.update(Msg::Causes(vec![left(CauseRunbook { run, ..book.clone() })]));
    let shown = page(&mut m, 4);
    assert!(shown.contains("Run 7, at step 2: Look at the switch"), "{shown}");
    assert!(shown.contains("muster runbook describe 7"), "{shown}");
    let step_title = "nothing is left to do".to_owned();
    m.update(Msg::Causes(vec![left(CauseRunbook { step: None, step_title, ..book })]));
    let shown = page(&mut m, 4);
    assert!(shown.contains("  nothing is left to do") && !shown.contains("tep 2"), "{shown}");
    m.update(Msg::Causes(Vec::new()));
    assert!(page(&mut m, 4).contains("no runbook applies"));
}

#[test]
fn what_is_done_or_not_allowed_is_not_advised() {
    let acts = [
        "muster alerts ack",
        "muster remediations approve",
        "muster incident own",
        "muster breakers force",
    ];
    let all = |m: &mut Model| (0..ROWS).map(|row| page(m, row)).collect::<String>();
    let mut m = incidents();
    let shown = all(&mut m);
    for act in acts {
        assert!(shown.contains(act), "{act}: {shown}");
    }
    // Somebody who only looks.
    let who = |role, project| {
        let (name, site) = ("user:eve".into(), "site-eu1".into());
        WhoAmI { name, role, project, token: None, expires_at: None, site }
    };
    for me in [who(Role::Viewer, None), who(Role::Admin, Some("red".into()))] {
        let mut m = incidents();
        m.update(Msg::Me(me));
        let shown = all(&mut m);
        for act in acts {
            assert!(!shown.contains(act), "{act}: {shown}");
        }
        assert!(shown.contains("muster findings 12"), "reading is for everybody: {shown}");
    }
    // All of it is done already.
    let (mut h, mut a) = (health(), alert());
    a.silenced = Some("maintenance".into());
    h.incidents[0].owner = Some("user:bob".into());
    h.waiting[0].approved = Some("user:bob".into());
    h.breakers[0].state = BreakerState::HalfOpen;
    m.update(Msg::Health(Box::new(h), vec![a]));
    let shown = all(&mut m);
    for act in acts {
        assert!(!shown.contains(act), "{act}: {shown}");
    }
}
