//! Order of nodes, words of events, figures that tremble.

use super::Viewer;
use super::fleet_map::{Cell, CellNames, Change, FleetMap, NONE, node_state};
use super::frame::{kind, next};
use super::hints::hint;
use super::layout::{Layout, MAINTENANCE, STOPPING, states};
use super::order::natural;
use super::snapshot::NodeSnapshot;
use bytes::Bytes;
use muster_model::entity::Entity;
use muster_model::event::{Event, Record, SCHEMA};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::node::{Inventory, Node};
use muster_model::remediation::{Action, RemediationStep};
use muster_model::topology::Location;
use muster_model::{Seq, Time};
use std::cmp::Ordering;
use std::sync::Arc;

#[test]
fn names_are_in_the_order_people_expect() {
    let mut names = ["n10", "n2", "n1", "n02", "m3", "n", "n1a", "rack-9-n1", "rack-10-n1"];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(names, ["m3", "n", "n1", "n1a", "n02", "n2", "n10", "rack-9-n1", "rack-10-n1"]);
    assert_eq!(natural("a01", "a1"), Ordering::Less, "never equal unless the same");
}

#[test]
fn a_node_that_is_only_watched_waits_for_nobody() {
    let waits = |a: Action| {
        let all = [RemediationStep::Proposed, RemediationStep::Moving, RemediationStep::Probation];
        (all.map(|s| a.awaits_approval(s)), a.awaits_approval(RemediationStep::Approval))
    };
    assert_eq!(waits(Action::Watch), ([false, false, false], true));
    assert_eq!(waits(Action::RestartJob), ([true, false, false], true));
    assert_eq!(waits(Action::Drain), ([true, false, false], true));
}

/// Whoever counts by the state of a GPU does not count its GPUs as free.
#[test]
fn a_node_that_is_ready_and_gets_no_new_work_is_not_shown_as_ready() {
    let node: Node = serde_json::from_value(serde_json::json!({
        "name": "n1", "stage": "ready", "reachable": true, "cordon": null,
        "inventory": Inventory::default(), "location": Location::unplaced(&"n1".parse().unwrap()),
        "address": "", "host": "", "machine": "m", "boot": "boot-1", "enrolled_at": 0,
        "changed_at": 0, "version": 1,
    }))
    .unwrap();
    let state = |orphan: Option<AttemptKey>, in_maintenance: bool, breaker: Option<Entity>| {
        let orphans = orphan.into_iter().collect();
        let node = Arc::new(Node { orphans, breaker, ..node.clone() });
        let (figures, findings) = (None, Vec::new());
        let (remediated, waits) = (false, false);
        node_state(&NodeSnapshot { node, figures, findings, in_maintenance, remediated, waits })
    };
    let orphan = Some(AttemptKey { job: JobId(7), attempt: 1 });
    assert_eq!(state(None, false, None), "ready");
    assert_eq!(state(orphan, false, None), STOPPING);
    assert_eq!(state(None, true, None), MAINTENANCE);
    // As the list of nodes says why: an open breaker, which has a flag here, comes first.
    assert_eq!(state(orphan, true, None), STOPPING);
    assert_eq!(state(orphan, true, Some(Entity::Site)), "ready");
    assert!([STOPPING, MAINTENANCE].iter().all(|word| states().any(|s| s == *word)));
}

#[test]
fn an_event_has_the_word_that_the_log_writes() {
    let event = Event::ProjectCreated { name: "alpha".parse().unwrap(), description: "x".into() };
    let written = serde_json::to_value(&event).unwrap();
    assert_eq!(written["kind"], kind(&event));
    let event =
        Event::SecretDeleted { project: "alpha".parse().unwrap(), name: "x".parse().unwrap() };
    let written = serde_json::to_value(&event).unwrap();
    assert_eq!(written["kind"], kind(&event));
}

#[test]
fn a_project_is_given_no_hint_of_what_is_the_sites_or_anothers() {
    let hints = |project: Option<&str>, event: Event| {
        let record = Record {
            seq: Seq(1),
            at: Time(0),
            v: SCHEMA,
            org: "default".into(),
            project: project.map(|p| p.parse().unwrap()),
            actor: "system".into(),
            key: None,
            event,
        };
        let viewers: [Viewer; 3] =
            [None, Some("alpha".parse().unwrap()), Some("beta".parse().unwrap())];
        viewers.map(|v| hint(&v, &record).unwrap_or_default())
    };
    let set = Event::SecretSet { project: "alpha".parse().unwrap(), name: "x".parse().unwrap() };
    assert_eq!(hints(Some("alpha"), set), ["secret_set", "secret_set", ""]);
    let made = Event::ProjectCreated { name: "gamma".parse().unwrap(), description: String::new() };
    assert_eq!(hints(None, made), ["project_created", "", ""]);
    assert_eq!(
        hints(None, Event::AutomationResumed { by: "user:ann".into() }),
        ["automation_resumed", "", ""]
    );
    let drained = Event::NodeDrained { node: "n1".parse().unwrap() };
    assert_eq!(hints(None, drained), ["node_drained", "node", "node"]);
    // What every project reads a part of is read again.
    let quotas = Event::QuotasSet { quotas: Arc::default() };
    assert_eq!(hints(None, quotas), ["quotas_set", "policy_set", "policy_set"]);
    let gone = Event::ReservationDeleted { name: "night".parse().unwrap() };
    assert_eq!(hints(None, gone), ["reservation_deleted", "reservation_set", "reservation_set"]);
}

#[test]
fn a_project_is_not_shown_that_the_gpus_of_others_changed() {
    let cell = |tenant: u16, util: u8| Cell {
        job: 1,
        power: 0,
        hazard: 0,
        tenant,
        version: NONE,
        state: 0,
        flags: 0,
        util,
        temp: 0,
    };
    let layout =
        Layout { version: 1, json: Bytes::new(), first: vec![0, 1, 2], made_of: Vec::new() };
    let tenants = vec!["alpha".parse().unwrap(), "beta".parse().unwrap()];
    let map = FleetMap {
        tick: 2,
        at: Time(0),
        layout: Arc::new(layout),
        words: CellNames { tenants, versions: Vec::new() },
        cells: vec![cell(0, 50), cell(1, 50)],
    };
    let was = vec![cell(0, 10), cell(1, 10)];
    let change = Change::Cells { at: vec![0, 1], was, words: false };
    let cells = |project: Option<&str>| {
        let viewer: Viewer = project.map(|p| p.parse().unwrap());
        let frame = next(&map, &change, None, &viewer);
        // Behind its length, its format and its kind.
        u32::from_le_bytes(frame[8..12].try_into().unwrap())
    };
    let counts = [None, Some("alpha"), Some("beta"), Some("gamma")].map(cells);
    assert_eq!(counts, [2, 1, 1, 0]);
}
