//! How the site stands, worst first.

use super::{automation, breakers, findings, incidents, remediations, sees};
use crate::auth::{Caller, Reader};
use crate::error::Reply;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::node::state_word;
use muster_api::{Finding, HealthSummary, Kind};
use muster_engine::{FindingTreatment, State as Site};
use muster_model::alert::{Alert, AlertState, Topic, Urgency};
use muster_model::finding::{Finding as ModelFinding, Severity};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::placement::GpuSet;
use muster_model::remediation::RemediationOutcome;
use muster_model::slo::NodeServiceFacts;
use muster_model::units::Time;
use muster_slo::service::concerns_service;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings reported in one summary.
const FINDINGS: usize = 100;
/// What a tenant reads of a page that a receiver was sent.
const PAGED: &str = "the operators of this site were paged";
/// And of one that none was sent: whom it reached is not for tenants.
const UNSENT: &str = "a problem of this site is open that its operators have to act on";
/// And of one about the service itself.
const OF_SERVICE: &str =
    "the service itself has a problem: requests, or starts of jobs, may be slow or fail";

/// Get the status of the site, worst first: what is wrong, and what is pending approval.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/health", tag = "health",
    responses((status = 200, description = "Its status.", body = HealthSummary))))]
pub(crate) async fn get(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let now = app.brain().now();
    let (brain, reader) = (app.brain().clone(), caller.clone());
    let look = move || brain.read_polled(|s| (s.seq, view(s, &reader, now)));
    let (seq, mut shown) = app.aside(&caller.token, look).await?;
    refuses_changes(&app, &mut shown);
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &shown))
}

/// That a server which leads accepts no changes now, or no jobs: the log cannot say so.
fn refuses_changes(app: &App, out: &mut HealthSummary) {
    let brain = app.brain();
    if !brain.is_leading() {
        return;
    }
    let why = match brain.cannot_write(app.config().store_patience) {
        Some(why) => format!("changes are refused: {}", why.summary),
        None => match brain.refuses_submissions() {
            Some(why) => format!("only operators can submit jobs: {}", why.summary),
            None => return,
        },
    };
    out.service_affected = true;
    out.state = "bad".into();
    out.reasons.insert(0, why);
}

fn view(s: &Site, caller: &Caller, now: Time) -> HealthSummary {
    let whole = caller.actor.project.is_none();
    let (mut nodes, mut nodes_out) = (BTreeMap::<String, u32>::new(), 0);
    for n in s.nodes.values().filter(|n| n.stage != Stage::Retired) {
        *nodes.entry(state_word(n).to_owned()).or_default() += 1;
        nodes_out += u32::from(NodeServiceFacts::from(&**n).is_out());
    }
    let spares = s.spares();
    let mut open: Vec<Finding> = Vec::new();
    let mut findings_open = 0;
    for f in s.health.open().filter(|f| sees(s, caller, f)) {
        findings_open += 1;
        if has_own_line(s, f, whole) {
            open.push(findings::view(f));
        }
    }
    open.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.opened_at.cmp(&a.opened_at)));
    let mut out = HealthSummary {
        kind: Kind::Health,
        state: String::new(),
        service_affected: false,
        reasons: Vec::new(),
        incidents: Vec::new(),
        findings: open,
        findings_open,
        waiting: Vec::new(),
        remediations_open: 0,
        remediations_in_progress: 0,
        on_probation: 0,
        breakers: Vec::new(),
        automation: None,
        nodes,
        nodes_out,
        spares_left: spares.values().map(|of| of.ready).sum(),
        spares: spares.values().map(|of| of.all).sum(),
        tickets_open: 0,
        burning: Vec::new(),
    };
    if whole {
        out.incidents = s.health.open_incidents().map(|i| incidents::view(i)).collect();
        out.incidents.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.began_at.cmp(&b.began_at)));
        let mut probation = BTreeSet::new();
        for r in s.health.live_remediations() {
            out.remediations_open += 1;
            out.remediations_in_progress += u64::from(r.is_in_progress());
            if r.is_probation() {
                probation.insert(&r.node);
            }
            if r.is_pending() {
                out.waiting.push(remediations::view(s, r));
            }
        }
        out.on_probation = u32::try_from(probation.len()).unwrap_or(u32::MAX);
        out.waiting.sort_by_key(|r| r.since);
        out.breakers = breakers::open(s);
        out.automation = Some(automation::view(s, now));
        (out.tickets_open, out.burning) = beside(s);
    }
    evaluate(s, &mut out, whole, now);
    out.findings.truncate(FINDINGS);
    out
}

/// Tickets that are open, and objectives that alerts are open about. Nobody silenced them, and they
/// change nothing of how the site stands.
fn beside(s: &Site) -> (u32, Vec<String>) {
    let (mut tickets, mut burning) = (0, BTreeSet::new());
    for a in s.slo.open().filter(|a| a.silenced.is_none()) {
        tickets += u32::from(a.urgency == Urgency::Ticket);
        if a.topic == Topic::Objective {
            burning.insert(a.kind.clone());
        }
    }
    (tickets, burning.into_iter().collect())
}

/// Whether a finding is listed by itself. One of an incident is reported with that, unless an
/// operator denied or undid what was to be done about it, which no incident says. Tenants see no
/// incidents, so that nothing of theirs hides in one.
fn has_own_line(s: &Site, f: &ModelFinding, whole: bool) -> bool {
    let chosen = f.remediation.and_then(|id| s.health.remediations.get(&id));
    let by_operator = matches!(
        chosen.and_then(|r| r.outcome),
        Some(RemediationOutcome::Denied | RemediationOutcome::Undone)
    );
    !whole || f.incident.is_none() || by_operator
}

/// What is being done about a finding.
fn tended(s: &Site, f: &Finding) -> FindingTreatment {
    let node: Option<NodeName> = f.node.as_ref().and_then(|n| n.parse().ok());
    let chosen = f.remediation.as_ref().and_then(|id| id.parse().ok());
    s.treatment(node.as_ref(), chosen)
}

/// How many critical findings without a line of their own are pending approval.
fn approvals_of_incidents(s: &Site) -> usize {
    let pending = |f: &&Arc<ModelFinding>| {
        f.seen.severity == Severity::Critical
            && !has_own_line(s, f, true)
            && s.treatment(f.seen.entity.node(), f.remediation) == FindingTreatment::Approval
    };
    s.health.open().filter(pending).count()
}

/// That remediations of so many critical findings were denied or undone, and what closes these.
fn ended_by_operator(s: &Site, findings: &[Finding], how: &FindingTreatment, n: usize) -> String {
    let word = if *how == FindingTreatment::Undone { "undone" } else { "denied" };
    let mut critical = findings.iter().filter(|f| f.severity == Severity::Critical);
    let only = critical.find(|f| tended(s, f) == *how).filter(|_| n == 1);
    let chosen = only.and_then(|f| f.remediation.as_ref()?.parse::<u64>().ok());
    match chosen.and_then(|id| s.health.remediations.get(&id)) {
        Some(r) => format!(
            "1 critical finding: its remediation was {word} by {}; `muster node qualify {}` closes \
             it when the test passes",
            r.why.strip_prefix("by ").unwrap_or(&r.why),
            r.node
        ),
        None => format!(
            "{n} critical findings: their remediations were {word}; `muster node qualify NODE` \
             closes those of a node when the test passes"
        ),
    }
}

/// A node in service, and GPUs of it.
type GpusOfNode<'a> = (&'a NodeName, GpuSet);

/// GPUs of nodes in service that are missing and that no open finding is about: those that work
/// may use, and those that are excluded.
fn missing_gpus(s: &Site) -> (Vec<GpusOfNode<'_>>, Vec<GpusOfNode<'_>>) {
    let (mut absent, mut excluded) = (Vec::new(), Vec::new());
    let serves = |n: &&Arc<Node>| NodeServiceFacts::from(&***n).is_in_service();
    let short = s.nodes.values().filter(|n| !n.missing_gpus.is_empty()).filter(serves);
    for n in short {
        let alone = s.unexplained_missing(n);
        let (out, rest) = (alone.and(n.excluded_gpus), alone.minus(n.excluded_gpus));
        absent.extend((!rest.is_empty()).then_some((&n.name, rest)));
        excluded.extend((!out.is_empty()).then_some((&n.name, out)));
    }
    (absent, excluded)
}

/// `GPU 2 of node hgx-0013 is missing`.
fn missing_text(all: &[GpusOfNode<'_>]) -> String {
    let gpus: u32 = all.iter().map(|(_, set)| set.len()).sum();
    match all {
        [(node, set)] if gpus == 1 => format!("GPU {set} of node {node} is missing"),
        [(node, _)] => format!("{gpus} GPUs of node {node} are missing"),
        [(node, _), ..] => {
            format!("{gpus} GPUs of {} nodes are missing, node {node} among them", all.len())
        }
        [] => String::new(),
    }
}

/// What it comes to, and why.
fn evaluate(s: &Site, out: &mut HealthSummary, whole: bool, now: Time) {
    let (mut bad, mut attention) = (Vec::new(), Vec::new());
    let some = |n: usize, one: &str, many: &str| {
        if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
    };
    let held = |n: &&Arc<Node>| n.protected && n.stage != Stage::Retired;
    let protected = s.nodes.values().filter(held).count();
    if whole && protected > 0 {
        let nodes = some(protected, "node is protected", "nodes are protected");
        bad.push(format!(
            "{nodes} after a restored backup; nothing starts there until reconciled: \
             `muster nodes --state protected`, then `muster node reconcile NODE`"
        ));
    }
    if let Some(a) = out.automation.as_ref().filter(|a| a.state == "stopped") {
        bad.push(format!("automation is stopped: {}", a.reason.as_deref().unwrap_or("no reason")));
    }
    let (pending, delayed) = out.waiting_counts();
    if pending > 0 {
        bad.push(some(pending, "remediation pending approval", "remediations pending approval"));
    }
    if delayed > 0 {
        let stopped = out.automation.as_ref().is_some_and(|a| a.state == "stopped");
        let by = if stopped { "stopped automation" } else { "a limit" };
        let all = some(delayed, "remediation delayed", "remediations delayed");
        bad.push(format!("{all} by {by}"));
    }
    if whole {
        let late = |until: Option<Time>| until.is_some_and(|u| u < now);
        let n = s.health.live_remediations().filter(|r| late(r.until)).count();
        if n > 0 {
            bad.push(some(n, "remediation is overdue", "remediations are overdue"));
        }
        let stuck =
            s.nodes.values().filter(|n| n.remediation.is_none() && late(n.stage_until)).count();
        if stuck > 0 {
            bad.push(some(
                stuck,
                "node is too long in its stage",
                "nodes are too long in their stage",
            ));
        }
        let (absent, excluded) = missing_gpus(s);
        if !absent.is_empty() {
            bad.push(format!("{}, and no finding is open yet", missing_text(&absent)));
        }
        if !excluded.is_empty() {
            attention.push(format!("{}, and excluded", missing_text(&excluded)));
        }
        if out.spares > 0 && out.spares_left == 0 {
            attention.push("no spare node is left".to_owned());
        }
    }
    let untreated = if whole { s.untreated_incidents() } else { BTreeSet::new() };
    for i in &out.incidents {
        let line = format!("incident {}: {}", i.id, i.summary);
        let id = i.id.parse::<u64>().ok();
        let incident = id.and_then(|id| s.health.incidents.get(&id));
        match incident.and_then(|i| s.health.refused_breaker(i)) {
            Some(why) => bad.push(format!("{line}; no breaker was opened: {why}")),
            None if id.is_some_and(|id| untreated.contains(&id)) => {
                bad.push(format!("{line}; no remediation is active"));
            }
            None => attention.push(line),
        }
    }
    let mut critical: BTreeMap<FindingTreatment, usize> = BTreeMap::new();
    for f in out.findings.iter().filter(|f| f.severity == Severity::Critical) {
        // What the site waits for is not a tenant's to know.
        let how = Some(tended(s, f)).filter(|how| whole || *how == FindingTreatment::Acted);
        *critical.entry(how.unwrap_or(FindingTreatment::Alone)).or_default() += 1;
    }
    // Those of incidents are reported with them; but the list of what is pending has theirs, too.
    let approvals = if whole { approvals_of_incidents(s) } else { 0 };
    if approvals > 0 {
        *critical.entry(FindingTreatment::Approval).or_default() += approvals;
    }
    for (how, n) in critical {
        match how {
            FindingTreatment::Acted => attention.push(some(
                n,
                "critical finding: remediation in progress",
                "critical findings: remediation in progress",
            )),
            _ if !whole => attention.push(some(n, "critical finding", "critical findings")),
            FindingTreatment::Watched => attention.push(some(
                n,
                "critical finding is watched",
                "critical findings are watched",
            )),
            FindingTreatment::Probation => attention.push(some(
                n,
                "critical finding: its node is on probation",
                "critical findings: their nodes are on probation",
            )),
            FindingTreatment::Alone => bad.push(some(
                n,
                "critical finding has no remediation",
                "critical findings have no remediation",
            )),
            FindingTreatment::Undone | FindingTreatment::Denied => {
                bad.push(ended_by_operator(s, &out.findings, &how, n));
            }
            FindingTreatment::Approval => bad.push(some(
                n,
                "critical finding: remediation pending approval",
                "critical findings: remediation pending approval",
            )),
            FindingTreatment::Held(why) => {
                let found = some(n, "critical finding waits", "critical findings wait");
                bad.push(format!("{found}, nobody acts: {why}"));
            }
        }
    }
    let worth = [Severity::Warning, Severity::Degraded];
    let rest = out.findings.iter().filter(|f| worth.contains(&f.severity)).count();
    if rest > 0 {
        attention.push(some(rest, "lesser finding", "lesser findings"));
    }
    if !out.breakers.is_empty() {
        attention.push(some(
            out.breakers.len(),
            "breaker is not closed",
            "breakers are not closed",
        ));
    }
    // Nothing is well while somebody is paged.
    let is_page = |a: &&Alert| a.urgency == Urgency::Page && a.silenced.is_none();
    let pages: Vec<&Alert> = s.slo.open().filter(is_page).collect();
    let unseen = pages.iter().filter(|a| a.state == AlertState::Firing).count();
    let known = pages.len() - unseen;
    out.service_affected = pages.iter().any(|a| concerns_service(a, s.slo.in_force()));
    if !whole && out.service_affected {
        attention.push(OF_SERVICE.to_owned());
    }
    if !whole && !pages.is_empty() {
        // Which they are is the site's own business.
        let sent = |a: &Alert| {
            s.slo.desk.notified_of(&a.id).any(|(_, t)| t.urgency == Urgency::Page && !t.over)
        };
        let reached = pages.iter().copied().any(sent);
        attention.push(if reached { PAGED } else { UNSENT }.to_owned());
    }
    if whole && unseen > 0 {
        bad.push(some(unseen, "page is not acknowledged", "pages are not acknowledged"));
    }
    if whole && known > 0 {
        attention.push(some(known, "page is acknowledged", "pages are acknowledged"));
    }
    out.state = match (bad.is_empty(), attention.is_empty()) {
        (false, _) => "bad",
        (true, false) => "attention",
        (true, true) => "well",
    }
    .into();
    out.reasons = bad;
    out.reasons.append(&mut attention);
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::AlertChange;
    use muster_model::finding::ObservedFinding;
    use muster_model::remediation::{Action, Mode, RemediationStep};
    use muster_slo::notifications::Notification;
    use serde_json::json;

    fn alert(urgency: &str, state: &str) -> Alert {
        let text = json!({"id": "a1", "group": "g", "topic": "objective", "kind": "api-latency",
            "cause": "site", "urgency": urgency, "state": state, "summary": "it burns", "count": 1,
            "since": 0, "raised_at": 0, "changed_at": 0});
        serde_json::from_value(text).unwrap()
    }

    /// What it comes to on a site where nothing but this alert is open.
    fn judged(a: Alert, whole: bool) -> (String, Vec<String>) {
        let mut site = Site::default();
        site.slo.alerts.insert(a.id.clone(), a);
        judged_site(&site, whole)
    }

    fn empty() -> HealthSummary {
        HealthSummary {
            kind: Kind::Health,
            state: String::new(),
            service_affected: false,
            reasons: Vec::new(),
            incidents: Vec::new(),
            findings: Vec::new(),
            findings_open: 0,
            waiting: Vec::new(),
            remediations_open: 0,
            remediations_in_progress: 0,
            on_probation: 0,
            breakers: Vec::new(),
            automation: None,
            nodes: BTreeMap::new(),
            nodes_out: 0,
            spares_left: 0,
            spares: 0,
            tickets_open: 0,
            burning: Vec::new(),
        }
    }

    fn judged_site(site: &Site, whole: bool) -> (String, Vec<String>) {
        let mut out = empty();
        evaluate(site, &mut out, whole, Time(0));
        (out.state, out.reasons)
    }

    #[test]
    fn nodes_that_are_protected_come_first() {
        let node: Node = serde_json::from_value(json!({"name": "n1", "stage": "ready",
            "reachable": true, "protected": true, "address": "", "host": "", "machine": "",
            "boot": "", "enrolled_at": 0, "changed_at": 0, "version": 1,
            "inventory": {"cpu_model": "", "cpus": 8, "memory": "1GiB", "kernel": ""},
            "location": {"region": "eu", "cluster": "c", "spine": "s", "leaf": "l", "rack": "r",
                "nvlink": "n1", "feed": "A"}}))
        .unwrap();
        let mut site = Site::default();
        site.nodes.insert(node.name.clone(), Arc::new(node));
        let page = alert("page", "firing");
        site.slo.alerts.insert(page.id.clone(), page);
        let (state, reasons) = judged_site(&site, true);
        assert_eq!(state, "bad");
        assert!(reasons[0].starts_with("1 node is protected after a restored backup"));
        assert!(reasons[0].contains("muster node reconcile"), "{reasons:?}");
    }

    #[test]
    fn no_site_is_healthy_while_a_gpu_of_a_node_in_service_is_missing() {
        let node = |excluded: u64| -> Node {
            serde_json::from_value(json!({"name": "n1", "stage": "ready", "reachable": true,
                "address": "", "host": "", "machine": "", "boot": "", "enrolled_at": 0,
                "changed_at": 0, "version": 1, "excluded_gpus": excluded,
                "inventory": {"cpu_model": "", "cpus": 8, "memory": "1GiB", "kernel": ""},
                "missing_gpus": [{"index": 2, "sku": "h100-sxm", "uuid": "GPU-2",
                    "memory": "80GiB"}],
                "location": {"region": "eu", "cluster": "c", "spine": "s", "leaf": "l",
                    "rack": "r", "nvlink": "n1", "feed": "A"}}))
            .unwrap()
        };
        let evaluated = |n: Node| {
            let mut site = Site::default();
            site.nodes.insert(n.name.clone(), Arc::new(n));
            judged_site(&site, true)
        };
        let (state, reasons) = evaluated(node(0));
        assert_eq!(state, "bad");
        assert_eq!(reasons, ["GPU 2 of node n1 is missing, and no finding is open yet"]);
        let (state, reasons) = evaluated(node(4));
        assert_eq!(state, "attention");
        assert_eq!(reasons, ["GPU 2 of node n1 is missing, and excluded"]);
        // One that is out of service is counted as such.
        let out = Node { stage: Stage::Quarantined, ..node(0) };
        assert_eq!(evaluated(out).1, Vec::<String>::new());
    }

    #[test]
    fn what_was_denied_is_not_reported_as_if_nothing_had_been_chosen() {
        let mut site = Site::default();
        let mut found = muster_api::samples::finding(12);
        found.remediation = None;
        assert_eq!(tended(&site, &found), FindingTreatment::Alone);
        let remediation = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus", "node": "hgx-01",
            "action": "drain", "step_index": 0, "mode": "approve", "leave": "now", "step": "ended",
            "why": "by user:admin", "at": 0, "since": 0, "outcome": "denied"});
        site.health.remediations.insert(31, serde_json::from_value(remediation).unwrap());
        found.remediation = Some("31".into());
        assert_eq!(tended(&site, &found), FindingTreatment::Denied);
        // Who denied it, and what closes it.
        let denied =
            |of: &[Finding]| ended_by_operator(&site, of, &FindingTreatment::Denied, of.len());
        let one = denied(std::slice::from_ref(&found));
        assert!(one.contains("was denied by user:admin; `muster node qualify hgx-01`"), "{one}");
        let two = denied(&[found.clone(), found]);
        assert!(two.starts_with("2 critical findings: their remediations were denied;"), "{two}");
    }

    #[test]
    fn what_was_undone_is_not_reported_as_if_nothing_had_been_chosen() {
        let mut site = Site::default();
        let mut found = muster_api::samples::finding(12);
        let remediation = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus", "node": "hgx-01",
            "action": "drain", "step_index": 0, "mode": "approve", "leave": "now", "step": "ended",
            "why": "user:admin: a false alarm", "at": 0, "since": 0, "outcome": "undone"});
        site.health.remediations.insert(31, serde_json::from_value(remediation).unwrap());
        found.remediation = Some("31".into());
        let how = tended(&site, &found);
        assert_eq!(how, FindingTreatment::Undone);
        let one = ended_by_operator(&site, &[found], &how, 1);
        assert!(one.contains("was undone by user:admin: a false alarm; `muster node"), "{one}");
    }

    #[test]
    fn a_node_on_probation_is_no_remediation_in_progress() {
        let mut found = muster_api::samples::finding(12);
        found.remediation = Some("31".into());
        let at = |step: &str, action: &str| {
            let remediation = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus",
                "node": "hgx-01", "action": action, "step_index": 0, "mode": "automatic",
                "leave": "now", "step": step, "why": "", "at": 0, "since": 0});
            let mut site = Site::default();
            site.health.remediations.insert(31, serde_json::from_value(remediation).unwrap());
            // As it is read at a start: what goes on, and where, follows from it.
            let bytes = site.to_bytes().unwrap();
            let site = Site::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
            let mut out = empty();
            out.findings = vec![found.clone()];
            evaluate(&site, &mut out, true, Time(0));
            (tended(&site, &found), out.state, out.reasons)
        };
        let shown = |how, why: &str| (how, "attention".to_owned(), vec![why.to_owned()]);
        assert_eq!(
            at("probation", "reboot"),
            shown(FindingTreatment::Probation, "1 critical finding: its node is on probation")
        );
        assert_eq!(
            at("testing", "reboot"),
            shown(FindingTreatment::Acted, "1 critical finding: remediation in progress")
        );
        assert_eq!(
            at("proposed", "watch"),
            shown(FindingTreatment::Watched, "1 critical finding is watched")
        );
    }

    #[test]
    fn a_finding_is_pending_approval_where_its_remediation_is() {
        let at = |action: &str, mode: &str, approved: Option<&str>| {
            let remediation = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus",
                "node": "hgx-01", "action": action, "step_index": 0, "mode": mode,
                "leave": "now", "step": "proposed", "why": "so", "at": 0, "since": 0,
                "approved": approved});
            let mut site = Site::default();
            site.health.remediations.insert(31, serde_json::from_value(remediation).unwrap());
            let shown = remediations::view(&site, &site.health.remediations[&31]);
            (tended(&site, &muster_api::samples::finding(12)), shown.state)
        };
        let approval = (FindingTreatment::Approval, "pending approval".to_owned());
        assert_eq!(at("drain", "approve", None), approval, "the policy has an operator decide");
        let held = (FindingTreatment::Held("so".into()), "delayed".to_owned());
        assert_eq!(at("reboot", "approve", None), held, "a limit delays that its node is taken");
        assert_eq!(at("reboot", "approve", Some("user:ann")).0, FindingTreatment::Acted);
    }

    #[test]
    fn findings_are_not_counted_as_what_is_pending_approval() {
        let remediation = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus", "node": "hgx-01",
            "action": "reboot", "step_index": 0, "mode": "approve", "leave": "now",
            "step": "approval", "why": "", "at": 0, "since": 0});
        let remediation: muster_model::remediation::Remediation =
            serde_json::from_value(remediation).unwrap();
        let mut site = Site::default();
        let mut out = empty();
        out.waiting = vec![remediations::view(&site, &remediation)];
        site.health.remediations.insert(31, Arc::new(remediation));
        out.findings = [12, 13].map(muster_api::samples::finding).into();
        evaluate(&site, &mut out, true, Time(0));
        let both =
            ["1 remediation pending approval", "2 critical findings: remediation pending approval"];
        assert_eq!(out.reasons, both);
    }

    /// A rack is lost: its page is acknowledged, and the remediations of its nodes were superseded by the
    /// incident.
    #[test]
    fn an_incident_about_which_nothing_is_done_needs_an_operator() {
        let mut incident = muster_model::finding::Incident {
            id: 40,
            cause: muster_model::entity::Entity::Site,
            kind: "rack-loss".into(),
            severity: Severity::Critical,
            summary: "4 of 4 nodes of rack r1 are lost".into(),
            began_at: Time(0),
            opened_at: Time(0),
            findings: Vec::new(),
            count: 4,
            owner: None,
            notes: Vec::new(),
            closed: None,
            part_of: None,
        };
        let mut site = Site::default();
        let known = alert("page", "acknowledged");
        site.slo.alerts.insert(known.id.clone(), known);
        for id in 31..35_u64 {
            let over = json!({"id": id, "finding": id - 10, "kind": "node-lost",
                "node": format!("n{id}"), "action": "drain", "step_index": 0, "mode": "approve",
                "leave": "now", "step": "ended", "why": "", "at": 0, "since": 0,
                "outcome": "superseded"});
            let entity = format!("node:n{id}").parse().unwrap();
            let found = ModelFinding {
                id: id - 10,
                seen: ObservedFinding::new("node-lost", entity, Severity::Critical, Time(0)),
                opened_at: Time(0),
                inferred: false,
                incident: Some(40),
                remediation: Some(id),
                closed: None,
            };
            incident.findings.push(found.id);
            site.health.remediations.insert(id, serde_json::from_value(over).unwrap());
            site.health.findings.insert(found.id, Arc::new(found));
        }
        let mut out = HealthSummary { incidents: vec![incidents::view(&incident)], ..empty() };
        site.health.incidents.insert(40, Arc::new(incident));
        // As it is read at a start: what is open, and where, follows from it.
        let read = |site: &Site| {
            let bytes = site.to_bytes().unwrap();
            Site::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap()
        };
        evaluate(&read(&site), &mut out, true, Time(0));
        let none = "incident 40: 4 of 4 nodes of rack r1 are lost; no remediation is active";
        assert_eq!((&out.state[..], &out.reasons[0][..]), ("bad", none), "{:?}", out.reasons);
        // Something is done about one of them.
        let mut first = (*site.health.remediations[&31]).clone();
        (first.outcome, first.step) = (None, RemediationStep::Moving);
        site.health.remediations.insert(31, Arc::new(first));
        let mut out = HealthSummary { incidents: out.incidents, ..empty() };
        evaluate(&read(&site), &mut out, true, Time(0));
        assert_eq!(out.state, "attention", "{:?}", out.reasons);
    }

    #[test]
    fn what_was_denied_stays_listed_when_an_incident_takes_it_in() {
        let remediation = |outcome: Option<&str>| -> Site {
            let text = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus", "node": "hgx-01",
                "action": "drain", "step_index": 0, "mode": "approve", "leave": "now",
                "step": "ended", "why": "by user:admin", "at": 0, "since": 0, "outcome": outcome});
            let mut site = Site::default();
            site.health.remediations.insert(31, serde_json::from_value(text).unwrap());
            site
        };
        let entity = "gpu:hgx-01/3".parse().unwrap();
        let mut found = ModelFinding {
            id: 12,
            seen: ObservedFinding::new("gpu-off-bus", entity, Severity::Critical, Time(0)),
            opened_at: Time(0),
            inferred: false,
            incident: None,
            remediation: Some(31),
            closed: None,
        };
        let resolved = remediation(Some("resolved"));
        assert!(has_own_line(&resolved, &found, true), "it is part of no incident");
        found.incident = Some(40);
        for (outcome, listed) in
            [(Some("denied"), true), (Some("undone"), true), (Some("resolved"), false)]
        {
            let site = remediation(outcome);
            assert_eq!(has_own_line(&site, &found, true), listed, "{outcome:?}");
            assert!(has_own_line(&site, &found, false), "tenants see no incidents");
        }
    }

    #[test]
    fn what_a_limit_delays_is_not_called_pending_approval() {
        let at = |step: &str| -> muster_model::remediation::Remediation {
            let text = json!({"id": 31, "finding": 12, "kind": "gpu-off-bus", "node": "hgx-01",
                "action": "reboot", "step_index": 0, "mode": "approve", "leave": "now",
                "step": step, "why": "", "at": 0, "since": 0});
            serde_json::from_value(text).unwrap()
        };
        let mut site = Site::default();
        let mut out = empty();
        out.waiting = ["proposed", "approval"].map(|s| remediations::view(&site, &at(s))).into();
        assert_eq!(out.waiting_counts(), (1, 1));
        evaluate(&site, &mut out, false, Time(0));
        let both = ["1 remediation pending approval", "1 remediation delayed by a limit"];
        assert_eq!(out.reasons, both);
        // Where taking a node waits for an operator by the policy, nothing delays it.
        let mut policy = (*site.policy).clone();
        policy.remediations.modes.insert(Action::Drain, Mode::Approve);
        site.policy = Arc::new(policy);
        let mut out = empty();
        out.waiting = vec![remediations::view(&site, &at("proposed"))];
        out.automation = Some(automation::view(&site, Time(0)));
        evaluate(&site, &mut out, true, Time(0));
        assert_eq!(out.reasons, ["1 remediation pending approval"]);
        // What ended, and what was approved, waits for nobody.
        let approved = muster_model::remediation::Remediation {
            approved: Some("user:ann".into()),
            ..at("proposed")
        };
        assert!(!remediations::view(&Site::default(), &approved).delayed);
    }

    #[test]
    fn operators_are_called_paged_once_a_page_was_sent() {
        let page = alert("page", "firing");
        let mut site = Site::default();
        let alerts = vec![(page.id.clone(), AlertChange::Firing)];
        site.slo.alerts.insert(page.id.clone(), page);
        assert_eq!(judged_site(&site, false).1, [OF_SERVICE, UNSENT]);
        let letter = Notification { to: "duty".parse().unwrap(), alerts };
        let slo = &mut site.slo;
        slo.desk.sent(Time(0), &letter, &slo.alerts);
        assert_eq!(judged_site(&site, false).1, [OF_SERVICE, PAGED]);
    }

    #[test]
    fn tickets_and_objectives_that_burn_are_named_beside_the_state() {
        let with = |a: Alert| {
            let mut site = Site::default();
            site.slo.alerts.insert(a.id.clone(), a);
            beside(&site)
        };
        let (ticket, none) = (alert("ticket", "firing"), (0, Vec::new()));
        let burns = vec!["api-latency".to_owned()];
        assert_eq!(with(ticket.clone()), (1, burns.clone()));
        assert_eq!(with(Alert { topic: Topic::Finding, ..ticket.clone() }), (1, Vec::new()));
        assert_eq!(with(alert("page", "firing")), (0, burns));
        assert_eq!(with(alert("ticket", "resolved")), none);
        let quiet = Alert { silenced: Some("fans".parse().unwrap()), ..ticket };
        assert_eq!(with(quiet), none);
    }

    #[test]
    fn nothing_is_well_while_somebody_is_paged() {
        let said = |a: Alert, whole: bool| {
            let (state, reasons) = judged(a, whole);
            (state, reasons.join("; "))
        };
        let want = |state: &str, why: &str| (state.to_owned(), why.to_owned());
        let page = alert("page", "firing");
        assert_eq!(said(page.clone(), true), want("bad", "1 page is not acknowledged"));
        let known = alert("page", "acknowledged");
        assert_eq!(said(known, true), want("attention", "1 page is acknowledged"));
        // It is about the API: that concerns everybody.
        let both = format!("{OF_SERVICE}; {UNSENT}");
        assert_eq!(said(page.clone(), false), want("attention", &both));
        let goodput = Alert { kind: "goodput".into(), ..page.clone() };
        assert_eq!(said(goodput, false), want("attention", UNSENT));
        // What nobody is woken for.
        let quiet = Alert { silenced: Some("fans".parse().unwrap()), ..page };
        for a in [alert("ticket", "firing"), alert("page", "resolved"), quiet] {
            assert_eq!(said(a.clone(), true), want("well", ""), "{a:?}");
            assert_eq!(said(a, false), want("well", ""));
        }
    }
}
