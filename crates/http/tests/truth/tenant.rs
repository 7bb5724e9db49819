//! What a tenant sees: the same as the log restricted to the project, and nothing of others.

use super::asker::listed;
use super::fold::Fold;
use super::moment::MomentAnswers;
use super::{Contradictions, documents, events, jobs, lists, map};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LOG: &str = "the log of the project";

/// Contradictions that only a tenant would see say so.
pub(super) fn view(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let Some((project, theirs)) = &said.tenant else { return };
    let mut own = log.of_project(project);
    hide_others(&mut own, theirs);
    let mut found = Contradictions::default();
    jobs::list_and_log(&own, theirs, &mut found);
    jobs::list_and_description(theirs, &mut found);
    jobs::state_and_parts(theirs, &mut found);
    jobs::explanation(theirs, &mut found);
    jobs::never_is_not_for_want_of_room(theirs, &mut found);
    jobs::reports_of_jobs(theirs, &mut found);
    usage(&own, theirs, &mut found);
    status(&own, said, theirs, &mut found);
    quota(project, said, theirs, &mut found);
    search(&own, theirs, &mut found);
    lists::of_tenant(project, said, theirs, &mut found);
    documents::of_tenant(project, said, theirs, &mut found);
    events::of_tenant(project, log, theirs, &mut found);
    map::of_tenant(&own, said, theirs, &mut found);
    failure_modes(theirs, &mut found);
    wrong.0.extend(found.0.into_iter().map(|c| format!("to a tenant of {project}: {c}")));
}

/// A job that made room for one of another project, or for a reservation, is shown without its name.
fn hide_others(own: &mut Fold, theirs: &MomentAnswers) {
    let numbers: BTreeSet<_> = own.jobs.keys().copied().collect();
    for job in own.jobs.values_mut() {
        let Some(stop) = job.stop.as_ref().filter(|s| job.reason == Some(s.to_string())) else {
            continue;
        };
        let is_own = stop.preempted_for().is_some_and(|other| numbers.contains(&other));
        if is_own || (stop.preempted_for(), stop.reservation()) == (None, None) {
            continue;
        }
        let unnamed = stop.unnamed().to_string();
        let words = unnamed
            .replace("another job", "a job of another project")
            .replace("a reservation begins", "a reservation of another project begins");
        let shown = theirs.jobs.iter().find(|j| j["id"] == job.name.as_str());
        let said = shown.and_then(|j| j["reason"].as_str());
        // Whether a reservation may be named, and whose a forgotten job was, the log does not say.
        let may_be_named = stop.reservation().is_some() && said == job.reason.as_deref();
        if !may_be_named {
            job.reason = Some(if said == Some(&unnamed) { unnamed } else { words });
        }
    }
}

/// What became of the project's jobs, and of nobody else's.
fn usage(own: &Fold, theirs: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/reports/fleet";
    let jobs = &theirs.fleet["total"]["jobs"];
    let failed = jobs["failed"].as_object().into_iter().flatten();
    let failed: u64 = failed.filter_map(|(_, n)| n.as_u64()).sum();
    for (what, says, known) in [
        ("submitted", jobs["submitted"].clone(), own.ends.submitted),
        ("succeeded", jobs["succeeded"].clone(), own.ends.succeeded),
        ("cancelled", jobs["cancelled"].clone(), own.ends.cancelled),
        ("failed", json!(failed), own.ends.failed),
    ] {
        wrong.same(format!("own jobs that were {what}"), (who, says), (LOG, json!(known)));
    }
    let others = listed(&theirs.fleet["inventory"]);
    wrong.holds(others.is_empty(), "the fleet's GPUs are not a tenant's", who, &theirs.fleet);
}

/// The site in short: own jobs are counted, and a page is reported without its cause.
fn status(own: &Fold, said: &MomentAnswers, theirs: &MomentAnswers, wrong: &mut Contradictions) {
    let over = ["succeeded", "failed", "cancelled"];
    let active = own.jobs.values().filter(|j| !over.contains(&j.state)).count();
    let counted = theirs.server["jobs_active"].clone();
    wrong.same("own jobs that are active", ("GET /v1/server", counted), (LOG, json!(active)));
    let who = "GET /v1/health";
    let health = &theirs.health;
    for part in ["nodes", "nodes_out", "service_affected"] {
        let (one, other) = (health[part].clone(), said.health[part].clone());
        wrong.same(part, (who, one), ("GET /v1/health to an operator", other));
    }
    for part in ["incidents", "waiting", "breakers"] {
        let none = listed(&health[part]).is_empty();
        wrong.holds(none, format!("{part} are not a tenant's"), who, health);
    }
    wrong.holds(health["automation"].is_null(), "automation is not a tenant's", who, health);
    let open = json!(theirs.findings.len());
    let counted = health["findings_open"].clone();
    wrong.same("open findings of own jobs", (who, counted), ("GET /v1/findings", open));
    let all: BTreeSet<&str> = said.findings.iter().filter_map(|f| f["id"].as_str()).collect();
    for f in &theirs.findings {
        let known = f["id"].as_str().is_some_and(|id| all.contains(id));
        wrong.holds(known, "an operator sees what a tenant sees", "GET /v1/findings", f);
    }
    let pages =
        |a: &&Value| a["urgency"] == "page" && a["state"] == "firing" && a["silenced"].is_null();
    if said.alerts.iter().any(|a| pages(&a)) {
        let what = "all is well while somebody is paged";
        wrong.holds(health["state"] != "well", what, who, health);
    }
    let reasons = listed(&health["reasons"]).len();
    let what = "there is a reason exactly when not all is well";
    wrong.holds((health["state"] == "well") == (reasons == 0), what, who, health);
}

/// Quotas on the way up, and the own account as an operator sees it.
fn quota(project: &str, said: &MomentAnswers, theirs: &MomentAnswers, wrong: &mut Contradictions) {
    let who = "GET /v1/quotas";
    let names = |q: &Value| -> BTreeSet<String> {
        let rows = listed(&q["report"]["quotas"]);
        rows.iter().filter_map(|r| r["name"].as_str().map(str::to_owned)).collect()
    };
    let known = names(&theirs.quotas).is_subset(&names(&said.quotas));
    wrong.holds(known, "an operator sees these quotas too", who, &theirs.quotas["report"]);
    for row in listed(&theirs.quotas["report"]["quotas"]) {
        let others = listed(&row["projects"]).iter().any(|p| *p != json!(project));
        wrong.holds(!others, "other projects are not named", who, &row);
        wrong.holds(row["used_milli"].is_null(), "what all use is not reported", who, &row);
    }
    let whole = |q: &Value| {
        let rows = listed(&q["report"]["accounts"]);
        let own = |a: &&Value| a["project"] == project && a["user"].is_null();
        let row = rows.iter().find(own).cloned().unwrap_or_default();
        json!([row["used_milli"], row["running"], row["waiting"]])
    };
    let (one, other) = (whole(&theirs.quotas), whole(&said.quotas));
    wrong.same("the own account", (who, one), ("GET /v1/quotas to an operator", other));
    for account in listed(&theirs.quotas["report"]["accounts"]) {
        let own = account["project"] == project;
        wrong.holds(own, "accounts of others are not shown", who, &account);
    }
}

/// Failure modes count the findings that the project is shown.
fn failure_modes(theirs: &MomentAnswers, wrong: &mut Contradictions) {
    for mode in &theirs.modes {
        let open = theirs.findings.iter().filter(|f| f["kind"] == mode["code"]).count();
        let what = format!("failure mode {}: open findings of own jobs", mode["code"]);
        let counted = ("GET /v1/failure-modes", mode["open"].clone());
        wrong.same(what, counted, ("GET /v1/findings", json!(open)));
    }
}

/// Only own jobs are found.
fn search(own: &Fold, theirs: &MomentAnswers, wrong: &mut Contradictions) {
    let heads = own.jobs.values().filter_map(|j| j.name.split('_').next());
    let known: BTreeSet<&str> = own.jobs.values().map(|j| j.name.as_str()).chain(heads).collect();
    for (what, hits) in &theirs.found {
        for hit in hits.iter().filter(|h| h["kind"] == "job") {
            let mine = hit["id"].as_str().is_some_and(|id| known.contains(id));
            wrong.holds(mine, format!("only own jobs are found for {what}"), "GET /v1/search", hit);
        }
    }
}
