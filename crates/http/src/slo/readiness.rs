//! Is the site ready for its objectives?

use crate::auth::Reader;
use crate::error::Reply;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Kind, Readiness, ReadinessCheck};
use muster_engine::State as Engine;
use muster_model::alert::{MatcherInput, Topic, Urgency};
use muster_model::entity::Entity;
use muster_model::job::JobState;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::qualification::Outcome;
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_model::{FailureMode, Seq};
use muster_slo::readiness::{Site, checks, is_ready};

/// A node reports metrics while its newest are younger than this.
const FRESH: Span = Span::mins(1);

/// An alert's link leads to a runbook that is there, or out of Muster to the site's own.
fn has_book(s: &Engine, link: &str) -> bool {
    match link.strip_prefix("/runbooks/") {
        Some(name) => s.runbooks.find(name).is_some(),
        None => !link.is_empty(),
    }
}

fn facts(s: &Engine) -> Site {
    let nodes =
        || s.nodes.values().filter(|n| !matches!(n.stage, Stage::Enrolled | Stage::Retired));
    let seen = MatcherInput {
        urgency: Urgency::Page,
        topic: Topic::Incident,
        kind: FailureMode::LEAF_LOSS.code(),
        entity: &Entity::Site,
        above: &[],
        owner: "",
        project: None,
    };
    let count = |n: usize| n as u64;
    let differ = s.health.open().filter(|f| f.seen.kind == FailureMode::CONFIG_DRIFT);
    let differ: Vec<&Entity> = differ.map(|f| &f.seen.entity).collect();
    // One finding may be about all nodes with a version.
    let drifts = |n: &Node| {
        differ.iter().any(|e| match e {
            Entity::Version(c, v) => n.inventory.versions.get(c) == Some(v),
            e => e.node() == Some(&n.name),
        })
    };
    let drifted = nodes().filter(|n| drifts(n)).count();
    Site {
        stated: s.slo.is_stated(),
        objectives: s.slo.in_force().to_vec(),
        nodes: count(nodes().count()),
        tested: count(
            nodes()
                .filter(|n| {
                    n.qualified.as_ref().is_some_and(|q| q.report.outcome == Outcome::Passed)
                })
                .count(),
        ),
        drifted: count(drifted),
        unplaced: count(nodes().filter(|n| !n.location.is_placed()).count()),
        protected: count(nodes().filter(|n| n.protected).count()),
        spares: count(nodes().filter(|n| n.role == NodeRole::Spare).count()),
        spares_left: s.spares().values().map(|of| u64::from(of.ready)).sum(),
        succeeded: count(s.jobs.values().filter(|j| j.state == JobState::Succeeded).count()),
        receivers: count(s.slo.routing.receivers.len()),
        paged: s.slo.routing.routes_of(&seen).iter().any(|r| !r.to.is_empty()),
        alerts: count(s.slo.open().count()),
        without_runbook: count(s.slo.open().filter(|a| !has_book(s, &a.runbook)).count()),
        quotas: !s.quotas.tree.is_empty(),
        limits: s.policy.limits.max_time.is_some(),
        preemption: s.policy.preemption.enabled,
        automation: s.policy.remediations.enabled && s.health.automation.stopped.is_none(),
        ..Site::default()
    }
}

/// Go through the checklists of operators: what is there, what is missing, how to fix it.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/readiness", tag = "slo",
    responses((status = 200, description = "The checklists.", body = Readiness))))]
pub(crate) async fn get(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Viewer)?;
    // Every node and every job is looked at: done aside.
    let asked = app.clone();
    let (seq, body) = app.aside(&caller.token, move || view(&asked)).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

fn view(app: &App) -> (Seq, Readiness) {
    let now = app.brain().now();
    let (seq, mut site, names) = app.objective_statuses().read(app.brain(), |s, moment| {
        let names: Vec<_> = s
            .nodes
            .values()
            .filter(|n| !matches!(n.stage, Stage::Enrolled | Stage::Retired))
            .map(|n| n.name.clone())
            .collect();
        let mut site = facts(s);
        site.counted = moment.all.iter().filter(|o| o.status.sli.is_some()).count() as u64;
        (s.seq, site, names)
    });
    // What a node said before it fell silent does not count.
    let is_fresh = |age: Span| age < FRESH;
    let names_reporting =
        names.iter().filter(|n| app.agents().metrics_age(n, now).is_some_and(is_fresh));
    site.reporting = names_reporting.count() as u64;
    let backlog = app.post().backlog(app.brain(), now);
    let failing = backlog.into_iter().filter(|b| b.line.failures > 0);
    site.failing = failing.map(|b| b.receiver.to_string()).collect();
    let all = checks(&site);
    let body = Readiness {
        kind: Kind::Readiness,
        ready: is_ready(&all),
        checks: all
            .into_iter()
            .map(|c| ReadinessCheck {
                check: c.code.to_owned(),
                list: c.list.to_owned(),
                what: c.what.to_owned(),
                state: c.state.word().to_owned(),
                found: c.found,
                fix: c.fix,
            })
            .collect(),
    };
    (seq, body)
}
